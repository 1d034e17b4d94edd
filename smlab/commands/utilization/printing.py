"""What ``smlab utilization`` prints: the interval and the verdict first, then why and what to try."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from smlab.cli.tables import Listing
from smlab.cli.terminal import out, shown
from smlab.commands.profiles import PRINTED_ROWS, kernel_column, label
from smlab.commands.utilization.api import UtilizationResult
from smlab.commands.utilization.rows import LEVEL, LaunchRow, launches
from smlab.models.counter_sets import ATOMIC, REQUESTS, SAMPLES, STATES
from smlab.models.verdict import BOTTLENECK, CANNOT_TELL, NOT, percent_range

COLOUR = {BOTTLENECK: "red", NOT: "green", CANNOT_TELL: "yellow"}


def print_answer(a: UtilizationResult) -> None:
    """One profile, a row a launch: what is counted on each SM is shown as the mean over them."""
    out.print(
        f"[bold]{shown(label(a.profile))}[/bold] on {shown(a.gpu.title)}: is the shared-memory atomic unit "
        "the bottleneck?"
    )
    rows = launches(a.kernels)
    if len(rows) > PRINTED_ROWS:
        out.print(f"the {PRINTED_ROWS} busiest of {len(rows):,} launches (--json gives all)")
        rows = sorted(rows, key=lambda row: -row.utilization)[:PRINTED_ROWS]
    listed = Listing()
    kernel_column(listed)
    listed.add_column("launch", justify="right", drop=1)
    listed.add_column("occupied %", justify="right")
    listed.add_column("satur. %", justify="right", drop=3)
    listed.add_column(f"busy %, {100 * LEVEL:.0f} % interval", justify="right")
    listed.add_column("verdict", fold=True, min_width=len(CANNOT_TELL))
    listed.add_column("best guess %", justify="right", drop=2)
    by_sm = any(row.sms for row in rows)
    if by_sm:
        listed.add_column("SMs", justify="right", drop=4)
    for heading, drop in (("e", 5), ("S cycles", 6), ("warps", 7), ("as published %", 8)):
        listed.add_column(heading, justify="right", drop=drop)
    for row in rows:
        listed.add_row(
            shown(row.kernel),
            str(row.launch),
            f"{100 * row.occupied:.0f}",
            f"{100 * row.saturation:.0f}",
            percent_range(row.low, row.high),
            f"[{COLOUR[row.verdict]}]{row.verdict}[/]",
            f"{100 * row.utilization:.1f}",
            *([str(row.sms or "all")] if by_sm else []),
            *(_number(x) for x in (row.e, row.service_cycles, row.warps, 100 * row.utilization_occupancy)),
        )
    if rows:
        out.print(listed)
        out.print(
            "occupied: the unit at work, if kept fed (100: it takes no more); busy: a job in it, most of "
            "whose time may be latency"
        )
        _print_held(a)
        _print_gains(rows)
        _print_alternatives(rows)
    else:
        out.print(f"{NOT}: no launch in it uses shared-memory atomics")
    for (kernel, verdict, reason, advice), where in _reasons(rows).items():
        out.print(f"[bold]{shown(kernel)}[/bold]{where}: [{COLOUR[verdict]}]{verdict}[/]: {shown(reason)}")
        for text in advice:
            out.print(f"  - {shown(text)}")
    for flag in dict.fromkeys(flag for row in a.kernels for flag in row.flags):
        count = sum(flag in row.flags for row in a.kernels)
        out.print(f"[yellow]note[/yellow]: {shown(flag)} ({count:,} rows)")
    by_reason: dict[str, list[str]] = {}
    for kernel, reason in a.skipped:
        by_reason.setdefault(reason, []).append(kernel)
    for reason, kernels in by_reason.items():
        names = list(dict.fromkeys(kernels))
        some = ", ".join(names[:5]) + (f" and {len(names) - 5:,} more" if len(names) > 5 else "")
        out.print(f"skipped {len(kernels):,} of the launches, {shown(reason)}: {shown(some)}")


def _print_held(a: UtilizationResult) -> None:
    """How often intervals such as these held where the truth is known."""
    held = a.held
    out.print(
        f"{100 * LEVEL:.0f} % intervals, for kinds of kernels left out of their fit, held the truth "
        f"{held.mean:.0f} % of the time ({held.families} kinds, simulated; {held.least:.0f} % for "
        f"{held.least_family}); the best guess has none"
    )


CHANGED: Final = {"faster_unit": "with a unit twice as fast", "no_conflicts": "with no conflicts (e = 1)"}
TOLD_FROM: Final = {
    ATOMIC: "launch and atomic counters",
    REQUESTS: "launch and atomic counters and requests of the memory path",
    STATES: "launch and atomic counters, requests and warp states",
    SAMPLES: "launch and atomic counters, requests, warp states and a source page",
}
MORE: Final = {
    ATOMIC: "the counters that --how lists would narrow it",
    REQUESTS: "warp states (--how) would narrow it",
    STATES: "the samples of a source page (--samples) would narrow it",
}


def _print_gains(rows: Sequence[LaunchRow]) -> None:
    """What a change would bring, for the first launch of each kernel, and which counters tell it."""
    first: dict[str, LaunchRow] = {}
    for row in rows:
        first.setdefault(row.kernel, row)
    for row in first.values():
        if row.gain:
            each = "; ".join(
                f"{CHANGED[g.change]} {g.low:.2f} to {g.high:.2f} times as fast" for g in row.gain
            )
            out.print(f"[bold]{shown(row.kernel)}[/bold], {100 * LEVEL:.0f} % intervals: {shown(each)}")
    for used in dict.fromkeys(row.counters for row in rows):
        out.print(f"told from {TOLD_FROM[used]}" + (f"; {MORE[used]}" if used in MORE else ""))


APART: Final = 0.03
"""How far two alternatives differ, as a share of the elapsed cycles, before both are printed."""


def _print_alternatives(rows: Sequence[LaunchRow]) -> None:
    """Which alternative of the description gives what, for the kernels where they disagree."""
    first: dict[str, LaunchRow] = {}
    for row in rows:
        first.setdefault(row.kernel, row)
    for row in first.values():
        ends = np.array([(x.occupied, x.low, x.high) for x in row.alternatives])
        if len(ends) < 2 or np.ptp(ends, axis=0).max() < APART:
            continue
        each = "; ".join(
            f"{x.name}: occupied {100 * x.occupied:.0f} %, busy {percent_range(x.low, x.high)} %, {x.verdict}"
            for x in row.alternatives
        )
        out.print(f"[bold]{shown(row.kernel)}[/bold], by what the evidence leaves open: {shown(each)}")


def _reasons(rows: Sequence[LaunchRow]) -> dict[tuple[str, str, str, tuple[str, ...]], str]:
    """What is said of each kernel, once for all launches of which it is the same but for numbers; with which
    of its SMs it is of."""
    told: dict[tuple[str, str, tuple[str, ...]], tuple[str, str]] = {}
    for row in rows:
        where = f" (the busiest of {row.agreeing} of {row.sms} SMs)" if row.sms else ""
        told.setdefault((row.kernel, row.verdict, row.why.advice), (row.why.reason, where))
    return {(k, v, reason, advice): where for (k, v, advice), (reason, where) in told.items()}


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.1f}"


def print_compared(
    compared: Sequence[dict[str, Any]], before: UtilizationResult, after: UtilizationResult
) -> None:
    """Two profiles, kernel by kernel: did the bottleneck move? Without ``--compare``, each is told alone."""
    gpus = dict.fromkeys((before.gpu.title, after.gpu.title))
    out.print(
        f"[bold]{shown(label(before.profile))}[/bold] and [bold]{shown(label(after.profile))}[/bold] on "
        f"{shown(' and '.join(gpus))}: the shared-memory atomic unit"
    )
    listed = Listing()
    kernel_column(listed)
    for heading in ("before", "after", "time", "the bottleneck moved"):
        listed.add_column(heading, fold=True)
    for row in compared:
        ends = [
            f"busy {percent_range(x['low'], x['high'])} %, {x['verdict']}" if x else "-"
            for x in (row["before"], row["after"])
        ]
        both = row["before"] and row["after"]
        ratio = f"{row['after']['elapsed_cycles'] / row['before']['elapsed_cycles']:.2f}x" if both else "-"
        listed.add_row(shown(row["kernel"]), *ends, ratio, row["moved"])
    out.print(listed)
    _print_held(after)

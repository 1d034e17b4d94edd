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
from smlab.hw_bench.sass.linking import readable_name
from smlab.models.utilization.counter_sets import ATOMIC, REQUESTS, SAMPLES, STATES
from smlab.models.utilization.verdict import BOTTLENECK, CANNOT_TELL, NOT, percent_range

COLOUR = {BOTTLENECK: "red", NOT: "green", CANNOT_TELL: "yellow"}


def print_answer(a: UtilizationResult, details: bool = False) -> None:
    """One profile, a row a launch; what is counted on each SM is shown as the mean over them. Without
    ``details`` the verdicts, what they rest on and the first thing to try."""
    rows = launches(a.kernels)
    held_back = sum(row.verdict == BOTTLENECK for row in rows)
    where = f"[bold]{shown(label(a.profile))}[/bold] on {shown(a.gpu.title)}"
    if rows:
        out.print(
            f"{where}: the shared-memory atomic unit is the bottleneck of {held_back:,} of {len(rows):,} "
            f"kernel{'' if len(rows) == 1 else 's'}"
        )
    else:
        out.print(f"{where}: {NOT}: no launch in it uses shared-memory atomics")
    if len(rows) > PRINTED_ROWS:
        out.print(f"the {PRINTED_ROWS} busiest (--json gives all)")
        rows = sorted(rows, key=lambda row: -row.utilization)[:PRINTED_ROWS]
    if rows:
        out.print(_table(rows, details))
    if details:
        _print_gains(rows)
        _print_alternatives(rows)
        _print_reasons(rows)
        if rows:
            out.print(LEGEND)
            _print_coverage(a)
    else:
        _print_advice(rows)
    for flag in dict.fromkeys(flag for row in a.kernels for flag in row.flags):
        count = sum(flag in row.flags for row in a.kernels)
        out.print(f"[yellow]note[/yellow]: {shown(flag)} ({count:,} rows)")
    by_reason: dict[str, list[str]] = {}
    for kernel, reason in a.skipped:
        by_reason.setdefault(reason, []).append(readable_name(kernel))
    for reason, kernels in by_reason.items():
        names = list(dict.fromkeys(kernels))
        some = ", ".join(names[:5]) + (f" and {len(names) - 5:,} more" if len(names) > 5 else "")
        out.print(f"left out, {shown(reason)}: {shown(some)}")
    if rows and not details:
        out.print(
            f"[dim]busy: share of the time with an atomic in the unit ({100 * LEVEL:.0f} % interval); "
            "e: lanes that conflict; 2x unit: speedup if the unit were twice as fast. "
            "--details: reasons, more advice[/dim]"
        )


LEGEND: Final = (
    "occupied: share of the time that the atomic unit works if its queue never empties (100: it takes no "
    "more). busy: share of the time with an atomic in it, working or waiting. guess: its best estimate"
)


def _table(rows: Sequence[LaunchRow], details: bool) -> Listing:
    listed = Listing()
    kernel_column(listed)
    if details or len({row.kernel for row in rows}) < len(rows):
        listed.add_column("launch", justify="right", drop=2)
    listed.add_column("verdict", fold=True, min_width=len(CANNOT_TELL))
    listed.add_column("busy %", justify="right")
    listed.add_column("e", justify="right")
    listed.add_column("2x unit", justify="right", drop=1)
    more = (
        ("occupied %", 3),
        ("guess %", 4),
        ("satur. %", 5),
        ("S cycles", 7),
        ("warps", 8),
        ("as published %", 9),
    )
    by_sm = any(row.sms for row in rows)
    if details:
        if by_sm:
            listed.add_column("SMs", justify="right", drop=6)
        for heading, drop in more:
            listed.add_column(heading, justify="right", drop=drop)
    for row in rows:
        cells = [_name(row)]
        if listed.headings[1].text == "launch":
            cells.append(str(row.launch))
        cells += [
            f"[{COLOUR[row.verdict]}]{row.verdict}[/]",
            percent_range(row.low, row.high),
            _number(row.e),
            next((f"{g.low:.2f} to {g.high:.2f}" for g in row.gain if g.change == "faster_unit"), "-"),
        ]
        if details:
            cells += [str(row.sms or "all")] if by_sm else []
            cells += [f"{100 * row.occupied:.0f}"]
            cells += [f"{100 * row.utilization:.1f}", f"{100 * row.saturation:.0f}"]
            cells += [_number(x) for x in (row.service_cycles, row.warps, 100 * row.utilization_occupancy)]
        listed.add_row(*cells)
    return listed


def _name(row: LaunchRow) -> str:
    return shown(readable_name(row.kernel))


def _print_advice(rows: Sequence[LaunchRow]) -> None:
    """The first thing to try for each kernel that may gain."""
    told: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        if row.why.advice:
            told.setdefault(row.why.advice, []).append(_name(row))
    for advice, names in told.items():
        more = f" [dim](and {len(advice) - 1} more)[/dim]" if len(advice) > 1 else ""
        out.print(f"{', '.join(dict.fromkeys(names))}: {shown(advice[0])}{more}")


def _print_reasons(rows: Sequence[LaunchRow]) -> None:
    for (kernel, verdict, reason, advice), where in _reasons(rows).items():
        out.print(f"[bold]{shown(kernel)}[/bold]{where}: [{COLOUR[verdict]}]{verdict}[/]: {shown(reason)}")
        for text in advice:
            out.print(f"  - {shown(text)}")


def _print_coverage(a: UtilizationResult) -> None:
    """How often intervals such as these cover a truth that is known."""
    held = a.held
    out.print(
        f"{100 * LEVEL:.0f} % intervals cover the truth of {held.mean:.0f} % of simulated kernels "
        f"({held.families} families, each left out of the fit; least: {held.least_family}, "
        f"{held.least:.0f} %)"
    )


CHANGED: Final = {"faster_unit": "with a unit twice as fast", "no_conflicts": "with no conflicts (e = 1)"}
PRINTED_FROM: Final = {
    ATOMIC: "launch and atomic counters",
    REQUESTS: "launch and atomic counters and requests of the memory path",
    STATES: "launch and atomic counters, requests and warp states",
    SAMPLES: "launch and atomic counters, requests, warp states and a source page",
}
MORE: Final = {
    ATOMIC: "with the counters that --how lists the intervals are narrower",
    REQUESTS: "with warp states (--how) the intervals are narrower",
    STATES: "with a source page (--samples) the intervals are narrower",
}


def _print_gains(rows: Sequence[LaunchRow]) -> None:
    """What a change would gain, for the first launch of each kernel, and by which counters."""
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
        out.print(f"estimated from {PRINTED_FROM[used]}" + (f"; {MORE[used]}" if used in MORE else ""))


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
        out.print(f"[bold]{shown(row.kernel)}[/bold], by alternative: {shown(each)}")


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
    """Two profiles, kernel by kernel: did the bottleneck move?"""
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
    _print_coverage(after)

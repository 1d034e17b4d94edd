"""``smlab roofline PROFILE...``: each kernel under its ceilings, what limits it, and who is faster than a
ceiling."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smlab.cli.fast_start import PROFILE_OR_HOW
from smlab.cli.tables import Listing
from smlab.cli.terminal import err, out, print_json, shown
from smlab.commands.profiles import chosen_profiles, kernel_column, label, longest
from smlab.commands.roofline.api import RooflineResult, roofline
from smlab.commands.roofline.command import RooflineOptions
from smlab.commands.roofline.rows import kernel_rows, limiter_shares, roofs
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.profiles.work.roofline_quantities import NEEDED
from smlab.hw_bench.sass.linking import readable_name
from smlab.models.roofline.ceilings import LATENCY, LOW_EFFICIENCY, WITHOUT_ROOF
from smlab.models.roofline.violations import RooflineViolation

PRINTED_VIOLATIONS = 5


def run_roofline(options: RooflineOptions) -> None:
    """``smlab roofline PROFILE...``."""
    if options.show_how:
        return _show_how(options.as_json)
    profiles = chosen_profiles(tuple(options.profiles or ()), options.example, PROFILE_OR_HOW)
    if options.plot is not None:
        from smlab.commands.plots import check_plot

        check_plot(options.plot, profiles)
    answers = [
        roofline(
            path,
            gpu=options.gpu,
            maxima=options.maxima,
            parallelism=options.parallelism,
            issue=options.issue,
            at_clock=options.at_clock,
            clock_mhz=options.clock_mhz,
            settings=options.settings or (),
        )
        for path in profiles
    ]
    for a in answers:
        for note in a.notes:
            err.print(f"{label(a.profile)}: {note}", markup=False)
    if options.plot is not None:
        from smlab.commands.roofline.plot import draw_roofline

        one_gpu = {a.gpu.name for a in answers}
        if len(one_gpu) > 1:
            raise SmlabError.at("--plot", "profiles of several GPUs", ", ".join(sorted(one_gpu)), "one GPU")
        for path in draw_roofline([a.found for a in answers], options.plot):
            err.print(f"wrote {path}", markup=False)
    if options.as_json:
        print_json(_document(answers))
        return None
    for a in answers:
        _print_answer(a, options.details)
    return None


def _document(answers: Sequence[RooflineResult]) -> dict[str, Any]:
    several = len(answers) > 1
    document: dict[str, Any] = {"kernels": [], "skipped": [], "violations": []}
    for a in answers:
        name = {"profile": label(a.profile)} if several else {}
        document["kernels"] += [{**row, **name} for row in kernel_rows(a.found, a.violations)]
        document["skipped"] += [{"kernel": k, "launch": n, "reason": r, **name} for k, n, r in a.skipped]
        document["violations"] += [{**_violation_row(v), **name} for v in a.violations]
    above = Counter(v.reason for a in answers for v in a.above_ceilings)
    document["above_ceilings"] = [{"reason": reason, "kernels": n} for reason, n in above.most_common()]
    document["limiters"] = limiter_shares([a.found for a in answers])
    document["roofs"] = [{"profile": label(a.profile), **roofs(a.found.maxima)} for a in answers]
    return document


def _violation_row(v: RooflineViolation) -> dict[str, Any]:
    return {
        "kernel": v.kernel,
        "launch": v.launch,
        "ceiling": v.ceiling,
        "seconds": v.seconds,
        "least_s": v.least_s,
        "reason": v.reason,
    }


def _show_how(as_json: bool) -> None:
    command = f"ncu --csv --page raw --print-units base --metrics {NEEDED} PROGRAM > profile.csv"
    if as_json:
        print_json({"tool": "ncu", "command": command, "counters": NEEDED.split(",")})
        return
    out.print("Collect with Nsight Compute (all kernels; -k NAME for one):", markup=False)
    out.print(command, markup=False, soft_wrap=True)


def _print_answer(a: RooflineResult, details: bool) -> None:
    found, work = a.found, a.found.work
    limits = ", ".join(
        f"{share['limiter']} {100 * share['time_share']:.0f} %" for share in limiter_shares([found])
    )
    out.print(
        f"[bold]{shown(label(a.profile))}[/bold] on {shown(a.gpu.title)}: {len(found):,} kernels under "
        f"{found.maxima.which} maxima; the time is limited by {limits}"
    )
    order = longest(work.seconds)
    if details:
        by_instructions = found.by_instructions[order]
        _print_kernels(a, order[~by_instructions], instructions=False)
        _print_kernels(a, order[by_instructions], instructions=True)
    else:
        _print_summary(a, order)
    if (found.limited_by == LATENCY).any():
        out.print(
            f"{LATENCY}: below {100 * LOW_EFFICIENCY:.0f} % of every roof"
            + (f", or kept by what has none here: {WITHOUT_ROOF} (`smlab utilization`)" if details else "")
        )
    told = [("faster than a bound", a.violations)]
    if details:
        told.append(("faster than the ceilings of Eq. 3 and 6 to 8, not than a bound", a.above_ceilings))
    for title, violations in told:
        for (ceiling, reason), count in Counter((v.ceiling, _group(v)) for v in violations).most_common(
            PRINTED_VIOLATIONS
        ):
            out.print(f"[yellow]{title}[/yellow] ({count:,} kernels), {ceiling}: {shown(reason)}")
    for flag, count in Counter(f for flags in work.flags for f in flags).most_common():
        out.print(f"[yellow]note[/yellow]: {shown(flag)} ({count:,} kernels)")
    for reason, count in Counter(reason for _, _, reason in a.skipped).most_common():
        out.print(f"left out, {shown(reason)}: {count:,} kernels")


def _print_summary(a: RooflineResult, rows: NDArray[np.int64]) -> None:
    """What limits each kernel and how close it comes, by floating-point operations or else by
    instructions."""
    found, work = a.found, a.found.work
    again = len(set(work.kernel.tolist())) < len(work.kernel)
    listed = Listing()
    kernel_column(listed)
    if again:
        listed.add_column("launch", justify="right", drop=2)
    listed.add_column("time us", justify="right")
    listed.add_column("limited by", fold=True)
    listed.add_column("closest roof", justify="right")
    listed.add_column("achieved", justify="right", drop=1)
    listed.add_column("ceiling", justify="right")
    for i in rows.tolist():
        if found.by_instructions[i]:
            done, unit = work.instructions[i], "Ginst/s"
            ceiling = found.maxima.issue_per_s * found.grid.of("issue")[i]
        else:
            done, unit = found.flops[i], "GFLOP/s"
            ceiling = found.peak_ceiling[i] * found.grid.of("issue")[i]
        listed.add_row(
            shown(readable_name(str(work.kernel[i]))),
            *([str(work.launch[i])] if again else []),
            f"{1e6 * work.seconds[i]:,.1f}",
            str(found.limited_by[i]),
            f"{found.limiter[i]} {100 * found.efficiency[i]:.0f} %",
            f"{_number(done / work.seconds[i] / 1e9)} {unit}",
            _number(ceiling / 1e9),
        )
    out.print(listed)


def _print_kernels(a: RooflineResult, rows: NDArray[np.int64], *, instructions: bool) -> None:
    """The table of ``rows``, by floating-point operations or, for kernels without them, by instructions."""
    if not len(rows):
        return
    found, work = a.found, a.found.work
    operation = "inst" if instructions else "FLOP"
    if instructions:
        done = work.instructions
        ceiling = found.maxima.issue_per_s * found.grid.of("issue")
        with np.errstate(divide="ignore", invalid="ignore"):
            intensity = done[:, None] / work.level_bytes
        out.print("by warp-instructions, where there are no floating-point operations:")
    else:
        done, intensity = found.flops, found.intensity
        ceiling = found.peak_ceiling * found.grid.of("issue")
    listed = Listing()
    kernel_column(listed)
    listed.add_column("launch", justify="right", drop=1)
    listed.add_column("time us", justify="right")
    listed.add_column("limited by", fold=True)
    listed.add_column("closest roof", justify="right")
    for heading, drop in (
        *((f"G{operation}/s", 3), ("ceiling", 2)),
        *((f"{operation}/B L1", 6), (f"{operation}/B L2", 7), (f"{operation}/B DRAM", 4)),
        *(("BW ceiling GB/s L1", 8), ("BW ceiling GB/s L2", 9), ("BW ceiling GB/s DRAM", 5)),
    ):
        listed.add_column(heading, justify="right", drop=drop)
    for i in rows.tolist():
        listed.add_row(
            shown(readable_name(str(work.kernel[i]))),
            str(work.launch[i]),
            f"{1e6 * work.seconds[i]:,.1f}",
            str(found.limited_by[i]),
            f"{found.limiter[i]} {100 * found.efficiency[i]:.0f} %",
            _number(done[i] / work.seconds[i] / 1e9),
            _number(ceiling[i] / 1e9),
            *(_number(x) for x in intensity[i]),
            *(_number(x / 1e9) for x in found.bandwidth_ceilings[i]),
        )
    out.print(listed)


def _group(v: RooflineViolation) -> str:
    """The reason without the numbers of the single kernel, so that many kernels make one line."""
    return v.reason.split(":")[0] if v.reason.startswith(("another card", "clock")) else v.reason


def _number(x: float) -> str:
    if np.isnan(x):
        return "-"
    if np.isinf(x):
        return "inf"
    return f"{x:,.0f}" if x >= 100 else f"{x:.3g}"

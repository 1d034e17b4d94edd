"""``smlab utilization PROFILE...``: how busy the shared-memory atomic unit was in each kernel, how sure
that is, the verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from smlab.cli.tables import Listing
from smlab.cli.terminal import err, out, print_json, progress_bar, shown
from smlab.commands.profiles import DEFAULT_GPU
from smlab.commands.utilization.api import UtilizationResult, utilization
from smlab.commands.utilization.rows import compare_rows
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.hw_bench.profiles import how
from smlab.models.verdict import BOTTLENECK, CANNOT_TELL, NOT

PRINTED_ROWS = 40


@dataclass(frozen=True)
class UtilizationOptions:
    """What ``smlab utilization`` was asked for."""

    profiles: tuple[Path, ...]
    gpu: str | None
    table: Path | None
    compare: bool
    plot: Path | None
    show_how: bool
    as_json: bool


def run_utilization(options: UtilizationOptions) -> None:
    """``smlab utilization PROFILE...``."""
    profiles, compare, plot, as_json = options.profiles, options.compare, options.plot, options.as_json
    if options.show_how:
        return _show_how(load_gpu(options.gpu or DEFAULT_GPU), as_json)
    if not profiles:
        raise SmlabError(
            "PROFILE: no profile given (expected a profiler's output; --how tells how to collect it)"
        )
    if compare and len(profiles) != 2:
        raise SmlabError.at("--compare", "wrong number of profiles", len(profiles), "two: before and after")
    if plot is not None:
        from smlab.commands.plots import check_plot

        check_plot(plot, profiles)
    answers = []
    for path in profiles:
        with progress_bar("simulating service tables") as advance:
            answers.append(utilization(path, gpu=options.gpu, table=options.table, progress=advance))
    several = len(answers) > 1
    if plot is not None:
        draw(answers, plot)
    for a in answers:
        for note in a.notes:
            err.print(f"{a.profile}: {note}", markup=False)
    compared = compare_rows(answers[0].kernels, answers[1].kernels) if compare else None
    if as_json:
        document: dict[str, Any] = {"kernels": [], "skipped": []}
        for a in answers:
            name = {"profile": str(a.profile)} if several else {}
            document["kernels"] += [{**row.as_json(), **name} for row in a.kernels]
            document["skipped"] += [{"kernel": k, "reason": r, **name} for k, r in a.skipped]
        if compared is not None:
            document["compare"] = compared
        print_json(document)
        return None
    for a in answers:
        _print_answer(a)
    if compared is not None:
        _print_compared(compared)
    if plot is not None:
        err.print(f"wrote {plot}")
    return None


def _show_how(gpu: Gpu, as_json: bool) -> None:
    tools = [how(gpu, "ncu")]
    if tuple(int(x) for x in gpu.compute_capability.split(".")) <= (7, 2):
        tools.append(how(gpu, "nvprof"))
    if as_json:
        print_json({"gpu": gpu.name, "how": [asdict(t) for t in tools]})
        return
    for tool in tools:
        out.print(f"[bold]{tool.tool}[/bold] on {shown(gpu.title)}")
        out.print(tool.command, soft_wrap=True, markup=False)
        listed = Listing("quantity", "counter", "unit", "what it counts", "or else")
        for need in tool.counters:
            listed.add_row(need.quantity, need.counter, need.unit, need.doc, ", ".join(need.fallbacks))
        out.print(listed)


def _print_answer(a: UtilizationResult) -> None:
    out.print(f"[bold]{shown(a.profile)}[/bold] on {shown(a.gpu.title)}: the shared-memory atomic unit")
    rows = list(a.kernels)
    if len(rows) > PRINTED_ROWS:
        rows = sorted(rows, key=lambda row: -row.utilization)[:PRINTED_ROWS]
        out.print(f"the {PRINTED_ROWS} busiest of {len(a.kernels):,} rows (--json gives all)")
    listed = Listing()
    listed.add_column("kernel", fold=True, max_width=40)
    for heading, drop in (
        *(("launch", 0), ("SM", 0), ("busy %", 0), ("90 % interval", 0), ("n", 4), ("warps", 5), ("e", 3)),
        *(("c", 6), ("S cycles", 2), ("as published %", 1)),
    ):
        listed.add_column(heading, justify="right", drop=drop)
    listed.add_column("verdict")
    colour = {BOTTLENECK: "red", NOT: "green", CANNOT_TELL: "yellow"}
    for row in rows:
        listed.add_row(
            shown(row.kernel),
            str(row.launch),
            "all" if row.sm is None else str(row.sm),
            f"{100 * row.utilization:.1f}",
            f"{100 * row.low:.0f} to {100 * row.high:.0f}",
            *(f"{x:.2f}" for x in (row.n, row.warps, row.e, row.c)),
            *(
                "-" if math.isnan(x) else f"{x:.1f}"
                for x in (row.service_cycles, 100 * row.utilization_occupancy)
            ),
            f"[{colour[row.verdict]}]{row.verdict}[/]",
        )
    if rows:
        out.print(listed)
    # The same words for many SMs are said once.
    told: dict[tuple[str, str, tuple[str, ...]], str] = {}
    for row in rows:
        told.setdefault((row.kernel, row.verdict, row.why.advice), row.why.reason)
    for (kernel, verdict, advice), reason in told.items():
        out.print(f"[bold]{shown(kernel)}[/bold]: [{colour[verdict]}]{verdict}[/]: {shown(reason)}")
        for text in advice:
            out.print(f"  - {shown(text)}")
    for flag in dict.fromkeys(flag for row in rows for flag in row.flags):
        out.print(f"[yellow]note[/yellow]: {shown(flag)} ({sum(flag in row.flags for row in rows)} rows)")
    for kernel, reason in a.skipped:
        out.print(f"skipped {shown(kernel)}: {shown(reason)}")


def _print_compared(compared: Sequence[dict[str, Any]]) -> None:
    listed = Listing("kernel", "before", "after", "time", "the bottleneck moved")
    for row in compared:
        ends = [
            f"{100 * x['utilization']:.0f} % ({100 * x['low']:.0f} to {100 * x['high']:.0f}), {x['verdict']}"
            if x
            else "-"
            for x in (row["before"], row["after"])
        ]
        both = row["before"] and row["after"]
        ratio = f"{row['after']['elapsed_cycles'] / row['before']['elapsed_cycles']:.2f}x" if both else "-"
        listed.add_row(shown(row["kernel"]), *ends, ratio, row["moved"])
    out.print(listed)


def draw(answers: Sequence[UtilizationResult], path: Path) -> None:
    """Utilization with its interval, by kernel (each launch beside the other) and by SM; one colour a
    profile."""
    from smlab.validation.report.style import look, new_figure, styled

    @styled
    def figure() -> Any:
        kernels = list(dict.fromkeys(row.kernel for a in answers for row in a.kernels))
        fig = new_figure(6.4, 1.4 + 0.5 * max(1, len(kernels)))
        ax = fig.subplots()
        for number, a in enumerate(answers):
            drawn = look(number)
            for place, kernel in enumerate(kernels):
                rows = [row for row in a.kernels if row.kernel == kernel]
                width = 0.7 / len(answers)
                top = place - 0.35 + width * number
                for i, row in enumerate(rows):
                    y = top + width * (i + 0.5) / len(rows)
                    ax.plot([100 * row.low, 100 * row.high], [y, y], color=drawn.colour, lw=1.2, alpha=0.6)
                    ax.plot(100 * row.utilization, y, drawn.marker, color=drawn.colour, ms=3.5)
            ax.plot([], [], drawn.marker, color=drawn.colour, label=a.profile.name)
        ax.set_yticks(range(len(kernels)), [k if len(k) <= 36 else k[:33] + "..." for k in kernels])
        ax.set_ylim(len(kernels) - 0.5, -0.5)
        ax.set_xlim(0, 101)
        ax.set_xlabel("Atomic unit busy (% of elapsed cycles; bars: 90 % intervals)")
        fig.legend(loc="outside upper left", ncols=2)
        return fig

    try:
        figure().savefig(path)
    except OSError as error:
        raise SmlabError(f"{path}: the figure cannot be written: {error}") from error

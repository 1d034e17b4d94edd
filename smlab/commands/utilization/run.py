"""``smlab utilization PROFILE...``: how busy the shared-memory atomic unit was in each kernel, how sure
that is, the verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table

from smlab.cli.terminal import err, out, print_json, progress_bar
from smlab.commands.utilization.rows import KernelRow, TablePair, compare_rows, estimate_rows
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu, list_gpus, load_gpu
from smlab.hw_bench.profiles import Profile, atomic_quantities, how, read_profile
from smlab.hw_bench.profiles.profile import check_gpu
from smlab.models.service_table import ServiceTable
from smlab.models.verdict import BOTTLENECK, CANNOT_TELL, NOT

DEFAULT_GPU = "v100"
"""Where neither ``--gpu`` nor the profile tells which GPU it is (nvprof and the simulator do not)."""

PRINTED_ROWS = 40


@dataclass(frozen=True)
class UtilizationAnswer:
    """What a profile says: rows, launches left out with the reason, and notes on how the file was
    understood."""

    profile: Path
    gpu: Gpu
    kernels: tuple[KernelRow, ...]
    skipped: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]


def tables_for(gpu: Gpu, table: Path | None) -> TablePair:
    """The table in a file, or both forms for ``gpu``, simulated on first use and kept in the user's cache
    folder."""
    if table is not None:
        own = ServiceTable.read(table)
        return TablePair(own, None) if own.attrs["form"] == "looped" else TablePair(None, own)
    from smlab.validation.service_tables import tables_of

    with progress_bar(f"simulating the service tables of {gpu.name}") as advance:
        both = tables_of(gpu, progress=advance)
    return TablePair(both.looped, both.batch)


def gpu_of(profile: Profile) -> tuple[Gpu, str]:
    """The description that fits the profile best, and a note on the choice (or nothing); `SmlabError` if
    none does."""
    device = profile.device
    if device.name is None and device.compute_capability is None:
        return load_gpu(
            DEFAULT_GPU
        ), f"the profile does not name its GPU; {DEFAULT_GPU} is assumed (--gpu tells)"
    fitting: list[tuple[int, Gpu]] = []
    for name in list_gpus():
        gpu = load_gpu(name)
        try:
            fitting.append((len(check_gpu(profile.path, device, gpu)), gpu))
        except SmlabError:
            continue
    if not fitting:
        expected = "--gpu with a description's path, or one of " + ", ".join(list_gpus())
        raise SmlabError.at(profile.path, "no description of this GPU", str(device), expected)
    # Among equals, the one of which most is known.
    best = min(
        fitting, key=lambda pair: (pair[0], sum(c.kind == "assumed" for c in pair[1].constants.values()))
    )[1]
    others = [gpu.name for _, gpu in fitting if gpu is not best]
    return (
        best,
        f"taken as {best.name}; {', '.join(others)} would fit as well (--gpu tells)" if others else "",
    )


def answer(path: Path, gpu_name: str | None, table: Path | None) -> UtilizationAnswer:
    """Read one profile and estimate all of it."""
    if gpu_name is None:
        profile = read_profile(path)
        gpu, note = gpu_of(profile)
    else:
        gpu, note = load_gpu(gpu_name), ""
        profile = read_profile(path, gpu=gpu)
    quantities = atomic_quantities(profile, gpu)
    notes = [*filter(None, [note]), *profile.notes]
    rows = estimate_rows(quantities, tables_for(gpu, table), gpu) if len(quantities) else []
    skipped = tuple((s.kernel, s.reason) for s in quantities.skipped)
    return UtilizationAnswer(path, gpu, tuple(rows), skipped, tuple(notes))


def run_utilization(
    profiles: Sequence[Path],
    gpu_name: str | None,
    table: Path | None,
    as_json: bool,
    show_how: bool,
    compare: bool,
    plot: Path | None,
) -> None:
    """``smlab utilization PROFILE...``."""
    if show_how:
        return _show_how(load_gpu(gpu_name or DEFAULT_GPU), as_json)
    if not profiles:
        raise SmlabError(
            "PROFILE: no profile given (expected a profiler's output; --how tells how to collect it)"
        )
    if compare and len(profiles) != 2:
        raise SmlabError.at("--compare", "wrong number of profiles", len(profiles), "two: before and after")
    if plot is not None:
        _check_plot(plot)
    answers = [answer(path, gpu_name, table) for path in profiles]
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
        out.print(f"[bold]{tool.tool}[/bold] on {escape(gpu.title)}")
        out.print(tool.command, soft_wrap=True, markup=False)
        listed = Table(
            "quantity", "counter", "unit", "what it counts", "or else", box=box.SIMPLE, pad_edge=False
        )
        for need in tool.counters:
            listed.add_row(need.quantity, need.counter, need.unit, need.doc, ", ".join(need.fallbacks))
        out.print(listed)


def _print_answer(a: UtilizationAnswer) -> None:
    out.print(
        f"[bold]{escape(str(a.profile))}[/bold] on {escape(a.gpu.title)}: the shared-memory atomic unit"
    )
    rows = list(a.kernels)
    if len(rows) > PRINTED_ROWS:
        rows = sorted(rows, key=lambda row: -row.utilization)[:PRINTED_ROWS]
        out.print(f"the {PRINTED_ROWS} busiest of {len(a.kernels):,} rows (--json gives all)")
    listed = Table(box=box.SIMPLE, pad_edge=False)
    listed.add_column("kernel", overflow="ellipsis", no_wrap=True, max_width=40)
    for heading in (
        "launch",
        "SM",
        "busy %",
        "90 % interval",
        "n",
        "warps",
        "e",
        "c",
        "S cycles",
        "as published %",
    ):
        listed.add_column(heading, justify="right", no_wrap=True)
    listed.add_column("verdict", no_wrap=True)
    colour = {BOTTLENECK: "red", NOT: "green", CANNOT_TELL: "yellow"}
    for row in rows:
        listed.add_row(
            escape(row.kernel),
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
        out.print(f"[bold]{escape(kernel)}[/bold]: [{colour[verdict]}]{verdict}[/]: {escape(reason)}")
        for text in advice:
            out.print(f"  - {escape(text)}")
    for flag in dict.fromkeys(flag for row in rows for flag in row.flags):
        out.print(f"[yellow]note[/yellow]: {escape(flag)} ({sum(flag in row.flags for row in rows)} rows)")
    for kernel, reason in a.skipped:
        out.print(f"skipped {escape(kernel)}: {escape(reason)}")


def _print_compared(compared: Sequence[dict[str, Any]]) -> None:
    listed = Table(
        "kernel", "before", "after", "time", "the bottleneck moved", box=box.SIMPLE, pad_edge=False
    )
    for row in compared:
        ends = [
            f"{100 * x['utilization']:.0f} % ({100 * x['low']:.0f} to {100 * x['high']:.0f}), {x['verdict']}"
            if x
            else "-"
            for x in (row["before"], row["after"])
        ]
        both = row["before"] and row["after"]
        ratio = f"{row['after']['elapsed_cycles'] / row['before']['elapsed_cycles']:.2f}x" if both else "-"
        listed.add_row(escape(row["kernel"]), *ends, ratio, row["moved"])
    out.print(listed)


def _check_plot(path: Path) -> None:
    if path.suffix not in (".png", ".svg", ".pdf"):
        raise SmlabError.at("--plot", "not a picture's name", str(path), ".png, .svg or .pdf")
    if not path.parent.is_dir():
        raise SmlabError.at(str(path), "the folder to write into does not exist", str(path.parent))


def draw(answers: Sequence[UtilizationAnswer], path: Path) -> None:
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

"""``smlab advise``: read or simulate, advise, print."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from smlab.cli.tables import Listing
from smlab.cli.terminal import err, out, print_json, shown
from smlab.commands.advise.api import advice_on, advise_kernel
from smlab.commands.advise.command import AdviseOptions
from smlab.commands.advise.kernel_advice import KernelAdvice, SimulatedVersion, Trials
from smlab.commands.advise.printing import (
    answer_text,
    document,
    how_text,
    short_text,
    text,
    trials_text,
    tried_text,
)
from smlab.commands.advise.ranking import SIMULATED, RankedAdvice, ranked, why_bound
from smlab.commands.advise.trials import try_changes
from smlab.commands.advise.trying import run_and_keep, tried_as_asked
from smlab.commands.arguments import macros_of
from smlab.commands.kernel_page.sectors import SectorCount
from smlab.commands.run.run import run_file, sms_of
from smlab.examples import KERNEL, KERNEL_LAUNCH, KERNEL_SOURCE
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.inputs import source_text
from smlab.hw_bench.sass.linking import readable_name
from smlab.models.advisor.track_record import as_made_by_others
from smlab.sim import Record
from smlab.sim.isa.launch.launch_file import read_launch
from smlab.validation.sampled_run import executed

DEFAULT_GPU = "v100"


def run_advise(options: AdviseOptions, begun_s: float) -> None:
    """``smlab advise PROFILE`` or ``smlab advise KERNEL --launch FILE``; the command's CPU time counts from
    ``begun_s`` on."""
    if options.example or options.launch is not None:
        kernels: tuple[KernelAdvice, ...] = (_simulated(options, begun_s),)
    else:
        kernels = advice_on(
            options.profile or "",
            code=options.code,
            gpu=options.gpu,
            name=options.name,
            top=options.top,
            mode=options.mode,
        )
    if options.html is not None:
        from smlab.commands.kernel_page.html import write_pages
        from smlab.commands.kernel_page.of_advice import pages_of_advice

        write_pages(
            pages_of_advice(kernels, str(KERNEL) if options.example else options.profile or ""), options.html
        )
        err.print(f"wrote {options.html}", markup=False)
    if options.as_json:
        print_json(document(kernels))
    else:
        for kernel in kernels:
            _print(kernel, options.details)


def _simulated(options: AdviseOptions, begun_s: float) -> KernelAdvice:
    gpu = load_gpu(options.gpu or DEFAULT_GPU)
    kernel = str(KERNEL) if options.example else options.profile or ""
    path = KERNEL_LAUNCH if options.example else options.launch
    assert path is not None
    how = {"name": options.name, "folders": tuple(options.include or ()), "sms": sms_of(options.sms)}
    defines = macros_of(options.defines or ())
    base = run_and_keep(kernel, path, defines, gpu, how, all_recorded=options.html is not None)
    counted = None
    if options.html is not None and base.run.whole:  # a part of a grid is not recorded
        counted = SectorCount()
        again = {**how, "sms": "all", "recording": counted}
        run_file(kernel, read_launch(path, defines), gpu, defines=defines, keep=Record.TOTALS, **again)
    function = base.run.launch.image.function
    source = KERNEL_SOURCE if options.example else Path(kernel) if Path(kernel).suffix == ".cu" else None
    samples = executed(base.recorded, gpu).samples()
    if source is not None:
        lines = source_text(source).splitlines()
        samples = replace(samples, source=dict(enumerate(lines, start=1)))
    advice = advise_kernel(samples, (function,), gpu, options.top, options.mode)
    return replace(
        advice,
        tried=tuple(tried_as_asked(base, what) for what in options.tried or ()),
        trials=try_changes(base, advice, options.try_seconds, begun_s, source),
        run=base.recorded,
        sectors=None if counted is None else counted.of_instructions(len(base.recorded.instructions)),
    )


def _print(kernel: KernelAdvice, details: bool) -> None:
    samples = kernel.samples
    head = f"[bold]{shown(readable_name(samples.kernel))}[/bold] on {shown(kernel.gpu.name)}"
    issued = 100 * samples.active / max(samples.samples, 1)
    rests_on = f"{samples.samples:,} samples, {issued:.0f} % while the scheduler issued"
    if kernel.note:
        err.print(shown(kernel.note))
    if kernel.blamed is None:
        out.print(f"{head}: {rests_on}")
        _print_lines(kernel, MANY if details else FEW)
        return
    told = ranked(kernel)
    out.print(f"{head}: {shown(answer_text(kernel, told))}")
    if any(one.how in (*SIMULATED, "replayed") for one in told[: len(told) if details else TOLD]):
        out.print(f"[dim]{as_made_by_others()}[/dim]")
    out.print(f"[dim]By {rests_on}.[/dim]")
    for n, one in enumerate(told if details else told[:TOLD], start=1):
        _print_advice(kernel, n, one, details)
    if not details and len(told) > TOLD:
        out.print(f"[dim]{len(told) - TOLD} more, and why: --details[/dim]")
    for change in kernel.tried:
        out.print(tried_line(change))
    if kernel.trials != Trials():
        out.print(f"[dim]{shown(trials_text(kernel))}[/dim]")
    _print_lines(kernel, MANY if details else FEW)


def _print_advice(kernel: KernelAdvice, n: int, one: RankedAdvice, details: bool) -> None:
    head = f"{n}. [bold]{one.name}[/bold] {one.speedup:.2f}x"
    if one.advice is None:
        out.print(f"{head} ({how_text(one)}): {shown(tried_text(kernel, one))}")
        return
    interval = f"{one.low:.2f} to {one.high:.2f}"
    if one.how in ("bound", "ranked"):
        most = f"at most {one.speedup:.2f}x (bound: " if one.how == "bound" else "worth trying (no number: "
        told = short_text(kernel, one.advice) if not details else text(kernel, one.advice)
        why = shown(why_bound(one.advice))
        out.print(f"{n}. [bold]{one.name}[/bold] {most}{why}): {shown(told)}")
        return
    if not details:
        out.print(f"{head} ({one.how}; {interval}): {shown(short_text(kernel, one.advice))}")
        return
    out.print(f"{head} ({one.how}; {interval}; by the published equations {one.advice.paper:.2f})")
    out.print(f"   {shown(text(kernel, one.advice))}")


def tried_line(change: SimulatedVersion) -> str:
    """What a change that was asked for brought; one that alters the results brought nothing."""
    what = shown(change.what)
    if change.results_equal is False:
        return f"tried {what}: [red]wrong results[/red], {shown(change.note)} ({change.cycles:,.0f} cycles)"
    checked = "same results" if change.results_equal else f"results not compared: {shown(change.note)}"
    told = f"{change.cycles:,.0f} cycles; {checked}"
    return f"tried {what}: [bold]{change.speedup:.2f}x[/bold], simulated ({told})"


TOLD: Final = 3
"""Pieces of advice that are printed without ``--details``."""
FEW, MANY = 3, 12
"""Lines of source that are printed."""


def _print_lines(kernel: KernelAdvice, top: int) -> None:
    """Samples to blame on each source line."""
    table = Listing()
    heading = "samples blamed on lines" if kernel.blamed is not None else "samples at lines"
    table.add_column(heading, fold=True)
    table.add_column("samples", justify="right")
    table.add_column("share", justify="right")
    table.add_column("most of it")
    by_line: dict[int | None, dict[str, float]] = {}
    if kernel.blamed is not None and kernel.code is not None:
        for b in kernel.blamed.blame:
            reasons = by_line.setdefault(kernel.code.line(b.cause), {})
            reasons[b.reason] = reasons.get(b.reason, 0.0) + b.samples
    else:
        for row in kernel.samples.rows:
            by_line.setdefault(row.line if row.line is not None else row.address, dict(row.stalled))
    order = sorted(by_line, key=lambda line: -sum(by_line[line].values()))
    for line in order[:top]:
        reasons = by_line[line]
        total = sum(reasons.values())
        source = kernel.samples.source.get(line or 0, "").strip()
        where = "without a line" if line is None else f"{line} {source}"
        share = f"{100 * total / kernel.samples.samples:.1f} %"
        table.add_row(shown(where), f"{total:,.0f}", share, max(reasons, key=lambda r: reasons[r]))
    out.print(table)

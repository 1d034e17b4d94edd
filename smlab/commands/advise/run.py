"""``smlab advise``: read or simulate, advise, print."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from smlab.cli.tables import Listing
from smlab.cli.terminal import err, out, print_json, shown
from smlab.commands.advise.api import advice_on, advise_kernel
from smlab.commands.advise.kernel_advice import KernelAdvice, SimulatedVersion
from smlab.commands.advise.printing import document, interval, short_text, text
from smlab.commands.run.run import macros_of, run_file, sms_of
from smlab.examples import KERNEL, KERNEL_LAUNCH
from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.hw_bench.sass.linking import readable_name
from smlab.sim import Record
from smlab.sim.execution.run import MachineRun
from smlab.sim.isa.launch.launch_file import read_launch
from smlab.validation.sampled_run import executed

DEFAULT_GPU = "v100"


@dataclass(frozen=True)
class AdviseOptions:
    """What ``smlab advise`` was asked for."""

    profile: str
    code: Path | None
    launch: Path | None
    gpu: str | None
    name: str | None
    defines: tuple[str, ...]
    folders: tuple[Path, ...]
    sms: str
    tried: tuple[str, ...]
    top: int
    mode: str
    html: Path | None
    example: bool
    as_json: bool
    details: bool = False


def run_advise(options: AdviseOptions) -> None:
    """``smlab advise PROFILE`` or ``smlab advise KERNEL --launch FILE``."""
    if options.example or options.launch is not None:
        kernels: tuple[KernelAdvice, ...] = (_simulated(options),)
    else:
        kernels = advice_on(
            options.profile,
            code=options.code,
            gpu=options.gpu,
            name=options.name,
            top=options.top,
            mode=options.mode,
        )
    if options.html is not None:
        from smlab.commands.advise.page import write_page

        write_page(kernels, options.html)
        err.print(f"wrote {options.html}", markup=False)
    if options.as_json:
        print_json(document(kernels))
    else:
        for kernel in kernels:
            _print(kernel, options.details)


def _simulated(options: AdviseOptions) -> KernelAdvice:
    gpu = load_gpu(options.gpu or DEFAULT_GPU)
    kernel = str(KERNEL) if options.example else options.profile
    done = _run(options, kernel, macros_of(options.defines), gpu, Record.ALL)
    function = done.launch.image.function
    samples = executed(done, gpu).samples()
    advice = advise_kernel(samples, (function,), gpu, options.top, options.mode)
    return replace(advice, tried=tuple(_tried(options, what, gpu, done.cycles) for what in options.tried))


def _run(options: AdviseOptions, kernel: str, defines: dict[str, str], gpu: Gpu, keep: Record) -> MachineRun:
    path = KERNEL_LAUNCH if options.example else options.launch
    assert path is not None
    launch = read_launch(path, defines)
    return run_file(
        kernel,
        launch,
        gpu,
        name=options.name,
        defines=defines,
        folders=options.folders,
        sms=sms_of(options.sms),
        keep=keep,
    )


def _tried(options: AdviseOptions, what: str, gpu: Gpu, before: float) -> SimulatedVersion:
    """Another version of the kernel, or the kernel with other macros, in its launch."""
    defines, kernel = macros_of(options.defines), options.profile
    if Path(what).is_file():
        kernel = what
    else:
        defines |= macros_of(tuple(what.split(",")), "--try", "a file, or NAME=VALUE,...")
    cycles = _run(options, kernel, defines, gpu, Record.TOTALS).cycles
    return SimulatedVersion(what, cycles, before / cycles)


def _print(kernel: KernelAdvice, details: bool) -> None:
    samples = kernel.samples
    head = (
        f"[bold]{shown(readable_name(samples.kernel))}[/bold] on {shown(kernel.gpu.name)}: "
        f"{samples.samples:,} samples, {100 * samples.active / max(samples.samples, 1):.0f} % while the "
        "scheduler issued"
    )
    if kernel.note:
        err.print(shown(kernel.note))
    if kernel.blamed is None:
        out.print(head)
        _print_lines(kernel, MANY if details else FEW)
        return
    sure = [a for a in kernel.advice if interval(a)[0] > 1]
    best = max(sure or kernel.advice, key=lambda a: a.speedup, default=None)
    if best is None:
        out.print(f"{head}; nothing to advise: no optimizer matches")
    elif sure:
        out.print(f"{head}; most promising: {shown(best.optimizer.name)}, {best.speedup:.2f}x")
    else:
        out.print(f"{head}; no change is sure to help: every interval holds 1")
    for n, advice in enumerate(kernel.advice, start=1):
        low, high = interval(advice)
        if details:
            out.print(
                f"{n}. [bold]{advice.optimizer.name}[/bold]: {advice.speedup:.2f}x ({low:.2f} to {high:.2f}; "
                f"by the published equations {advice.paper:.2f})"
            )
            out.print(f"   {shown(text(kernel, advice))}")
        elif n <= TOLD:
            out.print(
                f"{n}. [bold]{advice.optimizer.name}[/bold] {advice.speedup:.2f}x ({low:.2f} to {high:.2f}): "
                f"{shown(short_text(kernel, advice))}"
            )
    if not details and len(kernel.advice) > TOLD:
        out.print(f"[dim]{len(kernel.advice) - TOLD} more, and why: --details[/dim]")
    for change in kernel.tried:
        out.print(
            f"tried {shown(change.what)}: [bold]{change.speedup:.2f}x[/bold], simulated "
            f"({change.cycles:,.0f} cycles)"
        )
    _print_lines(kernel, MANY if details else FEW)


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

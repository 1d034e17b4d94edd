"""``smlab run``: execute a kernel, and print what it did and when."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from smlab.cli.options import tolerance_of
from smlab.cli.tables import Listing
from smlab.cli.terminal import err, out, print_json, progress_bar, shown
from smlab.commands.arguments import macros_of
from smlab.commands.compare.comparison import RunComparison
from smlab.commands.compare.kept_run import kept_run, read_kept_run
from smlab.commands.compare.output import print_comparison, write_outputs
from smlab.commands.gpu_choice import ALL, GpuChoice, chosen_alternatives, chosen_gpu
from smlab.commands.kernel_page.sectors import SectorCount
from smlab.commands.run.api import run
from smlab.commands.run.command import RunOptions
from smlab.commands.run.document import results_document, run_document
from smlab.commands.run.program import ProgramCall, run_program
from smlab.commands.run.rates import tensor_lines
from smlab.commands.run.real_time import RealTime
from smlab.commands.run.results import checked_arrays, expected_arrays
from smlab.commands.run.steady import SteadyRun
from smlab.examples import KERNEL, KERNEL_LAUNCH
from smlab.hw_bench.arrays import write_arrays
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.alternatives import Alternative
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.profiles.pc_samples.sample_files import write_samples
from smlab.hw_bench.sass.image import KernelImage
from smlab.hw_bench.sass.linking import readable_name
from smlab.sim import Record
from smlab.sim.execution.recording import Recording
from smlab.sim.execution.run import MachineRun, TimedRun
from smlab.sim.isa.launch.launch_file import LaunchFile, read_launch
from smlab.sim.isa.launch.program_file import ProgramFile, read_program
from smlab.sim.traces.chrome_trace import InstructionName, write_chrome_trace
from smlab.sim.traces.reading import find_trace, is_trace, read_trace
from smlab.sim.traces.run import run_trace
from smlab.sim.traces.writing import write_traces
from smlab.validation.grid_counters import grid_counters
from smlab.validation.sampled_run import executed

SPEED_PRINTED_FROM = 1_000_000
"""Warp-instructions from which on a run tells its speed; of a shorter one, loading the engine takes most."""
FEW, MANY = 5, 20
"""Instructions that are listed."""


def _alternatives(options: RunOptions) -> Sequence[tuple[Alternative, Gpu]]:
    """The GPU that the options choose, under the alternative that they name, or under all."""
    chosen = GpuChoice(options.gpu, options.clock, tuple(options.settings or ()), options.alternative)
    return chosen_alternatives(chosen_gpu(chosen), options.alternative)


def run_file(kernel: str | KernelImage, launch: LaunchFile, gpu: Gpu, **how: Any) -> MachineRun:
    """The kernel of a file, or its image, with a launch that was read, its progress shown; ``how`` as
    `smlab.run` has it."""
    name = kernel.function.name if isinstance(kernel, KernelImage) else Path(kernel).name
    with progress_bar(f"executing {name} on {gpu.name}") as advance:
        return run(
            kernel,
            launch.grid,
            *launch.arguments,
            gpu=gpu,
            block=launch.threads,
            options=launch.options,
            shared_bytes=launch.shared_bytes,
            cluster=launch.cluster,
            constants=launch.constants,
            check_shared=launch.check_shared,
            progress=advance,
            **how,
        )


def run_run(options: RunOptions) -> int:
    """``smlab run KERNEL --launch FILE``; 1 where a check of the results fell short."""
    if not options.example and is_trace(Path(options.kernel or "")):
        return _run_trace(options)
    kernel = str(KERNEL) if options.example else options.kernel or ""
    path = KERNEL_LAUNCH if options.example else options.launch
    assert path is not None
    defines = macros_of(options.defines or ())
    program = read_program(path, defines)
    if program is not None:
        return _run_program(program, options, defines)
    if not kernel:
        raise SmlabError.at("KERNEL", "is missing", None, "a file: the launch has no [[step]] that names one")
    launch = read_launch(path, defines)
    (alternative, gpu), *others = _alternatives(options)
    expected = None if options.check is None else expected_arrays(options.check, launch.names)
    begun = time.perf_counter()
    recording = _recording(options)
    done = run_file(
        kernel,
        launch,
        gpu,
        name=options.name,
        defines=defines,
        folders=tuple(options.include or ()),
        sms=sms_of(options.sms),
        engine=options.engine,
        keep=Record.ALL if options.trace or options.samples or options.html else Record.TOTALS,
        max_cycles=options.max_cycles,
        threads=options.threads,
        recording=recording,
    )
    wall = time.perf_counter() - begun
    used: int | str = sms_of(options.sms)
    if isinstance(done, SteadyRun):
        used = "all" if done.whole else done.sms
    alike = [
        (
            alternative,
            run_file(
                kernel,
                read_launch(path, defines),
                other,
                name=options.name,
                defines=defines,
                folders=tuple(options.include or ()),
                sms=used,
                engine=options.engine,
                keep=Record.TOTALS,
                max_cycles=options.max_cycles,
                threads=options.threads,
            ),
        )
        for alternative, other in others
    ]
    told = RealTime.of([(alternative, done), *alike], gpu, options.anchor)
    _write(done, options)
    if recording is not None and options.accel_sim is not None:
        write_traces(options.accel_sim, done.launch, recording.executions())
    if options.samples is not None:
        write_samples(executed(done, gpu).samples(), options.samples)
    arrays = dict(zip(launch.names, launch.arguments, strict=True))
    if options.result is not None:
        write_arrays(options.result, {name: np.asarray(arrays[name]) for name in launch.returned})
    checks = [] if expected is None else checked_arrays(done.whole, arrays, expected)
    if options.html is not None:
        from smlab.commands.kernel_page.html import write_pages
        from smlab.commands.kernel_page.of_run import PagedRun, page_of_run

        sectors = None
        if isinstance(recording, SectorCount):
            sectors = recording.of_instructions(len(done.instructions))
        write_pages([page_of_run(PagedRun(done, gpu, told, kernel, sectors, checks))], options.html)
        err.print(f"wrote {options.html}", markup=False)
    document = run_document(done, told, wall, checks)
    returned = {name: np.asarray(arrays[name]) for name in launch.returned}
    compared = None
    if options.baseline is not None or options.as_json:
        document |= results_document(done, kernel, returned)
    if options.baseline is not None:
        after = kept_run(document, "this run", "this run", returned)
        compared = RunComparison(read_kept_run(options.baseline), after, tolerance_of(options.tolerance))
        write_outputs(compared, checks, options.junit, options.markdown)
    if options.as_json:
        print_json(document if compared is None else {**document, "baseline": compared.to_dict()})
    else:
        _print(done, told, wall, checks, options.details)
        if compared is not None:
            out.print(f"baseline {shown(options.baseline)}:")
            print_comparison(compared, options.details)
    short = any(check["verdict"] == "fell short" for check in checks)
    return 1 if short or (compared is not None and compared.fell_short()) else 0


def _recording(options: RunOptions) -> Recording | None:
    """What writes down the executions, or counts their sectors; a part of a grid is not recorded."""
    if options.accel_sim is not None:
        return Recording()
    return SectorCount() if options.html is not None and options.sms == "all" else None


def _write(done: TimedRun, options: RunOptions) -> None:
    if options.trace is not None:
        names = [InstructionName(i.text, i.address, i.line) for i in done.instructions]
        write_chrome_trace(done.result, options.trace, names)
    if options.counters is not None:
        grid_counters(done).write_csv(options.counters)
        if not done.whole:
            of = f"{done.result.launch.blocks:,} of {done.blocks:,} blocks"
            err.print(f"the counters are those of {of}, scaled to the whole grid", markup=False)


def _run_program(program: ProgramFile, options: RunOptions, defines: dict[str, str]) -> int:
    """``smlab run --launch PROGRAM``: several kernels."""
    given: dict[str, object] = {"--name": options.name, "--anchor": options.anchor}
    given |= {"--counters": options.counters, "--samples": options.samples, "--trace": options.trace}
    given |= {"--html": options.html, "--baseline": options.baseline, "--accel-sim": options.accel_sim}
    for option, value in given.items():
        if value is not None:
            what = "is of one kernel, and the launch has [[step]]"
            raise SmlabError.at(option, what, str(value), "a launch without steps")
    (alternative, gpu), *others = _alternatives(options)
    if others:
        what = "a program runs under one alternative"
        raise SmlabError.at("--alternative", what, ALL, "one of their names")
    common: dict[str, Any] = {"defines": defines, "folders": tuple(options.include or ())}
    timing: dict[str, Any] = {"sms": sms_of(options.sms), "engine": options.engine}
    timing |= {"max_cycles": options.max_cycles, "threads": options.threads}
    call = ProgramCall(options.kernel or None, gpu, alternative, common, timing)
    return run_program(program, call, options.check, options.result, options.as_json)


def _run_trace(options: RunOptions) -> int:
    """``smlab run kernel-1.traceg``: time what was recorded."""
    (alternative, gpu), *others = _alternatives(options)
    if others:
        raise SmlabError.at("--alternative", "a trace runs under one alternative", ALL, "one of their names")
    begun = time.perf_counter()
    recorded = read_trace(find_trace(Path(options.kernel or ""), options.name))
    version = recorded.header.binary_version
    if f"sm_{version}" != gpu.sm_architecture:
        err.print(f"the trace is of sm_{version}, {gpu.name} is {gpu.sm_architecture}", markup=False)
    with progress_bar(f"timing {Path(recorded.where).name} on {gpu.name}") as advance:
        done = run_trace(
            recorded,
            gpu,
            engine=options.engine,
            keep=Record.ALL if options.trace else Record.TOTALS,
            max_cycles=options.max_cycles,
            progress=advance,
            threads=options.threads,
        )
    wall = time.perf_counter() - begun
    told = RealTime.of([(alternative, done)], gpu, options.anchor)
    _write(done, options)
    if options.as_json:
        print_json(run_document(done, told, wall))
    else:
        _print(done, told, wall, [], options.details)
    return 0


def sms_of(text: str) -> int | str:
    """A number of SMs, ``all`` or ``auto``."""
    if not text.isdecimal():
        return text
    return int(text)


def _print(
    done: TimedRun, told: RealTime, wall: float, checks: list[dict[str, object]], details: bool
) -> None:
    """What the kernel printed; how long it takes and the checks; where its warps waited most."""
    if isinstance(done, MachineRun):
        sys.stdout.write(done.printed)
    result = done.result
    atomic = result.atomic
    name = f"[bold]{shown(readable_name(result.kernel))}[/bold] on {shown(result.gpu)}"
    out.print(f"{name}: {1e6 * told.seconds:,.2f} us ({done.cycles:,.0f} cycles at {told.clock})")
    for line in told.lines():
        out.print(line)
    if isinstance(done, SteadyRun):
        out.print(f"SMs that ran: {done.sms} ({done.why})")
    if not done.whole and (details or isinstance(done, SteadyRun)):
        out.print(
            f"sampling alone, 95 %: {done.cycles_low:,.0f} to {done.cycles_high:,.0f} cycles; "
            f"{done.blocks_simulated:,} of {done.blocks:,} blocks ran, on {done.sms} SMs"
        )
    for check in checks:
        out.print(f"{check['verdict']}: {shown(check['name'])}: {shown(check['summary'])}")
    if atomic.jobs:
        out.print(
            f"shared-memory atomic unit: {100 * atomic.utilization:.1f} % busy with {atomic.jobs:,} jobs, "
            f"{atomic.e_mean:.2f} passes each (alternative: {told.alternative})"
        )
    if details:
        if told.profiled is not None:
            beyond = 1e6 * (told.profiled - told.seconds)
            out.print(
                f"a profiler's duration: {1e6 * told.profiled:,.2f} us, {beyond:.2g} us of it before the "
                "first warp and after the last"
            )
        if told.by_events is not None:
            out.print(f"the time between two events around the launch: {1e6 * told.by_events:,.2f} us")
        count = result.warp_instructions
        speed = f", {count / wall / 1e6:.1f} million a second" if count >= SPEED_PRINTED_FROM else ""
        out.print(f"{count:,} warp-instructions, engine {result.engine}{speed}")
        for line in tensor_lines(done, told.seconds):
            out.print(line)
    out.print(_waits(done, MANY if details else FEW))
    for note in done.notes:
        err.print(f"note: {note}", markup=False, soft_wrap=True)
    if not done.whole:
        err.print("only a part of the grid ran: the arrays hold what it wrote", markup=False)


def _waits(done: TimedRun, top: int) -> Listing:
    """The instructions at which the warps waited longest, with the source line and the reason."""
    total = max(sum(sum(i.stalls.values()) for i in done.instructions), 1)
    ranked = sorted(done.instructions, key=lambda i: -sum(i.stalls.values()))[:top]
    lined = any(row.line is not None for row in ranked)
    table = Listing()
    table.add_column("warps waited", justify="right")
    table.add_column("mostly for")
    if lined:
        table.add_column("line", justify="right")
    table.add_column("instruction", fold=True, min_width=28)
    table.add_column("executed", justify="right", drop=1)
    table.add_column("lanes", justify="right", drop=2)
    for row in ranked:
        waited = sum(row.stalls.values())
        lanes = row.lanes / row.executed if row.executed else 0.0
        table.add_row(
            f"{100 * waited / total:.1f} %",
            max(row.stalls, key=lambda r: row.stalls[r], default=""),
            *(["" if row.line is None else str(row.line)] if lined else []),
            shown(f"{row.address:#06x} {row.text}"),
            f"{row.executed:,}",
            f"{lanes:.1f}",
        )
    return table

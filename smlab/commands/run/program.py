"""``smlab run`` of a program: the kernels of a launch file with ``[[step]]``, one after the other."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from smlab.cli.tables import Listing
from smlab.cli.terminal import err, out, print_json, progress_bar, shown
from smlab.commands.gpu_choice import clock_text
from smlab.commands.run.api import KernelCall, prepared, timed
from smlab.commands.run.real_time import RealTime
from smlab.commands.run.results import checked_arrays, expected_arrays
from smlab.hw_bench.arrays import write_arrays
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.alternatives import Alternative
from smlab.hw_bench.gpu.constants import Constant
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.sim.execution.program import ProgramRow, ProgramRun, SimulatedProgram
from smlab.sim.isa.launch.program_file import ProgramFile, ProgramStep


@dataclass(frozen=True)
class ProgramCall:
    """How a program is run: ``kernel`` is the file of steps that name none, ``common`` and ``timing`` are
    keywords of `smlab.run`."""

    kernel: str | None
    gpu: Gpu
    alternative: Alternative
    common: dict[str, Any]
    timing: dict[str, Any]


def run_steps(program: ProgramFile, call: ProgramCall) -> tuple[ProgramRun, str]:
    """Run a program, its progress shown; arrays are changed in place. Also what its kernels printed.

    Raises:
        SmlabError: naming the step whose kernel cannot be read, launched or executed.
    """
    progress: list[Any] = [None]
    simulated = SimulatedProgram(
        call.gpu, lambda launch: timed(launch, call.gpu, {**call.timing, "progress": progress[0]})
    )
    printed = ""
    for n, step in enumerate(program.steps, start=1):
        kernel = step.kernel or call.kernel
        if kernel is None:
            raise SmlabError.at(f"step {n}: kernel", "is missing", None, "a file, here or beside --launch")
        with progress_bar(f"step {n} of {len(program.steps)} on {call.gpu.name}") as progress[0]:
            try:
                printed += _launch(simulated, step, kernel, call, n)
            except SmlabError as error:
                raise SmlabError(f"step {n}: {error}") from error
    return simulated.run, printed


def _launch(simulated: SimulatedProgram, step: ProgramStep, kernel: str, call: ProgramCall, row: int) -> str:
    """All launches of a step; what they printed."""
    file = step.launch
    how = {
        **call.common,
        "block": file.threads,
        "options": file.options,
        "shared_bytes": file.shared_bytes,
        "cluster": file.cluster,
        "constants": file.constants,
        "check_shared": file.check_shared,
    }
    of = KernelCall(kernel, file.grid, file.arguments, call.gpu, step.name)
    launch, _ = prepared(of, how, simulated.next_memory())
    for _ in range(step.repeat):
        simulated.launch(launch, row)
    return launch.printed


def run_program(
    program: ProgramFile, call: ProgramCall, check: Path | None, result: Path | None, as_json: bool
) -> int:
    """``smlab run --launch PROGRAM``; 1 where a check of the results fell short."""
    data = program.arguments
    expected = None if check is None else expected_arrays(check, data.names)
    begun = time.perf_counter()
    done, printed = run_steps(program, call)
    wall = time.perf_counter() - begun
    arrays = dict(zip(data.names, data.values, strict=True))
    if result is not None:
        write_arrays(result, {name: np.asarray(arrays[name]) for name in data.returned})
    checks = [] if expected is None else checked_arrays(done.whole, arrays, expected)
    low, high = real_seconds(done, call)
    if as_json:
        print_json(program_document(done, (low, high), call, wall, printed, checks))
    else:
        sys.stdout.write(printed)
        _print(done, (low, high), call, checks)
    return 1 if any(one["verdict"] == "fell short" for one in checks) else 0


def real_seconds(done: ProgramRun, call: ProgramCall) -> tuple[float | None, float | None]:
    """The earliest and the latest end of the program on a real card (90 %). The ends of its kernels'
    intervals are summed, as if all erred alike, with those of the gaps. None without a record."""
    ends = [_ends(row, call) for row in done.rows]
    if any(low is None or high is None for low, high in ends):
        return None, None
    gap = done.gap
    gaps = [0.0, 0.0] if gap is None else [done.gaps * _bound(gap, end) for end in (gap.low, gap.high)]
    return sum(low or 0.0 for low, _ in ends) + gaps[0], sum(high or 0.0 for _, high in ends) + gaps[1]


def _bound(gap: Constant, end: float | None) -> float:
    return float(gap.value) if end is None else end


def _ends(row: ProgramRow, call: ProgramCall) -> tuple[float | None, float | None]:
    low, high = 0.0, 0.0
    for run, weight in zip(row.runs, row.weights, strict=True):
        real_time = RealTime.of([(call.alternative, run)], call.gpu, None, in_a_loop=False)
        if real_time.low is None or real_time.high is None:
            return None, None
        low, high = low + weight * real_time.low, high + weight * real_time.high
    return low, high


def program_document(
    done: ProgramRun,
    ends: tuple[float | None, float | None],
    call: ProgramCall,
    wall: float,
    printed: str,
    checks: Sequence[dict[str, object]],
) -> dict[str, Any]:
    """The program as one JSON document."""
    gap = done.gap
    return {
        "gpu": call.gpu.name,
        "engine": call.timing["engine"],
        "seconds": done.seconds,
        "seconds_low": ends[0],
        "seconds_high": ends[1],
        "clock_hz": call.gpu.number("clock.sm_hz"),
        "alternative": call.alternative.name,
        "launches": done.launches,
        "simulated": done.simulated,
        "gaps": done.gaps,
        "gap_seconds": done.gap_seconds,
        "gap": None
        if gap is None
        else {"s": gap.value, "low": gap.low, "high": gap.high, "kind": gap.kind, "source": gap.source},
        "kernels": done.kernels(),
        "notes": list(done.notes),
        "printed": printed,
        "wall_s": wall,
        "checks": list(checks),
        "ok": not any(one["verdict"] == "fell short" for one in checks),
    }


def _print(
    done: ProgramRun,
    ends: tuple[float | None, float | None],
    call: ProgramCall,
    checks: Sequence[dict[str, object]],
) -> None:
    """The program's time, a row a kernel, and what lies between launches."""
    count = f"{done.launches:,} launches" if done.launches > 1 else "1 launch"
    clock = clock_text(call.gpu)
    out.print(f"[bold]{count}[/bold] on {shown(call.gpu.title)}: {1e6 * done.seconds:,.2f} us (at {clock})")
    if ends[0] is not None and ends[1] is not None:
        span = f"{1e6 * ends[0]:,.2f} to {1e6 * ends[1]:,.2f} us"
        out.print(f"on a real card {span} (90 %), as if all kernels erred alike")
    for check in checks:
        out.print(f"{check['verdict']}: {shown(check['name'])}: {shown(check['summary'])}")
    table = Listing()
    table.add_column("kernel", fold=True)
    table.add_column("grid x block", drop=3)
    for heading in ("launches", "simulated", "us", "share"):
        table.add_column(heading, justify="right")
    table.add_column("cycles, first", justify="right", drop=2)
    table.add_column("last", justify="right", drop=1)
    for row in done.rows:
        table.add_row(
            shown(row.kernel),
            f"{math.prod(row.grid):,} x {math.prod(row.block):,}",
            f"{row.launches:,}",
            f"{row.simulated:,}",
            f"{1e6 * row.seconds:,.2f}",
            f"{100 * row.seconds / done.seconds:.1f} %",
            f"{row.cycles_first:,.0f}",
            f"{row.cycles_last:,.0f}",
        )
    if done.gap is not None and done.gaps:
        share = f"{100 * done.gap_seconds / done.seconds:.1f} %"
        table.add_row(
            "between launches", "", f"{done.gaps:,}", "", f"{1e6 * done.gap_seconds:,.2f}", share, "", ""
        )
    out.print(table)
    for row in done.rows:
        if row.launches > row.simulated:
            how = "executed without timing" if row.whole else "not executed"
            count = f"{row.simulated:,} of {row.launches:,} launches simulated"
            text = f"{count}, of which two agree within 1 %; the others were {how} and take as long"
            out.print(f"{shown(row.kernel)}: {text}")
    if done.gap is not None and done.gaps:
        bounds = " to ".join(f"{1e6 * _bound(done.gap, end):g}" for end in (done.gap.low, done.gap.high))
        out.print(
            f"a gap between launches: {1e6 * float(done.gap.value):g} us ({done.gap.kind}, {bounds} us)"
        )
    for note in done.notes:
        err.print(f"note: {note}", markup=False, soft_wrap=True)
    if not done.whole:
        err.print("only a part of a grid ran: the arrays hold what it wrote", markup=False)

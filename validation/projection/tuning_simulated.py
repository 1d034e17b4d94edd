"""A tuning space projected by running its machine code on both GPUs' descriptions, beside the roofline.

Where the two architectures' code differs in registers or local memory, the compiler that made the measured
code may have chosen otherwise than ours (`smlab.models.roofline.compiler_alternatives`). The source's own
code then runs on the target's description too, and the time is the middle of both readings.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.datasets.tuning import TuningTimes
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.models.projection.uncertainty import UNEXPLAINED
from smlab.validation.method.interval_errors import IntervalErrors
from smlab.validation.method.widths import left_out
from smlab.validation.projection.machine_code import (
    CodeRun,
    LaunchData,
    RunTime,
    compiled_otherwise,
    run_codes,
    whole_shape,
)
from smlab.validation.projection.tuning import tuning_errors
from smlab.validation.projection.tuning_code import Progress, TuningSource

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SimulatedSpace:
    """Times on the target by the ratio of simulated ones, (rows,); ``source_ratio`` is the source's
    simulated time over the measured one, ``disagreement`` half of the distance of the two readings in
    logarithms, 0 where there is one, ``compiled_s`` the times with the target's code alone."""

    source_s: Floats
    mid_s: Floats
    source_ratio: Floats
    disagreement: Floats
    compiled_s: Floats
    runs: tuple[tuple[RunTime, RunTime], ...]

    def chosen(self, rows: NDArray[np.bool_]) -> SimulatedSpace:
        """The rows of a mask."""
        runs = tuple(r for r, keep in zip(self.runs, rows, strict=True) if keep)
        return SimulatedSpace(
            self.source_s[rows],
            self.mid_s[rows],
            self.source_ratio[rows],
            self.disagreement[rows],
            self.compiled_s[rows],
            runs,
        )


@dataclass(frozen=True)
class SimulatedErrors:
    """``errors`` with intervals whose width, for each row that of the readings beside `UNEXPLAINED`, was
    fitted on the other families; ``families`` is how many there were. ``compiled`` are the errors of the
    target's code alone, in the same widths. ``source`` is the median of simulated over measured on the
    source."""

    errors: IntervalErrors
    compiled: IntervalErrors
    families: int
    source: float


@dataclass(frozen=True, eq=False)
class ClockedPair:
    """Two GPUs, and ``clock_ratio`` (rows,): the SM clock of the source over that of the target, as both are
    taken to have run. Cycles are simulated, and carried over at these."""

    source: Gpu
    target: Gpu
    clock_ratio: Floats


def simulate_space(
    times: TuningTimes,
    rows: NDArray[np.int64],
    code: TuningSource,
    data: LaunchData,
    gpus: ClockedPair,
    store: Path | None = None,
    progress: Progress | None = None,
) -> SimulatedSpace:
    """Run the code of some ``rows`` of ``times`` (measured on the source) on both GPUs."""
    source, target = gpus.source, gpus.target
    runs, others = [], []
    for row in rows.tolist():
        where = f"{times.path}: row {row}"
        grid, block = (
            whole_shape(where, None if shape is None else shape[row]) for shape in (times.grid, times.block)
        )
        name = str(times.kernel[row])
        here, there = (code.cubin(times, row, gpu) for gpu in (source, target))
        runs += [CodeRun(c, name, grid, block, gpu) for c, gpu in ((here, source), (there, target))]
        if compiled_otherwise(here, there, name):
            others.append((len(runs) // 2 - 1, CodeRun(here, name, grid, block, target)))
    found = run_codes([*runs, *(one for _, one in others)], data, store, progress)
    pairs = tuple(zip(found[: len(runs) : 2], found[1 : len(runs) : 2], strict=True))
    ratio = np.array([there.cycles / here.cycles for here, there in pairs])
    as_source = ratio.copy()
    for (place, _), run in zip(others, found[len(runs) :], strict=True):
        as_source[place] = run.cycles / pairs[place][0].cycles
    measured = times.seconds[rows]
    here_s = np.array([here.seconds for here, _ in pairs])
    return SimulatedSpace(
        source_s=measured,
        mid_s=measured * np.sqrt(ratio * as_source) * gpus.clock_ratio,
        source_ratio=here_s / measured,
        disagreement=np.abs(np.log(ratio / as_source)) / 2,
        compiled_s=measured * ratio * gpus.clock_ratio,
        runs=pairs,
    )


def simulated_errors(
    space: SimulatedSpace, actual_s: Floats, family: tuple[str, ...], source: Gpu, target: Gpu
) -> SimulatedErrors:
    """Errors against ``actual_s`` (rows,); `SmlabError` with one family only, of which none can be left
    out."""
    names = np.array(family)
    if len(set(family)) < 2:
        raise SmlabError.at("--simulate", "rows of one family only", len(set(family)), "two or more")
    error = np.log(actual_s / space.mid_s)
    own = np.hypot(UNEXPLAINED, space.disagreement)
    factor = {f.family: f.factor for f in left_out(error, own, names)}
    width = np.exp(np.array([factor[name] for name in family]) * own)
    errors, compiled = (
        tuning_errors(space.source_s, mid_s / width, mid_s, mid_s * width, actual_s, source, target)
        for mid_s in (space.mid_s, space.compiled_s)
    )
    return SimulatedErrors(errors, compiled, len(factor), float(np.median(space.source_ratio)))

"""A tuning space projected by running its machine code on both GPUs' descriptions, beside the roofline."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from smlab.hw_bench.datasets.tuning import TuningTimes
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.validation.method.widths import left_out
from smlab.validation.projection.machine_code import CodeRun, LaunchData, RunTime, run_codes, whole_shape
from smlab.validation.projection.tuning.code import Progress, TuningSource
from smlab.validation.projection.tuning.errors import TuningErrors, tuning_errors

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SimulatedSpace:
    """Times on the target by the ratio of simulated ones, (rows,); ``source_ratio`` is the source's simulated
    time over the measured one."""

    source_s: Floats
    mid_s: Floats
    source_ratio: Floats
    runs: tuple[tuple[RunTime, RunTime], ...]

    def chosen(self, rows: NDArray[np.bool_]) -> SimulatedSpace:
        """The rows of a mask."""
        runs = tuple(r for r, keep in zip(self.runs, rows, strict=True) if keep)
        return SimulatedSpace(self.source_s[rows], self.mid_s[rows], self.source_ratio[rows], runs)


@dataclass(frozen=True)
class SimulatedErrors:
    """``errors`` with intervals whose width, the same for all rows of a family, was fitted on the other
    families; ``families`` is how many there were. ``source`` is the median of simulated over measured on the
    source."""

    errors: TuningErrors
    families: int
    source: float


def simulate_space(
    times: TuningTimes,
    rows: NDArray[np.int64],
    code: TuningSource,
    data: LaunchData,
    source: Gpu,
    target: Gpu,
    clock_ratio: Floats,
    store: Path | None = None,
    progress: Progress | None = None,
) -> SimulatedSpace:
    """Run the code of some ``rows`` of ``times`` (measured on ``source``) on both GPUs.

    ``clock_ratio`` (rows,) is the SM clock of the source over that of the target, as both are taken to have
    run: cycles are simulated, and carried over at these.
    """
    runs = []
    for row in rows.tolist():
        where = f"{times.path}: row {row}"
        grid, block = (
            whole_shape(where, None if shape is None else shape[row]) for shape in (times.grid, times.block)
        )
        runs += [
            CodeRun(code.cubin(times, row, gpu), str(times.kernel[row]), grid, block, gpu)
            for gpu in (source, target)
        ]
    found = run_codes(runs, data, store, progress)
    pairs = tuple(zip(found[::2], found[1::2], strict=True))
    cycles = np.array([there.cycles / here.cycles for here, there in pairs])
    measured = times.seconds[rows]
    here_s = np.array([here.seconds for here, _ in pairs])
    return SimulatedSpace(measured, measured * cycles * clock_ratio, here_s / measured, pairs)


def simulated_errors(
    space: SimulatedSpace, actual_s: Floats, family: tuple[str, ...], source: Gpu, target: Gpu
) -> SimulatedErrors:
    """Errors against ``actual_s`` (rows,); `SmlabError` with one family only, of which none can be left
    out."""
    names = np.array(family)
    if len(set(family)) < 2:
        raise SmlabError.at("--simulate", "rows of one family only", len(set(family)), "two or more")
    error = np.log(actual_s / space.mid_s)
    one = np.ones(len(error))
    factor = {f.family: f.factor for f in left_out(error, one, names)}
    width = np.exp([factor[name] for name in family])
    errors = tuning_errors(
        space.source_s, space.mid_s / width, space.mid_s, space.mid_s * width, actual_s, source, target
    )
    return SimulatedErrors(errors, len(factor), float(np.median(space.source_ratio)))

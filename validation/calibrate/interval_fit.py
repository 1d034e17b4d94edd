"""Fitting the simulator's atomic unit to published or measured rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from smlab.hw_bench.datasets.publications import PublishedSeries
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.sim.reference import Record
from smlab.sim.simulate import simulate
from smlab.sim.workloads.atomics_benchmark import atomics

FIT_LANES = (1, 32)
"""The published points that calibrate: the two ends of the axis. All the others judge."""


def steady_state_cycles(
    gpu: Gpu, op: str, same_word: Sequence[int], warps: int = 8, iterations: int = 500
) -> NDArray[np.float64]:
    """Simulated cycles per warp-instruction of the looped microbenchmark, one value for each lanes-per-word.

    Of the published experiment (one block of 8 warps, all lanes active, looped), start and end of the kernel
    included.
    """
    results = [
        simulate(
            atomics(warps=warps, op=op, same_word=n, iterations=iterations, returns=False),
            gpu,
            keep=Record.TOTALS,
        )
        for n in same_word
    ]
    return np.array([r.cycles / r.warp_instructions for r in results])


@dataclass(frozen=True)
class IntervalFit:
    """The initiation interval ``base + passes * per_pass`` fitted to two points, in cycles.

    The intervals come from the published points' own uncertainty, taken as independent.
    """

    base_cycles: float
    base_low: float
    base_high: float
    per_pass_cycles: float
    per_pass_low: float
    per_pass_high: float
    largest_residual_percent: float

    def keys(self, op: str) -> dict[str, float]:
        """The fitted constants, by key of the GPU description."""
        prefix = f"atomic.{op.replace('-', '_')}"
        return {
            f"{prefix}.base_interval_cycles": self.base_cycles,
            f"{prefix}.pass_interval_cycles": self.per_pass_cycles,
        }


FIT_ITERATIONS = 1000


def fit_interval(gpu: Gpu, series: PublishedSeries) -> IntervalFit:
    """Fit an atomic's initiation interval to the published points at `FIT_LANES`, with the simulator in the
    loop.

    Least squares of log ratios (simulated over published) by scipy; two parameters, base and per pass. For
    popc-inc, which merges the lanes on one word, the points do not depend on the passes: only the base is
    fitted, and the interval per pass stays the description's.

    Raises:
        SmlabError: a series that lacks one of the points.
    """
    for lanes in FIT_LANES:
        if lanes not in series.same_word:
            raise SmlabError.at(f"series {series.gpu} {series.op}", "lacks a point to fit", lanes)
    at = [series.same_word.index(lanes) for lanes in FIT_LANES]
    published = np.array(series.cycles_per_instruction)[at]
    half_width = (np.array(series.high)[at] - np.array(series.low)[at]) / 2
    prefix = f"atomic.{series.op.replace('-', '_')}"
    per_pass_given = float(gpu.number(f"{prefix}.pass_interval_cycles"))
    only_base = series.op == "popc-inc"

    def unpack(x: NDArray[np.float64]) -> dict[str, float]:
        base, per_pass = (x[0], per_pass_given) if only_base else x
        return {
            f"{prefix}.base_interval_cycles": float(base),
            f"{prefix}.pass_interval_cycles": float(per_pass),
        }

    def residuals(x: NDArray[np.float64]) -> NDArray[np.float64]:
        trial = gpu.with_values(unpack(x), source="assumed: a trial of the fit")
        simulated = steady_state_cycles(trial, series.op, FIT_LANES, series.warps, FIT_ITERATIONS)
        ratios: NDArray[np.float64] = np.log(simulated / published)
        return ratios

    start = np.array([2.0] if only_base else [2.0, 1.2])
    # Simulated time is whole cycles, so the steps of the numerical derivative must be large enough to be
    # seen.
    found = least_squares(residuals, start, bounds=(0.05, 50.0), diff_step=0.02, xtol=1e-10)
    base, per_pass = unpack(found.x).values()
    if only_base:
        base_error, per_pass_error = float(half_width.mean() / np.sqrt(2)), 0.0
    else:
        spread = FIT_LANES[1] - FIT_LANES[0]
        per_pass_error = float(np.hypot(*half_width) / spread)
        base_error = float(np.hypot(half_width[0] * FIT_LANES[1], half_width[1] * FIT_LANES[0]) / spread)
    return IntervalFit(
        base_cycles=base,
        base_low=base - base_error,
        base_high=base + base_error,
        per_pass_cycles=per_pass,
        per_pass_low=per_pass - per_pass_error,
        per_pass_high=per_pass + per_pass_error,
        largest_residual_percent=float(100 * np.abs(np.expm1(residuals(found.x))).max()),
    )

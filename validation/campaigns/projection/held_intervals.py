"""Counting how often projected intervals hold the time that the simulator gives."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.validation.campaigns.projection.judge import CYCLES, judge_projection
from smlab.validation.campaigns.projection.kernels import REGIMES
from smlab.validation.campaigns.projection.simulate import simulate_kernels
from smlab.validation.method.statistics import binomial_interval
from smlab.validation.projection.coverage_records import MOST, CoverageRecords, IntervalCoverage
from smlab.validation.projection.gpu_parts import part_of

GPUS: Final = ("v100", "a100-40")
KERNELS, SEED = 500, 0
MEMORY: Final = ("L2", "DRAM", "mixed")
"""Regimes of kernels that L2 or DRAM limits, or may."""


def count_covered(kernels: int = KERNELS, seed: int = SEED) -> CoverageRecords:
    """Simulate kernels of all regimes on both GPUs, project each to the other GPU, and count."""
    gpus = [part_of(load_gpu(name)) for name in GPUS]
    regimes = list(REGIMES)
    numbered = [(regimes[i % len(regimes)], i // len(regimes)) for i in range(kernels)]
    seen = simulate_kernels(gpus, numbered, seed, "compiled")
    directions = [
        judge_projection(seen.work[a], seen.work[b], seen.working_set_bytes, gpus[a], gpus[b])
        for a, b in ((0, 1), (1, 0))
    ]
    low, mid, high = (
        np.concatenate([getattr(d, name)[CYCLES] for d in directions])
        for name in ("low", "predicted", "high")
    )
    truth = np.concatenate([d.truth_s for d in directions])
    memory = np.tile(np.isin(np.array(seen.regimes), MEMORY), len(directions))
    everything = np.ones(len(truth), dtype=bool)
    records = [_record(*(x[of] for x in (low, mid, high, truth))) for of in (everything, ~memory, memory)]
    about = f"{kernels} simulated kernels of {len(REGIMES)} regimes, {' and '.join(GPUS)}, each to the other"
    return CoverageRecords(about, *records)


def _record(
    low: NDArray[np.float64], mid: NDArray[np.float64], high: NDArray[np.float64], truth: NDArray[np.float64]
) -> IntervalCoverage:
    inside = int(np.count_nonzero((low <= 1.01 * truth) & (truth <= 1.01 * high)))
    share = binomial_interval(inside, len(truth))
    return IntervalCoverage(
        n=len(truth),
        inside=round(100 * share.estimate, 1),
        inside_low=round(100 * share.low, 1),
        inside_high=round(100 * share.high, 1),
        median_ape=round(float(np.median(100 * np.abs(mid / truth - 1))), 1),
        most_within_factor=round(float(np.exp(np.quantile(np.abs(np.log(mid / truth)), MOST))), 3),
    )

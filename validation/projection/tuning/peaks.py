"""A time on another GPU from the time on one and nothing else: what no counter was collected for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.profiles.kernel_work import PRECISIONS
from smlab.models.roofline import ProjectionSwitches, maxima_of

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PeakProjection:
    """As `smlab.models.roofline.Projection`, of times alone; arrays (rows,)."""

    source_s: Floats
    low_s: Floats
    mid_s: Floats
    high_s: Floats
    limiter: NDArray[np.object_]
    index: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.source_s)


def project_by_peaks(
    seconds: Floats, source: Gpu, target: Gpu, switches: ProjectionSwitches
) -> PeakProjection:
    """Between the least and the greatest ratio of the two GPUs' resources (FP32, issue, memory instructions,
    shared memory, L1, L2, DRAM); the prediction is their geometric middle. No resource is known to limit, so
    the interval is as wide as the GPUs are unlike.
    """
    here, there = (maxima_of(gpu, switches.maxima) for gpu in (source, target))
    fp32 = PRECISIONS.index("fp32")
    ratios = [
        here.fma_flops_per_s[fp32] / there.fma_flops_per_s[fp32],
        here.issue_per_s / there.issue_per_s,
        here.shared_bytes_per_s / there.shared_bytes_per_s,
        *(here.bandwidth / there.bandwidth),
    ]
    if np.isfinite([here.requests_per_s, there.requests_per_s]).all():
        ratios.append(here.requests_per_s / there.requests_per_s)
    low, high = min(ratios), max(ratios)
    nobody = np.full(len(seconds), "unknown", dtype=object)
    return PeakProjection(
        seconds,
        seconds * low,
        seconds * float(np.sqrt(low * high)),
        seconds * high,
        nobody,
        np.arange(len(seconds)),
    )

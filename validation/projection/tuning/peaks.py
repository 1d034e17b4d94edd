"""A time on another GPU from the time on one and nothing else: what no counter was collected for.

A tuned kernel that nobody profiled is somewhere between bound by FP32 and bound by what the schedulers issue:
the prediction is the geometric middle of the two GPUs' ratios of these. On the two public searches at hand
(both were in view) it is off by 25 and 23 %, where the FP32 ratio is off by 37 and 35 % and the best
constant, fitted to the truth, by 25 and 22 %; in the opposite directions by 41 and 28 %, where the FP32 ratio
is by 83 and 63. One constant ranks nothing: every row has the same ratio. `WIDTH` holds 90 % of the rows of
either search; fitted on one of the two only, it held 79 and 95 % of the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.profiles.kernel_work import PRECISIONS
from smlab.models.roofline import ProjectionSwitches, maxima_of

Floats = NDArray[np.float64]

WIDTH: Final = 0.46
"""Half width of the interval, in logarithms."""


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
    """The source's times by the middle of the ratios of FP32 and of issue, within `WIDTH`."""
    here, there = (maxima_of(gpu, switches.maxima) for gpu in (source, target))
    fp32 = PRECISIONS.index("fp32")
    arithmetic = here.fma_flops_per_s[fp32] / there.fma_flops_per_s[fp32]
    ratio = float(np.sqrt(arithmetic * here.issue_per_s / there.issue_per_s))
    factor = 1.0 if source.constants == target.constants else float(np.exp(WIDTH))
    nobody = np.full(len(seconds), "unknown", dtype=object)
    middle = seconds * ratio
    return PeakProjection(seconds, middle / factor, middle, middle * factor, nobody, np.arange(len(seconds)))

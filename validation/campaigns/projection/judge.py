"""Ceilings and projections against what the simulator did."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.profiles.work.kernel_work import Floats, KernelWork
from smlab.models.projection.projection import PAPER, Projection, ProjectionSwitches, project

PUBLISHED: Final = replace(PAPER, maxima="spec")
"""Van Lanker et al.'s method. A simulated GPU reaches its rated maxima, so these are its measured ones."""

OURS_SWITCHES: Final = ProjectionSwitches(maxima="spec", launch_overhead=False, latency=True)

OURS: Final = "ours"
"""The defaults of ``smlab project``, with what is true of a simulated GPU: it reaches its rated maxima, has
the latencies of its description, and no launch overhead."""

METHODS: Final[dict[str, ProjectionSwitches]] = {
    "as published": PUBLISHED,
    "as published, with the parallelism ceiling": replace(PUBLISHED, parallelism=True),
    "ours without the parallelism ceiling": replace(OURS_SWITCHES, parallelism=False),
    OURS: OURS_SWITCHES,
}
"""Launch overhead is off: a simulated kernel has none beyond the launch of its blocks."""

WORKING_SET: Final = "ours, working set known"
CYCLES: Final = "ours, as many cycles of waiting"
"""What users get: latencies of descriptions are not believed (``latency`` off)."""
ORACLE: Final = "ours, target's counters known"
BEST_CONSTANT: Final = "best constant"
"""The baseline that is fitted to the cases that judge."""


@dataclass(frozen=True, eq=False)
class Direction:
    """Projections from one GPU to another, of the same kernels; times in seconds, (kernels,).

    ``predicted`` is the middle of the interval by method, ``low`` and ``high`` its ends; `WORKING_SET` is
    told the memory that each kernel touches, `ORACLE` the counts (not the times) of the target; ``baselines``
    need no counter: peak ratio, bandwidth ratio, and the best constant, which is fitted to these very cases.
    """

    source: Gpu
    target: Gpu
    source_s: Floats
    truth_s: Floats
    predicted: dict[str, Floats]
    low: dict[str, Floats]
    high: dict[str, Floats]
    baselines: dict[str, Floats]

    @property
    def name(self) -> str:
        return f"{self.source.name} → {self.target.name}"

    def mape(self, name: str, chosen: NDArray[np.bool_]) -> float:
        """Mean absolute percentage error of a method or baseline over the ``chosen`` (kernels,)."""
        predicted = {**self.predicted, **self.baselines}[name]
        return float(np.mean(100 * np.abs(predicted / self.truth_s - 1)[chosen]))

    def inside(self, method: str) -> float:
        """The share of kernels whose time is within the interval, with 1 % to either side."""
        return float(
            np.mean((self.low[method] <= 1.01 * self.truth_s) & (self.truth_s <= 1.01 * self.high[method]))
        )


def judge_projection(
    work: KernelWork, truth: KernelWork, working_set_bytes: Floats, source: Gpu, target: Gpu
) -> Direction:
    """Project kernels simulated on ``source``, and keep what they took on ``target``."""
    known = work.with_values(working_set_bytes=np.where(working_set_bytes > 0, working_set_bytes, np.nan))
    projections = {name: project(work, source, target, on) for name, on in METHODS.items()}
    projections[CYCLES] = project(work, source, target, replace(OURS_SWITCHES, latency=False))
    projections[WORKING_SET] = project(known, source, target, OURS_SWITCHES)
    counted = replace(OURS_SWITCHES, cache=False)
    projections[ORACLE] = project(work, source, target, counted, target_work=truth)
    peak, bandwidth = (
        float(source.number(key)) / float(target.number(key))
        for key in ("peak.fp32_flops_per_s", "dram.bandwidth_bytes_per_s")
    )
    best = float(np.exp(np.mean(np.log(truth.seconds / work.seconds))))
    return Direction(
        source=source,
        target=target,
        source_s=work.seconds,
        truth_s=truth.seconds,
        predicted={name: _all(p, "mid_s", work) for name, p in projections.items()},
        low={name: _all(p, "low_s", work) for name, p in projections.items()},
        high={name: _all(p, "high_s", work) for name, p in projections.items()},
        baselines={
            "peak ratio": work.seconds * peak,
            "bandwidth ratio": work.seconds * bandwidth,
            BEST_CONSTANT: work.seconds * best,
        },
    )


def _all(p: Projection, name: str, work: KernelWork) -> Floats:
    """A column for all kernels: each has work that a ceiling applies to, so none may have been skipped."""
    assert len(p) == len(work), p.skipped
    values: Floats = getattr(p, name)
    return values

"""The SM clock of a kernel on the source, and which part of it the target can be expected to have.

A profiler that locks the clock keeps it below the rating, on any GPU alike: that carries over. A clock above
the rating is what power and temperature of one board left for one kernel. On another board it may be anything
between the rating and as much above it, and both ends go into the interval. Each instruction takes power: of
a kernel that issues none the middle of the two is expected, of one that issues in each cycle the rating.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.profiles.work.kernel_work import Floats, KernelWork


@dataclass(frozen=True, eq=False)
class ClockRatios:
    """Clocks over those of the descriptions, (kernels,) each: on the source, and expected on the target
    between ``low`` and ``high``. 1 where the profile does not tell.
    """

    source: Floats
    target: Floats
    low: Floats
    high: Floats

    @classmethod
    def rated(cls, kernels: int) -> ClockRatios:
        """As the descriptions have it."""
        return cls(*[np.ones(kernels)] * 4)

    def in_hz(self, source: Gpu, target: Gpu) -> Floats:
        """The SM clock of the source over that of the target, as both are taken to have run, (kernels,)."""
        rated = float(source.number("clock.sm_hz")) / float(target.number("clock.sm_hz"))
        return np.asarray(rated * self.source / self.target)


def clock_ratios(
    work: KernelWork, source: Gpu, target: Gpu, target_clock_hz: float | None = None
) -> ClockRatios:
    """The clocks of ``work``, measured on ``source``, there and on ``target``, whose clock somebody may have
    seen."""
    ratio = work.clock_hz / float(source.number("clock.sm_hz"))
    here = np.where(np.isnan(ratio), 1.0, ratio)
    if target_clock_hz is not None:
        seen = np.full(len(work), target_clock_hz / float(target.number("clock.sm_hz")))
        return ClockRatios(here, seen, seen, seen)
    if source.constants == target.constants:
        return ClockRatios(here, here, here, here)
    beyond = np.maximum(here, 1.0)
    below = np.minimum(here, 1.0)
    return ClockRatios(here, below * beyond ** ((1.0 - activity(work, source)) / 2), below, below * beyond)


def activity(work: KernelWork, gpu: Gpu) -> Floats:
    """Share of the schedulers' cycles that issued an instruction on ``gpu``, 0 to 1, (kernels,); a half where
    instructions, or the clock, were not counted."""
    schedulers = float(gpu.number("gpu.sms")) * float(gpu.number("sm.schedulers"))
    issuing = work.instructions / (schedulers * work.clock_hz * work.seconds)
    return np.where(np.isnan(issuing), 0.5, np.minimum(issuing, 1.0))


def ran_at(work: KernelWork, clock_hz: float | None) -> KernelWork:
    """The same kernels with the SM clock that somebody saw while they ran; as they are without one."""
    return work if clock_hz is None else replace(work, clock_hz=np.full(len(work), clock_hz))

"""A ceiling of sustained arithmetic from the board's power limit.

Rated peaks are at the boost clock. A board of 70 W cannot keep thousands of multiply-adds a cycle going at
it: the driver lowers the clock until the power limit is met. The rate is then power over energy per
operation. The reference is the V100, whose limit is dimensioned for its rated peak: 250 W over 14 TFLOP/s.
A description's `power.operation_energy` tells an operation's energy as a share of that. Both the
reference's own energy and what the process or the maker states of it are kept, as two ends. The clock stays
at or above the base clock, which the maker states, at both ends. The slow bound does not: cards have been
seen below it under their power limits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np

from smlab.hw_bench.gpu.descriptions import Constant, Gpu, load_gpu

REFERENCE: Final = "v100"


@cache
def reference_energy_j() -> float:
    """Of one FP32 operation on the reference's board."""
    gpu = load_gpu(REFERENCE)
    return float(gpu.number("power.limit_w")) / float(gpu.number("peak.fp32_flops_per_s"))


@dataclass(frozen=True)
class PowerCeiling:
    """FP32 operations a second that a board's power allows, infinite where its description does not tell. The
    two ends are ``costly`` (as the reference's) and ``thrifty`` (as stated). The interval goes from ``least``
    to ``most``. ``base`` is the base clock over the boost clock."""

    least: float
    costly: float
    thrifty: float
    most: float
    base: float


def power_ceiling(gpu: Gpu) -> PowerCeiling:
    """What the power of ``gpu`` allows."""
    base = float(gpu.number("clock.base_hz")) / float(gpu.number("clock.boost_hz"))
    if not (gpu.has("power.limit_w") and gpu.has("power.operation_energy")):
        return PowerCeiling(np.inf, np.inf, np.inf, np.inf, base)
    low, value, high = interval_of(gpu["power.operation_energy"])
    as_reference = min(max(1.0, low), high)
    rate = float(gpu.number("power.limit_w")) / reference_energy_j()
    costly, thrifty = max(value, as_reference), min(value, as_reference)
    return PowerCeiling(rate / high, rate / costly, rate / thrifty, rate / low, base)


def interval_of(constant: Constant) -> tuple[float, float, float]:
    """A constant's low end, value and high end; the value for an end that the description does not have."""
    value = float(constant.value)
    low, high = constant.low, constant.high
    return value if low is None else float(low), value, value if high is None else float(high)

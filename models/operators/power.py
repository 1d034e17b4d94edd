"""A ceiling of sustained arithmetic from the board's power limit.

Rated peaks are at the boost clock. A board of 70 W cannot keep thousands of multiply-adds a cycle going at
it: the driver lowers the clock until the power limit is met. The rate is then power over energy per
operation. The energy is taken from the source: its board, whose limit is dimensioned for its rated peak,
sustained so many operations a second, so one takes about limit / rate (at most: the limit need not have been
reached). On another chip it lies between the same and what its process or its maker's statement of efficiency
makes of it (`power.operation_energy`); both ends are kept, and make an interval. The prediction stays at or
above the base clock, which the maker states. The slow end of the interval does not: cards have been seen
below it under their power limits.
"""

from __future__ import annotations

from dataclasses import dataclass

from smlab.hw_bench.gpu.descriptions import Constant, Gpu


@dataclass(frozen=True)
class PowerCeiling:
    """FP32 operations a second that a board can sustain: between ``low`` and ``high`` as the descriptions'
    values have it, both at the base clock at least; between ``min`` and ``max`` with their intervals, the
    slow end without that floor. ``limited``: below the peak.
    """

    min_flops_per_s: float
    low_flops_per_s: float
    high_flops_per_s: float
    max_flops_per_s: float
    limited: bool


def no_ceiling(flops_per_s: float) -> PowerCeiling:
    """The peak and nothing below it."""
    return PowerCeiling(flops_per_s, flops_per_s, flops_per_s, flops_per_s, False)


def power_ceiling(
    source: Gpu, target: Gpu, source_flops_per_s: float, peak_flops_per_s: float
) -> PowerCeiling:
    """The ceiling of ``target`` with its peak ``peak_flops_per_s``, given the rate that ``source`` was seen
    to sustain.

    Where a description has no power limit or no figure for the energy, the peak.
    """
    keys = ("power.limit_w", "power.operation_energy")
    if not all(gpu.has(key) for gpu in (source, target) for key in keys):
        return no_ceiling(peak_flops_per_s)
    energy = source.number("power.limit_w") / source_flops_per_s
    base = peak_flops_per_s * target.number("clock.base_hz") / target.number("clock.boost_hz")
    there, here = interval_of(target["power.operation_energy"]), interval_of(source["power.operation_energy"])

    def rate(relative_energy: float, at_least: float = 0.0) -> float:
        sustained = target.number("power.limit_w") / (energy * relative_energy)
        return min(peak_flops_per_s, max(at_least, sustained))

    relative = there[1] / here[1]
    low, high = rate(max(1.0, relative), base), rate(min(1.0, relative), base)
    least, most = rate(max(1.0, there[2] / here[0])), rate(min(1.0, there[0] / here[2]), base)
    return PowerCeiling(min(least, low), low, high, max(most, high), low < peak_flops_per_s)


def interval_of(constant: Constant) -> tuple[float, float, float]:
    """A constant's low end, value and high end; the value for an end that the description does not have."""
    value = float(constant.value)
    low, high = constant.low, constant.high
    return value if low is None else float(low), value, value if high is None else float(high)

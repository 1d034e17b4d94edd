"""What the board's power limit leaves: a ceiling of sustained arithmetic, and the clock of a kernel.

Rated peaks are at the boost clock. A board of 70 W cannot keep thousands of multiply-adds a cycle going at
it: the driver lowers the clock until the power limit is met. The rate is then power over energy per
operation. The reference is the V100, whose limit is dimensioned for its rated peak: 250 W over 14 TFLOP/s.
A description's `power.operation_energy` tells an operation's energy as a share of that. Both the
reference's own energy and what the process or the maker states of it are kept, as two ends. The clock stays
at or above the base clock, which the maker states, at both ends. The slow bound does not: cards have been
seen below it under their power limits.

The ceiling counts operations alone. `held_clock` knows a kernel's instructions, passes of L1's data stage and
tensor operations (`PowerUse`), each with an energy that the description tells at the boost clock
(`power.instruction_energy_j`, `power.tensor_operation_energy_j`). An energy falls with the clock, since the
voltage does: we take it as proportional. So the power of a kernel that computes goes with the clock squared.
What the memory, the board and leakage take is spread over the instructions, as in the measurements that the
energies come from.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

import numpy as np

from smlab.hw_bench.gpu.descriptions import SM_CLOCK, Gpu, load_gpu

REFERENCE: Final = "v100"
LIMIT: Final = "power.limit_w"
INSTRUCTION: Final = "power.instruction_energy_j"
TENSOR_OPERATION: Final = "power.tensor_operation_energy_j"


@cache
def reference_energy_j() -> float:
    """Of one FP32 operation on the reference's board."""
    gpu = load_gpu(REFERENCE)
    return float(gpu.number(LIMIT)) / float(gpu.number("peak.fp32_flops_per_s"))


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
    if not (gpu.has(LIMIT) and gpu.has("power.operation_energy")):
        return PowerCeiling(np.inf, np.inf, np.inf, np.inf, base)
    low, value, high = gpu["power.operation_energy"].interval
    as_reference = min(max(1.0, low), high)
    rate = float(gpu.number(LIMIT)) / reference_energy_j()
    costly, thrifty = max(value, as_reference), min(value, as_reference)
    return PowerCeiling(rate / high, rate / costly, rate / thrifty, rate / low, base)


@dataclass(frozen=True)
class PowerUse:
    """What a kernel does in ``seconds`` at the described clock: warp-instructions with passes of L1's data
    stage (shared memory and cached lines), and operations of the tensor cores, as many of FP16 as take their
    power. ``memory_share`` is the part of the time, 0 to 1, that passes for DRAM whatever the SMs' clock.
    """

    seconds: float
    instructions: float
    tensor_operations: float = 0.0
    memory_share: float = 0.0


@dataclass(frozen=True)
class HeldClock:
    """The GPU at the clock that its power limit leaves to a kernel, with that clock's interval, and the
    kernel's time over that at the described clock."""

    gpu: Gpu
    slowdown: float


def held_clock(gpu: Gpu, use: PowerUse) -> HeldClock:
    """What the board's power limit makes of the clock of a kernel that runs again and again: nothing where
    the description does not tell the energies, or where somebody knows the clock (it has no interval then).
    """
    clock = gpu[SM_CLOCK]
    told = (LIMIT, INSTRUCTION, *([TENSOR_OPERATION] if use.tensor_operations else []))
    if clock.low is None or not all(map(gpu.has, told)):
        return HeldClock(gpu, 1.0)
    thrifty, usual, costly = (
        _part_of_clock(float(gpu.number(LIMIT)), _watts(gpu, use, end), use.memory_share) for end in range(3)
    )
    if costly == 1.0:
        return HeldClock(gpu, 1.0)
    rated = float(clock.value)
    usual = max(usual, float(gpu.number("clock.base_hz")) / rated)
    source = f"assumed: held by the power limit of {gpu.number(LIMIT):g} W"
    held = replace(
        clock, value=rated * usual, low=rated * min(costly, usual), high=rated * max(thrifty, usual),
        kind="assumed", source=source, note=None,
    )  # fmt: skip
    at = replace(gpu, constants={**gpu.constants, SM_CLOCK: held})
    return HeldClock(at, slowdown(usual, use.memory_share))


def slowdown(part: float, memory_share: float) -> float:
    """A kernel's time at ``part`` of the clock, over that at the clock."""
    return (1 - memory_share) / part + memory_share


def _watts(gpu: Gpu, use: PowerUse, end: int) -> float:
    """What a kernel would take at the described clock, by the low end of the energies (0), their value (1) or
    their high end (2)."""
    joules = use.instructions * gpu[INSTRUCTION].interval[end]
    if use.tensor_operations:
        joules += use.tensor_operations * gpu[TENSOR_OPERATION].interval[end]
    return joules / use.seconds * float(gpu.number(SM_CLOCK)) / float(gpu.number("clock.boost_hz"))


def _part_of_clock(limit: float, watts: float, memory_share: float) -> float:
    """The part of the clock at which a kernel that takes ``watts`` at the whole of it keeps to ``limit``.

    Its work takes ``slowdown(x)`` times as long and each operation ``x`` times the energy, so ``watts x /
    slowdown(x) = limit``, which is a quadratic equation."""
    if watts <= limit:
        return 1.0
    half = limit * memory_share / (2 * watts)
    return min(half + math.sqrt(half**2 + limit * (1 - memory_share) / watts), 1.0)

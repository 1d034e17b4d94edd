"""All advice on a kernel in one order: what was tried, replayed, or is no more than a bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from smlab.commands.advise.kernel_advice import KernelAdvice, SimulatedVersion
from smlab.models.advisor.advice import Advice
from smlab.models.advisor.track_record import record_of

How = Literal["tried", "replayed", "bound"]
LEAST_GAIN: Final = 1.005
"""What is promised less than this would be printed as 1.00, and is no advice."""
SHAPE_OPTIMIZERS: Final = {
    "grid": ("block-increase",),
    "block": ("block-size", "thread-increase"),
}
"""Optimizers whose estimate is moot where the shape was tried."""


@dataclass(frozen=True)
class RankedAdvice:
    """One line of advice with ``how`` its number came; ``advice`` where it comes of an optimizer, ``tried``
    the simulated versions behind it, the best first."""

    name: str
    speedup: float
    low: float
    high: float
    how: How
    advice: Advice | None = None
    tried: tuple[SimulatedVersion, ...] = ()


def interval(advice: Advice) -> tuple[float, float]:
    """Where nine in ten simulated changes with such an estimate lay."""
    low, high = record_of(advice.optimizer.name).interval(advice.speedup)
    return min(low, advice.speedup), max(high, advice.speedup)


def how_of(advice: Advice) -> How:
    """How an optimizer's number came: a replay of the kernel's warps, or equations that take all matched
    stalls away."""
    return "bound" if advice.rewrite is None else "replayed"


def ranked(kernel: KernelAdvice) -> tuple[RankedAdvice, ...]:
    """The advice on a kernel, the most promising first, without what gains nothing."""
    told = _of_shapes(kernel)
    shapes = {kind for version in kernel.trials.versions for kind in version.kind.split("+")}
    moot = {name for kind in shapes for name in SHAPE_OPTIMIZERS.get(kind, ())}
    for advice in kernel.advice:
        if advice.speedup >= LEAST_GAIN and advice.optimizer.name not in moot:
            low, high = interval(advice)
            told.append(
                RankedAdvice(advice.optimizer.name, advice.speedup, low, high, how_of(advice), advice)
            )
    return tuple(sorted(told, key=lambda one: -one.speedup)[: kernel.top])


def _of_shapes(kernel: KernelAdvice) -> list[RankedAdvice]:
    """The launch shapes that were tried, as one piece of advice: the best first, then those that change the
    grid alone."""
    gaining = [v for v in kernel.trials.versions if v.results_equal and v.speedup >= LEAST_GAIN]
    if not gaining:
        return []
    versions = sorted(gaining, key=lambda v: -v.speedup)
    best = versions[0].speedup
    name = "grid" if any(v.kind == "grid" for v in versions) else "block-shape"
    return [RankedAdvice(name, best, best, best, "tried", None, tuple(versions))]

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
MOOT: Final = {
    "grid": ("block-increase",),
    "block": ("block-size", "thread-increase"),
    "unroll": ("loop-unrolling",),
    "batched-loads": ("code-reordering",),
    "fast-math": ("fast-math",),
}
"""Optimizers whose estimate is moot where a change of the kind was tried."""
GROUPS: Final[tuple[tuple[dict[str, str], tuple[str, ...]], ...]] = (
    ({"grid": "grid", "": "block-shape"}, ("grid", "block", "grid+block")),
    ({"": "loop-unrolling"}, ("unroll",)),
    ({"": "batched-loads"}, ("batched-loads",)),
    ({"": "fast-math"}, ("fast-math",)),
    ({"": "restricted-pointers"}, ("restrict",)),
    ({"": "fewer-registers"}, ("registers",)),
    ({"": "combined"}, ("combined",)),
)
"""What is tried, as pieces of advice: their names, by a kind that is among the versions, and the kinds."""


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


def of_optimizer(advice: Advice) -> RankedAdvice:
    """An optimizer's advice with its number and interval; a bound may gain nothing."""
    if advice.doubt:
        return RankedAdvice(advice.optimizer.name, advice.bound, 1.0, advice.bound, "bound", advice)
    low, high = interval(advice)
    return RankedAdvice(advice.optimizer.name, advice.speedup, low, high, "replayed", advice)


def ranked(kernel: KernelAdvice) -> tuple[RankedAdvice, ...]:
    """The advice on a kernel, the most promising first, without what gains nothing; bounds come behind
    numbers."""
    told = _of_trials(kernel)
    kinds = {kind for version in kernel.trials.versions for kind in version.kind.split("+")}
    moot = {name for kind in kinds for name in MOOT.get(kind, ())}
    for advice in kernel.advice:
        if advice.speedup >= LEAST_GAIN and advice.optimizer.name not in moot:
            told.append(of_optimizer(advice))
    return tuple(sorted(told, key=_promise)[: kernel.top])


def _promise(one: RankedAdvice) -> tuple[bool, float]:
    """Of bounds the order is that of the estimates, as far as these go."""
    estimated = one.speedup if one.advice is None else one.advice.speedup
    return one.how == "bound", -estimated


def _of_trials(kernel: KernelAdvice) -> list[RankedAdvice]:
    """What was tried, one piece of advice for each group of kinds: the fastest version first."""
    told: list[RankedAdvice] = []
    for names, kinds in GROUPS:
        alone = max((one.speedup for one in told), default=1.0) if "combined" in kinds else 1.0
        gaining = [
            v
            for v in kernel.trials.versions
            if v.kind in kinds and v.results_equal and v.speedup >= LEAST_GAIN * alone
        ]
        if gaining:
            versions = sorted(gaining, key=lambda v: -v.speedup)
            best = versions[0].speedup
            name = names.get(next((v.kind for v in versions if v.kind in names), ""), names[""])
            told.append(RankedAdvice(name, best, best, best, "tried", None, tuple(versions)))
    return told

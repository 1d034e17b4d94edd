"""All advice on a kernel in one order: what was simulated (tried; or probed, where something stands in for
the change), replayed, bounded, or is only ranked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from smlab.commands.advise.kernel_advice import COMBINED, SHAPE_KINDS, KernelAdvice, SimulatedVersion
from smlab.commands.advise.rewrites.all_rewrites import ADVISED_BY
from smlab.models.advisor.advice import Advice
from smlab.models.advisor.changes.rewrites import Edit, Rewrite
from smlab.models.advisor.track_record import on_a_card, record_of

How = Literal["tried", "probed", "replayed", "bound", "ranked"]
SIMULATED: Final = ("tried", "probed")
LEAST_GAIN: Final = 1.005
"""What is promised less than this would be printed as 1.00, and is no advice."""
LARGEST_BOUND: Final = 2.0
"""A bound above this says too little to be told."""
SHRUNK: Final = 0.5
"""An estimate's logarithm by this, where it stands beside what was simulated: the rank correlation of
estimates with the truth on kernels by others."""
BY_HAND: Final = "kernels by others: no number for a change that moves instructions, or adds some"
MOOT: Final = {
    "grid": ("block-increase",),
    "block": ("block-size", "thread-increase"),
    "unroll": ("loop-unrolling",),
    "batched-loads": ("code-reordering",),
    "fast-math": ("fast-math",),
    **{kind: names for kind, names in ADVISED_BY.items() if "memory-transaction-reduction" not in names},
}
"""Optimizers whose estimate is moot where a change of the kind was tried, and computed the same."""
ONE_OF_SEVERAL: Final = (
    "transposed-array",
    "interleaved",
    "lanes-along-rows",
    "split-loop",
    "trees",
    "barrier",
    "own-counters",
    "loads-ahead",
    "less-shared",
)
"""Kinds that are one way of several to do what the optimizer tells: they settle it where they gain."""
GROUPS: Final[tuple[tuple[dict[str, str], tuple[str, ...]], ...]] = (
    ({"grid": "grid", "": "block-shape"}, ("grid", "block", "grid+block")),
    ({"": "loop-unrolling"}, ("unroll",)),
    ({"": "batched-loads"}, ("batched-loads",)),
    ({"": "fast-math"}, ("fast-math",)),
    ({"": "restricted-pointers"}, ("restrict",)),
    ({"": "fewer-registers"}, ("registers",)),
    ({"": "cheaper-functions"}, ("functions",)),
    ({"": "cheaper-integers"}, ("integers",)),
    ({"": "fewer-barriers"}, ("trees", "barrier")),
    *(
        ({"": kind}, (kind,))
        for kind in ADVISED_BY
        if kind not in ("functions", "integers", "trees", "barrier")
    ),
    ({"": COMBINED}, (COMBINED,)),
)
"""What is tried, as pieces of advice: their names, by a kind that is among the versions, and the kinds."""


@dataclass(frozen=True)
class RankedAdvice:
    """One line of advice with ``how`` its number came; ``advice`` where it comes of an optimizer, ``tried``
    the simulated versions behind it, the best first. A number that was simulated is exact for the change as
    smlab makes it; between ``low`` and ``high`` lies what another hand's change gains on a card in nine of
    ten."""

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
    """An optimizer's advice with its number and interval; with a bound, which may be nothing gained; or with
    neither."""
    if advice.doubt or not _as_it_is(advice):
        how: How = "bound" if advice.bound <= LARGEST_BOUND else "ranked"
        return RankedAdvice(advice.optimizer.name, advice.bound, 1.0, advice.bound, how, advice)
    low, high = interval(advice)
    return RankedAdvice(advice.optimizer.name, advice.speedup, low, high, "replayed", advice)


def _as_it_is(advice: Advice) -> bool:
    """Whether a change leaves the machine code as it is, and only the passes of shared memory are others:
    the one kind of change that replays were right for on kernels by others. Elsewhere a compiler moves
    loads when an instruction goes that kept them apart, lanes meet others, or what is added waits too."""
    change = advice.rewrite
    if change is None or not change.edits or change != Rewrite(edits=change.edits):
        return False
    return all(edit == Edit(passes=edit.passes) for edit in change.edits.values())


def why_bound(advice: Advice) -> str:
    """Why there is no number."""
    return advice.doubt or BY_HAND


def ranked(kernel: KernelAdvice) -> tuple[RankedAdvice, ...]:
    """The advice on a kernel, the most promising first, without what gains nothing; what was tried together
    comes behind the first of what was tried alone."""
    told = _of_trials(kernel)
    done = [v for v in kernel.trials.versions if _settles(v)]
    kinds = {kind for version in done for kind in version.kind.split("+")}
    moot = {name for kind in kinds for name in MOOT.get(kind, ())}
    for advice in kernel.advice:
        if advice.speedup >= LEAST_GAIN and advice.optimizer.name not in moot:
            told.append(of_optimizer(advice))
    order = sorted(told, key=_promise)
    combined = [one for one in order if one.name == COMBINED]
    alone = [one for one in order if one.name != COMBINED]
    return tuple([*alone[:1], *combined, *alone[1:]][: kernel.top])


def _settles(version: SimulatedVersion) -> bool:
    """Whether a version leaves no question of its kind: it gains, or no more of that kind can be done."""
    if version.kind in SHAPE_KINDS:
        return True
    fine = bool(version.results_equal or version.stands_in)
    return fine and (version.kind not in ONE_OF_SEVERAL or version.speedup >= LEAST_GAIN)


def _promise(one: RankedAdvice) -> tuple[bool, float]:
    """What was simulated counts as it is, an estimate as much as it has been worth; one that the model doubts
    comes last."""
    if one.advice is None:
        return False, -one.speedup
    return bool(one.advice.doubt), -(min(one.advice.speedup, one.speedup) ** SHRUNK)


def _of_trials(kernel: KernelAdvice) -> list[RankedAdvice]:
    """What was tried, one piece of advice for each group of kinds: the fastest version first."""
    told: list[RankedAdvice] = []
    for names, kinds in GROUPS:
        alone = max((one.speedup for one in told), default=1.0) if COMBINED in kinds else 1.0
        gaining = [
            v
            for v in kernel.trials.versions
            if v.kind in kinds and (v.results_equal or v.stands_in) and v.speedup >= LEAST_GAIN * alone
        ]
        if gaining:
            versions = sorted(gaining, key=lambda v: (v.stands_in != "", -v.speedup))
            best = versions[0].speedup
            low, high = on_a_card().interval(best)
            name = names.get(next((v.kind for v in versions if v.kind in names), ""), names[""])
            how: How = "probed" if versions[0].stands_in else "tried"
            told.append(RankedAdvice(name, best, low, high, how, None, tuple(versions)))
    return told

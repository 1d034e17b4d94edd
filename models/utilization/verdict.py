"""Is the shared-memory atomic unit the bottleneck? The answer in words that a CUDA programmer uses, and what
to try.

The question is what a kernel would gain from a faster unit. Utilization alone does not tell. A unit with a
long pipeline can hold a job nearly all the time, and still take three times as many. Two quantities tell, on
simulated kernels that were run again with a unit twice as fast. One is the *saturation*: throughput over the
most that the warps can draw from the unit. The other is the share of the warps' time that they spend in the
unit, n / warps. Counter maps (`smlab.models.utilization.counter_maps`) weigh these and all else that the
profile counts; where there is no map for a profile (a batch table alone), the thresholds below decide. How
often either is right on kernels of other families is in the report of ``smlab validate``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike

from smlab.models.utilization.trust_map import UtilizationEstimates, UtilizationInterval

Answer = Literal["bottleneck", "not the bottleneck", "cannot tell"]
BOTTLENECK: Final = "bottleneck"
NOT: Final = "not the bottleneck"
CANNOT_TELL: Final = "cannot tell"

FULL: Final = 0.9
"""Floor of the utilization (the server at work) from which on the unit takes no more."""
SATURATED, SLACK = 0.5, 0.3
"""Saturation from which on the unit may hold the kernel back, and below which it does not."""
CROWDED: Final = 0.7
"""Floor from which on more warps are no remedy."""
WAITING, BRIEF = 0.3, 0.1
"""Share of the warps' time in the unit from which on it holds them back, and below which it does not."""
IDLE: Final = 0.5
"""Utilization below which, with certainty, the unit does not hold a kernel back that spends little time in
it."""

GAIN: Final = 1.1
"""What counts as a bottleneck where the truth is known: so many times as fast with a unit twice as fast."""


@dataclass(frozen=True)
class Verdict:
    """The answer, why, and what to try (nothing where there is nothing to gain)."""

    verdict: Answer
    reason: str
    advice: tuple[str, ...] = ()


def verdicts(
    estimates: UtilizationEstimates,
    interval: UtilizationInterval,
    *,
    merges_increments: bool = False,
    active: ArrayLike = 1.0,
    words: Sequence[str] | None = None,
) -> list[Verdict]:
    """The verdict on each kernel; ``merges_increments`` says that the GPU has ``ATOMS.POPC.INC`` (compute
    capability 8.0 on).

    ``words`` has the answer for each kernel where a counter map gave it
    (`smlab.models.utilization.counter_estimates`), and the thresholds only choose the reason; without, they
    decide. ``active``, (kernels,) or one number, is the share of the elapsed cycles in which the SM was
    active: the reasons tell the interval over the elapsed cycles.
    """
    f = estimates.features
    inside = np.minimum(1.0, estimates.closed.n / f.warps)
    elapsed = np.broadcast_to(np.asarray(active, dtype=np.float64), interval.low.shape)
    ends = np.stack([interval.low * elapsed, interval.high * elapsed], axis=1)
    busy = [f"busy {percent_range(low, high)} % of the time" for low, high in ends.tolist()]
    columns = (f.saturation, inside, interval.high, f.floor, f.e, f.cas_share, f.warps)
    rows = zip(*(np.asarray(c).tolist() for c in columns), strict=True)
    answers = words if words is not None else [None] * len(busy)
    return [
        _verdict(text, _UnitLoad(*row), merges_increments, word)
        for text, row, word in zip(busy, rows, answers, strict=True)
    ]


def percent_range(low: float, high: float) -> str:
    """Two shares (0 .. 1) as percentages, with a decimal where they would else read the same."""
    ends = (f"{100 * low:.0f}", f"{100 * high:.0f}")
    if ends[0] == ends[1]:
        ends = (f"{100 * low:.1f}", f"{100 * high:.1f}")
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)


@dataclass(frozen=True)
class _UnitLoad:
    """What the words of a verdict are about: the `Features` of that name, the share of the warps' time
    ``inside`` the unit, and the ``high`` end of the interval of its utilization (0 .. 1)."""

    saturation: float
    inside: float
    high: float
    floor: float
    e: float
    cas_share: float
    warps: float


def _verdict(busy: str, unit: _UnitLoad, merges: bool, word: str | None) -> Verdict:
    load = (
        f"{100 * unit.saturation:.0f} % of the atomics per cycle that {unit.warps:.0f} warps can get out of "
        "it"
    )
    spent = f"{100 * unit.inside:.0f} % of"
    if word is None:
        word = _by_thresholds(unit)
    if word == BOTTLENECK:
        if unit.floor >= CROWDED:
            reason = f"the atomic unit can hardly take more: {load} ({busy})"
        else:
            reason = (
                f"the warps wait for their atomics: {spent} their time is in the atomic unit ({busy}), "
                "and there are too few warps to hide that"
            )
        return Verdict(BOTTLENECK, reason, _advice(unit, merges))
    if word == NOT:
        some = f"warps spend {100 * unit.inside:.1f} % of their time in it"
        spent = some if unit.inside >= 0.001 else "hardly any time goes to it"
        return Verdict(NOT, f"the atomic unit could take more: {load} ({busy}); {spent}")
    if unit.saturation >= SLACK:
        reason = (
            f"{load} ({busy}): enough for a queue if all warps arrive at once, as after __syncthreads(), "
            "but not if they arrive one by one; these counters cannot tell which"
        )
    else:
        reason = (
            f"{spent} the warps' time is in the atomic unit ({busy}), though it takes {load}: what "
            "else the warps do decides whether that is hidden"
        )
    return Verdict(
        CANNOT_TELL,
        reason,
        ("look at the samples at the ATOMS instructions and where their results are used (--samples)",),
    )


def _by_thresholds(unit: _UnitLoad) -> Answer:
    if unit.floor >= FULL or (unit.inside >= WAITING and unit.saturation >= SATURATED):
        return BOTTLENECK
    return NOT if unit.inside < BRIEF and (unit.saturation < SLACK or unit.high < IDLE) else CANNOT_TELL


def _advice(unit: _UnitLoad, merges: bool) -> tuple[str, ...]:
    """What to try on a bottleneck, the most promising first."""
    advice = []
    if unit.cas_share > 0.3:
        advice.append(
            "replace compare-and-swap loops: a native atomicAdd/atomicMax, or integers for floats and doubles"
        )
    if unit.floor < CROWDED:
        advice.append(
            "do not use the atomic's result (RED rather than ATOM), or do independent work before it is used"
        )
        advice.append("more warps per SM: fewer registers or less shared memory per block")
    if unit.e > 2:
        advice.append(
            f"privatise: several copies of the counters per block, so that fewer of the {unit.e:.0f} lanes "
            "conflict on one word or bank; add the copies up at the end"
        )
        advice.append("reorder the input, so that neighbouring lanes go to different words")
        advice.append(
            "aggregate in the warp: lanes on one word find each other (__match_any_sync, __ballot_sync) and "
            "one adds for all"
        )
        if merges:
            advice.append(
                "where it adds 1 and the result is unused, write atomicAdd(&x, 1): ATOMS.POPC.INC merges "
                "lanes on one word"
            )
    elif unit.floor >= CROWDED:
        advice.append("fewer atomics: add up in registers over several items before each one")
    return tuple(advice)

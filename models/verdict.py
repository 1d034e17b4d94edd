"""Is the shared-memory atomic unit the bottleneck? The answer in words that a CUDA programmer uses, and what
to try.

The question is what a kernel would gain from a faster unit, and utilization alone does not tell: a unit can
hold a job nearly all the time (its pipeline is long) and still take three times as many. What tells, on
simulated kernels that were run again with a unit twice as fast, is the *saturation* (throughput over the most
that the warps can draw from the unit) and the share of the warps' time that they spend in the unit, n /
warps. Counter maps (`smlab.models.counter_maps`) weigh these and all else that the profile counts; where
there is no map for a profile (a batch table alone), the thresholds below decide. How often either is right on
kernels of other families is in the report of ``smlab validate``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike

from smlab.models.trust import UtilizationEstimates, UtilizationInterval

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

    ``words`` has the answer for each kernel where a counter map gave it (`smlab.models.counter_answers`), and
    the thresholds only choose the reason; without, they decide. ``active``, (kernels,) or one number, is the
    share of the elapsed cycles in which the SM was active: the reasons tell the interval over the elapsed
    cycles.
    """
    f = estimates.features
    inside = np.minimum(1.0, estimates.closed.n / f.warps)
    elapsed = np.broadcast_to(np.asarray(active, dtype=np.float64), interval.low.shape)
    ends = np.stack([interval.low * elapsed, interval.high * elapsed], axis=1)
    busy = [f"busy {percent_range(low, high)} % of the time" for low, high in ends.tolist()]
    columns = (f.saturation, inside, interval.high, f.floor, f.e, f.cas_share, f.warps)
    rows = zip(*(np.asarray(c).tolist() for c in columns), strict=True)
    given = words if words is not None else [None] * len(busy)
    return [
        _verdict(said, *row, merges=merges_increments, word=word)
        for said, row, word in zip(busy, rows, given, strict=True)
    ]


def percent_range(low: float, high: float) -> str:
    """Two shares (0 .. 1) as percentages, with a decimal where they would else read the same."""
    ends = (f"{100 * low:.0f}", f"{100 * high:.0f}")
    if ends[0] == ends[1]:
        ends = (f"{100 * low:.1f}", f"{100 * high:.1f}")
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)


def _verdict(
    busy: str,
    saturation: float,
    inside: float,
    high: float,
    floor: float,
    e: float,
    cas_share: float,
    warps: float,
    *,
    merges: bool,
    word: str | None,
) -> Verdict:
    load = f"{100 * saturation:.0f} % of the atomics per cycle that {warps:.0f} warps can get out of it"
    if word is None:
        word = _by_thresholds(saturation, inside, high, floor)
    if word == BOTTLENECK:
        if floor >= CROWDED:
            reason = f"the atomic unit can hardly take more: {load} ({busy})"
        else:
            reason = (
                f"the warps wait for their atomics: {100 * inside:.0f} % of their time is in the unit "
                f"({busy}), "
                "and there are too few warps to hide that"
            )
        return Verdict(BOTTLENECK, reason, _advice(floor, e, cas_share, merges))
    if word == NOT:
        spent = (
            f"warps spend {100 * inside:.1f} % of their time in it"
            if inside >= 0.001
            else "hardly any time goes to it"
        )
        return Verdict(NOT, f"the unit has room to spare: {load} ({busy}); {spent}")
    if saturation >= SLACK:
        reason = (
            f"{load} ({busy}): enough to queue when all warps come at once, as after __syncthreads(), and "
            f"not when they come "
            "one by one; these counters cannot tell which"
        )
    else:
        reason = (
            f"{100 * inside:.0f} % of the warps' time is in the unit ({busy}), though it takes {load}: "
            f"whether that is hidden "
            "depends on what else the warps have to do"
        )
    return Verdict(
        CANNOT_TELL,
        reason,
        ("look at the samples at the ATOMS instructions and where their results are used (--samples)",),
    )


def _by_thresholds(saturation: float, inside: float, high: float, floor: float) -> Answer:
    if floor >= FULL or (inside >= WAITING and saturation >= SATURATED):
        return BOTTLENECK
    return NOT if inside < BRIEF and (saturation < SLACK or high < IDLE) else CANNOT_TELL


def _advice(floor: float, e: float, cas_share: float, merges: bool) -> tuple[str, ...]:
    """What to try on a bottleneck, the most promising first."""
    found = []
    if cas_share > 0.3:
        found.append(
            "replace compare-and-swap loops: a native atomicAdd/atomicMax, or integers for floats and doubles"
        )
    if floor < CROWDED:
        found.append(
            "do not use the atomic's result (RED rather than ATOM), or do independent work before it is used"
        )
        found.append("more warps per SM: fewer registers or less shared memory per block")
    if e > 2:
        found.append(
            f"privatise: several copies of the counters per block, so that fewer of the {e:.0f} lanes that "
            f"wait for each "
            "other meet on one word or bank; add the copies up at the end"
        )
        found.append("reorder the input, so that neighbouring lanes go to different words")
        found.append(
            "aggregate in the warp: lanes on one word find each other (__match_any_sync, __ballot_sync) and "
            "one adds for all"
        )
        if merges:
            found.append(
                "where it adds 1 and the result is unused, write atomicAdd(&x, 1): ATOMS.POPC.INC merges "
                "lanes on one word"
            )
    elif floor >= CROWDED:
        found.append("fewer atomics: add up in registers over several items before each one")
    return tuple(found)

"""Warp scheduler policies: which of the eligible warps issues.

To add a policy, write a function and put it into `POLICIES`. The function gets the eligible warps of one
scheduler, in the order of their slots, and the warp that this scheduler issued last.

That is all for the reference engine (``--engine simpy``). The compiled engine needs a code and a branch in
`smlab.sim.compiled.issue` (`POLICY_CODES`, `choose`). The comparison of the engines checks that both mean the
same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol


class Candidate(Protocol):
    """What a policy may look at. ``age`` counts launches (smaller is older), and ``slot`` is the warp's place
    on the SM. ``issued`` is the cycle after its last issue (before the first, the cycle of its launch)."""

    age: int
    slot: int
    issued: int


def gto(eligible: Sequence[Candidate], last: Candidate | None) -> Candidate:
    """Greedy then oldest: stay with the warp that issued last while it can issue, else take the oldest."""
    if last is not None and any(w is last for w in eligible):
        return last
    return oldest(eligible, last)


def gty(eligible: Sequence[Candidate], last: Candidate | None) -> Candidate:
    """Greedy then youngest: stay with the warp that issued last while it can issue, else take the youngest
    (Huerta et al., 2025, section 5.1.2, on an RTX A6000)."""
    if last is not None and any(w is last for w in eligible):
        return last
    return max(eligible, key=lambda w: w.age)


def glr(eligible: Sequence[Candidate], last: Candidate | None) -> Candidate:
    """Greedy then least recent: stay with the warp that issued last while it can issue, else take the one
    whose last issue is longest ago, among equals the oldest. So warps that wait for one unit take turns."""
    if last is not None and any(w is last for w in eligible):
        return last
    return min(eligible, key=lambda w: (w.issued, w.age))


def lrr(eligible: Sequence[Candidate], last: Candidate | None) -> Candidate:
    """Loose round robin: the first eligible warp after the slot that issued last, wrapping around."""
    after = -1 if last is None else last.slot
    return next((w for w in eligible if w.slot > after), eligible[0])


def oldest(eligible: Sequence[Candidate], last: Candidate | None) -> Candidate:
    """The warp that was launched first."""
    return min(eligible, key=lambda w: w.age)


Policy = Callable[[Sequence[Candidate], Candidate | None], Candidate]

POLICIES: dict[str, Policy] = {"gto": gto, "gty": gty, "glr": glr, "lrr": lrr, "oldest": oldest}
GREEDY = ("gto", "gty", "glr")
"""Those that stay with the warp that issued last. It has no such right with an atomic on global memory that
it had to wait for (`sim/SEMANTICS.md`, 4.2): its scheduler then tells the policy of no last warp."""

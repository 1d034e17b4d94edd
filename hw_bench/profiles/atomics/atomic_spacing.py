"""How closely a warp's atomics follow each other, from a source page: where they stand in the code, how often
each instruction was executed, and how long warps were at it.

No counter shows *when* atomics come, and that decides how long the atomic unit is at work. Two things put
them there together: a warp that issues several in a row, and a barrier that lets warps go at once. Both are
read from the code. The time from one instruction to another is the sum of what warps spend, an execution, at
those between them. Loops are known by their backward branches, and what is executed less often than the
atomic (a branch not always taken, an outer loop) is between two of its executions in that share of cases.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Marks = NDArray[np.bool_]

EDGES_CYCLES: Final = (4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0)
SPACING_NAMES: Final = (
    *(f"within {edge:g} cycles of an atomic" for edge in EDGES_CYCLES),
    *(f"within {edge:g} cycles of a barrier" for edge in EDGES_CYCLES),
    "barriers",
    "returned",
)
"""The share of the atomics that their warp executes so soon after its last one, and after its last barrier;
barriers for each; the share of those that have a result."""

LEVELS: Final = (np.arange(10) + 0.5) / 10
"""Cases that each atomic stands for: in the one of level x, all is executed that is executed in more than
the share x of its executions."""


@dataclass(frozen=True, eq=False)
class AtomicCode:
    """A kernel's instructions in the order of addresses, all arrays (instructions,): which are shared-memory
    atomics, which of these have a result, which are barriers, how often warps executed each, and the cycles
    that warps spent at it (both per anything); ``loops`` are first and last instruction of each."""

    atomic: Marks
    returned: Marks
    barrier: Marks
    executed: Floats
    spent: Floats
    loops: tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False)
class Spacing:
    """For each atomic and case a ``weight`` (together 1) and the cycles since the warp's last atomic and
    since its last barrier, infinite where there is none. ``barriers`` are executed barriers an executed
    atomic, ``returned`` the share of the executed atomics that have a result."""

    weight: Floats
    since_atomic: Floats
    since_barrier: Floats
    barriers: float
    returned: float

    def row(self) -> Floats:
        """The numbers that `SPACING_NAMES` names."""
        since = np.stack([self.since_atomic, self.since_barrier])[:, None]
        shares = (self.weight * (since <= np.array(EDGES_CYCLES)[:, None])).sum(axis=-1)
        return np.array([*shares.ravel(), self.barriers, self.returned])


def spacing(code: AtomicCode) -> Spacing | None:
    """How closely atomics follow each other and barriers; None where no atomic was executed."""
    atomics = np.flatnonzero(code.atomic & (code.executed > 0))
    if not len(atomics):
        return None
    weight, of_atomic, of_barrier = [], [], []
    for place in atomics.tolist():
        executed = code.executed[place]
        for level in LEVELS.tolist():
            way = _way_back(code, place, level)
            weight.append(executed)
            of_atomic.append(_since(code, code.atomic, place, way, level))
            of_barrier.append(_since(code, code.barrier, place, way, level))
    total = float(code.executed[code.atomic].sum())
    barriers, returned = (float(code.executed[m].sum()) / total for m in (code.barrier, code.returned))
    weights = np.array(weight) / sum(weight)
    return Spacing(weights, np.array(of_atomic), np.array(of_barrier), barriers, returned)


def _way_back(code: AtomicCode, place: int, level: float) -> NDArray[np.intp]:
    """The instructions before ``place``, the nearest first, once around the loop that is gone around in that
    share of its executions, or back to the beginning."""
    around = sorted((x for x in code.loops if x[0] <= place <= x[1]), key=lambda x: x[1] - x[0])
    for first, last in around:
        outside = [code.executed[n] for n in (first - 1, last + 1) if 0 <= n < len(code.executed)]
        if min(outside, default=0.0) < level * code.executed[place]:
            return np.concatenate([np.arange(place - 1, first - 1, -1), np.arange(last, place - 1, -1)])
    return np.arange(place - 1, -1, -1)


def _since(code: AtomicCode, marks: Marks, place: int, way: NDArray[np.intp], level: float) -> float:
    """The time from the last mark on the way to ``place``."""
    own_count = code.executed[place]
    taken = way[code.executed[way] > level * own_count]
    marked = np.flatnonzero(marks[taken])
    if not len(marked):
        return np.inf
    mark = taken[marked[0]]
    between = taken[: marked[0]]
    # In an inner loop with the mark in it, only its last turn counts; in one without, all turns do.
    often, inner = code.executed[between], code.executed[mark]
    last_turn = (inner > 1.1 * own_count) & (often >= 0.9 * inner)
    rounds = np.where(last_turn, often, np.minimum(often, own_count))
    return float(code.spent[place] / own_count + (code.spent[between] / rounds).sum())

"""The points that `shared-atomics` and `shared-banks` measure: warps, compare-and-swap, and which lane
touches which word.

Device functions by which blocks share out the points of a benchmark, alone on an SM or two together.

Each SM has a row of numbers in global memory, its *desk*. Blocks take seats in the order in which they come;
with two blocks to an SM, the first takes points from the queue and tells the second, and both meet before
each timed region. A block that waits longer than its patience gives up, and its points stay unmeasured:
nothing here can hang.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.cuda.kernels.device import coarse_clock, cuda, int32
from smlab.hw_bench.errors import SmlabError

LANES: Final = 32
BANKS: Final = 32
MAX_WARPS: Final = 32
"""Warps of a block."""
_INACTIVE: Final = -1


@dataclass(frozen=True)
class Pattern:
    """``lanes`` active lanes, ``same_word`` of them on each word, ``same_bank`` distinct words on each
    bank used."""

    lanes: int
    same_word: int = 1
    same_bank: int = 1

    def words(self) -> NDArray[np.int32]:
        """The word of each lane, shape ``(32,)``; -1 for a lane that is not active.

        Raises:
            SmlabError: for what cannot be laid out.
        """
        if not 1 <= self.lanes <= LANES:
            raise SmlabError.at("pattern: lanes", "out of range", self.lanes, f"1 to {LANES}")
        if self.same_word < 1 or self.lanes % self.same_word:
            raise SmlabError.at(
                "pattern: same_word",
                "does not divide the active lanes",
                self.same_word,
                f"a divisor of {self.lanes}",
            )
        count = self.lanes // self.same_word
        if self.same_bank < 1 or count % self.same_bank:
            raise SmlabError.at(
                "pattern: same_bank",
                f"does not divide the {count} words",
                self.same_bank,
                f"a divisor of {count}",
            )
        word = np.arange(self.lanes, dtype=np.int32) // self.same_word
        lanes = np.full(LANES, _INACTIVE, dtype=np.int32)
        lanes[: self.lanes] = word % self.same_bank * BANKS + word // self.same_bank
        return lanes


def every_pattern() -> list[Pattern]:
    """All patterns that can be laid out."""
    return [
        Pattern(lanes, same_word, same_bank)
        for lanes in range(1, LANES + 1)
        for same_word in range(1, lanes + 1)
        if lanes % same_word == 0
        for same_bank in range(1, lanes // same_word + 1)
        if lanes // same_word % same_bank == 0
    ]


@dataclass(frozen=True)
class AtomicPoint:
    """``warps`` warps on one SM, ``cas_warps`` of which do compare-and-swap, on the words of ``pattern``.

    ``warp_stride_words`` lies between the words of one warp and those of the next; 0 puts all warps on the
    same words.
    """

    warps: int
    pattern: Pattern
    cas_warps: int = 0
    warp_stride_words: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.warps <= 2 * MAX_WARPS:
            raise SmlabError.at("point: warps", "out of range", self.warps, f"1 to {2 * MAX_WARPS}")
        if not 0 <= self.cas_warps <= self.warps:
            raise SmlabError.at("point: cas_warps", "out of range", self.cas_warps, f"0 to {self.warps}")


def paper_points(
    warps: Iterable[int], lanes: Iterable[int], cas_steps: int | None = None
) -> list[AtomicPoint]:
    """T(n, e, c) as the paper has it: e lanes on one word, c from 0 to n in all or in ``cas_steps`` equal
    steps."""
    points: list[AtomicPoint] = []
    for n in warps:
        shares = (
            range(n + 1) if cas_steps is None else sorted({n * i // cas_steps for i in range(cas_steps + 1)})
        )
        points.extend(AtomicPoint(n, Pattern(e, e), c) for e in lanes for c in shares)
    return points


INLINED: Final = {"device": True, "inline": "always"}
"""Options of a device function that becomes a part of its kernel."""

NEXT, ABANDONED = range(2)
"""Columns of the queue: the next point to take, and how many SMs gave up waiting for a second block."""
QUEUE_COLUMNS: Final = 2

SEATS, ARRIVED, MET, START, BOX = range(5)
"""Columns of a desk: blocks that came, arrivals at meetings, meetings held, the clock at which to start, and
two boxes for the point to do."""
DESK_COLUMNS: Final = BOX + 2

_PATIENCE_CYCLES: Final = 200_000_000
_LEAD_CYCLES: Final = 4_000
_GONE: Final = -1_000_000
END: Final = -1
"""Instead of a point: there is nothing more to do."""


@cuda.jit(**INLINED)
def _wait(desks: Any, sm: Any, column: Any, wanted: Any) -> Any:
    """Poll until a number of the desk has reached the one wanted; False when patience ends first."""
    began = coarse_clock()
    while cuda.atomic.add(desks, (sm, column), 0) < wanted:
        if int32(coarse_clock() - began) > _PATIENCE_CYCLES:
            return False
    return True


@cuda.jit(**INLINED)
def take_seat(desks: Any, queue: Any, sm: Any, blocks: Any) -> Any:
    """This block's place among the ``blocks`` of its SM; -1 when there is no place, or no partner."""
    seat = cuda.atomic.add(desks, (sm, SEATS), 1)
    if seat < 0 or seat >= blocks:
        return int32(-1)
    if (
        blocks == 2
        and seat == 0
        and not _wait(desks, sm, SEATS, 2)
        and cuda.atomic.cas(desks, (sm, SEATS), 1, _GONE) == 1
    ):
        cuda.atomic.add(queue, ABANDONED, 1)
        return int32(-1)
    return int32(seat)


@cuda.jit(**INLINED)
def next_point(desks: Any, queue: Any, sm: Any, seat: Any, blocks: Any, turn: Any, points: Any) -> Any:
    """The point to do in this turn, or `END`. The second block learns it from the first one's box."""
    box = BOX + (turn & 1)
    if seat == 0:
        point = int32(cuda.atomic.add(queue, NEXT, 1))
        if point >= points:
            point = int32(END)
        if blocks == 2:
            cuda.atomic.exch(desks, (sm, box), int32(point + 2))
        return point
    began = coarse_clock()
    answer = int32(0)
    while answer == 0 and int32(coarse_clock() - began) < _PATIENCE_CYCLES:
        answer = int32(cuda.atomic.exch(desks, (sm, box), 0))
    return int32(max(answer - 2, END))


@cuda.jit(**INLINED)
def meet(desks: Any, sm: Any, meeting: Any) -> Any:
    """Wait for the other block of the SM; both leave at the same clock. False when it did not come.

    Meetings are numbered from 1. Both blocks' threads leave within one turn of the last loop here, some 30
    cycles.
    """
    arrived = cuda.atomic.add(desks, (sm, ARRIVED), 1) + 1
    if arrived == 2 * meeting:
        cuda.atomic.exch(desks, (sm, START), int32(coarse_clock() + _LEAD_CYCLES))
        cuda.threadfence()
        cuda.atomic.exch(desks, (sm, MET), int32(meeting))
    elif not _wait(desks, sm, MET, meeting):
        return False
    cuda.threadfence()
    start = cuda.atomic.add(desks, (sm, START), 0)
    while int32(start - coarse_clock()) > 0:
        pass
    return True

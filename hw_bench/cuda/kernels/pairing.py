"""Device functions by which blocks share out the points of a benchmark, alone on an SM or two together.

Each SM has a row of numbers in global memory, its *desk*. Blocks take seats in the order in which they come;
with two blocks to an SM, the first takes points from the queue and tells the second, and both meet before
each timed region. A block that waits longer than its patience gives up, and its points stay unmeasured:
nothing here can hang.
"""

from __future__ import annotations

from typing import Any, Final

from smlab.hw_bench.cuda.kernels.device import coarse_clock
from smlab.hw_bench.cuda.kernels.language import cuda, int32

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
    found = int32(0)
    while found == 0 and int32(coarse_clock() - began) < _PATIENCE_CYCLES:
        found = int32(cuda.atomic.exch(desks, (sm, box), 0))
    return int32(max(found - 2, END))


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

"""A warp whose cycles are also counted by the instruction that it is at."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from smlab.sim.instructions import Reason
from smlab.sim.reference.warp import Block, Warp, WarpPlace


class CountedWarp(Warp):
    """A warp of a program that counts by instruction.

    ``stalls`` (instructions + 1, reasons) is of the whole run; its last row takes what a warp does behind its
    last instruction. ``first`` is the row of the program's first instruction, ``at`` the row that the warp's
    cycles are booked under, since ``booked``.
    """

    __slots__ = ("at", "booked", "first", "stalls")

    def __init__(self, block: Block, place: WarpPlace, first: int, stalls: NDArray[np.int64]) -> None:
        self.stalls, self.first, self.at, self.booked = stalls, first, first, place.launch
        super().__init__(block, place)

    def advance(self) -> None:
        super().advance()
        self.at = -1 if self.next is None else self.first + self.next.slot

    def book(self, now: int) -> None:
        """Add the cycles up to now to the instruction's own."""
        self.stalls[self.at, self.reason] += now - self.booked
        self.booked = now

    def book_issue(self, now: int) -> None:
        """The instruction is issued in this cycle."""
        self.book(now)
        self.stalls[self.at, Reason.SELECTED] += 1
        self.booked = now + 1

    def charge(self, now: int, reason: Reason) -> None:
        if now > self.booked:
            self.book(now)
        super().charge(now, reason)

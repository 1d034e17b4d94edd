"""A warp that a source leads, in place of a program: control codes drive its issue (see
`smlab.sim.instruction_source`)."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smlab.sim.instruction_source import (
    COPY_GROUPS,
    FENCED_SLOTS,
    GROUP_SLOT,
    LONG_SLOT,
    PRODUCT_GROUPS,
    PRODUCT_SLOT,
    SCOREBOARDS,
    SHARED_STORE_SLOT,
    SHORT_SLOT,
    SLOTS,
    STALL_SLOT,
    STORE_SLOT,
    TOLD,
    CopyOnItsWay,
    ReferenceSource,
    awaited_product_slots,
    awaited_slots,
)
from smlab.sim.instructions import Reason, Unit
from smlab.sim.lowering import Operation
from smlab.sim.reference.profiled_warp import CountedWarp
from smlab.sim.reference.warp import Block, WarpPlace


@cache
def _needs(wait_mask: int) -> list[tuple[int, Reason]]:
    """What an instruction with a wait mask waits for."""
    waits = [b for b in range(SCOREBOARDS) if wait_mask >> b & 1]
    return [
        *((LONG_SLOT + b, Reason.LONG_SCOREBOARD) for b in waits),
        *((SHORT_SLOT + b, Reason.SHORT_SCOREBOARD) for b in waits),
        (STALL_SLOT, Reason.WAIT),
    ]


class MachineCodeWarp(CountedWarp):
    """A warp whose next instruction, lanes and addresses a source gives.

    ``result_at`` and ``pending`` are by scoreboard, not by instruction; ``line`` is the line of code that was
    fetched for it last.
    """

    __slots__ = (
        *("addresses", "arrivals", "copies", "groups", "lanes", "line", "passes", "products", "sm", "source"),
    )

    def __init__(
        self,
        block: Block,
        place: WarpPlace,
        sm: int,
        source: ReferenceSource,
        stalls: NDArray[np.int64],
    ) -> None:
        super().__init__(block, place, 0, stalls)
        self.sm = sm
        self.source = source
        self.pending = [0] * SLOTS
        self.result_at = [0] * SLOTS
        self.line = -1
        self.groups = 0  # groups of copies that it has closed
        self.products = 0  # and of products of matrices
        self.copies: set[int] = set()  # the numbers of its copies by lanes that are not back
        self.arrivals: list[CopyOnItsWay] = []  # what waits for those
        self.lanes, self.passes = 0, 1
        self.addresses: list[int] = []

    def advance(self) -> None:
        """The block's barrier has opened."""
        self.source.opened(self.sm, self.slot)
        self.go_on()

    def go_on(self) -> None:
        """To the instruction that the source names."""
        # Behind the last instruction the source has a fault to tell.
        place = min(self.source.pc(self.sm, self.slot), len(self.program.operations) - 1)
        self.next = self.program.operations[place]
        self.at = self.next.slot

    def arrive_after_copies(self, arrivals: list[CopyOnItsWay], now: int) -> None:
        """Arrivals come when the copies by lanes are back that the warp has issued."""
        for arrival in arrivals:
            if self.copies:
                arrival.awaited = set(self.copies)
                self.arrivals.append(arrival)
            else:
                arrival.done = now + 1

    def copy_is_back(self, sequence: int, now: int) -> None:
        """A copy by lanes is back, for which arrivals may wait."""
        self.copies.discard(sequence)
        for arrival in self.arrivals:
            arrival.awaited.discard(sequence)
            if not arrival.awaited:
                arrival.done = now
        self.arrivals = [arrival for arrival in self.arrivals if arrival.awaited]

    def value(self, operation: Operation, of: str) -> int:
        passes = self.passes if operation.passes == TOLD else int(operation.passes)
        return passes if of == "passes" else operation.base_work + passes * operation.pass_work

    def byte_addresses(self, operation: Operation) -> list[int]:
        return self.addresses

    def lanes_of(self, operation: Operation) -> int:
        return self.lanes

    def target_of(self, operation: Operation) -> int:
        assert operation.control is not None
        if operation.joins_group and operation.bulk_copy is None:
            return GROUP_SLOT + self.groups % COPY_GROUPS
        if operation.joins_products:
            return PRODUCT_SLOT + self.products % PRODUCT_GROUPS
        if operation.fenced:
            return STORE_SLOT if operation.cls.unit is Unit.GLOBAL else SHARED_STORE_SLOT
        written = operation.control.write_barrier
        if written is None or written >= SCOREBOARDS:
            return -1
        return (LONG_SLOT if operation.cls.unit is Unit.GLOBAL else SHORT_SLOT) + written

    def read_target_of(self, operation: Operation) -> int:
        assert operation.control is not None
        read = operation.control.read_barrier
        return -1 if read is None or read >= SCOREBOARDS else SHORT_SLOT + read

    def needed(self) -> list[tuple[int, Reason]]:
        assert self.next is not None
        assert self.next.control is not None
        needs = _needs(self.next.control.wait_mask)
        if self.next.is_fence:
            needs = [*((slot, Reason.LONG_SCOREBOARD) for slot in FENCED_SLOTS), *needs]
        if self.next.is_shared_fence:
            needs = [(SHARED_STORE_SLOT, Reason.SHORT_SCOREBOARD), *needs]
        if (left := self.next.products_left) >= 0:
            products = awaited_product_slots(self.products, left)
            needs = [*((s, Reason.SHORT_SCOREBOARD) for s in products), *needs]
        if (left := self.next.groups_left) < 0:
            return needs
        return [*((s, Reason.LONG_SCOREBOARD) for s in awaited_slots(self.groups, left)), *needs]

    @property
    def issue_stall(self) -> int:
        """How long its next instruction keeps the one after it from issuing."""
        assert self.next is not None
        return self.next.stall_cycles


class RecordedWarp(MachineCodeWarp):
    """A warp that a trace leads: no control codes, but for each instruction what it waits for."""

    __slots__ = ()

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.pending = [0] * (SLOTS + 2 * self.program.slots)
        self.result_at = [0] * (SLOTS + 2 * self.program.slots)

    def target_of(self, operation: Operation) -> int:
        return SLOTS + 2 * operation.slot

    def read_target_of(self, operation: Operation) -> int:
        return SLOTS + 2 * operation.slot + 1

    def needed(self) -> list[tuple[int, Reason]]:
        assert self.next is not None
        slots = self.program.slots
        places = [(SLOTS + 2 * (p % slots) + (p >= slots), p) for p in self.next.after]
        return [
            *((place, self.program.class_at(p).result_reason) for place, p in places),
            (STALL_SLOT, Reason.WAIT),
        ]

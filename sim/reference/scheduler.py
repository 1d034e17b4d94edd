"""A warp scheduler: looks at its warps, says what each is waiting for, and issues from one of them."""

from __future__ import annotations

from typing import Protocol, cast

from smlab.sim.instructions import QUEUED_UNITS, Reason, Unit
from smlab.sim.machine import TICKS_PER_CYCLE, Machine, PipeTiming
from smlab.sim.policies import GREEDY, POLICIES
from smlab.sim.reference.memory import ATOMICS
from smlab.sim.reference.path import MemoryPath
from smlab.sim.reference.warp import Warp

NEVER = 1 << 62
UNKNOWN = 0
"""In place of a cycle: the wait ends with an event that wakes the scheduler, not at a time known now."""


class IssueStage(Protocol):
    """What a scheduler wants of its SM: the units it may issue to, and someone to send an instruction on."""

    @property
    def machine(self) -> Machine: ...

    @property
    def path(self) -> MemoryPath: ...

    @property
    def pipe_free(self) -> dict[str, int]: ...

    def charge(self, warp: Warp, now: int, reason: Reason) -> None: ...

    def issue(self, warp: Warp, scheduler: Scheduler, now: int) -> None: ...

    def wake(self, scheduler: Scheduler, cycle: int) -> None: ...


class Scheduler:
    """One of the schedulers of an SM; it issues at most one warp-instruction a cycle.

    It looks only in cycles in which something may have changed for one of its warps (`next_look`); in
    between, every warp keeps the reason of the last look.
    """

    def __init__(self, sm: IssueStage, index: int) -> None:
        self.sm = sm
        self.index = index
        self.policy = POLICIES[sm.machine.policy]
        self.greedy = sm.machine.policy in GREEDY
        self.warps: list[Warp] = []  # resident ones, by slot
        self.last: Warp | None = None
        self.next_look = NEVER
        self.pipe_free = dict.fromkeys(sm.machine.pipes, 0)
        self.product_carry = 0  # what is left of a cycle when its tensor core is free
        self.held = 0  # it issues nothing before
        self.stalls_until = 0  # when the stall cycles of what it issued last are over
        self.products_end = 0  # when its tensor core has done the products by groups of warps accepted so far
        self.banks_owed = 0  # cycles in which the banks gave something else meanwhile, less those to spare
        self.banks_awaited = 0  # cycles of the banks that bulk copies wait for

    def interval_of(self, timing: PipeTiming) -> int:
        """How many cycles an instruction that issues now keeps a pipe."""
        cycles, self.product_carry = divmod(self.product_carry + timing.fraction_ticks, TICKS_PER_CYCLE)
        return timing.interval_cycles + cycles

    def add(self, warp: Warp) -> None:
        self.warps.append(warp)
        self.warps.sort(key=lambda w: w.slot)

    def take_product(self, timing: PipeTiming, now: int) -> tuple[int, int]:
        """Accept a product by a group of warps; when its turn comes, and for how long the tensor core then
        works on it."""
        begin = max(now, self.products_end)
        if begin == now:  # what the products before had to spare has gone by, and copies had the banks
            self.banks_owed = max(self.banks_owed, 0)
            self.banks_awaited = 0
        interval = timing.interval_cycles + max(self.banks_owed, 0)
        for_copies = min(self.banks_awaited, timing.spare_cycles)
        self.banks_awaited -= for_copies
        self.banks_owed = min(self.banks_owed, 0) - (timing.spare_cycles - for_copies)
        self.products_end = begin + interval
        return begin, interval

    def look(self, now: int) -> None:
        """Settle what each warp does with this cycle, issue one if one can, and say when to look again."""
        self.next_look = NEVER
        eligible: list[Warp] = []
        wake = NEVER
        for warp in self.warps:
            obstacle = self._obstacle(warp, now)
            if obstacle is None:
                eligible.append(warp)
                continue
            reason, until = obstacle
            if reason is not warp.reason:
                self.sm.charge(warp, now, reason)
            if until != UNKNOWN:
                wake = min(wake, until)
        if eligible and now < self.held:
            for warp in eligible:
                if warp.reason is not Reason.NOT_SELECTED:
                    self.sm.charge(warp, now, Reason.NOT_SELECTED)
            wake = min(wake, self.held)
        elif eligible:
            chosen = cast(Warp, self.policy(eligible, None if self._lost_its_turn(now) else self.last))
            assert chosen.next is not None
            self.last = chosen
            self.stalls_until = now + chosen.next.stall_cycles
            chosen.issued = now + 1
            for warp in eligible:
                reason = Reason.SELECTED if warp is chosen else Reason.NOT_SELECTED
                if reason is not warp.reason:
                    self.sm.charge(warp, now, reason)
            self.sm.issue(chosen, self, now)
            wake = now + 1
        if wake != NEVER:
            self.sm.wake(self, wake)

    def _lost_its_turn(self, now: int) -> bool:
        """Whether the warp that issued last has had to wait with an atomic on global memory."""
        operation = None if self.last is None else self.last.next
        if not self.greedy or operation is None or now <= self.stalls_until:
            return False
        return operation.cls.unit is Unit.GLOBAL and operation.cls.operation in ATOMICS

    def _obstacle(self, warp: Warp, now: int) -> tuple[Reason, int] | None:
        """Why the warp cannot issue in this cycle and until when (`UNKNOWN` for an event), or None if it can.

        The order is part of the semantics: what the warp itself needs comes before what its unit lacks.
        """
        if warp.at_barrier:
            return Reason.BARRIER, UNKNOWN
        operation = warp.next
        if operation is None:
            return Reason.DRAIN, UNKNOWN
        if now < warp.ready:
            return Reason.DISPATCH_STALL, warp.ready
        if now < warp.fetched:
            return Reason.NO_INSTRUCTION, warp.fetched
        dependence = warp.dependence(now)
        if dependence is not None:
            return dependence
        cls = operation.cls
        if cls.unit is Unit.PIPE:
            free = self.pipes_of(cls.pipe)[cls.pipe]
            return (cls.full_reason, free) if free > now else None
        if cls.unit in QUEUED_UNITS and not self.sm.path.has_room(self.index):
            return cls.full_reason, UNKNOWN
        return None

    def pipes_of(self, pipe: str) -> dict[str, int]:
        """Where the moment at which this pipe is free is kept: with the scheduler, or with the SM if they
        share it."""
        return self.sm.pipe_free if self.sm.machine.pipes[pipe].per_sm else self.pipe_free

"""The queued units of an SM: a bounded queue, one server, and a pipeline behind it.

Each unit is a SimPy process that takes jobs in the order of their issue. How long a job occupies the server
is the unit's business (`FifoUnit.occupancy`), and so is what happens to it afterwards (`FifoUnit.served`).
"""

from __future__ import annotations

import functools
from collections.abc import Generator
from typing import Protocol

import simpy
from simpy.events import Event
from smlab.sim.instructions import Unit
from smlab.sim.machine import TICK_BITS, TICKS_PER_CYCLE, Machine, ceil_cycles
from smlab.sim.reference.clock import Clock, Phase
from smlab.sim.reference.warp import Job


class UnitOwner(Protocol):
    """What a queued unit wants of its SM: to be told when a queue entry is free and when a job is back."""

    @property
    def index(self) -> int: ...

    def room_in(self, unit: Unit) -> None: ...

    def operands_read(self, job: Job) -> None: ...

    def completed(self, job: Job) -> None: ...


class WholeCycles:
    """Turns occupancies in ticks into whole cycles and carries the remainder to the next job.

    The long-run mean is exact: n jobs of t ticks take floor(n t / 2**20) cycles.
    """

    def __init__(self) -> None:
        self.carry = 0

    def take(self, ticks: int) -> int:
        total = self.carry + ticks
        self.carry = total & (TICKS_PER_CYCLE - 1)
        return total >> TICK_BITS


class Server:
    """What serves one job at a time: when it is free again, and its remainder."""

    def __init__(self) -> None:
        self.free_at = 0
        self.whole_cycles = WholeCycles()


class FifoUnit:
    """A bounded queue before a server before a pipeline. A job holds its queue entry until its service ends.

    With more than one server, a job goes to the one that is free first, among equals to the first one.
    """

    unit: Unit

    def __init__(self, clock: Clock, sm: UnitOwner, entries: int, servers: int = 1) -> None:
        self.clock = clock
        self.sm = sm
        self.free_entries = entries
        self.servers = [Server() for _ in range(servers)]
        self.occupied_cycles = 0
        self.queue: simpy.Store = simpy.Store(clock.env)
        clock.env.process(self._serve())

    def has_room(self) -> bool:
        return self.free_entries > 0

    def accept(self, job: Job) -> None:
        """A scheduler issues a job into the queue."""
        self.free_entries -= 1
        self.queue.put(job)

    def _serve(self) -> Generator[Event, Job, None]:
        while True:
            job = yield self.queue.get()
            server = min(self.servers, key=lambda s: s.free_at)
            if server.free_at > self.clock.now:
                yield self.clock.wait(server.free_at - self.clock.now, Phase.SERVE, self.sm.index)
            job.start = self.clock.now
            occupied = server.whole_cycles.take(self.occupancy(job))
            server.free_at = job.start + occupied
            self.occupied_cycles += occupied
            self.clock.call(occupied, Phase.SERVE, functools.partial(self._end, job), self.sm.index)

    def _end(self, job: Job) -> None:
        """The server is free again, and so is the job's queue entry."""
        job.end = self.clock.now
        self.free_entries += 1
        self.sm.room_in(self.unit)
        self.sm.operands_read(job)
        self.served(job)

    def occupancy(self, job: Job) -> int:
        """Ticks for which the job keeps the server."""
        return job.work

    def served(self, job: Job) -> None:
        """The server is done with the job; see that it completes."""
        raise NotImplementedError

    def complete_after(self, job: Job, cycles: int) -> None:
        def complete() -> None:
            job.completion = self.clock.now
            self.sm.completed(job)

        self.clock.call(cycles, Phase.RETURN, complete, self.sm.index, job.sequence)


class AtomicUnit(FifoUnit):
    """The shared-memory atomic unit: occupied for an initiation interval, result a pipeline latency later."""

    unit = Unit.ATOMIC

    def __init__(self, clock: Clock, sm: UnitOwner, machine: Machine) -> None:
        super().__init__(clock, sm, machine.atomic_queue_entries, machine.atomic_pipes)
        self.latency_cycles = {op: t.latency_cycles for op, t in machine.atomics.items()}

    def served(self, job: Job) -> None:
        self.complete_after(job, self.latency_cycles[job.operation.cls.operation])


class SharedMemoryPipe(FifoUnit):
    """Shared-memory loads and stores: one pass over the banks after another.

    The description's latencies are load-to-use without conflicts, so they contain the first pass.
    """

    unit = Unit.SHARED

    def __init__(self, clock: Clock, sm: UnitOwner, machine: Machine) -> None:
        super().__init__(clock, sm, machine.shared_queue_entries)
        first_pass = ceil_cycles(machine.shared_pass_ticks)
        self.tail_cycles = {
            "load": max(1, machine.shared_load_latency_cycles - first_pass),
            "store": max(1, machine.shared_store_latency_cycles - first_pass),
        }

    def served(self, job: Job) -> None:
        self.complete_after(job, self.tail_cycles[job.operation.cls.operation])

"""The memory path of an SM: what lies between the schedulers and shared memory, the atomic unit and L1.

Each sub-core has a queue and an address unit. An arbiter lets one request at a time into the structures that
the sub-cores share, the first of which is the data stage: shared loads and stores, atomics and global
accesses all pass through it, a wavefront after the other (SEMANTICS.md, section 6).
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from smlab.sim.instructions import Unit
from smlab.sim.machine import TICK_BITS, Machine
from smlab.sim.reference.clock import Clock, Phase
from smlab.sim.reference.memory import ATOMICS, NEVER, LevelOne, MemorySystem
from smlab.sim.reference.units import AtomicUnit, WholeCycles
from smlab.sim.reference.warp import Job


class PathOwner(Protocol):
    """What the path wants of its SM: to be told when a sub-core has room, operands are read, a job is
    back, the banks are taken."""

    @property
    def index(self) -> int: ...

    def room_in(self, subcore: int) -> None: ...

    def operands_read(self, job: Job) -> None: ...

    def completed(self, job: Job) -> None: ...

    def banks_taken(self, cycles: int) -> None: ...


class Subcore:
    """A sub-core's part of the path: its queue, and the address unit, which works on the first in it."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.jobs: deque[Job] = deque()
        self.free_at = 0  # the address unit can have the next request ready from here on
        self.ready = 0  # when the first job's is
        self.passing_until = 0  # its job before has passed the data stage
        self.whole_cycles = WholeCycles()


class MemoryPath:
    """Queues, address units, arbiter and data stage of one SM, and what lies behind them."""

    def __init__(self, clock: Clock, sm: PathOwner, machine: Machine, memory: MemorySystem) -> None:
        self.clock = clock
        self.sm = sm
        self.machine = machine
        self.subcores = [Subcore(i) for i in range(machine.schedulers)]
        self.last = machine.schedulers - 1  # the sub-core whose request was taken last
        self.arbiter_free_at = 0  # from when on the arbiter can take a request
        self.request_free_at = 0  # one that is no constant load
        self.places_free_at = [0] * machine.stage_jobs  # from when on the data stage has room
        self.begun_at = 0  # when it began with its last job
        self.passed: deque[int] = deque(maxlen=max(1, machine.stage_entries))  # ends of the last jobs' passes
        self.constant_free_at = 0  # a constant load
        self.calls: set[int] = set()  # the cycles to come in which the arbiter looks
        self.stage = WholeCycles()
        self.stage_cycles = 0  # the data stage's occupied time
        self.atomic = AtomicUnit(machine)
        self.atomic_occupied_cycles = 0
        self.l1 = LevelOne(clock, sm.index, machine, memory, self.complete_after)

    def has_room(self, subcore: int) -> bool:
        return len(self.subcores[subcore].jobs) < self.machine.mio_queue_entries

    def accept(self, job: Job, subcore: int) -> None:
        """A scheduler issues a job into its sub-core's queue."""
        own = self.subcores[subcore]
        own.jobs.append(job)
        if len(own.jobs) == 1:
            self._next(own)

    def _next(self, own: Subcore) -> None:
        """The address unit takes the first of its queue."""
        job, now = own.jobs[0], self.clock.now
        own.ready = max(job.issue + self.machine.front_cycles, own.free_at)
        read = max(now + 1, own.ready + job.operation.read_offset_cycles)
        self.clock.call(
            read - now, Phase.RETURN, lambda: self.sm.operands_read(job), self.sm.index, job.sequence
        )
        self._call_arbiter(own)

    def _possible(self, own: Subcore) -> int:
        """From when on the first request of a sub-core can be taken."""
        room, free_at = 0, self.request_free_at
        if self.machine.stage_entries == 0:
            free_at = max(free_at, own.passing_until, self.places_free_at[0])
        elif len(self.passed) == self.machine.stage_entries:
            free_at = max(free_at, self.passed[0])
        if own.jobs[0].operation.cls.operation == "constant":
            free_at = self.constant_free_at
        elif own.jobs[0].operation.cls.unit is Unit.ATOMIC:
            room = self.atomic.pipe_of(own.index).room_at()
        elif own.jobs[0].operation.cls.operation in ATOMICS:
            room = self.l1.room_at()
        return max(own.ready, room, free_at, self.arbiter_free_at)

    def _call_arbiter(self, own: Subcore) -> None:
        now = self.clock.now
        cycle = max(self._possible(own), now)
        if cycle < NEVER and cycle not in self.calls:
            self.calls.add(cycle)
            self.clock.call(cycle - now, Phase.SERVE, self._arbitrate, self.sm.index)

    def _arbitrate(self) -> None:
        """Take a request, if one can be taken now: that of the first sub-core after the last one served."""
        now, count = self.clock.now, len(self.subcores)
        self.calls.discard(now)
        for step in range(1, count + 1):
            own = self.subcores[(self.last + step) % count]
            if own.jobs and self._possible(own) <= now:
                self._take(own)
                break
        else:
            return
        for other in self.subcores:
            if other.jobs:
                self._call_arbiter(other)

    def _take(self, own: Subcore) -> None:
        """The first request of a sub-core leaves it and passes the data stage."""
        m, now = self.machine, self.clock.now
        job = own.jobs.popleft()
        job.taken = now
        unit = job.operation.cls.unit
        self.last = own.index
        request = job.operation.request
        own.free_at = now + own.whole_cycles.take(max(request.address, job.passes * request.address_pass))
        wavefronts = self.stage.take(job.passes * job.operation.request.stage)
        self.stage_cycles += wavefronts
        if unit is not Unit.EXCHANGE:
            self.sm.banks_taken(wavefronts)
        self.arbiter_free_at = now + 1
        begin = now
        if job.operation.cls.operation == "constant":
            self.constant_free_at = now + m.constant_interval_cycles * max(1, job.passes)
        else:
            # With two jobs at once, each has every second cycle of the banks.
            if m.stage_entries:
                begin = max(now, self.begun_at, own.passing_until, self.places_free_at[0])
            self.begun_at = begin
            own.passing_until = begin + m.stage_jobs * wavefronts
            self.passed.append(own.passing_until)
            self.places_free_at = sorted([own.passing_until, *self.places_free_at[1:]])
            self.request_free_at = now + m.request_interval_cycles
        if unit is Unit.ATOMIC:
            self.atomic_occupied_cycles += self.atomic.pipe_of(own.index).serve(job, begin)
            self.complete_after(job, job.end + job.operation.tail_cycles - now)
        else:
            job.start, job.end = begin, begin + max(1, m.stage_jobs * (wavefronts - 1) + 1)
            late = max(0, job.due - now)  # of a load of constants that its cache lacks
            conflicts = max(0, job.passes - job.operation.hidden_wavefronts)
            ready = begin + job.operation.tail_cycles + (conflicts * job.operation.request.later >> TICK_BITS)
            if unit is Unit.GLOBAL:
                if self.l1.serve(job, ready):
                    self.request_free_at += m.pending_cycles
            else:
                self.complete_after(job, max(job.end + 1, ready) + late - now)
        self.sm.room_in(own.index)
        if own.jobs:
            self._next(own)

    def complete_after(self, job: Job, cycles: int) -> None:
        def complete() -> None:
            job.completion = self.clock.now
            self.sm.completed(job)
            if job.operation.cls.operation in ATOMICS:
                for own in self.subcores:
                    if own.jobs:
                        self._call_arbiter(own)

        self.clock.call(cycles, Phase.RETURN, complete, self.sm.index, job.sequence)

"""The servers of the memory path: whole cycles out of fractions, and the atomic unit."""

from __future__ import annotations

from smlab.sim.machine import TICK_BITS, TICKS_PER_CYCLE, Machine
from smlab.sim.reference.warp import Job


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


class AtomicPipe:
    """One pipe of the atomic unit: first come, first served, in rounds if the unit has them."""

    def __init__(self, entries: int, round_gap: int) -> None:
        self.entries = entries
        self.round_gap = round_gap
        self.ends: list[int] = []  # of all jobs so far, in order
        self.round_began = -1
        self.whole_cycles = WholeCycles()

    def room_at(self) -> int:
        """From when on the pipe can hold one more job: the end of the one that many places before."""
        return self.ends[-self.entries] if len(self.ends) >= self.entries else 0

    def serve(self, job: Job, now: int) -> int:
        """Take a job in cycle ``now``, set its start and end, and return the cycles of its service.

        A round is made up of the jobs that are there when it begins; the next begins a gap after its end.
        """
        before = self.ends[-1] if self.ends else 0
        if self.round_gap and now > self.round_began:
            gap = self.round_gap if self.ends else 0
            job.start = self.round_began = max(now, before + gap)
        else:
            job.start = max(now, before)
        occupied = self.whole_cycles.take(job.work)
        job.end = job.start + occupied
        self.ends.append(job.end)
        return occupied


class AtomicUnit:
    """The shared-memory atomic unit: a pipe for each sub-core, or one for several of them."""

    def __init__(self, machine: Machine) -> None:
        gap = machine.atomic_round_gap_cycles
        self.pipes = [AtomicPipe(machine.atomic_queue_entries, gap) for _ in range(machine.atomic_pipes)]

    def pipe_of(self, subcore: int) -> AtomicPipe:
        return self.pipes[subcore % len(self.pipes)]

"""The memory path's rules (sim/SEMANTICS.md, section 6), worked out anew from a trace.

What is known of each job is its issue, what it asks for and what the rules are. `replay` lets the arbiter
take requests by them and says when each should have been taken; the atomic unit's pipes likewise.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from smlab.sim.instructions import Unit
from smlab.sim.machine import TICK_BITS, TICKS_PER_CYCLE, Machine
from smlab.sim.result import JobTrace, WarpTable

Ints = NDArray[np.int64]


class _Whole:
    """Whole cycles out of ticks, the remainder carried on."""

    def __init__(self) -> None:
        self.total = 0

    def take(self, ticks: int) -> int:
        before = self.total >> TICK_BITS
        self.total += ticks
        return (self.total >> TICK_BITS) - before


def subcores(jobs: JobTrace, warps: WarpTable, schedulers: int) -> Ints:
    """The sub-core of each job: that of its warp's slot."""
    slots = np.zeros(int(warps.warp.max()) + 1, dtype=np.int64)
    slots[warps.warp] = warps.slot
    found: Ints = slots[jobs.warp] % schedulers
    return found


def stage_ticks(jobs: JobTrace, machine: Machine) -> Ints:
    """What each job asks of the data stage."""
    per_pass = np.array([machine.stage_ticks(Unit(u)) for u in jobs.unit.tolist()], dtype=np.int64)
    found: Ints = jobs.passes * per_pass
    return found


def replay(jobs: JobTrace, subcore: Ints, machine: Machine) -> Iterator[tuple[int, int]]:
    """For each job of one SM, in the order in which they were taken: its index, and when the rules take it.

    A request is ready ``front_cycles`` after its issue, or an address interval after the one before it left
    the sub-core; the arbiter is free when the request before has passed the data stage, and not before the
    request interval is over; an atomic needs room in its pipe. Of several that could go, the first sub-core
    after the last one served does.
    """
    count = machine.schedulers
    waiting = [deque(np.flatnonzero(subcore == s).tolist()) for s in range(count)]
    left, carries, stage = [0] * count, [_Whole() for _ in range(count)], _Whole()
    atomic = jobs.unit == int(Unit.ATOMIC)
    ticks = stage_ticks(jobs, machine).tolist()
    ends: list[list[int]] = [[] for _ in range(machine.atomic_pipes)]
    issue, free, turn = jobs.issue.tolist(), 0, 0

    def possible(s: int) -> int:
        job: int = waiting[s][0]
        ready = max(issue[job] + machine.front_cycles, left[s], free)
        pipe = ends[s % machine.atomic_pipes]
        if atomic[job] and len(pipe) >= machine.atomic_queue_entries:
            ready = max(ready, pipe[-machine.atomic_queue_entries])
        return int(ready)

    for _ in range(len(jobs)):
        moments = {s: possible(s) for s in range(count) if waiting[s]}
        now = min(moments.values())
        order = ((turn + k) % count for k in range(count))
        s = next(s for s in order if s in moments and moments[s] <= now)
        job = waiting[s].popleft()
        yield job, now
        left[s] = now + carries[s].take(
            machine.atomic_address_ticks if atomic[job] else machine.address_ticks
        )
        free = now + max(machine.request_interval_cycles, stage.take(ticks[job]))
        turn = (s + 1) % count
        if atomic[job]:
            ends[s % machine.atomic_pipes].append(int(jobs.end[job]))


def atomic_starts(jobs: JobTrace, pipe: Ints, machine: Machine) -> Ints:
    """When each atomic of one SM should have started: when taken, but not before the one before it in its
    pipe ended, and in rounds where the unit has them."""
    found = np.zeros(len(jobs), dtype=np.int64)
    for k in range(machine.atomic_pipes):
        before, began, served = 0, -1, False
        for i in np.flatnonzero(pipe == k)[np.argsort(jobs.taken[pipe == k], kind="stable")].tolist():
            taken, gap = int(jobs.taken[i]), machine.atomic_round_gap_cycles
            if gap and taken > began:
                began = found[i] = max(taken, before + (gap if served else 0))
            else:
                found[i] = max(taken, before)
            before, served = int(jobs.end[i]), True
    return found


def pipe_cycles(ticks: Ints, pipe: Ints, taken: Ints, pipes: int) -> Ints:
    """The whole cycles that work of ``ticks`` takes of its pipe, in the order of ``taken``."""
    found = np.zeros(len(ticks), dtype=np.int64)
    for k in range(pipes):
        chosen = np.flatnonzero(pipe == k)[np.argsort(taken[pipe == k], kind="stable")]
        ends = np.cumsum(ticks[chosen]) // TICKS_PER_CYCLE
        found[chosen] = np.diff(ends, prepend=0)
    return found

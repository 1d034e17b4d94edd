"""Whom each warp waited for: exact, from a recorded run of machine code.

A warp in a scoreboard stall waits for the scoreboards in its next instruction's wait mask. Which results and
operand readings were put on them, and when each was over, follows from the recorded issues and jobs; so the
producer that a stalled cycle is owed to needs no model. Two readings: *last finisher* (all of the stall is
owed to the producer that was over last) and *shared* (each cycle is divided among those not over yet).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from smlab.sim import SimResult
from smlab.sim.instructions import Reason, Unit
from smlab.sim.lowering import LoweredKernel

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class StallTruth:
    """Warp-cycles of scoreboard stalls, arrays of shape ``(instructions, instructions)``: stalled
    instruction, producer.

    ``unexplained`` counts cycles that no outstanding producer explains: 0 where the replay is exact, and
    ``cycles`` is then what the simulator itself counted.
    """

    last: Floats
    shared: Floats
    cycles: int
    unexplained: int
    stalls: int


class _Stretches(NamedTuple):
    """Stretches of one warp's scoreboard stalls, and the issue that ends each.

    A tuple, as compiled code takes no dataclass.
    """

    warp: Ints
    begin: Ints
    end: Ints
    consumer: Ints


class _Issued(NamedTuple):
    """All issues by warp and cycle; when the result of each is there and when its operands are read."""

    warp: Ints
    slot: Ints
    result_at: Ints
    read_at: Ints


class _Boards(NamedTuple):
    """The scoreboards of each instruction: a mask of those it waits for, and those it sets (-1: none)."""

    waits: Ints
    writes: Ints
    reads: Ints


class _Owed(NamedTuple):
    """What the replay adds to. ``told`` (1,) counts unexplained cycles."""

    last: Floats
    shared: Floats
    told: Ints


class _Queued(NamedTuple):
    """Jobs of the address units: sub-core, issue, when taken, distance to the operands' reading, ticks."""

    subcore: Ints
    issue: Ints
    taken: Ints
    offset: Ints
    ticks: Ints


def stall_truth(result: SimResult, lowered: LoweredKernel) -> StallTruth:
    """The truth of a run recorded with `Record.ALL`."""
    operations = lowered.programs[0].operations
    assert result.issues is not None
    assert result.spans is not None
    assert result.jobs is not None
    issues, spans, jobs = result.issues, result.spans, result.jobs
    width = result.cycles + 2
    order = np.argsort(issues.warp * width + issues.cycle, kind="stable")
    warp, cycle, slot = issues.warp[order], issues.cycle[order], issues.slot[order]
    key = warp * width + cycle
    result_at, read_at = _releases(lowered, cycle, slot)
    at = np.searchsorted(key, jobs.warp * width + jobs.issue)
    result_at[at], read_at[at] = jobs.completion, _operands_read(result, lowered)
    controls = [o.control for o in operations]
    waits = np.array([0 if c is None else c.wait_mask for c in controls], dtype=np.int64)
    writes = np.array([_barrier(c.write_barrier if c else None) for c in controls], dtype=np.int64)
    reads = np.array([_barrier(c.read_barrier if c else None) for c in controls], dtype=np.int64)
    chosen = (spans.reason == Reason.LONG_SCOREBOARD) | (spans.reason == Reason.SHORT_SCOREBOARD)
    order = np.argsort(spans.warp[chosen] * width + spans.begin[chosen], kind="stable")
    span = [getattr(spans, name)[chosen][order] for name in ("warp", "begin", "end")]
    stretch_warp, begin, end = _merged(*span)
    stretches = _Stretches(stretch_warp, begin, end, np.searchsorted(key, stretch_warp * width + end))
    count = len(operations)
    owed = _Owed(np.zeros((count, count)), np.zeros((count, count)), np.zeros(1, dtype=np.int64))
    _replay(stretches, _Issued(warp, slot, result_at, read_at), _Boards(waits, writes, reads), owed)
    unexplained = int(owed.told[0])
    return StallTruth(owed.last, owed.shared, int((end - begin).sum()), unexplained, len(begin))


def _barrier(barrier: int | None) -> int:
    return -1 if barrier is None or barrier >= 6 else barrier


def _releases(lowered: LoweredKernel, cycle: Ints, slot: Ints) -> tuple[Ints, Ints]:
    """When results are there and operands read, of what does not go through a queue."""
    machine = lowered.machine
    latency, interval = [], []
    for operation in lowered.programs[0].operations:
        pipe = operation.cls.unit is Unit.PIPE
        timing = machine.pipes[operation.cls.timing] if pipe else None
        latency.append(0 if timing is None else timing.latency_cycles)
        interval.append(0 if timing is None else timing.interval_cycles)
    ends = cycle + np.array(latency, dtype=np.int64)[slot]
    return ends, cycle + np.maximum(1, np.array(interval, dtype=np.int64)[slot])


def _operands_read(result: SimResult, lowered: LoweredKernel) -> Ints:
    """When each job's operands have been read (SEMANTICS, section 6): a fixed distance from when the address
    unit of its sub-core has it ready, which works on one request at a time."""
    machine, jobs, warps = lowered.machine, result.jobs, result.warps
    assert jobs is not None
    slot_of = np.zeros(int(warps.warp.max()) + 1, dtype=np.int64)
    slot_of[warps.warp] = warps.slot
    subcore = jobs.sm * machine.schedulers + slot_of[jobs.warp] % machine.schedulers
    offsets = np.array([o.read_offset_cycles for o in lowered.programs[0].operations], dtype=np.int64)
    ticks = np.array([o.request.address for o in lowered.programs[0].operations], dtype=np.int64)[jobs.slot]
    order = np.lexsort((jobs.sequence, subcore))
    read = np.zeros(len(order), dtype=np.int64)
    queued = _Queued(subcore, jobs.issue, jobs.taken, offsets[jobs.slot], ticks)
    _read_in_order(order, queued, machine.front_cycles, read)
    return read


@njit(cache=True)
def _read_in_order(order, queued, front, read) -> Any:  # type: ignore[no-untyped-def]
    subcore, issue, taken, offset, ticks = queued
    before = -1
    carry = free_at = 0
    for j in order:
        first = before < 0 or subcore[before] != subcore[j]
        if first:
            carry, free_at = 0, 0
        now = issue[j] if first else max(issue[j], taken[before])
        read[j] = max(now + 1, max(issue[j] + front, free_at) + offset[j])
        carry += ticks[j]
        free_at = taken[j] + (carry >> 20)
        carry &= (1 << 20) - 1
        before = j


def _merged(warp: Ints, begin: Ints, end: Ints) -> tuple[Ints, Ints, Ints]:
    """Spans of one warp that follow each other without a gap, as one."""
    if not len(warp):
        return warp, begin, end
    new = np.ones(len(warp), dtype=bool)
    new[1:] = (warp[1:] != warp[:-1]) | (begin[1:] != end[:-1])
    first = np.nonzero(new)[0]
    last = np.append(first[1:], len(warp)) - 1
    return warp[first], begin[first], end[last]


@njit(cache=True)
def _replay(stretches, issued, boards, owed) -> Any:  # type: ignore[no-untyped-def]
    stretch_warp, begin, end, consumer = stretches
    warp, slot, result_at, read_at = issued
    waits, writes, reads = boards
    last, shared, told = owed
    owner = np.empty(4096, dtype=np.int64)
    until = np.empty(4096, dtype=np.int64)
    for n in range(len(begin)):
        i = consumer[n]
        if i >= len(warp) or warp[i] != stretch_warp[n]:
            told[0] += end[n] - begin[n]
            continue
        open_boards = waits[slot[i]]
        found = 0
        k = i - 1
        while k >= 0 and warp[k] == stretch_warp[n] and open_boards != 0 and found < 4095:
            s = slot[k]
            w, r = writes[s], reads[s]
            if w >= 0 and (open_boards >> w) & 1 and result_at[k] > begin[n]:
                owner[found], until[found] = s, result_at[k]
                found += 1
            if r >= 0 and (open_boards >> r) & 1 and read_at[k] > begin[n]:
                if found > 0 and owner[found - 1] == s and until[found - 1] >= read_at[k] and w >= 0:
                    pass  # its own result is waited for longer
                else:
                    owner[found], until[found] = s, read_at[k]
                    found += 1
            open_boards &= ~waits[s]
            k -= 1
        best = 0
        for f in range(1, found):
            if until[f] > until[best]:
                best = f
        if found == 0 or until[best] < end[n]:
            told[0] += end[n] - (begin[n] if found == 0 else max(begin[n], until[best]))
            if found == 0:
                continue
        last[slot[i], owner[best]] += end[n] - begin[n]
        at = begin[n]
        while at < end[n]:
            out, nearest = 0, end[n]
            for f in range(found):
                if until[f] > at:
                    out += 1
                    nearest = min(nearest, until[f])
            if out == 0:
                break
            for f in range(found):
                if until[f] > at:
                    shared[slot[i], owner[f]] += (nearest - at) / out
            at = nearest

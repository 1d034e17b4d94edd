"""The operational laws and the engine's own rules, checked on a finished simulation in exact integer
arithmetic.

A law relates measured quantities of one finite run, so it is an identity: it holds exactly or something
was counted wrong (Denning & Buzen 1978). Each law here sets what the engine counted while it ran against
what follows from the trace by another path. There is no tolerance.

The memory path's rules (sim/SEMANTICS.md, section 6) are worked out anew from a trace: what is known of
each job is its issue, what it asks for and what the rules are. `replay` lets the arbiter take requests by
them and says when each should have been taken; the atomic unit's pipes likewise.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.sim.instructions import CLASSES, QUEUED_UNITS, Reason, Unit
from smlab.sim.machine import TICK_BITS, TICKS_PER_CYCLE, Machine
from smlab.sim.result import JobTrace, SimResult, SmTruth, WarpTable
from smlab.sim.workloads.workload import NO_WARP, Kernel

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
    per_pass = np.array([machine.stage_ticks(cls) for cls in CLASSES.values()], dtype=np.int64)[jobs.op]
    found: Ints = jobs.passes * per_pass
    return found


def replay(jobs: JobTrace, subcore: Ints, machine: Machine) -> Iterator[tuple[int, int]]:
    """For each job of one SM, in the order in which they were taken: its index, and when the rules take it.

    A request is ready ``front_cycles`` after its issue, or an address interval after the one before it left
    the sub-core; it can be taken when the data stage has room for it and has passed the one before it of the
    sub-core, and not before the request interval is over; an atomic needs room in its pipe. A constant load
    waits for the constant load before it, and not for the data stage. The arbiter takes one request a cycle:
    of several that could go, that of the first sub-core after the last one served. An atomic on global memory
    needs one of its SM's places for them, in turn. A load whose sectors are on their way keeps the arbiter
    longer. The trace does not tell which loads do. Here one does if another load is not back yet and the next
    request is not taken sooner.
    """
    count = machine.schedulers
    waiting = [deque(np.flatnonzero(subcore == s).tolist()) for s in range(count)]
    left, carries, stage = [0] * count, [_Whole() for _ in range(count)], _Whole()
    atomic = jobs.unit == int(Unit.ATOMIC)
    ticks = stage_ticks(jobs, machine).tolist()
    ends: list[list[int]] = [[] for _ in range(machine.atomic_pipes)]
    issue, turn, arbiter_free, constant_free = jobs.issue.tolist(), 0, 0, 0
    request_free, places, passing, begun = 0, [0] * machine.stage_jobs, [0] * count, 0
    passed: list[int] = []
    classes = list(CLASSES.values())
    constant = [cls.operation == "constant" for cls in classes]
    back: list[int] = []
    on_global = {n for n, cls in enumerate(classes) if cls.operation in ("reduce", "atomic")}
    loads = {
        n for n, cls in enumerate(classes) if cls.unit is Unit.GLOBAL and cls.operation in ("load", "copy")
    }
    requests = [*sorted(jobs.taken[~np.array(constant)[jobs.op]].tolist()), math.inf]
    loads_back = 0

    def possible(s: int) -> int:
        job: int = waiting[s][0]
        entries = machine.stage_entries
        of_stage = max(request_free, passing[s], min(places))
        if entries:
            of_stage = max(request_free, passed[-entries] if len(passed) >= entries else 0)
        free_at = max(arbiter_free, constant_free if constant[jobs.op[job]] else of_stage)
        ready = max(issue[job] + machine.front_cycles, left[s], free_at)
        pipe = ends[s % machine.atomic_pipes]
        if jobs.op[job] in on_global and len(back) >= machine.global_atomics.in_flight:
            ready = max(ready, back[-machine.global_atomics.in_flight])
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
        request = machine.request_ticks(classes[jobs.op[job]])
        left[s] = now + carries[s].take(max(request.address, int(jobs.passes[job]) * request.address_pass))
        wavefronts = stage.take(ticks[job])
        if constant[jobs.op[job]]:
            constant_free = now + machine.constant_interval_cycles
        else:
            request_free = now + machine.request_interval_cycles
            if jobs.op[job] in loads:
                longer = request_free + machine.pending_cycles
                if loads_back > now and requests[bisect_right(requests, now)] >= longer:
                    request_free = longer
                loads_back = max(loads_back, int(jobs.completion[job]))
            begun = max(now, begun, passing[s], min(places)) if machine.stage_entries else now
            passing[s] = begun + machine.stage_jobs * wavefronts
            passed.append(passing[s])
            places[places.index(min(places))] = passing[s]
        arbiter_free = now + 1
        turn = (s + 1) % count
        if atomic[job]:
            ends[s % machine.atomic_pipes].append(int(jobs.end[job]))
        if jobs.op[job] in on_global:
            back.append(int(jobs.completion[job]))


def stage_begins(jobs: JobTrace, subcore: Ints, machine: Machine) -> Ints:
    """When the data stage begins with each job of one SM: when it is taken, or, where the stage has a queue,
    when a place is free, the job before it of its sub-core has passed, and that taken before it has begun."""
    begins = jobs.taken.astype(np.int64)
    if machine.stage_entries == 0:
        return begins
    stage, ticks, begun = _Whole(), stage_ticks(jobs, machine).tolist(), 0
    places, passing = [0] * machine.stage_jobs, [0] * machine.schedulers
    classes = list(CLASSES.values())
    for job in np.argsort(jobs.taken, kind="stable").tolist():
        wavefronts, s = stage.take(ticks[job]), int(subcore[job])
        if classes[jobs.op[job]].operation == "constant":
            continue
        begun = begins[job] = max(int(jobs.taken[job]), begun, passing[s], min(places))
        passing[s] = begun + machine.stage_jobs * wavefronts
        places[places.index(min(places))] = passing[s]
    return begins


def atomic_starts(begun: Ints, jobs: JobTrace, pipe: Ints, machine: Machine) -> Ints:
    """When each atomic of one SM should have started: when the data stage began with it, but not before the
    one before it in its pipe ended, and in rounds where the unit has them."""
    found = np.zeros(len(jobs), dtype=np.int64)
    for k in range(machine.atomic_pipes):
        before, began, served = 0, -1, False
        for i in np.flatnonzero(pipe == k)[np.argsort(jobs.taken[pipe == k], kind="stable")].tolist():
            taken, gap = int(begun[i]), machine.atomic_round_gap_cycles
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


@dataclass(frozen=True)
class Violation:
    """A law that did not hold: which, where, and the two sides."""

    law: str
    where: str
    left: str
    right: str

    def __str__(self) -> str:
        return f"{self.law} ({self.where}): {self.left} is not {self.right}"


@dataclass(frozen=True)
class Run:
    """A finished simulation with everything recorded, and what it was a simulation of."""

    result: SimResult
    kernel: Kernel
    machine: Machine

    def jobs(self, unit: Unit, sm: int) -> JobTrace:
        if self.result.jobs is None or self.result.issues is None:
            raise SmlabError("laws need a simulation that recorded everything (Record.ALL)")
        return self.result.jobs.of_unit(unit, sm)


# Quantities from the trace, by paths that share nothing with the engine's running counts


def busy_by_union(jobs: JobTrace) -> int:
    """Time with at least one job between issue and completion: the length of the union of those intervals."""
    if not len(jobs):
        return 0
    order = np.argsort(jobs.issue, kind="stable")
    begin, end = jobs.issue[order], jobs.completion[order]
    reached = np.maximum.accumulate(end)
    new = np.concatenate([[True], begin[1:] > reached[:-1]])
    starts = begin[new]
    ends = np.concatenate([reached[:-1][new[1:]], reached[-1:]])
    return int((ends - starts).sum())


def level_steps(up: Ints, down: Ints) -> tuple[Ints, Ints]:
    """A level that rises at the times ``up`` and falls at ``down``: its times of change, and its value
    from each on."""
    times, inverse = np.unique(np.concatenate([up, down]), return_inverse=True)
    steps = np.concatenate([np.ones(len(up), dtype=np.int64), -np.ones(len(down), dtype=np.int64)])
    change = np.zeros(len(times), dtype=np.int64)
    np.add.at(change, inverse, steps)
    return times, np.cumsum(change)


def area_by_sweep(up: Ints, down: Ints) -> int:
    """The area under such a level, summed change by change."""
    times, level = level_steps(up, down)
    return int((level[:-1] * np.diff(times)).sum()) if len(times) else 0


# The laws: each yields (where, left, right) and holds where left equals right

Sides = Iterator[tuple[str, object, object]]


def utilization_law(run: Run) -> Sides:
    """U = X S. U is busy time by union over T; X and S come from the engine's counts of completions and
    busy time."""
    cycles = run.result.cycles
    for sm in run.result.sms:
        u = Fraction(busy_by_union(run.jobs(Unit.ATOMIC, sm.sm)), cycles)
        x = Fraction(sm.atomic_completions, cycles)
        s = Fraction(sm.atomic_busy_cycles, sm.atomic_completions) if sm.atomic_completions else Fraction(0)
        yield _sm(sm), u, x * s


def little_by_area(run: Run) -> Sides:
    """n = X R with n from the area under n(t) swept from the trace, and X R from the engine's area."""
    for sm in run.result.sms:
        jobs = run.jobs(Unit.ATOMIC, sm.sm)
        yield _sm(sm), area_by_sweep(jobs.issue, jobs.completion), sm.atomic_job_cycles


def little_by_sum(run: Run) -> Sides:
    """n = X R with R from the sum of the jobs' residences, completion less issue, and n from the engine's
    area."""
    for sm in run.result.sms:
        jobs = run.jobs(Unit.ATOMIC, sm.sm)
        cycles, completions = run.result.cycles, sm.atomic_completions
        response = (
            Fraction(int((jobs.completion - jobs.issue).sum()), len(jobs)) if len(jobs) else Fraction(0)
        )
        yield _sm(sm), Fraction(sm.atomic_job_cycles, cycles), Fraction(completions, cycles) * response


def flow_balance(run: Run) -> Sides:
    """What arrived has completed: engine's arrivals, its completions and the trace agree, and n(t) ends at
    0."""
    for sm in run.result.sms:
        jobs = run.jobs(Unit.ATOMIC, sm.sm)
        yield _sm(sm), sm.atomic_arrivals, sm.atomic_completions
        yield _sm(sm), len(jobs), sm.atomic_completions
        _, level = level_steps(jobs.issue, jobs.completion)
        yield f"{_sm(sm)}, least n(t)", min(level.min(initial=0), 0), 0
        yield f"{_sm(sm)}, last n(t)", level[-1] if len(level) else 0, 0


def forced_flow(run: Run) -> Sides:
    """Each unit completes what the programs ask of it: completions = visits of a warp, summed over the
    warps."""
    result = run.result
    assert result.jobs is not None
    asked: dict[int, int] = {int(u): 0 for u in QUEUED_UNITS}
    visits = [
        {u: sum(times for i, times in p.instructions() if i.cls.unit == u) for u in asked}
        for p in run.kernel.programs
    ]
    for block in range(run.kernel.blocks):
        for place in range(run.kernel.warps_per_block):
            role = run.kernel.role(block, place)
            if role != NO_WARP:
                for unit in asked:
                    asked[unit] += visits[role][unit]
    for unit, count in asked.items():
        yield Unit(unit).name.lower(), int((result.jobs.unit == unit).sum()), count


def warp_time(run: Run) -> Sides:
    """The stall reasons of each warp add up to its resident cycles, and all warps' to the SMs' resident
    warp-cycles."""
    warps = run.result.warps
    resident = warps.finish - warps.launch
    counted = warps.stall_cycles.sum(axis=1)
    for i in np.flatnonzero(counted != resident):
        yield f"warp {warps.warp[i]}", int(counted[i]), int(resident[i])
    for sm in run.result.sms:
        here = warps.sm == sm.sm
        yield _sm(sm), int(resident[here].sum()), sm.resident_warp_cycles
        yield (
            f"{_sm(sm)}, by sweep",
            area_by_sweep(warps.launch[here], warps.finish[here]),
            sm.resident_warp_cycles,
        )


def selected_is_issued(run: Run) -> Sides:
    """A warp is selected once for each instruction of its program; the issue trace says the same."""
    result, warps = run.result, run.result.warps
    assert result.issues is not None
    lengths = [p.length for p in run.kernel.programs]
    per_block = run.kernel.warps_per_block
    issued = np.bincount(result.issues.warp, minlength=int(warps.warp.max()) + 1)
    for i, warp in enumerate(warps.warp.tolist()):
        length = lengths[run.kernel.role(warp // per_block, warp % per_block)]
        selected = int(warps.stall_cycles[i, Reason.SELECTED])
        if not selected == length == issued[warp]:
            yield f"warp {warp}", (selected, int(issued[warp])), (length, length)
    yield "all warps", result.warp_instructions, len(result.issues.warp)


def spans_tile_residence(run: Run) -> Sides:
    """The recorded spans of a warp follow each other without gap or overlap from launch to finish."""
    result = run.result
    assert result.spans is not None
    spans, warps = result.spans, result.warps
    totals = np.zeros((int(warps.warp.max()) + 1, len(Reason)), dtype=np.int64)
    np.add.at(totals, (spans.warp, spans.reason), spans.end - spans.begin)
    for i in np.flatnonzero((totals[warps.warp] != warps.stall_cycles).any(axis=1)):
        yield f"warp {warps.warp[i]}", totals[warps.warp[i]].tolist(), warps.stall_cycles[i].tolist()
    same = spans.warp[1:] == spans.warp[:-1]
    yield "gaps between spans", int((spans.begin[1:] != spans.end[:-1])[same].sum()), 0


def moments_in_order(run: Run) -> Sides:
    """issue < taken <= start < end < completion for every job; no residence is zero or negative."""
    assert run.result.jobs is not None
    jobs = run.result.jobs
    wrong = (jobs.taken <= jobs.issue) | (jobs.start < jobs.taken)
    wrong |= (jobs.end <= jobs.start) | (jobs.completion <= jobs.end)
    for i in np.flatnonzero(wrong)[:1]:
        moments = tuple(int(m[i]) for m in (jobs.issue, jobs.taken, jobs.start, jobs.end, jobs.completion))
        yield f"job {jobs.sequence[i]} of SM {jobs.sm[i]}", moments, "in order"


def _of_sm(run: Run, sm: int) -> tuple[JobTrace, Ints]:
    """The jobs of an SM and their sub-cores."""
    assert run.result.jobs is not None
    jobs = run.result.jobs.chosen(run.result.jobs.sm == sm)
    return jobs, subcores(jobs, run.result.warps, run.machine.schedulers)


def taken_by_the_rules(run: Run) -> Sides:
    """Each request leaves its sub-core in the first cycle in which the rules allow it, and none sooner."""
    for sm in run.result.sms:
        jobs, subcore = _of_sm(run, sm.sm)
        for job, expected in replay(jobs, subcore, run.machine):
            if int(jobs.taken[job]) != expected:
                where = f"{_sm(sm)}, job {jobs.sequence[job]} of sub-core {subcore[job]}"
                yield where, int(jobs.taken[job]), expected
                break


def atomics_start_when_they_can(run: Run) -> Sides:
    """Work conservation and order in the atomic unit: a job starts when taken, or when its pipe is free."""
    for sm in run.result.sms:
        jobs, subcore = _of_sm(run, sm.sm)
        chosen = jobs.unit == int(Unit.ATOMIC)
        begun = stage_begins(jobs, subcore, run.machine)[chosen]
        jobs, pipe = jobs.chosen(chosen), subcore[chosen] % run.machine.atomic_pipes
        expected = atomic_starts(begun, jobs, pipe, run.machine)
        for i in np.flatnonzero(jobs.start != expected)[:1]:
            yield f"{_sm(sm)}, atomic {jobs.sequence[i]}", int(jobs.start[i]), int(expected[i])


def bounded_queues(run: Run) -> Sides:
    """No more jobs wait in a sub-core than it has entries, nor in a pipe of the atomic unit."""
    machine = run.machine
    for sm in run.result.sms:
        jobs, subcore = _of_sm(run, sm.sm)
        atomic = jobs.unit == int(Unit.ATOMIC)
        places = [
            (f"sub-core {s}", subcore == s, jobs.issue, jobs.taken, machine.mio_queue_entries)
            for s in range(machine.schedulers)
        ]
        pipe = subcore % machine.atomic_pipes
        places += [
            (f"atomic pipe {k}", atomic & (pipe == k), jobs.taken, jobs.end, machine.atomic_queue_entries)
            for k in range(machine.atomic_pipes)
        ]
        for name, chosen, begin, end, most in places:
            _, level = level_steps(begin[chosen], end[chosen])
            over = max(int(level.max(initial=0)) - most, 0)
            yield f"{_sm(sm)}, entries of {name} beyond {most}", over, 0


def work_done(run: Run) -> Sides:
    """What is occupied is the whole part of the exact work (in ticks): of the data stage, and of each pipe of
    the atomic unit, job by job."""
    timings, machine = run.machine.atomics, run.machine
    drawn = any(
        i.duration is not None and i.cls.unit is Unit.ATOMIC
        for p in run.kernel.programs
        for i, _ in p.instructions()
    )
    for sm in run.result.sms:
        jobs, subcore = _of_sm(run, sm.sm)
        asked = int(stage_ticks(jobs, machine).sum()) >> TICK_BITS
        yield f"{_sm(sm)}, data stage", sm.stage_occupied_cycles, asked
        chosen = jobs.unit == int(Unit.ATOMIC)
        jobs, pipe = jobs.chosen(chosen), subcore[chosen] % machine.atomic_pipes
        yield f"{_sm(sm)}, atomic unit", sm.atomic_occupied_cycles, int((jobs.end - jobs.start).sum())
        if drawn:
            continue
        operation = [name.removeprefix("atomic-").replace("-", "_") for name in jobs.op_names]
        ticks = np.array(
            [timings[op].interval_ticks(n) for op, n in zip(operation, jobs.passes.tolist(), strict=True)],
            dtype=np.int64,
        )
        expected = pipe_cycles(ticks, pipe, jobs.taken, machine.atomic_pipes)
        for i in np.flatnonzero(jobs.end - jobs.start != expected)[:1]:
            yield f"{_sm(sm)}, atomic {jobs.sequence[i]}", int(jobs.end[i] - jobs.start[i]), int(expected[i])


def slices_of_l2(run: Run) -> Sides:
    """What the slices of L2 had to do is what their sectors ask for, and none of them works longer than the
    kernel lasts. (Where stores and atomics go to L2 side by side, or reads merge, the counts do not tell
    which sectors are whose.)"""
    slices, memory = run.machine.l2_slices, run.result.memory
    jobs = run.result.jobs
    assert jobs is not None
    if not slices.count or slices.sms != slices.all_sms:
        return
    late = memory.l2_busiest_slice_ticks - (run.result.cycles << TICK_BITS)
    yield "ticks of the busiest slice beyond the kernel's", max(0, late), 0
    sectors = memory.l2_sector_hits + memory.l2_sector_misses
    asked = jobs.chosen(jobs.unit == int(Unit.GLOBAL))
    atomic = np.array([cls.operation in ("reduce", "atomic") for cls in CLASSES.values()])[asked.op]
    merges = run.machine.read_merging.cycles or run.machine.l2.halves > 1
    if merges or (atomic.any() and (not atomic.all() or slices.waits_for_lanes)):
        return
    each = slices.atomic_sector_ticks if atomic.any() else slices.sector_ticks
    lines = int(asked.passes[atomic].sum()) * slices.atomic_line_ticks
    yield "ticks of all slices", memory.l2_slice_ticks, sectors * each + lines


def nothing_outlives_the_kernel(run: Run) -> Sides:
    """The kernel ends with its last block, a block retires with its last warp, and no job is later than
    its warp."""
    result, warps = run.result, run.result.warps
    assert result.jobs is not None
    yield "end of the kernel", result.cycles, int(result.blocks.retire.max())
    last = np.zeros(int(result.blocks.block.max()) + 1, dtype=np.int64)
    np.maximum.at(last, warps.block, warps.finish)
    yield (
        "blocks that retire without their last warp",
        int((last[result.blocks.block] != result.blocks.retire).sum()),
        0,
    )
    finish = np.zeros(int(warps.warp.max()) + 1, dtype=np.int64)
    finish[warps.warp] = warps.finish
    yield "jobs after their warp", int((result.jobs.completion > finish[result.jobs.warp]).sum()), 0


LAWS: dict[str, Callable[[Run], Sides]] = {
    "utilization law U = X S": utilization_law,
    "Little's law by area": little_by_area,
    "Little's law by sum": little_by_sum,
    "flow balance": flow_balance,
    "forced flow": forced_flow,
    "stall reasons add up to resident cycles": warp_time,
    "selected cycles are issued instructions": selected_is_issued,
    "spans tile the residence": spans_tile_residence,
    "moments in order": moments_in_order,
    "requests are taken by the rules": taken_by_the_rules,
    "atomics start when they can": atomics_start_when_they_can,
    "bounded queues": bounded_queues,
    "work done": work_done,
    "slices of L2": slices_of_l2,
    "nothing outlives the kernel": nothing_outlives_the_kernel,
}


def violations(run: Run) -> list[Violation]:
    """Every law that does not hold on this run (an empty list is what a sound engine gives)."""
    return [
        Violation(law, where, str(left), str(right))
        for law, sides in LAWS.items()
        for where, left, right in sides(run)
        if left != right
    ]


def _sm(sm: SmTruth) -> str:
    return f"SM {sm.sm}"

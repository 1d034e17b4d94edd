"""The issue stage: which warp of a scheduler issues, and what follows from it.

This is the innermost loop of the simulator. It looks at groups of warps, never at all warps.
"""

from __future__ import annotations

from smlab.sim.compiled.fetch import fetch
from smlab.sim.compiled.jit import (
    age_at,
    bits_set,
    call_source,
    entry_at,
    executions_at,
    group_at,
    helper,
    inlined,
    issue_row_at,
    lowest_bit,
    op_at,
    read_at,
    scheduler_at,
    sm_at,
    stall_at,
    stall_of_at,
    until_at,
    warp_at,
)
from smlab.sim.compiled.layout import (
    ALL,
    BARRIER,
    GLOBAL,
    GTO,
    GTY,
    LRR,
    NEVER,
    NOT_SELECTED,
    PIPE,
    REASON_WORDS,
    SELECTED,
    THINK,
    State,
    Word,
)
from smlab.sim.compiled.path import enqueue, value
from smlab.sim.compiled.warps import arrive, emit, leave, proceed, step, wake_up
from smlab.sim.source import ARRIVES, EXITS, FAULTS, LANES, NEXT, NOTIFIES, PC


@inlined
def issue_stage(st: State, i: int, now: int) -> None:
    """The schedulers of SM ``i`` act in turn, beginning after the one that last took a pipe of the whole
    SM."""
    sm = sm_at(st, i)
    base, count = i * st.schedulers, st.schedulers
    first = s = sm.first_scheduler
    for _ in range(count):
        if scheduler_at(st, base + s).next_look <= now:
            look(st, i, s, first, now)
        s += 1
        if s == count:
            s = 0
    nearest = NEVER
    for k in range(base, base + count):
        nearest = min(nearest, scheduler_at(st, k).next_look)
        if nearest <= now:  # as early as can be; and a loop with an exit is not made one of gathers
            break
    sm.next_look = nearest


@inlined
def look(st: State, i: int, s: int, first: int, now: int) -> None:
    """Scheduler ``s`` issues from one of its warps, if one is eligible, and says when to look again."""
    k = i * st.schedulers + s
    scheduler = scheduler_at(st, k)
    if scheduler.next_wake <= now:
        wake_up(st, i, k, now)
    base, eligible = k * st.resources, 0
    rest = scheduler.occupied
    while rest != 0:
        group = group_at(st, base + lowest_bit(rest))
        rest &= rest - 1
        if group.free <= now:
            eligible |= group.mask
    if eligible != 0:
        position = choose(st, i, s, eligible)
        issue(st, i, s, first, position, now)
    nearest = scheduler.next_wake
    rest = scheduler.occupied
    while rest != 0:
        nearest = min(nearest, max(group_at(st, base + lowest_bit(rest)).free, now + 1))
        rest &= rest - 1
    scheduler.next_look = nearest


@inlined
def choose(st: State, i: int, s: int, eligible: int) -> Word:
    """The place among the scheduler's slots of the warp that its policy selects."""
    scheduler = scheduler_at(st, i * st.schedulers + s)
    last = scheduler.last_position
    if st.policy == LRR:
        above = eligible & (-2 << last) if scheduler.last_age != 0 else eligible
        return lowest_bit(above if above != 0 else eligible)
    first = i * st.max_warps + s
    if (
        (st.policy == GTO or st.policy == GTY)
        and (eligible >> last) & 1 != 0
        and age_at(st, first + last * st.schedulers).value + 1 == scheduler.last_age
    ):
        return last
    if st.policy == GTY:
        return _youngest(st, first, eligible, scheduler.shuffled)
    oldest = lowest_bit(eligible)
    if scheduler.shuffled != 0:
        rest = eligible & (eligible - 1)
        while rest != 0:
            position = lowest_bit(rest)
            rest &= rest - 1
            if (
                age_at(st, first + position * st.schedulers).value
                < age_at(st, first + oldest * st.schedulers).value
            ):
                oldest = position
    return oldest


@helper
def _youngest(st: State, first: int, eligible: int, shuffled: int) -> Word:
    """The place of the youngest of the eligible warps of the scheduler whose first slot is ``first``."""
    youngest = lowest_bit(eligible)
    rest = eligible & (eligible - 1)
    while rest != 0:
        position = lowest_bit(rest)
        rest &= rest - 1
        if (
            shuffled == 0
            or age_at(st, first + position * st.schedulers).value
            > age_at(st, first + youngest * st.schedulers).value
        ):
            youngest = position
    return youngest


@inlined
def issue(st: State, i: int, s: int, first: int, position: int, now: int) -> None:
    """Scheduler ``s`` selects the warp at ``position``: settle how it waited, and send its instruction
    where it belongs."""
    sm = sm_at(st, i)
    k = i * st.schedulers + s
    w = i * st.max_warps + position * st.schedulers + s
    scheduler, warp = scheduler_at(st, k), warp_at(st, w)
    op = op_at(st, warp.pc)
    group = group_at(st, k * st.resources + warp.resource)
    group.mask &= ~(1 << position)
    if group.mask == 0:
        scheduler.occupied &= ~(1 << warp.resource)
    throttled = group.throttled - warp.mark
    stalls = warp.row * REASON_WORDS
    stall_at(st, stalls + op.reason).value += throttled
    if st.instructions != 0:
        own = warp.pc * REASON_WORDS
        stall_of_at(st, own + op.reason).value += throttled
        stall_of_at(st, own + NOT_SELECTED).value += now - warp.entered - throttled
        stall_of_at(st, own + SELECTED).value += 1
    stall_at(st, stalls + NOT_SELECTED).value += now - warp.entered - throttled
    stall_at(st, stalls + SELECTED).value += 1
    scheduler.last_position = position
    scheduler.last_age = age_at(st, w).value + 1
    sm.instructions += 1
    if st.keep == ALL:
        emit(st, i, w, NOT_SELECTED, warp.since, now)
        emit(st, i, w, SELECTED, now, now + 1)
        out = issue_row_at(st, st.issues_kept)
        out.cycle, out.sm, out.scheduler, out.warp, out.slot = now, i, s, warp.row, op.slot
        st.issues_kept += 1
    unit = op.unit
    if st.source != 0:
        issue_sourced(st, i, s, first, w, now)
        return
    if unit == BARRIER:
        arrive(st, i, w, now, 1)
        return
    warp.lanes = op.lanes
    if unit == PIPE:
        if op.wide != 0:
            sm.first_scheduler = s + 1 if s + 1 < st.schedulers else 0
            occupy(st, i, s, first, warp.resource, op.reason, now, now + op.interval)
        elif op.interval > 1:
            throttle(st, i, s, warp.resource, op.reason, now + 1, now + op.interval)
        if op.watched != 0:
            result(st, w, op.target, now + op.latency)
    elif unit == THINK:
        cycles = value(st, w, warp.row, op.work, op.work_at, op.times, op.slot)
        if op.watched != 0:
            result(st, w, op.target, now + cycles)
    else:
        enqueue(st, i, s, w, now)
    if op.work_at | op.passes_at != 0 or unit == GLOBAL:
        executions_at(st, w * st.slots + op.slot).value += 1
    if step(st, w):
        proceed(st, i, w, now + 1, now + 1)
    else:
        leave(st, i, w, now)


@inlined
def issue_sourced(st: State, i: int, s: int, first: int, w: int, now: int) -> None:
    """Execute the selected instruction of a warp that is led by a source, and send it where it belongs.

    An instruction without a lane takes no place in a queue. Its control code says when the warp may issue
    again, and which scoreboards wait for its operands and its result.
    """
    sm, warp = sm_at(st, i), warp_at(st, w)
    op = op_at(st, warp.pc)
    words = st.source_warps + w * st.source_bytes
    state = call_source(st.source, NEXT, words, st.context, now, 0, 0)
    if state == FAULTS:
        st.fault = w + 1
        return
    lanes = bits_set(read_at(words, LANES))
    warp.lanes = lanes
    if op.unit == PIPE or op.unit == BARRIER:
        if op.wide != 0:
            sm.first_scheduler = s + 1 if s + 1 < st.schedulers else 0
            occupy(st, i, s, first, warp.resource, op.reason, now, now + op.interval)
        elif op.interval > 1:
            throttle(st, i, s, warp.resource, op.reason, now + 1, now + op.interval)
        if op.target >= 0:
            result(st, w, op.target, now + op.latency)
    elif lanes != 0:
        enqueue(st, i, s, w, now)
    if op.read_watched != 0 and (lanes == 0 or op.unit == PIPE or op.unit == BARRIER):
        result(st, w, op.read_target, now + max(1, op.interval))
    warp.stalled = now + op.stall
    if op.closes != 0:
        warp.groups += 1
    if state == EXITS:
        leave(st, i, w, now)
    elif state == ARRIVES:
        following = op_at(st, warp.pc + 1)
        if following.line != warp.line:
            fetch(st, i, w, following.line, now)
        arrive(st, i, w, now, 1)
    else:
        if state == NOTIFIES:
            arrive(st, i, w, now, 0)
        warp.pc = entry_at(st, 0).value + read_at(words, PC)
        if op_at(st, warp.pc).line != warp.line:
            fetch(st, i, w, op_at(st, warp.pc).line, now)
        proceed(st, i, w, now + 1, now + 1)


@inlined
def result(st: State, w: int, slot: int, cycle: int) -> None:
    """A place of a warp's scoreboard is free from a cycle on, or later."""
    at = w * st.slots + slot
    until_at(st, at).value = max(until_at(st, at).value, cycle)


@helper
def throttle(st: State, i: int, s: int, resource: int, reason: int, begin: int, free: int) -> None:
    """For scheduler ``s``, a resource is not free from ``begin`` until ``free``."""
    group = group_at(st, (i * st.schedulers + s) * st.resources + resource)
    group.free = free
    if free <= begin:
        return
    group.throttled += free - begin
    if st.keep == ALL:
        rest = group.mask
        while rest != 0:
            w = i * st.max_warps + lowest_bit(rest) * st.schedulers + s
            warp = warp_at(st, w)
            rest &= rest - 1
            emit(st, i, w, NOT_SELECTED, warp.since, begin)
            emit(st, i, w, reason, begin, free)
            warp.since = free


@helper
def occupy(st: State, i: int, s: int, first: int, resource: int, reason: int, now: int, free: int) -> None:
    """Scheduler ``s`` took what all share; those whose turn in this cycle is still to come find it taken
    already."""
    count = st.schedulers
    passed = s - first if s >= first else s - first + count
    other = first
    for turn in range(count):
        throttle(st, i, other, resource, reason, now if turn > passed else now + 1, free)
        other += 1
        if other == count:
            other = 0

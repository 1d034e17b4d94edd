"""The issue stage: which warp of a scheduler issues, and what follows from it.

This is the innermost loop of the simulator. It looks at groups of warps, never at all warps.
"""

from __future__ import annotations

from smlab.sim.compiled.fetch import constants_there, go_to
from smlab.sim.compiled.jit import (
    address_of,
    age_at,
    bits_set,
    call_source,
    due,
    entry_at,
    executions_at,
    free_at,
    free_later,
    free_now,
    group_at,
    helper,
    inlined,
    issue_row_at,
    least,
    lowest_bit,
    mask_at,
    op_at,
    read_at,
    result_at,
    scheduler_at,
    sm_at,
    stall_at,
    stall_of_at,
    warp_at,
    write_at,
)
from smlab.sim.compiled.layout import (
    ALL,
    ASKS_PHASE,
    BARRIER,
    CACHE_LINE_WORDS,
    CLOSES_GROUP,
    CLOSES_PRODUCTS,
    COPIES_IN_BULK,
    EMPTIES_L1,
    FENCES,
    FOLLOWS_COPIES,
    FOLLOWS_PRODUCTS,
    GLOBAL,
    IN_PARTS,
    JOINS_PRODUCTS,
    MULTIPLIES_IN_MEMORY,
    NEEDS_CONSTANTS,
    NEVER,
    NOT_SELECTED,
    PIPE,
    REASON_WORDS,
    REDUCE,
    SELECTED,
    THINK,
    State,
    Word,
)
from smlab.sim.compiled.memory import TICK_BITS, arrive_after_copies, copy_in_bulk, empty_l1
from smlab.sim.compiled.path import enqueue, value
from smlab.sim.compiled.warp_progress import arrive, emit, leave, proceed, step, wake_up
from smlab.sim.instruction_source import (
    AHEAD,
    ANSWER_BITS,
    ARRIVES,
    AWAITS,
    BULK_REQUEST,
    COMPLETE_AT,
    COPY_DONE,
    COPY_LEFT,
    EXITS,
    FAULTS,
    GOES_ON,
    LANES,
    MAX_EARLY_INSTRUCTIONS,
    NEXT,
    NOTIFIES,
    PASSES,
    PC,
    PRODUCT_DEPTH_BYTES,
    PRODUCT_GROUPS,
    PRODUCT_SLOT,
    RETRY_CYCLES,
    TO_WRITE,
)

GTO, LRR, OLDEST, GTY, GLR = 0, 1, 2, 3, 4
POLICY_CODES = {"gto": GTO, "gty": GTY, "glr": GLR, "lrr": LRR, "oldest": OLDEST}
"""The policies of `smlab.sim.policies` that `choose` has a branch for, by name."""


@inlined
def issue_stage(st: State, i: int, now: int) -> None:
    """The schedulers of SM ``i`` act in turn, beginning after the one that last took a pipe of the whole
    SM. Whoever makes one of them look earlier in the meantime, makes the SM do so."""
    sm = sm_at(st, i)
    base, count = i * st.schedulers, st.schedulers
    first = sm.first_scheduler
    sm.next_look = NEVER
    left = due_schedulers(st, base, first, now)
    while left != 0:
        turn = lowest_bit(left)
        left &= left - 1
        s = first + turn if first + turn < count else first + turn - count
        look(st, i, s, first, now)
        if sm.next_look <= now:  # one of those whose turn is still to come may have been woken
            left = due_schedulers(st, base, first, now) & (-2 << turn)
    for s in range(count):
        sm.next_look = min(sm.next_look, scheduler_at(st, base + s).next_look)


@inlined
def due_schedulers(st: State, base: int, first: int, now: int) -> Word:
    """Which of an SM's schedulers look now, as a mask by turn, beginning with scheduler ``first``. It is put
    together without a branch: which of them do, a processor cannot foresee."""
    which = 0
    for s in range(st.schedulers):
        which |= int(scheduler_at(st, base + s).next_look <= now) << s
    return (which >> first) | ((which & ((1 << first) - 1)) << (st.schedulers - first))


@inlined
def look(st: State, i: int, s: int, first: int, now: int) -> None:
    """Scheduler ``s`` issues from one of its warps, if one is eligible, and says when to look again."""
    k = i * st.schedulers + s
    scheduler = scheduler_at(st, k)
    eligible, later = 0, NEVER
    for g in range(k * st.width, (k + 1) * st.width, CACHE_LINE_WORDS):
        masks, frees = address_of(mask_at(st, g)), address_of(free_at(st, g))
        eligible |= free_now(masks, frees, now)
        later = min(later, free_later(masks, frees, now))
    scheduler.next_look = NEVER
    if scheduler.next_wake <= now:
        eligible |= wake_up(st, i, k, now)
    if eligible != 0 and scheduler.held > now:
        later = min(later, scheduler.held)
    elif eligible != 0:
        position = choose(st, i, s, eligible, now)
        bit = 1 << position
        g = k * st.width + warp_at(st, i * st.max_warps + position * st.schedulers + s).resource
        issue(st, i, s, first, position, now)
        mine = mask_at(st, g).value
        if mine != 0:
            later = min(later, max(free_at(st, g).value, now + 1))
        if eligible & ~(mine | bit) != 0:
            later = now + 1
    scheduler.next_look = min(scheduler.next_look, later, scheduler.next_wake)


@inlined
def choose(st: State, i: int, s: int, eligible: int, now: int) -> Word:
    """The place among the scheduler's slots of the warp that its policy selects."""
    k = i * st.schedulers + s
    scheduler = scheduler_at(st, k)
    last, ages = scheduler.last_position, k * st.positions
    if st.policy == LRR:
        above = eligible & (-2 << last) if scheduler.last_age != 0 else eligible
        return lowest_bit(above if above != 0 else eligible)
    if (
        st.policy != OLDEST
        and (eligible >> last) & 1 != 0
        and age_at(st, ages + last).value + 1 == scheduler.last_age
        and (now <= scheduler.stalls_until or adds_to_memory(st, i, s, last) == 0)
    ):
        return last
    if st.policy == GTY:
        return _youngest(st, ages, eligible, scheduler.shuffled)
    if (scheduler.shuffled == 0 and st.policy != GLR) or eligible & (eligible - 1) == 0:
        return lowest_bit(eligible)
    return _oldest(st, ages, eligible)


@inlined
def adds_to_memory(st: State, i: int, s: int, position: int) -> Word:
    """Whether the next instruction of a scheduler's warp is an atomic on global memory."""
    op = op_at(st, warp_at(st, i * st.max_warps + position * st.schedulers + s).pc)
    return int(op.unit == GLOBAL and op.store == REDUCE)


@inlined
def _oldest(st: State, ages: int, eligible: int) -> Word:
    """The place of the oldest of the eligible warps of a scheduler, whose ages begin at a number."""
    oldest, position = NEVER, 0
    for n in range(0, st.positions, CACHE_LINE_WORDS):
        at, mine = address_of(age_at(st, ages + n)), (eligible >> n) & 255
        age = least(at, mine)
        if age < oldest:
            oldest, position = age, n + lowest_bit(due(at, age) & mine)
    return position


@helper
def _youngest(st: State, ages: int, eligible: int, shuffled: int) -> Word:
    """The place of the youngest of the eligible warps of a scheduler, whose ages begin at a number."""
    youngest = lowest_bit(eligible)
    rest = eligible & (eligible - 1)
    while rest != 0:
        position = lowest_bit(rest)
        rest &= rest - 1
        if shuffled == 0 or age_at(st, ages + position).value > age_at(st, ages + youngest).value:
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
    g = k * st.width + warp.resource
    mask_at(st, g).value &= ~(1 << position)
    throttled = group_at(st, g).throttled - warp.mark
    stalls = w * REASON_WORDS
    stall_at(st, stalls + op.reason).value += throttled
    if st.instructions != 0:
        own = warp.pc * REASON_WORDS
        stall_of_at(st, own + op.reason).value += throttled
        stall_of_at(st, own + NOT_SELECTED).value += now - warp.entered - throttled
        stall_of_at(st, own + SELECTED).value += 1
    stall_at(st, stalls + NOT_SELECTED).value += now - warp.entered - throttled
    stall_at(st, stalls + SELECTED).value += 1
    scheduler.last_position, scheduler.stalls_until = position, now + op.stall
    if st.policy == GLR:  # the order of issues takes the place of ages
        age_at(st, k * st.positions + position).value = sm.launched_warps
        sm.launched_warps += 1
    scheduler.last_age = age_at(st, k * st.positions + position).value + 1
    sm.instructions += 1
    if st.keep == ALL:
        emit(st, i, w, NOT_SELECTED, warp.since, now)
        emit(st, i, w, SELECTED, now, now + 1)
        out = issue_row_at(st, st.issues_kept)
        out.cycle, out.sm, out.scheduler, out.warp, out.slot = now, i, s, warp.row, op.slot
        st.issues_kept += 1
    unit = op.unit
    if st.source != 0:
        issue_from_source(st, i, s, first, w, now)
        return
    if unit == BARRIER:
        arrive(st, i, w, now, 1)
        return
    warp.lanes = op.lanes
    if unit == PIPE:
        if op.wide == IN_PARTS:
            use_in_parts(st, i, s, w, now)
        elif op.wide != 0:
            sm.first_scheduler = s + 1 if s + 1 < st.schedulers else 0
            occupy(st, i, s, first, (warp.resource, op.reason, now + op.interval), now)
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


@helper
def use_in_parts(st: State, i: int, s: int, w: int, now: int) -> None:
    """A product keeps its scheduler's tensor core for a time that is no whole number of cycles."""
    warp, scheduler = warp_at(st, w), scheduler_at(st, i * st.schedulers + s)
    op = op_at(st, warp.pc)
    ticks = scheduler.product_carry + op.fraction
    scheduler.product_carry = ticks & ((1 << TICK_BITS) - 1)
    free = now + op.interval + (ticks >> TICK_BITS)
    if free > now + 1:
        throttle(st, i, s, warp.resource, op.reason, now + 1, free)


@helper
def queue_product(st: State, i: int, s: int, w: int, now: int) -> None:
    """A product by a group of warps waits for its scheduler's tensor core in a queue, and joins its warp's
    open group of products. One in tensor memory waits for the SM's tensor cores, which go by the first
    scheduler's."""
    warp = warp_at(st, w)
    op = op_at(st, warp.pc)
    of, interval, latency, spare, backlog = s, op.interval, op.latency, op.spare, op.backlog
    if op.effect == MULTIPLIES_IN_MEMORY:
        told = read_at(st.source_warps + w * st.source_bytes, PASSES)
        columns, rows = told & 0xFFFF, (told >> 16) & 0xFFFF
        first = -(-(rows * ((told >> 32) & 1) * PRODUCT_DEPTH_BYTES) // st.bank_row_bytes)
        reading = first + max(op.extra, -(-(columns * PRODUCT_DEPTH_BYTES) // st.bank_row_bytes))
        working = -(-(columns * max(rows, op.spare) * op.fraction) >> TICK_BITS)
        if told >> 33 != 0:  # a copy
            working = reading
        of, interval = 0, max(working, reading)
        latency, spare, backlog = working + first + op.latency, interval - reading, interval * op.backlog
    scheduler = scheduler_at(st, i * st.schedulers + of)
    begin = max(now, scheduler.products_end)
    late = max(scheduler.owed, 0)
    if begin == now:
        scheduler.owed = scheduler.awaited = 0
    for_copies = min(scheduler.awaited, spare)
    scheduler.awaited -= for_copies
    scheduler.owed = min(scheduler.owed, 0) - (spare - for_copies)
    scheduler.products_end = begin + interval + late
    sm_at(st, i).products_end = max(sm_at(st, i).products_end, scheduler.products_end)
    result(st, w, PRODUCT_SLOT + (warp.products & (PRODUCT_GROUPS - 1)), begin + latency + late)
    free = max(now + 1, begin + interval + late - backlog)
    throttle(st, i, s, warp.resource, op.reason, now + 1, free)


@helper
def arrive_after_products(st: State, w: int, now: int) -> None:
    """An arrival that warp ``w`` has just issued comes when its products in tensor memory are done."""
    row = read_at(read_at(st.context, BULK_REQUEST), TO_WRITE)
    done = result_at(st, w * st.slots + PRODUCT_SLOT + (warp_at(st, w).products & (PRODUCT_GROUPS - 1))).until
    write_at(row, COPY_LEFT, 0)
    write_at(row, COPY_DONE, max(done, now + 1))


@inlined
def issue_from_source(st: State, i: int, s: int, first: int, w: int, now: int) -> None:
    """Execute the selected instruction of a warp that is led by a source, unless that has been done, and send
    it where it belongs.

    An instruction without a lane takes no place in a queue. Its control code says when the warp may issue
    again, and which scoreboards wait for its operands and its result.
    """
    sm, warp = sm_at(st, i), warp_at(st, w)
    op = op_at(st, warp.pc)
    words, pc = st.source_warps + w * st.source_bytes, warp.pc
    state, lanes, following = GOES_ON, 0, pc + 1
    if warp.executed_early != 0:  # it has been executed already
        warp.executed_early -= 1
        if op.unit != PIPE:
            number = pc - entry_at(st, 0).value
            said = read_at(words, AHEAD + ((number & (MAX_EARLY_INSTRUCTIONS - 1)) >> 2)) >> (
                (number & 3) << 4
            )
            lanes = said & 63
            write_at(words, PASSES, (said >> 6) & 1023)
            warp.lanes = lanes
    else:
        state = call_source(st.source, (NEXT, words, st.context, now, 0, 0))
        warp.executed_early = state >> ANSWER_BITS
        state &= (1 << ANSWER_BITS) - 1
        if state == FAULTS:
            sm.faulted = w + 1
            return
        lanes = bits_set(read_at(words, LANES))
        warp.lanes = lanes
        following = entry_at(st, 0).value + read_at(words, PC) - warp.executed_early
    if op.unit == PIPE or op.unit == BARRIER:
        multiplies = JOINS_PRODUCTS <= op.effect <= MULTIPLIES_IN_MEMORY
        if multiplies:
            if lanes != 0 or op.effect != MULTIPLIES_IN_MEMORY:
                queue_product(st, i, s, w, now)
        elif op.wide == IN_PARTS:
            use_in_parts(st, i, s, w, now)
        elif op.wide != 0:
            sm.first_scheduler = s + 1 if s + 1 < st.schedulers else 0
            occupy(st, i, s, first, (warp.resource, op.reason, now + op.interval), now)
        elif op.interval > 1:
            throttle(st, i, s, warp.resource, op.reason, now + 1, now + op.interval)
        if op.target >= 0 and not multiplies:
            result(st, w, op.target, now + op.latency)
    elif lanes != 0 or op.passes_inactive != 0:
        if lanes == 0:
            write_at(words, PASSES, 1)
        enqueue(st, i, s, w, now)
    inactive = lanes == 0 and op.passes_inactive == 0
    if op.read_watched != 0 and (inactive or op.unit == PIPE or op.unit == BARRIER):
        reading = min(op.interval, op.latency) if op.unit == PIPE else op.interval
        result(st, w, op.read_target, now + max(1, reading))
    scheduler = scheduler_at(st, i * st.schedulers + s)
    if scheduler.products_end > now:
        scheduler.held = now + op.crowded
    could_issue = warp.stalled
    warp.stalled = now + op.stall + (RETRY_CYCLES if state == AWAITS else 0)
    if following != pc + 1 and state == GOES_ON:
        warp.stalled = max(warp.stalled, now + st.taken_branch)
    if op.effect == CLOSES_GROUP:
        warp.groups += 1
    elif op.effect == CLOSES_PRODUCTS:
        warp.products += 1
    elif op.effect == EMPTIES_L1:
        empty_l1(st, i, now)
    elif op.effect == FENCES:
        warp.stalled = max(warp.stalled, could_issue + op.extra)
    elif op.effect == NEEDS_CONSTANTS and lanes != 0:
        warp.stalled = max(warp.stalled, constants_there(st, i, w, now))
    elif op.effect == COPIES_IN_BULK and lanes != 0:
        copy_in_bulk(st, i, w, now)
    elif op.effect == FOLLOWS_COPIES and lanes != 0:
        arrive_after_copies(st, i, w, now)
    elif op.effect == ASKS_PHASE and state == AWAITS and st.wakes_waiting_warps != 0:
        warp.stalled = max(warp.stalled, read_at(words, COMPLETE_AT))
    elif op.effect == FOLLOWS_PRODUCTS and lanes != 0:
        arrive_after_products(st, w, now)
    if state == EXITS:
        leave(st, i, w, now)
    elif state == ARRIVES:
        if op_at(st, pc + 1).line != warp.line:
            go_to(st, i, w, pc + 1, now)
        arrive(st, i, w, now, 1)
    else:
        if state == NOTIFIES:
            arrive(st, i, w, now, 0)
        warp.pc = following
        if op_at(st, following).line != warp.line:
            go_to(st, i, w, following, now)
        proceed(st, i, w, now + 1, now + 1)


@inlined
def result(st: State, w: int, slot: int, cycle: int) -> None:
    """A place of a warp's scoreboard is free from a cycle on, or later."""
    at = w * st.slots + slot
    result_at(st, at).until = max(result_at(st, at).until, cycle)


@helper
def throttle(st: State, i: int, s: int, resource: int, reason: int, begin: int, free: int) -> None:
    """For scheduler ``s``, a resource is not free from ``begin`` until ``free``."""
    g = (i * st.schedulers + s) * st.width + resource
    free_at(st, g).value = free
    if free <= begin:
        return
    group_at(st, g).throttled += free - begin
    if st.keep == ALL:
        rest = mask_at(st, g).value
        while rest != 0:
            w = i * st.max_warps + lowest_bit(rest) * st.schedulers + s
            warp = warp_at(st, w)
            rest &= rest - 1
            emit(st, i, w, NOT_SELECTED, warp.since, begin)
            emit(st, i, w, reason, begin, free)
            warp.since = free


@helper
def occupy(st: State, i: int, s: int, first: int, taken: tuple[int, int, int], now: int) -> None:
    """Scheduler ``s`` took what all share; those whose turn in this cycle is still to come find it taken
    already. ``taken``: the resource, the reason for which others wait, and the cycle when it is free."""
    resource, reason, free = taken
    count = st.schedulers
    passed = s - first if s >= first else s - first + count
    other = first
    for turn in range(count):
        throttle(st, i, other, resource, reason, now if turn > passed else now + 1, free)
        other += 1
        if other == count:
            other = 0

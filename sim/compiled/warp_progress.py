"""What becomes of a warp between two of its issues, worked out as soon as it is known.

Fixed latencies are known at issue, and when a job on the memory path will be done is known when the arbiter
takes it, or L2 serves it (`resolve`). So a warp needs no events of its own. Its waiting time is charged at
once, reason by reason, and it sets a timer for the cycle in which it wants to issue again.
"""

from __future__ import annotations

from smlab.sim.compiled.jit import (
    address_of,
    barrier_at,
    block_at,
    call_source,
    counter_at,
    due,
    entry_at,
    free_at,
    group_at,
    helper,
    inlined,
    job_row_at,
    least,
    lowest_bit,
    mask_at,
    member_at,
    need_at,
    op_at,
    read_at,
    result_at,
    retiring_at,
    scheduler_at,
    sm_at,
    span_row_at,
    stall_at,
    stall_of_at,
    stall_row_at,
    wake_at,
    warp_at,
    warp_row_at,
)
from smlab.sim.compiled.layout import (
    ALL,
    AT_BARRIER,
    AT_THE_BARRIER,
    AWAITS_PRODUCTS,
    CACHE_LINE_WORDS,
    DRAIN,
    END,
    EXITING,
    FINISHED,
    LONG,
    LOOP_BEGIN,
    NEVER,
    NO_INSTRUCTION,
    OPERATION,
    READY,
    REASON_WORDS,
    SHORT,
    UNKNOWN,
    WAIT,
    State,
    Word,
)
from smlab.sim.instruction_source import BARRIER as SAID_BARRIER
from smlab.sim.instruction_source import (
    BLOCK_BARRIERS,
    COPY_GROUPS,
    GROUP_SLOT,
    LONG_SLOT,
    OPENED,
    PC,
    PRODUCT_GROUPS,
    PRODUCT_SLOT,
    SHORT_SLOT,
)


@helper
def emit(st: State, i: int, w: int, reason: int, begin: int, end: int) -> None:
    """Write down what warp ``w`` does from ``begin``, where its last span ended; one with the same reason
    grows instead."""
    if end <= begin:
        return
    warp = warp_at(st, w)
    if warp.span != 0 and span_row_at(st, warp.span - 1).reason == reason:
        span_row_at(st, warp.span - 1).end = end
        return
    span = span_row_at(st, st.spans_kept)
    span.sm, span.warp, span.reason, span.begin, span.end = i, warp.row, reason, begin, end
    st.spans_kept += 1
    warp.span = st.spans_kept


@inlined
def charge(st: State, i: int, w: int, reason: int, begin: int, end: int) -> None:
    stall_at(st, w * REASON_WORDS + reason).value += end - begin
    if st.instructions != 0:
        stall_of_at(st, warp_at(st, w).pc * REASON_WORDS + reason).value += end - begin
    if st.keep == ALL:
        emit(st, i, w, reason, begin, end)


@inlined
def join(st: State, i: int, w: int, k: int, bit: int, cycle: int) -> Word:
    """Warp ``w`` of scheduler ``k`` is in the group of its resource from ``cycle`` on; when that is free."""
    warp, g = warp_at(st, w), k * st.width + warp_at(st, w).resource
    group, free = group_at(st, g), free_at(st, g).value
    mask_at(st, g).value |= bit
    warp.entered = cycle
    if st.keep == ALL:
        warp.since = cycle
    warp.mark = group.throttled
    if group.closed != 0:
        warp.mark += cycle - (group.closed - 1)
    elif free > cycle:
        warp.mark -= free - cycle
        if st.keep == ALL:
            emit(st, i, w, op_at(st, warp.pc).reason, cycle, free)
            warp.since = free
    return free


@inlined
def place(st: State, i: int, w: int, cycle: int, horizon: int) -> None:
    """Warp ``w`` has all operands at ``cycle``: it joins its group, now if that is as good as then, else by a
    timer.

    Now is as good up to ``horizon``, the first cycle in which its scheduler acts again, and while the
    resource is not free: until then nobody can take it, so the group's books do not change.
    """
    warp = warp_at(st, w)
    k, bit = warp.scheduler, warp.bit
    warp.state = READY
    warp.resource = op_at(st, warp.pc).resource
    scheduler, g = scheduler_at(st, k), k * st.width + warp.resource
    if cycle <= horizon or (group_at(st, g).closed == 0 and cycle <= free_at(st, g).value):
        cycle = max(cycle, join(st, i, w, k, bit, cycle))
    else:
        scheduler.blocked |= bit
        wake_at(st, k * st.positions + lowest_bit(bit)).value = cycle
        if warp.resource + 1 == st.mio_resource or warp.resource + 1 == st.lg_resource:
            scheduler.coming |= bit
            if scheduler.queued == st.mio_entries:  # nobody looks at it before there is room
                return
        scheduler.next_wake = min(scheduler.next_wake, cycle)
    scheduler.next_look = min(scheduler.next_look, cycle)
    sm_at(st, i).next_look = min(sm_at(st, i).next_look, cycle)


@inlined
def first_timer(st: State, k: int, which: int) -> Word:
    """When the first timer runs out of the warps of scheduler ``k`` in a mask; NEVER if there is none."""
    if which & (which - 1) == 0:
        return wake_at(st, k * st.positions + lowest_bit(which)).value if which != 0 else NEVER
    nearest = NEVER
    for n in range(0, st.positions, CACHE_LINE_WORDS):
        nearest = min(nearest, least(address_of(wake_at(st, k * st.positions + n)), which >> n))
    return nearest


@inlined
def wake_up(st: State, i: int, k: int, now: int) -> Word:
    """Move the warps of scheduler ``k`` whose timers ran out to their groups, and set its next timer; those
    of them that may issue now, as a mask."""
    scheduler, eligible = scheduler_at(st, k), 0
    expired, nearest, looked_at = 0, NEVER, scheduler.blocked
    if scheduler.queued == st.mio_entries:
        looked_at &= ~scheduler.coming
    if looked_at & (looked_at - 1) == 0:
        nearest = first_timer(st, k, looked_at)
        if nearest <= now:
            expired, nearest = looked_at, NEVER
    else:
        for n in range(0, st.positions, CACHE_LINE_WORDS):
            at, mine = address_of(wake_at(st, k * st.positions + n)), looked_at >> n
            past = due(at, now) & mine
            expired |= past << n
            nearest = min(nearest, least(at, mine & ~past))
    scheduler.blocked &= ~expired
    scheduler.coming &= ~expired
    scheduler.next_wake = nearest
    first = i * st.max_warps + (k - i * st.schedulers)
    while expired != 0:
        position = lowest_bit(expired)
        expired &= expired - 1
        w, wake = first + position * st.schedulers, wake_at(st, k * st.positions + position).value
        free = join(st, i, w, k, 1 << position, wake)
        if free <= now:
            eligible |= 1 << position
        else:
            scheduler.next_look = min(scheduler.next_look, free)
    return eligible


@inlined
def proceed(st: State, i: int, w: int, cycle: int, horizon: int) -> None:
    """From ``cycle`` on, warp ``w`` wants to issue its next instruction: charge what it waits for and place
    it.

    Of several results the longest expected comes first: global memory, then shared memory, atomics and
    special functions, then arithmetic.
    """
    warp = warp_at(st, w)
    op = op_at(st, warp.pc)
    base = w * st.slots
    long = short = wait = 0
    if st.source != 0:
        if warp.fetched > cycle:
            charge(st, i, w, NO_INSTRUCTION, cycle, warp.fetched)
            cycle = warp.fetched
        rest = op.waits
        while rest != 0:
            at = base + lowest_bit(rest)
            rest &= rest - 1
            if result_at(st, at + LONG_SLOT).pending | result_at(st, at + SHORT_SLOT).pending != 0:
                warp.state = UNKNOWN
                warp.waiting_since = cycle
                return
            long = max(long, result_at(st, at + LONG_SLOT).until)
            short = max(short, result_at(st, at + SHORT_SLOT).until)
        if op.effect >= AWAITS_PRODUCTS:
            for back in range(op.effect - AWAITS_PRODUCTS + 1, PRODUCT_GROUPS):
                at = base + PRODUCT_SLOT + ((warp.products - back) & (PRODUCT_GROUPS - 1))
                short = max(short, result_at(st, at).until)
        if op.groups_left >= 0:
            for back in range(op.groups_left + 1, COPY_GROUPS):
                at = base + GROUP_SLOT + ((warp.groups - back) & (COPY_GROUPS - 1))
                if result_at(st, at).pending != 0:
                    warp.state = UNKNOWN
                    warp.waiting_since = cycle
                    return
                long = max(long, result_at(st, at).until)
        wait = warp.stalled
    for n in range(op.after_begin, op.after_end):
        need = need_at(st, n)
        at = base + need.slot
        if result_at(st, at).pending != 0:
            warp.state = UNKNOWN
            warp.waiting_since = cycle
            return
        if need.reason == LONG:
            long = max(long, result_at(st, at).until)
        elif need.reason == SHORT:
            short = max(short, result_at(st, at).until)
        else:
            wait = max(wait, result_at(st, at).until)
    if long > cycle:
        charge(st, i, w, LONG, cycle, long)
        cycle = long
    if short > cycle:
        charge(st, i, w, SHORT, cycle, short)
        cycle = short
    if wait > cycle:
        charge(st, i, w, WAIT, cycle, wait)
        cycle = wait
    place(st, i, w, cycle, horizon)


@helper
def step(st: State, w: int) -> Word:
    """Go past the instruction just issued, through loop marks, which take no time; False at the program's
    end."""
    warp = warp_at(st, w)
    if st.source != 0:
        words = st.source_warps + w * st.source_bytes
        if warp.state == AT_BARRIER:
            call_source(st.source, (OPENED, words, st.context, 0, 0, 0))
        warp.pc = entry_at(st, 0).value + read_at(words, PC)
        return True
    counters = w * st.depth
    pc = warp.pc + 1
    kind = op_at(st, pc).kind
    while kind != OPERATION and kind != END:
        if kind == LOOP_BEGIN:
            counter_at(st, counters + warp.depth).value = op_at(st, pc).count
            warp.depth += 1
            pc += 1
        else:
            counter_at(st, counters + warp.depth - 1).value -= 1
            if counter_at(st, counters + warp.depth - 1).value > 0:
                pc = op_at(st, pc).start
            else:
                warp.depth -= 1
                pc += 1
        kind = op_at(st, pc).kind
    warp.pc = pc
    return kind != END


@helper
def finish(st: State, i: int, w: int, exit_cycle: int) -> None:
    """Warp ``w`` exits (or has exited) at ``exit_cycle``; it is gone when its jobs are, if that is known
    already."""
    warp, sm = warp_at(st, w), sm_at(st, i)
    block = block_at(st, warp.block - 1)
    block.left = max(block.left, exit_cycle)
    if warp.unresolved != 0:
        warp.state = EXITING
        warp.waiting_since = exit_cycle
        return
    finish_cycle = max(exit_cycle, warp.last_completion)
    charge(st, i, w, DRAIN, exit_cycle, finish_cycle)
    warp.state = FINISHED
    write_down(st, i, w, finish_cycle)
    sm.resident_area += finish_cycle - warp.launch
    block.unfinished -= 1
    block.retire = max(block.retire, finish_cycle)
    if block.unfinished == 0:
        retiring_at(st, i * st.blocks_per_sm + sm.retiring).value = warp.block - 1
        sm.retiring += 1
        sm.next_retire = min(sm.next_retire, block.retire)


@helper
def write_down(st: State, i: int, w: int, finish_cycle: int) -> None:
    """What there is to tell of a warp that is gone. Until then its waiting times are kept by slot: those are
    in the processor's caches, and rows of the grid are not."""
    warp, row = warp_at(st, w), warp_row_at(st, warp_at(st, w).row)
    row.sm, row.slot, row.block, row.launch = i, w - i * st.max_warps, warp.block - 1, warp.launch
    row.finish = finish_cycle
    first = warp.row * REASON_WORDS
    for n in range(REASON_WORDS):
        stall_row_at(st, first + n).value = stall_at(st, w * REASON_WORDS + n).value


@helper
def leave(st: State, i: int, w: int, now: int) -> None:
    """Warp ``w`` issued its last instruction now, so it exits in the next cycle; that can complete a
    barrier."""
    b = warp_at(st, w).block - 1
    block_at(st, b).executing -= 1
    block_at(st, b).last_exit = now + 1
    finish(st, i, w, now + 1)
    waiting = block_at(st, b).waiting
    while waiting != 0:
        open_if_complete(st, i, b, lowest_bit(waiting), now)
        waiting &= waiting - 1


@helper
def arrive(st: State, i: int, w: int, now: int, waits: int) -> None:
    """Warp ``w`` issued a barrier, and ``waits`` there or only tells that it came."""
    warp, sm = warp_at(st, w), sm_at(st, i)
    b, number, expected = warp.block - 1, 0, 0
    if st.source != 0:
        said = read_at(st.source_warps + w * st.source_bytes, SAID_BARRIER)
        number, expected = said & (BLOCK_BARRIERS - 1), said // BLOCK_BARRIERS
    if waits != 0:
        warp.state = AT_BARRIER
        warp.waiting_since = now + 1
        warp.barrier = number
    sm.barrier_free = max(now, sm.barrier_free) + st.barrier_interval
    barrier = barrier_at(st, block_barrier(st, i, b, number))
    barrier.served = sm.barrier_free
    barrier.arrived += 1
    barrier.expected = expected
    block_at(st, b).waiting |= 1 << number
    open_if_complete(st, i, b, number, now)


@helper
def block_barrier(st: State, i: int, b: int, number: int) -> Word:
    """The place of a barrier of block ``b`` of SM ``i``."""
    return (i * st.blocks_per_sm + block_at(st, b).room) * st.barriers + number


@helper
def open_if_complete(st: State, i: int, b: int, number: int, now: int) -> None:
    """Open a barrier of the block if all warps that it is for came; the way on of those that wait follows at
    once.

    A warp that issued its last instruction in this very cycle is still there until the next: it holds a
    barrier that is for all for a cycle.
    """
    block, barrier = block_at(st, b), barrier_at(st, block_barrier(st, i, b, number))
    everyone = barrier.expected == 0
    if barrier.arrived == 0 or barrier.arrived != (block.executing if everyone else barrier.expected):
        return
    barrier.arrived = 0
    block.waiting &= ~(1 << number)
    opens = max(now, barrier.served, block.last_exit if everyone else 0) + st.barrier_cycles
    first = (i * st.blocks_per_sm + block.room) * st.places
    for place_at in range(first, first + st.places):
        w = member_at(st, place_at).value - 1
        if w < 0:
            continue
        warp = warp_at(st, w)
        if warp.state == AT_BARRIER and warp.barrier == number:
            charge(st, i, w, AT_THE_BARRIER, warp.waiting_since, opens)
            if step(st, w):
                proceed(st, i, w, opens, -1)
            else:
                block.executing -= 1
                finish(st, i, w, opens)


@helper
def resolve(st: State, i: int, w: int, target: int, row: int, completion: int) -> None:
    """It has turned out when a job of warp ``w`` completes, which a place of its scoreboard waits for, or
    none (-1)."""
    warp = warp_at(st, w)
    warp.unresolved -= 1
    warp.last_completion = max(warp.last_completion, completion)
    if row >= 0:
        job_row_at(st, row).completion = completion
    if target >= 0:
        at = w * st.slots + target
        result_at(st, at).pending -= 1
        result_at(st, at).until = max(result_at(st, at).until, completion)
        if warp.state == UNKNOWN:
            proceed(st, i, w, warp.waiting_since, -1)
    if warp.state == EXITING and warp.unresolved == 0:
        finish(st, i, w, warp.waiting_since)


@helper
def resolve_read(st: State, i: int, w: int, place_at: int, cycle: int) -> None:
    """It has turned out when operands of warp ``w`` are read, which a place of its scoreboard waits for."""
    warp = warp_at(st, w)
    at = w * st.slots + place_at
    result_at(st, at).pending -= 1
    result_at(st, at).until = max(result_at(st, at).until, cycle)
    if warp.state == UNKNOWN:
        proceed(st, i, w, warp.waiting_since, -1)

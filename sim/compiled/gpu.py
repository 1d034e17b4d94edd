"""The whole GPU: which SM runs how far, who gets the next block, and when L2 serves.

SMs run one after the other, each as far as nothing that another does can reach it. There are two such things.
Blocks: while some wait, an SM stops when it retires one, and the SM that stopped first is served first.
Global memory: a request that reaches L2 in cycle t is answered after t + the time of the way back, so all SMs
may run through a window of that length before the requests that they sent in it are served, in the order of
their arrival. An SM that has none on its way runs on alone, as far as the answer to the first one that it
sends (its ``horizon``): what it works on then stays in the processor's caches. The result is that of running
all SMs cycle by cycle.

Blocks on an SM: a launched one's warps take slots and begin, a finished one gives its room back.
"""

from __future__ import annotations

from smlab.sim.compiled.fetch import go_to, warm, warm_constants
from smlab.sim.compiled.issue import issue_stage
from smlab.sim.compiled.jit import (
    access_at,
    address_of,
    age_at,
    assigned_at,
    barrier_at,
    block_at,
    call_source,
    called,
    common_at,
    entry,
    entry_at,
    executions_at,
    free_at,
    group_at,
    helper,
    inlined,
    load_atomic,
    lowest_bit,
    mask_at,
    member_at,
    prefetch,
    result_at,
    retiring_at,
    role_at,
    scheduler_at,
    sm_at,
    stall_at,
    state_at,
    stopped_at,
    store_atomic,
    thread_at,
    wake_at,
    warp_at,
)
from smlab.sim.compiled.layout import (
    ACCESS_CHUNK,
    ALL,
    CACHE_LINE_BYTES,
    CACHE_LINE_WORDS,
    CROWDED,
    DONE,
    FAULTED,
    LATE,
    LAUNCHING,
    NEVER,
    PAUSED,
    READY,
    REASON_WORDS,
    RELEASED,
    SPARE_SPANS,
    STUCK,
    TAKEN,
    TOTALS,
    State,
    Word,
)
from smlab.sim.compiled.memory import TICK_BITS, alone, ceil_cycles, hold, serve_window
from smlab.sim.compiled.path import arbitrate, take_answer
from smlab.sim.compiled.threads import (
    CHANGES_BYTES,
    CLOCK_BYTES,
    PATIENCE,
    STOPPING_BYTES,
    changed,
    clock_of,
    give_way,
    lock,
    unlock,
)
from smlab.sim.compiled.warp_progress import block_barrier, charge, proceed, step
from smlab.sim.instruction_source import NEAR, START

STEPS_BETWEEN_LOOKS = 15
"""A thread looks so seldom whether another one sends it back to Python, plus one; a power of two."""


@called
def start(st: State) -> None:
    """Make a state with a zeroed arena the one before the launch."""
    st.retired_blocks = st.cycles = 0
    st.jobs_kept = st.issues_kept = st.spans_kept = 0
    common = common_at(st, 0)
    common.next_block = common.dispatcher_free = 0
    common.next_access = common.fault = common.stopping = 0
    mine = thread_at(st, st.thread)
    mine.sm = mine.next_sm = mine.end_sm = 0
    for i in range(st.sms):
        sm = sm_at(st, i)
        sm.next_look = sm.next_serve = sm.next_retire = NEVER
        stopped_at(st, i).value = 1
        sm.horizon = alone(st)
    for k in range(st.sms * st.schedulers):
        scheduler = scheduler_at(st, k)
        scheduler.next_look = scheduler.next_wake = scheduler.ready = NEVER
    common.fault_cycle = NEVER
    common.window_end = NEVER
    if st.uses_memory != 0:
        common.window_end = 1
        hold(st)
    warm(st)
    warm_constants(st)


@inlined
def crowded(st: State, i: int) -> Word:
    """Whether the arrays might be too small for one more step of SM ``i``."""
    if st.uses_memory != 0:
        while sm_at(st, i).free_accesses < st.spare_accesses:
            if more_accesses(st, i) == 0:
                return True
    if st.keep == TOTALS:
        return False
    if st.jobs_kept + st.schedulers > st.job_rows:
        return True
    return st.keep == ALL and (
        st.issues_kept + st.schedulers > st.issue_rows or st.spans_kept + SPARE_SPANS > st.span_rows
    )


@helper
def more_accesses(st: State, i: int) -> Word:
    """Give SM ``i`` a chunk of the accesses that belong to none; how many."""
    sm, common = sm_at(st, i), common_at(st, 0)
    lock(st)
    first = common.next_access
    count = ACCESS_CHUNK if first + ACCESS_CHUNK <= st.accesses else 0
    common.next_access += count
    unlock(st)
    for index in range(first, first + count):
        access_at(st, index).next = sm.free_access
        access_at(st, index).sm = i
        sm.free_access = index + 1
    sm.free_accesses += count
    return count


@inlined
def bring_near(st: State, i: int) -> None:
    """Ask the processor for what SM ``i`` is about to work on, which other SMs' turns have driven out of its
    caches: its schedulers, and of each warp what its next issue reads."""
    first = i * st.max_warps
    for k in range(i * st.schedulers, (i + 1) * st.schedulers):
        for n in range(k * st.positions, (k + 1) * st.positions, CACHE_LINE_WORDS):
            prefetch(address_of(wake_at(st, n)))
            prefetch(address_of(age_at(st, n)))
        for n in range(k * st.width, (k + 1) * st.width, CACHE_LINE_WORDS):
            prefetch(address_of(mask_at(st, n)))
            prefetch(address_of(free_at(st, n)))
            prefetch(address_of(group_at(st, n)))
            prefetch(address_of(group_at(st, n)) + CACHE_LINE_BYTES)
        prefetch(address_of(scheduler_at(st, k)))
        prefetch(address_of(scheduler_at(st, k)) + CACHE_LINE_BYTES)
    for w in range(first, first + st.max_warps):
        at = address_of(warp_at(st, w))
        prefetch(at)
        prefetch(at + CACHE_LINE_BYTES)
        at = address_of(result_at(st, w * st.slots))
        prefetch(at)
        prefetch(at + CACHE_LINE_BYTES)
        prefetch(at + 2 * CACHE_LINE_BYTES)
        prefetch(st.source_warps + w * st.source_bytes)


@inlined
def bring_ready_near(st: State, i: int) -> None:
    """The same of what the warps of SM ``i`` that may issue read besides."""
    first = i * st.max_warps
    for w in range(first, first + st.max_warps):
        warp = warp_at(st, w)
        if warp.block != 0 and warp.state == READY:
            prefetch(address_of(stall_at(st, w * REASON_WORDS)))
            if warp.executed_early == 0:
                words = st.source_warps + w * st.source_bytes
                call_source(st.source, (NEAR, words, st.context, 0, 0, 0))


@helper
def run_sm(st: State, i: int) -> int:
    """Give SM ``i`` its blocks and L2's answers, and run it up to the last cycle before the window's end or
    its horizon, or to its next retirement while blocks wait for room."""
    sm, common, clock = sm_at(st, i), common_at(st, 0), address_of(thread_at(st, st.thread)) + CLOCK_BYTES
    stopping = address_of(common) + STOPPING_BYTES
    far = st.source != 0 and st.sms > 1
    if far:
        bring_near(st, i)
    while sm.assigned != 0:
        if crowded(st, i):
            return CROWDED
        launch(st, i)
    while sm.request_head != 0 and access_at(st, sm.request_head - 1).when < common.served_end:
        if crowded(st, i):
            return CROWDED
        take_answer(st, i)
    if stopped_at(st, i).value != 0:
        return DONE
    first, until, shared = i * st.max_warps, common.window_end, common.threads > 1
    last = min(st.limit + 1, common.fault_cycle + int(first + st.max_warps < common.fault))
    now = min(sm.next_look, sm.next_serve, sm.next_retire)
    if far and now < min(max(until, sm.horizon), last):
        bring_ready_near(st, i)
    while True:
        now = min(sm.next_look, sm.next_serve, sm.next_retire)
        if now >= min(max(until, sm.horizon), last):
            return DONE
        if crowded(st, i):
            return CROWDED
        st.steps_left -= 1
        if st.steps_left < 0:
            return PAUSED
        if shared:
            store_atomic(clock, now)
            if st.steps_left & STEPS_BETWEEN_LOOKS == 0 and load_atomic(stopping, 0) != 0:
                return PAUSED
        if sm.next_serve == now:
            arbitrate(st, i, now)
        if sm.next_retire == now:
            retire(st, i, now)
            if common.next_block < st.blocks:
                stopped_at(st, i).value = now + 1
                return DONE
        if sm.next_look == now:
            issue_stage(st, i, now)
            if sm.faulted != 0:
                note_fault(st, i, now)
                return DONE


@helper
def note_fault(st: State, i: int, now: int) -> None:
    """A warp of SM ``i`` has a fault: what counts is the first one, of one cycle that of the first SM."""
    common, warp = common_at(st, 0), sm_at(st, i).faulted
    lock(st)
    if common.fault == 0 or (now, warp) < (common.fault_cycle, common.fault):
        common.fault, common.fault_cycle = warp, now
    unlock(st)


@helper
def dispatch(st: State, low: int, high: int, now: int) -> None:
    """Blocks that wait go to the SMs that stopped in this cycle, each to the one with the fewest, in order.
    They may go on then."""
    common = common_at(st, 0)
    if st.cluster_blocks > 1:
        dispatch_clusters(st, now)
    while st.cluster_blocks == 1 and common.next_block < st.blocks:
        chosen, fewest = -1, st.blocks_per_sm
        for i in range(low, high):
            if stopped_at(st, i).value == now + 1 and sm_at(st, i).resident_blocks < fewest:
                chosen, fewest = i, sm_at(st, i).resident_blocks
        if chosen < 0:
            break
        assign(st, chosen, now)
    for i in range(low, high):
        if stopped_at(st, i).value == now + 1:
            stopped_at(st, i).value = RELEASED


@helper
def dispatch_clusters(st: State, now: int) -> None:
    """Clusters that wait are made resident while a group of SMs has room for all blocks of one, each on an SM
    of its own: in the group that has the fewest blocks, on its SMs with the fewest, in order."""
    common = common_at(st, 0)
    while common.next_block < st.blocks:
        best, fewest = -1, NEVER
        for group in range(st.groups):
            total = 0
            for _ in range(st.cluster_blocks):
                i = emptiest(st, group)
                if i < 0:
                    total = NEVER
                    break
                sm_at(st, i).taken = 1
            for i in range(first_of_group(st, group), first_of_group(st, group + 1)):
                sm_at(st, i).taken = 0
                total += sm_at(st, i).resident_blocks
            if total < fewest:
                best, fewest = group, total
        if best < 0:
            return
        for _ in range(st.cluster_blocks):
            i = emptiest(st, best)
            sm_at(st, i).taken = 1
            assign(st, i, now)
        for i in range(first_of_group(st, best), first_of_group(st, best + 1)):
            if sm_at(st, i).taken != 0:
                sm_at(st, i).taken = 0
                launch(st, i)


@helper
def first_of_group(st: State, group: int) -> Word:
    """The first SM of a group (`smlab.sim.machine.groups_of_sms`); of the number of groups, that of SMs."""
    return min(st.sms, 2 * (group * st.sm_pairs // st.groups))


@helper
def emptiest(st: State, group: int) -> Word:
    """The SM of a group with the fewest resident blocks that has room and is not taken yet; -1: none."""
    chosen, fewest = -1, st.blocks_per_sm
    for i in range(first_of_group(st, group), first_of_group(st, group + 1)):
        if sm_at(st, i).taken == 0 and sm_at(st, i).resident_blocks < fewest:
            chosen, fewest = i, sm_at(st, i).resident_blocks
    return chosen


@helper
def assign(st: State, i: int, now: int) -> None:
    """SM ``i`` gets the next block of the grid, which it launches when it goes on."""
    sm, common = sm_at(st, i), common_at(st, 0)
    b = common.next_block
    common.next_block += 1
    if sm.resident_blocks == 0:
        sm.active_since = now
    sm.resident_blocks += 1
    block_at(st, b).launch = now
    warps, roles = 0, b * st.places if st.role_rows > 1 else 0
    for p in range(st.places):
        warps += role_at(st, roles + p).value >= 0
    row = assigned_at(st, i * st.blocks_per_sm + sm.assigned)
    row.block, row.begin = b, max(now << TICK_BITS, common.dispatcher_free)
    if now == 0:
        common.dispatcher_free = row.begin + st.block_dispatch_ticks + warps * st.warp_dispatch_ticks
    else:
        common.dispatcher_free = row.begin + st.block_refill_ticks + warps * st.warp_refill_ticks
    sm.assigned += 1


@helper
def turn_window(st: State, low: int, high: int) -> int:
    """All SMs are through the window: serve the requests of this one, open the next where something
    happens."""
    common = common_at(st, 0)
    if common.fault != 0 and common.fault_cycle < common.window_end:
        return FAULTED
    nearest, resident = NEVER, 0
    if st.uses_memory != 0:
        nearest = serve_window(st, low, high)
    for i in range(low, high):
        sm = sm_at(st, i)
        nearest = min(nearest, sm.next_look, sm.next_serve, sm.next_retire)
        if stopped_at(st, i).value != 0:
            nearest = min(nearest, stopped_at(st, i).value - 1)
        resident += sm.resident_blocks
    if nearest == NEVER:
        return DONE if resident == 0 and common.next_block == st.blocks else STUCK
    if nearest > st.limit:
        return LATE
    common.window_end = nearest + st.window
    return PAUSED


@helper
def share_out(st: State, low: int, high: int) -> None:
    """A window begins: each thread has its share of the SMs, the same in each window, so that what they work
    on stays in its processor's caches."""
    threads = common_at(st, 0).threads
    for n in range(threads):
        thread = thread_at(st, n)
        thread.next_sm = low + (high - low) * n // threads
        thread.end_sm = low + (high - low) * (n + 1) // threads


@helper
def next_turn(st: State) -> Word:
    """The SM whose turn in the window is next: of the thread's own share, else of the largest one that is
    left; -1: none."""
    mine = thread_at(st, st.thread)
    if mine.next_sm < mine.end_sm:
        mine.next_sm += 1
        return mine.next_sm - 1
    most, slowest = 0, 0
    for n in range(common_at(st, 0).threads):
        other = thread_at(st, n)
        if other.end_sm - other.next_sm > most:
            most, slowest = other.end_sm - other.next_sm, n
    if most == 0:
        return -1
    thread_at(st, slowest).end_sm -= 1
    return thread_at(st, slowest).end_sm


@helper
def take(st: State, low: int, high: int) -> int:
    """The thread is done with its SM and takes the next one, TAKEN; or why there is none.

    First each SM has its turn in the window. Then those that stopped are given their blocks, the one first
    that stopped first, as soon as every SM that runs is past that cycle; another thread runs it there. The
    last thread that comes to the end of the window opens the next one.
    """
    common, mine = common_at(st, 0), thread_at(st, st.thread)
    lock(st)
    mine.sm = 0
    changed(common)
    while True:
        if load_atomic(address_of(common) + STOPPING_BYTES, 0) != 0:
            unlock(st)
            return PAUSED
        chosen, stop = next_turn(st), NEVER
        if chosen < 0:
            first = (high - low) * st.thread // common.threads
            for n in range(high - low):
                i = low + (first + n) % (high - low)  # its own share first
                at = stopped_at(st, i).value
                if at == RELEASED:
                    stopped_at(st, i).value = 0
                    chosen = i
                    break
                if at != 0:
                    stop = min(stop, at - 1)
        if chosen >= 0:
            mine.clock, mine.sm = 0, chosen + 1
            unlock(st)
            return TAKEN
        running, behind = 0, -1
        for n in range(common.threads):
            if thread_at(st, n).sm != 0:
                running += 1
                if clock_of(st, n) <= stop:
                    behind = n
        if stop < common.window_end and behind < 0:
            dispatch(st, low, high, stop)
            changed(common)
        elif running == 0:
            status = turn_window(st, low, high)
            if status != PAUSED:
                unlock(st)
                return status
            share_out(st, low, high)
            changed(common)
        else:
            await_change(st, behind if stop < common.window_end else -1, stop)


@helper
def await_change(st: State, behind: int, stop: int) -> None:
    """Let go of the lock until another thread has changed something, or thread ``behind`` is past a cycle."""
    common, looks = common_at(st, 0), 0
    at, stopping = address_of(common) + CHANGES_BYTES, address_of(common) + STOPPING_BYTES
    seen = common.changes
    unlock(st)
    while load_atomic(at, 0) == seen and load_atomic(stopping, 0) == 0:
        if behind >= 0 and clock_of(st, behind) > stop:
            break
        looks += 1
        if looks > PATIENCE:
            give_way(st)
    lock(st)


@called
def run(st: State, low: int, high: int) -> int:
    """Run the SMs from ``low`` up to ``high`` until they are done or there is a reason to go back to
    Python; an SM that was on its way then goes on first."""
    mine = thread_at(st, st.thread)
    status = TAKEN if mine.sm != 0 else take(st, low, high)
    while status == TAKEN:
        status = run_sm(st, mine.sm - 1)
        if status == DONE:
            status = take(st, low, high)
    store_atomic(address_of(common_at(st, 0)) + STOPPING_BYTES, 1)
    return status


@entry
def begin(address: int) -> None:
    """Make the zeroed state at an address the one before the launch."""
    start(state_at(address))


@entry
def advance(address: int, low: int, high: int, steps: int) -> int:
    """Go on with the SMs from ``low`` up to ``high`` for about so many steps; DONE, or why not."""
    st = state_at(address)
    st.steps_left = steps
    return run(st, low, high)


@helper
def launch(st: State, i: int) -> None:
    """Make the first block that SM ``i`` was given resident: its warps take free slots."""
    sm = sm_at(st, i)
    given = assigned_at(st, i * st.blocks_per_sm)
    b, begin = given.block, given.begin
    for n in range(i * st.blocks_per_sm, i * st.blocks_per_sm + sm.assigned - 1):
        row, following = assigned_at(st, n), assigned_at(st, n + 1)
        row.block, row.begin = following.block, following.begin
    sm.assigned -= 1
    block = block_at(st, b)
    now = block.launch
    block.sm, block.retire = i, 0
    block.executing = block.unfinished = block.waiting = block.last_exit = block.left = 0
    block.room = lowest_bit(~sm.rooms)
    sm.rooms |= 1 << block.room
    for number in range(st.barriers):
        barrier_at(st, block_barrier(st, i, b, number)).arrived = 0
    roles = b * st.places if st.role_rows > 1 else 0
    ready, left = (
        ceil_cycles(begin) + st.launch_cycles,
        assigned_at(st, i * st.blocks_per_sm + block.room).left,
    )
    if left != 0:
        ready = max(ready, left + st.turnover_cycles)
    for p in range(st.places):
        role = role_at(st, roles + p).value
        member = member_at(st, (i * st.blocks_per_sm + block.room) * st.places + p)
        member.value = 0
        if role < 0:
            continue
        w = i * st.max_warps + (turned_slot(st, i) if st.turns != 0 else free_slot(st, i))
        member.value = w + 1
        if st.source != 0:
            room = i * st.blocks_per_sm + block.room
            words = st.source_warps + w * st.source_bytes
            call_source(st.source, (START, words, st.context, i, b, p + 64 * room))
        _start_warp(st, i, w, b, b * st.places + p, role, now)
        ready_at_launch = ready + (block.executing * st.warp_launch_ticks >> TICK_BITS)
        charge(st, i, w, LAUNCHING, now, ready_at_launch)
        block.executing += 1
        block.unfinished += 1
        proceed(st, i, w, ready_at_launch, now)
    if st.turns != 0 and block.unfinished % st.schedulers == 0:
        sm.next_scheduler = (sm.next_scheduler + st.block_turn) % st.schedulers


@inlined
def turned_slot(st: State, i: int) -> Word:
    """The lowest free slot of the scheduler whose turn it is, or of the next one that has one."""
    sm = sm_at(st, i)
    found, nearest = NEVER, NEVER
    for s in range(st.schedulers):
        away = (s + st.schedulers - sm.next_scheduler) % st.schedulers
        slot = lowest_bit(~scheduler_at(st, i * st.schedulers + s).residents) * st.schedulers + s
        if slot < st.max_warps and away < nearest:
            found, nearest = slot, away
    sm.next_scheduler = (found + 1) % st.schedulers
    return found


@inlined
def free_slot(st: State, i: int) -> Word:
    """The lowest free slot for a warp of SM ``i``."""
    lowest = NEVER
    for s in range(st.schedulers):
        position = lowest_bit(~scheduler_at(st, i * st.schedulers + s).residents)
        lowest = min(lowest, position * st.schedulers + s)
    return lowest


@helper
def _start_warp(st: State, i: int, w: int, b: int, row: int, role: int, now: int) -> None:
    sm, warp = sm_at(st, i), warp_at(st, w)
    slot = w - i * st.max_warps
    warp.block = b + 1
    warp.row = row
    warp.depth = warp.span = 0
    warp.launch = now
    warp.last_completion = warp.unresolved = warp.state = 0
    for at in range(w * st.slots, (w + 1) * st.slots):
        result_at(st, at).until = result_at(st, at).pending = 0
        if st.source == 0:
            executions_at(st, at).value = 0
    for at in range(w * REASON_WORDS, (w + 1) * REASON_WORDS):
        stall_at(st, at).value = 0
    warp.scheduler = i * st.schedulers + slot % st.schedulers
    scheduler = scheduler_at(st, warp.scheduler)
    position = slot // st.schedulers
    age_at(st, warp.scheduler * st.positions + position).value = sm.launched_warps
    sm.launched_warps += 1
    warp.bit = 1 << position
    # The newest of a scheduler's warps is in order when no other sits in a higher slot.
    if scheduler.residents == 0:
        scheduler.shuffled = 0
    elif scheduler.residents >> position != 0:
        scheduler.shuffled = 1
    scheduler.residents |= 1 << position
    warp.pc = entry_at(st, role).value - 1
    warp.fetched = warp.stalled = warp.groups = warp.executed_early = warp.copied = 0
    step(st, w)
    if st.source != 0:
        warp.line = -1
        go_to(st, i, w, warp.pc, now)


@helper
def retire(st: State, i: int, now: int) -> None:
    """The blocks of SM ``i`` that finish now give their room back."""
    sm = sm_at(st, i)
    base, left, nearest = i * st.blocks_per_sm, 0, NEVER
    for n in range(base, base + sm.retiring):
        b = retiring_at(st, n).value
        if block_at(st, b).retire > now:
            retiring_at(st, base + left).value = b
            left += 1
            nearest = min(nearest, block_at(st, b).retire)
            continue
        first = (i * st.blocks_per_sm + block_at(st, b).room) * st.places
        for place in range(first, first + st.places):
            w = member_at(st, place).value - 1
            if w >= 0:
                slot = w - i * st.max_warps
                warp_at(st, w).block = 0
                k = i * st.schedulers + slot % st.schedulers
                scheduler_at(st, k).residents &= ~(1 << (slot // st.schedulers))
        sm.rooms &= ~(1 << block_at(st, b).room)
        assigned_at(st, i * st.blocks_per_sm + block_at(st, b).room).left = block_at(st, b).left
        sm.resident_blocks -= 1
        st.retired_blocks += 1
    sm.retiring = left
    sm.next_retire = nearest
    st.cycles = max(st.cycles, now)
    if sm.resident_blocks == 0:
        sm.active_cycles += now - sm.active_since

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

from smlab.sim.compiled.fetch import fetch, warm
from smlab.sim.compiled.issue import issue_stage
from smlab.sim.compiled.jit import (
    access_at,
    address_of,
    age_at,
    barrier_at,
    block_at,
    call_source,
    called,
    entry,
    entry_at,
    executions_at,
    free_at,
    heap_at,
    helper,
    inlined,
    lowest_bit,
    mask_at,
    op_at,
    pending_at,
    prefetch,
    retiring_at,
    role_at,
    scheduler_at,
    sm_at,
    stall_at,
    state_at,
    until_at,
    wake_at,
    warp_at,
    warp_row_at,
)
from smlab.sim.compiled.layout import (
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
    SPARE_SPANS,
    STUCK,
    TOTALS,
    State,
    Word,
)
from smlab.sim.compiled.memory import TICK_BITS, alone, ceil_cycles, hold, serve_l2
from smlab.sim.compiled.path import arbitrate, place_is_back
from smlab.sim.compiled.warp_progress import block_barrier, charge, proceed, step
from smlab.sim.instruction_source import NEAR, START


@called
def start(st: State) -> None:
    """Make a state with a zeroed arena the one before the launch."""
    st.next_block = st.retired_blocks = st.cycles = st.dispatcher_free = st.turning = 0
    st.jobs_kept = st.issues_kept = st.spans_kept = 0
    for i in range(st.sms):
        sm = sm_at(st, i)
        sm.next_look = sm.next_serve = sm.next_retire = NEVER
        sm.stopped = 1
        sm.horizon = alone(st)
    for k in range(st.sms * st.schedulers):
        scheduler = scheduler_at(st, k)
        scheduler.next_look = scheduler.next_wake = scheduler.ready = NEVER
    st.fault_cycle = NEVER
    st.window_end = NEVER
    if st.uses_memory != 0:
        st.window_end = 1
        for index in range(st.accesses):
            access_at(st, index).next = st.free_access
            st.free_access = index + 1
        st.free_accesses = st.accesses
        hold(st)
    warm(st)


@inlined
def crowded(st: State) -> Word:
    """Whether the arrays might be too small for one more step of one SM."""
    if st.uses_memory != 0 and st.free_accesses < st.schedulers:
        return True
    if st.keep == TOTALS:
        return False
    if st.jobs_kept + st.schedulers > st.job_rows:
        return True
    return st.keep == ALL and (
        st.issues_kept + st.schedulers > st.issue_rows or st.spans_kept + SPARE_SPANS > st.span_rows
    )


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
        prefetch(address_of(scheduler_at(st, k)))
        prefetch(address_of(scheduler_at(st, k)) + CACHE_LINE_BYTES)
    for w in range(first, first + st.max_warps):
        at = address_of(warp_at(st, w))
        prefetch(at)
        prefetch(at + CACHE_LINE_BYTES)
        prefetch(at + 2 * CACHE_LINE_BYTES)
        for at in (address_of(until_at(st, w * st.slots)), address_of(pending_at(st, w * st.slots))):
            prefetch(at)
            prefetch(at + CACHE_LINE_BYTES)
        prefetch(st.source_warps + w * st.source_bytes)
    for w in range(first, first + st.max_warps):
        warp = warp_at(st, w)
        if warp.block != 0 and warp.state == READY:
            at = address_of(stall_at(st, warp.row * REASON_WORDS))
            prefetch(at)
            prefetch(at + CACHE_LINE_BYTES)
            if warp.ahead == 0:
                words = st.source_warps + w * st.source_bytes
                call_source(st.source, (NEAR, words, st.context, 0, 0, 0))


@helper
def run_sm(st: State, i: int, until: int) -> int:
    """Run SM ``i`` up to the last cycle before ``until`` or its horizon, or to its next retirement while
    blocks wait for room."""
    sm = sm_at(st, i)
    first, end = i * st.max_warps, (i + 1) * st.max_warps
    last = min(st.limit + 1, st.fault_cycle + int(end < st.fault))
    now = min(sm.next_look, sm.next_serve, sm.next_retire)
    if st.source != 0 and st.sms > 1 and now < min(max(until, sm.horizon), last):
        bring_near(st, i)
    while True:
        now = min(sm.next_look, sm.next_serve, sm.next_retire)
        if now >= min(max(until, sm.horizon), last):
            return DONE
        if crowded(st):
            return CROWDED
        st.steps_left -= 1
        if st.steps_left < 0:
            return PAUSED
        if sm.next_serve == now:
            arbitrate(st, i, now)
        if sm.next_retire == now:
            if st.next_block < st.blocks:
                sm.stopped = now + 1
                return DONE
            retire(st, i, now)
        if sm.next_look == now:
            issue_stage(st, i, now)
            if first < st.fault <= end:
                st.fault_cycle = now
                return DONE


@helper
def dispatch(st: State, low: int, high: int, now: int) -> int:
    """Blocks retire on the SMs that stopped in this cycle; blocks that wait go to the one with the fewest,
    in order."""
    for i in range(low, high):
        if sm_at(st, i).stopped == now + 1 and sm_at(st, i).next_retire == now:
            retire(st, i, now)
    while st.next_block < st.blocks:
        if crowded(st):
            return CROWDED
        chosen, fewest = -1, st.blocks_per_sm
        for i in range(low, high):
            if sm_at(st, i).stopped == now + 1 and sm_at(st, i).resident_blocks < fewest:
                chosen, fewest = i, sm_at(st, i).resident_blocks
        if chosen < 0:
            break
        launch(st, chosen, now)
    for i in range(low, high):
        if sm_at(st, i).stopped == now + 1:
            sm_at(st, i).stopped = 0
    return DONE


@helper
def turn_window(st: State, low: int, high: int) -> int:
    """All SMs are through the window: serve the requests of this one, open the next where something
    happens."""
    if st.fault != 0 and st.fault_cycle < st.window_end:
        return FAULTED
    while st.requests != 0 and access_at(st, heap_at(st, 0).value).when < st.window_end:
        if crowded(st):
            st.turning = 1  # what is not served yet bounds how far an SM may run
            return CROWDED
        back = serve_l2(st)
        if back != 0:
            place_is_back(st, back - 1)
    st.turning = 0
    nearest, resident = NEVER, 0
    for i in range(low, high):
        sm = sm_at(st, i)
        nearest = min(nearest, sm.next_look, sm.next_serve, sm.next_retire)
        resident += sm.resident_blocks
    if st.requests != 0:
        nearest = min(nearest, access_at(st, heap_at(st, 0).value).when)
    if nearest == NEVER:
        return DONE if resident == 0 and st.next_block == st.blocks else STUCK
    if nearest > st.limit:
        return LATE
    st.window_end = nearest + st.window
    return PAUSED


@called
def run(st: State, low: int, high: int) -> int:
    """Run the SMs from ``low`` up to ``high`` until they are done or there is a reason to go back to
    Python."""
    while True:
        stop = NEVER
        for i in range(low, high if st.turning == 0 else low):
            if sm_at(st, i).stopped == 0:
                status = run_sm(st, i, st.window_end)
                if status != DONE:
                    return status
            if sm_at(st, i).stopped != 0:
                stop = min(stop, sm_at(st, i).stopped - 1)
        if stop < st.window_end:
            status = dispatch(st, low, high, stop)
            if status != DONE:
                return status
            continue
        status = turn_window(st, low, high)
        if status != PAUSED:
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
def launch(st: State, i: int, now: int) -> None:
    """Make the next block of the grid resident on SM ``i``: its warps take the lowest free slots."""
    sm = sm_at(st, i)
    b = st.next_block
    st.next_block += 1
    if sm.resident_blocks == 0:
        sm.active_since = now
    sm.resident_blocks += 1
    block = block_at(st, b)
    block.sm, block.launch, block.retire = i, now, 0
    block.executing = block.unfinished = block.waiting = block.last_exit = 0
    block.room = lowest_bit(~sm.rooms)
    sm.rooms |= 1 << block.room
    for number in range(st.barriers):
        barrier_at(st, block_barrier(st, i, b, number)).arrived = 0
    w = i * st.max_warps
    roles = b * st.places if st.role_rows > 1 else 0
    begin = max(now << TICK_BITS, st.dispatcher_free)
    ready = ceil_cycles(begin) + st.launch_cycles
    for p in range(st.places):
        role = role_at(st, roles + p).value
        if role < 0:
            continue
        while warp_at(st, w).block != 0:
            w += 1
        if st.source != 0:
            room = i * st.blocks_per_sm + block.room
            words = st.source_warps + w * st.source_bytes
            call_source(st.source, (START, words, st.context, i, b, p + 64 * room))
        _start_warp(st, i, w, b, b * st.places + p, role, now)
        charge(st, i, w, LAUNCHING, now, ready)
        block.executing += 1
        block.unfinished += 1
        proceed(st, i, w, ready, now)
    st.dispatcher_free = begin + st.block_dispatch_ticks + block.executing * st.warp_dispatch_ticks


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
        until_at(st, at).value = pending_at(st, at).value = executions_at(st, at).value = 0
    out = warp_row_at(st, row)
    out.sm, out.slot, out.block, out.launch = i, slot, b, now
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
    warp.fetched = warp.stalled = warp.groups = warp.ahead = 0
    step(st, w)
    if st.source != 0:
        fetch(st, i, w, op_at(st, warp.pc).line, now)


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
        for slot in range(st.max_warps):
            warp = warp_at(st, i * st.max_warps + slot)
            if warp.block == b + 1:
                warp.block = 0
                k = i * st.schedulers + slot % st.schedulers
                scheduler_at(st, k).residents &= ~(1 << (slot // st.schedulers))
        sm.rooms &= ~(1 << block_at(st, b).room)
        sm.resident_blocks -= 1
        st.retired_blocks += 1
    sm.retiring = left
    sm.next_retire = nearest
    st.cycles = max(st.cycles, now)
    if sm.resident_blocks == 0:
        sm.active_cycles += now - sm.active_since

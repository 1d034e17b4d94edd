"""The memory path: a queue and an address unit in each sub-core, an arbiter, the data stage, and behind it
the atomic unit and L1.

Which request the arbiter takes next hangs on what the other sub-cores issue until then, so it is an event of
the SM (`arbitrate`). All that follows is known in that moment, but for what L2 has to say.
"""

from __future__ import annotations

from smlab.sim.compiled.fetch import constants_there
from smlab.sim.compiled.jit import (
    access_at,
    address_of,
    answer_at,
    executions_at,
    free_at,
    group_at,
    helper,
    inlined,
    job_row_at,
    lowest_bit,
    mask_at,
    op_at,
    passed_at,
    prefetch,
    queued_at,
    read_at,
    result_at,
    returning_at,
    ring_at,
    scheduler_at,
    sector_at,
    server_at,
    sm_at,
    warp_at,
)
from smlab.sim.compiled.layout import (
    ALL,
    ATOMIC,
    ATOMICS,
    BULK,
    CACHE_LINE_BYTES,
    CONSTANT,
    EXCHANGE,
    GLOBAL,
    LG_THROTTLE,
    LOAD,
    MAX_LANES,
    MIO_THROTTLE,
    NEVER,
    NOT_SELECTED,
    ON_CONSTANTS,
    ON_GLOBAL,
    ON_SHARED,
    REDUCE,
    SHARED,
    Record,
    State,
    Word,
)
from smlab.sim.compiled.memory import (
    arrived_from_memory,
    bring_places_near,
    load_is_back,
    part_is_back,
    release,
    request,
    serve_l1,
    take_banks,
    unlink_first,
)
from smlab.sim.compiled.warp_progress import emit, first_timer, resolve, resolve_read
from smlab.sim.instruction_source import PASSES, TOLD

TICK_BITS = 20
FRACTION = (1 << TICK_BITS) - 1


@helper
def value(st: State, w: int, row: int, constant: int, table: int, times: int, slot: int) -> Word:
    """The passes, work or time of the coming execution of an instruction: constant, or read from its
    random table."""
    if table == 0:
        return constant
    return read_at(table, row * times + executions_at(st, w * st.slots + slot).value)


@inlined
def enqueue(st: State, i: int, s: int, w: int, now: int) -> None:
    """Scheduler ``s`` issues the next instruction of warp ``w`` into its sub-core's queue."""
    sm, warp, k = sm_at(st, i), warp_at(st, w), i * st.schedulers + s
    op, scheduler = op_at(st, warp.pc), scheduler_at(st, k)
    place = scheduler.queue_head + scheduler.queued
    if place >= st.mio_entries:
        place -= st.mio_entries
    job = queued_at(st, k * st.mio_entries + place)
    job.warp, job.op, job.issue, job.sequence = w, warp.pc, now, sm.jobs
    if st.source != 0:
        job.passes = op.passes
        if job.passes == TOLD:
            job.passes = read_at(st.source_warps + w * st.source_bytes, PASSES)
        job.work = op.base_work + job.passes * op.pass_work
    else:
        job.passes = value(st, w, warp.row, op.passes, op.passes_at, op.times, op.slot)
        job.work = value(st, w, warp.row, op.work, op.work_at, op.times, op.slot)
    job.access = job.row = -1
    if st.keep == ALL or (st.keep == ATOMICS and op.unit == ATOMIC):
        job.row = st.jobs_kept
        st.jobs_kept += 1
    if op.unit == GLOBAL:
        job.access = request(st, i, w)
        access = access_at(st, job.access)
        access.row = job.row
        answer_at(st, job.access).sequence = sm.jobs
        bring_places_near(st, i, job.access)
        if op.passes == TOLD or access.lines != 0:
            job.passes = max(access.passes, job.passes)
        else:
            job.passes = 0
    elif op.unit == ATOMIC:
        count_arrival(st, i, op, warp.lanes, job.passes, now)
    elif op.unit == SHARED:
        passes = job.passes if warp.lanes != 0 else 0
        if op.store != 0:
            sm.store_passes += passes
        else:
            sm.load_passes += passes
    elif op.store == CONSTANT and op.constant != 0:
        job.work = constants_there(st, i, w, now)
    if job.row >= 0:
        out = job_row_at(st, job.row)
        out.sm, out.sequence, out.warp, out.slot = i, sm.jobs, warp.row, op.slot
        out.unit, out.op, out.lanes, out.passes, out.issue = op.unit, op.cls, warp.lanes, job.passes, now
    sm.jobs += 1
    warp.unresolved += 1
    if op.joins != 0:
        warp.copies += op.joins
    target = op.target if op.watched != 0 else -1
    if op.unit == GLOBAL:
        target = access_at(st, job.access).target
    if target >= 0:
        result_at(st, w * st.slots + target).pending += 1
    if op.read_watched != 0:
        result_at(st, w * st.slots + op.read_target).pending += 1
    scheduler.queued += 1
    if scheduler.queued == 1:
        next_request(st, i, s, now)
        sm.next_serve = min(sm.next_serve, possible(st, i, s))
    if scheduler.queued == st.mio_entries:
        if st.mio_resource != 0:
            close(st, i, s, st.mio_resource - 1, now + 1)
        if st.lg_resource != 0:
            close(st, i, s, st.lg_resource - 1, now + 1)
        if scheduler.coming != 0:
            scheduler.next_wake = first_timer(st, k, scheduler.blocked & ~scheduler.coming)


@inlined
def count_arrival(st: State, i: int, op: Record, lanes: int, passes: int, now: int) -> None:
    """An atomic arrives; the time with n > 0 goes on, or begins anew."""
    sm = sm_at(st, i)
    if sm.atomics_not_taken == 0 and sm.atomic_until < now:
        sm.atomic_busy += sm.atomic_until - sm.busy_since
        sm.busy_since = now
    sm.atomics_not_taken += 1
    sm.atomic_jobs += 1
    sm.cas_jobs += op.cas
    sm.lanes += lanes
    sm.passes += passes


@helper
def close(st: State, i: int, s: int, resource: int, begin: int) -> None:
    """Scheduler ``s``'s queue is full from ``begin`` on, nobody knows until when."""
    g = (i * st.schedulers + s) * st.width + resource
    group_at(st, g).closed = begin + 1
    free_at(st, g).value = NEVER
    if st.keep == ALL:
        rest = mask_at(st, g).value
        while rest != 0:
            w = i * st.max_warps + lowest_bit(rest) * st.schedulers + s
            rest &= rest - 1
            emit(st, i, w, NOT_SELECTED, warp_at(st, w).since, begin)
            warp_at(st, w).since = begin


@helper
def reopen(st: State, i: int, s: int, resource: int, reason: int, now: int) -> None:
    """Scheduler ``s``'s queue has room again."""
    k = i * st.schedulers + s
    g = k * st.width + resource
    group, mask = group_at(st, g), mask_at(st, g).value
    group.throttled += now - (group.closed - 1)
    group.closed = 0
    free_at(st, g).value = now
    if mask == 0:
        return
    scheduler_at(st, k).next_look = min(scheduler_at(st, k).next_look, now)
    sm_at(st, i).next_look = min(sm_at(st, i).next_look, now)
    if st.keep == ALL:
        rest = mask
        while rest != 0:
            w = i * st.max_warps + lowest_bit(rest) * st.schedulers + s
            rest &= rest - 1
            emit(st, i, w, reason, warp_at(st, w).since, now)
            warp_at(st, w).since = now


@inlined
def next_request(st: State, i: int, s: int, now: int) -> None:
    """The address unit of sub-core ``s`` takes the first of its queue."""
    k = i * st.schedulers + s
    scheduler = scheduler_at(st, k)
    job = queued_at(st, k * st.mio_entries + scheduler.queue_head)
    op = op_at(st, job.op)
    scheduler.ready = max(job.issue + st.front, scheduler.free_at)
    scheduler.first_for = 0
    if op.unit == ATOMIC:
        scheduler.first_for = ON_SHARED
    elif op.store == REDUCE:
        scheduler.first_for = ON_GLOBAL
    elif op.store == CONSTANT:
        scheduler.first_for = ON_CONSTANTS
    if op.read_watched != 0:
        resolve_read(st, i, job.warp, op.read_target, max(now + 1, scheduler.ready + op.read_offset))


@inlined
def possible(st: State, i: int, s: int) -> Word:
    """From when on the arbiter can take the first request of sub-core ``s``; NEVER if there is none."""
    k = i * st.schedulers + s
    scheduler, sm = scheduler_at(st, k), sm_at(st, i)
    if scheduler.first_for == ON_CONSTANTS:
        return max(scheduler.ready, max(sm.constant_free, sm.arbiter_free))
    cycle = max(scheduler.ready, max(sm.request_free, sm.arbiter_free))
    if st.stage_entries == 0:
        cycle = max(cycle, max(sm.stage_free, scheduler.passing_until))
    else:
        cycle = max(cycle, passed_at(st, i * st.stage_entries + sm.stage_place).value)
    if scheduler.first_for == ON_GLOBAL:
        cycle = max(cycle, returning_at(st, i * st.atomics_in_flight + sm.return_place).value)
    elif scheduler.first_for != 0:
        number = i * st.servers + s % st.servers
        cycle = max(cycle, ring_at(st, number * st.atomic_entries + server_at(st, number).place).value)
    return cycle


@inlined
def arbitrate(st: State, i: int, now: int) -> None:
    """Take the request of the first sub-core, from the one after the last served on, that can be taken
    now."""
    sm, count = sm_at(st, i), st.schedulers
    chosen = sm.turn
    while possible(st, i, chosen) > now:
        chosen = chosen + 1 if chosen + 1 < count else 0
    take(st, i, chosen, now)
    sm.turn = chosen + 1 if chosen + 1 < count else 0
    nearest = NEVER
    for s in range(count):
        nearest = min(nearest, possible(st, i, s))
    sm.next_serve = nearest


@inlined
def take(st: State, i: int, s: int, now: int) -> None:
    """The first request of sub-core ``s`` leaves it and passes the data stage; when it will be done
    follows."""
    sm, k = sm_at(st, i), i * st.schedulers + s
    scheduler = scheduler_at(st, k)
    job = queued_at(st, k * st.mio_entries + scheduler.queue_head)
    op = op_at(st, job.op)
    unit = op.unit
    ticks = scheduler.address_carry + max(op.address_ticks, job.passes * op.address_pass_ticks)
    scheduler.free_at = now + (ticks >> TICK_BITS)
    scheduler.address_carry = ticks & FRACTION
    ticks = sm.stage_carry + job.passes * op.stage_ticks
    wavefronts = ticks >> TICK_BITS
    sm.stage_carry = ticks & FRACTION
    sm.stage_occupied += wavefronts
    sm.arbiter_free = now + 1
    begin, late = now, 0
    if op.store == CONSTANT:
        late = max(0, job.work - now)  # what it reads may not be there yet
        sm.constant_free = now + st.constant_interval * max(1, job.passes)
    else:
        if st.stage_entries != 0:
            begin = max(max(now, sm.stage_begun), max(scheduler.passing_until, sm.stage_free))
        sm.stage_begun = begin
        free = begin + st.stage_jobs * wavefronts
        if st.stage_entries != 0:
            passed_at(st, i * st.stage_entries + sm.stage_place).value = free
            sm.stage_place = sm.stage_place + 1 if sm.stage_place + 1 < st.stage_entries else 0
        scheduler.passing_until = free
        sm.request_free = now + st.request_interval
        sm.stage_free = free
        if st.stage_jobs > 1:
            sm.stage_free, sm.stage_later = min(free, sm.stage_later), max(free, sm.stage_later)
    if sm.products_end > now and unit != EXCHANGE:
        take_banks(st, i, wavefronts, now)
    start, end = begin, begin + max(1, st.stage_jobs * (wavefronts - 1) + 1)
    completion = -1
    if unit == ATOMIC:
        number = i * st.servers + s % st.servers
        start = serve_atomic(st, number, job.work, begin)
        end = server_at(st, number).end
        completion = end + op.tail
        sm.atomics_not_taken -= 1
        sm.atomic_occupied += end - start
        sm.atomic_area += completion - job.issue
        sm.cas_area += op.cas * (completion - job.issue)
        sm.atomic_until = max(sm.atomic_until, completion)
    else:
        completion = late + max(
            end + 1,
            begin + op.tail + ((max(0, job.passes - op.hidden_wavefronts) * op.later_ticks) >> TICK_BITS),
        )
    w, row, access = job.warp, job.row, job.access
    if row >= 0:
        out = job_row_at(st, row)
        out.taken, out.start, out.end = now, start, end
    scheduler.queue_head = scheduler.queue_head + 1 if scheduler.queue_head + 1 < st.mio_entries else 0
    if scheduler.queued == st.mio_entries:
        if st.mio_resource != 0:
            reopen(st, i, s, st.mio_resource - 1, MIO_THROTTLE, now)
        if st.lg_resource != 0:
            reopen(st, i, s, st.lg_resource - 1, LG_THROTTLE, now)
        if scheduler.coming != 0:
            waited = first_timer(st, k, scheduler.coming)
            scheduler.next_wake = min(scheduler.next_wake, waited)
            scheduler.next_look = min(scheduler.next_look, max(waited, now))
            sm.next_look = min(sm.next_look, scheduler.next_look)
    scheduler.queued -= 1
    if unit == GLOBAL:
        access_at(st, access).end = end
        if op.store == REDUCE:
            take_place(st, i, access)
        serve_l1(st, i, access, now, completion)
    else:
        resolve(st, i, w, op.target if op.watched != 0 else -1, row, completion)
    scheduler.ready, scheduler.first_for = NEVER, 0
    if scheduler.queued != 0:
        next_request(st, i, s, now)


@helper
def take_answer(st: State, i: int) -> None:
    """SM ``i`` takes the first of its requests, which L2 has served, off the list: its completion is
    known."""
    sm = sm_at(st, i)
    index = sm.request_head - 1
    access = access_at(st, index)
    sm.request_head = unlink_first(st, index + 1)
    if sm.request_head == 0:
        sm.request_tail = 0
    else:  # what the next one reads, the processor may bring meanwhile
        following = sm.request_head - 1
        prefetch(address_of(access_at(st, following)))
        prefetch(address_of(access_at(st, following)) + CACHE_LINE_BYTES)
        prefetch(address_of(sector_at(st, following * MAX_LANES)))
        prefetch(address_of(answer_at(st, following)))
    if access.store >= BULK:
        part_is_back(st, index)
        return
    if access.store == LOAD:
        load_is_back(st, index)
        return
    atomic = access.store == REDUCE
    if atomic:
        returning_at(st, access.place).value = access.served
    resolve(st, i, access.warp, access.target, access.row, access.served)
    arrived_from_memory(st, i)
    release(st, index)
    if atomic:
        place_is_back(st, i)


@helper
def place_is_back(st: State, i: int) -> None:
    """SM ``i`` knows when one more place for atomics on global memory is free, for which its first requests
    may wait."""
    for s in range(st.schedulers):
        if scheduler_at(st, i * st.schedulers + s).first_for == ON_GLOBAL:
            sm_at(st, i).next_serve = min(sm_at(st, i).next_serve, possible(st, i, s))


@helper
def take_place(st: State, i: int, access: int) -> None:
    """An atomic on global memory takes the next place of SM ``i`` for them, until it is back."""
    sm = sm_at(st, i)
    place = i * st.atomics_in_flight + sm.return_place
    access_at(st, access).place = place
    returning_at(st, place).value = NEVER
    sm.return_place = sm.return_place + 1 if sm.return_place + 1 < st.atomics_in_flight else 0


@helper
def serve_atomic(st: State, number: int, work: int, now: int) -> Word:
    """A pipe of the atomic unit takes a job; its start. Its end is then the pipe's."""
    server = server_at(st, number)
    if st.round_gap != 0 and now + 1 > server.round_began:
        start = max(now, server.end + (st.round_gap if server.served != 0 else 0))
        server.round_began = start + 1
    else:
        start = max(now, server.end)
    ticks = server.carry + work
    server.end = start + (ticks >> TICK_BITS)
    server.carry = ticks & FRACTION
    server.served = 1
    ring_at(st, number * st.atomic_entries + server.place).value = server.end
    server.place = server.place + 1 if server.place + 1 < st.atomic_entries else 0
    return start

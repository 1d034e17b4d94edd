"""Barriers in shared memory, in machine code; see `smlab.sim.isa.meanings.asynchronous_units`."""

from __future__ import annotations

from typing import Any

from smlab.sim.compiled.jit import helper, lowest_bit
from smlab.sim.instruction_source import AWAITS, FAULTS, GOES_ON, PASSES, RUN_COUNT, TO_WRITE
from smlab.sim.isa import operation_codes as d
from smlab.sim.isa.memory.access import (
    block_of_rank,
    lane_addresses,
    make_known,
    owner_of,
    place_of,
)
from smlab.sim.isa.memory.access_vectors import put_all
from smlab.sim.isa.memory.atomics import arrived
from smlab.sim.isa.memory_layout import (
    ACTIVE,
    ADDRESSES,
    BLOCK,
    BLOCK_WORDS,
    BLOCKS_AT,
    BULK_REQUEST,
    CLOCK,
    CLUSTER_ARRIVED,
    CLUSTER_BARRIER_CYCLES,
    CLUSTER_BLOCKS,
    CLUSTER_COUNT,
    CLUSTER_EXITED,
    CLUSTER_PATIENCE,
    CLUSTER_PHASE,
    CLUSTER_STUCK,
    CLUSTER_TIME,
    COMPLETE_AT,
    COPIES,
    COPIES_TIMED,
    COPY_ARRIVALS,
    COPY_BARRIER,
    COPY_BYTES,
    COPY_DONE,
    COPY_HALVES,
    COPY_LEFT,
    COPY_NEXT,
    COPY_TABLE,
    COPY_WORDS,
    DIVERGED_BARRIER,
    FAILED_CHECKS,
    LIVE,
    MAX_COPIES,
    MOST_CHECKS,
    NETWORK_CYCLES,
    NEVER_COMPLETES,
    PC,
    ROW_BYTES,
    TOO_MANY_ARRIVALS,
    TOO_MANY_COPIES,
    WARPS,
)
from smlab.sim.isa.vectors.word_access import (
    FULL,
    I_A,
    I_ACTION,
    I_ARRIVALS,
    I_C,
    I_DROPS,
    I_DST,
    I_GUARD,
    I_IN_HALVES,
    I_PHASE_PREDICATE,
    I_PREDICATE_A,
    I_PREDICATE_DST,
    I_REMOTE,
    I_TRANSACTIONS,
    at,
    fault,
    get32,
    get64,
    predicate,
    put,
    put32,
    put64,
    row_of,
    set_predicate,
    word_of,
)

_M20, _M21 = (1 << 20) - 1, (1 << 21) - 1


@helper
def change_barrier(place: int, arrivals: int, awaited_bytes: int, drops: int) -> Any:
    """Arrivals, bytes and drops at the barrier at ``place``; False if more have come than it expects."""
    word = get64(place)
    phase, lacking, expected = (word >> 63) & 1, (-(word >> 43)) & _M20, (-(word >> 1)) & _M20
    size = (word >> 22) & _M21
    if size >> 20 != 0:
        size -= 1 << 21
    size += awaited_bytes
    lacking -= arrivals
    expected -= drops
    if lacking < 0 or expected < 0:
        return False
    if lacking == 0 and size == 0:
        phase ^= 1
        lacking = expected
    word = ((-lacking & _M20) << 43) | ((size & _M21) << 22) | ((-expected & _M20) << 1)
    put64(place, word | (phase << 63))
    return True


@helper
def tell_barrier(warp: int, launch: int, address: int, arrivals: int, size: int) -> Any:
    """Arrivals and bytes have come to a barrier; False after a fault."""
    place = place_of(warp, launch, d.SHARED, 0, address, 8)
    if place == 0:
        return False
    if not change_barrier(place, arrivals, -size, 0):
        fault(warp, TOO_MANY_ARRIVALS, 0, address)
        return False
    put(owner_of(warp, launch, address), FAILED_CHECKS, 0)
    return True


@helper
def tell_halves(warp: int, launch: int, address: int, arrivals: int) -> Any:
    """Arrivals have come to a barrier of sm_80; False after a fault."""
    place = place_of(warp, launch, d.SHARED, 0, address, 8)
    if place == 0:
        return False
    for _ in range(arrivals):
        put64(place, arrived(get64(place)))
    return True


@helper
def copies_of(block: int, launch: int) -> Any:
    """Where what is on its way to a block's barriers is written down."""
    room = (block - at(launch, BLOCKS_AT)) // (8 * BLOCK_WORDS)
    return at(launch, COPY_TABLE) + 8 * COPY_WORDS * MAX_COPIES * room


@helper
def note_copy(warp: int, launch: int, address: int, arrivals: int, size: int) -> Any:
    """A row for what is on its way to the barrier at an address; 0 after a fault."""
    block = owner_of(warp, launch, address)
    table, number = copies_of(block, launch), 0
    while number < at(block, COPIES) and (
        at(table + 8 * COPY_WORDS * number, COPY_BYTES) | at(table + 8 * COPY_WORDS * number, COPY_ARRIVALS)
    ):
        number += 1
    if number == MAX_COPIES:
        fault(warp, TOO_MANY_COPIES, 0, 0)
        return 0
    put(block, COPIES, max(at(block, COPIES), number + 1))
    row = table + 8 * COPY_WORDS * number
    put(row, COPY_DONE, 0)
    put(row, COPY_LEFT, 1)
    put(row, COPY_BARRIER, address)
    put(row, COPY_BYTES, size)
    put(row, COPY_ARRIVALS, arrivals)
    put(row, COPY_NEXT, 0)
    put(row, COPY_HALVES, 0)
    return row


@helper
def settle_copies(warp: int, launch: int) -> Any:
    """The copies to the block that are done by now, and arrivals that have come, tell their barriers; False
    after a fault."""
    block, now = at(warp, BLOCK), at(warp, CLOCK)
    count, last = at(block, COPIES), 0
    table = copies_of(block, launch)
    for n in range(count):
        row = table + 8 * COPY_WORDS * n
        size, arrivals = at(row, COPY_BYTES), at(row, COPY_ARRIVALS)
        if size | arrivals == 0:
            continue
        if at(row, COPY_LEFT) == 0 and at(row, COPY_DONE) <= now:
            if at(row, COPY_HALVES) != 0:
                if not tell_halves(warp, launch, at(row, COPY_BARRIER), arrivals):
                    return False
            elif not tell_barrier(warp, launch, at(row, COPY_BARRIER), arrivals, size):
                return False
            put(row, COPY_BYTES, 0)
            put(row, COPY_ARRIVALS, 0)
        else:
            last = n + 1
    put(block, COPIES, last)
    return True


@helper
def arrive_remote(warp: int, launch: int, lane: int, arrivals: int, size: int) -> Any:
    """A lane arrives at a barrier of another block of the cluster, or tells it of bytes that are to come,
    where that is known later. One whose block has retired is nobody's any more. False after a fault."""
    address = get64(warp + 8 * (ADDRESSES + lane))
    if owner_of(warp, launch, address) == 0 and address >> 24 < at(launch, CLUSTER_BLOCKS):
        return True
    if place_of(warp, launch, d.SHARED, lane, address, 8) == 0:
        return False
    if at(launch, COPIES_TIMED) == 0:
        return tell_barrier(warp, launch, address, arrivals, -size)
    block, there = owner_of(warp, launch, address), at(warp, CLOCK) + at(launch, NETWORK_CYCLES)
    table = copies_of(block, launch)
    for n in range(at(block, COPIES)):  # those that arrive together are one message
        row = table + 8 * COPY_WORDS * n
        known = at(row, COPY_ARRIVALS) != 0 and at(row, COPY_LEFT) == 0
        if known and at(row, COPY_DONE) == there and at(row, COPY_BARRIER) == address:
            put(row, COPY_ARRIVALS, at(row, COPY_ARRIVALS) + arrivals)
            put(row, COPY_BYTES, at(row, COPY_BYTES) - size)
            return True
    if arrivals | size == 0:
        return True
    row = note_copy(warp, launch, address, arrivals, -size)
    if row == 0:
        return False
    put(row, COPY_LEFT, 0)
    put(row, COPY_DONE, there)
    return True


@helper
def arrive_after_copies(op: int, warp: int, launch: int, lanes: int) -> Any:
    """Lanes arrive when the warp's copies are back, which the engine says; without timing at once."""
    request, rest = at(launch, BULK_REQUEST), lanes
    put(request, RUN_COUNT, 0)
    put(request, TO_WRITE, 0)
    while rest != 0:
        first = lowest_bit(rest)
        address, count = get64(warp + 8 * (ADDRESSES + first)), 0
        for lane in range(first, 32):
            if (rest >> lane) & 1 != 0 and get64(warp + 8 * (ADDRESSES + lane)) == address:
                rest &= ~(1 << lane)
                count += 1
        arrivals, size = count * at(op, I_ARRIVALS), count * at(op, I_TRANSACTIONS)
        if place_of(warp, launch, d.SHARED, first, address, 8) == 0:
            return FAULTS
        if at(launch, COPIES_TIMED) == 0:
            done = False
            if at(op, I_IN_HALVES) != 0:
                done = tell_halves(warp, launch, address, arrivals)
            else:
                done = tell_barrier(warp, launch, address, arrivals, size)
            if not done:
                return FAULTS
            continue
        row = note_copy(warp, launch, address, arrivals, size)
        if row == 0:
            return FAULTS
        put(row, COPY_HALVES, at(op, I_IN_HALVES))
        put(row, COPY_NEXT, at(request, TO_WRITE))
        put(request, TO_WRITE, row)
    return GOES_ON


@helper
def complete_at(warp: int, launch: int, address: int, lacking: int, size: int) -> Any:
    """When the phase of a barrier will be complete: where what is on its way to it, and when each of that is
    there, is known, and is all that it lacks; else 0."""
    block = owner_of(warp, launch, address)
    if at(launch, COPIES_TIMED) == 0 or block == 0:
        return 0
    table, latest = copies_of(block, launch), 0
    for n in range(at(block, COPIES)):
        row = table + 8 * COPY_WORDS * n
        if at(row, COPY_LEFT) != 0 or at(row, COPY_BARRIER) != address:
            continue
        lacking -= at(row, COPY_ARRIVALS)
        size -= at(row, COPY_BYTES)
        if at(row, COPY_ARRIVALS) | at(row, COPY_BYTES) != 0:
            latest = max(latest, at(row, COPY_DONE))
    return latest if lacking == 0 and size == 0 else 0


@helper
def check_phase(op: int, warp: int, launch: int, lanes: int) -> Any:
    """Whether the phases that the lanes ask for are complete."""
    values, complete, stuck, lane_stuck = row_of(op, warp, I_C), 0, 0, 0
    put(warp, COMPLETE_AT, 0)
    for lane in range(32):
        if (lanes >> lane) & 1 == 0:
            continue
        address = get64(warp + 8 * (ADDRESSES + lane))
        place = place_of(warp, launch, d.SHARED, lane, address, 8)
        if place == 0:
            return FAULTS
        word = get64(place)
        if ((word >> 63) & 1) != (get32(values + 4 * lane) >> 31):
            complete |= 1 << lane
        elif stuck == 0:
            size = (word >> 22) & _M21
            lacking = (-(word >> 43)) & _M20
            told = (address & _M20) | (((word >> 63) & 1) << 20) | (lacking << 21)
            stuck, lane_stuck = told | (size << 41) | (1 << 62), lane
            size -= (size >> 20) << 21
            put(warp, COMPLETE_AT, complete_at(warp, launch, address, lacking, size))
    set_predicate(op, warp, I_PHASE_PREDICATE, complete, lanes)
    if complete == lanes:
        return GOES_ON
    block = at(warp, BLOCK)
    failed = at(block, FAILED_CHECKS) + 1
    put(block, FAILED_CHECKS, failed)
    if failed > at(launch, MOST_CHECKS):
        return fault(warp, NEVER_COMPLETES, lane_stuck, stuck & ~(1 << 62))
    return AWAITS


@helper
def counts_of(op: int, value: int) -> Any:
    """The arrivals of a lane, and the bytes that it says are to come."""
    arrivals, transactions, size = at(op, I_ARRIVALS), at(op, I_TRANSACTIONS), 0
    if arrivals == d.FROM_REGISTER:
        arrivals = value
    if transactions == d.ONE:
        size = 1
    elif transactions == d.FROM_REGISTER:
        size = value
    elif transactions == d.MINUS_REGISTER:
        size = -value
    return arrivals, size


@helper
def use_barrier(op: int, warp: int, launch: int, lanes: int) -> Any:
    """A barrier is set, some lanes arrive, or they ask for a phase."""
    put(warp, PASSES, 1)
    if not settle_copies(warp, launch):
        return FAULTS
    if at(op, I_ACTION) == d.GIVE_BARRIER_UP:
        return GOES_ON
    lane_addresses(op, warp, lanes, 8)
    if at(op, I_ACTION) == d.ARRIVE_AFTER_COPIES:
        return arrive_after_copies(op, warp, launch, lanes)
    action, values = at(op, I_ACTION), row_of(op, warp, I_C)
    if action == d.CHECK_PHASE:
        return check_phase(op, warp, launch, lanes)
    dst = warp + at(op, I_DST)
    for lane in range(32):
        if (lanes >> lane) & 1 == 0:
            continue
        address, value = get64(warp + 8 * (ADDRESSES + lane)), get32(values + 4 * lane)
        if at(op, I_REMOTE) != 0 and owner_of(warp, launch, address) != at(warp, BLOCK):
            arrivals, size = counts_of(op, value & _M20)
            if not arrive_remote(warp, launch, lane, arrivals, size):
                return FAULTS
            continue
        place = place_of(warp, launch, d.SHARED, lane, address, 8)
        if place == 0:
            return FAULTS
        if action == d.SET_BARRIER:
            put64(place, value | (get32(values + ROW_BYTES + 4 * lane) << 32))
            make_known(warp, launch, address, 8)
            put(at(warp, BLOCK), FAILED_CHECKS, 0)
            break
        arrivals, size = counts_of(op, value & _M20)
        token = get64(place)
        if not change_barrier(place, arrivals, size, at(op, I_DROPS)):
            return fault(warp, TOO_MANY_ARRIVALS, lane, address)
        put(at(warp, BLOCK), FAILED_CHECKS, 0)
        put32(dst + 4 * lane, token & FULL)
        put32(dst + ROW_BYTES + 4 * lane, (token >> 32) & FULL)
    return GOES_ON


@helper
def complete_cluster_phase(warp: int, launch: int) -> None:
    """All warps of the block have come to the cluster's barrier, if they have."""
    block = at(warp, BLOCK)
    if at(block, CLUSTER_ARRIVED) + at(block, CLUSTER_EXITED) == at(launch, WARPS):
        put(block, CLUSTER_ARRIVED, 0)
        put(block, CLUSTER_PHASE, at(block, CLUSTER_PHASE) + 1)
        put(block, CLUSTER_TIME, at(warp, CLOCK))
        put(block, FAILED_CHECKS, 0)


@helper
def arrive_in_cluster(warp: int, launch: int) -> Any:
    """A warp comes to the barrier of its cluster."""
    if at(warp, ACTIVE) != at(warp, LIVE):
        return fault(warp, DIVERGED_BARRIER, lowest_bit(at(warp, ACTIVE)), 0)
    block = at(warp, BLOCK)
    put(warp, CLUSTER_COUNT, at(warp, CLUSTER_COUNT) + 1)
    put(block, CLUSTER_ARRIVED, at(block, CLUSTER_ARRIVED) + 1)
    complete_cluster_phase(warp, launch)
    return GOES_ON


@helper
def exit_in_cluster(warp: int, launch: int) -> None:
    """A warp has exited: nobody waits for it at the barrier of its cluster."""
    block = at(warp, BLOCK)
    put(block, CLUSTER_EXITED, at(block, CLUSTER_EXITED) + 1)
    if at(block, CLUSTER_ARRIVED) != 0:
        complete_cluster_phase(warp, launch)


@helper
def await_cluster(warp: int, launch: int) -> Any:
    """Whether all warps of the cluster have come as often as this one, and this block knows it."""
    count, delay = at(warp, CLUSTER_COUNT), 0
    if at(launch, COPIES_TIMED) != 0:
        delay = at(launch, CLUSTER_BARRIER_CYCLES)
    for rank in range(at(launch, CLUSTER_BLOCKS)):
        block = block_of_rank(warp, launch, rank)
        if block == 0 or at(block, CLUSTER_EXITED) == at(launch, WARPS) or at(block, CLUSTER_PHASE) > count:
            continue
        if at(block, CLUSTER_PHASE) == count and at(block, CLUSTER_TIME) + delay <= at(warp, CLOCK):
            continue
        put(warp, PC, at(warp, PC) - 1)
        failed = at(at(warp, BLOCK), FAILED_CHECKS) + 1
        put(at(warp, BLOCK), FAILED_CHECKS, failed)
        if failed > CLUSTER_PATIENCE * at(launch, MOST_CHECKS):
            return fault(warp, CLUSTER_STUCK, lowest_bit(at(warp, LIVE)), rank)
        return AWAITS
    return GOES_ON


@helper
def elect(op: int, warp: int, lanes: int) -> None:
    """The lowest lane of those that take part."""
    mine = lanes & predicate(op, warp, I_PREDICATE_A)
    chosen = mine & -mine
    put_all(warp + at(op, I_DST), lowest_bit(chosen) if chosen != 0 else 0, FULL)
    set_predicate(op, warp, I_PREDICATE_DST, chosen, lanes)


@helper
def read_chosen(op: int, warp: int) -> None:
    """The lowest lane's value under the guard, for all lanes."""
    chosen = at(warp, ACTIVE) & predicate(op, warp, I_GUARD)
    put_all(warp + at(op, I_DST), word_of(op, warp, I_A, lowest_bit(chosen)), FULL)

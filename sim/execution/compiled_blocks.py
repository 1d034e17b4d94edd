"""Blocks of machine code that run to their end without timing, compiled."""

from __future__ import annotations

from typing import Final

from smlab.sim.compiled.jit import bits_set, entry, helper, lowest_bit
from smlab.sim.execution.compiled_step import start_block_words, start_warp
from smlab.sim.instruction_source import (
    ADDRESSES,
    ARRIVES,
    AWAITS,
    BLOCK_BARRIERS,
    EXITS,
    FAULTS,
    FIRST_RUN,
    GOES_ON,
    NOTIFIES,
    RUN_COUNT,
)
from smlab.sim.isa import memory_layout, operation_codes
from smlab.sim.isa.memory.access import NOWHERE, lane_addresses, place_of, reach
from smlab.sim.isa.memory.atomics import NO_RESULT
from smlab.sim.isa.operation_codes import FIRST_ADDRESS
from smlab.sim.isa.vectors.divergent_paths import open_barrier
from smlab.sim.isa.vectors.execute import execute
from smlab.sim.isa.vectors.word_access import (
    I_ACTION,
    I_CODE,
    I_DONE_PREDICATE,
    I_DST,
    I_GUARD,
    I_GUARD_XOR,
    I_PREDICATE_A,
    I_SPACE,
    I_TO_GLOBAL,
    I_WIDTH_BYTES,
    at,
    get8,
    get32,
    get64,
    predicate,
    put,
    put8,
    put32,
    put64,
)

RUNS, WAITS, GONE = 0, 1, 2
"""The state of a warp."""
BLOCK_RUNS, BLOCK_DONE, BLOCK_FAULTS, BLOCK_STUCK = 0, 1, 2, 3
"""What stopped a block."""
STEPS, BLOCK, BEGUN, STOPPED, RUN_WORDS = range(5)
"""What `run_blocks` goes on from: warp-instructions left, the block, whether it has begun; and the warp that
stopped it."""
TURN: Final = 1 << 16
"""A warp's instructions until another one has its turn: warps of a block wait for each other in loops too."""
ACCESSES: Final = (operation_codes.LOAD, operation_codes.STORE, operation_codes.ATOMIC, operation_codes.COPY)
GLOBAL_SPACES: Final = (operation_codes.GLOBAL, operation_codes.GENERIC)
OPS, LENGTH, LAUNCH, WARPS_AT, WARPS, STATES_AT, PATH_AT, AGES_AT = range(8)
"""A block that `touch_block` runs: micro-operations, their number, launch, first warp, warps, states (and
behind them how far each warp has come), the next instruction after each that is not left out, and how far
each is from the first one (`smlab.sim.execution.functional_warming`)."""
SEEN_AT, SECTORS, SECTOR_BYTES, TOUCHED_AT, TOUCHED, COVERED, STEPS_AT = range(7)
"""The sectors: the address of a byte for each, their number, bytes of one; the list of those touched, and its
length; the instructions covered, those left out among them; and a word for each sector, how far a warp had
come at least when it touched that."""
MAX_TAG: Final = (1 << 32) - 1
WRITERS_AT, WATCHED_WORDS, TAG, FOUND_PC, FOUND_WORD, FOUND_WRITER, LOW, HIGH = range(8)
"""What is watched: the address of a word for each word of memory, which says by what block it was written (a
tag; 0: by none), how many there are, and the tag of the block that runs; what was found first:
instruction (-1: nothing), word and writer; and the first and last word that any block has written."""


@helper
def start_block_and_warps(launch, block_at, warps_at, index):  # type: ignore[no-untyped-def]
    """Make the words of a block and of all its warps those before its first instruction."""
    room = (block_at - at(launch, memory_layout.BLOCKS_AT)) // (8 * memory_layout.BLOCK_WORDS)
    start_block_words(launch, block_at, at(launch, memory_layout.KNOWN_BYTES), index, room)
    size, threads = at(launch, memory_layout.REGISTER_FILE_BYTES), at(launch, memory_layout.THREADS)
    grid_index = index
    if at(launch, memory_layout.BLOCK_MAP) != 0:
        grid_index = get64(at(launch, memory_layout.BLOCK_MAP) + 8 * index)
    for w in range(at(launch, memory_layout.WARPS)):
        start_warp(launch, warps_at + w * size, block_at, w, min(32, threads - 32 * w))
        put(warps_at + w * size, memory_layout.INDEX, grid_index)


@entry
def start_block(launch, block_at, warps_at, index):  # type: ignore[no-untyped-def]
    start_block_and_warps(launch, block_at, warps_at, index)


@helper
def arrived(warps_at, size, warps, state, w):  # type: ignore[no-untyped-def]
    """Warp ``w`` has arrived at a barrier of the block; one that is for some warps opens with the last of
    them."""
    warp = warps_at + w * size
    said = at(warp, memory_layout.BARRIER)
    expected = said // BLOCK_BARRIERS
    if expected == 0:
        return
    place = at(warp, memory_layout.BLOCK) + 8 * (memory_layout.ARRIVED + (said & (BLOCK_BARRIERS - 1)))
    arrived = get64(place) + 1
    put64(place, 0 if arrived == expected else arrived)
    if arrived == expected:
        open_barriers(warps_at, size, warps, state, said)


@helper
def open_barriers(warps_at, size, warps, state, said):  # type: ignore[no-untyped-def]
    """Let the warps go on that wait at a barrier; how many did."""
    opened, number = 0, said & (BLOCK_BARRIERS - 1)
    for w in range(warps):
        warp = warps_at + w * size
        if at(state, w) == WAITS and at(warp, memory_layout.BARRIER) & (BLOCK_BARRIERS - 1) == number:
            put(state, w, RUNS)
            open_barrier(warp)
            opened += 1
    return opened


@helper
def meet(warps_at, size, warps, state):  # type: ignore[no-untyped-def]
    """No warp runs: open the barrier that all wait at which have not exited. How many go on, or -1 when none
    waits."""
    first, waiting, same = 0, 0, True
    for w in range(warps):
        if at(state, w) == RUNS:
            return 1
        if at(state, w) == WAITS:
            said = at(warps_at + w * size, memory_layout.BARRIER)
            if waiting == 0:
                first = said
            same &= said == first
            waiting += 1
    if waiting == 0:
        return -1
    if not same or first >= BLOCK_BARRIERS:
        return 0
    return open_barriers(warps_at, size, warps, state, first)


@helper
def asks_phase(op):  # type: ignore[no-untyped-def]
    """Whether an instruction asks for the phase of a barrier in memory. Then the block's other warps have
    their turn: without timing, copies and products are done at once, and a warp could leave others more than
    a phase behind."""
    if at(op, I_CODE) != operation_codes.MEMORY_BARRIER:
        return False
    return at(op, I_ACTION) == operation_codes.CHECK_PHASE


@helper
def run_warp(ops, length, launch, warp, steps):  # type: ignore[no-untyped-def]
    """Run a warp to a barrier, its end, a fault, out of steps or behind asking for a phase; what it stopped
    at and the steps left."""
    executed, lanes = at(launch, memory_layout.EXECUTED), at(launch, memory_layout.EXECUTED_LANES)
    clock = at(warp, memory_layout.CLOCK)
    while steps > 0:
        pc = at(warp, memory_layout.PC)
        if pc < 0 or pc >= length:
            put(warp, memory_layout.FAULT, memory_layout.BAD_TARGET)
            return FAULTS, steps
        steps -= 1
        put(warp, memory_layout.CLOCK, clock)
        clock += 1
        state = execute(ops, warp, launch, length)
        put(executed, pc, at(executed, pc) + 1)
        put(lanes, pc, at(lanes, pc) + bits_set(at(warp, memory_layout.LANES)))
        if state != GOES_ON:
            if state == FAULTS:
                put(warp, memory_layout.PC, pc)
            put(warp, memory_layout.CLOCK, clock)
            return state, steps
        if asks_phase(ops + pc * (8 * memory_layout.WORDS)):
            break
    put(warp, memory_layout.CLOCK, clock)
    return GOES_ON, steps


@helper
def run_cluster(ops, length, launch, warps_at, state):  # type: ignore[no-untyped-def]
    """Run the warps of a cluster of blocks in turn, each as far as the barrier; what stopped it."""
    size, warps = at(launch, memory_layout.REGISTER_FILE_BYTES), at(launch, memory_layout.WARPS)
    blocks = at(launch, memory_layout.CLUSTER_BLOCKS)
    control = state + 8 * warps * blocks
    steps = at(control, STEPS)
    while True:
        done = 0
        for b in range(blocks):
            own, mine = warps_at + b * warps * size, state + 8 * b * warps
            for w in range(warps):
                while at(mine, w) == RUNS:
                    after, left = run_warp(ops, length, launch, own + w * size, min(steps, TURN))
                    steps += left - min(steps, TURN)
                    put(control, STEPS, steps)
                    if after == GOES_ON and steps > 0:
                        break
                    if after in (GOES_ON, FAULTS):
                        put(control, STOPPED, b * warps + w)
                        return BLOCK_RUNS if after == GOES_ON else BLOCK_FAULTS
                    if after == AWAITS:
                        break
                    if after != NOTIFIES:
                        put(mine, w, WAITS if after == ARRIVES else GONE)
                    if after != EXITS:
                        arrived(own, size, warps, mine, w)
            going = meet(own, size, warps, mine)
            if going == 0:
                put(control, STOPPED, b * warps)
                return BLOCK_STUCK
            done += int(going < 0)
        if done == blocks:
            return BLOCK_DONE


@entry
def run_blocks(ops, length, launch, block_at, warps_at, state, blocks):  # type: ignore[no-untyped-def]
    """Run one cluster of blocks after the other up to block ``blocks``, as far as the steps go; what stopped
    the last.

    ``state`` has a word for each warp. Behind them are `STEPS`, `BLOCK` and what else is known of the cluster
    that runs, for the next call.
    """
    size = at(launch, memory_layout.CLUSTER_BLOCKS)
    warps = at(launch, memory_layout.WARPS)
    control = warps * size
    while at(state, control + BLOCK) < blocks:
        index = at(state, control + BLOCK)
        if at(state, control + BEGUN) == 0:
            for b in range(size):
                own = warps_at + b * warps * at(launch, memory_layout.REGISTER_FILE_BYTES)
                start_block_and_warps(launch, block_at + 8 * memory_layout.BLOCK_WORDS * b, own, index + b)
            for w in range(control):
                put(state, w, RUNS)
            put(state, control + BEGUN, 1)
        status = run_cluster(ops, length, launch, warps_at, state)
        if status != BLOCK_DONE:
            return status
        put(state, control + BEGUN, 0)
        put(state, control + BLOCK, index + size)
    return BLOCK_DONE


@helper
def sector_of(inside, sector_bytes):  # type: ignore[no-untyped-def]
    return inside >> 5 if sector_bytes == 32 else inside // sector_bytes


@helper
def touch(sectors, step, first, last, written):  # type: ignore[no-untyped-def]
    """Write down the sectors from ``first`` to ``last`` that the block has not touched before, twice their
    number and one more if it is to write, and the least ``step`` of a warp at which each is touched."""
    seen, count = at(sectors, SEEN_AT), at(sectors, SECTORS)
    for n in range(max(first, 0), min(last, count - 1) + 1):
        if get8(seen + n) == 0:
            put8(seen + n, 1)
            found = at(sectors, TOUCHED)
            put32(at(sectors, TOUCHED_AT) + 4 * found, 2 * n + written)
            put(sectors, TOUCHED, found + 1)
            put32(at(sectors, STEPS_AT) + 4 * n, step)
        elif step < get32(at(sectors, STEPS_AT) + 4 * n):
            put32(at(sectors, STEPS_AT) + 4 * n, step)


@helper
def watch(watched, pc, first, last, reads, writes):  # type: ignore[no-untyped-def]
    """A lane reads or writes the words from ``first`` to ``last``."""
    if writes:
        put(watched, LOW, min(at(watched, LOW), first))
        put(watched, HIGH, max(at(watched, HIGH), last))
    elif last < at(watched, LOW) or first > at(watched, HIGH):
        return
    for n in range(max(first, 0), min(last, at(watched, WATCHED_WORDS) - 1) + 1):
        place = at(watched, WRITERS_AT) + 4 * n
        if reads and at(watched, FOUND_PC) < 0:
            writer = get32(place)
            if writer != 0 and writer != at(watched, TAG):
                put(watched, FOUND_PC, pc)
                put(watched, FOUND_WORD, n)
                put(watched, FOUND_WRITER, writer)
        if writes:
            put32(place, at(watched, TAG))


@helper
def place_lanes(op, warp, launch):  # type: ignore[no-untyped-def]
    """The addresses of an access to global memory, tested, with nothing read or written; as `execute` leaves
    the warp."""
    lanes = at(warp, memory_layout.ACTIVE)
    lanes &= at(warp, memory_layout.PREDICATES + at(op, I_GUARD)) ^ at(op, I_GUARD_XOR)
    put(warp, memory_layout.PC, at(warp, memory_layout.PC) + 1)
    width = at(op, I_WIDTH_BYTES)
    if lanes != 0:
        lane_addresses(op, warp, lanes, width)
        if at(op, I_CODE) == operation_codes.COPY:
            lanes &= predicate(op, warp, I_PREDICATE_A)
    put(warp, memory_layout.LANES, lanes)
    if lanes == 0 or reach(warp, launch, operation_codes.GLOBAL, lanes, width) != NOWHERE:
        return GOES_ON
    rest = lanes  # in several allocations, or outside of them
    while rest != 0:
        lane = lowest_bit(rest)
        rest &= rest - 1
        address = get64(warp + 8 * (ADDRESSES + lane))
        if place_of(warp, launch, operation_codes.GLOBAL, lane, address, width) == 0:
            return FAULTS
    return GOES_ON


@helper
def touch_lanes(op, warp, sectors, watched, step):  # type: ignore[no-untyped-def]
    """Write down what the access just made touches."""
    sector = at(sectors, SECTOR_BYTES)
    code, rest = at(op, I_CODE), at(warp, memory_layout.LANES)
    width, written = at(op, I_WIDTH_BYTES), int(code == operation_codes.STORE)
    reads, writes = (
        code != operation_codes.STORE,
        code == operation_codes.STORE or code == operation_codes.ATOMIC,
    )
    if code == operation_codes.ATOMIC:  # its result may not be used
        reads = at(op, I_DST) != NO_RESULT or at(op, I_DONE_PREDICATE) != memory_layout.NO_PREDICATE
    pc = at(warp, memory_layout.PC) - 1
    # Lanes that follow each other are one piece.
    while rest != 0:
        lane = lowest_bit(rest)
        rest &= rest - 1
        inside = get64(warp + 8 * (ADDRESSES + lane)) - FIRST_ADDRESS
        end = inside + width
        while rest & (1 << (lane + 1)) != 0 and get64(warp + 8 * (ADDRESSES + lane + 1)) == (
            end + FIRST_ADDRESS
        ):
            lane, end = lane + 1, end + width
            rest &= rest - 1
        end -= 1
        watch(watched, pc, inside >> 2, end >> 2, reads, writes)
        touch(sectors, step, sector_of(inside, sector), sector_of(end, sector), written)


@helper
def touch_runs(op, launch, sectors, watched, pc, step):  # type: ignore[no-untyped-def]
    """Write down what the bulk copy just made touches."""
    sector = at(sectors, SECTOR_BYTES)
    request, writes = at(launch, memory_layout.BULK_REQUEST), at(op, I_TO_GLOBAL) != 0
    for n in range(FIRST_RUN, FIRST_RUN + 2 * at(request, RUN_COUNT), 2):
        first, last = at(request, n) - FIRST_ADDRESS, at(request, n + 1) - 1 - FIRST_ADDRESS
        watch(watched, pc, first >> 2, last >> 2, not writes, writes)
        touch(sectors, step, sector_of(first, sector), sector_of(last, sector), int(writes))


@entry
def touch_block(block, sectors, watched, steps):  # type: ignore[no-untyped-def]
    """Run a cluster of blocks (one, without clusters) to its end, writing down the sectors that it touches,
    in order.

    ``block`` has the words from `OPS` on, ``sectors`` those from `SEEN_AT` on, ``watched`` what `watch`
    takes. Gives the steps left, or -1 if the cluster does not end.
    """
    ops, length, launch, path = at(block, OPS), at(block, LENGTH), at(block, LAUNCH), at(block, PATH_AT)
    warps_at, warps, state = at(block, WARPS_AT), at(block, WARPS), at(block, STATES_AT)
    size, blocks = at(launch, memory_layout.REGISTER_FILE_BYTES), at(launch, memory_layout.CLUSTER_BLOCKS)
    steps_at, ages = state + 8 * blocks * warps, at(block, AGES_AT)
    while True:
        done = 0
        for b in range(blocks):
            own, mine = warps_at + b * warps * size, state + 8 * b * warps
            for w in range(warps):
                warp = own + w * size
                while at(mine, w) == RUNS:
                    pc = at(warp, memory_layout.PC)
                    if steps <= 0 or pc < 0 or pc >= length:
                        return -1
                    following = get32(path + 4 * pc)
                    put(sectors, COVERED, at(sectors, COVERED) + (following >> 1) - pc + 1)
                    step = at(steps_at, b * warps + w)
                    step += get32(ages + 4 * (following >> 1) + 4) - get32(ages + 4 * pc)
                    put(steps_at, b * warps + w, step)
                    pc = following >> 1
                    if pc >= length:
                        return -1
                    steps -= 1
                    put(warp, memory_layout.PC, pc)
                    op = ops + pc * (8 * memory_layout.WORDS)
                    if following & 1 != 0:
                        after = place_lanes(op, warp, launch)
                    else:
                        after = execute(ops, warp, launch, length)
                    if after == FAULTS:
                        return -1
                    if (
                        at(op, I_CODE) in ACCESSES
                        and at(warp, memory_layout.LANES) != 0
                        and at(op, I_SPACE) in GLOBAL_SPACES
                    ):
                        touch_lanes(op, warp, sectors, watched, step)
                    if at(op, I_CODE) == operation_codes.BULK_COPY and at(warp, memory_layout.LANES) != 0:
                        touch_runs(op, launch, sectors, watched, pc, step)
                    if after == AWAITS or asks_phase(op):
                        break
                    if after in (ARRIVES, EXITS):
                        put(mine, w, WAITS if after == ARRIVES else GONE)
                    if after in (ARRIVES, NOTIFIES):
                        arrived(own, size, warps, mine, w)
            going = meet(own, size, warps, mine)
            if going == 0:
                return -1
            done += int(going < 0)
        if done == blocks:
            return steps

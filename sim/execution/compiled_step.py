"""How a warp of machine code goes on, compiled: the source of the compiled engine."""

from __future__ import annotations

from typing import Final

from smlab.sim.compiled.jit import (
    bits_set,
    call_source,
    clear,
    entry,
    helper,
    inlined,
    lowest_bit,
    prefetch,
)
from smlab.sim.execution.access_marks import mark_access
from smlab.sim.instruction_source import (
    ANSWER_BITS,
    EXITS,
    FAULTS,
    GOES_ON,
    MAX_EARLY_INSTRUCTIONS,
    NEAR,
    NEXT,
    OPENED,
    START,
)
from smlab.sim.isa import memory_layout
from smlab.sim.isa import operation_codes as d
from smlab.sim.isa.memory.bank_conflicts import bank_wavefronts
from smlab.sim.isa.operation_codes import LOCAL_AT, LOCAL_PAD, ON_REGISTERS, SHARED_LOAD, WRITE_FOLLOWS
from smlab.sim.isa.vectors.divergent_paths import open_barrier
from smlab.sim.isa.vectors.execute import execute
from smlab.sim.isa.vectors.word_access import (
    I_CODE,
    I_EARLY_EXECUTION,
    I_SPACE,
    I_WIDTH_BYTES,
    at,
    fault,
    get64,
    prefetch_rows,
    put,
    put16,
    put32,
    put64,
)

NOTED_ROOM: Final = 1 << 15
"""Executions that the buffer holds."""
NOTED, FLUSH, ROWS_AT, ADDRESSES_AT = range(4)
NOTED_WARP, NOTED_PC, NOTED_LANES, NOTED_MEMORY = range(4)
NOTED_WORDS: Final = 4


@helper
def start_block_words(launch, block_at, known_bytes, number, tensor_memory):  # type: ignore[no-untyped-def]
    """Make a block's words those before its first instruction; ``number`` is its place in the order of
    launch, ``tensor_memory`` which one it has."""
    index = number
    if at(launch, memory_layout.BLOCK_MAP) != 0:
        index = get64(at(launch, memory_layout.BLOCK_MAP) + 8 * number)
    gx, gy = at(launch, memory_layout.GRID_X), at(launch, memory_layout.GRID_X + 1)
    put(block_at, memory_layout.BLOCK_X, index % gx)
    put(block_at, memory_layout.BLOCK_Y, index // gx % gy)
    put(block_at, memory_layout.BLOCK_Z, index // (gx * gy))
    for word in range(memory_layout.ARRIVED, memory_layout.BLOCK_WORDS):
        put(block_at, word, 0)
    rank = number % at(launch, memory_layout.CLUSTER_BLOCKS)
    put(block_at, memory_layout.SHARED_BASE, at(launch, memory_layout.SHARED_FIRST) + (rank << 24))
    put(block_at, memory_layout.NUMBER, number + 1)
    put(
        block_at,
        memory_layout.TENSOR_ROW,
        at(launch, memory_layout.TENSOR_MEMORY) + tensor_memory * memory_layout.TENSOR_BYTES,
    )
    if at(launch, memory_layout.BLOCK_ROOMS) != 0:
        put(at(launch, memory_layout.BLOCK_ROOMS), number, block_at)
    clear(at(block_at, memory_layout.SHARED), at(launch, memory_layout.SHARED_BYTES))
    known = at(block_at, memory_layout.SHARED_KNOWN)
    clear(known, known_bytes)
    for word in range(at(launch, memory_layout.KNOWN_FIRST)):
        put32(known + 4 * word, 1)
    put(block_at, memory_layout.UNKNOWN_AT, known)
    put(
        block_at,
        memory_layout.UNKNOWN_END,
        known + min(known_bytes, (at(launch, memory_layout.SHARED_BYTES) + 3) & ~3),
    )


@helper
def start_warp(launch, warp, block_at, number, lanes):  # type: ignore[no-untyped-def]
    ranges = at(launch, memory_layout.CLEARED)
    for n in range(at(launch, memory_layout.CLEARED_RANGES)):
        clear(warp + at(ranges, 2 * n), at(ranges, 2 * n + 1))
    mask = (1 << lanes) - 1
    put(warp, memory_layout.ACTIVE, mask)
    put(warp, memory_layout.LIVE, mask)
    put(warp, memory_layout.BLOCK, block_at)
    put(warp, memory_layout.WARP_OF_BLOCK, number)
    put(warp, memory_layout.PREDICATES + memory_layout.PT, 0xFFFFFFFF)
    put(warp, memory_layout.PREDICATES + memory_layout.UPT, 0xFFFFFFFF)


@helper
def note(op: int, warp: int, context: int, pc: int, lanes: int) -> None:
    """Write down the instruction that a warp has just executed."""
    recording = at(context, memory_layout.RECORDING)
    n = at(recording, NOTED)
    if n == NOTED_ROOM:
        call_source(at(recording, FLUSH), (0, 0, 0, 0, 0, 0))
        n = 0
    row = at(recording, ROWS_AT) + 8 * NOTED_WORDS * n
    code = at(op, I_CODE)
    memory = lanes != 0 and (code == d.LOAD or code == d.STORE or code == d.ATOMIC or code == d.COPY)
    put(
        row,
        NOTED_WARP,
        at(warp, memory_layout.INDEX) * at(context, memory_layout.WARPS)
        + at(warp, memory_layout.WARP_OF_BLOCK),
    )
    put(row, NOTED_PC, pc)
    put(row, NOTED_LANES, lanes)
    put(row, NOTED_MEMORY, 1 if memory else 0)
    if memory:
        out = at(recording, ADDRESSES_AT) + 8 * 32 * n
        for lane in range(32):
            put64(out + 8 * lane, get64(warp + 8 * memory_layout.ADDRESSES + 8 * lane))
    put(recording, NOTED, n + 1)


@inlined
def _next(warp, context, now):  # type: ignore[no-untyped-def]
    """Execute the instruction of a warp that is issued, and those after it that may be executed ahead."""
    put(warp, memory_layout.CLOCK, now)
    pc, length = at(warp, memory_layout.PC), at(context, memory_layout.LENGTH)
    if pc < 0 or pc >= length or at(warp, memory_layout.FAULT) != memory_layout.FINE:
        put(warp, memory_layout.LAST_PC, pc)
        if pc < 0 or pc >= length:
            fault(warp, memory_layout.BAD_TARGET, 0, pc * 16)
        return FAULTS
    ops, executed, summed = (
        at(context, memory_layout.OPS),
        at(context, memory_layout.EXECUTED),
        at(context, memory_layout.EXECUTED_LANES),
    )
    answer, issued, may = GOES_ON, 0, 0
    count = at(
        context, memory_layout.NOTHING
    )  # were it a constant, the compiler would write all of this twice
    while True:
        op = ops + pc * (8 * memory_layout.WORDS)
        state = execute(ops, warp, context, length)
        lanes = at(warp, memory_layout.LANES)
        if count != 0 and state == FAULTS:  # which is told when it is issued
            put(warp, memory_layout.PC, pc)
            count -= 1
            break
        put(executed, pc, at(executed, pc) + 1)
        put(summed, pc, at(summed, pc) + bits_set(lanes))
        if count != 0:
            if at(op, I_EARLY_EXECUTION) & SHARED_LOAD != 0:
                put16(
                    warp + 8 * memory_layout.AHEAD + 2 * (pc & (MAX_EARLY_INSTRUCTIONS - 1)),
                    bits_set(lanes) | bank_wavefronts(op, warp) << 6,
                )
        else:
            answer, issued = state, lanes
            may = _after_issue(op, warp, context, pc, state, lanes)
        pc = at(warp, memory_layout.PC)
        if count == MAX_EARLY_INSTRUCTIONS or pc < 0 or pc >= length:
            break
        if at(ops + pc * (8 * memory_layout.WORDS), I_EARLY_EXECUTION) & may == 0:
            break
        count += 1
    put(warp, memory_layout.LANES, issued)
    if at(context, memory_layout.PREFETCHES) != 0 and 0 <= pc < length:
        prefetch_rows(ops + pc * (8 * memory_layout.WORDS), warp)
    return answer + (count << ANSWER_BITS)


@helper
def _after_issue(op, warp, context, pc, state, lanes):  # type: ignore[no-untyped-def]
    """What the engine and the block are to know of an instruction just issued; the marks of what may follow
    it before it is issued."""
    if state != GOES_ON:
        put(warp, memory_layout.LAST_PC, pc)
    if state == FAULTS:
        return 0
    if at(context, memory_layout.RECORDING) != 0:
        note(op, warp, context, pc, lanes)
    code, may = at(op, I_CODE), ON_REGISTERS | SHARED_LOAD
    matrices = code == d.LOAD_MATRIX or code == d.STORE_MATRIX
    if code == d.LOAD or code == d.STORE or code == d.ATOMIC or code == d.COPY or matrices:
        space = at(op, I_SPACE)
        if space == d.SHARED:
            put(warp, memory_layout.PASSES, bank_wavefronts(op, warp))
        else:
            may = ON_REGISTERS  # the engine asks for this access's addresses later
            if at(context, memory_layout.MARKS) != 0 and lanes != 0:
                mark_access(op, warp, context, code, lanes)
            if space == d.LOCAL and code != d.COPY:
                _place_local(op, warp, context, lanes)
    elif code == d.LOAD_CONSTANT:
        may = ON_REGISTERS
    block, following = at(warp, memory_layout.BLOCK), at(warp, memory_layout.PC)
    if code == d.BARRIER:
        following = pc + 1
    writes = 0
    if state != EXITS and following >= 0 and following < at(context, memory_layout.LENGTH):
        writes = (
            at(at(context, memory_layout.OPS) + following * (8 * memory_layout.WORDS), I_EARLY_EXECUTION)
            // WRITE_FOLLOWS
        ) & 1
    known = at(warp, memory_layout.MAY_WRITE)
    if writes != known and (writes != 0 or state == EXITS or at(warp, memory_layout.PATHS) == 0):
        put(warp, memory_layout.MAY_WRITE, writes)
        put(block, memory_layout.WRITERS, at(block, memory_layout.WRITERS) + writes - known)
    if at(block, memory_layout.WRITERS) != 0:
        may &= ON_REGISTERS
    if state != GOES_ON or at(context, memory_layout.RECORDING) != 0:
        return 0
    return may


@entry
def step(kind, warp, context, now, p, q):  # type: ignore[no-untyped-def]
    """The source of the compiled engine; see `smlab.sim.instruction_source.CompiledSource`."""
    if kind == NEXT:
        return _next(warp, context, now)
    if kind == NEAR:
        following = at(warp, memory_layout.PC)
        if at(context, memory_layout.PREFETCHES) != 0 and 0 <= following < at(context, memory_layout.LENGTH):
            prefetch(warp + 8 * memory_layout.LIVE)
            prefetch(warp + 8 * (memory_layout.PREDICATES + memory_layout.PT))
            prefetch_rows(at(context, memory_layout.OPS) + following * (8 * memory_layout.WORDS), warp)
        return GOES_ON
    if kind == START:
        place, room = q & 63, q >> 6
        block = at(context, memory_layout.BLOCKS_AT) + 8 * memory_layout.BLOCK_WORDS * room
        if place == 0:
            start_block_words(context, block, at(context, memory_layout.KNOWN_BYTES), p, now)
            put(block, memory_layout.WRITERS, at(context, memory_layout.WARPS))
        if at(context, memory_layout.BLOCK_MAP) != 0:
            p = get64(at(context, memory_layout.BLOCK_MAP) + 8 * p)
        threads = min(32, at(context, memory_layout.THREADS) - 32 * place)
        start_warp(context, warp, block, place, threads)
        put(warp, memory_layout.SM_ID, now)
        put(warp, memory_layout.INDEX, p)
        put(warp, memory_layout.MAY_WRITE, 1)
        return GOES_ON
    if kind == OPENED:
        open_barrier(warp)
    return GOES_ON


@helper
def _place_local(op, warp, context, lanes):  # type: ignore[no-untyped-def]
    """Local addresses as the caches see them: a place of the SM has its memory, whichever block is there."""
    out = warp + 8 * memory_layout.ADDRESSES
    put(warp, memory_layout.CONSECUTIVE, 0)
    width = at(op, I_WIDTH_BYTES)
    room = (at(warp, memory_layout.BLOCK) - at(context, memory_layout.BLOCKS_AT)) // (
        8 * memory_layout.BLOCK_WORDS
    )
    number = room * at(context, memory_layout.WARPS) + at(warp, memory_layout.WARP_OF_BLOCK)
    base = LOCAL_AT + number * (at(context, memory_layout.LOCAL_BYTES) * 32 + LOCAL_PAD)
    rest = lanes
    while rest != 0:
        lane = lowest_bit(rest)
        rest &= rest - 1
        inside = get64(out + 8 * lane)
        put64(out + 8 * lane, base + (inside & ~(width - 1)) * 32 + lane * max(width, 4))

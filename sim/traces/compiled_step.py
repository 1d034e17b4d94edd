"""How a warp goes along its recorded instructions, compiled: the source of the compiled engine."""

from __future__ import annotations

from typing import Final

from smlab.sim.compiled.jit import bits_set, entry, helper, lowest_bit
from smlab.sim.instruction_source import (
    ADDRESSES,
    ARRIVES,
    CONSECUTIVE,
    EXITS,
    GOES_ON,
    LANES,
    NEXT,
    PASSES,
    PC,
    SHARED_WORDS,
    START,
)
from smlab.sim.isa import memory_layout
from smlab.sim.isa import operation_codes as d
from smlab.sim.isa.memory.bank_conflicts import bank_wavefronts
from smlab.sim.isa.operation_codes import LOCAL_AT, LOCAL_PAD
from smlab.sim.isa.vectors.word_access import (
    I_CODE,
    I_SPACE,
    I_WIDTH_BYTES,
    at,
    get32,
    get64,
    put,
    put64,
)

PLAIN, WAITS, LEAVES = 0, 1, 2
"""What an instruction does to its lanes: nothing, they wait at the block's barrier, they exit."""

EVEN, EACH = 1, 0
"""How addresses are kept: EVEN, the first one and the stride; EACH, one for each of 32 lanes."""
NOWHERE: Final = -1
# The words of a warp behind those that it shares with the engines.
_AT, _END, _LIVE, _WAITING, _NUMBER = range(SHARED_WORDS, SHARED_WORDS + 5)
WARP_WORDS: Final = SHARED_WORDS + 8
# The words of a trace behind those of a launch, of which it has the operations and the room for counting.
(FIRST_AT, INDEX_AT, MASK_AT, PLACES_AT, WORDS_AT, KINDS_AT, PER_BLOCK, LOCAL_FIRST) = range(
    memory_layout.LAUNCH_WORDS, memory_layout.LAUNCH_WORDS + 8
)
CONTEXT_WORDS: Final = memory_layout.LAUNCH_WORDS + 16


@entry
def step(kind, warp, context, now, p, q):  # type: ignore[no-untyped-def]
    """The source of the compiled engine; see `smlab.sim.instruction_source.CompiledSource`."""
    if kind == NEXT:
        n = at(warp, _AT)
        pc = at(warp, PC)
        lanes = get32(at(context, MASK_AT) + 4 * n)
        put(warp, LANES, lanes)
        place = get64(at(context, PLACES_AT) + 8 * n)
        if place != NOWHERE:
            op = at(context, memory_layout.OPS) + pc * (8 * memory_layout.WORDS)
            _addresses(at(context, WORDS_AT) + 8 * place, op, warp, context, lanes)
        else:
            put(warp, PASSES, 1)  # of a matrix's load or store no addresses were recorded
        kinds = get64(at(context, KINDS_AT) + 8 * pc)
        put(warp, _AT, n + 1)
        if n + 1 == at(warp, _END):
            return EXITS
        put(warp, PC, get32(at(context, INDEX_AT) + 4 * (n + 1)))
        if kinds == PLAIN:
            return GOES_ON
        if kinds == WAITS:
            put(warp, _WAITING, at(warp, _WAITING) | lanes)
        else:
            put(warp, _LIVE, at(warp, _LIVE) & ~lanes)
        waiting = at(warp, _WAITING)
        if waiting != 0 and at(warp, _LIVE) & ~waiting == 0:
            put(warp, _WAITING, 0)
            return ARRIVES
        return GOES_ON
    if kind == START:
        number = p * at(context, PER_BLOCK) + (q & 63)
        first = at(context, FIRST_AT) + 8 * number
        put(warp, _AT, get64(first))
        put(warp, _END, get64(first + 8))
        put(warp, PC, get32(at(context, INDEX_AT) + 4 * get64(first)))
        threads = min(32, at(context, memory_layout.THREADS) - 32 * (q & 63))
        put(warp, _LIVE, (1 << threads) - 1)
        put(warp, _WAITING, 0)
        put(warp, _NUMBER, (q >> 6) * at(context, PER_BLOCK) + (q & 63))
    return GOES_ON


@helper
def _addresses(words, op, warp, context, lanes):  # type: ignore[no-untyped-def]
    """The lanes' addresses, as the caches and banks see them."""
    out, width = warp + 8 * ADDRESSES, at(op, I_WIDTH_BYTES)
    low = lowest_bit(lanes)
    even = 0
    if get64(words) == EVEN:
        base, stride = get64(words + 8), get64(words + 16)
        even = 1 if stride == width else 0
        address = base
        for lane in range(low, low + bits_set(lanes)):
            put64(out + 8 * lane, address)
            address += stride
    else:
        for lane in range(32):
            put64(out + 8 * lane, get64(words + 8 + 8 * lane))
    put(warp, CONSECUTIVE, even)
    if at(op, I_SPACE) == d.SHARED:
        put(warp, PASSES, bank_wavefronts(op, warp))
    elif at(op, I_CODE) == d.COPY:  # a trace has only the addresses in global memory
        put(warp, PASSES, 1)
    elif at(op, I_SPACE) == d.LOCAL:
        put(warp, CONSECUTIVE, 0)
        base = LOCAL_AT + at(warp, _NUMBER) * (at(context, memory_layout.LOCAL_BYTES) * 32 + LOCAL_PAD)
        for lane in range(32):
            inside = get64(out + 8 * lane) - at(context, LOCAL_FIRST)
            put64(out + 8 * lane, base + (inside & ~(width - 1)) * 32 + lane * max(width, 4))

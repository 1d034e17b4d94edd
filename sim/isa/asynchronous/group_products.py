"""Products of matrices by a group of four warps, in machine code; see
`smlab.sim.isa.meanings.products.group_products`."""

from __future__ import annotations

from typing import Any

from smlab.sim.compiled.jit import helper
from smlab.sim.instruction_source import AWAITS, FAULTS, GOES_ON
from smlab.sim.isa import matrix_products as mp
from smlab.sim.isa import operation_codes as d
from smlab.sim.isa.memory.access import BLOCK_ADDRESS, lanes_known, note_unwritten, place_of
from smlab.sim.isa.memory_layout import (
    ADDRESSES,
    BASE_OFFSET,
    BLOCK,
    CHECK_SHARED,
    FAILED_CHECKS,
    LONE_PRODUCT,
    MOST_CHECKS,
    PC,
    PRODUCTS_CLOSED,
    ROW_BYTES,
    SCRATCH,
    SHARED_BASE,
    WARP_OF_BLOCK,
    zero_at,
)
from smlab.sim.isa.vectors.products.tensor import (
    SECOND_AT,
    TILES_AT,
    add_products,
    multiply_whole,
    unpack_first,
    unpack_second,
)
from smlab.sim.isa.vectors.word_access import (
    I_A,
    I_A_IN_SHARED,
    I_A_TURNED,
    I_B,
    I_B_ELEMENT_TYPE,
    I_B_TURNED,
    I_C,
    I_CLOSES_PRODUCTS,
    I_COLUMN_GROUPS,
    I_DST,
    I_ELEMENT_TYPE,
    I_PREDICATE_SUM,
    I_SUM_TYPE,
    at,
    fault,
    get8,
    get16,
    get32,
    get64,
    predicate,
    put,
    put32,
    row_of,
)

_PIECES = 16
_PIECES_OF_BYTES = 32  # column by column
_SPANS = mp.SWIZZLE_BYTES
_PER_REGISTER = tuple(mp.PER_REGISTER[element] for element in range(len(mp.PER_REGISTER)))
_ZEROS = zero_at()


@helper
def tile_addresses(warp: int, descriptor: int, turned: int, tile: int, pieces: int) -> None:
    """Where the pieces of a tile lie in shared memory, as addresses of lanes. Of bytes column by column a
    piece holds two tiles."""
    leading = ((descriptor >> 16) & 0x3FFF) << 4
    start = ((descriptor & 0x3FFF) << 4) | (at(at(warp, BLOCK), SHARED_BASE) & ~BLOCK_ADDRESS)
    stride, span = ((descriptor >> 32) & 0x3FFF) << 4, _SPANS[(descriptor >> 62) & 3]
    if pieces == _PIECES_OF_BYTES:
        tile >>= 1
    for n in range(pieces):
        if turned == 0:
            half = leading if span == 16 else 16
            address = start + tile * stride + (n >> 1) * span + (n & 1) * half
        elif span == 16:
            address = start + tile * stride + (n & 7) * 16 + (n >> 3) * leading
        else:
            outer, inner = tile // (span // 16), tile % (span // 16)
            address = start + outer * leading + inner * 16 + (n & 7) * span + (n >> 3) * stride
        put(warp, ADDRESSES + n, address ^ ((address >> 3) & (span - 16)))


@helper
def load_tile(op: int, product: int, warp: int, launch: int, name: int, tile: int, to: int) -> Any:
    """A tile of the matrix whose descriptor is source ``name``, as two registers, those of the first matrix
    with another one between; False after a fault. ``product`` has what the instruction says of it."""
    turned, distance = at(product, I_B_TURNED), ROW_BYTES
    if name == I_A:
        turned, distance = at(product, I_A_TURNED), 2 * ROW_BYTES
    row, flip = row_of(product, warp, name), at(product, name + 3)
    descriptor = get32(row) | (get32(row + ROW_BYTES) << 32)
    if (descriptor >> 49) & 7 != 0 and (descriptor >> 62) & 3 != 0:  # without an exchange it says nothing
        fault(warp, BASE_OFFSET, 0, 0)
        return False
    element = at(product, I_ELEMENT_TYPE) if name == I_A else at(product, I_B_ELEMENT_TYPE)
    bytes_turned = turned != 0 and _PER_REGISTER[element] == 4
    pieces = _PIECES_OF_BYTES if bytes_turned else _PIECES
    tile_addresses(warp, descriptor, turned, tile, pieces)
    for n in range(pieces):
        place = place_of(warp, launch, d.SHARED, n, get64(warp + 8 * (ADDRESSES + n)), 16)
        if place == 0:
            return False
        if bytes_turned:
            out = to + distance * (n >> 4) + 4 * ((n & 15) >> 2)
            for g in range(8):
                shift = 8 * (n & 3)
                before = 0 if shift == 0 else get32(out + 16 * g)
                put32(out + 16 * g, before | (get8(place + 8 * (tile & 1) + g) << shift))
        elif turned == 0:
            out = to + distance * (n & 1) + 16 * (n >> 1)
            for t in range(4):
                put32(out + 4 * t, get32(place + 4 * t) ^ flip)
        elif n & 1 != 0:
            other = place_of(warp, launch, d.SHARED, n - 1, get64(warp + 8 * (ADDRESSES + n - 1)), 16)
            out = to + distance * (n >> 3) + 4 * ((n & 7) >> 1)
            for g in range(8):
                put32(out + 16 * g, (get16(other + 2 * g) | (get16(place + 2 * g) << 16)) ^ flip)
    if bytes_turned and flip != 0:
        for n in range(2):
            for lane in range(32):
                put32(to + distance * n + 4 * lane, get32(to + distance * n + 4 * lane) ^ flip)
    asking = (1 << pieces) - 1
    if at(launch, CHECK_SHARED) != 0 and not lanes_known(warp, launch, asking, 16, 0):
        note_unwritten(op, warp, launch, asking, 16)
    return True


@helper
def multiply_in_group(op: int, warp: int, launch: int, lanes: int) -> Any:
    """A warp's part of a product: its 16 rows, eight columns at a time."""
    unpacked = at(launch, SCRATCH)
    a, b = unpacked + TILES_AT, unpacked + TILES_AT + 4 * ROW_BYTES
    if at(op, I_A_IN_SHARED) != 0:
        for n in range(2):
            tile = 2 * (at(warp, WARP_OF_BLOCK) & 3) + n
            if not load_tile(op, op, warp, launch, I_A, tile, a + n * ROW_BYTES):
                return FAULTS
    else:
        a = row_of(op, warp, I_A)
    whole = at(op, I_ELEMENT_TYPE) > mp.DOUBLES
    special_row = 0 if whole else unpack_first(op, a, unpacked)
    adds = predicate(op, warp, I_PREDICATE_SUM) != 0
    block = (2 if at(op, I_SUM_TYPE) == mp.HALF_SUM else 4) * ROW_BYTES
    for number in range(at(op, I_COLUMN_GROUPS)):
        if not load_tile(op, op, warp, launch, I_B, number, b):
            return FAULTS
        c = row_of(op, warp, I_C) + block * number if adds else warp + _ZEROS
        dst = warp + at(op, I_DST) + block * number
        if whole:
            multiply_whole(op, a, b, c, dst, unpacked, lanes)
        else:
            special = (special_row | unpack_second(op, b, unpacked + SECOND_AT)) != 0
            add_products(op, unpacked, unpacked + SECOND_AT, c, dst, lanes, special)
    close_products(op, warp)
    return GOES_ON


@helper
def close_products(op: int, warp: int) -> None:
    """Count a group of products that an instruction closes."""
    put(at(warp, BLOCK), FAILED_CHECKS, 0)
    word = PRODUCTS_CLOSED + at(warp, WARP_OF_BLOCK)
    put(at(warp, BLOCK), word, at(at(warp, BLOCK), word) + at(op, I_CLOSES_PRODUCTS))


@helper
def await_products(warp: int, launch: int) -> Any:
    """A group of warps goes on together: the instruction is done when the three others have issued as many
    groups of products as its warp."""
    block, number = at(warp, BLOCK), at(warp, WARP_OF_BLOCK)
    mine, fewest = at(block, PRODUCTS_CLOSED + number), 1 << 62
    for other in range(number & ~3, (number & ~3) + 4):
        fewest = min(fewest, at(block, PRODUCTS_CLOSED + other))
    if fewest >= mine:
        return GOES_ON
    put(warp, PC, at(warp, PC) - 1)
    failed = at(block, FAILED_CHECKS) + 1
    put(block, FAILED_CHECKS, failed)
    if failed > at(launch, MOST_CHECKS):
        return fault(warp, LONE_PRODUCT, 0, 0)
    return AWAITS

"""Copies of the copy engine, in machine code; see `smlab.sim.isa.meanings.asynchronous_units`."""

from __future__ import annotations

from typing import Any

from smlab.sim.compiled.jit import helper, lowest_bit
from smlab.sim.instruction_source import FAULTS, FIRST_RUN, GOES_ON, RUN_COUNT, TO_WRITE
from smlab.sim.isa import operation_codes as d
from smlab.sim.isa.asynchronous.memory_barriers import note_copy, tell_barrier
from smlab.sim.isa.launch import tensor_map as tm
from smlab.sim.isa.memory.access import BLOCK_ADDRESS, make_known, place_of, translate
from smlab.sim.isa.memory_layout import (
    BULK_REQUEST,
    COPIES_TIMED,
    COPY_NEXT,
    NO_TENSOR_MAP,
    ROW_BYTES,
)
from smlab.sim.isa.vectors.word_access import (
    I_A,
    I_B,
    I_C,
    I_DIMENSIONS,
    I_MULTICAST,
    I_TO_GLOBAL,
    I_TO_L2,
    at,
    fault,
    get8,
    get32,
    get32s,
    get64,
    put,
    put8,
    put64,
    row_of,
)

_PIECE = 16
_TO_GLOBAL, _TO_L2 = 1, 2
_MAGIC = tm._MAGIC
_HALF_MAP = tm.MAP_BYTES // 2
_SHAPE_AT, _BOX_AT, _STRIDES_AT = 4 * tm.W_SHAPE, 4 * tm.W_BOX, 4 * tm.W_STRIDES


@helper
def note_run(launch: int, first: int, end: int) -> None:
    """The copy asks for bytes of global memory, which may go on from the last ones."""
    request = at(launch, BULK_REQUEST)
    count = at(request, RUN_COUNT)
    last = FIRST_RUN + 2 * count - 1
    if count != 0 and at(request, last) == first:
        put(request, last, end)
        return
    put(request, last + 1, first)
    put(request, last + 2, end)
    put(request, RUN_COUNT, count + 1)


@helper
def copy_elements(warp: int, launch: int, here: int, far: int, each: int, inside: int, to_global: int) -> Any:
    """Elements of a piece one by one; those outside of the tensor are zeros. False after a fault."""
    for n in range(_PIECE // each):
        if (inside >> n) & 1 == 0:
            if to_global == 0:
                for byte in range(each):
                    put8(here + n * each + byte, 0)
            continue
        there = place_of(warp, launch, d.GLOBAL, 0, far + n * each, each)
        if there == 0:
            return False
        for byte in range(each):
            if to_global != 0:
                put8(there + byte, get8(here + n * each + byte))
            else:
                put8(here + n * each + byte, get8(there + byte))
    return True


@helper
def copy_piece(warp: int, launch: int, shared: int, far: int, each: int, inside: int, way: int) -> Any:
    """16 bytes of shared memory and of global memory, or the asking for them alone; ``inside`` has a bit for
    each element that lies in the tensor. False after a fault."""
    if inside != 0:
        first = lowest_bit(inside)
        note_run(launch, far + first * each, far + (first + lowest_bit(~(inside >> first))) * each)
    if way == _TO_L2:
        return True
    to_global = int(way == _TO_GLOBAL)
    here = place_of(warp, launch, d.SHARED, 0, shared, _PIECE)
    if here == 0:
        return False
    if to_global == 0:
        make_known(warp, launch, shared, _PIECE)
    there = 0
    if inside == (1 << (_PIECE // each)) - 1 and far & (each - 1) == 0:
        there = translate(launch, far, _PIECE)
    if there == 0:
        return copy_elements(warp, launch, here, far, each, inside, to_global)
    if to_global != 0:
        put64(there, get64(here))
        put64(there + 8, get64(here + 8))
    else:
        put64(here, get64(there))
        put64(here + 8, get64(there + 8))
    return True


@helper
def copy_box(op: int, warp: int, launch: int, shape: int, begin: int, shared: int) -> Any:
    """A box of a tensor whose map lies at ``shape``, from coordinates in rows from ``begin`` on; its bytes,
    with those outside of the tensor, or -1 after a fault."""
    dimensions, each = at(op, I_DIMENSIONS), get32(shape + 4 * tm.W_ELEMENT)
    span, way = get32(shape + 4 * tm.W_SPAN), at(op, I_TO_GLOBAL) + _TO_L2 * at(op, I_TO_L2)
    rows, inner = 1, get32(shape + _BOX_AT)
    for k in range(1, dimensions):
        rows *= get32(shape + _BOX_AT + 4 * k)
    first, width, done = get32s(begin), get32(shape + _SHAPE_AT) + 1, 0
    for number in range(rows):
        rest, row_inside, row = number, True, get64(shape + 4 * tm.W_BASE)
        for k in range(1, dimensions):
            edge = get32(shape + _BOX_AT + 4 * k)
            place = get32s(begin + ROW_BYTES * k) + rest % edge
            rest //= edge
            row_inside &= 0 <= place <= get32(shape + _SHAPE_AT + 4 * k)
            row += place * get64(shape + _STRIDES_AT + 8 * (k - 1))
        for column in range(first, first + inner, _PIECE // each):
            inside = 0
            if row_inside:
                for n in range(_PIECE // each):
                    if 0 <= column + n < width:
                        inside |= 1 << n
            to = shared + done
            to ^= (to >> 3) & (span - _PIECE)
            if not copy_piece(warp, launch, to, row + column * each, each, inside, way):
                return -1
            done += _PIECE
    return done


@helper
def end_copy(warp: int, launch: int, barrier: int, size: int) -> Any:
    """The barrier is told when the last byte has come, which the engine says; without timing at once. False
    after a fault."""
    if at(launch, COPIES_TIMED) == 0:
        return tell_barrier(warp, launch, barrier, 0, size)
    if place_of(warp, launch, d.SHARED, 0, barrier, 8) == 0:
        return False
    row = note_copy(warp, launch, barrier, 0, size)
    if row == 0:
        return False
    put(row, COPY_NEXT, at(at(launch, BULK_REQUEST), TO_WRITE))
    put(at(launch, BULK_REQUEST), TO_WRITE, row)
    return True


@helper
def copy_to_or_from(op: int, warp: int, launch: int, shared: int, barrier: int) -> Any:
    """A copy between global memory and one block's shared memory; False after a fault."""
    row, to_global = row_of(op, warp, I_B), at(op, I_TO_GLOBAL)
    far = get32(row) | (get32(row + ROW_BYTES) << 32)
    put(at(launch, BULK_REQUEST), RUN_COUNT, 0)
    if at(op, I_DIMENSIONS) == 0:
        size = (get32(row_of(op, warp, I_C)) & 0xFFFF) * _PIECE
        for done in range(0, size, _PIECE):
            if not copy_piece(warp, launch, shared + done, far + done, _PIECE, 1, to_global):
                return False
    else:
        shape = place_of(warp, launch, d.GLOBAL, 0, far, _HALF_MAP)
        if shape == 0 or place_of(warp, launch, d.GLOBAL, 0, far + _HALF_MAP, _HALF_MAP) == 0:
            return False
        if get32(shape) != _MAGIC or get32(shape + 4 * tm.W_DIMENSIONS) != at(op, I_DIMENSIONS):
            fault(warp, NO_TENSOR_MAP, 0, far)
            return False
        begin = row_of(op, warp, I_A)
        if at(op, I_TO_L2) == 0:
            begin += ROW_BYTES * (1 if to_global != 0 else 2)
        size = copy_box(op, warp, launch, shape, begin, shared)
        if size < 0:
            return False
    return to_global != 0 or at(op, I_TO_L2) != 0 or end_copy(warp, launch, barrier, size)


@helper
def copy_in_bulk(op: int, warp: int, launch: int) -> Any:
    """A copy between global and shared memory; to shared memory, its barrier is told when it is done. To
    several blocks of a cluster it goes to the same places of each, and tells each one's barrier."""
    names = row_of(op, warp, I_A)
    shared, barrier = get32(names), get32(names + ROW_BYTES)
    put(at(launch, BULK_REQUEST), TO_WRITE, 0)
    if at(op, I_MULTICAST) == 0:
        return GOES_ON if copy_to_or_from(op, warp, launch, shared, barrier) else FAULTS
    mask = get32(row_of(op, warp, I_C)) >> 16
    for rank in range(16):
        if (mask >> rank) & 1 != 0:
            to, told = (shared & BLOCK_ADDRESS) | (rank << 24), (barrier & BLOCK_ADDRESS) | (rank << 24)
            if not copy_to_or_from(op, warp, launch, to, told):
                return FAULTS
    return GOES_ON

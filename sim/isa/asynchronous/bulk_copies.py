"""Copies of the copy engine, in machine code; see `smlab.sim.isa.meanings.asynchronous_units`."""

from __future__ import annotations

from typing import Any

from smlab.sim.compiled.jit import helper, inlined, lowest_bit
from smlab.sim.instruction_source import FAULTS, FIRST_RUN, GOES_ON, RUN_COUNT, TO_WRITE
from smlab.sim.isa import operation_codes as d
from smlab.sim.isa.asynchronous.memory_barriers import note_copy, tell_barrier
from smlab.sim.isa.launch import tensor_map as tm
from smlab.sim.isa.memory.access import BLOCK_ADDRESS, make_known, place_of, translate
from smlab.sim.isa.memory.atomics import combined
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
    I_IS_REDUCTION,
    I_MULTICAST,
    I_NAMED_ROWS,
    I_NUMBER_TYPE,
    I_OPERATION,
    I_TO_GLOBAL,
    I_TO_L2,
    at,
    fault,
    get8,
    get16,
    get32,
    get32s,
    get64,
    put,
    put8,
    put16,
    put32,
    put64,
    row_of,
)

_PIECE = 16
_TO_GLOBAL, _TO_L2, _REDUCES = 1, 2, 4
_HALF_MAP = tm.MAP_BYTES // 2
_FORM_AT, _STRIDES_AT, _HIGH_AT, _SHAPE_AT, _FIRST_BOX_AT, _BOX_AT = (
    4 * word for word in (tm.W_FORM, tm.W_STRIDES, tm.W_HIGH_STRIDES, tm.W_SHAPE, tm.W_FIRST_BOX, tm.W_BOX)
)
_KNOWN_FORM, _ELEMENT_STRIDES, _TYPES = tm.KNOWN_FORM, tm.ELEMENT_STRIDES, len(tm.ELEMENT_TYPES)
_MOST_DIMENSIONS, _MOST_PIECES = tm.MOST_DIMENSIONS, tm.MOST_ASKED_PIECES
_SHIFTS = sum(shift << 4 * n for n, shift in enumerate(tm.ELEMENT_SHIFTS))
_NUMBER_TYPES = sum(kind << 4 * n for n, kind in enumerate(tm.NUMBER_TYPES))
_NOT_REDUCED, _UNIT = tm.NOT_REDUCED, tm.STRIDE_UNIT_BYTES


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
def reduce_elements(op: int, warp: int, launch: int, here: int, far: int, inside: int, kind: int) -> Any:
    """Elements of a piece that are combined with those of global memory; False after a fault."""
    each, operation = 4, at(op, I_OPERATION)
    if kind == d.U64 or kind == d.S64 or kind == d.FLOAT64:
        each = 8
    elif kind >= d.HALF_PAIR:
        each = 2
    for n in range(_PIECE // each):
        if (inside >> n) & 1 == 0:
            continue
        there = place_of(warp, launch, d.GLOBAL, 0, far + n * each, each)
        if there == 0:
            return False
        if each == 8:
            put64(there, combined(operation, kind, get64(there), get64(here + n * each), 0))
        elif each == 4:
            put32(there, combined(operation, kind, get32(there), get32(here + n * each), 0))
        else:
            put16(there, combined(operation, kind, get16(there), get16(here + n * each), 0))
    return True


@helper
def copy_piece(op: int, warp: int, launch: int, shared: int, far: int, inside: int, how: int) -> Any:
    """16 bytes of shared memory and of global memory, or the asking for them alone; ``inside`` has a bit for
    each element that lies in the tensor. ``how`` has where to (4 bits), the bytes of an element (12 bits) and
    its type where elements are reduced. False after a fault."""
    way, each, kind = how & 15, (how >> 4) & 0xFFF, how >> 16
    if inside != 0:
        first = lowest_bit(inside)
        note_run(launch, far + first * each, far + (first + lowest_bit(~(inside >> first))) * each)
    if way == _TO_L2:
        return True
    to_global = way & _TO_GLOBAL
    here = place_of(warp, launch, d.SHARED, 0, shared, _PIECE)
    if here == 0:
        return False
    if way & _REDUCES != 0:
        return reduce_elements(op, warp, launch, here, far, inside, kind)
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


@inlined
def way_of(op: int) -> Any:
    """Where a copy goes, and whether it is a reduction."""
    return at(op, I_TO_GLOBAL) + _TO_L2 * at(op, I_TO_L2) + _REDUCES * at(op, I_IS_REDUCTION)


@helper
def is_map(op: int, shape: int) -> Any:
    """Whether 128 bytes are a tensor map that is simulated, of the dimensions that the copy has, and of
    elements that it can reduce; see `smlab.sim.isa.launch.tensor_map.unpack_map`."""
    form, first_box, number = get32(shape + _FORM_AT), get32(shape + _FIRST_BOX_AT), 0
    number = (form >> 7) & 15
    if form & ~_KNOWN_FORM != 0 or first_box & _ELEMENT_STRIDES != 0 or get32(shape) & (_UNIT - 1) != 0:
        return False
    dimensions = ((form >> 4) & 7) + 1
    if number >= _TYPES or dimensions > _MOST_DIMENSIONS or dimensions != at(op, I_DIMENSIONS):
        return False
    inner, box = ((first_box >> 24) + 1) << ((_SHIFTS >> 4 * number) & 15), get32(shape + _BOX_AT)
    pieces = inner // _PIECE
    for k in range(1, dimensions):
        pieces *= ((box >> 8 * (k - 1)) & 255) + 1
    if inner & (_PIECE - 1) != 0 or pieces > _MOST_PIECES:
        return False
    if at(op, I_IS_REDUCTION) != 0 and (_NUMBER_TYPES >> 4 * number) & 15 == _NOT_REDUCED:
        return False
    rest = 0
    for byte in range(_BOX_AT + 4, 2 * _HALF_MAP, 4):
        rest |= get32(shape + byte)
    return rest == 0


@helper
def copy_box(op: int, warp: int, launch: int, shape: int, begin: int, shared: int) -> Any:
    """A box of a tensor whose map lies at ``shape``, from coordinates in rows from ``begin`` on; its bytes,
    with those outside of the tensor, or -1 after a fault."""
    dimensions, form, box = at(op, I_DIMENSIONS), get32(shape + _FORM_AT), get32(shape + _BOX_AT)
    number, high = (form >> 7) & 15, get32(shape + _HIGH_AT)
    each, span, kind = 1 << ((_SHIFTS >> 4 * number) & 15), _PIECE << ((form >> 13) & 3), 0
    if at(op, I_IS_REDUCTION) != 0:
        kind = (_NUMBER_TYPES >> 4 * number) & 15
    how = way_of(op) + (each << 4) + (kind << 16)
    rows, inner = 1, (get32(shape + _FIRST_BOX_AT) >> 24) + 1
    for k in range(1, dimensions):
        rows *= ((box >> 8 * (k - 1)) & 255) + 1
    named = at(op, I_NAMED_ROWS)
    if named != 0:
        rows = named
    first, width, done = get32s(begin), get32(shape + _SHAPE_AT) + 1, 0
    for line in range(rows):
        rest, row_inside, row = line, True, get64(shape)
        for k in range(1, dimensions):
            edge = ((box >> 8 * (k - 1)) & 255) + 1
            place = get32s(begin + ROW_BYTES * k) + rest % edge
            rest //= edge
            if named != 0:
                place = get32s(begin + ROW_BYTES * (1 + line))
            row_inside &= 0 <= place <= get32(shape + _SHAPE_AT + 4 * k)
            units = get32(shape + _STRIDES_AT + 4 * (k - 1)) | (((high >> 4 * (k - 1)) & 15) << 32)
            row += place * units * _UNIT
        for column in range(first, first + inner, _PIECE // each):
            inside = 0
            if row_inside:
                for n in range(_PIECE // each):
                    if 0 <= column + n < width:
                        inside |= 1 << n
            to = shared + done
            to ^= (to >> 3) & (span - _PIECE)
            if not copy_piece(op, warp, launch, to, row + column * each, inside, how):
                return -1
            done += _PIECE
    return done


@helper
def end_copy(warp: int, launch: int, barrier: int, arrivals: int, size: int) -> Any:
    """The barrier is told of so many arrivals and bytes when they are there, which the engine says; without
    timing at once. False after a fault."""
    if at(launch, COPIES_TIMED) == 0:
        return tell_barrier(warp, launch, barrier, arrivals, size)
    if place_of(warp, launch, d.SHARED, 0, barrier, 8) == 0:
        return False
    row = note_copy(warp, launch, barrier, arrivals, size)
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
        size, inside, how = (get32(row_of(op, warp, I_C)) & 0xFFFF) * _PIECE, 1, way_of(op) + (_PIECE << 4)
        if at(op, I_IS_REDUCTION) != 0:
            inside, how = 0xFF, way_of(op) + (2 << 4) + (at(op, I_NUMBER_TYPE) << 16)
        for done in range(0, size, _PIECE):
            if not copy_piece(op, warp, launch, shared + done, far + done, inside, how):
                return False
    else:
        shape = place_of(warp, launch, d.GLOBAL, 0, far, _HALF_MAP)
        if shape == 0 or place_of(warp, launch, d.GLOBAL, 0, far + _HALF_MAP, _HALF_MAP) == 0:
            return False
        if not is_map(op, shape):
            fault(warp, NO_TENSOR_MAP, 0, far)
            return False
        begin = row_of(op, warp, I_A)
        if at(op, I_TO_L2) == 0:
            begin += ROW_BYTES * (1 if to_global != 0 else 2)
        size = copy_box(op, warp, launch, shape, begin, shared)
        if size < 0:
            return False
    return to_global != 0 or at(op, I_TO_L2) != 0 or end_copy(warp, launch, barrier, 0, size)


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

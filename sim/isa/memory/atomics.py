"""Atomics, in machine code: lane by lane in ascending order, or all at once where that is the same."""

from __future__ import annotations

from typing import Any, Final

from smlab.sim.compiled.jit import helper, lowest_bit
from smlab.sim.instruction_source import FAULTS, GOES_ON
from smlab.sim.isa import operation_codes as d
from smlab.sim.isa.memory.access import (
    APART,
    NOWHERE,
    first_place,
    lane_addresses,
    lanes_known,
    make_lanes_known,
    note_unwritten,
    place_of,
    reach,
    real_space,
)
from smlab.sim.isa.memory.access_vectors import (
    add_row,
    one_place,
    summed,
)
from smlab.sim.isa.memory_layout import (
    ADDRESSES,
    CHECK_SHARED,
    NO_PREDICATE,
    THREADED,
    dump_at,
)
from smlab.sim.isa.vectors.word_access import (
    FULL,
    I_C,
    I_DONE_PREDICATE,
    I_DST,
    I_NUMBER_TYPE,
    I_OPERATION,
    I_SWAP_VALUE,
    I_WIDTH_BYTES,
    add_doubles,
    add_singles,
    at,
    get32,
    get64,
    put32,
    put64,
    row_of,
    set_predicate,
    swap_if_32,
    swap_if_64,
)

NO_RESULT: Final = dump_at()


@helper
def signed32(value: int) -> Any:
    return value - (1 << 32) if value >= 1 << 31 else value


@helper
def less(kind: int, a: int, b: int) -> Any:
    if kind == d.S32:
        return signed32(a) < signed32(b)
    if kind == d.S64:
        return a < b
    if kind == d.U64:
        return (a ^ (-1 << 63)) < (b ^ (-1 << 63))
    return a < b


@helper
def add_short_floats(kind: int, a: int, b: int) -> Any:
    """The sum of two halves, or of two bfloat16 numbers: that of singles, rounded again, which is the same as
    rounded once for a sum of numbers with so few bits (Figueroa 1995)."""
    if kind == d.BFLOAT16_PAIR:
        total = add_singles(a << 16, b << 16)
        if total & 0x7FFFFFFF > 0x7F800000:
            return 0x7FFF
        return (total + 0x7FFF + ((total >> 16) & 1)) >> 16
    return half_of_single(add_singles(single_of_half(a), single_of_half(b)))


@helper
def single_of_half(half: int) -> Any:
    sign, size = (half & 0x8000) << 16, half & 0x7FFF
    if size >= 0x7C00:
        return sign | 0x7F800000 | (size & 0x3FF) << 13
    if size >= 0x400:
        return sign | ((size << 13) + (112 << 23))
    if size == 0:
        return sign
    exponent = 113
    while size & 0x400 == 0:
        size <<= 1
        exponent -= 1
    return sign | exponent << 23 | (size & 0x3FF) << 13


@helper
def half_of_single(single: int) -> Any:
    """Rounded to the nearest half, of two the even one."""
    sign, size = (single >> 16) & 0x8000, single & 0x7FFFFFFF
    if size > 0x7F800000:
        return 0x7FFF
    if size >= 0x47800000:
        return sign | 0x7C00
    if size >= 0x38800000:
        return sign | (size - (112 << 23) + 0xFFF + ((size >> 13) & 1)) >> 13
    shift = 126 - (size >> 23)
    if shift > 25:
        return sign
    whole = (size & 0x7FFFFF) | 0x800000
    return sign | (whole + (1 << (shift - 1)) - 1 + ((whole >> shift) & 1)) >> shift


@helper
def ordered_short(kind: int, short: int) -> Any:
    """A half, or a number of bfloat16, as a whole number in the same order; -1 << 16 for none."""
    none = 0x7C00 if kind == d.HALF_PAIR else 0x7F80
    if short & 0x7FFF > none:
        return -1 << 16
    return ~(short & 0x7FFF) if short & 0x8000 != 0 else short


@helper
def chosen_short(operation: int, kind: int, a: int, b: int) -> Any:
    """The lesser or greater of two short floats; a number where one of them is none."""
    x, y = ordered_short(kind, a), ordered_short(kind, b)
    if x == -1 << 16 or y == -1 << 16:
        return 0x7FFF if x == y else b if x == -1 << 16 else a
    return a if (x < y) == (operation == d.MIN) else b


@helper
def arrived(barrier: int) -> Any:
    """A barrier of sm_80 after one more arrival; see `smlab.sim.isa.meanings.memory.arrived`."""
    expected, counted = barrier & 0xFFFFFFFF, ((barrier >> 32) & 0xFFFFFFFF) + 1
    if counted & 0x7FFFFFFF == 0:
        counted |= (expected + (1 << 30)) & 0x7FFFFFFF
    return (counted << 32) | expected


@helper
def combined(operation: int, kind: int, old: int, value: int, compared: int) -> Any:
    """What an atomic leaves in memory."""
    if operation == d.ADD:
        if kind == d.FLOAT32:
            return add_singles(old, value)
        if kind == d.FLOAT64:
            return add_doubles(old, value)
        if kind >= d.HALF_PAIR:
            low = add_short_floats(kind, old & 0xFFFF, value & 0xFFFF)
            return low | add_short_floats(kind, old >> 16, value >> 16) << 16
        return old + value
    if kind >= d.HALF_PAIR and (operation == d.MIN or operation == d.MAX):
        low = chosen_short(operation, kind, old & 0xFFFF, value & 0xFFFF)
        return low | chosen_short(operation, kind, old >> 16, value >> 16) << 16
    if operation == d.MIN:
        return value if less(kind, value, old) else old
    if operation == d.MAX:
        return value if less(kind, old, value) else old
    if operation == d.AND:
        return old & value
    if operation == d.OR:
        return old | value
    if operation == d.XOR:
        return old ^ value
    if operation == d.INC:
        return 0 if not less(kind, old, value) else old + 1
    if operation == d.DEC:
        return value if old == 0 or less(kind, value, old) else old - 1
    if operation == d.EXCHANGE:
        return value
    if operation == d.ARRIVE:
        return arrived(old)
    return value if old == compared else old


@helper
def atomic(op: int, warp: int, launch: int, lanes: int) -> Any:
    width, operation, kind = at(op, I_WIDTH_BYTES), at(op, I_OPERATION), at(op, I_NUMBER_TYPE)
    unit = lane_addresses(op, warp, lanes, width)
    space = real_space(op, warp, lanes)
    if space == d.MIXED:
        return APART
    done = kind < d.HALF_PAIR or space == d.GLOBAL
    if at(op, I_DONE_PREDICATE) != NO_PREDICATE:
        set_predicate(op, warp, I_DONE_PREDICATE, FULL if done else 0, lanes)
    if not done:
        return GOES_ON
    if width == 16 or (width == 8 and (kind == d.FLOAT32 or kind >= d.HALF_PAIR)):
        return atomic_side_by_side(op, warp, launch, lanes)
    moved = reach(warp, launch, space, lanes, width)
    asked = moved != NOWHERE and space == d.SHARED and at(launch, CHECK_SHARED) != 0
    if asked and not lanes_known(warp, launch, lanes, width, unit):
        note_unwritten(op, warp, launch, lanes, width)
        make_lanes_known(warp, launch, lanes, width, unit)
    if space == d.LOCAL:  # each lane has a memory of its own there
        moved = NOWHERE
    if at(launch, THREADED) != 0 and space == d.GLOBAL:
        return reduce_threaded(op, warp, launch, lanes, moved)
    if moved == NOWHERE or operation != d.ADD or width != 4 or kind == d.FLOAT32 or kind >= d.HALF_PAIR:
        return atomic_one_by_one(op, warp, launch, space, lanes, moved)
    out, dst = warp + 8 * ADDRESSES, warp + at(op, I_DST)
    source = row_of(op, warp, I_C)
    if unit:
        add_row(first_place(warp, lanes, 4) + moved, lanes, source, dst)
    elif at(op, I_DST) == NO_RESULT and one_place(warp, lanes) != 0:
        place = get64(out + 8 * lowest_bit(lanes)) + moved
        put32(place, get32(place) + summed(source, lanes))
    else:
        rest = lanes
        while rest != 0:
            lane = lowest_bit(rest)
            rest &= rest - 1
            place = get64(out + 8 * lane) + moved
            old = get32(place)
            put32(place, old + get32(source + 4 * lane))
            put32(dst + 4 * lane, old)
    return GOES_ON


@helper
def atomic_side_by_side(op: int, warp: int, launch: int, lanes: int) -> Any:
    """Words of global memory side by side, each for itself, lane after lane."""
    width, operation, kind = at(op, I_WIDTH_BYTES), at(op, I_OPERATION), at(op, I_NUMBER_TYPE)
    source, dst, rest = row_of(op, warp, I_C), warp + at(op, I_DST), lanes
    while rest != 0:
        lane = lowest_bit(rest)
        rest &= rest - 1
        place = place_of(warp, launch, d.GLOBAL, lane, get64(warp + 8 * ADDRESSES + 8 * lane), width)
        if place == 0:
            return FAULTS
        for word in range(width // 4):
            old = get32(place + 4 * word)
            value = get32(source + 128 * word + 4 * lane)
            put32(place + 4 * word, combined(operation, kind, old, value, 0))
            put32(dst + 128 * word + 4 * lane, old)
    return GOES_ON


@helper
def reduce_threaded(op: int, warp: int, launch: int, lanes: int, moved: int) -> Any:
    """A reduction of global memory, lane by lane, while other threads reduce: whole numbers, with no
    result."""
    width, operation, kind = at(op, I_WIDTH_BYTES), at(op, I_OPERATION), at(op, I_NUMBER_TYPE)
    source, rest = row_of(op, warp, I_C), lanes
    while rest != 0:
        lane = lowest_bit(rest)
        rest &= rest - 1
        address = get64(warp + 8 * ADDRESSES + 8 * lane)
        place = address + moved
        if moved == NOWHERE:
            place = place_of(warp, launch, d.GLOBAL, lane, address, width)
            if place == 0:
                return FAULTS
        value = get32(source + 4 * lane)
        if width == 8:
            value |= get32(source + 128 + 4 * lane) << 32
            old = get64(place)
            while swap_if_64(place, old, combined(operation, kind, old, value, 0)) == 0:
                old = get64(place)
        else:
            old = get32(place)
            while swap_if_32(place, old, combined(operation, kind, old, value, 0)) == 0:
                old = get32(place)
    return GOES_ON


@helper
def atomic_one_by_one(op: int, warp: int, launch: int, space: int, lanes: int, moved: int) -> Any:
    """Lane after lane; each is tested for itself unless all places are known."""
    width, operation, kind = at(op, I_WIDTH_BYTES), at(op, I_OPERATION), at(op, I_NUMBER_TYPE)
    out, dst = warp + 8 * ADDRESSES, warp + at(op, I_DST)
    source = row_of(op, warp, I_C)
    new = row_of(op, warp, I_SWAP_VALUE)
    swaps = operation == d.SWAP or operation == d.SPIN
    rest, swapped = lanes, 0
    while rest != 0:
        lane = lowest_bit(rest)
        rest &= rest - 1
        address = get64(out + 8 * lane)
        place = address + moved
        if moved == NOWHERE:
            place = place_of(warp, launch, space, lane, address, width)
            if place == 0:
                return FAULTS
        value = get32(source + 4 * lane)
        old = get32(place)
        if width == 8:
            value |= get32(source + 128 + 4 * lane) << 32
            old = get64(place)
        compared = value
        if swaps:
            value = get32(new + 4 * lane)
            if width == 8:
                value |= get32(new + 128 + 4 * lane) << 32
        if operation == d.COUNT:
            result = old + 1
        else:
            result = combined(operation, kind, old, value, compared)
        if width == 8:
            put64(place, result)
        else:
            put32(place, result)
        if operation == d.SPIN:
            old = 1 if old == compared else 0
            swapped |= old << lane
        put32(dst + 4 * lane, old)
        if width == 8:
            put32(dst + 128 + 4 * lane, old >> 32)
    if operation == d.SPIN and at(op, I_DONE_PREDICATE) != NO_PREDICATE:
        set_predicate(op, warp, I_DONE_PREDICATE, swapped, lanes)
    return GOES_ON

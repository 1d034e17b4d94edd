"""What lanes tell each other, and special registers, in machine code."""

from __future__ import annotations

from typing import Any

from smlab.sim.compiled.jit import bits_set, helper, lowest_bit
from smlab.sim.instruction_source import BLOCK_BARRIERS, GOES_ON
from smlab.sim.isa import memory_layout
from smlab.sim.isa import operation_codes as d
from smlab.sim.isa.meanings.rounding import NAN32
from smlab.sim.isa.memory.access_vectors import put_all
from smlab.sim.isa.memory.atomics import combined, signed32
from smlab.sim.isa.memory_layout import (
    ACTIVE,
    ADDRESSES,
    BLOCK,
    BLOCK_X,
    CLOCK,
    DIM_X,
    NOT_WAITING,
    PASSES,
    PC,
    PREDICATES,
    REDUCED,
    SHARED_BASE,
    SHARED_BYTES,
    SM_HZ,
    SM_ID,
    WARP_OF_BLOCK,
)
from smlab.sim.isa.operation_codes import SHARED_WINDOW
from smlab.sim.isa.vectors.divergent_paths import set_aside
from smlab.sim.isa.vectors.word_access import (
    FULL,
    I_A,
    I_B,
    I_BASE_INSTRUCTION,
    I_C,
    I_DST,
    I_IS_64_BIT,
    I_MODE,
    I_NAN_WINS,
    I_NUMBER_TYPE,
    I_OFFSET_BYTES,
    I_OPERATION,
    I_PREDICATE_A,
    I_PREDICATE_B,
    I_PREDICATE_C,
    I_PREDICATE_DST,
    I_PREDICATE_DST_B,
    I_REDUCTION,
    I_SPECIAL_REGISTER,
    I_TRUTH_TABLE,
    I_TRUTH_TABLE_B,
    I_UNIFORM,
    I_WIDTH_BYTES,
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


@helper
def shuffle(op: int, warp: int, lanes: int) -> None:
    kind = at(op, I_MODE)
    source = row_of(op, warp, I_A)
    # The values are read before any is written: the result may be the source.
    held = warp + 8 * ADDRESSES
    for lane in range(32):
        put64(held + 8 * lane, get32(source + 4 * lane))
    dst, inside = warp + at(op, I_DST), 0
    rest = lanes
    while rest != 0:
        lane = lowest_bit(rest)
        rest &= rest - 1
        b = word_of(op, warp, I_B, lane) & 31
        c = word_of(op, warp, I_C, lane)
        segment, clamp = (c >> 8) & 31, c & 31
        low = lane & segment
        high = low | (clamp & ~segment)
        if kind == 0:
            j = low | (b & ~segment)
            fine = j <= high
        elif kind == 1:
            j = lane - b
            fine = j >= high
        elif kind == 2:
            j = lane + b
            fine = j <= high
        else:
            j = lane ^ b
            fine = j <= high
        if fine:
            inside |= 1 << lane
        else:
            j = lane
        # An inactive lane's value is undefined on the hardware; here it is what its register holds.
        put32(dst + 4 * lane, get64(held + 8 * (j & 31)))
    set_predicate(op, warp, I_PREDICATE_DST, inside, lanes)


@helper
def vote(op: int, warp: int, lanes: int) -> None:
    uniform = at(op, I_UNIFORM) != 0
    active = at(warp, ACTIVE)
    here = active if uniform else lanes
    p = predicate(op, warp, I_PREDICATE_A)
    holds = p & here
    kind = at(op, I_MODE)
    if kind == 0:
        truth = holds != 0
    elif kind == 1:
        truth = holds == here
    else:
        truth = holds == here or holds == 0
    dst = warp + at(op, I_DST)
    put_all(dst, holds, lanes)
    set_predicate(op, warp, I_PREDICATE_DST, FULL if truth else 0, lanes)


@helper
def match(op: int, warp: int, lanes: int, active: int) -> None:
    if at(op, I_MODE) == d.DIFFERENT:
        value, differs = word_of(op, warp, I_A, lowest_bit(active)), False
        for lane in range(32):
            if (active >> lane) & 1 != 0 and word_of(op, warp, I_A, lane) != value:
                differs = True
        put_all(warp + at(op, I_DST), value, FULL)
        set_predicate(op, warp, I_PREDICATE_DST, FULL if differs else 0, lanes & active)
        return
    if at(op, I_MODE) >= d.OTHERS:
        if lanes == 0:
            return
        value, others = word_of(op, warp, I_A, lowest_bit(lanes)), 0
        for lane in range(32):
            if (lanes >> lane) & 1 != 0 and word_of(op, warp, I_A, lane) != value:
                others |= 1 << lane
        if at(op, I_MODE) == d.MORE_OTHERS:
            others |= at(warp, PREDICATES + at(op, I_PREDICATE_DST))
        put_all(warp + at(op, I_DST), value, FULL)
        set_predicate(op, warp, I_PREDICATE_DST, others, lanes)
        return
    row, long = row_of(op, warp, I_A), at(op, I_IS_64_BIT) != 0
    held = warp + 8 * ADDRESSES
    for lane in range(32):
        value = get32(row + 4 * lane)
        if long:
            value |= get32(row + 128 + 4 * lane) << 32
        put64(held + 8 * lane, value)
    dst, everyone, values = warp + at(op, I_DST), True, 0
    for lane in range(32):
        if (lanes >> lane) & 1 == 0:
            continue
        same = 0
        for other in range(32):
            if (lanes >> other) & 1 != 0 and get64(held + 8 * other) == get64(held + 8 * lane):
                same |= 1 << other
        if same != lanes:
            everyone = False
        if lowest_bit(same) == lane:
            values += 1
        put32(dst + 4 * lane, same)
    put(warp, PASSES, values * (2 if long else 1))
    if at(op, I_MODE) == d.SAME:
        put_all(dst, lanes if everyone else 0, lanes)
        set_predicate(op, warp, I_PREDICATE_DST, FULL if everyone else 0, lanes)


@helper
def reduce_lanes(op: int, warp: int, active: int) -> None:
    """All active lanes' values as one, in a uniform register."""
    operation, number_type = at(op, I_OPERATION), at(op, I_NUMBER_TYPE)
    rest = active & (active - 1)
    total = word_of(op, warp, I_A, lowest_bit(active))
    if number_type == d.FLOAT32:
        total = chosen_single(total, total, 0, 0)
    while rest != 0:
        value = word_of(op, warp, I_A, lowest_bit(rest))
        if number_type == d.FLOAT32:
            total = chosen_single(total, value, operation == d.MIN, at(op, I_NAN_WINS))
        else:
            total = combined(operation, number_type, total, value, 0) & 0xFFFFFFFF
        rest &= rest - 1
    put_all(warp + at(op, I_DST), total, FULL)


@helper
def chosen_single(a: int, b: int, is_least: int, nan_wins: int) -> int:
    """The lesser or the greater of two singles, of which a zero with a minus is the lesser one."""
    a_none, b_none = a & 0x7FFFFFFF > 0x7F800000, b & 0x7FFFFFFF > 0x7F800000
    if a_none or b_none:
        if nan_wins != 0 or (a_none and b_none):
            return NAN32
        return b if a_none else a
    # The bits of singles are in order as whole numbers, but for negative ones, which are in the opposite one.
    first = a ^ (0xFFFFFFFF if a >> 31 != 0 else 0x80000000)
    second = b ^ (0xFFFFFFFF if b >> 31 != 0 else 0x80000000)
    return a if (first < second) == (is_least != 0) else b


@helper
def special(op: int, warp: int, launch: int, lanes: int) -> None:
    number, dst = at(op, I_SPECIAL_REGISTER), warp + at(op, I_DST)
    if number <= 2:
        thread_index(warp, launch, number, dst, lanes)
    elif number == 6 or 10 <= number <= 14:
        for lane in range(32):
            if (lanes >> lane) & 1 != 0:
                put32(dst + 4 * lane, of_lane(number, lane))
    else:
        put_all(dst, of_warp(warp, launch, number), lanes)
    if at(op, I_WIDTH_BYTES) == 8:
        put_all(dst + 128, at(warp, CLOCK) >> 32 if number == 7 else 0, lanes)


@helper
def thread_index(warp: int, launch: int, axis: int, dst: int, lanes: int) -> None:
    """The lanes' place in their block on an axis."""
    x_size, y_size = at(launch, DIM_X), at(launch, DIM_X + 1)
    thread = at(warp, WARP_OF_BLOCK) * 32
    x, rest = thread % x_size, thread // x_size
    y, z = rest % y_size, rest // y_size
    for lane in range(32):
        if (lanes >> lane) & 1 != 0:
            put32(dst + 4 * lane, x if axis == 0 else y if axis == 1 else z)
        x += 1
        if x == x_size:
            x = 0
            y += 1
            if y == y_size:
                y = 0
                z += 1


@helper
def of_lane(number: int, lane: int) -> Any:
    if number == 6:
        return lane
    if number == 10:
        return (1 << lane) - 1
    if number == 11:
        return (2 << lane) - 1
    if number == 12:
        return FULL & ~((2 << lane) - 1)
    if number == 13:
        return FULL & ~((1 << lane) - 1)
    return 1 << lane


@helper
def of_warp(warp: int, launch: int, number: int) -> Any:
    if number <= 5:
        return at(at(warp, BLOCK), BLOCK_X + number - 3)
    if number == 7:
        return at(warp, CLOCK)
    if number == 19 or number == 20:
        nanoseconds = at(warp, CLOCK) * 1_000_000_000 // at(launch, SM_HZ)
        return nanoseconds if number == 19 else nanoseconds >> 32
    if number == 8:
        return at(warp, CLOCK) >> 32
    if number == 9:
        return at(warp, SM_ID)
    if number == 17:
        return at(launch, DIM_X)
    if number == 18:  # code takes the number of its warp from bit 8 on
        return at(warp, WARP_OF_BLOCK) << 8
    if number == 23:
        return at(warp, WARP_OF_BLOCK)
    if number == 22:
        return at(launch, SHARED_BYTES)
    if number == 15:
        return at(at(warp, BLOCK), SHARED_BASE) >> 24
    return SHARED_WINDOW if number == 24 else 0


@helper
def combine_predicates(op: int, warp: int, lanes: int) -> None:
    p, q = predicate(op, warp, I_PREDICATE_A), predicate(op, warp, I_PREDICATE_B)
    r = predicate(op, warp, I_PREDICATE_C)
    first = second = 0
    for k in range(8):
        term = (p if k & 4 else ~p) & (q if k & 2 else ~q) & (r if k & 1 else ~r)
        if (at(op, I_TRUTH_TABLE) >> k) & 1 != 0:
            first |= term
        if (at(op, I_TRUTH_TABLE_B) >> k) & 1 != 0:
            second |= term
    set_predicate(op, warp, I_PREDICATE_DST, first, lanes)
    set_predicate(op, warp, I_PREDICATE_DST_B, second, lanes)


@helper
def jump(op: int, warp: int, lanes: int, length: int) -> Any:
    """To addresses in a register; lanes with different ones part."""
    low = row_of(op, warp, I_A)
    rest, mine, first = lanes, 0, -1
    active = at(warp, ACTIVE)
    if lanes != active:
        set_aside(warp, at(warp, PC), active & ~lanes, NOT_WAITING)
    while rest != 0:
        lane = lowest_bit(rest)
        address = signed32(get32(low + 4 * lane)) + at(op, I_OFFSET_BYTES)
        target = (address >> 4) + at(op, I_BASE_INSTRUCTION)
        if address & 15 != 0 or target < 0 or target >= length:
            return fault(warp, memory_layout.BAD_TARGET, lane, address)
        same, others = 0, rest
        while others != 0:
            other = lowest_bit(others)
            others &= others - 1
            if get32(low + 4 * other) == get32(low + 4 * lane):
                same |= 1 << other
        rest &= ~same
        if first < 0:
            first, mine = target, same
        else:
            set_aside(warp, target, same, NOT_WAITING)
    put(warp, PC, first)
    put(warp, ACTIVE, mine)
    return GOES_ON


@helper
def reduce_barrier(op: int, warp: int, lanes: int) -> None:
    """What BAR.RED gathers: bits 0 to 15 the count, 16 any, 17 not all."""
    place = at(warp, BLOCK) + 8 * (
        REDUCED + (word_of(op, warp, I_A, lowest_bit(lanes)) & (BLOCK_BARRIERS - 1))
    )
    p = predicate(op, warp, I_PREDICATE_A)
    gathered = get64(place) + bits_set(p & lanes)
    if p & lanes != 0:
        gathered |= 1 << 16
    if lanes & ~p != 0:
        gathered |= 1 << 17
    gathered = (gathered & ~(3 << 20)) | (at(op, I_REDUCTION) << 20)
    put64(place, gathered)

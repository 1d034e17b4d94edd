"""What lanes tell each other, and special registers, in machine code."""

from __future__ import annotations

from typing import Any

from smlab.sim.machine_code import record
from smlab.sim.machine_code.access import combined, signed32
from smlab.sim.machine_code.limits import SHARED_WINDOW
from smlab.sim.machine_code.parts import set_aside
from smlab.sim.machine_code.record import (
    ACTIVE,
    ADDRESSES,
    BLOCK,
    BLOCK_X,
    CLOCK,
    DIM_X,
    NOT_WAITING,
    PC,
    PREDICATES,
    REDUCED,
    SHARED_BYTES,
    SM_ID,
    WARP_OF_BLOCK,
)
from smlab.sim.machine_code.words import (
    FULL,
    I_A,
    I_B,
    I_C,
    I_DST,
    I_I,
    I_J,
    I_OFFSET,
    I_P,
    I_P_XOR,
    I_PD,
    I_Q,
    I_Q_XOR,
    I_QD,
    I_UNIFORM,
    I_WIDTH,
    at,
    fault,
    get32,
    get64,
    help,
    lowest,
    ones,
    predicate,
    put,
    put32,
    put64,
    row_of,
    set_predicate,
    word_of,
)
from smlab.sim.source import GOES_ON


@help
def shuffle(op: int, warp: int, lanes: int) -> None:
    kind = at(op, I_I)
    source = row_of(op, warp, I_A)
    # The values are read before any is written: the result may be the source.
    held = warp + 8 * ADDRESSES
    for lane in range(32):
        put64(held + 8 * lane, get32(source + 4 * lane))
    dst, inside = warp + at(op, I_DST), 0
    rest = lanes
    while rest != 0:
        lane = lowest(rest)
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
    set_predicate(op, warp, I_PD, inside, lanes)


@help
def vote(op: int, warp: int, lanes: int) -> None:
    uniform = at(op, I_UNIFORM) != 0
    active = at(warp, ACTIVE)
    here = active if uniform else lanes
    p = predicate(op, warp, I_P, I_P_XOR)
    holds = p & here
    kind = at(op, I_I)
    if kind == 0:
        truth = holds != 0
    elif kind == 1:
        truth = holds == here
    else:
        truth = holds == here or holds == 0
    dst = warp + at(op, I_DST)
    for lane in range(32):
        if (lanes >> lane) & 1 != 0:
            put32(dst + 4 * lane, holds)
    set_predicate(op, warp, I_PD, FULL if truth else 0, lanes)


@help
def match(op: int, warp: int, lanes: int) -> None:
    row, long = row_of(op, warp, I_A), at(op, I_J) != 0
    held = warp + 8 * ADDRESSES
    for lane in range(32):
        value = get32(row + 4 * lane)
        if long:
            value |= get32(row + 128 + 4 * lane) << 32
        put64(held + 8 * lane, value)
    dst, everyone = warp + at(op, I_DST), True
    for lane in range(32):
        if (lanes >> lane) & 1 == 0:
            continue
        same = 0
        for other in range(32):
            if (lanes >> other) & 1 != 0 and get64(held + 8 * other) == get64(held + 8 * lane):
                same |= 1 << other
        if same != lanes:
            everyone = False
        put32(dst + 4 * lane, same)
    if at(op, I_I) != 0:
        for lane in range(32):
            if (lanes >> lane) & 1 != 0:
                put32(dst + 4 * lane, lanes if everyone else 0)
        set_predicate(op, warp, I_PD, FULL if everyone else 0, lanes)


@help
def reduce_lanes(op: int, warp: int, active: int) -> None:
    """All active lanes' values as one, in a uniform register."""
    kind, number = at(op, I_I), at(op, I_J)
    rest = active & (active - 1)
    total = word_of(op, warp, I_A, lowest(active))
    while rest != 0:
        total = combined(kind, number, total, word_of(op, warp, I_A, lowest(rest)), 0) & 0xFFFFFFFF
        rest &= rest - 1
    dst = warp + at(op, I_DST)
    for lane in range(32):
        put32(dst + 4 * lane, total)


@help
def special(op: int, warp: int, launch: int, lanes: int) -> None:
    number, dst = at(op, I_I), warp + at(op, I_DST)
    block = at(warp, BLOCK)
    width, dx = at(launch, DIM_X), at(launch, DIM_X + 1)
    for lane in range(32):
        if (lanes >> lane) & 1 == 0:
            continue
        thread = at(warp, WARP_OF_BLOCK) * 32 + lane
        value = 0
        if number == 0:
            value = thread % width
        elif number == 1:
            value = thread // width % dx
        elif number == 2:
            value = thread // (width * dx)
        elif number <= 5:
            value = at(block, BLOCK_X + number - 3)
        elif number == 6:
            value = lane
        elif number == 7:
            value = at(warp, CLOCK)
        elif number == 8:
            value = at(warp, CLOCK) >> 32
        elif number == 9:
            value = at(warp, SM_ID)
        elif number == 10:
            value = (1 << lane) - 1
        elif number == 11:
            value = (2 << lane) - 1
        elif number == 12:
            value = FULL & ~((2 << lane) - 1)
        elif number == 13:
            value = FULL & ~((1 << lane) - 1)
        elif number == 14:
            value = 1 << lane
        elif number == 17:
            value = width
        elif number == 18:
            value = at(warp, WARP_OF_BLOCK)
        elif number == 19:
            value = at(warp, CLOCK)
        elif number == 22:
            value = at(launch, SHARED_BYTES)
        elif number == 23:
            value = at(warp, WARP_OF_BLOCK)
        elif number == 24:
            value = SHARED_WINDOW
        put32(dst + 4 * lane, value)
        if at(op, I_WIDTH) == 8:
            put32(dst + 128 + 4 * lane, at(warp, CLOCK) >> 32 if number == 7 else 0)


@help
def combine_predicates(op: int, warp: int, lanes: int) -> None:
    p, q = predicate(op, warp, I_P, I_P_XOR), predicate(op, warp, I_Q, I_Q_XOR)
    r = at(warp, PREDICATES + at(op, I_WIDTH)) ^ at(op, I_OFFSET)
    first = second = 0
    for k in range(8):
        term = (p if k & 4 else ~p) & (q if k & 2 else ~q) & (r if k & 1 else ~r)
        if (at(op, I_I) >> k) & 1 != 0:
            first |= term
        if (at(op, I_J) >> k) & 1 != 0:
            second |= term
    set_predicate(op, warp, I_PD, first, lanes)
    set_predicate(op, warp, I_QD, second, lanes)


@help
def jump(op: int, warp: int, lanes: int, length: int) -> Any:
    """To addresses in a register; lanes with different ones part."""
    low = row_of(op, warp, I_A)
    rest, mine, first = lanes, 0, -1
    active = at(warp, ACTIVE)
    if lanes != active:
        set_aside(warp, at(warp, PC), active & ~lanes, NOT_WAITING)
    while rest != 0:
        lane = lowest(rest)
        address = signed32(get32(low + 4 * lane)) + at(op, I_OFFSET)
        target = (address >> 4) + at(op, I_I)
        if address & 15 != 0 or target < 0 or target >= length:
            return fault(warp, record.BAD_TARGET, lane, address)
        same, others = 0, rest
        while others != 0:
            other = lowest(others)
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


@help
def reduce_barrier(op: int, warp: int, lanes: int) -> None:
    """What BAR.RED gathers: bits 0 to 15 the count, 16 any, 17 not all."""
    block = at(warp, BLOCK)
    p = predicate(op, warp, I_P, I_P_XOR)
    gathered = at(block, REDUCED) + ones(p & lanes)
    if p & lanes != 0:
        gathered |= 1 << 16
    if lanes & ~p != 0:
        gathered |= 1 << 17
    gathered = (gathered & ~(3 << 20)) | (at(op, I_J) << 20)
    put(block, REDUCED, gathered)

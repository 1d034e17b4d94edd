"""One instruction of one warp in machine code: what is not a vector operation, and the parts of a diverged warp.

Everything is reached by address: the micro-operation, the warp, its block, the launch (see `record`). Addresses of lanes
are tested against the allocations before anything is read or written.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit, types
from smlab.sim.machine_code import decode as d
from smlab.sim.machine_code import meanings, record
from smlab.sim.machine_code.limits import SHARED_WINDOW, TURNS
from smlab.sim.machine_code.record import (
    ACTIVE,
    ADDRESSES,
    ALLOCATION_TABLE,
    ALLOCATIONS,
    AT_BLOCK_BARRIER,
    AT_WARP_SYNC,
    BANK_TABLE,
    BARRIERS,
    BLOCK,
    BLOCK_X,
    CHECK_SHARED,
    CLOCK,
    DEADLOCK,
    DIM_X,
    DIVERGED_BARRIER,
    FAULT,
    FAULT_ADDRESS,
    FAULT_LANE,
    FINE,
    GRID_X,
    LANES,
    LAST_ALLOCATION,
    LIVE,
    LOCAL,
    LOCAL_BYTES,
    LOST,
    MISALIGNED,
    NOT_WAITING,
    OUT_OF_BOUNDS,
    PART_MASK,
    PART_PC,
    PART_WAIT,
    PARTS,
    PATIENCE,
    PC,
    PREDICATES,
    REDUCED,
    RESULT,
    SCRATCH,
    SHARED,
    SHARED_BYTES,
    SHARED_FIRST,
    SHARED_KNOWN,
    SM_ID,
    UNINITIALISED,
    WARP_OF_BLOCK,
    WORDS,
)
from smlab.sim.source import ARRIVES, EXITS, FAULTS, GOES_ON
from smlab.sim.machine_code.vectors import execute_vector, intrinsic

WORD, HALF, BYTE, SHORT = ir.IntType(64), ir.IntType(32), ir.IntType(8), ir.IntType(16)
FULL = 0xFFFFFFFF
VECTOR_CODES = meanings.VECTOR_CODES

_P = record.PLACE
(I_GUARD, I_GUARD_XOR, I_UNIFORM, I_DST, I_A, I_A_REG, I_B, I_B_REG, I_C, I_C_REG) = (
    _P[n] for n in ("guard", "guard_xor", "uniform", "dst", "a", "a_reg", "b", "b_reg", "c", "c_reg"))  # fmt: skip
(I_CODE, I_P, I_P_XOR, I_Q, I_Q_XOR, I_PD, I_QD, I_I, I_J, I_K, I_WIDTH, I_OFFSET) = (
    _P[n] for n in ("code", "p", "p_xor", "q", "q_xor", "pd", "qd", "i", "j", "k", "width", "offset"))  # fmt: skip
I_A_AND, I_A_XOR, I_A_ADD = _P["a_and"], _P["a_xor"], _P["a_add"]
I_C_AND, I_C_XOR, I_C_ADD = _P["c_and"], _P["c_xor"], _P["c_add"]
I_B_XOR, I_B_ADD = _P["b_xor"], _P["b_add"]


def _reader(width: Any, extend: str) -> Any:
    @intrinsic
    def read(typing_context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            loaded = builder.load(builder.inttoptr(arguments[0], width.as_pointer()))
            loaded.align = 1
            return loaded if width is WORD else getattr(builder, extend)(loaded, WORD)

        return types.int64(types.int64), generate

    return read


def _writer(width: Any) -> Any:
    @intrinsic
    def write(typing_context: Any, address: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            value = arguments[1] if width is WORD else builder.trunc(arguments[1], width)
            builder.store(value, builder.inttoptr(arguments[0], width.as_pointer())).align = 1
            return context.get_dummy_value()

        return types.none(types.int64, types.int64), generate

    return write


get8, get16, get32, get64 = (_reader(w, "zext") for w in (BYTE, SHORT, HALF, WORD))
get8s, get16s, get32s = (_reader(w, "sext") for w in (BYTE, SHORT, HALF))
put8, put16, put32, put64 = (_writer(w) for w in (BYTE, SHORT, HALF, WORD))


@intrinsic
def ones(typing_context: Any, mask: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.int64), generate


@intrinsic
def lowest(typing_context: Any, mask: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.int64), generate


@intrinsic
def add_singles(typing_context: Any, a: Any, b: Any) -> Any:
    """The sum of two singles, as bits."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FloatType()
        x, y = (builder.bitcast(builder.trunc(v, HALF), kind) for v in arguments)
        total = builder.fadd(x, y)
        bits = builder.bitcast(total, HALF)
        nan = ir.Constant(HALF, meanings.NAN32)
        bits = builder.select(builder.fcmp_unordered("uno", total, total), nan, bits)
        return builder.zext(bits, WORD)

    return types.int64(types.int64, types.int64), generate


@intrinsic
def add_doubles(typing_context: Any, a: Any, b: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.DoubleType()
        x, y = (builder.bitcast(v, kind) for v in arguments)
        total = builder.fadd(x, y)
        nan = ir.Constant(WORD, meanings.NAN64)
        return builder.select(builder.fcmp_unordered("uno", total, total), nan, builder.bitcast(total, WORD))

    return types.int64(types.int64, types.int64), generate


def _help(function: Any) -> Any:
    return njit(nogil=True, error_model="numpy")(function)


@_help
def at(base: int, word: int) -> int:
    return get64(base + 8 * word)


@_help
def put(base: int, word: int, value: int) -> None:
    put64(base + 8 * word, value)


@_help
def predicate(op: int, warp: int, place: int, flip: int) -> int:
    return at(warp, PREDICATES + at(op, place)) ^ at(op, flip)


@_help
def set_predicate(op: int, warp: int, place: int, value: int, lanes: int) -> None:
    word = PREDICATES + at(op, place)
    put(warp, word, (at(warp, word) & ~lanes) | (value & lanes))


@_help
def row_of(op: int, warp: int, name: int) -> int:
    """The address of a source's row; its ``_reg`` word follows."""
    return at(op, name) + (warp & at(op, name + 1))


@_help
def word_of(op: int, warp: int, name: int, lane: int) -> int:
    value = get32(row_of(op, warp, name) + 4 * lane)
    return (((value & at(op, name + 2)) ^ at(op, name + 3)) + at(op, name + 4)) & 0xFFFFFFFF


@_help
def fault(warp: int, kind: int, lane: int, address: int) -> int:
    put(warp, FAULT, kind)
    put(warp, FAULT_LANE, lane)
    put(warp, FAULT_ADDRESS, address)
    return FAULTS


# The parts of a diverged warp


@_help
def set_aside(warp: int, pc: int, mask: int, wait: int) -> None:
    n = at(warp, PARTS)
    put(warp, PART_PC + n, pc)
    put(warp, PART_MASK + n, mask)
    put(warp, PART_WAIT + n, wait)
    put(warp, PARTS, n + 1)


@_help
def take_out(warp: int, n: int) -> None:
    """Remove part ``n``; the others keep their order."""
    count = at(warp, PARTS) - 1
    for k in range(n, count):
        put(warp, PART_PC + k, at(warp, PART_PC + k + 1))
        put(warp, PART_MASK + k, at(warp, PART_MASK + k + 1))
        put(warp, PART_WAIT + k, at(warp, PART_WAIT + k + 1))
    put(warp, PARTS, count)


@_help
def resume(warp: int) -> int:
    """Let the part that has waited longest and can run, run; else say what the warp as a whole does."""
    count = at(warp, PARTS)
    for n in range(count):
        if at(warp, PART_WAIT + n) == NOT_WAITING:
            put(warp, PC, at(warp, PART_PC + n))
            put(warp, ACTIVE, at(warp, PART_MASK + n))
            put(warp, PATIENCE, TURNS)
            take_out(warp, n)
            return GOES_ON
    put(warp, ACTIVE, 0)
    if count == 0:
        return EXITS
    waiting = 0
    for n in range(count):
        if at(warp, PART_WAIT + n) == AT_BLOCK_BARRIER:
            waiting |= at(warp, PART_MASK + n)
    if waiting == at(warp, LIVE):
        return ARRIVES
    stuck = at(warp, LIVE) & ~waiting
    put(warp, PC, at(warp, PART_PC))
    return fault(warp, DIVERGED_BARRIER if waiting != 0 else DEADLOCK, lowest(stuck), 0)


@_help
def others_ready(warp: int) -> bool:
    for n in range(at(warp, PARTS)):
        if at(warp, PART_WAIT + n) == NOT_WAITING:
            return True
    return False


@_help
def gather(warp: int, wait: int, wanted: int, here: int) -> bool:
    """Whether the lanes of ``wanted`` that live all wait with ``wait`` or are ``here``; those that waited are then out."""
    arrived, count = here, at(warp, PARTS)
    for n in range(count):
        if at(warp, PART_WAIT + n) == wait and at(warp, PART_MASK + n) & ~wanted == 0:
            arrived |= at(warp, PART_MASK + n)
    if wanted & at(warp, LIVE) & ~arrived != 0:
        return False
    n = 0
    while n < at(warp, PARTS):
        if at(warp, PART_WAIT + n) == wait and at(warp, PART_MASK + n) & ~wanted == 0:
            take_out(warp, n)
        else:
            n += 1
    return True


@_help
def settle(warp: int) -> None:
    """After lanes left: parts whose barrier has all its lanes now may go on, as one."""
    n = 0
    while n < at(warp, PARTS):
        wait = at(warp, PART_WAIT + n)
        if 0 <= wait < 16:
            mask, pc = at(warp, PART_MASK + n), at(warp, PART_PC + n)
            wanted = barrier_mask(warp, wait, lowest(mask)) & at(warp, LIVE)
            if gather(warp, wait, wanted, 0):
                set_aside(warp, pc, wanted, NOT_WAITING)
                n = 0
                continue
        elif wait >= AT_WARP_SYNC:
            wanted = wait - AT_WARP_SYNC
            mask, pc = at(warp, PART_MASK + n), at(warp, PART_PC + n)
            if gather(warp, wait, wanted, 0):
                set_aside(warp, pc, wanted & at(warp, LIVE), NOT_WAITING)
                n = 0
                continue
        n += 1


@_help
def barrier_mask(warp: int, barrier: int, lane: int) -> int:
    return get32(warp + BARRIER_ROWS + barrier * 128 + 4 * lane)


@_help
def set_barrier(warp: int, barrier: int, lanes: int, mask: int) -> None:
    rest = lanes
    while rest != 0:
        put32(warp + BARRIER_ROWS + barrier * 128 + 4 * lowest(rest), mask)
        rest &= rest - 1


BARRIER_ROWS = record.barrier_at(0)
_ = BARRIERS


@_help
def leave(warp: int, lanes: int) -> int:
    """These lanes exit."""
    put(warp, LIVE, at(warp, LIVE) & ~lanes)
    rest = at(warp, ACTIVE) & ~lanes
    put(warp, ACTIVE, rest)
    settle(warp)
    return GOES_ON if rest != 0 else resume(warp)


@_help
def branch(warp: int, taken: int, target: int, here: int) -> int:
    """The lanes ``taken`` go to ``target``, the others on; both parts remain if both have lanes."""
    active = at(warp, ACTIVE)
    if taken == active:
        put(warp, PC, target)
    elif taken != 0:
        set_aside(warp, target, taken, NOT_WAITING)
        put(warp, ACTIVE, active & ~taken)
    if taken != 0 and target <= here and at(warp, PARTS) != 0:
        patience = at(warp, PATIENCE) - 1
        put(warp, PATIENCE, patience)
        if patience <= 0 and others_ready(warp):
            return rotate(warp)
    return GOES_ON


@_help
def rotate(warp: int) -> int:
    """The running part goes behind the others."""
    if not others_ready(warp):
        return GOES_ON
    set_aside(warp, at(warp, PC), at(warp, ACTIVE), NOT_WAITING)
    return resume(warp)


@_help
def open_barrier(warp: int) -> None:
    """The block's barrier has opened: the parts that waited go on, those at one place as one."""
    block = at(warp, BLOCK)
    if at(block, REDUCED) != 0:
        put(block, RESULT, at(block, REDUCED))
        put(block, REDUCED, 0)
    n = 0
    while n < at(warp, PARTS):
        if at(warp, PART_WAIT + n) == AT_BLOCK_BARRIER:
            put(warp, PART_WAIT + n, NOT_WAITING)
            k = n + 1
            while k < at(warp, PARTS):
                if at(warp, PART_WAIT + k) == AT_BLOCK_BARRIER and at(warp, PART_PC + k) == at(
                    warp, PART_PC + n
                ):
                    put(warp, PART_MASK + n, at(warp, PART_MASK + n) | at(warp, PART_MASK + k))
                    take_out(warp, k)
                else:
                    k += 1
        n += 1
    resume(warp)


# Memory


@_help
def lane_addresses(op: int, warp: int, lanes: int) -> None:
    """The byte addresses of the lanes into the warp's words."""
    a, b, kind = row_of(op, warp, I_A), row_of(op, warp, I_B), at(op, I_J)
    shift, offset = at(op, I_PD), at(op, I_OFFSET)
    out = warp + 8 * ADDRESSES
    if kind == 0:
        for lane in range(32):
            put64(
                out + 8 * lane, ((get32(a + 4 * lane) << shift) + get32(b + 4 * lane) + offset) & 0xFFFFFFFF
            )
    elif kind == 1:
        uniform = get32(b) | (get32(b + 128) << 32)
        for lane in range(32):
            put64(
                out + 8 * lane, (get32(a + 4 * lane) | (get32(a + 128 + 4 * lane) << 32)) + uniform + offset
            )
    else:
        uniform = get32(b) | (get32(b + 128) << 32)
        for lane in range(32):
            put64(out + 8 * lane, get32(a + 4 * lane) + uniform + offset)


@_help
def translate(launch: int, address: int, size: int) -> int:
    """Where a global address lies here; 0 if it lies in no allocation, or not whole."""
    table = at(launch, ALLOCATION_TABLE)
    last = table + 24 * at(launch, LAST_ALLOCATION)
    if get64(last) <= address and address + size <= get64(last + 8):
        return get64(last + 16) + address - get64(last)
    for n in range(at(launch, ALLOCATIONS)):
        row = table + 24 * n
        if get64(row) <= address and address + size <= get64(row + 8):
            put(launch, LAST_ALLOCATION, n)
            return get64(row + 16) + address - get64(row)
    return 0


@_help
def place_of(warp: int, launch: int, space: int, lane: int, address: int, size: int) -> int:
    """Where a lane's address lies here, tested; 0 after a fault."""
    if address & (size - 1) != 0:
        fault(warp, MISALIGNED, lane, address)
        return 0
    if space == d.GLOBAL:
        found = translate(launch, address, size)
        if found == 0:
            fault(warp, OUT_OF_BOUNDS, lane, address)
        return found
    if space == d.SHARED:
        inside = address - at(launch, SHARED_FIRST)
        if inside < 0 or inside + size > at(launch, SHARED_BYTES):
            fault(warp, OUT_OF_BOUNDS, lane, address)
            return 0
        return at(at(warp, BLOCK), SHARED) + inside
    if address < 0 or address + size > at(launch, LOCAL_BYTES):
        fault(warp, OUT_OF_BOUNDS, lane, address)
        return 0
    thread = at(warp, WARP_OF_BLOCK) * 32 + lane
    return at(at(warp, BLOCK), LOCAL) + thread * at(launch, LOCAL_BYTES) + address


@_help
def is_known(warp: int, launch: int, lane: int, address: int, size: int) -> bool:
    """Whether a place of shared memory has been written; a fault if not and that is asked."""
    if at(launch, CHECK_SHARED) == 0:
        return True
    known = at(at(warp, BLOCK), SHARED_KNOWN)
    first = (address - at(launch, SHARED_FIRST)) >> 2
    for word in range(first, first + (size + 3) // 4):
        if get8(known + word) == 0:
            fault(warp, UNINITIALISED, lane, address)
            return False
    return True


@_help
def make_known(warp: int, launch: int, address: int, size: int) -> None:
    if at(launch, CHECK_SHARED) == 0:
        return
    known = at(at(warp, BLOCK), SHARED_KNOWN)
    first = (address - at(launch, SHARED_FIRST)) >> 2
    for word in range(first, first + (size + 3) // 4):
        put8(known + word, 1)


@_help
def real_space(op: int, warp: int, lanes: int) -> int:
    """The space of an access; of a generic one, by the address of its first lane, which loses the window's high word."""
    space = at(op, I_K)
    if space != d.GENERIC:
        return space
    out = warp + 8 * ADDRESSES
    if get64(out + 8 * lowest(lanes)) >> 32 != SHARED_WINDOW:
        return d.GLOBAL
    for lane in range(32):
        put64(out + 8 * lane, get64(out + 8 * lane) & 0xFFFFFFFF)
    return d.SHARED


@_help
def unit_stride(warp: int, lanes: int, width: int) -> bool:
    """Whether the lanes, all 32, ask for consecutive places."""
    if lanes != FULL:
        return False
    out = warp + 8 * ADDRESSES
    first = get64(out)
    odd = 0
    for lane in range(32):
        odd |= (get64(out + 8 * lane) - width * lane) ^ first
    return odd == 0


@_help
def load(op: int, warp: int, launch: int, lanes: int) -> int:
    lane_addresses(op, warp, lanes)
    width, signed = at(op, I_WIDTH), at(op, I_I)
    space = real_space(op, warp, lanes)
    out, dst = warp + 8 * ADDRESSES, warp + at(op, I_DST)
    first = get64(out)
    if width == 4 and space != d.LOCAL and unit_stride(warp, lanes, 4) and first & 3 == 0:
        base = 0
        if space == d.GLOBAL:
            base = translate(launch, first, 128)
        elif first >= at(launch, SHARED_FIRST) and first + 128 <= at(launch, SHARED_FIRST) + at(
            launch, SHARED_BYTES
        ):
            base = at(at(warp, BLOCK), SHARED) + first - at(launch, SHARED_FIRST)
            if at(launch, CHECK_SHARED) != 0:
                known = at(at(warp, BLOCK), SHARED_KNOWN) + ((first - at(launch, SHARED_FIRST)) >> 2)
                if (
                    get64(known) & get64(known + 8) & get64(known + 16) & get64(known + 24)
                    != 0x0101010101010101
                ):
                    base = 0
        if base != 0:
            for lane in range(32):
                put32(dst + 4 * lane, get32(base + 4 * lane))
            return GOES_ON
    rest = lanes
    while rest != 0:
        lane = lowest(rest)
        rest &= rest - 1
        address = get64(out + 8 * lane)
        place = place_of(warp, launch, space, lane, address, width)
        if place == 0:
            return FAULTS
        if space == d.SHARED and not is_known(warp, launch, lane, address, width):
            return FAULTS
        to = dst + 4 * lane
        if width == 4:
            put32(to, get32(place))
        elif width == 1:
            put32(to, get8s(place) if signed != 0 else get8(place))
        elif width == 2:
            put32(to, get16s(place) if signed != 0 else get16(place))
        else:
            for word in range(width // 4):
                put32(to + 128 * word, get32(place + 4 * word))
    return GOES_ON


@_help
def store(op: int, warp: int, launch: int, lanes: int) -> int:
    lane_addresses(op, warp, lanes)
    width = at(op, I_WIDTH)
    space = real_space(op, warp, lanes)
    out, source = warp + 8 * ADDRESSES, row_of(op, warp, I_C)
    rest = lanes
    while rest != 0:
        lane = lowest(rest)
        rest &= rest - 1
        address = get64(out + 8 * lane)
        place = place_of(warp, launch, space, lane, address, width)
        if place == 0:
            return FAULTS
        if space == d.SHARED:
            make_known(warp, launch, address, width)
        value = get32(source + 4 * lane)
        if width == 4:
            put32(place, value)
        elif width == 1:
            put8(place, value)
        elif width == 2:
            put16(place, value)
        else:
            for word in range(width // 4):
                put32(place + 4 * word, get32(source + 128 * word + 4 * lane))
    return GOES_ON


@_help
def signed32(value: int) -> int:
    return value - (1 << 32) if value >= 1 << 31 else value


@_help
def less(kind: int, a: int, b: int) -> bool:
    if kind == d.S32:
        return signed32(a) < signed32(b)
    if kind == d.S64:
        return a < b
    if kind == d.U64:
        return (a ^ (-1 << 63)) < (b ^ (-1 << 63))
    return a < b


@_help
def combined(operation: int, kind: int, old: int, value: int, compared: int) -> int:
    """What an atomic leaves in memory."""
    if operation == d.ADD:
        if kind == d.FLOAT32:
            return add_singles(old, value)
        if kind == d.FLOAT64:
            return add_doubles(old, value)
        return old + value
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
    return value if old == compared else old


@_help
def atomic(op: int, warp: int, launch: int, lanes: int) -> int:
    lane_addresses(op, warp, lanes)
    width, operation, kind = at(op, I_WIDTH), at(op, I_I), at(op, I_P)
    space = real_space(op, warp, lanes)
    out, dst = warp + 8 * ADDRESSES, warp + at(op, I_DST)
    source = row_of(op, warp, I_C)
    new = at(op, I_Q) + (warp & at(op, I_Q_XOR))
    swaps = operation == d.SWAP or operation == d.SPIN
    rest = lanes
    while rest != 0:
        lane = lowest(rest)
        rest &= rest - 1
        address = get64(out + 8 * lane)
        place = place_of(warp, launch, space, lane, address, width)
        if place == 0:
            return FAULTS
        if space == d.SHARED:
            if not is_known(warp, launch, lane, address, width):
                return FAULTS
            make_known(warp, launch, address, width)
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
        put32(dst + 4 * lane, old)
        if width == 8 and operation != d.SPIN:
            put32(dst + 128 + 4 * lane, old >> 32)
    return GOES_ON


@_help
def load_constant(op: int, warp: int, launch: int, lanes: int) -> int:
    table = at(launch, BANK_TABLE) + 16 * at(op, I_I)
    row, dst, width = row_of(op, warp, I_A), warp + at(op, I_DST), at(op, I_WIDTH)
    rest = lanes
    while rest != 0:
        lane = lowest(rest)
        rest &= rest - 1
        address = (get32(row + 4 * lane) + at(op, I_OFFSET)) & 0xFFFFFFFF
        if address & (min(width, 4) - 1) != 0:
            return fault(warp, MISALIGNED, lane, address)
        if address + width > get64(table + 8):
            return fault(warp, OUT_OF_BOUNDS, lane, address)
        place = get64(table) + address
        if width == 1:
            put32(dst + 4 * lane, get8s(place) if at(op, I_J) != 0 else get8(place))
        elif width == 2:
            put32(dst + 4 * lane, get16s(place) if at(op, I_J) != 0 else get16(place))
        else:
            for word in range(width // 4):
                put32(dst + 4 * lane + 128 * word, get32(place + 4 * word))
    return GOES_ON


@_help
def bank_passes(op: int, warp: int, launch: int) -> int:
    """Passes over the banks that the last instruction's addresses need.

    The most distinct words on one bank, or, of an atomic, the most lanes; wide accesses go by halves and quarters of the
    warp, each of which asks for all its words.
    """
    out, lanes, width = warp + 8 * ADDRESSES, at(warp, LANES), at(op, I_WIDTH)
    if lanes == 0:
        return 1
    if width <= 4 and unit_stride(warp, lanes, 4):
        return 1
    merges = at(op, I_CODE) != d.ATOMIC or at(op, I_I) == d.COUNT
    words = max(1, width // 4)
    share, total = 32 // words, 0
    counts = at(launch, SCRATCH)
    table = counts + 8 * 32
    for part in range(words):
        for bank in range(32):
            put(counts, bank, 0)
        most = 0
        rest = lanes & ((FULL >> (32 - share)) << (part * share))
        while rest != 0:
            lane = lowest(rest)
            rest &= rest - 1
            first = get64(out + 8 * lane) >> 2
            for word in range(first, first + words):
                bank = word & 31
                count, known = at(counts, bank), False
                if merges:
                    for k in range(count):
                        if at(table, bank * 32 + k) == word:
                            known = True
                if not known:
                    put(table, bank * 32 + (count & 31), word)
                    put(counts, bank, count + 1)
                    most = max(most, count + 1)
        total += most
    return max(1, total)


# Between lanes


@_help
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


@_help
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


@_help
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


@_help
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


@_help
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


@_help
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


@_help
def jump(op: int, warp: int, lanes: int, length: int) -> int:
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


@_help
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


@_help
def execute_other(op: int, warp: int, launch: int, lanes: int, code: int, length: int) -> int:
    here = at(warp, PC) - 1
    if code == d.NOP:
        return GOES_ON
    if code == d.BRANCH:
        taken = lanes & predicate(op, warp, I_P, I_P_XOR)
        return branch(warp, taken, at(op, I_I), here)
    if code == d.LOAD:
        return load(op, warp, launch, lanes) if lanes != 0 else GOES_ON
    if code == d.STORE:
        return store(op, warp, launch, lanes) if lanes != 0 else GOES_ON
    if code == d.ATOMIC:
        return atomic(op, warp, launch, lanes) if lanes != 0 else GOES_ON
    if code == d.EXIT:
        gone = lanes & predicate(op, warp, I_P, I_P_XOR)
        return leave(warp, gone) if gone != 0 else GOES_ON
    if code == d.BSSY:
        set_barrier(warp, at(op, I_J), lanes, lanes)
        return GOES_ON
    if code == d.BSYNC:
        here_now = lanes & predicate(op, warp, I_P, I_P_XOR)
        if here_now == 0:
            return GOES_ON
        if here_now != at(warp, ACTIVE):
            set_aside(warp, at(warp, PC), at(warp, ACTIVE) & ~here_now, NOT_WAITING)
            put(warp, ACTIVE, here_now)
        wanted = barrier_mask(warp, at(op, I_J), lowest(here_now)) & at(warp, LIVE)
        wanted |= here_now
        if gather(warp, at(op, I_J), wanted, here_now):
            put(warp, ACTIVE, wanted)
            return GOES_ON
        set_aside(warp, at(warp, PC), here_now, at(op, I_J))
        return resume(warp)
    if code == d.BREAK:
        gone = lanes & predicate(op, warp, I_P, I_P_XOR)
        if gone != 0:
            wanted = barrier_mask(warp, at(op, I_J), lowest(gone))
            set_barrier(warp, at(op, I_J), wanted, wanted & ~gone)
            settle(warp)
        return GOES_ON
    if code == d.WARPSYNC:
        if lanes == 0:
            return GOES_ON
        wanted = word_of(op, warp, I_A, lowest(lanes)) | lanes
        if gather(warp, AT_WARP_SYNC + wanted, wanted, lanes):
            put(warp, ACTIVE, wanted & at(warp, LIVE))
            return GOES_ON
        set_aside(warp, at(warp, PC), lanes, AT_WARP_SYNC + wanted)
        return resume(warp)
    if code == d.BARRIER:
        if lanes == 0:
            return GOES_ON
        if at(op, I_I) != 0:
            reduce_barrier(op, warp, lanes)
        if lanes != at(warp, ACTIVE):
            set_aside(warp, at(warp, PC), at(warp, ACTIVE) & ~lanes, NOT_WAITING)
        set_aside(warp, at(warp, PC), lanes, AT_BLOCK_BARRIER)
        return resume(warp)
    if code == d.YIELD:
        return rotate(warp)
    if code == d.SPECIAL:
        special(op, warp, launch, lanes)
    elif code == d.SHUFFLE:
        shuffle(op, warp, lanes)
    elif code == d.VOTE:
        vote(op, warp, lanes)
    elif code == d.MATCH:
        match(op, warp, lanes)
    elif code == d.REDUCE:
        reduce_lanes(op, warp, at(warp, ACTIVE))
    elif code == d.LOAD_CONSTANT:
        return load_constant(op, warp, launch, lanes)
    elif code == d.PLOP3:
        combine_predicates(op, warp, lanes)
    elif code == d.BRANCH_SPLIT:
        wanted = word_of(op, warp, I_A, lowest(lanes)) & at(warp, LIVE)
        together = at(warp, ACTIVE) & wanted == wanted
        if lanes != 0 and together != (at(op, I_J) != 0):
            put(warp, PC, at(op, I_I))
    elif code == d.JUMP:
        return jump(op, warp, lanes, length) if lanes != 0 else GOES_ON
    elif code == d.R2P:
        for lane in range(32):
            if (lanes >> lane) & 1 != 0:
                value, which = word_of(op, warp, I_A, lane), word_of(op, warp, I_B, lane)
                for p in range(7):
                    if (which >> p) & 1 != 0:
                        word = PREDICATES + p
                        bit = 1 << lane
                        put(warp, word, (at(warp, word) & ~bit) | (bit if (value >> p) & 1 != 0 else 0))
    elif code == d.P2R:
        for lane in range(32):
            if (lanes >> lane) & 1 != 0:
                value = 0
                for p in range(7):
                    value |= ((at(warp, PREDICATES + p) >> lane) & 1) << p
                which = word_of(op, warp, I_B, lane)
                kept = word_of(op, warp, I_A, lane) & ~which
                put32(warp + at(op, I_DST) + 4 * lane, kept | (value & which))
    elif code == d.BARRIER_RESULT:
        gathered = at(at(warp, BLOCK), RESULT)
        kind = (gathered >> 20) & 3
        truth = gathered & 0xFFFF
        if kind == 1:
            truth = 1 - ((gathered >> 17) & 1)
        elif kind == 2:
            truth = (gathered >> 16) & 1
        if kind != 0:
            truth = FULL if truth != 0 else 0
        for lane in range(32):
            if (lanes >> lane) & 1 != 0:
                put32(warp + at(op, I_DST) + 4 * lane, truth)
        set_predicate(op, warp, I_PD, FULL if truth != 0 else 0, lanes)
    elif code == d.BMOV_OUT:
        for lane in range(32):
            if (lanes >> lane) & 1 != 0:
                put32(warp + at(op, I_DST) + 4 * lane, barrier_mask(warp, at(op, I_J), lane))
        if at(op, I_I) != 0:
            set_barrier(warp, at(op, I_J), lanes, 0)
    elif code == d.BMOV_IN:
        for lane in range(32):
            if (lanes >> lane) & 1 != 0:
                put32(warp + BARRIER_ROWS + at(op, I_J) * 128 + 4 * lane, word_of(op, warp, I_A, lane))
    else:
        return fault(warp, LOST, 0, 0)
    return GOES_ON


@_help
def execute(ops: int, warp: int, launch: int, length: int) -> int:
    """Execute the next instruction of a warp; what it leaves the warp with."""
    pc = at(warp, PC)
    op = ops + pc * (8 * WORDS)
    active = at(warp, ACTIVE)
    guard = at(warp, PREDICATES + at(op, I_GUARD)) ^ at(op, I_GUARD_XOR)
    lanes = active & guard
    code = at(op, I_CODE)
    if at(op, I_UNIFORM) != 0:
        lanes = FULL if (guard & active) != 0 else 0
    put(warp, LANES, lanes)
    put(warp, PC, pc + 1)
    if code < VECTOR_CODES:
        execute_vector(op, warp, lanes)
        return GOES_ON
    return execute_other(op, warp, launch, lanes, code, length)


_ = FINE, GRID_X

"""Products of matrices on tensor cores, and moving matrices between registers and shared memory, in machine
code; see `smlab.sim.isa.meanings.products.tensor`."""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir
from numba import types

from smlab.sim.compiled.jit import bits_set, helper, intrinsic
from smlab.sim.instruction_source import FAULTS, GOES_ON
from smlab.sim.isa import matrix_products as mp
from smlab.sim.isa import operation_codes as d
from smlab.sim.isa.meanings.rounding import NAN16, NAN32, NAN64
from smlab.sim.isa.memory.access import lane_addresses, lanes_known, make_known, note_unwritten, place_of
from smlab.sim.isa.memory_layout import ADDRESSES, CHECK_SHARED, ROW_BYTES, SCRATCH
from smlab.sim.isa.vectors.products.tensor_vectors import (
    NOT_A_NUMBER,
    SPECIAL,
    add_group,
    unpack_columns_1,
    unpack_columns_2,
    unpack_columns_4,
    unpack_rows_1,
    unpack_rows_2,
    unpack_rows_4,
)
from smlab.sim.isa.vectors.word_access import (
    FULL,
    I_A,
    I_A_BY_COLUMNS,
    I_B,
    I_B_BY_ROWS,
    I_B_ELEMENT_TYPE,
    I_B_IS_SIGNED,
    I_C,
    I_DST,
    I_ELEMENT_TYPE,
    I_FRACTION_BITS,
    I_GROUP,
    I_IS_SIGNED,
    I_K_STEPS,
    I_MATRICES,
    I_ROW_GROUPS,
    I_STEP,
    I_SUM_TYPE,
    I_TRANSPOSED,
    I_ZERO_EXPONENT,
    WORD,
    at,
    get16,
    get32,
    get32s,
    get64,
    put,
    put16,
    put32,
    row_of,
)

_DOUBLE = ir.DoubleType()
_IEEE, _NAN, _FINITE = 0, 1, 2
_LARGEST: Final = {"ieee": _IEEE, "nan": _NAN, "finite": _FINITE}
_FRACTION_BITS = tuple(f.fraction_bits for f in mp.FORMATS.values())
# By element type, a byte each: where its bits begin, bits of the exponent and of the fraction, what the
# largest exponent is.
_SHAPES = tuple(
    f.shift | f.exponent_bits << 8 | f.fraction_bits << 16 | _LARGEST[f.largest] << 24
    for f in mp.FORMATS.values()
)
_PER_REGISTER = tuple(mp.PER_REGISTER[element] for element in range(len(mp.PER_REGISTER)))
# The places of numbers of 32 bits: the first matrix's 16 x 32 significands, the second's 8 x 32, exponents.
SECOND_AT = 4 * 512
EXPONENTS_AT = 4 * (512 + 256)
_SUMS_AT = 2 * EXPONENTS_AT  # the sums before, as the lanes have them, and those of a row
_ROW_SUMS_AT = _SUMS_AT + 4 * ROW_BYTES
TILES_AT = _ROW_SUMS_AT + 32  # registers of the two matrices of a product by a group of warps
_LACKING = {mp.SINGLE_SUM: 52 - 23, mp.SHORT_SUM: 52 - mp.SHORT_SUM_BITS}
_LACKING_DIGITS = tuple(_LACKING.get(total, 0) for total in range(6))


@intrinsic
def fused_doubles(typing_context: Any, a: Any, b: Any, c: Any) -> Any:
    """The fused multiply-add of three doubles, as bits."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        x, y, z = (builder.bitcast(value, _DOUBLE) for value in arguments)
        total = builder.fma(x, y, z)
        nan = ir.Constant(WORD, NAN64)
        return builder.select(builder.fcmp_unordered("uno", total, total), nan, builder.bitcast(total, WORD))

    return types.int64(types.int64, types.int64, types.int64), generate


@intrinsic
def highest_bit(typing_context: Any, value: Any) -> Any:
    """The index of the highest bit that is set, of a number above 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        zeros = builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 1))
        return builder.sub(ir.Constant(WORD, 63), zeros)

    return types.int64(types.int64), generate


@helper
def unpack_float(bits: int, exponent_bits: int, digits: int, largest: int) -> Any:
    """A number's significand, with its sign, and its exponent."""
    top = (1 << exponent_bits) - 1
    fraction, exponent = bits & ((1 << digits) - 1), (bits >> digits) & top
    minus = (bits >> (digits + exponent_bits)) & 1
    bias = top >> 1
    size = fraction
    if exponent == 0:
        exponent = 1 - bias
    elif exponent == top and largest != _FINITE and (largest == _IEEE or fraction == (1 << digits) - 1):
        size = 1 if fraction == 0 and largest == _IEEE else NOT_A_NUMBER
        exponent = SPECIAL
        if size == NOT_A_NUMBER:
            minus = 0
    else:
        size |= 1 << digits
        exponent -= bias
    return (-size if minus != 0 else size), exponent


@helper
def unpack_first(op: int, row: int, to: int) -> Any:
    """The first matrix, whose registers begin at ``row``, row by row, as significands and exponents; whether
    some are no numbers."""
    kind, groups, steps = at(op, I_ELEMENT_TYPE), at(op, I_ROW_GROUPS), at(op, I_K_STEPS)
    pack, found = _PER_REGISTER[kind], 0
    stride = 16 * pack * steps
    for number in range(groups * steps):
        place = to + 8 * stride * (number % groups) + 16 * pack * (number // groups)
        source = row + ROW_BYTES * number
        if pack == 1:
            found |= unpack_rows_1(source, place, stride, _SHAPES[kind], EXPONENTS_AT)
        elif pack == 2:
            found |= unpack_rows_2(source, place, stride, _SHAPES[kind], EXPONENTS_AT)
        else:
            found |= unpack_rows_4(source, place, stride, _SHAPES[kind], EXPONENTS_AT)
    return found


@helper
def unpack_second(op: int, row: int, to: int) -> Any:
    """The second matrix, eight elements of one k side by side."""
    kind, found = at(op, I_B_ELEMENT_TYPE), 0
    pack = _PER_REGISTER[kind]
    for step in range(at(op, I_K_STEPS)):
        place, source = to + 128 * pack * step, row + ROW_BYTES * step
        if pack == 1:
            found |= unpack_columns_1(source, place, _SHAPES[kind], EXPONENTS_AT)
        elif pack == 2:
            found |= unpack_columns_2(source, place, _SHAPES[kind], EXPONENTS_AT)
        else:
            found |= unpack_columns_4(source, place, _SHAPES[kind], EXPONENTS_AT)
    return found


@helper
def special_sum(a: int, b: int, count: int, c: int, c_exponent: int) -> Any:
    """What a sum is with infinities or NaN among its terms: 1, -1 or `NOT_A_NUMBER`; 0 without any."""
    found = c if c_exponent == SPECIAL else 0
    for k in range(count):
        x, y = get32s(a + 4 * k), get32s(b + 32 * k)
        x_special = get32s(a + EXPONENTS_AT + 4 * k) == SPECIAL
        y_special = get32s(b + EXPONENTS_AT + 32 * k) == SPECIAL
        if x_special or y_special:
            sign = 1 if (x > 0) == (y > 0) else -1
            if x == 0 or y == 0 or (x_special and x == NOT_A_NUMBER) or (y_special and y == NOT_A_NUMBER):
                sign = NOT_A_NUMBER
            found = sign if found == 0 or found == sign else NOT_A_NUMBER
    return found


@helper
def cut(value: int, left: int) -> Any:
    """A number shifted to the left, or to the right without the digits that leave."""
    if left >= 0:
        return value << left
    size = abs(value) >> min(-left, 63)
    return -size if value < 0 else size


@helper
def chopped_single(total: int, unit: int, digits: int) -> Any:
    """``total * 2**unit`` as a single of so many digits behind the point, toward zero. No zero has a
    minus."""
    if total == 0:
        return 0
    size = abs(total)
    exponent = highest_bit(size) + unit
    if exponent > 127:
        bits = 0x7F800000
    else:
        lowest = max(exponent, -126) - digits
        size = cut(size, unit - lowest) << (23 - digits)
        bits = size if exponent < -126 else (size & 0x7FFFFF) | ((exponent + 127) << 23)
    return bits | 0x80000000 if total < 0 and bits != 0 else bits


@helper
def nearest_half(total: int, unit: int) -> Any:
    """``total * 2**unit`` as the nearest half."""
    if total == 0:
        return 0
    size = abs(total)
    exponent = max(highest_bit(size) + unit, -14)
    shift = exponent - 10 - unit
    if exponent > 15:
        bits = 0x7C00
    else:
        if shift <= 0:
            size <<= -shift
        elif shift > 62:
            size = 0
        else:
            rest, middle = size & ((1 << shift) - 1), 1 << (shift - 1)
            size >>= shift
            if rest > middle or (rest == middle and size & 1 != 0):
                size += 1
        bits = min(((exponent + 14) << 10) + size, 0x7C00)
    return bits | 0x8000 if total < 0 and bits != 0 else bits


@helper
def grouped_sum(op: int, a: int, b: int, count: int, digits: int, c: int, special: bool) -> Any:
    """A sum of singles or halves, and one group of products with so many digits behind the point."""
    total, aligned = at(op, I_SUM_TYPE), at(op, I_FRACTION_BITS)
    half = total == mp.HALF_SUM
    sum_digits = 10 if half else 23
    size, exponent = unpack_float(c, 5 if half else 8, sum_digits, _IEEE)
    if special or exponent == SPECIAL:
        found = special_sum(a, b, count, size, exponent)
        if found == NOT_A_NUMBER:
            return NAN16 if half else NAN32
        if found != 0:
            minus = 1 if found < 0 else 0
            return 0x7C00 | (minus << 15) if half else 0x7F800000 | (minus << 31)
    zero = at(op, I_ZERO_EXPONENT)
    if size == 0:
        exponent = zero
    top = exponent
    for k in range(count):
        product = get32s(a + 4 * k) * get32s(b + 32 * k)
        found = get32s(a + EXPONENTS_AT + 4 * k) + get32s(b + EXPONENTS_AT + 32 * k)
        top = max(top, found if product != 0 else zero)
    whole = cut(size, exponent - top + aligned - sum_digits)
    for k in range(count):
        product = get32s(a + 4 * k) * get32s(b + 32 * k)
        found = get32s(a + EXPONENTS_AT + 4 * k) + get32s(b + EXPONENTS_AT + 32 * k)
        whole += cut(product, found - top + aligned - digits) if product != 0 else 0
    if half:
        return nearest_half(whole, top - aligned)
    return chopped_single(whole, top - aligned, 23 if total == mp.SINGLE_SUM else mp.SHORT_SUM_BITS)


@helper
def whole_product(element: int, a: int, b: int, a_signed: int, b_signed: int) -> Any:
    """The sum of products of two registers' bytes, nibbles or bits."""
    if element == mp.BITS_XOR:
        return bits_set(a ^ b)
    if element == mp.BITS_AND:
        return bits_set(a & b)
    bits = 8 if element == mp.BYTES else 4
    found, mask, half, full = 0, (1 << bits) - 1, 1 << (bits - 1), 1 << bits
    for place in range(0, 32, bits):
        x, y = (a >> place) & mask, (b >> place) & mask
        if a_signed != 0 and x >= half:
            x -= full
        if b_signed != 0 and y >= half:
            y -= full
        found += x * y
    return found


@helper
def multiply_whole(op: int, a: int, b: int, c: int, dst: int, out: int, lanes: int) -> None:
    """A product whose sums are whole numbers, of registers from ``a``, ``b`` and ``c`` on; results go to
    ``out`` first, since the rows of operands may be those of results."""
    element, steps, rows = at(op, I_ELEMENT_TYPE), at(op, I_K_STEPS), at(op, I_ROW_GROUPS)
    a_signed, b_signed = at(op, I_IS_SIGNED), at(op, I_B_IS_SIGNED)
    for number in range(2 * rows):
        row, column = number >> 1, number & 1
        for lane in range(32):
            g, other = lane >> 2, 2 * (lane & 3) + column
            word = get32s(c + ROW_BYTES * number + 4 * lane)
            for step in range(steps):
                first = a + ROW_BYTES * (step * rows + row) + 16 * g
                second = b + ROW_BYTES * step + 16 * other
                for t in range(4):
                    x, y = get32(first + 4 * t), get32(second + 4 * t)
                    word += whole_product(element, x, y, a_signed, b_signed)
            if at(op, I_SUM_TYPE) == mp.SATURATED_SUM:
                word = max(-(1 << 31), min((1 << 31) - 1, word))
            put32(out + ROW_BYTES * number + 4 * lane, word)
    copy_rows(out, dst, 2 * rows, lanes)


@helper
def copy_rows(source: int, to: int, count: int, lanes: int) -> None:
    for number in range(count):
        for lane in range(32):
            if (lanes >> lane) & 1 != 0:
                put32(to + ROW_BYTES * number + 4 * lane, get32(source + ROW_BYTES * number + 4 * lane))


@helper
def multiply_doubles(op: int, warp: int, launch: int, lanes: int) -> None:
    steps, rows = at(op, I_K_STEPS), at(op, I_ROW_GROUPS)
    a, b, c = row_of(op, warp, I_A), row_of(op, warp, I_B), row_of(op, warp, I_C)
    out = at(launch, SCRATCH)
    for number in range(2 * rows):
        row, column = number >> 1, number & 1
        for lane in range(32):
            g, other = lane >> 2, 2 * (lane & 3) + column
            low = c + 2 * ROW_BYTES * number + 4 * lane
            total = get32(low) | (get32(low + ROW_BYTES) << 32)
            for step in range(steps):
                first = a + 2 * ROW_BYTES * (step * rows + row) + 16 * g
                second = b + 2 * ROW_BYTES * step + 16 * other
                for t in range(4):
                    x = get32(first + 4 * t) | (get32(first + ROW_BYTES + 4 * t) << 32)
                    y = get32(second + 4 * t) | (get32(second + ROW_BYTES + 4 * t) << 32)
                    total = fused_doubles(x, y, total)
            put32(out + 2 * ROW_BYTES * number + 4 * lane, total & FULL)
            put32(out + 2 * ROW_BYTES * number + ROW_BYTES + 4 * lane, (total >> 32) & FULL)
    copy_rows(out, warp + at(op, I_DST), 4 * rows, lanes)


@helper
def sum_of_products(op: int, a: int, b: int, depth: int, c: int, special: bool) -> Any:
    """A row times a column, group by group, on a sum of singles or halves."""
    group = at(op, I_GROUP)
    digits = _FRACTION_BITS[at(op, I_ELEMENT_TYPE)] + _FRACTION_BITS[at(op, I_B_ELEMENT_TYPE)]
    for k in range(0, depth, group):
        c = grouped_sum(op, a + 4 * k, b + 32 * k, min(group, depth - k), digits, c, special)
    return c


@helper
def row_of_singles(op: int, a: int, b: int, depth: int, sums: int, before: int) -> Any:
    """A row's sums, eight singles at ``before``, to ``sums``; whether that was possible."""
    group = at(op, I_GROUP)
    rule = (
        (_FRACTION_BITS[at(op, I_ELEMENT_TYPE)] + _FRACTION_BITS[at(op, I_B_ELEMENT_TYPE)])
        | (at(op, I_FRACTION_BITS) << 8)
        | (_LACKING_DIGITS[at(op, I_SUM_TYPE)] << 16)
        | (-at(op, I_ZERO_EXPONENT) << 24)
    )
    for t in range(4):
        put32(sums + 8 * t, get32(before + 4 * t))
        put32(sums + 8 * t + 4, get32(before + ROW_BYTES + 4 * t))
    for k in range(0, depth, group):
        if add_group(a + 4 * k, b + 32 * k, min(group, depth - k), sums, rule, EXPONENTS_AT) != 0:
            return False
    return True


@helper
def multiply(op: int, warp: int, launch: int, lanes: int) -> None:
    kind = at(op, I_ELEMENT_TYPE)
    if kind == mp.DOUBLES:
        multiply_doubles(op, warp, launch, lanes)
        return
    a, b, c = row_of(op, warp, I_A), row_of(op, warp, I_B), row_of(op, warp, I_C)
    to, dst = at(launch, SCRATCH), warp + at(op, I_DST)
    if kind > mp.DOUBLES:
        multiply_whole(op, a, b, c, dst, to, lanes)
        return
    special = (unpack_first(op, a, to) | unpack_second(op, b, to + SECOND_AT)) != 0
    add_products(op, to, to + SECOND_AT, c, dst, lanes, special)


@helper
def add_products(op: int, a: int, b: int, c: int, dst: int, lanes: int, special: bool) -> None:
    """The rows from ``a`` on times the columns from ``b`` on, both unpacked, on the sums in registers from
    ``c`` on."""
    kind, rows, half = at(op, I_ELEMENT_TYPE), at(op, I_ROW_GROUPS), at(op, I_SUM_TYPE) == mp.HALF_SUM
    before, sums = b + _SUMS_AT - SECOND_AT, b + _ROW_SUMS_AT - SECOND_AT
    copy_rows(c, before, rows if half else 2 * rows, FULL)
    depth = 4 * _PER_REGISTER[kind] * at(op, I_K_STEPS)
    for row in range(8 * rows):
        first, place = a + 4 * depth * row, 16 * (row & 7)
        number = (row >> 3) if half else 2 * (row >> 3)
        old = before + ROW_BYTES * number + place
        mine = (lanes >> (4 * (row & 7))) & 15
        if mine == 0:
            continue
        if half or special or not row_of_singles(op, first, b, depth, sums, old):
            for column in range(8):
                if half:
                    word = get16(old + 2 * column)
                    put16(sums + 2 * column, sum_of_products(op, first, b + 4 * column, depth, word, special))
                else:
                    word = get32(old + ROW_BYTES * (column & 1) + 4 * (column >> 1))
                    put32(sums + 4 * column, sum_of_products(op, first, b + 4 * column, depth, word, special))
        new = dst + ROW_BYTES * number + place
        for t in range(4):
            if (mine >> t) & 1 == 0:
                continue
            if half:
                put32(new + 4 * t, get32(sums + 4 * t))
            else:
                put32(new + 4 * t, get32(sums + 8 * t))
                put32(new + ROW_BYTES + 4 * t, get32(sums + 8 * t + 4))


@helper
def unpack_quads(row: int, by_k: int, to: int, second: bool) -> Any:
    """The halves of four matrices, of which pairs of quads hold one each: the first ones row by row, the
    second ones k by k."""
    special = False
    for lane in range(32):
        quads, high = (lane >> 2) & 3, 4 * (lane >> 4)
        for i in range(4):
            bits = get16(row + ROW_BYTES * (i >> 1) + 4 * lane + 2 * (i & 1))
            size, exponent = unpack_float(bits, 5, 10, _IEEE)
            line, k = ((i + high), lane & 3) if by_k != 0 else ((lane & 3) + high, i)
            place = 4 * (8 * (4 * quads + k) + line) if second else 4 * (4 * (8 * quads + line) + k)
            put32(to + place, size)
            put32(to + EXPONENTS_AT + place, exponent)
            special |= exponent == SPECIAL
    return special


@helper
def multiply_quads(op: int, warp: int, launch: int, lanes: int) -> None:
    """A step of Volta's product."""
    a, step = at(launch, SCRATCH), at(op, I_STEP)
    b = a + SECOND_AT
    special = unpack_quads(row_of(op, warp, I_A), at(op, I_A_BY_COLUMNS), a, False)
    special |= unpack_quads(row_of(op, warp, I_B), at(op, I_B_BY_ROWS), b, True)
    c, dst, half = row_of(op, warp, I_C), warp + at(op, I_DST), at(op, I_SUM_TYPE) == mp.HALF_SUM
    for lane in range(32):
        if (lanes >> lane) & 1 == 0:
            continue
        quads, high = (lane >> 2) & 3, 4 * (lane >> 4)
        for n in range(2):
            word = get32(c + ROW_BYTES * n + 4 * lane)
            result = 0
            for e in range(2 if half else 1):
                if half:
                    row, column = (lane & 3) + high, 4 * step + 2 * n + e
                    before = (word >> (16 * e)) & 0xFFFF
                else:
                    i = 2 * step + n
                    row, column = (lane & 1) + (i & 2) + high, (i & 4) + (lane & 2) + (i & 1)
                    before = word
                x, y = a + 16 * (8 * quads + row), b + 128 * quads + 4 * column
                result |= grouped_sum(op, x, y, 4, 20, before, special) << (16 * e)
            put32(a + _SUMS_AT + ROW_BYTES * n + 4 * lane, result)
    copy_rows(a + _SUMS_AT, dst, 2, lanes)


@helper
def transpose(op: int, warp: int, launch: int, lanes: int) -> None:
    """A matrix of 8 x 8 halves, two of a row in each lane."""
    row, out = row_of(op, warp, I_A), at(launch, SCRATCH)
    for lane in range(32):
        g, k = lane >> 2, 2 * (lane & 3)
        low = get16(row + 4 * (4 * k + (g >> 1)) + 2 * (g & 1))
        put32(out + 4 * lane, low | (get16(row + 4 * (4 * k + 4 + (g >> 1)) + 2 * (g & 1)) << 16))
    copy_rows(out, warp + at(op, I_DST), 1, lanes)


@helper
def load_matrices(op: int, warp: int, launch: int, lanes: int) -> Any:
    """Up to four matrices of 8 x 8 halves from shared memory: lane 8 n + r has the address of row r of matrix
    n, and gets of each matrix two elements of row (or, transposed, column) lane / 4."""
    lane_addresses(op, warp, lanes, 16)
    count, turned = at(op, I_MATRICES), at(op, I_TRANSPOSED)
    places, dst = at(launch, SCRATCH), warp + at(op, I_DST)
    for lane in range(8 * count):
        address = get64(warp + 8 * (ADDRESSES + lane))
        place = place_of(warp, launch, d.SHARED, lane, address, 16)
        if place == 0:
            return FAULTS
        put(places, lane, place)
    asking = FULL >> (32 - 8 * count)
    if at(launch, CHECK_SHARED) != 0 and not lanes_known(warp, launch, asking, 16, 0):
        note_unwritten(op, warp, launch, asking, 16)
    for n in range(count):
        for lane in range(32):
            if (lanes >> lane) & 1 == 0:
                continue
            g, t = lane >> 2, lane & 3
            if turned == 0:
                word = get32(at(places, 8 * n + g) + 4 * t)
            else:
                low = get16(at(places, 8 * n + 2 * t) + 2 * g)
                word = low | (get16(at(places, 8 * n + 2 * t + 1) + 2 * g) << 16)
            put32(dst + ROW_BYTES * n + 4 * lane, word)
    return GOES_ON


@helper
def store_matrices(op: int, warp: int, launch: int, lanes: int) -> Any:
    """The same way back."""
    lane_addresses(op, warp, lanes, 16)
    count, turned, row = at(op, I_MATRICES), at(op, I_TRANSPOSED), row_of(op, warp, I_C)
    for lane in range(8 * count):
        words, line = row + ROW_BYTES * (lane >> 3), lane & 7
        address = get64(warp + 8 * (ADDRESSES + lane))
        place = place_of(warp, launch, d.SHARED, lane, address, 16)
        if place == 0:
            return FAULTS
        make_known(warp, launch, address, 16)
        for k in range(8):
            source = 2 * (8 * k + line) if turned != 0 else 2 * (8 * line + k)
            put16(place + 2 * k, get16(words + source))
    return GOES_ON

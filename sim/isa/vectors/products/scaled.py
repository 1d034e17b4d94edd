"""Products with scales of blocks on tensor cores, in machine code; see `WarpTensor._multiply_scaled` of
`smlab.sim.isa.meanings.products.tensor`."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from smlab.sim.compiled.jit import helper, intrinsic
from smlab.sim.isa import matrix_products as mp
from smlab.sim.isa.meanings.rounding import NAN32
from smlab.sim.isa.memory_layout import ROW_BYTES, SCRATCH
from smlab.sim.isa.vectors.products.tensor import (
    EXPONENTS_AT,
    SECOND_AT,
    TILES_AT,
    add_products,
    chopped_single,
    copy_rows,
    cut,
    unpack_first,
    unpack_float,
    unpack_second,
)
from smlab.sim.isa.vectors.products.tensor_vectors import NOT_A_NUMBER, SPECIAL
from smlab.sim.isa.vectors.word_access import (
    FULL,
    I_A,
    I_B,
    I_C,
    I_DST,
    I_ELEMENT_TYPE,
    I_FIRST_SCALES,
    I_K_STEPS,
    I_ROW_GROUPS,
    I_SCALE_BLOCKS,
    I_SCALE_CHOICE,
    I_SCALE_TYPE,
    I_SECOND_SCALES,
    WORD,
    at,
    get32,
    get32s,
    put,
    put8,
    put32,
    row_of,
)

_BYTE, _HALF, _WORD32 = ir.IntType(8), ir.IntType(16), ir.IntType(32)
_GROUP, _KEPT, _ZERO = mp.SCALED_FOURS.group, mp.SCALED_FOURS.fraction_bits, mp.SCALED_FOURS.zero_exponent
_DEPTH = 64
_DIGITS = 2 * mp.PACKED_FORMAT.fraction_bits
_DIGITS_OF_SCALE = 3  # of a float of 8 bits; a power of two has none
_TWICE = (0, 1, 2, 3, 4, 6, 8, 12)  # floats of four bits
# The places of a product of packed floats: bytes of the first matrix row by row and of the second column by
# column, then scales (significand and exponent) of 16 rows and eight columns, four of each.
_COLUMNS_AT = 16 * _DEPTH
_SCALES_AT = 24 * _DEPTH
SCALES_BYTES = 4 * 16
_SUMS_AT = _SCALES_AT + 24 * SCALES_BYTES


@intrinsic
def sum_of_sixteen(typing_context: Any, a: Any, b: Any) -> Any:
    """16 bytes times 16 bytes, with signs, summed; and whether some product is not zero, in bit 32."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        B, bytes_of, halves = builder, ir.VectorType(_BYTE, 16), ir.VectorType(_HALF, 16)
        factors = []
        for place in arguments:
            loaded = B.load(B.inttoptr(place, bytes_of.as_pointer()))
            loaded.align = 1
            factors.append(B.sext(loaded, halves))
        products = B.mul(*factors)
        shape = ir.FunctionType(_HALF, [halves])
        name = "llvm.vector.reduce.add.v16i16"
        total = B.module.globals.get(name) or ir.Function(B.module, shape, name)
        some_of = ir.VectorType(ir.IntType(1), 16)
        name = "llvm.vector.reduce.or.v16i1"
        some = B.module.globals.get(name) or ir.Function(
            B.module, ir.FunctionType(ir.IntType(1), [some_of]), name
        )
        any_left = B.call(some, [B.icmp_signed("!=", products, ir.Constant(halves, [0] * 16))])
        found = B.and_(B.sext(B.call(total, [products]), WORD), ir.Constant(WORD, 0xFFFFFFFF))
        return B.or_(found, B.shl(B.zext(any_left, WORD), ir.Constant(WORD, 32)))

    return types.int64(types.int64, types.int64), generate


@helper
def scale_of(bits: int, kind: int) -> Any:
    """A scale's significand and exponent; the exponent is `SPECIAL` where it is no number."""
    if kind == mp.E8_SCALES:
        return (NOT_A_NUMBER, SPECIAL) if bits == 0xFF else (1, bits - mp.SCALE_BIAS)
    return unpack_float(bits & 0x7F, 4, 3, 1)


@helper
def unpack_fours(source: int, lines: int, to: int) -> None:
    """Packed floats of four bits, twice the number a byte: 8 lines of four lanes a register, in the order of
    k. Registers of the other eight lines lie between where there are 16."""
    groups = lines >> 3
    for number in range(2 * groups):
        row, step = number % groups, number // groups
        for lane in range(32):
            word = get32(source + ROW_BYTES * number + 4 * lane)
            place = to + _DEPTH * (8 * row + (lane >> 2)) + 32 * step + 8 * (lane & 3)
            for k in range(8):
                bits = (word >> (4 * k)) & 15
                size = _TWICE[bits & 7]
                put8(place + k, (-size if bits & 8 != 0 else size) & 0xFF)


@helper
def unpack_scales(op: int, warp: int, to: int) -> None:
    """Four scales of each row, then of each column, as significands and exponents."""
    choice = get32(warp + at(op, I_SCALE_CHOICE))
    blocks, kind = at(op, I_SCALE_BLOCKS), at(op, I_SCALE_TYPE)
    for line in range(24):
        if line < 16:
            lane, first = 4 * (line & 7) + (line >> 3) + ((choice >> 1) & 2), choice & 3
            words = warp + at(op, I_FIRST_SCALES)
        else:
            lane, first = 4 * (line - 16) + ((choice >> 5) & 3), (choice >> 3) & 3
            words = warp + at(op, I_SECOND_SCALES)
        put_scales(get32(words + 4 * lane), first, blocks, kind, to + SCALES_BYTES * line)


@helper
def put_scales(word: int, first: int, blocks: int, kind: int, to: int) -> None:
    """The scales of a line: bytes of a word, from one on."""
    for block in range(blocks):
        size, exponent = scale_of((word >> (8 * ((first + block) & 3))) & 0xFF, kind)
        put(to, 2 * block, size)
        put(to, 2 * block + 1, exponent)


@helper
def scale_lines(elements: int, scales: int, lines: int, count: int, stride: int, step: int) -> Any:
    """Multiply lines of unpacked numbers by a scale each; whether one is no number."""
    found = False
    for line in range(lines):
        exponent = at(scales + SCALES_BYTES * line, 1)
        for k in range(count):
            place = elements + stride * line + step * k
            if exponent == SPECIAL:
                put32(place, NOT_A_NUMBER)
                put32(place + EXPONENTS_AT, SPECIAL)
                found = True
            elif get32s(place + EXPONENTS_AT) != SPECIAL:
                put32(place + EXPONENTS_AT, get32s(place + EXPONENTS_AT) + exponent)
    return found


@helper
def sum_of_fours(a: int, b: int, x: int, y: int, c: int, rule: tuple[int, int, int, int]) -> Any:
    """A row times a column of 64 packed floats, with their scales from ``x`` and ``y`` on, and a single."""
    blocks, digits, kept, zero = rule
    size, exponent = unpack_float(c, 8, 23, 0)
    for block in range(blocks):
        if at(x, 2 * block + 1) == SPECIAL or at(y, 2 * block + 1) == SPECIAL:
            return NAN32
    if exponent == SPECIAL:
        return NAN32 if size == NOT_A_NUMBER else 0x7F800000 | ((1 if size < 0 else 0) << 31)
    if size == 0:
        exponent = zero
    top = exponent
    sizes = (0, 0, 0, 0)
    exponents = (zero, zero, zero, zero)
    for n in range(_DEPTH // _GROUP):
        found = sum_of_sixteen(a + _GROUP * n, b + _GROUP * n)
        block = n * blocks // (_DEPTH // _GROUP)
        scale = at(x, 2 * block) * at(y, 2 * block)
        total, place = ((found & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000, zero
        if found >> 32 != 0 and scale != 0:
            place = at(x, 2 * block + 1) + at(y, 2 * block + 1)
        top = max(top, place)
        sizes = _with(sizes, n, total * scale)
        exponents = _with(exponents, n, place)
    whole = cut(size, exponent - top + kept - 23)
    for n in range(_DEPTH // _GROUP):
        whole += cut(sizes[n], exponents[n] - top + kept - digits)
    return chopped_single(whole, top - kept, 23)


@helper
def _with(numbers: tuple[int, int, int, int], place: int, value: int) -> Any:
    """Four numbers with another one at a place."""
    a, b, c, e = numbers
    return (
        value if place == 0 else a,
        value if place == 1 else b,
        value if place == 2 else c,
        value if place == 3 else e,
    )


@helper
def multiply_fours(op: int, warp: int, launch: int, lanes: int) -> None:
    """A product of 16 x 8 x 64 packed floats of four bits."""
    to = at(launch, SCRATCH)
    unpack_fours(row_of(op, warp, I_A), 16, to)
    unpack_fours(row_of(op, warp, I_B), 8, to + _COLUMNS_AT)
    scales, sums = to + _SCALES_AT, to + _SUMS_AT
    unpack_scales(op, warp, scales)
    copy_rows(row_of(op, warp, I_C), sums, 4, FULL)
    lines = (to, to + _COLUMNS_AT, scales, scales + 16 * SCALES_BYTES)
    add_fours(lines, sums, at(op, I_SCALE_BLOCKS), at(op, I_SCALE_TYPE))
    copy_rows(sums, warp + at(op, I_DST), 4, lanes)


@helper
def add_fours(lines: tuple[int, int, int, int], sums: int, blocks: int, kind: int) -> None:
    """16 rows times eight columns of packed floats (``lines``: where both and their scales begin), on four
    registers of sums."""
    rows, columns, of_rows, of_columns = lines
    digits = _DIGITS + (0 if kind == mp.E8_SCALES else 2 * _DIGITS_OF_SCALE)
    rule = (blocks, digits, _KEPT, _ZERO)
    for row in range(16):
        for column in range(8):
            here = sums + ROW_BYTES * (2 * (row >> 3) + (column & 1)) + 4 * (4 * (row & 7) + (column >> 1))
            first, second = rows + _DEPTH * row, columns + _DEPTH * column
            x, y = of_rows + SCALES_BYTES * row, of_columns + SCALES_BYTES * column
            put32(here, sum_of_fours(first, second, x, y, get32(here), rule))


@helper
def multiply_scaled(op: int, warp: int, launch: int, lanes: int) -> None:
    if at(op, I_ELEMENT_TYPE) == mp.PACKED_E2M1:
        multiply_fours(op, warp, launch, lanes)
        return
    to, scales = at(launch, SCRATCH), at(launch, SCRATCH) + TILES_AT
    special = (
        unpack_first(op, row_of(op, warp, I_A), to) | unpack_second(op, row_of(op, warp, I_B), to + SECOND_AT)
    ) != 0
    unpack_scales(op, warp, scales)
    depth, rows = 16 * at(op, I_K_STEPS), 8 * at(op, I_ROW_GROUPS)
    special |= scale_lines(to, scales, rows, depth, 4 * depth, 4)
    special |= scale_lines(to + SECOND_AT, scales + 16 * SCALES_BYTES, 8, depth, 4, 32)
    add_products(op, to, to + SECOND_AT, row_of(op, warp, I_C), warp + at(op, I_DST), lanes, special)

"""Products of matrices on tensor cores and the loads of their operands, in machine code; see
`tensor_meanings`."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from smlab.sim.compiled.jit import helper, intrinsic
from smlab.sim.instruction_source import FAULTS, GOES_ON
from smlab.sim.isa import operation_codes as d
from smlab.sim.isa.meanings.rounding import NAN16, NAN32
from smlab.sim.isa.memory.access import lane_addresses, lanes_known, note_unwritten, place_of
from smlab.sim.isa.memory_layout import ADDRESSES, CHECK_SHARED, ROW_BYTES, SCRATCH
from smlab.sim.isa.operation_codes import BFLOAT16, BYTES, HALF_SUM, SINGLE_SUM
from smlab.sim.isa.vectors.word_access import (
    FULL,
    HALF,
    I_A,
    I_B,
    I_B_IS_SIGNED,
    I_C,
    I_DST,
    I_ELEMENT_TYPE,
    I_IS_SIGNED,
    I_K_STEPS,
    I_MATRICES,
    I_ROW_GROUPS,
    I_SUM_TYPE,
    I_TRANSPOSED,
    WORD,
    at,
    get16,
    get32,
    get64,
    put,
    put32,
    put64,
    row_of,
)

_DOUBLE, _SINGLE = ir.DoubleType(), ir.FloatType()


@intrinsic
def double_of(typing_context: Any, bits: Any) -> Any:
    """The double with these bits."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], _DOUBLE)

    return types.float64(types.int64), generate


@intrinsic
def double_bits(typing_context: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], WORD)

    return types.int64(types.float64), generate


@intrinsic
def single_of(typing_context: Any, bits: Any) -> Any:
    """The single with these bits, as a double."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fpext(builder.bitcast(builder.trunc(arguments[0], HALF), _SINGLE), _DOUBLE)

    return types.float64(types.int64), generate


@intrinsic
def single_bits(typing_context: Any, value: Any) -> Any:
    """The bits of the nearest single."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bits = builder.bitcast(builder.fptrunc(arguments[0], _SINGLE), HALF)
        nan = builder.fcmp_unordered("uno", arguments[0], arguments[0])
        return builder.zext(builder.select(nan, ir.Constant(HALF, NAN32), bits), WORD)

    return types.int64(types.float64), generate


@helper
def half_of(bits: int) -> Any:
    """The half with these bits, as a double."""
    sign, exponent, fraction = (bits >> 15) & 1, (bits >> 10) & 31, bits & 1023
    if exponent == 0:
        value = fraction * 2.0**-24
        return -value if sign != 0 else value
    if exponent == 31:
        return double_of((sign << 63) | (0x7FF << 52) | (fraction << 42))
    return double_of((sign << 63) | ((exponent + 1008) << 52) | (fraction << 42))


@helper
def half_bits(value: float) -> Any:
    """The bits of the nearest half."""
    if value != value:
        return NAN16
    bits = double_bits(value)
    sign, size, found = (bits >> 63) & 1, abs(value), 0
    if size >= 65520.0:
        found = 0x7C00
    elif size < 2.0**-14:
        found = int(np.rint(size * 2.0**24))
    else:
        exponent = ((bits >> 52) & 0x7FF) - 1023
        found = ((exponent + 14) << 10) + int(np.rint(size * double_of((1033 - exponent) << 52)))
    return (sign << 15) | found


@helper
def unpack(row: int, registers: int, kind: int, has_sign: int, to: int) -> None:
    """The elements of rows of registers, as doubles or whole numbers, one a word."""
    pack = 4 if kind == BYTES else 2
    for n in range(registers):
        for lane in range(32):
            word = get32(row + ROW_BYTES * n + 4 * lane)
            place = to + 8 * pack * (32 * n + lane)
            for e in range(pack):
                if kind == BYTES:
                    byte = (word >> (8 * e)) & 0xFF
                    put64(place + 8 * e, byte - 256 if has_sign != 0 and byte >= 128 else byte)
                else:
                    bits = (word >> (16 * e)) & 0xFFFF
                    value = single_of(bits << 16) if kind == BFLOAT16 else half_of(bits)
                    put64(place + 8 * e, double_bits(value))


@helper
def multiply(op: int, warp: int, launch: int, lanes: int) -> None:
    kind, steps = at(op, I_ELEMENT_TYPE), at(op, I_K_STEPS)
    total, rows = at(op, I_SUM_TYPE), at(op, I_ROW_GROUPS)
    pack = 4 if kind == BYTES else 2
    a = at(launch, SCRATCH)
    b = a + 8 * 32 * 4 * 4
    unpack(row_of(op, warp, I_A), rows * steps, kind, at(op, I_IS_SIGNED), a)
    unpack(row_of(op, warp, I_B), steps, kind, at(op, I_B_IS_SIGNED), b)
    c, dst = row_of(op, warp, I_C), warp + at(op, I_DST)
    for lane in range(32):
        if (lanes >> lane) & 1 == 0:
            continue
        g, t = lane >> 2, lane & 3
        for row in range(rows):
            packed = 0
            for column in range(2):
                other = b + 8 * pack * 4 * (2 * t + column)
                mine = a + 8 * pack * (32 * row + 4 * g)
                number = row if total == HALF_SUM else 2 * row + column
                word = get32(c + ROW_BYTES * number + 4 * lane)
                place = dst + ROW_BYTES * number + 4 * lane
                if kind == BYTES:
                    whole = word
                    for step in range(steps):
                        for k in range(4 * pack):
                            first = get64(mine + 8 * (pack * 32 * rows * step + k))
                            whole += first * get64(other + 8 * (pack * 32 * step + k))
                    put32(place, whole)
                    continue
                if total == SINGLE_SUM:
                    value = single_of(word)
                else:
                    value = half_of((word >> (16 * column)) & 0xFFFF)
                for step in range(steps):
                    for k in range(4 * pack):
                        first = double_of(get64(mine + 8 * (pack * 32 * rows * step + k)))
                        value += first * double_of(get64(other + 8 * (pack * 32 * step + k)))
                if total == SINGLE_SUM:
                    put32(place, single_bits(value))
                else:
                    packed |= half_bits(value) << (16 * column)
            if total == HALF_SUM:
                put32(dst + ROW_BYTES * row + 4 * lane, packed)


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

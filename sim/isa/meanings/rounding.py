"""Rounding in plain Python: singles and doubles as bits, one rounding of an exact number."""

from __future__ import annotations

import math
import struct
from fractions import Fraction
from typing import Final

NAN32: Final = 0x7FFFFFFF
NAN64: Final = 0xFFF8000000000000
NAN16: Final = 0x7FFF
BFLOAT16: Final = 8
"""What stands for a bfloat16, the upper half of a single, where other floats are named by their bits: the
bits of its significand."""


def f32(bits: int) -> float:
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


def f16(bits: int) -> float:
    return float(struct.unpack("<e", struct.pack("<H", bits))[0])


def f64(bits: int) -> float:
    return float(struct.unpack("<d", struct.pack("<Q", bits))[0])


def bits64(value: float) -> int:
    return NAN64 if math.isnan(value) else int(struct.unpack("<Q", struct.pack("<d", value))[0])


def bits16(value: float) -> int:
    """A half that a number is exactly, or infinity, or none."""
    return NAN16 if math.isnan(value) else int(struct.unpack("<H", struct.pack("<e", value))[0])


def bf16(bits: int) -> float:
    """The number that a bfloat16 is."""
    return f32((bits & 0xFFFF) << 16)


def bfloat16_bits(value: float) -> int:
    """The bfloat16 that a number is exactly, or infinity, or none."""
    return NAN16 if math.isnan(value) else bits32(value) >> 16


def bits32(value: float) -> int:
    """The nearest single of a double."""
    if math.isnan(value):
        return NAN32
    try:
        return int(struct.unpack("<I", struct.pack("<f", value))[0])
    except OverflowError:
        return 0xFF800000 if value < 0 else 0x7F800000


def _rounded(exact: Fraction, digits: int, least: int, most: int, mode: int) -> Fraction | None:
    """A number to ``digits`` binary digits, not below 2**least, by ``mode``; None where it overflows
    2**most."""
    if exact == 0:
        return exact
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    unit = Fraction(2) ** max(exponent - digits + 1, least)
    steps = size / unit
    whole = steps.numerator // steps.denominator
    rest = steps - whole
    up = {
        NEAREST: rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2 == 1),
        DOWN: rest != 0 and exact < 0,
        UP: rest != 0 and exact > 0,
        CHOP: False,
    }[mode]
    size = (whole + up) * unit
    if size >= Fraction(2) ** most:
        return None
    return size if exact > 0 else -size


NEAREST, DOWN, UP, CHOP = 0, 1, 2, 3
_SHAPES: Final = {BFLOAT16: (8, -133, 128), 16: (11, -24, 16), 32: (24, -149, 128), 64: (53, -1074, 1024)}


def to_bits(exact: Fraction, bits: int, mode: int, negative_zero: bool = False) -> int:
    """An exact number as a float of 16, 32 or 64 bits or a bfloat16, rounded once."""
    digits, least, most = _SHAPES[bits]
    rounded = _rounded(exact, digits, least, most, mode)
    if rounded is None:
        infinite = mode == NEAREST or (mode == UP and exact > 0) or (mode == DOWN and exact < 0)
        largest = (2.0 - 2.0 ** (1 - digits)) * 2.0 ** (most - 1)
        value = (math.inf if infinite else largest) * (1 if exact > 0 else -1)
    else:
        value = float(rounded)
        if value == 0:
            value = math.copysign(0.0, -1.0 if (negative_zero if exact == 0 else exact < 0) else 1.0)
    return _bits(value, bits)


def _bits(value: float, bits: int) -> int:
    return {BFLOAT16: bfloat16_bits, 16: bits16, 32: bits32, 64: bits64}[bits](value)


def fma(a: float, b: float, c: float, bits: int, mode: int) -> int:
    """``a * b + c``, rounded once."""
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        value = a * b + c if not (math.isinf(c) and math.isfinite(a) and math.isfinite(b)) else c
        return _bits(value, bits)
    product = Fraction(a) * Fraction(b)
    minus = math.copysign(1.0, a) * math.copysign(1.0, b) < 0
    below = math.copysign(1.0, c) < 0
    exact = product + Fraction(c)
    # An exact zero is negative if both terms are, or, of terms that cancel, when rounding down.
    zero_minus = (minus and below) if product == 0 and c == 0 and minus == below else mode == DOWN
    return to_bits(exact, bits, mode, zero_minus)

"""What conversions between floats of 8 bits and larger ones compute, for one lane, in plain Python.

E4M3 has no infinity, and one NaN of each sign. A conversion to 8 bits ends at the largest number (SATFINITE).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Final

from smlab.sim.isa.meanings.rounding import NAN32, bits16, f16, f32
from smlab.sim.isa.vector_operation import VectorOperation, plain

SMALL_FLOATS: Final = {"e4m3": (4, 3, 0x7E), "e5m2": (5, 2, 0x7B)}
"""By name: bits of the exponent and of the fraction, and the largest number."""
_NAN: Final = 0x7F


def small_bits(value: float, name: str) -> int:
    """The nearest float of 8 bits; half way between two, the even one."""
    exponents, digits, largest = SMALL_FLOATS[name]
    sign = 0x80 if math.copysign(1.0, value) < 0 else 0
    if math.isnan(value):
        return _NAN
    if math.isinf(value):
        return sign | largest
    lowest = 2 - (1 << (exponents - 1))
    size = abs(Fraction(value))
    exponent = lowest
    while size >= Fraction(2) ** (exponent + 1):
        exponent += 1
    steps = round(size / Fraction(2) ** (exponent - digits))  # to the even one
    return sign | min(largest, (exponent - lowest << digits) + steps)


def small_number(bits: int, name: str) -> float:
    exponents, digits, largest = SMALL_FLOATS[name]
    sign = -1.0 if bits & 0x80 else 1.0
    exponent, fraction = (bits & 0x7F) >> digits, bits & ((1 << digits) - 1)
    if bits & 0x7F > largest:
        return math.nan if name == "e4m3" or fraction else sign * math.inf
    lowest = 2 - (1 << (exponents - 1))
    whole = fraction | (1 << digits if exponent else 0)
    return sign * math.ldexp(whole, max(exponent, 1) - 1 + lowest - digits)


def _half(a: int, upper_bytes: int) -> int:
    return a >> 16 if upper_bytes else a & 0xFFFF


def _unpacked(name: str) -> Callable[[int, int], int]:
    def meaning(a: int, upper_bytes: int) -> int:
        part = _half(a, upper_bytes)
        return bits16(small_number(part & 0xFF, name)) | bits16(small_number(part >> 8, name)) << 16

    return meaning


def _packed(name: str) -> Callable[[int, int, int, int], int]:
    def meaning(a: int, b: int, c: int, upper_bytes: int) -> int:
        return small_bits(f32(b), name) | small_bits(f32(a), name) << 8 | _half(c, upper_bytes) << 16

    return meaning


def _packed_halves(name: str) -> Callable[[int, int, int], int]:
    def meaning(a: int, b: int, upper_bytes: int) -> int:
        low, high = small_bits(f16(a & 0xFFFF), name), small_bits(f16(a >> 16), name)
        return low | high << 8 | _half(b, upper_bytes) << 16

    return meaning


def tf32_bits(a: int) -> int:
    """The nearest single with 10 digits behind the point."""
    if math.isnan(f32(a)):
        return NAN32
    return (a + 0xFFF + (a >> 13 & 1)) & ~0x1FFF


def small_float_rows() -> tuple[VectorOperation, ...]:
    """The rows of the table of operations."""
    rows = []
    for name in SMALL_FLOATS:
        rows += [
            VectorOperation(f"{name}.h2", "i", "i", plain(_unpacked(name)), "byte arithmetic"),
            VectorOperation(f"f2.{name}", "iii", "i", plain(_packed(name)), "byte arithmetic"),
            VectorOperation(f"h2.{name}", "ii", "i", plain(_packed_halves(name)), "byte arithmetic"),
        ]
    return (*rows, VectorOperation("f.tf32", "i", "i", plain(tf32_bits), "conversion"))

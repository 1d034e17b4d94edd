"""What conversions between floats of 8, 6 or 4 bits and larger ones compute, for one lane, in plain Python.

E4M3 has no infinity, and one NaN of each sign. Those of 6 and 4 bits have neither, and what is no number
becomes the largest one. A conversion ends at the largest number (SATFINITE). Two numbers lie in a byte each,
of E2M1 in a byte together. E8M0 is a power of two without a sign, and 0xFF is its NaN. (PTX ISA 8.7, cvt; of
E8M0 the emulation in CUDA's ``cuda_fp8.hpp`` says what becomes of signs and subnormals.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Final

from smlab.sim.isa.meanings.rounding import CHOP, NAN32, bf16, bfloat16_bits, bits16, f16, f32
from smlab.sim.isa.vector_operation import M32, VectorOperation, plain

SMALL_FLOATS: Final = {
    "e4m3": (4, 3, 0x7E),
    "e5m2": (5, 2, 0x7B),
    "e2m3": (2, 3, 0x1F),
    "e3m2": (3, 2, 0x1F),
    "e2m1": (2, 1, 0x7),
}
"""By name: bits of the exponent and of the fraction, and the largest number."""
HAVE_NAN: Final = frozenset(("e4m3", "e5m2"))
_NAN: Final = 0x7F
E8_NAN: Final = 0xFF
_BF16_NAN: Final = 0x7FFF


def step_bits(name: str) -> int:
    """From one number of a pair to the other."""
    return 4 if name == "e2m1" else 8


def small_bits(value: float, name: str, only_positive: int = 0) -> int:
    """The nearest float of so few bits; half way between two, the even one."""
    exponents, digits, largest = SMALL_FLOATS[name]
    if math.isnan(value):
        return _NAN if name in HAVE_NAN else largest
    sign = 1 << exponents + digits if math.copysign(1.0, value) < 0 else 0
    if sign and only_positive:
        return 0
    if math.isinf(value):
        return sign | largest
    lowest = 2 - (1 << (exponents - 1))
    size = abs(Fraction(value))
    exponent = lowest
    while size >= Fraction(2) ** (exponent + 1):
        exponent += 1
    steps = round(size / Fraction(2) ** (exponent - digits))  # to the even one
    return sign | min(largest, (exponent - lowest << digits) + steps)


def small_number(bits: int, name: str, only_positive: int = 0) -> float:
    exponents, digits, largest = SMALL_FLOATS[name]
    sign_bit = 1 << exponents + digits
    sign, size = (-1.0 if bits & sign_bit else 1.0), bits & (sign_bit - 1)
    exponent, fraction = size >> digits, size & ((1 << digits) - 1)
    if size > largest and (name == "e4m3" or fraction):
        return math.nan
    if sign < 0 and only_positive:
        return 0.0
    if size > largest:
        return sign * math.inf
    lowest = 2 - (1 << (exponents - 1))
    whole = fraction | (1 << digits if exponent else 0)
    return sign * math.ldexp(whole, max(exponent, 1) - 1 + lowest - digits)


def e8_bits(value: float, rounding: int, finite: int) -> int:
    """The power of two at a number's magnitude, or the next one above."""
    if math.isnan(value):
        return E8_NAN
    size = abs(value)
    if math.isinf(size):
        return E8_NAN - finite
    if size <= 2.0**-127:
        return 0
    fraction, exponent = math.frexp(size)  # from a half to one
    found = exponent - 1 + 127 + (rounding != CHOP and fraction != 0.5)
    return min(found, E8_NAN - finite)


def e8_number(bits: int) -> int:
    """As a bfloat16 number's bits."""
    return _BF16_NAN if bits == E8_NAN else bits << 7 or 0x40


def _half(a: int, upper: int) -> int:
    return a >> 16 if upper else a & 0xFFFF


def _unpacked(name: str) -> Callable[[int, int, int], int]:
    step = step_bits(name)

    def meaning(a: int, first_bit: int, only_positive: int) -> int:
        low, high = (a >> first_bit + step * n & (1 << step) - 1 for n in range(2))
        return (
            bits16(small_number(low, name, only_positive))
            | bits16(small_number(high, name, only_positive)) << 16
        )

    return meaning


def _unpacked_as_bfloat16(name: str) -> Callable[[int, int, int], int]:
    halves = _unpacked(name)

    def meaning(a: int, first_bit: int, only_positive: int) -> int:
        """Each is one, as a half is more than such a float."""
        pair = halves(a, first_bit, only_positive)
        low, high = (bfloat16_bits(f16(pair >> 16 * n & 0xFFFF)) for n in range(2))
        return low | high << 16

    return meaning


def _packed(name: str) -> Callable[[int, int, int, int, int], int]:
    step = step_bits(name)

    def meaning(a: int, b: int, c: int, first_bit: int, only_positive: int) -> int:
        low, high = (small_bits(f32(x), name, only_positive) for x in (b, a))
        return low | high << step | (c >> first_bit) << 2 * step & M32

    return meaning


def _packed_halves(name: str) -> Callable[[int, int, int, int], int]:
    def meaning(a: int, b: int, first_bit: int, only_positive: int) -> int:
        low, high = (small_bits(f16(x), name, only_positive) for x in (a & 0xFFFF, a >> 16))
        return low | high << 8 | (b >> first_bit) << 16 & M32

    return meaning


def _packed_e8(a: int, b: int, c: int, rounding: int, finite: int, half_choice: int) -> int:
    low, high = (e8_bits(f32(x), rounding, finite) for x in (b, a))
    return low | high << 8 | _half(c, half_choice & 4) << 16


def _packed_e8_of_bfloat16(a: int, b: int, rounding: int, finite: int, half_choice: int) -> int:
    low, high = (e8_bits(bf16(x), rounding, finite) for x in (a & 0xFFFF, a >> 16))
    return low | high << 8 | _half(b, half_choice & 2) << 16


def _unpacked_e8(a: int, half_choice: int) -> int:
    both = _half(a, half_choice & 1)
    return e8_number(both & 0xFF) | e8_number(both >> 8) << 16


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
            VectorOperation(f"{name}.h2", "i", "i", plain(_unpacked(name)), "small floats"),
            VectorOperation(f"{name}.b2", "i", "i", plain(_unpacked_as_bfloat16(name)), "small floats"),
            VectorOperation(f"f2.{name}", "iii", "i", plain(_packed(name)), "small floats"),
        ]
        if name in HAVE_NAN:
            packed = plain(_packed_halves(name))
            rows.append(VectorOperation(f"h2.{name}", "ii", "i", packed, "small floats"))
    rows += [
        VectorOperation("f2.e8", "iii", "i", plain(_packed_e8), "packing"),
        VectorOperation("b2.e8", "ii", "i", plain(_packed_e8_of_bfloat16), "packing"),
        VectorOperation("e8.b2", "i", "i", plain(_unpacked_e8), "packing"),
    ]
    return (*rows, VectorOperation("f.tf32", "i", "i", plain(tf32_bits), "conversion"))

"""What the vector operations on halves compute, for one lane, in plain Python."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Final

from smlab.sim.machine_code.rounding import NAN16, NEAREST, bits16, bits32, f16, f32, fma, to_bits
from smlab.sim.machine_code.vector_operation import (
    Meaning,
    VectorOperation,
    combined,
    narrowed,
    plain,
    relation,
    saturated,
    to_integer,
)

HALVES_SHIFT: Final = 2
HALF_SATURATE: Final = 64
BOTH_ONES: Final = 64
RELATION_SHIFT: Final = 8
"""The parts of ``i`` in operations on halves: two bits a source (1: the low half twice, 2: the high half
twice), saturate to [0, 1] or, of comparisons, 1.0 for true in place of all ones, and the relation."""


def _half(word: int, i: int, place: int, high: int) -> int:
    which = i >> HALVES_SHIFT * place & 3
    return word >> 16 * (high if which == 0 else which - 1) & 0xFFFF


def _saturated_half(bits: int) -> int:
    return 0 if bits >= 0x8000 or bits > 0x7C00 else min(bits, 0x3C00)


def _by_halves(compute: Callable[..., int]) -> Meaning:
    """An operation on both halves of a word."""

    def value(a: int, b: int, c: int, p: bool, q: bool, i: int, j: int) -> tuple[int, bool, bool]:
        found = []
        for high in range(2):
            bits = compute(*(_half(word, i, place, high) for place, word in enumerate((a, b, c))), p, i, j)
            found.append(bits)
        return found[0] | found[1] << 16, False, False

    return value


def _half_fma(a: int, b: int, c: int, i: int) -> int:
    bits = fma(f16(a), f16(b), f16(c), 16, NEAREST)
    return _saturated_half(bits) if i & HALF_SATURATE else bits


def half_sum(a: int, b: int) -> int:
    return _half_fma(a, 0x3C00, b, 0)


def brain_sum(a: int, b: int) -> int:
    """The sum of two brain floats, the upper halves of singles."""
    total = f32(a << 16) + f32(b << 16)
    if not math.isfinite(total):
        return 0x7FFF if math.isnan(total) else bits32(total) >> 16
    # The sum is exact in whole multiples of its last place; singles of it would be rounded twice.
    return to_brain(Fraction(f32(a << 16)) + Fraction(f32(b << 16)), a & b >= 0x8000)


def to_brain(value: Fraction, negative_zero: bool = False) -> int:
    """The nearest brain float, of two the even one."""
    if value == 0:
        return 0x8000 * negative_zero
    sign, size = 0x8000 * (value < 0), abs(value)
    exponent = max(-126, math.frexp(size)[1] - 1)
    quotient = size / Fraction(2) ** (exponent - 7)
    whole = round(quotient)  # of two, the even one
    bits = ((exponent + 126) << 7) + whole
    return sign | min(bits, 0x7F80)


def _half_sum(a: int, b: int, i: int) -> int:
    bits = bits32(f16(_half(a, i, 0, 0)) + f16(_half(b, i, 1, 0)))
    return saturated(bits) if i & HALF_SATURATE else bits


def _half_found(a: int, b: int, p: bool, i: int, j: int) -> bool:
    return combined(bool(i >> RELATION_SHIFT & relation(f16(a), f16(b))), p, j)[1]


def _half_chosen(a: int, b: int, p: bool) -> int:
    x, y = f16(a), f16(b)
    if math.isnan(x) or math.isnan(y):
        return NAN16 if math.isnan(x) and math.isnan(y) else (b if math.isnan(x) else a)
    if x == y:
        return (a | b) if p else (a & b)
    return a if (x < y) == p else b


def _to_half(value: float) -> int:
    """The nearest half."""
    if not math.isfinite(value):
        return bits16(value)
    return to_bits(Fraction(value), 16, NEAREST, math.copysign(1.0, value) < 0)


def half_rows() -> tuple[VectorOperation, ...]:
    """The rows of the table of operations."""
    rows: list[VectorOperation] = []

    def row(name: str, sources: str, result: str, meaning: Meaning) -> None:
        rows.append(VectorOperation(name, sources, result, meaning))

    row("hadd2", "ii", "i", _by_halves(lambda a, b, c, p, i, j: _half_fma(a, 0x3C00, b, i)))
    row(
        "hmul2",
        "ii",
        "i",
        _by_halves(lambda a, b, c, p, i, j: _half_fma(a, b, (a ^ b) & 0x8000, i)),
    )
    row("hfma2", "iii", "i", _by_halves(lambda a, b, c, p, i, j: _half_fma(a, b, c, i)))
    row("hadd2.f32", "ii", "i", plain(lambda a, b, c, i, j: _half_sum(a, b, i)))
    row(
        "hsetp2",
        "ii",
        "p",
        lambda a, b, c, p, q, i, j: (
            0,
            _half_found(_half(a, i, 0, 0), _half(b, i, 1, 0), p, i, j),
            False,
        ),
    )
    row(
        "hset2",
        "ii",
        "i",
        _by_halves(
            lambda a, b, c, p, i, j: _half_found(a, b, p, i, j) * (0x3C00 if i & BOTH_ONES else 0xFFFF)
        ),
    )
    row("hmnmx2", "ii", "i", _by_halves(lambda a, b, c, p, i, j: _half_chosen(a, b, p)))
    row("f2h", "i", "i", plain(lambda a, b, c, i, j: _to_half(f32(a))))
    row("f2h2", "ii", "i", plain(lambda a, b, c, i, j: _to_half(f32(a)) << 16 | _to_half(f32(b))))
    row("h2f", "i", "i", plain(lambda a, b, c, i, j: bits32(f16(a & 0xFFFF))))
    row("i2h", "i", "i", plain(lambda a, b, c, i, j: _to_half(float(narrowed(a, i, j)))))
    row("h2i", "i", "i", plain(lambda a, b, c, i, j: to_integer(f16(a & 0xFFFF), i, 32, j >> 1)))
    return tuple(rows)

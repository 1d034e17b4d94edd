"""What the vector operations on halves and brain floats compute, for one lane, in plain Python."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Final

from smlab.sim.machine_code.rounding import (
    BRAIN,
    NAN16,
    NEAREST,
    bits16,
    bits32,
    brain,
    brain_bits,
    f16,
    f32,
    f64,
    fma,
    to_bits,
)
from smlab.sim.machine_code.vector_operation import (
    MODE,
    Meaning,
    VectorOperation,
    combined,
    made_whole,
    narrowed,
    plain,
    relation,
    saturated,
    signed,
    to_integer,
)

HALVES_SHIFT: Final = 2
HALF_SATURATE: Final = 64
BOTH_ONES: Final = 64
RELATION_SHIFT: Final = 8
HALF_POSITIVE: Final = 1 << 12
NAN_WINS: Final = 1 << 13
"""The parts of ``i`` in operations on halves and brain floats: two bits a source (1: the low half twice, 2:
the high half twice), saturate to [0, 1] or, of comparisons, 1.0 for true in place of all ones, the relation,
zero for what is negative, and no number where one of two is none."""


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


def _positive(bits: int, i: int) -> int:
    return 0 if i & HALF_POSITIVE and bits >= 0x8000 else bits


def _half_fma(a: int, b: int, c: int, i: int) -> int:
    bits = fma(f16(a), f16(b), f16(c), 16, NEAREST)
    return _positive(_saturated_half(bits) if i & HALF_SATURATE else bits, i)


def _brain_fma(a: int, b: int, c: int, i: int) -> int:
    return _positive(fma(brain(a), brain(b), brain(c), BRAIN, NEAREST), i)


def half_sum(a: int, b: int) -> int:
    return _half_fma(a, 0x3C00, b, 0)


def brain_sum(a: int, b: int) -> int:
    return _brain_fma(a, 0x3F80, b, 0)


def _half_sum(a: int, b: int, i: int) -> int:
    bits = bits32(f16(_half(a, i, 0, 0)) + f16(_half(b, i, 1, 0)))
    return saturated(bits) if i & HALF_SATURATE else bits


def _found(a: float, b: float, p: bool, i: int, j: int) -> bool:
    return combined(bool(i >> RELATION_SHIFT & relation(a, b)), p, j)[1]


def _chosen(a: int, b: int, p: bool, i: int, number: Callable[[int], float]) -> int:
    """The lesser (or greater) of two floats of 16 bits."""
    x, y = number(a), number(b)
    if math.isnan(x) or math.isnan(y):
        none = i & NAN_WINS or (math.isnan(x) and math.isnan(y))
        return NAN16 if none else (b if math.isnan(x) else a)
    if x == y:
        return (a | b) if p else (a & b)
    return a if (x < y) == p else b


def _to_short(value: float, kind: int, mode: int = NEAREST) -> int:
    """A float of 16 bits, rounded once."""
    if not math.isfinite(value):
        return bits16(value) if kind == 16 else brain_bits(value)
    return to_bits(Fraction(value), kind, mode, math.copysign(1.0, value) < 0)


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
    for letter, kind, number, one in (("h", 16, f16, 0x3C00), ("b", BRAIN, brain, 0x3F80)):
        _short_rows(row, letter, kind, number, one)
    row("bfma2", "iii", "i", _by_halves(lambda a, b, c, p, i, j: _brain_fma(a, b, c, i)))
    row("d2b", "d", "i", plain(lambda a, b, c, i, j: _to_short(f64(a), BRAIN, i & MODE)))
    row("h2f", "i", "i", plain(lambda a, b, c, i, j: bits32(f16(a & 0xFFFF))))
    return tuple(rows)


def _short_rows(
    row: Callable[..., None], letter: str, kind: int, number: Callable[[int], float], one: int
) -> None:
    """The rows that halves (h) and brain floats (b) have alike."""

    def compared(a: int, b: int, c: int, p: bool, q: bool, i: int, j: int) -> tuple[int, bool, bool]:
        low, high = (_found(number(_half(a, i, 0, n)), number(_half(b, i, 1, n)), p, i, j) for n in range(2))
        return 0, low, high

    def packed(a: int, b: int, c: int, i: int, j: int) -> int:
        return _to_short(f32(a), kind, i & MODE) << 16 | _to_short(f32(b), kind, i & MODE)

    row(f"{letter}setp2", "ii", "p", compared)
    row(
        f"{letter}set2",
        "ii",
        "i",
        _by_halves(
            lambda a, b, c, p, i, j: (
                _found(number(a), number(b), p, i, j) * (one if i & BOTH_ONES else 0xFFFF)
            )
        ),
    )
    row(f"{letter}mnmx2", "ii", "i", _by_halves(lambda a, b, c, p, i, j: _chosen(a, b, p, i, number)))
    row(f"f2{letter}2", "ii", "i", plain(packed))
    row(f"i2{letter}", "i", "i", plain(lambda a, b, c, i, j: _to_short(float(narrowed(a, i, j)), kind)))
    row(f"{letter}2i", "i", "i", plain(lambda a, b, c, i, j: to_integer(number(a & 0xFFFF), i, 32, j >> 1)))
    row(f"{letter}2l", "i", "d", plain(lambda a, b, c, i, j: to_integer(number(a & 0xFFFF), i, 64), 64))
    row(
        f"l2{letter}",
        "d",
        "i",
        plain(lambda a, b, c, i, j: to_bits(Fraction(signed(a, 64) if i & 4 else a), kind, NEAREST)),
    )
    row(
        f"{letter}rnd",
        "i",
        "i",
        plain(lambda a, b, c, i, j: _to_short(made_whole(number(a & 0xFFFF), i & MODE), kind)),
    )

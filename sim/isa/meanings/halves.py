"""What the vector operations on halves, bfloat16 numbers and pairs of singles compute, for one lane, in plain
Python."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

from smlab.sim.isa.meanings.rounding import (
    BFLOAT16,
    NAN16,
    NEAREST,
    bf16,
    bfloat16_bits,
    bits16,
    bits32,
    bits64,
    f16,
    f32,
    f64,
    fma,
    to_bits,
)
from smlab.sim.isa.vector_operation import (
    M32,
    Meaning,
    VectorOperation,
    combined,
    flushed,
    made_whole,
    narrowed,
    plain,
    power_of_two,
    relation,
    saturated,
    signed,
    to_integer,
)

HALVES_SHIFT: Final = 2
EXCHANGED: Final = 3
HALF_SATURATE: Final = 64
BOTH_ONES: Final = 64
HALF_POSITIVE: Final = 1 << 12
NAN_WINS: Final = 1 << 13
HALF_FLUSH: Final = 1 << 14
"""The bits of ``half_flags``: two for each source (1: the low half twice, 2: the high half twice, 3: both
exchanged), saturate to [0, 1] or, of comparisons, 1.0 for true in place of all ones, zero for what is
negative, no number where one of two is none, and zero with its sign for subnormal halves, sources and
results."""


def _half(word: int, half_flags: int, place: int, high: int) -> int:
    which = half_flags >> HALVES_SHIFT * place & 3
    taken = {0: high, EXCHANGED: 1 - high}.get(which, which - 1)
    return word >> 16 * taken & 0xFFFF


def _saturated_half(bits: int) -> int:
    return 0 if bits >= 0x8000 or bits > 0x7C00 else min(bits, 0x3C00)


def _by_halves(compute: Callable[..., int]) -> Meaning:
    """An operation on both halves of a word. ``compute`` takes the sources' halves, and other fields by their
    names."""
    names = tuple(inspect.signature(compute).parameters)
    sources, flags = sum(name in "abc" for name in names), names.index("half_flags")

    @functools.wraps(compute)
    def meaning(*fields: Any) -> tuple[int, bool, bool]:
        low, high = (
            compute(*(_half(fields[n], fields[flags], n, half) for n in range(sources)), *fields[sources:])
            for half in range(2)
        )
        return low | high << 16, False, False

    return meaning


def _positive(bits: int, half_flags: int) -> int:
    return 0 if half_flags & HALF_POSITIVE and bits >= 0x8000 else bits


def _flushed(half: int, half_flags: int) -> int:
    return half & 0x8000 if half_flags & HALF_FLUSH and half & 0x7C00 == 0 else half


def _half_fma(a: int, b: int, c: int, half_flags: int) -> int:
    x, y, z = (f16(_flushed(half, half_flags)) for half in (a, b, c))
    bits = _flushed(fma(x, y, z, 16, NEAREST), half_flags)
    return _positive(_saturated_half(bits) if half_flags & HALF_SATURATE else bits, half_flags)


def _bfloat16_fma(a: int, b: int, c: int, half_flags: int) -> int:
    return _positive(fma(bf16(a), bf16(b), bf16(c), BFLOAT16, NEAREST), half_flags)


def half_sum(a: int, b: int) -> int:
    return _half_fma(a, 0x3C00, b, 0)


def bfloat16_sum(a: int, b: int) -> int:
    return _bfloat16_fma(a, 0x3F80, b, 0)


def _half_sum(a: int, b: int, half_flags: int) -> int:
    bits = bits32(f16(_half(a, half_flags, 0, 0)) + f16(_half(b, half_flags, 1, 0)))
    return saturated(bits) if half_flags & HALF_SATURATE else bits


def chosen_short(
    a: int, b: int, takes_lesser: bool, number: Callable[[int], float], half_flags: int = 0
) -> int:
    """The lesser (or greater) of two floats of 16 bits."""
    x, y = number(a), number(b)
    if math.isnan(x) or math.isnan(y):
        none = half_flags & NAN_WINS or (math.isnan(x) and math.isnan(y))
        return NAN16 if none else (b if math.isnan(x) else a)
    if x == y:
        return (a | b) if takes_lesser else (a & b)
    return a if (x < y) == takes_lesser else b


def _to_short(value: float, kind: int, mode: int = NEAREST) -> int:
    """A float of 16 bits, rounded once."""
    if not math.isfinite(value):
        return bits16(value) if kind == 16 else bfloat16_bits(value)
    return to_bits(Fraction(value), kind, mode, math.copysign(1.0, value) < 0)


def half_rows() -> tuple[VectorOperation, ...]:
    """The rows of the table of operations."""
    rows: list[VectorOperation] = []

    def row(name: str, sources: str, result: str, meaning: Meaning, kind: str) -> None:
        rows.append(VectorOperation(name, sources, result, meaning, kind))

    half = "half precision"
    row("hadd2", "ii", "i", _by_halves(lambda a, b, half_flags: _half_fma(a, 0x3C00, b, half_flags)), half)
    row(
        "hmul2",
        "ii",
        "i",
        _by_halves(lambda a, b, half_flags: _half_fma(a, b, (a ^ b) & 0x8000, half_flags)),
        half,
    )
    row("hfma2", "iii", "i", _by_halves(_half_fma), half)
    row("hadd2.f32", "ii", "i", plain(_half_sum), half)
    for letter, kind, number, one in (("h", 16, f16, 0x3C00), ("b", BFLOAT16, bf16, 0x3F80)):
        rows += (*_short_rows(letter, number, one), *_short_conversions(letter, kind, number))
    row("bfma2", "iii", "i", _by_halves(_bfloat16_fma), half)
    row("d2b", "d", "i", plain(lambda a, rounding: _to_short(f64(a), BFLOAT16, rounding)), "conversion")
    row("d2h", "d", "i", plain(lambda a: _to_short(f64(a), 16)), "conversion")
    row("h2f", "i", "i", plain(lambda a: bits32(f16(a & 0xFFFF))), "conversion")
    row(
        "h2b",
        "i",
        "i",
        plain(lambda a, rounding, first_bit: _to_short(f16(a >> first_bit & 0xFFFF), BFLOAT16, rounding)),
        "conversion",
    )
    return tuple(rows)


def _short_rows(letter: str, number: Callable[[int], float], one: int) -> tuple[VectorOperation, ...]:
    """The comparisons and selections that halves (h) and bfloat16 numbers (b) have alike."""

    def holds(a: int, b: int, predicate_a: bool, relations: int, combine: int) -> bool:
        return combined(bool(relations & relation(number(a), number(b))), predicate_a, combine)[1]

    def compared(
        a: int, b: int, predicate_a: bool, relations: int, combine: int, half_flags: int
    ) -> tuple[int, bool, bool]:
        low, high = (
            holds(_half(a, half_flags, 0, n), _half(b, half_flags, 1, n), predicate_a, relations, combine)
            for n in range(2)
        )
        return 0, low, high

    def truth(a: int, b: int, predicate_a: bool, relations: int, combine: int, half_flags: int) -> int:
        return holds(a, b, predicate_a, relations, combine) * (one if half_flags & BOTH_ONES else 0xFFFF)

    def chosen(a: int, b: int, predicate_a: bool, half_flags: int) -> int:
        return chosen_short(a, b, predicate_a, number, half_flags)

    return (
        VectorOperation(f"{letter}setp2", "ii", "p", compared, "half precision"),
        VectorOperation(f"{letter}set2", "ii", "i", _by_halves(truth), "half precision"),
        VectorOperation(f"{letter}mnmx2", "ii", "i", _by_halves(chosen), "half precision"),
    )


def _short_conversions(letter: str, kind: int, number: Callable[[int], float]) -> tuple[VectorOperation, ...]:
    """The conversions, products with sums in singles and special functions that halves (h) and bfloat16
    numbers (b) have alike."""
    endless = 0x7C00 if kind == 16 else 0x7F80

    def packed(a: int, b: int, rounding: int, only_positive: int, finite: int) -> int:
        made = 0
        for shift, word in ((16, a), (0, b)):
            bits = _to_short(f32(word), kind, rounding)
            if finite and bits & 0x7FFF == endless:
                bits -= 1
            made |= (0 if only_positive and bits >= 0x8000 else bits) << shift
        return made

    def product_sum(a: int, b: int, c: int, rounding: int, saturate: int, half_choice: int) -> int:
        x, y = (number(word >> 16 * (half_choice >> n & 1) & 0xFFFF) for n, word in enumerate((a, b)))
        bits = fma(x, y, f32(c), 32, rounding)
        return saturated(bits) if saturate else bits

    def from_integer(a: int, rounding: int, is_signed: int, cut_bits: int, first_bit: int) -> int:
        return _to_short(float(narrowed(a, is_signed, cut_bits, first_bit)), kind, rounding)

    def integer(a: int, rounding: int, is_signed: int, cut_bits: int, first_bit: int) -> int:
        return to_integer(number(a >> first_bit & 0xFFFF), rounding, is_signed, 32, cut_bits)

    def long_integer(a: int, rounding: int, is_signed: int, first_bit: int) -> int:
        return to_integer(number(a >> first_bit & 0xFFFF), rounding, is_signed, 64)

    def function(compute: Callable[[float], float]) -> Meaning:
        def value(a: int, upper_bytes: int) -> int:
            return _to_short(compute(number(a >> 16 * upper_bytes & 0xFFFF)), kind)

        return plain(value)

    def from_long(a: int, rounding: int, is_signed: int) -> int:
        return to_bits(Fraction(signed(a, 64) if is_signed else a), kind, rounding)

    def double(a: int, first_bit: int) -> int:
        return bits64(number(a >> first_bit & 0xFFFF))

    def whole(a: int, rounding: int, first_bit: int) -> int:
        return _to_short(made_whole(number(a >> first_bit & 0xFFFF), rounding), kind)

    return (
        VectorOperation(f"f2{letter}2", "ii", "i", plain(packed), "packing"),
        VectorOperation(f"{letter}fma.f32", "iii", "i", plain(product_sum), "mixed precision"),
        VectorOperation(f"{letter}ex2", "i", "i", function(power_of_two), "byte arithmetic"),
        VectorOperation(f"{letter}tanh", "i", "i", function(math.tanh), "byte arithmetic"),
        VectorOperation(f"{letter}2d", "i", "d", plain(double, 64), "conversion"),
        VectorOperation(f"i2{letter}", "i", "i", plain(from_integer), "conversion"),
        VectorOperation(f"{letter}2i", "i", "i", plain(integer), "conversion"),
        VectorOperation(f"{letter}2l", "i", "d", plain(long_integer, 64), "conversion"),
        VectorOperation(f"l2{letter}", "d", "i", plain(from_long), "conversion"),
        VectorOperation(f"{letter}rnd", "i", "i", plain(whole), "conversion"),
    )


ONE_NUMBER, OTHER_WAY_ROUND, MAGNITUDE, MINUS_LOW, MINUS_HIGH = 1, 2, 4, 8, 16
"""How a source of an operation on pairs of singles (FADD2, FMUL2, FFMA2 of sm_100 and sm_103) gives two
numbers, as the operand's text says. ``R6.F32`` is one number for both, ``R6.F32x2.LO_HI`` has the pair the
other way round, ``R6.F32x2.HI_LO.NP`` is negative in the high one (with a minus before it in the low one)."""
FORM_BITS: Final = 5
"""Of each source in ``pair_forms``."""
_SIGN: Final = 0x80000000
_ONE: Final = 0x3F800000


def _pair_of_singles(word: int, form: int) -> tuple[int, int]:
    """The low and the high number of a source."""
    low, high = word & M32, word >> 32
    if form & ONE_NUMBER:
        high = low
    if form & OTHER_WAY_ROUND:
        low, high = high, low
    if form & MAGNITUDE:
        low, high = low & ~_SIGN, high & ~_SIGN
    return low ^ _SIGN * bool(form & MINUS_LOW), high ^ _SIGN * bool(form & MINUS_HIGH)


def _by_singles(sources: int, factors: Callable[..., tuple[int, int, int]]) -> Meaning:
    """``a * b + c`` on both numbers, with the factors and the sum that an operation has."""

    def pair(words: tuple[int, ...], rounding: int, flush: int, pair_forms: int) -> int:
        pairs = [_pair_of_singles(word, pair_forms >> FORM_BITS * n) for n, word in enumerate(words)]
        made = 0
        for which in range(2):
            a, b, c = factors(*(flushed(source[which], flush) for source in pairs))
            made |= flushed(fma(f32(a), f32(b), f32(c), 32, rounding), flush) << 32 * which
        return made

    if sources == 2:
        return plain(lambda a, b, rounding, flush, pair_forms: pair((a, b), rounding, flush, pair_forms), 64)
    return plain(
        lambda a, b, c, rounding, flush, pair_forms: pair((a, b, c), rounding, flush, pair_forms), 64
    )


def pair_rows() -> tuple[VectorOperation, ...]:
    """The rows of the table of operations."""
    kind = "pairs of singles"
    return (
        VectorOperation("fadd2", "dd", "d", _by_singles(2, lambda a, b: (a, _ONE, b)), kind),
        VectorOperation("fmul2", "dd", "d", _by_singles(2, lambda a, b: (a, b, (a ^ b) & _SIGN)), kind),
        VectorOperation("ffma2", "ddd", "d", _by_singles(3, lambda a, b, c: (a, b, c)), kind),
    )

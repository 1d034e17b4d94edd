"""Arithmetic on pairs of singles (FADD2, FMUL2, FFMA2 of sm_100 to sm_103), for one lane: the reference.

A source is a pair of registers, or one number for both. `pair_forms` has `FORM_BITS` bits for each source
that say so, as the operand's text does: ``R6.F32`` is one number, ``R6.F32x2.LO_HI`` has both exchanged,
``R6.F32x2.HI_LO.NP`` is negative in the high one (with a minus before it in the low one).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from smlab.sim.isa.meanings.rounding import f32, fma
from smlab.sim.isa.vector_operation import M32, VectorOperation, flushed, plain

ONE_NUMBER, EXCHANGED, MAGNITUDE, MINUS_LOW, MINUS_HIGH = 1, 2, 4, 8, 16
FORM_BITS: Final = 5
_SIGN: Final = 0x80000000
_ONE: Final = 0x3F800000


def _pair(word: int, form: int) -> tuple[int, int]:
    """The low and the high number of a source."""
    low, high = word & M32, word >> 32
    if form & ONE_NUMBER:
        high = low
    if form & EXCHANGED:
        low, high = high, low
    if form & MAGNITUDE:
        low, high = low & ~_SIGN, high & ~_SIGN
    return low ^ _SIGN * bool(form & MINUS_LOW), high ^ _SIGN * bool(form & MINUS_HIGH)


def _by_numbers(factors: Callable[..., tuple[int, int, int]]) -> Callable[..., int]:
    """``a * b + c`` on both numbers, with the factors and the sum that an operation has."""

    def pairs(words: tuple[int, ...], rounding: int, flush: int, pair_forms: int) -> int:
        sources = [_pair(word, pair_forms >> FORM_BITS * n) for n, word in enumerate(words)]
        made = 0
        for which in range(2):
            a, b, c = factors(*(flushed(source[which], flush) for source in sources))
            found = flushed(fma(f32(a), f32(b), f32(c), 32, rounding), flush)
            made |= found << 32 * which
        return made

    return pairs


_added = _by_numbers(lambda a, b: (a, _ONE, b))
_multiplied = _by_numbers(lambda a, b: (a, b, (a ^ b) & _SIGN))
_fused = _by_numbers(lambda a, b, c: (a, b, c))


def pair_rows() -> tuple[VectorOperation, ...]:
    """The rows of the table of operations."""

    def add(a: int, b: int, rounding: int, flush: int, pair_forms: int) -> int:
        return _added((a, b), rounding, flush, pair_forms)

    def multiply(a: int, b: int, rounding: int, flush: int, pair_forms: int) -> int:
        return _multiplied((a, b), rounding, flush, pair_forms)

    def fuse(a: int, b: int, c: int, rounding: int, flush: int, pair_forms: int) -> int:
        return _fused((a, b, c), rounding, flush, pair_forms)

    kind = "pairs of singles"
    return (
        VectorOperation("fadd2", "dd", "d", plain(add, 64), kind),
        VectorOperation("fmul2", "dd", "d", plain(multiply, 64), kind),
        VectorOperation("ffma2", "ddd", "d", plain(fuse, 64), kind),
    )

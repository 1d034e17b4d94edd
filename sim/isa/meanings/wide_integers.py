"""What vector micro-operations on whole numbers of 64 bits, on three numbers at once, on four bytes and on
several short numbers in a word compute; see `meanings`."""

from __future__ import annotations

from collections.abc import Callable

from smlab.sim.isa.meanings.rounding import f32
from smlab.sim.isa.vector_operation import (
    M32,
    M64,
    Meaning,
    VectorOperation,
    combined,
    plain,
    relation,
    signed,
    to_integer,
)


def _sum(values: tuple[int, ...], negated: int) -> int:
    return sum(-x if negated >> n & 1 else x for n, x in enumerate(values))


def _extreme(a: int, b: int, least: bool, bits: int) -> int:
    """The lesser or greater of two numbers with signs; ``bits`` 0: without."""
    first = signed(a, bits) < signed(b, bits) if bits else a < b
    return a if first == least else b


def _of_three(bits: int) -> Meaning:
    def value(a: int, b: int, c: int, predicate_a: bool, above_zero: int) -> int:
        found = _extreme(_extreme(a, b, predicate_a, bits), c, predicate_a, bits)
        return 0 if above_zero and signed(found) < 0 else found

    return plain(value)


def _of_bytes(compute: Callable[[int, int], int], a: int, b: int, is_signed: int) -> int:
    """An operation on the four bytes of two words."""
    made = 0
    for shift in range(0, 32, 8):
        x, y = a >> shift & 0xFF, b >> shift & 0xFF
        made |= (compute(signed(x, 8), signed(y, 8)) if is_signed else compute(x, y)) % 256 << shift
    return made


def _extreme_bytes(a: int, b: int, predicate_a: bool, is_signed: int) -> int:
    return _of_bytes(min if predicate_a else max, a, b, is_signed)


def _sum_of_bytes(a: int, b: int, negated: int) -> int:
    first, second = (-1 if negated >> n & 1 else 1 for n in range(2))
    return _of_bytes(lambda x, y: first * x + second * y, a, b, 0)


def _saturated_sum(a: int, b: int, negated: int) -> int:
    first, second = (-1 if negated >> n & 1 else 1 for n in range(2))
    total = first * signed(a) + second * signed(b)
    return min(max(total, -(1 << 31)), (1 << 31) - 1) & M32


def _clamped(value: int, is_signed: int, cut_bits: int) -> int:
    """In the range of a shorter integer, as a word."""
    kept = 32 - cut_bits
    low, high = (-(1 << kept - 1), (1 << kept - 1) - 1) if is_signed else (0, (1 << kept) - 1)
    return min(max(value, low), high) & M32


def _side_by_side(above: int, below: int, c: int, cut_bits: int, half_choice: int) -> int:
    """Two short integers, and above them the last source or its upper half (bit 2 of ``half_choice``)."""
    kept = 32 - cut_bits
    short = (1 << kept) - 1
    rest = c >> 16 if half_choice & 4 else c
    return (rest << 2 * kept | (above & short) << kept | below & short) & M32


def _packed_integers(a: int, b: int, c: int, is_signed: int, cut_bits: int, half_choice: int) -> int:
    above, below = (_clamped(signed(x), is_signed, cut_bits) for x in (a, b))
    return _side_by_side(above, below, c, cut_bits, half_choice)


def _packed_floats(
    a: int, b: int, c: int, rounding: int, is_signed: int, cut_bits: int, half_choice: int
) -> int:
    above, below = (to_integer(f32(x), rounding, is_signed, 32, cut_bits) for x in (a, b))
    return _side_by_side(above, below, c, cut_bits, half_choice)


def integer_rows() -> tuple[VectorOperation, ...]:
    """The rows of `meanings.OPERATIONS` for these."""
    row = VectorOperation
    return (
        row(
            "iadd3.64", "ddd", "d", plain(lambda a, b, c, negated: _sum((a, b, c), negated), 64), "64-bit sum"
        ),
        row("iadd64c", "dd", "d", _carried_sum, "64-bit sum with carry"),
        row("sel.64", "dd", "d", plain(lambda a, b, predicate_a: a if predicate_a else b, 64), "selection"),
        row("isetp.u64", "dd", "p", _compared(0), "comparison"),
        row("isetp.s64", "dd", "p", _compared(64), "comparison"),
        row(
            "imnmx.u64",
            "dd",
            "d",
            plain(lambda a, b, predicate_a: _extreme(a, b, predicate_a, 0), 64),
            "selection",
        ),
        row(
            "imnmx.s64",
            "dd",
            "d",
            plain(lambda a, b, predicate_a: _extreme(a, b, predicate_a, 64), 64),
            "selection",
        ),
        row(
            "in_window",
            "dii",
            "p",
            lambda a, b, c: (0, (a + b & M64) >> 32 == c, (a + b & M64) >> 32 != c),
            "comparison",
        ),
        row("imnmx.8x4", "ii", "i", plain(_extreme_bytes), "packed arithmetic"),
        row("iadd.8x4", "ii", "i", plain(_sum_of_bytes), "packed arithmetic"),
        row("iadd.sat", "ii", "i", plain(_saturated_sum), "packed arithmetic"),
        row(
            "i2i.sat",
            "i",
            "i",
            plain(lambda a, is_signed, cut_bits: _clamped(signed(a), is_signed, cut_bits)),
            "packing",
        ),
        row("i2ip", "iii", "i", plain(_packed_integers), "packing"),
        row("f2ip", "iii", "i", plain(_packed_floats), "packing"),
        row("imnmx3.u", "iii", "i", _of_three(0), "selection"),
        row("imnmx3.s", "iii", "i", _of_three(32), "selection"),
    )


def _carried_sum(a: int, b: int, predicate_a: bool, addend: int, complemented: int) -> tuple[int, bool, bool]:
    """A sum of two numbers of 64 bits, and its carry."""
    x, y = (value ^ M64 if complemented >> n & 1 else value for n, value in enumerate((a, b)))
    total = x + y + predicate_a + addend
    return total & M64, total > M64, False


def _compared(bits: int) -> Meaning:
    """A comparison of numbers with signs; ``bits`` 0: without. `relation` compares whole numbers of any size
    exactly."""

    def meaning(a: int, b: int, predicate_a: bool, relations: int, combine: int) -> tuple[int, bool, bool]:
        found = relation(signed(a, bits), signed(b, bits)) if bits else relation(a, b)
        return combined(bool(relations & found), predicate_a, combine)

    return meaning

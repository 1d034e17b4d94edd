"""What vector micro-operations on whole numbers of 64 bits and on three numbers at once compute, which
machine code from sm_100 on has; see `meanings`."""

from __future__ import annotations

from smlab.sim.isa.vector_operation import (
    Meaning,
    VectorOperation,
    combined,
    plain,
    relation,
    signed,
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


def integer_rows() -> tuple[VectorOperation, ...]:
    """The rows of `meanings.OPERATIONS` for these."""
    row = VectorOperation
    return (
        row(
            "iadd3.64", "ddd", "d", plain(lambda a, b, c, negated: _sum((a, b, c), negated), 64), "64-bit sum"
        ),
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
        row("imnmx3.u", "iii", "i", _of_three(0), "selection"),
        row("imnmx3.s", "iii", "i", _of_three(32), "selection"),
    )


def _compared(bits: int) -> Meaning:
    """A comparison of numbers with signs; ``bits`` 0: without. `relation` compares whole numbers of any size
    exactly."""

    def meaning(a: int, b: int, predicate_a: bool, relations: int, combine: int) -> tuple[int, bool, bool]:
        found = relation(signed(a, bits), signed(b, bits)) if bits else relation(a, b)
        return combined(bool(relations & found), predicate_a, combine)

    return meaning

"""What vector micro-operations on whole numbers of 64 bits and on three numbers at once compute, which
machine code from sm_100 on has; see `meanings`."""

from __future__ import annotations

from smlab.sim.machine_code.vector_operation import (
    ABOVE_ZERO,
    M32,
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


def _of_three(a: int, b: int, c: int, least: bool, i: int, bits: int) -> int:
    found = _extreme(_extreme(a, b, least, bits), c, least, bits)
    return 0 if i & ABOVE_ZERO and signed(found) < 0 else found & M32


def integer_rows() -> tuple[VectorOperation, ...]:
    """The rows of `meanings.OPERATIONS` for these."""
    row = VectorOperation
    return (
        row("iadd3.64", "ddd", "d", plain(lambda a, b, c, i, j: _sum((a, b, c), i), 64)),
        row("sel.64", "dd", "d", lambda a, b, c, p, q, i, j: (a if p else b, False, False)),
        row("isetp.u64", "dd", "p", lambda a, b, c, p, q, i, j: _compared(a, b, p, i, j)),
        row(
            "isetp.s64",
            "dd",
            "p",
            lambda a, b, c, p, q, i, j: _compared(signed(a, 64), signed(b, 64), p, i, j),
        ),
        row("imnmx.u64", "dd", "d", lambda a, b, c, p, q, i, j: (_extreme(a, b, p, 0), False, False)),
        row("imnmx.s64", "dd", "d", lambda a, b, c, p, q, i, j: (_extreme(a, b, p, 64), False, False)),
        row("imnmx3.u", "iii", "i", lambda a, b, c, p, q, i, j: (_of_three(a, b, c, p, i, 0), False, False)),
        row("imnmx3.s", "iii", "i", lambda a, b, c, p, q, i, j: (_of_three(a, b, c, p, i, 32), False, False)),
    )


def _compared(a: int, b: int, p: bool, i: int, j: int) -> tuple[int, bool, bool]:
    # Exact: `relation` compares whole numbers of any size.
    return combined(bool(i & relation(a, b)), p, j)

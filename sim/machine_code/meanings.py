"""What each vector micro-operation computes, for one lane, in plain Python: the reference.

A row of `OPERATIONS` names an operation, the words of its sources (``i`` 32 bits, ``d`` 64 bits, ``-``
none) and of its result (``i``, ``d``, ``p`` for predicates only), and holds its meaning: a function of the
sources as unsigned integers, the two predicates read, and the numbers ``i`` and ``j`` of the
micro-operation. It gives the result and the two predicates written. `vectors` has the same rows in machine
code.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from smlab.sim.machine_code.rounding import (
    CHOP,
    DOWN,
    NAN32,
    NAN64,
    NEAREST,
    UP,
    bits32,
    bits64,
    f32,
    f64,
    fma,
    to_bits,
)

M32: Final = (1 << 32) - 1
M64: Final = (1 << 64) - 1

Meaning = Callable[..., tuple[int, bool, bool]]


@dataclass(frozen=True)
class VectorOperation:
    """One vector micro-operation."""

    name: str
    sources: str
    result: str
    meaning: Meaning


def signed(value: int, bits: int = 32) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


def _flushed(bits: int) -> int:
    return bits & 0x80000000 if bits & 0x7F800000 == 0 else bits


def _saturated(bits: int) -> int:
    value = f32(bits)
    return 0 if math.isnan(value) or value <= 0 else bits32(min(value, 1.0))


MODE: Final = 3
FLUSH: Final = 4
SATURATE: Final = 8
"""The parts of ``i`` in single-precision operations: rounding mode, flush subnormals, saturate to [0, 1]."""


def _single(a: int, b: int, c: int, i: int) -> int:
    """``a * b + c`` on the bits of singles."""
    if i & FLUSH:
        a, b, c = _flushed(a), _flushed(b), _flushed(c)
    bits = fma(f32(a), f32(b), f32(c), 32, i & MODE)
    if i & FLUSH:
        bits = _flushed(bits)
    return _saturated(bits) if i & SATURATE else bits


_ONE: Final = 0x3F800000
_ONE64: Final = 0x3FF0000000000000
_MINUS: Final = 0x80000000
_MINUS64: Final = 1 << 63


def plain(function: Callable[[int, int, int, int, int], int], bits: int = 32) -> Meaning:
    """An operation without predicates; arithmetic is modulo 2**bits."""
    mask = (1 << bits) - 1
    return lambda a, b, c, p, q, i, j: (function(a, b, c, i, j) & mask, False, False)


def _carry(total: int) -> tuple[int, bool, bool]:
    return total & M32, total >= 1 << 32, total >= 1 << 33


def _lut(a: int, b: int, c: int, p: bool, q: bool, i: int, j: int) -> tuple[int, bool, bool]:
    result = 0
    for k in range(8):
        if i >> k & 1:
            result |= (a if k & 4 else ~a) & (b if k & 2 else ~b) & (c if k & 1 else ~c)
    result &= M32
    return result, result != 0 or p, False


def _bounded(count: int, i: int, j: int) -> int:
    return count & j if j else min(count, i)


def _pair(a: int, c: int) -> int:
    return c << 32 | a


LESS, EQUAL, GREATER, UNORDERED = 1, 2, 4, 8
AND, OR, XOR = 0, 1, 2


def _combined(found: bool, p: bool, j: int) -> tuple[int, bool, bool]:
    """A comparison and its opposite, each with the predicate read."""
    how = {AND: lambda x: x and p, OR: lambda x: x or p, XOR: lambda x: x != p}[j & 3]
    return 0, how(found), how(not found)


def _compared(relation: int, p: bool, q: bool, i: int, j: int) -> tuple[int, bool, bool]:
    extended = bool(j & 4)
    found = q if extended and relation == EQUAL else bool(i & relation)
    return _combined(found, p, j)


def _relation(a: float, b: float) -> int:
    if a != a or b != b:
        return UNORDERED
    return LESS if a < b else GREATER if a > b else EQUAL


def _choose32(a: int, b: int, p: bool, i: int) -> int:
    if i & FLUSH:
        a, b = _flushed(a), _flushed(b)
    x, y = f32(a), f32(b)
    if math.isnan(x) or math.isnan(y):
        return NAN32 if math.isnan(x) and math.isnan(y) else (b if math.isnan(x) else a)
    if x == y:
        return (a | b) if p else (a & b)
    return a if (x < y) == p else b


def _choose64(a: int, b: int, p: bool) -> int:
    x, y = f64(a), f64(b)
    if math.isnan(x) or math.isnan(y):
        return NAN64 if math.isnan(x) and math.isnan(y) else (b if math.isnan(x) else a)
    if x == y:
        return (a | b) if p else (a & b)
    return a if (x < y) == p else b


def _permuted(a: int, b: int, c: int) -> int:
    both, result = _pair(a, c), 0
    for k in range(4):
        select = b >> 4 * k & 15
        byte = both >> 8 * (select & 7) & 255
        if select & 8:
            byte = 255 if byte >> 7 else 0
        result |= byte << 8 * k
    return result


def _leading(a: int, i: int) -> int:
    """The highest bit that differs from the sign: ``i`` 1 signed, 2 as a shift count."""
    if i & 1 and a >> 31:
        a = ~a & M32
    if a == 0:
        return M32
    return 32 - a.bit_length() if i & 2 else a.bit_length() - 1


def _extended(a: int, b: int, i: int) -> int:
    width = min(b, 32)
    if width == 0:
        return 0
    low = a & ((1 << width) - 1)
    return low | (M32 << width & M32) if i & 1 and low >> (width - 1) else low


_WHOLE: Final[dict[int, Callable[[float], int]]] = {
    NEAREST: round,
    DOWN: math.floor,
    UP: math.ceil,
    CHOP: math.trunc,
}


def _to_integer(value: float, i: int, bits: int) -> int:
    """``i``: rounding mode, and 4 for signed; out of range saturates, NaN is 0."""
    if math.isnan(value):
        return 0
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if i & 4 else (0, (1 << bits) - 1)
    if math.isinf(value):
        return (high if value > 0 else low) & ((1 << bits) - 1)
    return min(max(_WHOLE[i & 3](value), low), high) & ((1 << bits) - 1)


def _whole(value: float, mode: int) -> float:
    if not math.isfinite(value) or value == 0:
        return value
    return math.copysign(float(_WHOLE[mode](value)), value)


def _special(function: Callable[[float], float]) -> Callable[[int, int, int, int, int], int]:
    """A special function of a single, subnormals flushed on both sides."""

    def value(a: int, b: int, c: int, i: int, j: int) -> int:
        return _flushed(bits32(function(f32(_flushed(a)))))

    return value


def _reciprocal(x: float) -> float:
    return math.copysign(math.inf, x) if x == 0 else 1.0 / x


def _reciprocal_root(x: float) -> float:
    if x == 0:
        return math.copysign(math.inf, x)
    return math.nan if x < 0 else 1.0 / math.sqrt(x)


def _root(x: float) -> float:
    return math.nan if x < 0 else math.sqrt(x)


def _power(x: float) -> float:
    return math.inf if x >= 1024 else math.exp2(x)


def _logarithm(x: float) -> float:
    if x == 0:
        return -math.inf
    return math.nan if x < 0 else math.log2(x)


def _circular(function: Callable[[float], float]) -> Callable[[float], float]:
    return lambda x: function(x * 6.283185307179586) if math.isfinite(x) else math.nan


def _seed(function: Callable[[float], float]) -> Callable[[int, int, int, int, int], int]:
    """The high word of a function of a double whose low word is 0."""
    return lambda a, b, c, i, j: bits64(function(f64(a << 32))) >> 32


def _rows() -> tuple[VectorOperation, ...]:
    rows: list[VectorOperation] = []

    def row(name: str, sources: str, result: str, meaning: Meaning) -> None:
        rows.append(VectorOperation(name, sources, result, meaning))

    row("mov", "i", "i", plain(lambda a, b, c, i, j: a))
    row("mov64", "d", "d", plain(lambda a, b, c, i, j: a, 64))
    row("iadd3", "iii", "i", plain(lambda a, b, c, i, j: a + b + c))
    row("iadd3c", "iii", "i", lambda a, b, c, p, q, i, j: _carry(a + b + c + p + q + i))
    row("imad", "iii", "i", plain(lambda a, b, c, i, j: a * b + c))
    row("imadx", "iii", "i", lambda a, b, c, p, q, i, j: ((a * b + c + p) & M32, False, False))
    row(
        "imul.wide.u",
        "iid",
        "d",
        lambda a, b, c, p, q, i, j: ((a * b + c + p) & M64, a * b + c + p > M64, False),
    )
    row(
        "imul.wide.s",
        "iid",
        "d",
        lambda a, b, c, p, q, i, j: (
            (signed(a) * signed(b) + c + p) & M64,
            (signed(a) * signed(b) & M64) + c + p > M64,
            False,
        ),
    )
    row("imul.hi.u", "iid", "i", plain(lambda a, b, c, i, j: (a * b + c) >> 32))
    row("imul.hi.s", "iid", "i", plain(lambda a, b, c, i, j: (signed(a) * signed(b) + c) >> 32))
    row("lop3", "iii", "i", _lut)
    row("shl", "iii", "i", plain(lambda a, b, c, i, j: a << _bounded(b, i, j)))
    row("shl.hi", "iii", "i", plain(lambda a, b, c, i, j: _pair(a, c) << _bounded(b, i, j) >> 32))
    row("shr", "iii", "i", plain(lambda a, b, c, i, j: _pair(a, c) >> _bounded(b, i, j)))
    row("shr.hi", "iii", "i", plain(lambda a, b, c, i, j: c >> _bounded(b, i, j)))
    row("sar", "iii", "i", plain(lambda a, b, c, i, j: signed(_pair(a, c), 64) >> _bounded(b, i, j)))
    row("sar.hi", "iii", "i", plain(lambda a, b, c, i, j: signed(c) >> _bounded(b, i, j)))
    row("lea", "iii", "i", lambda a, b, c, p, q, i, j: _carry((a << j & M32) + b + p + i))
    row("lea.hi", "iii", "i", lambda a, b, c, p, q, i, j: _carry((_pair(a, c) << j >> 32 & M32) + b + p + i))
    row("lea.hi.sx", "ii", "i", lambda a, b, c, p, q, i, j: _carry((signed(a) << j >> 32 & M32) + b + p + i))
    row("isetp", "ii", "p", lambda a, b, c, p, q, i, j: _compared(_relation(a, b), p, q, i, j))
    row(
        "fsetp",
        "ii",
        "p",
        lambda a, b, c, p, q, i, j: _compared(
            _relation(*((f32(_flushed(a)), f32(_flushed(b))) if j & 8 else (f32(a), f32(b)))), p, q, i, j
        ),
    )
    row("dsetp", "dd", "p", lambda a, b, c, p, q, i, j: _compared(_relation(f64(a), f64(b)), p, q, i, j))
    row("sel", "ii", "i", lambda a, b, c, p, q, i, j: (a if p else b, False, False))
    row(
        "imnmx.s",
        "ii",
        "i",
        lambda a, b, c, p, q, i, j: ((min if p else max)(signed(a), signed(b)) & M32, False, False),
    )
    row("imnmx.u", "ii", "i", lambda a, b, c, p, q, i, j: ((min if p else max)(a, b), False, False))
    row(
        "iaddmnmx.s",
        "iii",
        "i",
        lambda a, b, c, p, q, i, j: (
            (min if p else max)(signed((a + b) & M32), signed(c)) & M32,
            False,
            False,
        ),
    )
    row(
        "iaddmnmx.u",
        "iii",
        "i",
        lambda a, b, c, p, q, i, j: ((min if p else max)((a + b) & M32, c), False, False),
    )
    row("prmt", "iii", "i", plain(lambda a, b, c, i, j: _permuted(a, b, c)))
    row("popc", "i", "i", plain(lambda a, b, c, i, j: a.bit_count()))
    row("flo", "i", "i", plain(lambda a, b, c, i, j: _leading(a, i)))
    row("brev", "i", "i", plain(lambda a, b, c, i, j: int(f"{a:032b}"[::-1], 2)))
    row("iabs", "i", "i", plain(lambda a, b, c, i, j: abs(signed(a))))
    row("sgxt", "ii", "i", plain(lambda a, b, c, i, j: _extended(a, b, i)))
    row(
        "bmsk",
        "ii",
        "i",
        plain(lambda a, b, c, i, j: ((1 << min(b, 32)) - 1) << (a & 31 if i & 1 else min(a, 32))),
    )
    row("fadd", "ii", "i", plain(lambda a, b, c, i, j: _single(a, _ONE, b, i)))
    row("fmul", "ii", "i", plain(lambda a, b, c, i, j: _single(a, b, (a ^ b) & _MINUS, i)))
    row("ffma", "iii", "i", plain(lambda a, b, c, i, j: _single(a, b, c, i)))
    row("ffma.near", "iii", "i", plain(lambda a, b, c, i, j: _single(a, b, c, 0)))
    row("fmnmx", "ii", "i", lambda a, b, c, p, q, i, j: (_choose32(a, b, p, i), False, False))
    row("fchk", "ii", "p", lambda a, b, c, p, q, i, j: (0, _hard_division(a, b), False))
    row("dadd", "dd", "d", plain(lambda a, b, c, i, j: fma(f64(a), 1.0, f64(b), 64, i & MODE), 64))
    row(
        "dmul",
        "dd",
        "d",
        plain(lambda a, b, c, i, j: fma(f64(a), f64(b), f64((a ^ b) & _MINUS64), 64, i & MODE), 64),
    )
    row("dfma", "ddd", "d", plain(lambda a, b, c, i, j: fma(f64(a), f64(b), f64(c), 64, i & MODE), 64))
    row("dmnmx", "dd", "d", lambda a, b, c, p, q, i, j: (_choose64(a, b, p), False, False))
    row("i2f", "i", "i", plain(lambda a, b, c, i, j: to_bits(Fraction(signed(a) if i & 4 else a), 32, i & 3)))
    row(
        "l2f",
        "d",
        "i",
        plain(lambda a, b, c, i, j: to_bits(Fraction(signed(a, 64) if i & 4 else a), 32, i & 3)),
    )
    row("i2d", "i", "d", plain(lambda a, b, c, i, j: bits64(float(signed(a) if i & 4 else a)), 64))
    row(
        "l2d",
        "d",
        "d",
        plain(lambda a, b, c, i, j: to_bits(Fraction(signed(a, 64) if i & 4 else a), 64, i & 3), 64),
    )
    row("f2i", "i", "i", plain(lambda a, b, c, i, j: _to_integer(f32(_flushed(a) if j else a), i, 32)))
    row("f2l", "i", "d", plain(lambda a, b, c, i, j: _to_integer(f32(_flushed(a) if j else a), i, 64), 64))
    row("d2i", "d", "i", plain(lambda a, b, c, i, j: _to_integer(f64(a), i, 32)))
    row("d2l", "d", "d", plain(lambda a, b, c, i, j: _to_integer(f64(a), i, 64), 64))
    row("f2d", "i", "d", plain(lambda a, b, c, i, j: bits64(f32(a)), 64))
    row("d2f", "d", "i", plain(lambda a, b, c, i, j: fma(f64(a), 1.0, f64(a & _MINUS64), 32, i & MODE)))
    row("frnd", "i", "i", plain(lambda a, b, c, i, j: bits32(_whole(f32(_flushed(a) if j else a), i & 3))))
    row("drnd", "d", "d", plain(lambda a, b, c, i, j: bits64(_whole(f64(a), i & 3)), 64))
    row("rcp", "i", "i", plain(_special(_reciprocal)))
    row("rsq", "i", "i", plain(_special(_reciprocal_root)))
    row("sqrt", "i", "i", plain(_special(_root)))
    row("ex2", "i", "i", plain(_special(_power)))
    row("lg2", "i", "i", plain(_special(_logarithm)))
    row("sin", "i", "i", plain(_special(_circular(math.sin))))
    row("cos", "i", "i", plain(_special(_circular(math.cos))))
    row("tanh", "i", "i", plain(_special(math.tanh)))
    row("rcp64h", "i", "i", plain(_seed(_reciprocal)))
    row("rsq64h", "i", "i", plain(_seed(_reciprocal_root)))
    row("plop3", "", "p", lambda a, b, c, p, q, i, j: (0, p, q))
    return tuple(rows)


def _hard_division(a: int, b: int) -> bool:
    """Whether a quotient of singles needs the slow path: an exponent at the edge on either side, or in the
    result."""
    over, under = a >> 23 & 255, b >> 23 & 255
    return (
        over in (0, 255)
        or under in (0, 255)
        or not -100 < over - under < 100
        or not 16 < under < 252
        or over < 32
    )


OPERATIONS: Final = _rows()
BY_NAME: Final[dict[str, int]] = {operation.name: code for code, operation in enumerate(OPERATIONS)}
VECTOR_CODES: Final = len(OPERATIONS)


def describe() -> dict[str, Any]:
    return {operation.name: (operation.sources, operation.result) for operation in OPERATIONS}

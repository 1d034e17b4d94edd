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
from fractions import Fraction
from typing import Any, Final

from smlab.sim.machine_code.half_meanings import half_rows
from smlab.sim.machine_code.integer_meanings import integer_rows
from smlab.sim.machine_code.rounding import (
    NAN32,
    NAN64,
    bits32,
    bits64,
    f32,
    f64,
    fma,
    to_bits,
)
from smlab.sim.machine_code.vector_operation import (
    EQUAL,
    FLUSH,
    M32,
    M64,
    MODE,
    NAN_OF_ANY,
    SATURATE,
    SET_ONE,
    SHORTS_ABOVE_ZERO,
    SHORTS_SIGNED,
    Meaning,
    VectorOperation,
    combined,
    flushed,
    made_whole,
    narrowed,
    plain,
    relation,
    saturated,
    signed,
    to_integer,
)


def _single(a: int, b: int, c: int, i: int, power: int = 0) -> int:
    """``a * b * 2**power + c`` on the bits of singles."""
    if i & FLUSH:
        a, b, c = flushed(a), flushed(b), flushed(c)
    bits = fma(math.ldexp(f32(a), power), f32(b), f32(c), 32, i & MODE)
    if i & FLUSH:
        bits = flushed(bits)
    return saturated(bits) if i & SATURATE else bits


def _products(a: int, b: int, c: int, i: int, j: int) -> int:
    def byte(word: int, n: int, sign: int) -> int:
        found = word >> 8 * n & 255
        return signed(found, 8) if sign else found

    return c + sum(byte(a, n, i & 1) * byte(b, n, i & 2) for n in range(4))


def _short_products(a: int, b: int, c: int, i: int, j: int) -> int:
    """``i``: 1 the halves have signs, 2 the bytes, 4 the upper two bytes."""
    halves = [signed(h, 16) if i & 1 else h for h in (a & 0xFFFF, a >> 16)]
    found = [b >> 8 * n & 0xFF for n in ((2, 3) if i & 4 else (0, 1))]
    return c + sum(h * (signed(x, 8) if i & 2 else x) for h, x in zip(halves, found, strict=True))


def _apart(a: int, b: int, c: int, i: int, j: int) -> int:
    return abs(signed(a) - signed(b) if i & 1 else a - b) + c


def _bytes_apart(a: int, b: int, c: int, i: int, j: int) -> int:
    """``i``: 1 the bytes have signs, 2 their sum is taken, else a word of them."""
    found = []
    for n in range(4):
        x, y = a >> 8 * n & 0xFF, b >> 8 * n & 0xFF
        found.append(abs(signed(x, 8) - signed(y, 8)) if i & 1 else abs(x - y))
    return c + sum(found) if i & 2 else sum(x << 8 * n for n, x in enumerate(found))


_ONE: Final = 0x3F800000
_ONE64: Final = 0x3FF0000000000000
_MINUS: Final = 0x80000000
_MINUS64: Final = 1 << 63


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


def _compared(relation: int, p: bool, q: bool, i: int, j: int) -> tuple[int, bool, bool]:
    extended = bool(j & 4)
    found = q if extended and relation == EQUAL else bool(i & relation)
    return combined(found, p, j)


def _picked(x: float, y: float, p: bool, i: int) -> tuple[int, bool, bool]:
    """Whether the first is the greater (``i`` 1: the lesser) or the only number, and whether neither is one;
    zeros go by their sign."""
    if math.isnan(x) or math.isnan(y):
        return 0, p and not math.isnan(x), p and math.isnan(x) and math.isnan(y)
    order = (x, math.copysign(1, x)), (y, math.copysign(1, y))
    return 0, p and (order[0] < order[1] if i else order[0] > order[1]), False


def _choose32(a: int, b: int, p: bool, i: int) -> int:
    if i & FLUSH:
        a, b = flushed(a), flushed(b)
    x, y = f32(a), f32(b)
    if math.isnan(x) or math.isnan(y):
        none = i & NAN_OF_ANY or (math.isnan(x) and math.isnan(y))
        return NAN32 if none else (b if math.isnan(x) else a)
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


def _sum_of_shorts(a: int, b: int) -> int:
    return (a + b & 0xFFFF) | ((a >> 16) + (b >> 16) & 0xFFFF) << 16


def _extreme_shorts(a: int, b: int, least: bool, i: int) -> int:
    """The lesser or the greater one of the low and of the high halves of two words."""
    found = 0
    for shift in (0, 16):
        x, y = a >> shift & 0xFFFF, b >> shift & 0xFFFF
        if i & SHORTS_SIGNED:
            x, y = signed(x, 16), signed(y, 16)
        value = min(x, y) if least else max(x, y)
        if i & SHORTS_ABOVE_ZERO:
            value = max(value, 0)
        found |= (value & 0xFFFF) << shift
    return found


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


def _special(function: Callable[[float], float]) -> Callable[[int, int, int, int, int], int]:
    """A special function of a single, subnormals flushed on both sides."""

    def value(a: int, b: int, c: int, i: int, j: int) -> int:
        return flushed(bits32(function(f32(flushed(a)))))

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
    row(
        "imul.hi.u",
        "iid",
        "i",
        lambda a, b, c, p, q, i, j: (a * b + c + p >> 32 & M32, a * b + c + p > M64, False),
    )
    row(
        "imul.hi.s",
        "iid",
        "i",
        lambda a, b, c, p, q, i, j: (
            signed(a) * signed(b) + c + p >> 32 & M32,
            (signed(a) * signed(b) & M64) + c + p > M64,
            False,
        ),
    )
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
    row("isetp", "ii", "p", lambda a, b, c, p, q, i, j: _compared(relation(a, b), p, q, i, j))
    row(
        "fsetp",
        "ii",
        "p",
        lambda a, b, c, p, q, i, j: _compared(
            relation(*((f32(flushed(a)), f32(flushed(b))) if j & 8 else (f32(a), f32(b)))), p, q, i, j
        ),
    )
    row(
        "fset",
        "ii",
        "i",
        lambda a, b, c, p, q, i, j: (
            _compared(relation(f32(a), f32(b)), p, q, i, j)[1] * (0x3F800000 if j & SET_ONE else M32),
            False,
            False,
        ),
    )
    row("dsetp", "dd", "p", lambda a, b, c, p, q, i, j: _compared(relation(f64(a), f64(b)), p, q, i, j))
    row("dsetp.minmax", "dd", "p", lambda a, b, c, p, q, i, j: _picked(f64(a), f64(b), p, i))
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
    row("imnmx.16x2", "ii", "i", lambda a, b, c, p, q, i, j: (_extreme_shorts(a, b, p, i), False, False))
    row("iadd.16x2", "ii", "i", plain(lambda a, b, c, i, j: _sum_of_shorts(a, b)))
    row(
        "iaddmnmx.16x2",
        "iii",
        "i",
        lambda a, b, c, p, q, i, j: (_extreme_shorts(_sum_of_shorts(a, b), c, p, i), False, False),
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
    row("fmul.scaled", "ii", "i", plain(lambda a, b, c, i, j: _single(a, b, (a ^ b) & _MINUS, i, j)))
    row("ffma", "iii", "i", plain(lambda a, b, c, i, j: _single(a, b, c, i)))
    row("ffma.near", "iii", "i", plain(lambda a, b, c, i, j: _single(a, b, c, 0)))
    row("fmnmx", "ii", "i", lambda a, b, c, p, q, i, j: (_choose32(a, b, p, i), False, False))
    row(
        "fmnmx3",
        "iii",
        "i",
        lambda a, b, c, p, q, i, j: (_choose32(_choose32(a, b, p, i), c, p, i), False, False),
    )
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
    row("i2f", "i", "i", plain(lambda a, b, c, i, j: to_bits(Fraction(narrowed(a, i, j)), 32, i & 3)))
    row(
        "l2f",
        "d",
        "i",
        plain(lambda a, b, c, i, j: to_bits(Fraction(signed(a, 64) if i & 4 else a), 32, i & 3)),
    )
    row("i2d", "i", "d", plain(lambda a, b, c, i, j: bits64(float(narrowed(a, i, j))), 64))
    row(
        "l2d",
        "d",
        "d",
        plain(lambda a, b, c, i, j: to_bits(Fraction(signed(a, 64) if i & 4 else a), 64, i & 3), 64),
    )
    row(
        "f2i",
        "i",
        "i",
        plain(lambda a, b, c, i, j: to_integer(f32(flushed(a) if j & 1 else a), i, 32, j >> 1)),
    )
    row("f2l", "i", "d", plain(lambda a, b, c, i, j: to_integer(f32(flushed(a) if j else a), i, 64), 64))
    row("d2i", "d", "i", plain(lambda a, b, c, i, j: to_integer(f64(a), i, 32)))
    row("d2l", "d", "d", plain(lambda a, b, c, i, j: to_integer(f64(a), i, 64), 64))
    row("f2d", "i", "d", plain(lambda a, b, c, i, j: bits64(f32(a)), 64))
    row("d2f", "d", "i", plain(lambda a, b, c, i, j: fma(f64(a), 1.0, f64(a & _MINUS64), 32, i & MODE)))
    row("frnd", "i", "i", plain(lambda a, b, c, i, j: bits32(made_whole(f32(flushed(a) if j else a), i & 3))))
    row("drnd", "d", "d", plain(lambda a, b, c, i, j: bits64(made_whole(f64(a), i & 3)), 64))
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
    row("idp4a", "iii", "i", plain(_products))
    row("idp2a", "iii", "i", plain(_short_products))
    row("vabsdiff", "iii", "i", plain(_apart))
    row("vabsdiff4", "iii", "i", plain(_bytes_apart))
    row("plop3", "", "p", lambda a, b, c, p, q, i, j: (0, p, q))
    return (*rows, *integer_rows(), *half_rows())


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

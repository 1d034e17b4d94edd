"""What each vector micro-operation computes, for one lane, in plain Python: the reference.

A row of `OPERATIONS` names an operation, the words of its sources (``i`` 32 bits, ``d`` 64 bits, ``-``
none) and of its result (``i``, ``d``, ``p`` for predicates only), and holds its kind and its meaning: a
function of the fields of the micro-operation that its parameters name (see `vector_operation.Meaning`).
`vectors` has the same rows in machine code.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

from smlab.sim.isa.meanings.halves import half_rows, pair_rows
from smlab.sim.isa.meanings.rounding import (
    NAN32,
    NAN64,
    NEAREST,
    bits32,
    bits64,
    f32,
    f64,
    fma,
    to_bits,
)
from smlab.sim.isa.meanings.small_floats import small_float_rows
from smlab.sim.isa.meanings.wide_integers import integer_rows
from smlab.sim.isa.vector_operation import (
    EQUAL,
    M32,
    M64,
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


def _single(
    a: int, b: int, c: int, rounding: int = NEAREST, flush: int = 0, saturate: int = 0, power_of_two: int = 0
) -> int:
    """``a * b * 2**power_of_two + c`` on the bits of singles."""
    a, b, c = (flushed(x, flush) for x in (a, b, c))
    bits = fma(math.ldexp(f32(a), power_of_two), f32(b), f32(c), 32, rounding)
    bits = flushed(bits, flush)
    return saturated(bits) if saturate else bits


def _products(a: int, b: int, c: int, is_signed: int, b_is_signed: int) -> int:
    def byte(word: int, n: int, sign: int) -> int:
        found = word >> 8 * n & 255
        return signed(found, 8) if sign else found

    return c + sum(byte(a, n, is_signed) * byte(b, n, b_is_signed) for n in range(4))


def _short_products(a: int, b: int, c: int, is_signed: int, b_is_signed: int, upper_bytes: int) -> int:
    halves = [signed(h, 16) if is_signed else h for h in (a & 0xFFFF, a >> 16)]
    found = [b >> 8 * n & 0xFF for n in ((2, 3) if upper_bytes else (0, 1))]
    return c + sum(h * (signed(x, 8) if b_is_signed else x) for h, x in zip(halves, found, strict=True))


def _absolute_difference(a: int, b: int, c: int, is_signed: int) -> int:
    return abs(signed(a) - signed(b) if is_signed else a - b) + c


def _byte_differences(a: int, b: int, c: int, is_signed: int, sums_bytes: int) -> int:
    """The distances of bytes: their sum, or a word of them."""
    found = []
    for n in range(4):
        x, y = a >> 8 * n & 0xFF, b >> 8 * n & 0xFF
        found.append(abs(signed(x, 8) - signed(y, 8)) if is_signed else abs(x - y))
    return c + sum(found) if sums_bytes else sum(x << 8 * n for n, x in enumerate(found))


_ONE: Final = 0x3F800000
_ONE64: Final = 0x3FF0000000000000
_MINUS: Final = 0x80000000
_MINUS64: Final = 1 << 63


def _carry(total: int) -> tuple[int, bool, bool]:
    return total & M32, total >= 1 << 32, total >= 1 << 33


def _lut(a: int, b: int, c: int, predicate_a: bool, truth_table: int) -> tuple[int, bool, bool]:
    result = 0
    for k in range(8):
        if truth_table >> k & 1:
            result |= (a if k & 4 else ~a) & (b if k & 2 else ~b) & (c if k & 1 else ~c)
    result &= M32
    return result, result != 0 or predicate_a, False


def _shift(move: Callable[[int, int, int], int]) -> Meaning:
    """A shift of ``a``, or of ``a`` and ``c`` as one number, by a count in ``b``."""

    def meaning(a: int, b: int, c: int, count_limit: int, wrap_mask: int) -> int:
        return move(a, c, b & wrap_mask if wrap_mask else min(b, count_limit))

    return plain(meaning)


def _pair(a: int, c: int) -> int:
    return c << 32 | a


def _comparison(read: Callable[[int], float]) -> Meaning:
    """A comparison; of high words (``extends``), that of the low words decides where they are equal."""

    def meaning(
        a: int, b: int, predicate_a: bool, predicate_b: bool, relations: int, combine: int, extends: int
    ) -> tuple[int, bool, bool]:
        found = relation(read(a), read(b))
        holds = predicate_b if extends and found == EQUAL else bool(relations & found)
        return combined(holds, predicate_a, combine)

    return meaning


def _single_comparison(
    a: int, b: int, predicate_a: bool, relations: int, combine: int, flush: int
) -> tuple[int, bool, bool]:
    found = relation(f32(flushed(a, flush)), f32(flushed(b, flush)))
    return combined(bool(relations & found), predicate_a, combine)


def _single_truth(
    a: int, b: int, predicate_a: bool, relations: int, combine: int, sets_one: int
) -> tuple[int, bool, bool]:
    _, holds, _ = _single_comparison(a, b, predicate_a, relations, combine, 0)
    return holds * (_ONE if sets_one else M32), False, False


def _picked(a: int, b: int, predicate_a: bool, takes_lesser: int) -> tuple[int, bool, bool]:
    """Whether the first double is the greater (or lesser) or the only number, and whether neither is one;
    zeros go by their sign."""
    x, y = f64(a), f64(b)
    if math.isnan(x) or math.isnan(y):
        return 0, predicate_a and not math.isnan(x), predicate_a and math.isnan(x) and math.isnan(y)
    first, second = (x, math.copysign(1, x)), (y, math.copysign(1, y))
    return 0, predicate_a and (first < second if takes_lesser else first > second), False


def chosen_single(a: int, b: int, predicate_a: bool, flush: int, nan_wins: int) -> int:
    """The lesser of two singles if the predicate holds, else the greater."""
    a, b = flushed(a, flush), flushed(b, flush)
    x, y = f32(a), f32(b)
    if math.isnan(x) or math.isnan(y):
        none = nan_wins or (math.isnan(x) and math.isnan(y))
        return NAN32 if none else (b if math.isnan(x) else a)
    if x == y:
        return (a | b) if predicate_a else (a & b)
    return a if (x < y) == predicate_a else b


def _choose64(a: int, b: int, predicate_a: bool) -> int:
    x, y = f64(a), f64(b)
    if math.isnan(x) or math.isnan(y):
        return NAN64 if math.isnan(x) and math.isnan(y) else (b if math.isnan(x) else a)
    if x == y:
        return (a | b) if predicate_a else (a & b)
    return a if (x < y) == predicate_a else b


def _sum_of_shorts(a: int, b: int) -> int:
    return (a + b & 0xFFFF) | ((a >> 16) + (b >> 16) & 0xFFFF) << 16


def _extreme_shorts(a: int, b: int, predicate_a: bool, is_signed: int, above_zero: int) -> int:
    """The lesser or the greater one of the low and of the high halves of two words."""
    found = 0
    for shift in (0, 16):
        x, y = a >> shift & 0xFFFF, b >> shift & 0xFFFF
        if is_signed:
            x, y = signed(x, 16), signed(y, 16)
        value = min(x, y) if predicate_a else max(x, y)
        if above_zero:
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


def _leading(a: int, is_signed: int, as_shift: int) -> int:
    """The highest bit that differs from the sign."""
    if is_signed and a >> 31:
        a = ~a & M32
    if a == 0:
        return M32
    return 32 - a.bit_length() if as_shift else a.bit_length() - 1


def _extended(a: int, b: int, is_signed: int) -> int:
    width = min(b, 32)
    if width == 0:
        return 0
    low = a & ((1 << width) - 1)
    return low | (M32 << width & M32) if is_signed and low >> (width - 1) else low


def _logic_of_signs(a: int, b: int, c: int, truth_table: int, truth_table_b: int) -> tuple[int, bool, bool]:
    which = (a >> 31) << 2 | (b >> 31) << 1 | c >> 31
    return 0, bool(truth_table >> which & 1), bool(truth_table_b >> which & 1)


def _bit_mask(a: int, b: int, wraps: int) -> int:
    return ((1 << min(b, 32)) - 1) << (a & 31 if wraps else min(a, 32))


def _special(function: Callable[[float], float]) -> Callable[[int], int]:
    """A special function of a single, subnormals flushed on both sides."""

    def value(a: int) -> int:
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


def _logarithm(x: float) -> float:
    if x == 0:
        return -math.inf
    return math.nan if x < 0 else math.log2(x)


def _circular(function: Callable[[float], float]) -> Callable[[float], float]:
    return lambda x: function(x * 6.283185307179586) if math.isfinite(x) else math.nan


def _seed(function: Callable[[float], float]) -> Callable[[int], int]:
    """The high word of a function of a double whose low word is 0."""
    return lambda a: bits64(function(f64(a << 32))) >> 32


def _wide_product(a: int, b: int, c: int, predicate_a: bool) -> tuple[int, bool, bool]:
    total = (a * b & M64) + c + predicate_a
    return total & M64, total > M64, False


def _wide_signed_product(a: int, b: int, c: int, predicate_a: bool) -> tuple[int, bool, bool]:
    return _wide_product(signed(a) * signed(b), 1, c, predicate_a)


def _high_product(product: Meaning) -> Meaning:
    """The upper word of the same sum, with its carry."""

    @functools.wraps(product)
    def meaning(*fields: Any) -> tuple[int, bool, bool]:
        total, over, _ = product(*fields)
        return total >> 32, over, False

    return meaning


def _scaled_sum(move: Callable[[int, int, int], int], *, pair: bool = True) -> Meaning:
    """``a``, or ``a`` and ``c`` as one number, moved by ``shift``, and ``b``."""

    def of_two(a: int, b: int, predicate_a: bool, addend: int, shift: int) -> tuple[int, bool, bool]:
        return _carry((move(a, 0, shift) & M32) + b + predicate_a + addend)

    def of_pair(a: int, b: int, c: int, predicate_a: bool, addend: int, shift: int) -> tuple[int, bool, bool]:
        return _carry((move(a, c, shift) & M32) + b + predicate_a + addend)

    return of_pair if pair else of_two


def _least_or_greatest(read: Callable[[int], int]) -> Meaning:
    """The lesser of two words where the predicate holds, else the greater."""

    def meaning(a: int, b: int, predicate_a: bool) -> tuple[int, bool, bool]:
        return (min if predicate_a else max)(read(a), read(b)) & M32, False, False

    return meaning


def _least_or_greatest_of_sum(read: Callable[[int], int]) -> Meaning:
    choose = _least_or_greatest(read)

    def meaning(a: int, b: int, c: int, predicate_a: bool, above_zero: int) -> tuple[int, bool, bool]:
        found = choose((a + b) & M32, c, predicate_a)[0]
        return 0 if above_zero and signed(found) < 0 else found, False, False

    return meaning


def _unsigned(value: int) -> int:
    return value


def _from_long(bits: int) -> Meaning:
    """A whole number of 64 bits as a float."""

    def value(a: int, rounding: int, is_signed: int) -> int:
        return to_bits(Fraction(signed(a, 64) if is_signed else a), bits, rounding)

    return plain(value, bits)


def _rows() -> tuple[VectorOperation, ...]:
    rows: list[VectorOperation] = []

    def row(name: str, sources: str, result: str, meaning: Meaning, kind: str = "arithmetic") -> None:
        rows.append(VectorOperation(name, sources, result, meaning, kind))

    row("mov", "i", "i", plain(lambda a: a))
    row("mov64", "d", "d", plain(lambda a: a, 64))
    row("iadd3", "iii", "i", plain(lambda a, b, c: a + b + c))
    carry = "carry arithmetic"
    row(
        "iadd3c",
        "iii",
        "i",
        lambda a, b, c, predicate_a, predicate_b, addend: _carry(
            a + b + c + predicate_a + predicate_b + addend
        ),
        carry,
    )
    row("imad", "iii", "i", plain(lambda a, b, c: a * b + c))
    row("imadx", "iii", "i", plain(lambda a, b, c, predicate_a: a * b + c + predicate_a), carry)
    row("imul.wide.u", "iid", "d", _wide_product, carry)
    row("imul.wide.s", "iid", "d", _wide_signed_product, carry)
    row("imul.hi.u", "iid", "i", _high_product(_wide_product), carry)
    row("imul.hi.s", "iid", "i", _high_product(_wide_signed_product), carry)
    row("lop3", "iii", "i", _lut, "bitwise logic")
    row("shl", "iii", "i", _shift(lambda a, c, n: a << n), "shift")
    row("shl.hi", "iii", "i", _shift(lambda a, c, n: _pair(a, c) << n >> 32), "shift")
    row("shr", "iii", "i", _shift(lambda a, c, n: _pair(a, c) >> n), "shift")
    row("shr.hi", "iii", "i", _shift(lambda a, c, n: c >> n), "shift")
    row("sar", "iii", "i", _shift(lambda a, c, n: signed(_pair(a, c), 64) >> n), "shift")
    row("sar.hi", "iii", "i", _shift(lambda a, c, n: signed(c) >> n), "shift")
    row("lea", "iii", "i", _scaled_sum(lambda a, c, n: a << n), carry)
    row("lea.hi", "iii", "i", _scaled_sum(lambda a, c, n: _pair(a, c) << n >> 32), carry)
    row("lea.hi.sx", "ii", "i", _scaled_sum(lambda a, c, n: signed(a) << n >> 32, pair=False), carry)
    row("isetp", "ii", "p", _comparison(_unsigned), "comparison")
    row("fsetp", "ii", "p", _single_comparison, "comparison")
    row("fset", "ii", "i", _single_truth, "comparison")
    row("dsetp", "dd", "p", _comparison(f64), "comparison")
    row("dsetp.minmax", "dd", "p", _picked, "minimum or maximum test")
    row("sel", "ii", "i", plain(lambda a, b, predicate_a: a if predicate_a else b), "selection")
    row("imnmx.s", "ii", "i", _least_or_greatest(signed), "selection")
    row("imnmx.u", "ii", "i", _least_or_greatest(_unsigned), "selection")
    row("iaddmnmx.s", "iii", "i", _least_or_greatest_of_sum(signed), "selection")
    row("iaddmnmx.u", "iii", "i", _least_or_greatest_of_sum(_unsigned), "selection")
    row("imnmx.16x2", "ii", "i", plain(_extreme_shorts), "selection")
    row("iadd.16x2", "ii", "i", plain(_sum_of_shorts))
    row(
        "iaddmnmx.16x2",
        "iii",
        "i",
        plain(
            lambda a, b, c, predicate_a, is_signed, above_zero: _extreme_shorts(
                _sum_of_shorts(a, b), c, predicate_a, is_signed, above_zero
            )
        ),
        "selection",
    )
    row("prmt", "iii", "i", plain(_permuted))
    row("popc", "i", "i", plain(lambda a: a.bit_count()))
    row("flo", "i", "i", plain(_leading), "bit field")
    row("brev", "i", "i", plain(lambda a: int(f"{a:032b}"[::-1], 2)))
    row("iabs", "i", "i", plain(lambda a: abs(signed(a))))
    row("sgxt", "ii", "i", plain(_extended), "bit field")
    row("bmsk", "ii", "i", plain(_bit_mask), "bit mask")
    row("signs", "iii", "p", _logic_of_signs, "logic of signs")
    _float_rows(row)
    _conversion_rows(row)
    row("rcp", "i", "i", plain(_special(_reciprocal)))
    row("rsq", "i", "i", plain(_special(_reciprocal_root)))
    row("sqrt", "i", "i", plain(_special(_root)))
    row("ex2", "i", "i", plain(_special(power_of_two)))
    row("lg2", "i", "i", plain(_special(_logarithm)))
    row("sin", "i", "i", plain(_special(_circular(math.sin))))
    row("cos", "i", "i", plain(_special(_circular(math.cos))))
    row("tanh", "i", "i", plain(_special(math.tanh)))
    row("rcp64h", "i", "i", plain(_seed(_reciprocal)))
    row("rsq64h", "i", "i", plain(_seed(_reciprocal_root)))
    row("idp4a", "iii", "i", plain(_products), "byte arithmetic")
    row("idp2a", "iii", "i", plain(_short_products), "byte arithmetic")
    row("vabsdiff", "iii", "i", plain(_absolute_difference), "absolute difference")
    row("vabsdiff4", "iii", "i", plain(_byte_differences), "absolute difference")
    row("plop3", "", "p", lambda predicate_a, predicate_b: (0, predicate_a, predicate_b), "predicate logic")
    return (*rows, *integer_rows(), *half_rows(), *small_float_rows(), *pair_rows())


def _float_rows(row: Callable[..., None]) -> None:
    kind = "floating point"
    row(
        "fadd",
        "ii",
        "i",
        plain(lambda a, b, rounding, flush, saturate: _single(a, _ONE, b, rounding, flush, saturate)),
        kind,
    )
    row(
        "fmul",
        "ii",
        "i",
        plain(
            lambda a, b, rounding, flush, saturate: _single(a, b, (a ^ b) & _MINUS, rounding, flush, saturate)
        ),
        kind,
    )
    row(
        "fmul.scaled",
        "ii",
        "i",
        plain(
            lambda a, b, rounding, flush, saturate, power_of_two: _single(
                a, b, (a ^ b) & _MINUS, rounding, flush, saturate, power_of_two
            )
        ),
        kind,
    )
    row(
        "ffma",
        "iii",
        "i",
        plain(lambda a, b, c, rounding, flush, saturate: _single(a, b, c, rounding, flush, saturate)),
        kind,
    )
    row("ffma.near", "iii", "i", plain(lambda a, b, c: _single(a, b, c)), kind)
    row("fmnmx", "ii", "i", plain(chosen_single), "selection")
    row(
        "fmnmx3",
        "iii",
        "i",
        plain(
            lambda a, b, c, predicate_a, flush, nan_wins: chosen_single(
                chosen_single(a, b, predicate_a, flush, nan_wins), c, predicate_a, flush, nan_wins
            )
        ),
        "selection",
    )
    row("fchk", "ii", "p", lambda a, b: (0, _hard_division(a, b), False), "comparison")
    row("dadd", "dd", "d", plain(lambda a, b, rounding: fma(f64(a), 1.0, f64(b), 64, rounding), 64), kind)
    row(
        "dmul",
        "dd",
        "d",
        plain(lambda a, b, rounding: fma(f64(a), f64(b), f64((a ^ b) & _MINUS64), 64, rounding), 64),
        kind,
    )
    row(
        "dfma",
        "ddd",
        "d",
        plain(lambda a, b, c, rounding: fma(f64(a), f64(b), f64(c), 64, rounding), 64),
        kind,
    )
    row("dmnmx", "dd", "d", plain(_choose64, 64), "selection")


def _conversion_rows(row: Callable[..., None]) -> None:
    kind = "conversion"
    row(
        "i2f",
        "i",
        "i",
        plain(
            lambda a, rounding, is_signed, cut_bits, first_bit: to_bits(
                Fraction(narrowed(a, is_signed, cut_bits, first_bit)), 32, rounding
            )
        ),
        kind,
    )
    row("l2f", "d", "i", _from_long(32), kind)
    row(
        "i2d",
        "i",
        "d",
        plain(
            lambda a, is_signed, cut_bits, first_bit: bits64(
                float(narrowed(a, is_signed, cut_bits, first_bit))
            ),
            64,
        ),
        kind,
    )
    row("l2d", "d", "d", _from_long(64), kind)
    row(
        "f2i",
        "i",
        "i",
        plain(
            lambda a, rounding, is_signed, cut_bits, flush: to_integer(
                f32(flushed(a, flush)), rounding, is_signed, 32, cut_bits
            )
        ),
        kind,
    )
    row(
        "f2l",
        "i",
        "d",
        plain(
            lambda a, rounding, is_signed, flush: to_integer(f32(flushed(a, flush)), rounding, is_signed, 64),
            64,
        ),
        kind,
    )
    row(
        "d2i",
        "d",
        "i",
        plain(lambda a, rounding, is_signed, cut_bits: to_integer(f64(a), rounding, is_signed, 32, cut_bits)),
        kind,
    )
    row(
        "d2l",
        "d",
        "d",
        plain(lambda a, rounding, is_signed: to_integer(f64(a), rounding, is_signed, 64), 64),
        kind,
    )
    row("f2d", "i", "d", plain(lambda a: bits64(f32(a)), 64), kind)
    row("d2f", "d", "i", plain(lambda a, rounding: fma(f64(a), 1.0, f64(a & _MINUS64), 32, rounding)), kind)
    row(
        "frnd",
        "i",
        "i",
        plain(lambda a, rounding, flush: bits32(made_whole(f32(flushed(a, flush)), rounding))),
        kind,
    )
    row("drnd", "d", "d", plain(lambda a, rounding: bits64(made_whole(f64(a), rounding)), 64), kind)


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

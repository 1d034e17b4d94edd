"""The vector operations on halves and bfloat16 numbers, in LLVM: by whole numbers, so that no processor needs
instructions for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from smlab.sim.isa import vector_operation
from smlab.sim.isa.meanings import halves, rounding
from smlab.sim.isa.vectors.conversions import made_whole, narrowed, to_integer
from smlab.sim.isa.vectors.llvm_lanes import (
    BITS,
    BUILDERS,
    F32,
    F64,
    HALF,
    V32,
    V64,
    Builder,
    Lanes,
    Result,
    builds,
)
from smlab.sim.isa.vectors.special import libm


def half_to_single(v: Lanes, half: Any) -> Any:
    """Singles of the low halves of words, exactly."""
    B = v.builder
    size = B.shl(B.and_(half, v.all(0x7FFF)), v.all(13))
    exponent = B.and_(size, v.all(0x0F800000))
    normal = B.add(size, v.all(112 << 23))
    endless = B.add(normal, v.all(112 << 23))
    tiny = B.fsub(B.bitcast(B.add(normal, v.all(1 << 23)), F32), B.bitcast(v.all(113 << 23), F32))
    bits = B.select(B.icmp_unsigned("==", exponent, v.all(0x0F800000)), endless, normal)
    # A difference of nothing is -0 where the processor rounds down.
    magnitude = B.and_(B.bitcast(tiny, V32), v.all(0x7FFFFFFF))
    bits = B.select(B.icmp_unsigned("==", exponent, v.all(0)), magnitude, bits)
    sign = B.shl(B.and_(half, v.all(0x8000)), v.all(16))
    return B.bitcast(B.or_(bits, sign), F32)


def single_to_half(v: Lanes, value: Any) -> Any:
    """Singles rounded to the nearest halves, in the low halves of words."""
    B = v.builder
    bits = B.bitcast(value, V32)
    size = B.and_(bits, v.all(0x7FFFFFFF))
    sign = B.and_(B.lshr(bits, v.all(16)), v.all(0x8000))
    odd = B.and_(B.lshr(size, v.all(13)), v.all(1))
    normal = B.lshr(B.sub(B.add(B.add(size, v.all(0xFFF)), odd), v.all(112 << 23)), v.all(13))
    # Below the least normal half, the sum with 0.5 has the half's bits at its end, rounded.
    summed = B.fadd(B.bitcast(size, F32), v.all(0.5, F32))
    tiny = B.sub(B.bitcast(summed, V32), v.all(0x3F000000))
    made = B.select(B.icmp_unsigned("<", size, v.all(0x38800000)), tiny, normal)
    made = B.select(B.icmp_unsigned(">=", size, v.all(0x47800000)), v.all(0x7C00), made)
    made = B.or_(made, sign)
    return B.select(B.icmp_unsigned(">", size, v.all(0x7F800000)), v.all(0x7FFF), made)


def _cut_to_single(v: Lanes, value: Any) -> Any:
    """Doubles as singles whose last bit says that something was cut off, to be rounded to fewer bits."""
    B = v.builder
    near = B.fptrunc(value, F32)
    back, bits = B.fpext(near, F64), B.bitcast(near, V32)
    size = B.and_(B.bitcast(value, V64), v.all(0x7FFFFFFFFFFFFFFF, V64))
    size_back = B.and_(B.bitcast(back, V64), v.all(0x7FFFFFFFFFFFFFFF, V64))
    cut = B.select(B.icmp_unsigned(">", size_back, size), B.sub(bits, v.all(1)), bits)
    inexact = B.fcmp_ordered("!=", back, value)
    return B.bitcast(B.select(inexact, B.or_(cut, v.all(1)), bits), F32)


def double_to_half(v: Lanes, value: Any) -> Any:
    """Doubles rounded once."""
    return single_to_half(v, _cut_to_single(v, value))


def bfloat16_to_single(v: Lanes, half: Any) -> Any:
    return v.builder.bitcast(v.builder.shl(half, v.all(16)), F32)


def single_to_bfloat16(v: Lanes, value: Any, mode: Any | None = None) -> Any:
    """Singles rounded to bfloat16 numbers, in the low halves of words; by a mode, else to the nearest."""
    B = v.builder
    bits = B.bitcast(value, V32)
    odd = B.and_(B.lshr(bits, v.all(16)), v.all(1))
    added = B.add(v.all(0x7FFF), odd)
    if mode is not None:
        whole, nothing = v.all(0xFFFF), v.all(0)
        negative = B.icmp_signed("<", bits, v.all(0))
        for which, towards in (
            (rounding.DOWN, B.select(negative, whole, nothing)),
            (rounding.UP, B.select(negative, nothing, whole)),
            (rounding.CHOP, nothing),
        ):
            added = B.select(B.icmp_unsigned("==", mode, ir.Constant(HALF, which)), towards, added)
    made = B.lshr(B.add(bits, added), v.all(16))
    return B.select(B.fcmp_unordered("uno", value, value), v.all(0x7FFF), made)


def double_to_bfloat16(v: Lanes, value: Any, mode: Any | None = None) -> Any:
    return single_to_bfloat16(v, _cut_to_single(v, value), mode)


def _parts(v: Lanes, word: Any, place: int) -> tuple[Any, Any]:
    """The low and the high half of a source, as its operand chooses them."""
    B = v.builder
    shift = halves.HALVES_SHIFT * place
    low, high = B.and_(word, v.all(0xFFFF)), B.lshr(word, v.all(16))
    return v.either(v.flag("half_flags", 2 << shift), high, low), v.either(
        v.flag("half_flags", 1 << shift), low, high
    )


def _saturated(v: Lanes, half: Any) -> Any:
    """Into [0, 1], where that is asked."""
    B = v.builder
    negative = B.icmp_unsigned(">=", half, v.all(0x8000))
    above = B.icmp_unsigned(">", half, v.all(0x3C00))
    none = B.or_(negative, B.icmp_unsigned(">", half, v.all(0x7C00)))
    cut = B.select(none, v.all(0), B.select(above, v.all(0x3C00), half))
    return v.either(v.flag("half_flags", halves.HALF_SATURATE), cut, half)


def _packed(v: Lanes, low: Any, high: Any) -> Any:
    return v.builder.or_(low, v.builder.shl(high, v.all(16)))


def _by_halves(compute: Callable[..., Any]) -> Builder:
    def build(v: Lanes, *sources: Any) -> Any:
        parts = [_parts(v, source, place) for place, source in enumerate(sources)]
        made = []
        for half in range(2):
            exact = [v.builder.fpext(half_to_single(v, _flushed(v, part[half])), F64) for part in parts]
            rounded = _flushed(v, double_to_half(v, compute(v.builder, *exact)))
            made.append(_positive(v, _saturated(v, rounded)))
        return _packed(v, *made)

    return build


def _flushed(v: Lanes, half: Any) -> Any:
    """Zero with its sign in place of what is subnormal, where that is asked."""
    B = v.builder
    tiny = B.icmp_unsigned("==", B.and_(half, v.all(0x7C00)), v.all(0))
    cut = B.select(tiny, B.and_(half, v.all(0x8000)), half)
    return v.either(v.flag("half_flags", halves.HALF_FLUSH), cut, half)


def _positive(v: Lanes, half: Any) -> Any:
    """Zero in place of what is negative, where that is asked."""
    cut = v.builder.select(v.builder.icmp_unsigned(">=", half, v.all(0x8000)), v.all(0), half)
    return v.either(v.flag("half_flags", halves.HALF_POSITIVE), cut, half)


BUILDERS["hadd2"] = _by_halves(lambda B, a, b: B.fadd(a, b))
BUILDERS["hmul2"] = _by_halves(lambda B, a, b: B.fmul(a, b))
# The product of two halves is exact in a double, and so is the sum wherever its rounding hangs on it.
BUILDERS["hfma2"] = _by_halves(lambda B, a, b, c: B.fadd(B.fmul(a, b), c))


def _odd_sum(v: Lanes, a: Any, b: Any) -> Any:
    """The sum of doubles; where it is not exact, of the two doubles around it the odd one, so that a second
    rounding to fewer bits gives what a single one does (Boldo and Melquiond 2008). The error is that of a sum
    in two numbers (Knuth)."""
    B = v.builder
    total = B.fadd(a, b)
    of_b = B.fsub(total, a)
    error = B.fadd(B.fsub(a, B.fsub(total, of_b)), B.fsub(b, of_b))
    bits, one = B.bitcast(total, V64), v.all(1, V64)
    differ = B.xor(bits, B.bitcast(error, V64))
    away = B.icmp_signed(">=", differ, v.all(0, V64))  # of one sign
    moved = B.select(away, B.add(bits, one), B.sub(bits, one))
    even = B.icmp_unsigned("==", B.and_(bits, one), v.all(0, V64))
    inexact = B.fcmp_ordered("one", error, v.all(0.0, F64))
    return B.bitcast(B.select(B.and_(even, inexact), moved, bits), F64)


@builds("bfma2")
def _bfma2(v: Lanes, a: Any, b: Any, c: Any) -> Any:
    B = v.builder
    parts = [_parts(v, source, place) for place, source in enumerate((a, b, c))]
    made = []
    for half in range(2):
        x, y, z = (B.fpext(bfloat16_to_single(v, part[half]), F64) for part in parts)
        made.append(_positive(v, double_to_bfloat16(v, _odd_sum(v, B.fmul(x, y), z))))
    return _packed(v, *made)


@builds("hadd2.f32")
def _hadd2_f32(v: Lanes, a: Any, b: Any) -> Any:
    x, y = (half_to_single(v, _parts(v, s, n)[0]) for n, s in enumerate((a, b)))
    bits = v.bits32(v.builder.fadd(x, y))
    B, value = v.builder, v.builder.bitcast(bits, F32)
    above = B.select(B.fcmp_ordered(">", value, v.all(1.0, F32)), v.all(1.0, F32), value)
    cut = B.select(B.fcmp_ordered(">", value, v.all(0.0, F32)), above, v.all(0.0, F32))
    return v.either(v.flag("half_flags", halves.HALF_SATURATE), B.bitcast(cut, V32), bits)


def _found(v: Lanes, x: Any, y: Any) -> Any:
    """Whether halves are in the relation asked for, with the predicate."""
    B = v.builder
    found = None
    for test, bit in (
        (B.fcmp_ordered("<", x, y), vector_operation.LESS),
        (B.fcmp_ordered("==", x, y), vector_operation.EQUAL),
        (B.fcmp_ordered(">", x, y), vector_operation.GREATER),
        (B.fcmp_unordered("uno", x, y), vector_operation.UNORDERED),
    ):
        asked = v.either(v.flag("relations", bit), v.mask(test), v.mask(B.xor(test, test)))
        found = asked if found is None else B.or_(found, asked)
    p = v.mask_of("predicate_a")
    by_or, by_xor = B.or_(found, p), B.xor(found, p)
    chosen = v.either(v.flag("combine", vector_operation.OR), by_or, B.and_(found, p))
    return v.either(v.flag("combine", vector_operation.XOR), by_xor, chosen)


@builds("h2f")
def _h2f(v: Lanes, a: Any) -> Any:
    return v.bits32(half_to_single(v, v.builder.and_(a, v.all(0xFFFF))))


@builds("h2b")
def _h2b(v: Lanes, a: Any) -> Any:
    half = v.builder.and_(v.builder.lshr(a, v.splat(v.half("first_bit"))), v.all(0xFFFF))
    return single_to_bfloat16(v, half_to_single(v, half), v.mode())


@builds("d2h")
def _d2h(v: Lanes, a: Any) -> Any:
    return double_to_half(v, v.double(a))


@builds("d2b")
def _d2b(v: Lanes, a: Any) -> Any:
    return double_to_bfloat16(v, v.double(a), v.mode())


def _single_to_half_by_mode(v: Lanes, value: Any) -> Any:
    """To the nearest halves or, where the mode says so, the next ones towards zero, up or down: to the next
    one if the nearest lies on the other side."""
    B = v.builder
    near = single_to_half(v, value)
    sizes = [B.and_(B.bitcast(x, V32), v.all(0x7FFFFFFF)) for x in (half_to_single(v, near), value)]
    number = B.icmp_unsigned("<=", sizes[1], v.all(0x7F800000))
    over, under = (B.and_(number, B.icmp_unsigned(how, *sizes)) for how in (">", "<"))
    negative = B.icmp_signed("<", B.bitcast(value, V32), v.all(0))
    smaller, larger = B.sub(near, v.all(1)), B.add(near, v.all(1))
    shrunk, grown = B.select(over, smaller, near), B.select(under, larger, near)
    for which, found in (
        (rounding.CHOP, shrunk),
        (rounding.DOWN, B.select(negative, grown, shrunk)),
        (rounding.UP, B.select(negative, shrunk, grown)),
    ):
        near = v.either(B.icmp_unsigned("==", v.mode(), ir.Constant(HALF, which)), found, near)
    return near


Convert = Callable[..., Any]


def _short_floats(letter: str, one: int, to_single: Convert, packed: Convert, from_double: Convert) -> None:
    """The operations that halves (h) and bfloat16 numbers (b) have alike."""
    endless = 0x7C00 if letter == "h" else 0x7F80

    def first(v: Lanes, a: Any) -> Any:
        return v.builder.and_(v.builder.lshr(a, v.splat(v.half("first_bit"))), v.all(0xFFFF))

    def both(v: Lanes, a: Any, b: Any) -> list[Any]:
        of_a, of_b = _parts(v, a, 0), _parts(v, b, 1)
        return [_found(v, to_single(v, of_a[n]), to_single(v, of_b[n])) for n in range(2)]

    def setp2(v: Lanes, a: Any, b: Any) -> Result:
        return None, *both(v, a, b)

    def set2(v: Lanes, a: Any, b: Any) -> Any:
        true = v.either(v.flag("half_flags", halves.BOTH_ONES), v.all(one), v.all(0xFFFF))
        low, high = (v.builder.select(v.builder.bitcast(m, BITS), true, v.all(0)) for m in both(v, a, b))
        return _packed(v, low, high)

    def mnmx2(v: Lanes, a: Any, b: Any) -> Any:
        B, p = v.builder, v.bits("predicate_a")
        none_wins = v.flag("half_flags", halves.NAN_WINS)
        made = []
        for x, y in zip(_parts(v, a, 0), _parts(v, b, 1), strict=True):
            fx, fy = to_single(v, x), to_single(v, y)
            less, equal = B.fcmp_ordered("<", fx, fy), B.fcmp_ordered("==", fx, fy)
            result = B.select(B.xor(less, B.not_(p)), x, y)
            result = B.select(equal, B.select(p, B.or_(x, y), B.and_(x, y)), result)
            x_nan, y_nan = B.fcmp_unordered("uno", fx, fx), B.fcmp_unordered("uno", fy, fy)
            result = B.select(x_nan, y, B.select(y_nan, x, result))
            none = v.either(none_wins, B.or_(x_nan, y_nan), B.and_(x_nan, y_nan))
            made.append(B.select(none, v.all(0x7FFF), result))
        return _packed(v, *made)

    def pack(v: Lanes, a: Any, b: Any) -> Any:
        B, made = v.builder, []
        for word in (b, a):
            bits = packed(v, v.single(word))
            over = B.icmp_unsigned("==", B.and_(bits, v.all(0x7FFF)), v.all(endless))
            bits = v.either(v.flag("finite"), B.select(over, B.sub(bits, v.all(1)), bits), bits)
            negative = B.icmp_unsigned(">=", bits, v.all(0x8000))
            made.append(v.either(v.flag("only_positive"), B.select(negative, v.all(0), bits), bits))
        return _packed(v, *made)

    def product_sum(v: Lanes, a: Any, b: Any, c: Any) -> Any:
        B = v.builder
        x, y = (
            v.bits32(
                to_single(
                    v, B.and_(v.either(v.flag("half_choice", 1 << n), B.lshr(w, v.all(16)), w), v.all(0xFFFF))
                )
            )
            for n, w in enumerate((a, b))
        )
        return BUILDERS["ffma"](v, x, y, c)

    def function(name: str) -> Builder:
        def build(v: Lanes, a: Any) -> Any:
            B = v.builder
            part = v.either(v.flag("upper_bytes"), B.lshr(a, v.all(16)), a)
            exact = B.fpext(to_single(v, B.and_(part, v.all(0xFFFF))), F64)
            return from_double(v, libm(v, name, exact))

        return build

    def double(v: Lanes, a: Any) -> Any:
        return v.bits64(v.builder.fpext(to_single(v, first(v, a)), F64))

    def from_integer(v: Lanes, a: Any) -> Any:
        B, a = v.builder, narrowed(v, a)
        exact = v.either(v.flag("is_signed"), B.sitofp(a, F64), B.uitofp(a, F64))
        return packed(v, _cut_to_single(v, exact))

    def from_long(v: Lanes, a: Any) -> Any:
        """Of a large one the low bits become one, set where any of them was: a double holds the rest, and
        rounds as the whole number would."""
        B = v.builder
        low, bit = v.all(0xFFFF, V64), v.all(1 << 16, V64)
        none = B.icmp_unsigned("==", B.and_(a, low), v.all(0, V64))
        high = B.and_(a, v.all(~0xFFFF, V64))
        cut = B.select(none, high, B.or_(high, bit))
        top = B.ashr(a, v.all(40, V64))
        few, minus_few = (B.icmp_unsigned("==", top, v.all(end, V64)) for end in (0, -1))
        small = v.either(v.flag("is_signed"), B.or_(few, minus_few), few)
        a = B.select(small, a, cut)
        exact = v.either(v.flag("is_signed"), B.sitofp(a, F64), B.uitofp(a, F64))
        return packed(v, _cut_to_single(v, exact))

    def integer(v: Lanes, a: Any) -> Any:
        return to_integer(v, to_single(v, first(v, a)), V32)

    def long_integer(v: Lanes, a: Any) -> Any:
        return to_integer(v, to_single(v, first(v, a)), V64)

    def whole(v: Lanes, a: Any) -> Any:
        return packed(v, made_whole(v, to_single(v, first(v, a))))

    BUILDERS.update(
        {
            f"{letter}setp2": setp2,
            f"{letter}set2": set2,
            f"{letter}mnmx2": mnmx2,
            f"f2{letter}2": pack,
            f"{letter}fma.f32": product_sum,
            f"{letter}ex2": function("exp2"),
            f"{letter}tanh": function("tanh"),
            f"{letter}2d": double,
            f"i2{letter}": from_integer,
            f"{letter}2i": integer,
            f"{letter}2l": long_integer,
            f"l2{letter}": from_long,
            f"{letter}rnd": whole,
        }
    )


_short_floats("h", 0x3C00, half_to_single, _single_to_half_by_mode, double_to_half)
_short_floats(
    "b",
    0x3F80,
    bfloat16_to_single,
    lambda v, value: single_to_bfloat16(v, value, v.mode()),
    double_to_bfloat16,
)


@builds("idp4a")
def _idp4a(v: Lanes, a: Any, b: Any, c: Any) -> Any:
    """The sum of products of bytes."""
    B, total = v.builder, c

    def byte(value: Any, n: int, sign: str) -> Any:
        top = B.shl(value, v.all(24 - 8 * n))
        return v.either(v.flag(sign), B.ashr(top, v.all(24)), B.lshr(top, v.all(24)))

    for n in range(4):
        total = B.add(total, B.mul(byte(a, n, "is_signed"), byte(b, n, "b_is_signed")))
    return total


@builds("idp2a")
def _idp2a(v: Lanes, a: Any, b: Any, c: Any) -> Any:
    B, total = v.builder, c
    chosen = v.either(v.flag("upper_bytes"), B.lshr(b, v.all(16)), b)

    def part(value: Any, bits: int, n: int, sign: str) -> Any:
        top = B.shl(value, v.all(32 - bits * (n + 1)))
        return v.either(v.flag(sign), B.ashr(top, v.all(32 - bits)), B.lshr(top, v.all(32 - bits)))

    for n in range(2):
        total = B.add(total, B.mul(part(a, 16, n, "is_signed"), part(chosen, 8, n, "b_is_signed")))
    return total


def _difference(v: Lanes, a: Any, b: Any) -> Any:
    B = v.builder
    return v.either(
        v.flag("is_signed"),
        B.select(B.icmp_signed(">", a, b), B.sub(a, b), B.sub(b, a)),
        B.select(B.icmp_unsigned(">", a, b), B.sub(a, b), B.sub(b, a)),
    )


@builds("vabsdiff")
def _vabsdiff(v: Lanes, a: Any, b: Any, c: Any) -> Any:
    return v.builder.add(_difference(v, a, b), c)


@builds("vabsdiff4")
def _vabsdiff4(v: Lanes, a: Any, b: Any, c: Any) -> Any:
    B, total, packed = v.builder, c, v.all(0)

    def byte(value: Any, n: int) -> Any:
        top = B.shl(value, v.all(24 - 8 * n))
        return v.either(v.flag("is_signed"), B.ashr(top, v.all(24)), B.lshr(top, v.all(24)))

    for n in range(4):
        found = _difference(v, byte(a, n), byte(b, n))
        total, packed = B.add(total, found), B.or_(packed, B.shl(found, v.all(8 * n)))
    return v.either(v.flag("sums_bytes"), total, packed)

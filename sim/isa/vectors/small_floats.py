"""Conversions between floats of 8, 6 or 4 bits and larger ones, in LLVM code; see
`smlab.sim.isa.meanings.small_floats`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from smlab.sim.isa.meanings.rounding import CHOP, NAN16, NAN32
from smlab.sim.isa.meanings.small_floats import E8_NAN, HAVE_NAN, SMALL_FLOATS, step_bits
from smlab.sim.isa.vectors.halves import half_to_single
from smlab.sim.isa.vectors.llvm_lanes import BUILDERS, F32, V32, Builder, Lanes, builds


def _from_first_bit(v: Lanes, word: Any) -> Any:
    return v.builder.lshr(word, v.splat(v.half("first_bit")))


def _upper_half(v: Lanes, place: int, word: Any) -> Any:
    """The upper half if the operation says so of this source, or the lower one with the upper one above."""
    return v.either(v.flag("half_choice", 1 << place), v.builder.lshr(word, v.all(16)), word)


def _halves_of(name: str) -> Builder:
    """A pair as halves: the bits moved to a single's places, times what the biases differ by."""
    exponents, digits, largest = SMALL_FLOATS[name]
    sign_bit, step = 1 << exponents + digits, step_bits(name)
    bias = (1 << (exponents - 1)) - 1

    def half(v: Lanes, bits: Any) -> Any:
        B = v.builder
        size = B.and_(bits, v.all(sign_bit - 1))
        negative = B.icmp_unsigned("!=", B.and_(bits, v.all(sign_bit)), v.all(0))
        sign = B.select(negative, v.all(0x8000), v.all(0))
        moved = B.shl(size, v.all(10 - digits))
        if exponents < 5:
            exact = B.fmul(v.single(B.shl(size, v.all(23 - digits))), v.all(2.0 ** (127 - bias), F32))
            as_half = B.sub(B.lshr(B.bitcast(exact, V32), v.all(13)), v.all((127 - 15) << 10))
            moved = B.select(B.icmp_unsigned("==", size, v.all(0)), v.all(0), as_half)
        found = B.or_(moved, sign)
        found = v.either(v.flag("only_positive"), B.select(negative, v.all(0), found), found)
        last = largest if exponents < 5 else 0x7C
        return B.select(B.icmp_unsigned(">", size, v.all(last)), v.all(NAN16), found)

    def build(v: Lanes, a: Any) -> Any:
        B = v.builder
        pair, kept = _from_first_bit(v, a), v.all((1 << step) - 1)
        low, high = (half(v, B.and_(B.lshr(pair, v.all(step * n)), kept)) for n in range(2))
        return B.or_(low, B.shl(high, v.all(16)))

    return build


def _bfloat16_of(name: str) -> Builder:
    """A pair as bfloat16 numbers: each is one, as its half is no more exact than one."""
    halves = _halves_of(name)

    def build(v: Lanes, a: Any) -> Any:
        B, pair = v.builder, halves(v, a)
        low, high = (half_to_single(v, h) for h in (pair, B.lshr(pair, v.all(16))))
        return B.or_(B.lshr(B.bitcast(low, V32), v.all(16)), B.and_(B.bitcast(high, V32), v.all(0xFFFF0000)))

    return build


def _small_of(name: str) -> Callable[[Lanes, Any], Any]:
    """A single as the nearest float of so few bits."""
    exponents, digits, largest = SMALL_FLOATS[name]
    bias, sign_bit = (1 << (exponents - 1)) - 1, 1 << exponents + digits

    def build(v: Lanes, value: Any) -> Any:
        B = v.builder
        bits = B.bitcast(value, V32)
        size, negative = B.and_(bits, v.all(0x7FFFFFFF)), B.icmp_signed("<", bits, v.all(0))
        cut = 23 - digits
        even = B.and_(B.lshr(size, v.all(cut)), v.all(1))
        near = B.lshr(B.add(B.add(size, v.all((1 << (cut - 1)) - 1)), even), v.all(cut))
        normal = B.sub(near, v.all((127 - bias) << digits))
        steps = B.fmul(v.single(size), v.all(2.0 ** (bias - 1 + digits), F32))
        # A sum with 2^23 has no digits behind the point, and was rounded to the nearest.
        few = B.sub(B.bitcast(B.fadd(steps, v.all(2.0**23, F32)), V32), v.all(0x4B000000))
        small = B.icmp_unsigned("<", size, v.all((127 - bias + 1) << 23))
        found = B.select(small, few, normal)
        found = B.select(B.icmp_unsigned(">", found, v.all(largest)), v.all(largest), found)
        found = B.or_(found, B.select(negative, v.all(sign_bit), v.all(0)))
        found = v.either(v.flag("only_positive"), B.select(negative, v.all(0), found), found)
        none = B.icmp_unsigned(">", size, v.all(0x7F800000))
        return B.select(none, v.all(0x7F if name in HAVE_NAN else largest), found)

    return build


def _pack(v: Lanes, high: Any, low: Any, beside: Any, step: int = 8) -> Any:
    B = v.builder
    return B.or_(B.or_(low, B.shl(high, v.all(step))), B.shl(beside, v.all(2 * step)))


for _name in SMALL_FLOATS:
    _convert = _small_of(_name)

    def _from_singles(
        v: Lanes, a: Any, b: Any, c: Any, convert: Any = _convert, step: int = step_bits(_name)
    ) -> Any:
        beside = _from_first_bit(v, c)
        return _pack(v, convert(v, v.single(a)), convert(v, v.single(b)), beside, step)

    def _from_halves(v: Lanes, a: Any, b: Any, convert: Any = _convert) -> Any:
        B = v.builder
        low, high = (half_to_single(v, h) for h in (B.and_(a, v.all(0xFFFF)), B.lshr(a, v.all(16))))
        return _pack(v, convert(v, high), convert(v, low), _from_first_bit(v, b))

    BUILDERS[f"{_name}.h2"] = _halves_of(_name)
    BUILDERS[f"{_name}.b2"] = _bfloat16_of(_name)
    BUILDERS[f"f2.{_name}"] = _from_singles
    if _name in HAVE_NAN:
        BUILDERS[f"h2.{_name}"] = _from_halves


def _e8(v: Lanes, bits: Any) -> Any:
    """The power of two at the magnitude of a single with these bits, or the next one above."""
    B = v.builder
    size = B.and_(bits, v.all(0x7FFFFFFF))
    fraction = B.icmp_unsigned("!=", B.and_(size, v.all(0x7FFFFF)), v.all(0))
    # A subnormal single above 2^-127 is less than 2^-126, which is the next one.
    counts = B.and_(fraction, B.icmp_unsigned(">", size, v.all(0x400000)))
    mode = v.splat(v.half("rounding"))
    counts = B.and_(counts, B.icmp_unsigned("!=", mode, v.all(CHOP)))
    power = B.add(B.lshr(size, v.all(23)), B.zext(counts, V32))
    endless = B.icmp_unsigned(">=", size, v.all(0x7F800000))
    none = B.icmp_unsigned(">", size, v.all(0x7F800000))
    power = B.select(endless, v.all(E8_NAN), power)
    last = B.select(B.icmp_unsigned("==", power, v.all(E8_NAN)), v.all(E8_NAN - 1), power)
    return B.select(none, v.all(E8_NAN), v.either(v.flag("finite"), last, power))


@builds("f2.e8")
def _f2_e8(v: Lanes, a: Any, b: Any, c: Any) -> Any:
    return _pack(v, _e8(v, a), _e8(v, b), _upper_half(v, 2, c))


@builds("b2.e8")
def _b2_e8(v: Lanes, a: Any, b: Any) -> Any:
    B = v.builder
    low, high = B.shl(a, v.all(16)), B.and_(a, v.all(0xFFFF0000))
    return _pack(v, _e8(v, high), _e8(v, low), _upper_half(v, 1, b))


@builds("e8.b2")
def _e8_b2(v: Lanes, a: Any) -> Any:
    B, pair = v.builder, _upper_half(v, 0, a)
    made = []
    for n in range(2):
        power = B.and_(B.lshr(pair, v.all(8 * n)), v.all(0xFF))
        number = B.select(B.icmp_unsigned("==", power, v.all(0)), v.all(0x40), B.shl(power, v.all(7)))
        made.append(B.select(B.icmp_unsigned("==", power, v.all(E8_NAN)), v.all(0x7FFF), number))
    return B.or_(made[0], B.shl(made[1], v.all(16)))


@builds("f.tf32")
def _tf32(v: Lanes, a: Any) -> Any:
    B = v.builder
    even = B.and_(B.lshr(a, v.all(13)), v.all(1))
    near = B.and_(B.add(B.add(a, v.all(0xFFF)), even), v.all(~0x1FFF & 0xFFFFFFFF))
    none = B.icmp_unsigned(">", B.and_(a, v.all(0x7FFFFFFF)), v.all(0x7F800000))
    return B.select(none, v.all(NAN32), near)

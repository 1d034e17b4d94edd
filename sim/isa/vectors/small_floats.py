"""Conversions between floats of 8 bits and larger ones, in LLVM code; see
`smlab.sim.isa.meanings.small_floats`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from smlab.sim.isa.meanings.rounding import NAN16, NAN32
from smlab.sim.isa.meanings.small_floats import SMALL_FLOATS
from smlab.sim.isa.vectors.halves import half_to_single
from smlab.sim.isa.vectors.llvm_lanes import BUILDERS, F32, V32, Builder, Lanes, builds


def _half(v: Lanes, a: Any) -> Any:
    """The upper half if the operation says so, or the lower one with the upper one above it."""
    return v.either(v.flag("upper_bytes"), v.builder.lshr(a, v.all(16)), a)


def _halves_of(name: str) -> Builder:
    """Two bytes as halves: the bits moved to a half's places, times what the biases differ by."""
    exponents, digits, _ = SMALL_FLOATS[name]

    def half(v: Lanes, byte: Any) -> Any:
        B = v.builder
        size = B.and_(byte, v.all(0x7F))
        sign = B.shl(B.and_(byte, v.all(0x80)), v.all(8))
        moved = B.shl(size, v.all(10 - digits))
        if exponents == 5:
            none = B.icmp_unsigned(">", size, v.all(0x7C))
        else:
            # As a single: the exponent's field moves to the lowest bits of a single's.
            exact = B.fmul(v.single(B.shl(size, v.all(23 - digits))), v.all(2.0**120, F32))
            bits = B.lshr(B.bitcast(exact, V32), v.all(13))
            moved = B.select(
                B.icmp_unsigned("==", size, v.all(0)), v.all(0), B.sub(bits, v.all((127 - 15) << 10))
            )
            none = B.icmp_unsigned("==", size, v.all(0x7F))
        return B.select(none, v.all(NAN16), B.or_(moved, sign))

    def build(v: Lanes, a: Any) -> Any:
        B = v.builder
        part = _half(v, a)
        low, high = (half(v, B.and_(B.lshr(part, v.all(8 * n)), v.all(0xFF))) for n in range(2))
        return B.or_(low, B.shl(high, v.all(16)))

    return build


def _small_of(name: str) -> Callable[[Lanes, Any], Any]:
    """A single as the nearest float of 8 bits."""
    exponents, digits, largest = SMALL_FLOATS[name]
    bias = (1 << (exponents - 1)) - 1

    def build(v: Lanes, value: Any) -> Any:
        B = v.builder
        bits = B.bitcast(value, V32)
        size, sign = B.and_(bits, v.all(0x7FFFFFFF)), B.and_(B.lshr(bits, v.all(24)), v.all(0x80))
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
        none = B.icmp_unsigned(">", size, v.all(0x7F800000))
        return B.select(none, v.all(0x7F), B.or_(found, sign))

    return build


def _pack(v: Lanes, high: Any, low: Any, beside: Any) -> Any:
    B = v.builder
    return B.or_(B.or_(low, B.shl(high, v.all(8))), B.shl(beside, v.all(16)))


for _name in SMALL_FLOATS:
    _convert = _small_of(_name)

    def _from_singles(v: Lanes, a: Any, b: Any, c: Any, convert: Any = _convert) -> Any:
        return _pack(v, convert(v, v.single(a)), convert(v, v.single(b)), _half(v, c))

    def _from_halves(v: Lanes, a: Any, b: Any, convert: Any = _convert) -> Any:
        B = v.builder
        low, high = (half_to_single(v, h) for h in (B.and_(a, v.all(0xFFFF)), B.lshr(a, v.all(16))))
        return _pack(v, convert(v, high), convert(v, low), _half(v, b))

    BUILDERS[f"{_name}.h2"] = _halves_of(_name)
    BUILDERS[f"f2.{_name}"] = _from_singles
    BUILDERS[f"h2.{_name}"] = _from_halves


@builds("f.tf32")
def _tf32(v: Lanes, a: Any) -> Any:
    B = v.builder
    even = B.and_(B.lshr(a, v.all(13)), v.all(1))
    near = B.and_(B.add(B.add(a, v.all(0xFFF)), even), v.all(~0x1FFF & 0xFFFFFFFF))
    none = B.icmp_unsigned(">", B.and_(a, v.all(0x7FFFFFFF)), v.all(0x7F800000))
    return B.select(none, v.all(NAN32), near)

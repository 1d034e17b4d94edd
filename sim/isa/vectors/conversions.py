"""Conversions between integers and floating point, in LLVM."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from smlab.sim.isa.meanings import rounding
from smlab.sim.isa.vectors.integers import side_by_side
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
    builds,
)


def _moved(v: Lanes, bits: Any, below: Any, above: Any, kind: Any) -> Any:
    """Adjust the nearest float of an exact number by one step, where the mode asks for the other side of it.

    ``below``: it lies below the exact number; ``above``: above it.
    """
    B = v.builder
    negative = B.icmp_signed("<", bits, v.all(0, kind))
    mode = v.mode()

    def is_mode(which: int) -> Any:
        return v.splat(B.icmp_unsigned("==", mode, ir.Constant(HALF, which)), BITS)

    chop = is_mode(rounding.CHOP)
    up = B.and_(below, B.or_(is_mode(rounding.UP), B.and_(chop, negative)))
    down = B.and_(above, B.or_(is_mode(rounding.DOWN), B.and_(chop, B.not_(negative))))
    # Away from zero is one more in the bits, towards it one less.
    one = v.all(1, kind)
    grown = B.select(negative, B.sub(bits, one), B.add(bits, one))
    shrunk = B.select(negative, B.add(bits, one), B.sub(bits, one))
    return B.select(up, grown, B.select(down, shrunk, bits))


def narrowed(v: Lanes, a: Any) -> Any:
    """Words without so many of their bits, from the first one that counts on, with a sign where that is
    asked."""
    B, cut = v.builder, v.splat(v.half("cut_bits"))
    top = B.shl(a, B.sub(cut, v.splat(v.half("first_bit"))))
    return v.either(v.flag("is_signed"), B.ashr(top, cut), B.lshr(top, cut))


@builds("i2f")
def _i2f(v: Lanes, a: Any) -> Any:
    B, a = v.builder, narrowed(v, a)
    signed = v.flag("is_signed")
    exact = v.either(signed, B.sitofp(a, F64), B.uitofp(a, F64))
    near = B.fptrunc(exact, F32)
    back = B.fpext(near, F64)
    return _moved(
        v, B.bitcast(near, V32), B.fcmp_ordered("<", back, exact), B.fcmp_ordered(">", back, exact), V32
    )


@builds("i2d")
def _i2d(v: Lanes, a: Any) -> Any:
    B, a = v.builder, narrowed(v, a)
    return B.bitcast(v.either(v.flag("is_signed"), B.sitofp(a, F64), B.uitofp(a, F64)), V64)


def _from_long(kind: Any, ints: Any) -> Builder:
    def build(v: Lanes, a: Any) -> Any:
        B = v.builder
        signed = v.flag("is_signed")
        near = v.either(signed, B.sitofp(a, kind), B.uitofp(a, kind))
        s_back, u_back = v.converted("fptosi.sat", V64, near), v.converted("fptoui.sat", V64, near)
        # What saturates on the way back is a power of two just above the number.
        top = v.all(2.0**63, kind)
        s_over = B.fcmp_ordered(">=", near, top)
        u_over = B.fcmp_ordered(">=", near, v.all(2.0**64, kind))
        below = v.either(
            signed,
            B.and_(B.icmp_signed("<", s_back, a), B.not_(s_over)),
            B.and_(B.icmp_unsigned("<", u_back, a), B.not_(u_over)),
        )
        above = v.either(
            signed,
            B.or_(B.icmp_signed(">", s_back, a), s_over),
            B.or_(B.icmp_unsigned(">", u_back, a), u_over),
        )
        return _moved(v, B.bitcast(near, ints), below, above, ints)

    return build


BUILDERS["l2f"], BUILDERS["l2d"] = _from_long(F32, V32), _from_long(F64, V64)


def made_whole(v: Lanes, value: Any) -> Any:
    """A float rounded to a whole number by the mode asked for."""
    B = v.builder
    kind, mode = value.type, v.mode()
    result = v.call("roundeven", kind, value)
    for which, name in ((rounding.DOWN, "floor"), (rounding.UP, "ceil"), (rounding.CHOP, "trunc")):
        chosen = B.icmp_unsigned("==", mode, ir.Constant(HALF, which))
        result = B.select(chosen, v.call(name, kind, value), result)
    return result


def to_integer(v: Lanes, value: Any, ints: Any) -> Any:
    """A float as a whole number by the mode asked for; of words, in the range of a shorter integer."""
    B, value = v.builder, made_whole(v, value)
    signed, unsigned = v.converted("fptosi.sat", ints, value), v.converted("fptoui.sat", ints, value)
    if ints is V32:
        cut = v.splat(v.half("cut_bits"))
        low, high = B.ashr(v.all(-(1 << 31)), cut), B.lshr(v.all((1 << 31) - 1), cut)
        signed = v.call("smin", V32, v.call("smax", V32, signed, low), high)
        unsigned = v.call("umin", V32, unsigned, B.lshr(v.all(-1), cut))
    return v.either(v.flag("is_signed"), signed, unsigned)


def _to_integer(single: bool, ints: Any) -> Builder:
    def build(v: Lanes, a: Any) -> Any:
        value = v.single(v.flushed(a, v.flag("flush"))) if single else v.double(a)
        return to_integer(v, value, ints)

    return build


for _name, _single_kind, _ints in (
    ("f2i", True, V32),
    ("f2l", True, V64),
    ("d2i", False, V32),
    ("d2l", False, V64),
):
    BUILDERS[_name] = _to_integer(_single_kind, _ints)
BUILDERS["f2ip"] = lambda v, a, b, c: side_by_side(
    v, to_integer(v, v.single(a), V32), to_integer(v, v.single(b), V32), c
)
BUILDERS["frnd"] = lambda v, a: v.bits32(made_whole(v, v.single(v.flushed(a, v.flag("flush")))))
BUILDERS["drnd"] = lambda v, a: v.bits64(made_whole(v, v.double(a)))

"""The vector operations on floating point, in LLVM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from smlab.sim.isa.meanings import halves, rounding
from smlab.sim.isa.vectors.llvm_lanes import (
    BUILDERS,
    F32,
    F64,
    V32,
    V64,
    WORD,
    Builder,
    Lanes,
    Result,
    builds,
)


def _single_operation(compute: Callable[..., Any]) -> Builder:
    def build(v: Lanes, *sources: Any) -> Any:
        B = v.builder
        flush = v.flag("flush")
        singles = [v.single(v.flushed(s, flush)) for s in sources]
        bits = v.flushed(v.bits32(compute(v, *singles)), flush)
        value = v.single(bits)
        zero, one = v.all(0.0, F32), v.all(1.0, F32)
        above = B.select(B.fcmp_ordered(">", value, one), one, value)
        cut = B.select(B.fcmp_ordered(">", value, zero), above, zero)
        return v.either(v.flag("saturate"), B.bitcast(cut, V32), bits)

    return build


BUILDERS["fadd"] = _single_operation(lambda v, a, b: v.builder.fadd(a, b))
BUILDERS["fmul"] = _single_operation(lambda v, a, b: v.builder.fmul(a, b))
BUILDERS["fmul.scaled"] = _single_operation(lambda v, a, b: _scaled_product(v, a, b))
BUILDERS["ffma"] = _single_operation(lambda v, a, b, c: v.call("fma", F32, a, b, c))


def _scaled_product(v: Lanes, a: Any, b: Any) -> Any:
    """In doubles, which hold the product of two singles exactly."""
    B = v.builder
    power = B.shl(B.add(v.field("power_of_two"), ir.Constant(WORD, 1023)), ir.Constant(WORD, 52))
    scale = B.bitcast(v.splat(power, V64), F64)
    return B.fptrunc(B.fmul(B.fmul(B.fpext(a, F64), B.fpext(b, F64)), scale), F32)


@builds("ffma.near")
def _ffma(v: Lanes, a: Any, b: Any, c: Any) -> Any:
    return v.bits32(v.call("fma", F32, v.single(a), v.single(b), v.single(c)))


def _chosen(v: Lanes, a: Any, b: Any, kind: Any, nan: int) -> Any:
    B = v.builder
    ints = a.type
    x, y = B.bitcast(a, kind), B.bitcast(b, kind)
    p = v.bits("predicate_a")
    less, equal = B.fcmp_ordered("<", x, y), B.fcmp_ordered("==", x, y)
    result = B.select(B.xor(less, B.not_(p)), a, b)
    result = B.select(equal, B.select(p, B.or_(a, b), B.and_(a, b)), result)
    a_nan, b_nan = B.fcmp_unordered("uno", x, x), B.fcmp_unordered("uno", y, y)
    result = B.select(a_nan, b, B.select(b_nan, a, result))
    return B.select(B.and_(a_nan, b_nan), v.all(nan, ints), result)


@builds("fmnmx")
def _fmnmx(v: Lanes, a: Any, b: Any) -> Any:
    flush = v.flag("flush")
    B, found = v.builder, _chosen(v, v.flushed(a, flush), v.flushed(b, flush), F32, rounding.NAN32)
    none = B.fcmp_unordered("uno", v.single(a), v.single(b))
    either = v.flag("nan_wins")
    return v.either(either, B.select(none, v.all(rounding.NAN32), found), found)


BUILDERS["fmnmx3"] = lambda v, a, b, c: _fmnmx(v, _fmnmx(v, a, b), c)
BUILDERS["dmnmx"] = lambda v, a, b: _chosen(v, a, b, F64, rounding.NAN64)


@builds("dsetp.minmax")
def _dsetp_minmax(v: Lanes, a: Any, b: Any) -> Result:
    B = v.builder
    x, y, zero, p = v.double(a), v.double(b), v.all(0, V64), v.mask_of("predicate_a")
    lesser = v.flag("takes_lesser")
    less, greater = B.fcmp_ordered("<", x, y), B.fcmp_ordered(">", x, y)
    a_below, b_below = B.icmp_signed("<", a, zero), B.icmp_signed("<", b, zero)
    equal = B.fcmp_ordered("==", x, y)
    less = B.or_(less, B.and_(equal, B.and_(a_below, B.not_(b_below))))
    greater = B.or_(greater, B.and_(equal, B.and_(b_below, B.not_(a_below))))
    a_nan, b_nan = B.fcmp_unordered("uno", x, x), B.fcmp_unordered("uno", y, y)
    first = B.or_(v.either(lesser, less, greater), B.and_(b_nan, B.not_(a_nan)))
    neither = B.and_(a_nan, b_nan)
    return None, B.and_(v.mask(first), p), B.and_(v.mask(neither), p)


@builds("fchk")
def _fchk(v: Lanes, a: Any, b: Any) -> Result:
    B = v.builder

    def exponent(value: Any) -> Any:
        return B.and_(B.lshr(value, v.all(23)), v.all(255))

    over, under = exponent(a), exponent(b)
    gap = B.sub(over, under)
    fine = B.and_(B.icmp_signed(">", gap, v.all(-100)), B.icmp_signed("<", gap, v.all(100)))
    for value, low, high in ((over, 31, 255), (under, 16, 252)):
        fine = B.and_(fine, B.icmp_signed(">", value, v.all(low)))
        fine = B.and_(fine, B.icmp_signed("<", value, v.all(high)))
    return None, v.mask(B.not_(fine)), None


BUILDERS["dadd"] = lambda v, a, b: v.bits64(v.builder.fadd(v.double(a), v.double(b)))
BUILDERS["dmul"] = lambda v, a, b: v.bits64(v.builder.fmul(v.double(a), v.double(b)))
BUILDERS["dfma"] = lambda v, a, b, c: v.bits64(v.call("fma", F64, v.double(a), v.double(b), v.double(c)))
BUILDERS["d2f"] = lambda v, a: v.bits32(v.builder.fptrunc(v.double(a), F32))
BUILDERS["f2d"] = lambda v, a: v.bits64(v.builder.fpext(v.single(a), F64))


def _pair(v: Lanes, word: Any, place: int) -> tuple[Any, Any]:
    """The low and the high number of a source, as its operand has them."""
    B = v.builder

    def form(bit: int) -> Any:
        return v.flag("pair_forms", bit << halves.FORM_BITS * place)

    low, high = B.trunc(word, V32), B.trunc(B.lshr(word, v.all(32, V64)), V32)
    high = v.either(form(halves.ONE_NUMBER), low, high)
    exchanged, magnitude = form(halves.OTHER_WAY_ROUND), form(halves.MAGNITUDE)
    found = []
    for number, other, minus in ((low, high, halves.MINUS_LOW), (high, low, halves.MINUS_HIGH)):
        chosen = v.either(exchanged, other, number)
        chosen = v.either(magnitude, B.and_(chosen, v.all(0x7FFFFFFF)), chosen)
        found.append(v.either(form(minus), B.xor(chosen, v.all(0x80000000)), chosen))
    return found[0], found[1]


def _by_numbers(compute: Callable[..., Any]) -> Builder:
    def build(v: Lanes, *sources: Any) -> Any:
        B, flush = v.builder, v.flag("flush")
        pairs = [_pair(v, source, place) for place, source in enumerate(sources)]
        low, high = (
            v.flushed(v.bits32(compute(v, *(v.single(v.flushed(x[n], flush)) for x in pairs))), flush)
            for n in range(2)
        )
        return B.or_(B.zext(low, V64), B.shl(B.zext(high, V64), v.all(32, V64)))

    return build


BUILDERS["fadd2"] = _by_numbers(lambda v, a, b: v.builder.fadd(a, b))
BUILDERS["fmul2"] = _by_numbers(lambda v, a, b: v.builder.fmul(a, b))
BUILDERS["ffma2"] = _by_numbers(lambda v, a, b, c: v.call("fma", F32, a, b, c))

"""The vector micro-operations in machine code: 32 lanes at a time, one switch over all of them.

Each row of `meanings.OPERATIONS` has a function here that builds its LLVM code. All operands are rows of 32 lanes
(constants too), so one form serves all; sources are loaded whole before the result is stored, so that a result may
overwrite a source.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any, Final

from llvmlite import ir
from numba import extending, types
from smlab.sim.machine_code import meanings, record

intrinsic: Any = extending.intrinsic

WORD, HALF = ir.IntType(64), ir.IntType(32)
BITS = ir.VectorType(ir.IntType(1), 32)
V32, V64 = ir.VectorType(HALF, 32), ir.VectorType(WORD, 32)
F32, F64 = ir.VectorType(ir.FloatType(), 32), ir.VectorType(ir.DoubleType(), 32)
_ROUNDING_SHIFT: Final = 10
_ARM: Final = platform.machine() in ("aarch64", "arm64")


class Lanes:
    """Builds the code of one micro-operation: the builder, its sources, predicates and numbers."""

    def __init__(self, builder: Any, op: Any, warp: Any) -> None:
        self.builder, self.op, self.warp = builder, op, warp

    def field(self, name: str) -> Any:
        """A word of the micro-operation."""
        at = self.builder.add(self.op, ir.Constant(WORD, 8 * record.PLACE[name]))
        return self.builder.load(self.builder.inttoptr(at, WORD.as_pointer()))

    def half(self, name: str) -> Any:
        return self.builder.trunc(self.field(name), HALF)

    def splat(self, value: Any, kind: Any = V32) -> Any:
        one = self.builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(HALF, 0))
        return self.builder.shuffle_vector(one, ir.Constant(kind, ir.Undefined), ir.Constant(V32, [0] * 32))

    def all(self, value: int, kind: Any = V32) -> Any:
        return ir.Constant(kind, [value] * 32)

    def call(self, name: str, kind: Any, *arguments: Any) -> Any:
        suffix = {V32: "v32i32", V64: "v32i64", F32: "v32f32", F64: "v32f64"}
        shape = ir.FunctionType(kind, [a.type for a in arguments])
        function = self.builder.module.globals.get(full := f"llvm.{name}.{suffix[kind]}")
        function = function or ir.Function(self.builder.module, shape, full)
        return self.builder.call(function, arguments)

    def converted(self, name: str, kind: Any, value: Any) -> Any:
        suffix = {V32: "v32i32", V64: "v32i64", F32: "v32f32", F64: "v32f64"}
        full = f"llvm.{name}.{suffix[kind]}.{suffix[value.type]}"
        function = self.builder.module.globals.get(full)
        function = function or ir.Function(self.builder.module, ir.FunctionType(kind, [value.type]), full)
        return self.builder.call(function, [value])

    def row(self, name: str, more: int = 0) -> Any:
        """The raw words of a source's row, or of the row after it."""
        base = self.builder.and_(self.warp, self.field(f"{name}_reg"))
        at = self.builder.add(self.builder.add(base, self.field(name)), ir.Constant(WORD, more))
        return self.load(at)

    def load(self, at: Any) -> Any:
        loaded = self.builder.load(self.builder.inttoptr(at, V32.as_pointer()))
        loaded.align = 4
        return loaded

    def changed(self, name: str, value: Any, add: bool = True) -> Any:
        """With the source's sign, magnitude or complement applied."""
        value = self.builder.and_(value, self.splat(self.half(f"{name}_and")))
        value = self.builder.xor(value, self.splat(self.half(f"{name}_xor")))
        return self.builder.add(value, self.splat(self.half(f"{name}_add"))) if add else value

    def source(self, name: str, kind: str) -> Any:
        if kind == "i":
            return self.changed(name, self.row(name))
        low = self.builder.zext(self.row(name), V64)
        high = self.builder.zext(self.changed(name, self.row(name, record.ROW_BYTES), add=False), V64)
        return self.builder.or_(low, self.builder.shl(high, self.all(32, V64)))

    def mask_of(self, name: str) -> Any:
        """A predicate read, as a mask of lanes."""
        at = self.builder.add(self.field(name), ir.Constant(WORD, record.PREDICATES))
        at = self.builder.add(self.warp, self.builder.mul(at, ir.Constant(WORD, 8)))
        value = self.builder.load(self.builder.inttoptr(at, WORD.as_pointer()))
        return self.builder.trunc(self.builder.xor(value, self.field(f"{name}_xor")), HALF)

    def bits(self, name: str) -> Any:
        return self.builder.bitcast(self.mask_of(name), BITS)

    def mask(self, bits: Any) -> Any:
        return self.builder.bitcast(bits, HALF)

    def store_row(self, at: Any, value: Any, lanes: Any) -> None:
        kept = self.builder.select(self.builder.bitcast(lanes, BITS), value, self.load(at))
        self.builder.store(kept, self.builder.inttoptr(at, V32.as_pointer())).align = 4

    def store_mask(self, name: str, value: Any, lanes: Any) -> None:
        at = self.builder.add(self.field(name), ir.Constant(WORD, record.PREDICATES))
        at = self.builder.add(self.warp, self.builder.mul(at, ir.Constant(WORD, 8)))
        pointer = self.builder.inttoptr(at, WORD.as_pointer())
        old = self.builder.trunc(self.builder.load(pointer), HALF)
        kept = self.builder.or_(
            self.builder.and_(old, self.builder.not_(lanes)), self.builder.and_(value, lanes)
        )
        self.builder.store(self.builder.zext(kept, WORD), pointer)

    # What several operations need

    def flag(self, name: str, bit: int) -> Any:
        """A number's bit as a splatted truth."""
        found = self.builder.and_(self.field(name), ir.Constant(WORD, bit))
        return self.builder.icmp_unsigned("!=", found, ir.Constant(WORD, 0))

    def either(self, condition: Any, yes: Any, no: Any) -> Any:
        return self.builder.select(condition, yes, no)

    def flushed(self, value: Any, condition: Any | None) -> Any:
        """Subnormals to zeros with their sign, under a condition (None: always)."""
        b = self.builder
        small = b.icmp_unsigned("==", b.and_(value, self.all(0x7F800000)), self.all(0))
        zero = b.and_(value, self.all(0x80000000))
        done = b.select(small, zero, value)
        return done if condition is None else self.either(condition, done, value)

    def single(self, value: Any) -> Any:
        return self.builder.bitcast(value, F32)

    def double(self, value: Any) -> Any:
        return self.builder.bitcast(value, F64)

    def bits32(self, value: Any) -> Any:
        b = self.builder
        return b.select(
            b.fcmp_unordered("uno", value, value), self.all(meanings.NAN32), b.bitcast(value, V32)
        )

    def bits64(self, value: Any) -> Any:
        b = self.builder
        return b.select(
            b.fcmp_unordered("uno", value, value), self.all(meanings.NAN64, V64), b.bitcast(value, V64)
        )

    def rounding(self, mode: Any) -> None:
        """Set the processor's rounding mode; what is loaded after it is computed with it."""
        function = self.builder.module.globals.get("fesetround")
        function = function or ir.Function(self.builder.module, ir.FunctionType(HALF, [HALF]), "fesetround")
        if _ARM:
            swapped = self.builder.and_(self.builder.sub(ir.Constant(HALF, 3), mode), ir.Constant(HALF, 3))
            near = self.builder.icmp_unsigned("==", mode, ir.Constant(HALF, 0))
            chop = self.builder.icmp_unsigned("==", mode, ir.Constant(HALF, 3))
            mode = self.builder.select(self.builder.or_(near, chop), mode, swapped)
            mode = self.builder.shl(mode, ir.Constant(HALF, 22))
        else:
            mode = self.builder.shl(mode, ir.Constant(HALF, _ROUNDING_SHIFT))
        self.builder.call(function, [mode])

    def mode(self) -> Any:
        return self.builder.and_(self.half("i"), ir.Constant(HALF, meanings.MODE))


Result = tuple[Any, Any, Any]
"""The result vector and two masks of lanes; None for what there is not."""
Builder = Callable[..., Any]
_BUILDERS: Final[dict[str, Builder]] = {}
_ROUNDED: Final = ("fadd", "fmul", "ffma", "dadd", "dmul", "dfma", "d2f")
"""Operations that take a rounding mode from the processor's."""


def _builds(*names: str) -> Callable[[Builder], Builder]:
    def keep(function: Builder) -> Builder:
        for name in names:
            _BUILDERS[name] = function
        return function

    return keep


_BUILDERS["mov"] = _BUILDERS["mov64"] = lambda v, a: a
_BUILDERS["iadd3"] = lambda v, a, b, c: v.builder.add(v.builder.add(a, b), c)
_BUILDERS["imad"] = lambda v, a, b, c: v.builder.add(v.builder.mul(a, b), c)


def _wide(v: Lanes, value: Any) -> Any:
    return v.builder.zext(value, V64)


def _one(v: Lanes, name: str, kind: Any = V64) -> Any:
    return v.builder.zext(v.bits(name), kind)


def _carried(v: Lanes, total: Any) -> Result:
    b = v.builder
    first = v.mask(b.icmp_unsigned(">=", total, v.all(1 << 32, V64)))
    second = v.mask(b.icmp_unsigned(">=", total, v.all(1 << 33, V64)))
    return b.trunc(total, V32), first, second


@_builds("iadd3c")
def _iadd3c(v: Lanes, a: Any, b: Any, c: Any) -> Result:
    add = v.builder.add
    total = add(add(_wide(v, a), _wide(v, b)), _wide(v, c))
    total = add(add(total, _one(v, "p")), _one(v, "q"))
    return _carried(v, add(total, v.splat(v.field("i"), V64)))


@_builds("imadx")
def _imadx(v: Lanes, a: Any, b: Any, c: Any) -> Any:
    return v.builder.add(v.builder.add(v.builder.mul(a, b), c), _one(v, "p", V32))


def _product(v: Lanes, a: Any, b: Any, signed: bool) -> Any:
    extend = v.builder.sext if signed else v.builder.zext
    return v.builder.mul(extend(a, V64), extend(b, V64))


def _wide_product(signed: bool) -> Builder:
    def build(v: Lanes, a: Any, b: Any, c: Any) -> Result:
        product = _product(v, a, b, signed)
        first = v.builder.add(product, c)
        total = v.builder.add(first, _one(v, "p"))
        over = v.builder.or_(
            v.builder.icmp_unsigned("<", first, product), v.builder.icmp_unsigned("<", total, first)
        )
        return total, v.mask(over), None

    return build


_BUILDERS["imul.wide.u"], _BUILDERS["imul.wide.s"] = _wide_product(False), _wide_product(True)


@_builds("imul.hi.s")
def _hi_signed(v: Lanes, a: Any, b: Any, c: Any) -> Any:
    """The pair may overflow 64 bits: its halves are added apart."""
    return _high(v, _product(v, a, b, True), c, True)


@_builds("imul.hi.u")
def _hi_unsigned(v: Lanes, a: Any, b: Any, c: Any) -> Any:
    return _high(v, _product(v, a, b, False), c, False)


def _high(v: Lanes, product: Any, c: Any, signed: bool) -> Any:
    total = v.builder.add(product, c)
    return v.builder.trunc(v.builder.lshr(total, v.all(32, V64)), V32)


@_builds("lop3")
def _lop3(v: Lanes, a: Any, b: Any, c: Any) -> Result:
    lut, B = v.half("i"), v.builder

    def term(k: int) -> Any:
        bit = B.and_(B.lshr(lut, ir.Constant(HALF, k)), ir.Constant(HALF, 1))
        return v.splat(B.neg(bit))

    def mixed(select: Any, low: Any, high: Any) -> Any:
        return B.xor(low, B.and_(select, B.xor(low, high)))

    by_c = [mixed(c, term(2 * k), term(2 * k + 1)) for k in range(4)]
    result = mixed(a, mixed(b, by_c[0], by_c[1]), mixed(b, by_c[2], by_c[3]))
    nonzero = v.mask(B.icmp_unsigned("!=", result, v.all(0)))
    return result, B.or_(nonzero, v.mask_of("p")), None


def _count(v: Lanes, b: Any, kind: Any) -> Any:
    """A shift count: modulo ``j`` + 1 if ``j`` is not 0, else at most ``i``."""
    B = v.builder
    wraps = B.icmp_unsigned("!=", v.field("j"), ir.Constant(WORD, 0))
    wrapped = B.and_(b, v.splat(v.half("j")))
    limit = v.splat(v.half("i"))
    bounded = B.select(B.icmp_unsigned("<", b, limit), b, limit)
    count = v.either(wraps, wrapped, bounded)
    return B.zext(count, V64) if kind is V64 else count


def _shifted(direction: str, high: bool) -> Builder:
    def build(v: Lanes, a: Any, b: Any, c: Any) -> Any:
        B = v.builder
        both = B.or_(_wide(v, a), B.shl(_wide(v, c), v.all(32, V64)))
        count = _count(v, b, V64)
        over = B.icmp_unsigned(">=", count, v.all(64, V64))
        safe = B.and_(count, v.all(63, V64))
        if direction == "sar":
            moved = B.ashr(both, B.select(over, v.all(63, V64), safe))
        else:
            moved = (B.shl if direction == "shl" else B.lshr)(both, safe)
            moved = B.select(over, v.all(0, V64), moved)
        return B.trunc(B.lshr(moved, v.all(32, V64)) if high else moved, V32)

    return build


for _direction in ("shl", "shr", "sar"):
    _BUILDERS[_direction] = _shifted(_direction, False)
    _BUILDERS[f"{_direction}.hi"] = _shifted(_direction, True)


def _lea(v: Lanes, a: Any, b: Any) -> Result:
    total = v.builder.add(v.builder.add(_wide(v, a), _wide(v, b)), _one(v, "p"))
    return _carried(v, v.builder.add(total, v.splat(v.field("i"), V64)))


@_builds("lea")
def _lea_low(v: Lanes, a: Any, b: Any, c: Any) -> Result:
    return _lea(v, v.builder.shl(a, v.splat(v.half("j"))), b)


@_builds("lea.hi")
def _lea_high(v: Lanes, a: Any, b: Any, c: Any) -> Result:
    B = v.builder
    both = B.or_(_wide(v, a), B.shl(_wide(v, c), v.all(32, V64)))
    moved = B.lshr(B.shl(both, v.splat(v.field("j"), V64)), v.all(32, V64))
    return _lea(v, B.trunc(moved, V32), b)


@_builds("lea.hi.sx")
def _lea_extended(v: Lanes, a: Any, b: Any) -> Result:
    B = v.builder
    moved = B.lshr(B.shl(B.sext(a, V64), v.splat(v.field("j"), V64)), v.all(32, V64))
    return _lea(v, B.trunc(moved, V32), b)


def _comparison(v: Lanes, less: Any, equal: Any, unordered: Any) -> Result:
    """From masks of lanes to the two predicates; see `meanings._compared`."""
    B = v.builder
    wanted, how = v.half("i"), v.half("j")

    def if_wanted(bit: int) -> Any:
        on = B.and_(B.lshr(wanted, ir.Constant(HALF, bit)), ir.Constant(HALF, 1))
        return B.neg(on)

    rest = B.not_(B.or_(B.or_(less, equal), unordered))
    extended = B.icmp_unsigned("!=", B.and_(how, ir.Constant(HALF, 4)), ir.Constant(HALF, 0))
    on_equal = B.select(extended, v.mask_of("q"), if_wanted(1))
    found = B.or_(B.and_(less, if_wanted(0)), B.and_(equal, on_equal))
    found = B.or_(found, B.or_(B.and_(rest, if_wanted(2)), B.and_(unordered, if_wanted(3))))
    p = v.mask_of("p")
    kind = B.and_(how, ir.Constant(HALF, 3))

    def combined(value: Any) -> Any:
        either = B.select(
            B.icmp_unsigned("==", kind, ir.Constant(HALF, meanings.OR)), B.or_(value, p), B.xor(value, p)
        )
        return B.select(
            B.icmp_unsigned("==", kind, ir.Constant(HALF, meanings.AND)), B.and_(value, p), either
        )

    return None, combined(found), combined(B.not_(found))


@_builds("isetp")
def _isetp(v: Lanes, a: Any, b: Any) -> Result:
    less = v.mask(v.builder.icmp_unsigned("<", a, b))
    return _comparison(v, less, v.mask(v.builder.icmp_unsigned("==", a, b)), ir.Constant(HALF, 0))


def _float_comparison(v: Lanes, x: Any, y: Any) -> Result:
    B = v.builder
    less, equal, unordered = (v.mask(f(o, x, y)) for f, o in (
        (B.fcmp_ordered, "<"), (B.fcmp_ordered, "=="), (B.fcmp_unordered, "uno")))  # fmt: skip
    return _comparison(v, less, equal, unordered)


@_builds("fsetp")
def _fsetp(v: Lanes, a: Any, b: Any) -> Result:
    flush = v.flag("j", 8)
    return _float_comparison(v, v.single(v.flushed(a, flush)), v.single(v.flushed(b, flush)))


@_builds("dsetp")
def _dsetp(v: Lanes, a: Any, b: Any) -> Result:
    return _float_comparison(v, v.double(a), v.double(b))


_BUILDERS["sel"] = lambda v, a, b: v.builder.select(v.bits("p"), a, b)


def _extreme(signed: bool) -> Builder:
    def build(v: Lanes, a: Any, b: Any) -> Any:
        B = v.builder
        less = (B.icmp_signed if signed else B.icmp_unsigned)("<", a, b)
        return B.select(B.xor(less, B.not_(v.bits("p"))), a, b)

    return build


_BUILDERS["imnmx.s"], _BUILDERS["imnmx.u"] = _extreme(True), _extreme(False)


@_builds("prmt")
def _prmt(v: Lanes, a: Any, b: Any, c: Any) -> Any:
    B = v.builder
    both = B.or_(_wide(v, a), B.shl(_wide(v, c), v.all(32, V64)))
    result = v.all(0)
    for k in range(4):
        select = B.and_(B.lshr(b, v.all(4 * k)), v.all(15))
        count = B.shl(_wide(v, B.and_(select, v.all(7))), v.all(3, V64))
        byte = B.and_(B.trunc(B.lshr(both, count), V32), v.all(255))
        sign = B.and_(B.neg(B.lshr(byte, v.all(7))), v.all(255))
        replicated = B.icmp_unsigned(">", select, v.all(7))
        result = B.or_(result, B.shl(B.select(replicated, sign, byte), v.all(8 * k)))
    return result


_BUILDERS["popc"] = lambda v, a: v.call("ctpop", V32, a)
_BUILDERS["brev"] = lambda v, a: v.call("bitreverse", V32, a)


@_builds("flo")
def _flo(v: Lanes, a: Any) -> Any:
    B = v.builder
    negative = B.and_(B.ashr(a, v.all(31)), v.splat(B.neg(B.and_(v.half("i"), ir.Constant(HALF, 1)))))
    a = B.xor(a, negative)
    zeros = _leading_zeros(v, a)
    place = v.either(v.flag("i", 2), zeros, B.sub(v.all(31), zeros))
    return B.select(B.icmp_unsigned("==", a, v.all(0)), v.all(meanings.M32), place)


def _leading_zeros(v: Lanes, a: Any) -> Any:
    full = "llvm.ctlz.v32i32"
    shape = ir.FunctionType(V32, [V32, ir.IntType(1)])
    function = v.builder.module.globals.get(full) or ir.Function(v.builder.module, shape, full)
    return v.builder.call(function, [a, ir.Constant(ir.IntType(1), 0)])


@_builds("iabs")
def _iabs(v: Lanes, a: Any) -> Any:
    sign = v.builder.ashr(a, v.all(31))
    return v.builder.sub(v.builder.xor(a, sign), sign)


def _low_ones(v: Lanes, width: Any) -> Any:
    """A word with so many low ones, at most 32."""
    B = v.builder
    width = B.select(B.icmp_unsigned("<", width, v.all(32)), width, v.all(32))
    return B.trunc(B.sub(B.shl(v.all(1, V64), B.zext(width, V64)), v.all(1, V64)), V32), width


@_builds("sgxt")
def _sgxt(v: Lanes, a: Any, b: Any) -> Any:
    B = v.builder
    ones, width = _low_ones(v, b)
    low = B.and_(a, ones)
    none = B.icmp_unsigned("==", width, v.all(0))
    top = B.and_(B.lshr(low, B.and_(B.sub(width, v.all(1)), v.all(31))), v.all(1))
    minus = B.and_(B.neg(top), v.splat(B.neg(B.and_(v.half("i"), ir.Constant(HALF, 1)))))
    return B.select(none, v.all(0), B.or_(low, B.and_(minus, B.not_(ones))))


@_builds("bmsk")
def _bmsk(v: Lanes, a: Any, b: Any) -> Any:
    B = v.builder
    ones, _ = _low_ones(v, b)
    bounded = B.select(B.icmp_unsigned("<", a, v.all(32)), a, v.all(32))
    start = v.either(v.flag("i", 1), B.and_(a, v.all(31)), bounded)
    return B.trunc(B.shl(B.zext(ones, V64), B.zext(start, V64)), V32)


# Floating point


def _single_operation(compute: Callable[..., Any]) -> Builder:
    def build(v: Lanes, *sources: Any) -> Any:
        B = v.builder
        flush = v.flag("i", meanings.FLUSH)
        singles = [v.single(v.flushed(s, flush)) for s in sources]
        bits = v.flushed(v.bits32(compute(v, *singles)), flush)
        value = v.single(bits)
        zero, one = v.all(0.0, F32), v.all(1.0, F32)
        above = B.select(B.fcmp_ordered(">", value, one), one, value)
        cut = B.select(B.fcmp_ordered(">", value, zero), above, zero)
        return v.either(v.flag("i", meanings.SATURATE), B.bitcast(cut, V32), bits)

    return build


_BUILDERS["fadd"] = _single_operation(lambda v, a, b: v.builder.fadd(a, b))
_BUILDERS["fmul"] = _single_operation(lambda v, a, b: v.builder.fmul(a, b))
_BUILDERS["ffma"] = _single_operation(lambda v, a, b, c: v.call("fma", F32, a, b, c))


@_builds("ffma.near")
def _ffma(v: Lanes, a: Any, b: Any, c: Any) -> Any:
    return v.bits32(v.call("fma", F32, v.single(a), v.single(b), v.single(c)))


def _chosen(v: Lanes, a: Any, b: Any, kind: Any, nan: int) -> Any:
    B = v.builder
    ints = a.type
    x, y = B.bitcast(a, kind), B.bitcast(b, kind)
    p = v.bits("p")
    less, equal = B.fcmp_ordered("<", x, y), B.fcmp_ordered("==", x, y)
    result = B.select(B.xor(less, B.not_(p)), a, b)
    result = B.select(equal, B.select(p, B.or_(a, b), B.and_(a, b)), result)
    a_nan, b_nan = B.fcmp_unordered("uno", x, x), B.fcmp_unordered("uno", y, y)
    result = B.select(a_nan, b, B.select(b_nan, a, result))
    return B.select(B.and_(a_nan, b_nan), v.all(nan, ints), result)


@_builds("fmnmx")
def _fmnmx(v: Lanes, a: Any, b: Any) -> Any:
    flush = v.flag("i", meanings.FLUSH)
    return _chosen(v, v.flushed(a, flush), v.flushed(b, flush), F32, meanings.NAN32)


_BUILDERS["dmnmx"] = lambda v, a, b: _chosen(v, a, b, F64, meanings.NAN64)


@_builds("fchk")
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


_BUILDERS["dadd"] = lambda v, a, b: v.bits64(v.builder.fadd(v.double(a), v.double(b)))
_BUILDERS["dmul"] = lambda v, a, b: v.bits64(v.builder.fmul(v.double(a), v.double(b)))
_BUILDERS["dfma"] = lambda v, a, b, c: v.bits64(v.call("fma", F64, v.double(a), v.double(b), v.double(c)))
_BUILDERS["d2f"] = lambda v, a: v.bits32(v.builder.fptrunc(v.double(a), F32))
_BUILDERS["f2d"] = lambda v, a: v.bits64(v.builder.fpext(v.single(a), F64))


def _moved(v: Lanes, bits: Any, below: Any, above: Any, kind: Any) -> Any:
    """Adjust the nearest float of an exact number by one step, where the mode asks for the other side of it.

    ``below``: it lies below the exact number; ``above``: above it.
    """
    B = v.builder
    negative = B.icmp_signed("<", bits, v.all(0, kind))
    mode = v.mode()

    def is_mode(which: int) -> Any:
        return v.splat(B.icmp_unsigned("==", mode, ir.Constant(HALF, which)), BITS)

    chop = is_mode(meanings.CHOP)
    up = B.and_(below, B.or_(is_mode(meanings.UP), B.and_(chop, negative)))
    down = B.and_(above, B.or_(is_mode(meanings.DOWN), B.and_(chop, B.not_(negative))))
    # Away from zero is one more in the bits, towards it one less.
    one = v.all(1, kind)
    grown = B.select(negative, B.sub(bits, one), B.add(bits, one))
    shrunk = B.select(negative, B.add(bits, one), B.sub(bits, one))
    return B.select(up, grown, B.select(down, shrunk, bits))


@_builds("i2f")
def _i2f(v: Lanes, a: Any) -> Any:
    B = v.builder
    signed = v.flag("i", 4)
    exact = v.either(signed, B.sitofp(a, F64), B.uitofp(a, F64))
    near = B.fptrunc(exact, F32)
    back = B.fpext(near, F64)
    return _moved(
        v, B.bitcast(near, V32), B.fcmp_ordered("<", back, exact), B.fcmp_ordered(">", back, exact), V32
    )


@_builds("i2d")
def _i2d(v: Lanes, a: Any) -> Any:
    B = v.builder
    return B.bitcast(v.either(v.flag("i", 4), B.sitofp(a, F64), B.uitofp(a, F64)), V64)


def _from_long(kind: Any, ints: Any) -> Builder:
    def build(v: Lanes, a: Any) -> Any:
        B = v.builder
        signed = v.flag("i", 4)
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


_BUILDERS["l2f"], _BUILDERS["l2d"] = _from_long(F32, V32), _from_long(F64, V64)


def _made_whole(v: Lanes, value: Any) -> Any:
    """A float rounded to a whole number by the mode in ``i``."""
    B = v.builder
    kind, mode = value.type, v.mode()
    result = v.call("roundeven", kind, value)
    for which, name in ((meanings.DOWN, "floor"), (meanings.UP, "ceil"), (meanings.CHOP, "trunc")):
        chosen = B.icmp_unsigned("==", mode, ir.Constant(HALF, which))
        result = B.select(chosen, v.call(name, kind, value), result)
    return result


def _to_integer(single: bool, ints: Any) -> Builder:
    def build(v: Lanes, a: Any) -> Any:
        value = v.single(v.flushed(a, v.flag("j", 1))) if single else v.double(a)
        value = _made_whole(v, value)
        return v.either(
            v.flag("i", 4), v.converted("fptosi.sat", ints, value), v.converted("fptoui.sat", ints, value)
        )

    return build


for _name, _single_kind, _ints in (
    ("f2i", True, V32),
    ("f2l", True, V64),
    ("d2i", False, V32),
    ("d2l", False, V64),
):
    _BUILDERS[_name] = _to_integer(_single_kind, _ints)
_BUILDERS["frnd"] = lambda v, a: v.bits32(_made_whole(v, v.single(v.flushed(a, v.flag("j", 1)))))
_BUILDERS["drnd"] = lambda v, a: v.bits64(_made_whole(v, v.double(a)))


def _through_double(v: Lanes, a: Any, function: Callable[[Any], Any]) -> Any:
    """A special function of a single by way of doubles, subnormals flushed on both sides."""
    value = v.builder.fpext(v.single(v.flushed(a, None)), F64)
    return v.flushed(v.bits32(v.builder.fptrunc(function(value), F32)), None)


def _inverse(v: Lanes, x: Any) -> Any:
    return v.builder.fdiv(v.all(1.0, F64), x)


def _inverse_root(v: Lanes, x: Any) -> Any:
    """1 / sqrt(x); of -0 it is minus infinity."""
    return v.builder.fdiv(v.all(1.0, F64), v.call("sqrt", F64, x))


def _libm(v: Lanes, name: str, x: Any) -> Any:
    """A function of the C library lane by lane: the one that Python's `math` calls."""
    double = ir.DoubleType()
    function = v.builder.module.globals.get(name)
    function = function or ir.Function(v.builder.module, ir.FunctionType(double, [double]), name)
    result = ir.Constant(F64, ir.Undefined)
    for lane in range(32):
        at = ir.Constant(HALF, lane)
        result = v.builder.insert_element(
            result, v.builder.call(function, [v.builder.extract_element(x, at)]), at
        )
    return result


_BUILDERS["rcp"] = lambda v, a: _through_double(v, a, lambda x: _inverse(v, x))
_BUILDERS["rsq"] = lambda v, a: _through_double(v, a, lambda x: _inverse_root(v, x))
_BUILDERS["sqrt"] = lambda v, a: _through_double(v, a, lambda x: v.call("sqrt", F64, x))
_BUILDERS["ex2"] = lambda v, a: _through_double(v, a, lambda x: _libm(v, "exp2", x))
_BUILDERS["lg2"] = lambda v, a: _through_double(v, a, lambda x: _libm(v, "log2", x))
_TURN: Final = 6.283185307179586
_BUILDERS["sin"] = lambda v, a: _through_double(
    v, a, lambda x: _libm(v, "sin", v.builder.fmul(x, v.all(_TURN, F64)))
)
_BUILDERS["cos"] = lambda v, a: _through_double(
    v, a, lambda x: _libm(v, "cos", v.builder.fmul(x, v.all(_TURN, F64)))
)
_BUILDERS["tanh"] = lambda v, a: _through_double(v, a, lambda x: _libm(v, "tanh", x))


def _seed(function: Callable[[Lanes, Any], Any]) -> Builder:
    def build(v: Lanes, a: Any) -> Any:
        B = v.builder
        value = v.double(B.shl(_wide(v, a), v.all(32, V64)))
        return B.trunc(B.lshr(v.bits64(function(v, value)), v.all(32, V64)), V32)

    return build


_BUILDERS["rcp64h"], _BUILDERS["rsq64h"] = _seed(_inverse), _seed(_inverse_root)


@_builds("plop3")
def _plop3(v: Lanes) -> Result:
    """Handled with the other operations on predicates; here only so that every code has a block."""
    return None, v.mask_of("p"), v.mask_of("q")


def _emit(v: Lanes, operation: meanings.VectorOperation, lanes: Any) -> None:
    """The code of one operation, from its sources to its results."""
    if rounded := operation.name in _ROUNDED:
        mode = v.mode()
        directed = v.builder.icmp_unsigned("!=", mode, ir.Constant(HALF, 0))
        with v.builder.if_then(directed, likely=False):
            v.rounding(mode)
    sources = [v.source(n, kind) for n, kind in zip("abc", operation.sources, strict=False)]
    made = _BUILDERS[operation.name](v, *sources)
    result, first, second = made if isinstance(made, tuple) else (made, None, None)
    if result is not None:
        at = v.builder.add(v.warp, v.field("dst"))
        if operation.result == "d":
            low = v.builder.trunc(result, V32)
            high = v.builder.trunc(v.builder.lshr(result, v.all(32, V64)), V32)
            v.store_row(at, low, lanes)
            v.store_row(v.builder.add(at, ir.Constant(WORD, record.ROW_BYTES)), high, lanes)
        else:
            v.store_row(at, result, lanes)
    if first is not None:
        v.store_mask("pd", first, lanes)
    if second is not None:
        v.store_mask("qd", second, lanes)
    if rounded:
        with v.builder.if_then(directed, likely=False):
            v.rounding(ir.Constant(HALF, 0))


@intrinsic
def execute_vector(typing_context: Any, op: Any, warp: Any, lanes: Any) -> Any:
    """Execute the vector micro-operation at an address, for a warp at an address, in these lanes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        at, state, mask = arguments
        v = Lanes(builder, at, state)
        lanes32 = builder.trunc(mask, HALF)
        code = v.field("code")
        after = builder.append_basic_block("after")
        switch = builder.switch(code, after)
        for number, operation in enumerate(meanings.OPERATIONS):
            block = builder.append_basic_block(operation.name.replace(".", "_"))
            switch.add_case(ir.Constant(WORD, number), block)
            builder.position_at_end(block)
            _emit(v, operation, lanes32)
            builder.branch(after)
        builder.position_at_end(after)
        return context.get_dummy_value()

    return types.none(types.int64, types.int64, types.int64), generate

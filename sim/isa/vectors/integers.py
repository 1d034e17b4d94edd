"""The vector operations on integers, in LLVM."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from smlab.sim.isa import vector_operation
from smlab.sim.isa.vectors.llvm_lanes import (
    BITS,
    BUILDERS,
    HALF,
    V32,
    V64,
    WORD,
    Builder,
    Lanes,
    Result,
    builds,
)


def wide(v: Lanes, value: Any) -> Any:
    return v.builder.zext(value, V64)


def _one(v: Lanes, name: str, kind: Any = V64) -> Any:
    return v.builder.zext(v.bits(name), kind)


def _carried(v: Lanes, total: Any) -> Result:
    b = v.builder
    first = v.mask(b.icmp_unsigned(">=", total, v.all(1 << 32, V64)))
    second = v.mask(b.icmp_unsigned(">=", total, v.all(1 << 33, V64)))
    return b.trunc(total, V32), first, second


@builds("iadd3c")
def _iadd3c(v: Lanes, a: Any, b: Any, c: Any) -> Result:
    add = v.builder.add
    total = add(add(wide(v, a), wide(v, b)), wide(v, c))
    total = add(add(total, _one(v, "predicate_a")), _one(v, "predicate_b"))
    return _carried(v, add(total, v.splat(v.field("addend"), V64)))


@builds("iadd3.64")
def _iadd3_long(v: Lanes, a: Any, b: Any, c: Any) -> Any:
    B = v.builder
    x, y, z = (v.either(v.flag("negated", 1 << n), B.neg(value), value) for n, value in enumerate((a, b, c)))
    return B.add(B.add(x, y), z)


@builds("iadd64c")
def _iadd64c(v: Lanes, a: Any, b: Any) -> Result:
    """The carry is that of the sum, or of what is added to it."""
    B, ones = v.builder, v.all(-1, V64)
    x, y = (
        v.either(v.flag("complemented", 1 << n), B.xor(value, ones), value) for n, value in enumerate((a, b))
    )
    part, more = B.add(x, y), B.add(_one(v, "predicate_a"), v.splat(v.field("addend"), V64))
    total = B.add(part, more)
    carry = B.or_(B.icmp_unsigned("<", part, x), B.icmp_unsigned("<", total, part))
    return total, v.mask(carry), v.mask(B.xor(carry, carry))


@builds("in_window")
def _in_window(v: Lanes, a: Any, b: Any, c: Any) -> Result:
    """Whether the high word of an address is that of a window of memory."""
    high = v.builder.trunc(v.builder.lshr(v.builder.add(a, wide(v, b)), v.all(32, V64)), V32)
    return None, *(v.mask(v.builder.icmp_unsigned(x, high, c)) for x in ("==", "!="))


def _byte(v: Lanes, value: Any, n: int, signed: Any) -> Any:
    B, top = v.builder, v.builder.shl(value, v.all(24 - 8 * n))
    return v.either(signed, B.ashr(top, v.all(24)), B.lshr(top, v.all(24)))


@builds("imnmx.8x4")
def _extreme_bytes(v: Lanes, a: Any, b: Any) -> Any:
    B, made, signed = v.builder, v.all(0), v.flag("is_signed")
    for n in range(4):
        x, y = (_byte(v, word, n, signed) for word in (a, b))
        less = B.xor(B.icmp_signed("<", x, y), B.not_(v.bits("predicate_a")))
        made = B.or_(made, B.shl(B.and_(B.select(less, x, y), v.all(0xFF)), v.all(8 * n)))
    return made


@builds("iadd.8x4")
def _sum_of_bytes(v: Lanes, a: Any, b: Any) -> Any:
    B, made = v.builder, v.all(0)
    for n in range(4):
        x, y = (
            v.either(v.flag("negated", 1 << place), B.neg(part), part)
            for place, part in enumerate(B.lshr(word, v.all(8 * n)) for word in (a, b))
        )
        made = B.or_(made, B.shl(B.and_(B.add(x, y), v.all(0xFF)), v.all(8 * n)))
    return made


@builds("iadd.sat")
def _saturated_sum(v: Lanes, a: Any, b: Any) -> Any:
    B = v.builder
    x, y = (
        v.either(v.flag("negated", 1 << place), B.neg(word), word)
        for place, word in enumerate(B.sext(word, V64) for word in (a, b))
    )
    low, high = v.all(-(1 << 31), V64), v.all((1 << 31) - 1, V64)
    return B.trunc(v.call("smin", V64, v.call("smax", V64, B.add(x, y), low), high), V32)


def _clamped(v: Lanes, value: Any) -> Any:
    """In the range of a shorter integer, as a word."""
    B, cut = v.builder, v.splat(v.half("cut_bits"))
    low, high = B.ashr(v.all(-(1 << 31)), cut), B.lshr(v.all((1 << 31) - 1), cut)
    short = v.call("smin", V32, v.call("smax", V32, value, low), high)
    counted = v.call("umin", V32, v.call("smax", V32, value, v.all(0)), B.lshr(v.all(-1), cut))
    return v.either(v.flag("is_signed"), short, counted)


def side_by_side(v: Lanes, above: Any, below: Any, rest: Any) -> Any:
    """Two short integers in a word, and above them another source or its upper half."""
    rest = v.either(v.flag("half_choice", 4), v.builder.lshr(rest, v.all(16)), rest)
    B, cut = v.builder, v.splat(v.half("cut_bits"))
    kept, short = B.sub(v.all(32), cut), B.lshr(v.all(-1), cut)
    pair = B.or_(B.shl(B.and_(above, short), kept), B.and_(below, short))
    twice = B.add(kept, kept)
    whole = B.icmp_unsigned(">=", twice, v.all(32))
    return B.or_(pair, B.select(whole, v.all(0), B.shl(rest, B.and_(twice, v.all(31)))))


BUILDERS["i2i.sat"] = _clamped
BUILDERS["i2ip"] = lambda v, a, b, c: side_by_side(v, _clamped(v, a), _clamped(v, b), c)


@builds("imadx")
def _imadx(v: Lanes, a: Any, b: Any, c: Any) -> Any:
    return v.builder.add(v.builder.add(v.builder.mul(a, b), c), _one(v, "predicate_a", V32))


def _product(v: Lanes, a: Any, b: Any, signed: bool) -> Any:
    extend = v.builder.sext if signed else v.builder.zext
    return v.builder.mul(extend(a, V64), extend(b, V64))


def _wide_product(signed: bool) -> Builder:
    def build(v: Lanes, a: Any, b: Any, c: Any) -> Result:
        product = _product(v, a, b, signed)
        first = v.builder.add(product, c)
        total = v.builder.add(first, _one(v, "predicate_a"))
        over = v.builder.or_(
            v.builder.icmp_unsigned("<", first, product), v.builder.icmp_unsigned("<", total, first)
        )
        return total, v.mask(over), None

    return build


BUILDERS["imul.wide.u"], BUILDERS["imul.wide.s"] = _wide_product(False), _wide_product(True)


def _high_product(signed: bool) -> Builder:
    """The upper word of the same sum, with its carry."""

    def build(v: Lanes, a: Any, b: Any, c: Any) -> Result:
        total, over, _ = _wide_product(signed)(v, a, b, c)
        return v.builder.trunc(v.builder.lshr(total, v.all(32, V64)), V32), over, None

    return build


BUILDERS["imul.hi.u"], BUILDERS["imul.hi.s"] = _high_product(False), _high_product(True)


@builds("lop3")
def _lop3(v: Lanes, a: Any, b: Any, c: Any) -> Result:
    lut, B = v.half("truth_table"), v.builder

    def term(k: int) -> Any:
        bit = B.and_(B.lshr(lut, ir.Constant(HALF, k)), ir.Constant(HALF, 1))
        return v.splat(B.neg(bit))

    def mixed(select: Any, low: Any, high: Any) -> Any:
        return B.xor(low, B.and_(select, B.xor(low, high)))

    by_c = [mixed(c, term(2 * k), term(2 * k + 1)) for k in range(4)]
    result = mixed(a, mixed(b, by_c[0], by_c[1]), mixed(b, by_c[2], by_c[3]))
    nonzero = v.mask(B.icmp_unsigned("!=", result, v.all(0)))
    return result, B.or_(nonzero, v.mask_of("predicate_a")), None


def _count(v: Lanes, b: Any, kind: Any) -> Any:
    """A shift count."""
    B = v.builder
    wraps = B.icmp_unsigned("!=", v.field("wrap_mask"), ir.Constant(WORD, 0))
    wrapped = B.and_(b, v.splat(v.half("wrap_mask")))
    limit = v.splat(v.half("count_limit"))
    bounded = B.select(B.icmp_unsigned("<", b, limit), b, limit)
    count = v.either(wraps, wrapped, bounded)
    return B.zext(count, V64) if kind is V64 else count


def _shifted(direction: str, high: bool) -> Builder:
    def build(v: Lanes, a: Any, b: Any, c: Any) -> Any:
        B = v.builder
        both = B.or_(wide(v, a), B.shl(wide(v, c), v.all(32, V64)))
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
    BUILDERS[_direction] = _shifted(_direction, False)
    BUILDERS[f"{_direction}.hi"] = _shifted(_direction, True)


def _lea(v: Lanes, a: Any, b: Any) -> Result:
    total = v.builder.add(v.builder.add(wide(v, a), wide(v, b)), _one(v, "predicate_a"))
    return _carried(v, v.builder.add(total, v.splat(v.field("addend"), V64)))


@builds("lea")
def _lea_low(v: Lanes, a: Any, b: Any, c: Any) -> Result:
    return _lea(v, v.builder.shl(a, v.splat(v.half("shift"))), b)


@builds("lea.hi")
def _lea_high(v: Lanes, a: Any, b: Any, c: Any) -> Result:
    B = v.builder
    both = B.or_(wide(v, a), B.shl(wide(v, c), v.all(32, V64)))
    moved = B.lshr(B.shl(both, v.splat(v.field("shift"), V64)), v.all(32, V64))
    return _lea(v, B.trunc(moved, V32), b)


@builds("lea.hi.sx")
def _lea_extended(v: Lanes, a: Any, b: Any) -> Result:
    B = v.builder
    moved = B.lshr(B.shl(B.sext(a, V64), v.splat(v.field("shift"), V64)), v.all(32, V64))
    return _lea(v, B.trunc(moved, V32), b)


def _comparison(v: Lanes, less: Any, equal: Any, unordered: Any) -> Result:
    """From masks of lanes to the two predicates; see `meanings._comparison`."""
    B = v.builder
    wanted, kind = v.half("relations"), v.half("combine")

    def if_wanted(bit: int) -> Any:
        on = B.and_(B.lshr(wanted, ir.Constant(HALF, bit)), ir.Constant(HALF, 1))
        return B.neg(on)

    rest = B.not_(B.or_(B.or_(less, equal), unordered))
    on_equal = B.select(v.flag("extends"), v.mask_of("predicate_b"), if_wanted(1))
    found = B.or_(B.and_(less, if_wanted(0)), B.and_(equal, on_equal))
    found = B.or_(found, B.or_(B.and_(rest, if_wanted(2)), B.and_(unordered, if_wanted(3))))
    p = v.mask_of("predicate_a")

    def combined(value: Any) -> Any:
        either = B.select(
            B.icmp_unsigned("==", kind, ir.Constant(HALF, vector_operation.OR)),
            B.or_(value, p),
            B.xor(value, p),
        )
        return B.select(
            B.icmp_unsigned("==", kind, ir.Constant(HALF, vector_operation.AND)), B.and_(value, p), either
        )

    return None, combined(found), combined(B.not_(found))


@builds("isetp")
def _isetp(v: Lanes, a: Any, b: Any) -> Result:
    less = v.mask(v.builder.icmp_unsigned("<", a, b))
    return _comparison(v, less, v.mask(v.builder.icmp_unsigned("==", a, b)), ir.Constant(HALF, 0))


def _long_comparison(signed: bool) -> Builder:
    def build(v: Lanes, a: Any, b: Any) -> Result:
        compare = v.builder.icmp_signed if signed else v.builder.icmp_unsigned
        less, equal = v.mask(compare("<", a, b)), v.mask(compare("==", a, b))
        return _comparison(v, less, equal, ir.Constant(HALF, 0))

    return build


BUILDERS["isetp.s64"], BUILDERS["isetp.u64"] = _long_comparison(True), _long_comparison(False)


def _float_comparison(v: Lanes, x: Any, y: Any) -> Result:
    B = v.builder
    less, equal, unordered = (
        v.mask(f(o, x, y))
        for f, o in ((B.fcmp_ordered, "<"), (B.fcmp_ordered, "=="), (B.fcmp_unordered, "uno"))
    )
    return _comparison(v, less, equal, unordered)


@builds("fsetp")
def _fsetp(v: Lanes, a: Any, b: Any) -> Result:
    flush = v.flag("flush")
    return _float_comparison(v, v.single(v.flushed(a, flush)), v.single(v.flushed(b, flush)))


@builds("fset")
def _fset(v: Lanes, a: Any, b: Any) -> Any:
    found = _float_comparison(v, v.single(a), v.single(b))[1]
    true = v.either(v.flag("sets_one"), v.all(0x3F800000), v.all(-1))
    return v.builder.select(v.builder.bitcast(found, BITS), true, v.all(0))


@builds("dsetp")
def _dsetp(v: Lanes, a: Any, b: Any) -> Result:
    return _float_comparison(v, v.double(a), v.double(b))


BUILDERS["sel"] = BUILDERS["sel.64"] = lambda v, a, b: v.builder.select(v.bits("predicate_a"), a, b)


def _extreme(signed: bool) -> Builder:
    def build(v: Lanes, a: Any, b: Any) -> Any:
        B = v.builder
        less = (B.icmp_signed if signed else B.icmp_unsigned)("<", a, b)
        return B.select(B.xor(less, B.not_(v.bits("predicate_a"))), a, b)

    return build


def _above_zero(v: Lanes, value: Any) -> Any:
    """The number, or 0 for one below, where the instruction asks for that."""
    above = v.builder.select(v.builder.icmp_signed("<", value, v.all(0)), v.all(0), value)
    return v.either(v.flag("above_zero"), above, value)


def _extreme_of_sum(signed: bool) -> Builder:
    return lambda v, a, b, c: _above_zero(v, _extreme(signed)(v, v.builder.add(a, b), c))


BUILDERS["iaddmnmx.s"], BUILDERS["iaddmnmx.u"] = _extreme_of_sum(True), _extreme_of_sum(False)
BUILDERS["imnmx.s"], BUILDERS["imnmx.u"] = _extreme(True), _extreme(False)
BUILDERS["imnmx.s64"], BUILDERS["imnmx.u64"] = _extreme(True), _extreme(False)


def _extreme_of_three(signed: bool) -> Builder:
    def build(v: Lanes, a: Any, b: Any, c: Any) -> Any:
        extreme = _extreme(signed)
        return _above_zero(v, extreme(v, extreme(v, a, b), c))

    return build


BUILDERS["imnmx3.s"], BUILDERS["imnmx3.u"] = _extreme_of_three(True), _extreme_of_three(False)


def _short_of(v: Lanes, word: Any, half: int) -> Any:
    B, sixteen = v.builder, v.all(16)
    top = B.shl(word, v.all(16 * (1 - half)))
    return v.either(v.flag("is_signed"), B.ashr(top, sixteen), B.lshr(top, sixteen))


def _packed(v: Lanes, low: Any, high: Any) -> Any:
    return v.builder.or_(v.builder.and_(low, v.all(0xFFFF)), v.builder.shl(high, v.all(16)))


@builds("imnmx.16x2")
def _extreme_shorts(v: Lanes, a: Any, b: Any) -> Any:
    shorts = ([_short_of(v, word, half) for word in (a, b)] for half in range(2))
    return _packed(v, *(_above_zero(v, _extreme(True)(v, *both)) for both in shorts))


@builds("iadd.16x2")
def _sum_of_shorts(v: Lanes, a: Any, b: Any) -> Any:
    B, sixteen = v.builder, v.all(16)
    return _packed(v, B.add(a, b), B.add(B.lshr(a, sixteen), B.lshr(b, sixteen)))


@builds("iaddmnmx.16x2")
def _extreme_of_sums(v: Lanes, a: Any, b: Any, c: Any) -> Any:
    return _extreme_shorts(v, _sum_of_shorts(v, a, b), c)


@builds("prmt")
def _prmt(v: Lanes, a: Any, b: Any, c: Any) -> Any:
    B = v.builder
    both = B.or_(wide(v, a), B.shl(wide(v, c), v.all(32, V64)))
    result = v.all(0)
    for k in range(4):
        select = B.and_(B.lshr(b, v.all(4 * k)), v.all(15))
        count = B.shl(wide(v, B.and_(select, v.all(7))), v.all(3, V64))
        byte = B.and_(B.trunc(B.lshr(both, count), V32), v.all(255))
        sign = B.and_(B.neg(B.lshr(byte, v.all(7))), v.all(255))
        replicated = B.icmp_unsigned(">", select, v.all(7))
        result = B.or_(result, B.shl(B.select(replicated, sign, byte), v.all(8 * k)))
    return result


BUILDERS["popc"] = lambda v, a: v.call("ctpop", V32, a)
BUILDERS["brev"] = lambda v, a: v.call("bitreverse", V32, a)


@builds("flo")
def _flo(v: Lanes, a: Any) -> Any:
    B = v.builder
    negative = B.and_(B.ashr(a, v.all(31)), v.splat(B.neg(v.half("is_signed"))))
    a = B.xor(a, negative)
    zeros = _leading_zeros(v, a)
    place = v.either(v.flag("as_shift"), zeros, B.sub(v.all(31), zeros))
    return B.select(B.icmp_unsigned("==", a, v.all(0)), v.all(vector_operation.M32), place)


def _leading_zeros(v: Lanes, a: Any) -> Any:
    full = "llvm.ctlz.v32i32"
    shape = ir.FunctionType(V32, [V32, ir.IntType(1)])
    function = v.builder.module.globals.get(full) or ir.Function(v.builder.module, shape, full)
    return v.builder.call(function, [a, ir.Constant(ir.IntType(1), 0)])


@builds("iabs")
def _iabs(v: Lanes, a: Any) -> Any:
    sign = v.builder.ashr(a, v.all(31))
    return v.builder.sub(v.builder.xor(a, sign), sign)


def _low_ones(v: Lanes, width: Any) -> Any:
    """A word with so many low ones, at most 32."""
    B = v.builder
    width = B.select(B.icmp_unsigned("<", width, v.all(32)), width, v.all(32))
    return B.trunc(B.sub(B.shl(v.all(1, V64), B.zext(width, V64)), v.all(1, V64)), V32), width


@builds("sgxt")
def _sgxt(v: Lanes, a: Any, b: Any) -> Any:
    B = v.builder
    ones, width = _low_ones(v, b)
    low = B.and_(a, ones)
    none = B.icmp_unsigned("==", width, v.all(0))
    top = B.and_(B.lshr(low, B.and_(B.sub(width, v.all(1)), v.all(31))), v.all(1))
    minus = B.and_(B.neg(top), v.splat(B.neg(v.half("is_signed"))))
    return B.select(none, v.all(0), B.or_(low, B.and_(minus, B.not_(ones))))


@builds("signs")
def _signs(v: Lanes, a: Any, b: Any, c: Any) -> Result:
    """Predicates by the signs of three words, and tables of truth values."""
    B = v.builder
    negative = [B.icmp_signed("<", word, v.all(0)) for word in (a, b, c)]
    found = []
    for table in ("truth_table", "truth_table_b"):
        total = None
        for which in range(8):
            term = None
            for n, sign in enumerate(negative):
                one = sign if which >> (2 - n) & 1 else B.not_(sign)
                term = one if term is None else B.and_(term, one)
            term = v.either(v.flag(table, 1 << which), term, B.xor(term, term))
            total = term if total is None else B.or_(total, term)
        found.append(v.mask(total))
    return None, found[0], found[1]


@builds("bmsk")
def _bmsk(v: Lanes, a: Any, b: Any) -> Any:
    B = v.builder
    ones, _ = _low_ones(v, b)
    bounded = B.select(B.icmp_unsigned("<", a, v.all(32)), a, v.all(32))
    start = v.either(v.flag("wraps"), B.and_(a, v.all(31)), bounded)
    return B.trunc(B.shl(B.zext(ones, V64), B.zext(start, V64)), V32)

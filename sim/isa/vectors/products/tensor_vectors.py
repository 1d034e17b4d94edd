"""Products of matrices, eight columns at a time, in LLVM code: what the module `tensor` beside it does where
all numbers are finite and all sums are normal singles or zeros. It says where they are not.

Significands and exponents are words of 32 bits: of the first matrix row by row, of the second one k by k.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from smlab.sim.compiled.jit import intrinsic
from smlab.sim.isa.memory_layout import ROW_BYTES
from smlab.sim.isa.vectors.llvm_lanes import HALF, WORD

_V8, _L8, _D8 = (ir.VectorType(kind, 8) for kind in (HALF, WORD, ir.DoubleType()))
_BIT = ir.IntType(1)
SPECIAL = 1 << 20  # the exponent of infinities (significand 1 or -1) and of NaN (significand 2)
NOT_A_NUMBER = 2


class _Eight:
    """A builder of vectors of eight, or fewer or more."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder

    def all(self, value: int, kind: Any = _V8) -> Any:
        return ir.Constant(kind, [value] * kind.count)

    def splat(self, value: Any, count: int = 8) -> Any:
        kind = ir.VectorType(value.type, count)
        one = self.builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(HALF, 0))
        places = ir.Constant(ir.VectorType(HALF, count), [0] * count)
        return self.builder.shuffle_vector(one, ir.Constant(kind, ir.Undefined), places)

    def load(self, at: Any, kind: Any = _V8) -> Any:
        loaded = self.builder.load(self.builder.inttoptr(at, kind.as_pointer()))
        loaded.align = 4
        return loaded

    def store(self, at: Any, value: Any) -> None:
        self.builder.store(value, self.builder.inttoptr(at, value.type.as_pointer())).align = 4

    def call(self, name: str, value: Any) -> Any:
        kind = _BIT
        shape = ir.FunctionType(kind, [value.type])
        function = self.builder.module.globals.get(name) or ir.Function(self.builder.module, shape, name)
        return self.builder.call(function, [value])

    def some(self, bits: Any) -> Any:
        """Whether a bit of a vector is set."""
        return self.call(f"llvm.vector.reduce.or.v{bits.type.count}i1", bits)

    def larger(self, a: Any, b: Any) -> Any:
        return self.builder.select(self.builder.icmp_signed(">", a, b), a, b)

    def size(self, value: Any) -> Any:
        minus = self.builder.sub(self.all(0), value)
        return self.builder.select(self.builder.icmp_signed("<", value, self.all(0)), minus, value)


def _unpacked(v: _Eight, part: Any, shape: list[Any]) -> tuple[Any, Any, Any]:
    """Significands with signs, exponents, and whether some part is no number. ``shape``: bits of the exponent
    and of the fraction, whether the largest exponent has infinities (0), one NaN (1) or numbers (2)."""
    B, count = v.builder, part.type.count
    kind = part.type
    exponent_bits, digits, largest = (B.trunc(value, HALF) for value in shape)
    one, top = ir.Constant(HALF, 1), B.sub(B.shl(ir.Constant(HALF, 1), exponent_bits), ir.Constant(HALF, 1))
    hidden = B.shl(one, digits)
    mask = B.sub(hidden, one)
    wide_digits, wide_top = v.splat(digits, count), v.splat(top, count)
    fraction = B.and_(part, v.splat(mask, count))
    exponent = B.and_(B.lshr(part, wide_digits), wide_top)
    minus = B.and_(B.lshr(part, v.splat(B.add(digits, exponent_bits), count)), v.all(1, kind))
    at_top = B.icmp_unsigned("==", exponent, wide_top)
    every = B.icmp_unsigned("==", fraction, v.splat(mask, count))
    ieee = v.splat(B.icmp_unsigned("==", largest, ir.Constant(HALF, 0)), count)
    finite = v.splat(B.icmp_unsigned("==", largest, ir.Constant(HALF, 2)), count)
    special = B.and_(B.and_(at_top, B.not_(finite)), B.or_(ieee, every))
    normal = B.icmp_unsigned("!=", exponent, v.all(0, kind))
    size = B.select(normal, B.or_(fraction, v.splat(hidden, count)), fraction)
    exponent = B.select(normal, exponent, v.all(1, kind))
    exponent = B.sub(exponent, v.splat(B.lshr(top, one), count))
    none = B.or_(B.icmp_unsigned("!=", fraction, v.all(0, kind)), B.not_(ieee))
    size = B.select(special, v.all(1, kind), size)
    size = B.select(B.icmp_unsigned("!=", minus, v.all(0, kind)), B.sub(v.all(0, kind), size), size)
    size = B.select(B.and_(special, none), v.all(NOT_A_NUMBER, kind), size)
    return size, B.select(special, v.all(SPECIAL, kind), exponent), special


def _row_unpacker(pack: int) -> Callable[..., Any]:
    """Of one register the elements of the rows of the first matrix: ``4 * pack`` a row, in order."""

    def unpack_rows(
        typing_context: Any, source: Any, to: Any, stride: Any, shape: Any, exponents: Any
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            source, to, stride, packed, exponents = arguments
            v, B, bits = _Eight(builder), builder, 32 // pack
            part_kind = ir.VectorType(ir.IntType(bits), 4 * pack)
            kind = ir.VectorType(HALF, 4 * pack)
            shift, *shape = (
                B.and_(B.lshr(packed, ir.Constant(WORD, 8 * n)), ir.Constant(WORD, 255)) for n in range(4)
            )
            found: Any = ir.Constant(_BIT, 0)
            for row in range(8):
                part = v.load(B.add(source, ir.Constant(WORD, 16 * row)), part_kind)
                part = part if bits == 32 else B.zext(part, kind)
                part = B.lshr(part, v.splat(B.trunc(shift, HALF), 4 * pack))
                size, exponent, special = _unpacked(v, part, shape)
                at = B.add(to, B.mul(stride, ir.Constant(WORD, row)))
                v.store(at, size)
                v.store(B.add(at, exponents), exponent)
                found = B.or_(found, v.some(special))
            return B.zext(found, WORD)

        return types.int64(types.int64, types.int64, types.int64, types.int64, types.int64), generate

    return intrinsic(unpack_rows)  # type: ignore[no-any-return]


def _column_unpacker(pack: int) -> Callable[..., Any]:
    """Of one register the elements of the columns of the second matrix: eight of one k side by side."""

    def unpack_columns(typing_context: Any, source: Any, to: Any, shape: Any, exponents: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            source, to, packed, exponents = arguments
            v, B, bits = _Eight(builder), builder, 32 // pack
            shift, *shape = (
                B.and_(B.lshr(packed, ir.Constant(WORD, 8 * n)), ir.Constant(WORD, 255)) for n in range(4)
            )
            whole = v.load(source, ir.VectorType(HALF, 32))
            found: Any = ir.Constant(_BIT, 0)
            for t in range(4):
                places = ir.Constant(_V8, [4 * column + t for column in range(8)])
                words = B.shuffle_vector(whole, ir.Constant(whole.type, ir.Undefined), places)
                for e in range(pack):
                    part = B.lshr(words, v.all(bits * e)) if e else words
                    part = B.and_(part, v.all((1 << bits) - 1)) if bits < 32 else part
                    part = B.lshr(part, v.splat(B.trunc(shift, HALF)))
                    size, exponent, special = _unpacked(v, part, shape)
                    at = B.add(to, ir.Constant(WORD, 32 * (t * pack + e)))
                    v.store(at, size)
                    v.store(B.add(at, exponents), exponent)
                    found = B.or_(found, v.some(special))
            return B.zext(found, WORD)

        return types.int64(types.int64, types.int64, types.int64, types.int64), generate

    return intrinsic(unpack_columns)  # type: ignore[no-any-return]


unpack_rows_1, unpack_rows_2, unpack_rows_4 = (_row_unpacker(pack) for pack in (1, 2, 4))
unpack_columns_1, unpack_columns_2, unpack_columns_4 = (_column_unpacker(pack) for pack in (1, 2, 4))


def _aligned(v: _Eight, value: Any, left: Any, down: Any) -> Any:
    """Numbers times ``2**left``, without the digits below ``2**down`` that they then have."""
    B = v.builder
    size = v.size(value)
    none = ir.Constant(HALF, 0)
    to_left = B.select(B.icmp_signed(">", left, none), left, none)
    to_right = B.select(B.icmp_signed("<", left, none), B.sub(none, left), none)
    down = B.add(down, v.splat(to_right))
    down = B.select(B.icmp_signed(">", down, v.all(31)), v.all(31), down)
    size = B.lshr(B.shl(size, v.splat(to_left)), down)
    return B.select(B.icmp_signed("<", value, v.all(0)), B.sub(v.all(0), size), size)


@intrinsic
def add_group(typing_context: Any, a: Any, b: Any, count: Any, sums: Any, rule: Any, exponents: Any) -> Any:
    """Adds a group of products of one row to eight columns' singles, in place; 1 where a sum is no normal
    single and no zero: nothing has been changed then.

    ``rule`` has bytes: the digits of products behind the point, those that are kept when they are aligned,
    the digits that a sum's bits lack of a double's, and the exponent of zero, with its sign changed.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        a, b, count, sums, rule, exponents = arguments
        v, B = _Eight(builder), builder
        fields = [B.and_(B.lshr(rule, ir.Constant(WORD, 8 * n)), ir.Constant(WORD, 255)) for n in range(4)]
        digits, kept, _, minus_zero = (B.trunc(field, HALF) for field in fields)
        zero = v.splat(B.sub(ir.Constant(HALF, 0), minus_zero))
        c = v.load(sums)
        size = B.and_(c, v.all(0x7FFFFF))
        exponent = B.and_(B.lshr(c, v.all(23)), v.all(255))
        bad = B.icmp_unsigned("==", exponent, v.all(255))
        normal = B.icmp_unsigned("!=", exponent, v.all(0))
        size = B.select(normal, B.or_(size, v.all(1 << 23)), size)
        exponent = B.sub(B.select(normal, exponent, v.all(1)), v.all(127))
        none = B.icmp_unsigned("==", size, v.all(0))
        exponent = B.select(none, zero, exponent)
        size = B.select(B.icmp_signed("<", c, v.all(0)), B.sub(v.all(0), size), size)

        def product(k: Any) -> tuple[Any, Any]:
            of_a = B.add(a, B.mul(k, ir.Constant(WORD, 4)))
            of_b = B.add(b, B.mul(k, ir.Constant(WORD, 32)))

            def one(at: Any) -> Any:
                return v.splat(B.load(B.inttoptr(at, HALF.as_pointer())))

            value = B.mul(one(of_a), v.load(of_b))
            found = B.add(one(B.add(of_a, exponents)), v.load(B.add(of_b, exponents)))
            return value, B.select(B.icmp_unsigned("==", value, v.all(0)), zero, found)

        top_at = cgutils.alloca_once_value(B, exponent)
        with cgutils.for_range(B, count) as loop:
            B.store(v.larger(B.load(top_at), product(loop.index)[1]), top_at)
        top = B.load(top_at)
        first = _aligned(v, size, B.sub(kept, ir.Constant(HALF, 23)), B.sub(top, exponent))
        total_at = cgutils.alloca_once_value(B, B.sext(first, _L8))
        left = B.sub(kept, digits)
        with cgutils.for_range(B, count) as loop:
            value, found = product(loop.index)
            value = _aligned(v, value, left, B.sub(top, found))
            B.store(B.add(B.load(total_at), B.sext(value, _L8)), total_at)
        total = B.load(total_at)
        unit = B.add(B.sext(B.sub(top, v.splat(kept)), _L8), v.all(1023, _L8))
        scale = B.bitcast(B.shl(unit, v.all(52, _L8)), _D8)
        bits = B.bitcast(B.fmul(B.sitofp(total, _D8), scale), _L8)
        of_exponent = B.and_(B.lshr(bits, v.all(52, _L8)), v.all(2047, _L8))
        is_zero = B.icmp_unsigned("==", total, v.all(0, _L8))
        outside = B.or_(
            B.icmp_unsigned("<", of_exponent, v.all(1023 - 126, _L8)),
            B.icmp_unsigned(">", of_exponent, v.all(1023 + 127, _L8)),
        )
        bad = B.or_(bad, B.and_(outside, B.not_(is_zero)))
        cut = v.splat(fields[2])
        bits = B.shl(B.lshr(bits, cut), cut)
        single = B.fptrunc(B.bitcast(bits, _D8), ir.VectorType(ir.FloatType(), 8))
        fails = v.some(bad)
        with B.if_then(B.not_(fails)):
            v.store(sums, B.bitcast(single, _V8))
        return B.zext(fails, WORD)

    return types.int64(*[types.int64] * 6), generate


assert ROW_BYTES == 128  # a register's 32 words, as they are loaded here

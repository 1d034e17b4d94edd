"""How a vector operation's code is built, and the table of builders.

LLVM code for 32 lanes: rows loaded with their sign, magnitude or complement, results and predicates
stored under a mask.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from llvmlite import ir

from smlab.sim.compiled.jit import is_for_arm
from smlab.sim.isa import memory_layout
from smlab.sim.isa.meanings import rounding

Result = tuple[Any, Any, Any]
"""The result vector and two masks of lanes; None for what there is not."""
Builder = Callable[..., Any]
BUILDERS: Final[dict[str, Builder]] = {}
ROUNDED: Final = (
    *("fadd", "fmul", "fmul.scaled", "ffma", "hfma.f32", "bfma.f32"),
    *("dadd", "dmul", "dfma", "d2f", "fadd2", "fmul2", "ffma2"),
)
"""Operations that take a rounding mode from the processor's."""


def builds(*names: str) -> Callable[[Builder], Builder]:
    def keep(function: Builder) -> Builder:
        for name in names:
            BUILDERS[name] = function
        return function

    return keep


BUILDERS["mov"] = BUILDERS["mov64"] = lambda v, a: a
BUILDERS["iadd3"] = lambda v, a, b, c: v.builder.add(v.builder.add(a, b), c)
BUILDERS["imad"] = lambda v, a, b, c: v.builder.add(v.builder.mul(a, b), c)


WORD, HALF = ir.IntType(64), ir.IntType(32)
BITS = ir.VectorType(ir.IntType(1), 32)
V32, V64 = ir.VectorType(HALF, 32), ir.VectorType(WORD, 32)
F32, F64 = ir.VectorType(ir.FloatType(), 32), ir.VectorType(ir.DoubleType(), 32)
_ROUNDING_SHIFT: Final = 10


def store_lanes(builder: Any, at: Any, value: Any, lanes: Any) -> None:
    """Put the ``lanes`` (a mask of 32 bits) of a vector of words into the row at an address; the others stay.

    Where all take part the row is not read: a warp's row is often in no cache near by, and a store need not
    wait for it.
    """
    place = builder.inttoptr(at, V32.as_pointer())
    all_take_part = builder.icmp_unsigned("==", lanes, ir.Constant(HALF, -1))
    with builder.if_else(all_take_part, likely=True) as (all_of, some):
        with all_of:
            builder.store(value, place).align = 4
        with some:
            before = builder.load(place)
            before.align = 4
            kept = builder.select(builder.bitcast(lanes, BITS), value, before)
            builder.store(kept, place).align = 4


class Lanes:
    """Builds the code of one micro-operation: the builder, its sources, predicates and numbers. ``layout``:
    the fields of its kind; it can read no others."""

    def __init__(self, builder: Any, op: Any, warp: Any, layout: Mapping[str, int]) -> None:
        self.builder, self.op, self.warp, self.layout = builder, op, warp, layout

    def field(self, name: str) -> Any:
        """A word of the micro-operation."""
        at = self.builder.add(self.op, ir.Constant(WORD, 8 * self.layout[name]))
        return self.builder.load(self.builder.inttoptr(at, WORD.as_pointer()))

    def half(self, name: str) -> Any:
        return self.builder.trunc(self.field(name), HALF)

    def splat(self, value: Any, kind: Any = V32) -> Any:
        one = self.builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(HALF, 0))
        return self.builder.shuffle_vector(one, ir.Constant(kind, ir.Undefined), ir.Constant(V32, [0] * 32))

    def all(self, value: float, kind: Any = V32) -> Any:
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
        high = self.builder.zext(self.changed(name, self.row(name, memory_layout.ROW_BYTES), add=False), V64)
        return self.builder.or_(low, self.builder.shl(high, self.all(32, V64)))

    def mask_of(self, name: str) -> Any:
        """A predicate read, as a mask of lanes."""
        at = self.builder.add(self.field(name), ir.Constant(WORD, memory_layout.PREDICATES))
        at = self.builder.add(self.warp, self.builder.mul(at, ir.Constant(WORD, 8)))
        value = self.builder.load(self.builder.inttoptr(at, WORD.as_pointer()))
        return self.builder.trunc(self.builder.xor(value, self.field(f"{name}_xor")), HALF)

    def bits(self, name: str) -> Any:
        return self.builder.bitcast(self.mask_of(name), BITS)

    def mask(self, bits: Any) -> Any:
        return self.builder.bitcast(bits, HALF)

    def store_row(self, at: Any, value: Any, lanes: Any) -> None:
        store_lanes(self.builder, at, value, lanes)

    def store_mask(self, name: str, value: Any, lanes: Any) -> None:
        at = self.builder.add(self.field(name), ir.Constant(WORD, memory_layout.PREDICATES))
        at = self.builder.add(self.warp, self.builder.mul(at, ir.Constant(WORD, 8)))
        pointer = self.builder.inttoptr(at, WORD.as_pointer())
        old = self.builder.trunc(self.builder.load(pointer), HALF)
        kept = self.builder.or_(
            self.builder.and_(old, self.builder.not_(lanes)), self.builder.and_(value, lanes)
        )
        self.builder.store(self.builder.zext(kept, WORD), pointer)

    # What several operations need

    def flag(self, name: str, bit: int = 1) -> Any:
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
            b.fcmp_unordered("uno", value, value), self.all(rounding.NAN32), b.bitcast(value, V32)
        )

    def bits64(self, value: Any) -> Any:
        b = self.builder
        return b.select(
            b.fcmp_unordered("uno", value, value), self.all(rounding.NAN64, V64), b.bitcast(value, V64)
        )

    def rounding(self, mode: Any) -> None:
        """Set the processor's rounding mode; what is loaded after it is computed with it."""
        function = self.builder.module.globals.get("fesetround")
        function = function or ir.Function(self.builder.module, ir.FunctionType(HALF, [HALF]), "fesetround")
        if is_for_arm():
            swapped = self.builder.and_(self.builder.sub(ir.Constant(HALF, 3), mode), ir.Constant(HALF, 3))
            near = self.builder.icmp_unsigned("==", mode, ir.Constant(HALF, 0))
            chop = self.builder.icmp_unsigned("==", mode, ir.Constant(HALF, 3))
            mode = self.builder.select(self.builder.or_(near, chop), mode, swapped)
            mode = self.builder.shl(mode, ir.Constant(HALF, 22))
        else:
            mode = self.builder.shl(mode, ir.Constant(HALF, _ROUNDING_SHIFT))
        self.builder.call(function, [mode])

    def mode(self) -> Any:
        return self.half("rounding")

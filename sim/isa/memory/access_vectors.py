"""Memory accesses of 32 lanes at a time, in LLVM: addresses and their shape, and what is moved.

Nothing here tests bounds but `all_inside`: whoever calls the others has tested them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from llvmlite import ir
from numba import types

from smlab.sim.compiled.jit import inlined, intrinsic, lowest_bit
from smlab.sim.isa.memory_layout import ADDRESSES, ROW_BYTES
from smlab.sim.isa.vectors.llvm_lanes import BITS, HALF, V32, V64, WORD, store_lanes
from smlab.sim.isa.vectors.word_access import FULL, I_INDEX_SHIFT, I_OFFSET_BYTES, get64

FLAG: Final = ir.IntType(1)
_LANES: Final = list(range(32))
_SUFFIX: Final = {
    HALF: "i32",
    WORD: "i64",
    ir.IntType(8): "i8",
    ir.IntType(16): "i16",
}


class LaneRow:
    """Builds the code of one access."""

    def __init__(self, builder: Any) -> None:
        self.b = builder

    def all(self, value: int, kind: Any) -> Any:
        return ir.Constant(kind, [value] * 32)

    def lanes(self, step: int, kind: Any) -> Any:
        return ir.Constant(kind, [step * lane for lane in _LANES])

    def splat(self, value: Any, kind: Any) -> Any:
        one = self.b.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(HALF, 0))
        return self.b.shuffle_vector(one, ir.Constant(kind, ir.Undefined), ir.Constant(V32, [0] * 32))

    def bits(self, lanes: Any) -> Any:
        return self.b.bitcast(self.b.trunc(lanes, HALF), BITS)

    def load(self, at: Any, kind: Any = V32, align: int = 4) -> Any:
        loaded = self.b.load(self.b.inttoptr(at, kind.as_pointer()))
        loaded.align = align
        return loaded

    def word(self, base: Any, word: int) -> Any:
        """A word of 64 bits of what begins at ``base``."""
        return self.load(self.b.add(base, ir.Constant(WORD, 8 * word)), WORD, 8)

    def store(self, value: Any, at: Any, align: int = 4) -> None:
        self.b.store(value, self.b.inttoptr(at, value.type.as_pointer())).align = align

    def keep(self, at: Any, value: Any, lanes: Any) -> None:
        """Put a row's lanes; the others stay."""
        store_lanes(self.b, at, value, self.b.trunc(lanes, HALF))

    def addresses(self, warp: Any) -> Any:
        return self.load(self.b.add(warp, ir.Constant(WORD, 8 * ADDRESSES)), V64, 8)

    def pointers(self, places: Any, element: Any) -> Any:
        return self.b.inttoptr(places, ir.VectorType(element.as_pointer(), 32))

    def call(self, name: str, result: Any, *arguments: Any) -> Any:
        function = self.b.module.globals.get(name)
        shape = ir.FunctionType(result, [a.type for a in arguments])
        function = function or ir.Function(self.b.module, shape, name)
        return self.b.call(function, arguments)

    def gathered(self, places: Any, lanes: Any, kind: Any = V32) -> Any:
        suffix, size = _SUFFIX[kind.element], kind.element.width // 8
        return self.call(
            f"llvm.masked.gather.v32{suffix}.v32p0",
            kind,
            self.pointers(places, kind.element),
            ir.Constant(HALF, min(size, 4)),
            self.bits(lanes),
            ir.Constant(kind, ir.Undefined),
        )

    def scattered(self, value: Any, places: Any, lanes: Any) -> None:
        """In the order of lanes: of two with one place the higher one stays."""
        suffix = _SUFFIX[value.type.element]
        self.call(
            f"llvm.masked.scatter.v32{suffix}.v32p0",
            ir.VoidType(),
            value,
            self.pointers(places, value.type.element),
            ir.Constant(HALF, 4),
            self.bits(lanes),
        )

    def masked(self, place: Any, lanes: Any, kind: Any, other: Any) -> Any:
        """Consecutive elements in memory; those of lanes that take no part are not touched."""
        suffix, size = _SUFFIX[kind.element], kind.element.width // 8
        return self.call(
            f"llvm.masked.load.v32{suffix}.p0",
            kind,
            self.b.inttoptr(place, kind.as_pointer()),
            ir.Constant(HALF, min(size, 4)),
            self.bits(lanes),
            other,
        )

    def put_masked(self, value: Any, place: Any, lanes: Any) -> None:
        suffix, size = _SUFFIX[value.type.element], value.type.element.width // 8
        self.call(
            f"llvm.masked.store.v32{suffix}.p0",
            ir.VoidType(),
            value,
            self.b.inttoptr(place, value.type.as_pointer()),
            ir.Constant(HALF, min(size, 4)),
            self.bits(lanes),
        )

    def halves(self, value: Any) -> tuple[Any, Any]:
        return self.b.trunc(value, V32), self.b.trunc(self.b.lshr(value, self.all(32, V64)), V32)

    def whole(self, low: Any, high: Any) -> Any:
        high = self.b.shl(self.b.zext(high, V64), self.all(32, V64))
        return self.b.or_(self.b.zext(low, V64), high)


def builds(count: int, gives: bool = False) -> Callable[[Callable[..., Any]], Any]:
    """Make an intrinsic of ``count`` int64 arguments from a function that builds its code."""

    def make(build: Callable[..., Any]) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            made = build(LaneRow(builder), *arguments)
            return builder.zext(made, WORD) if gives else context.get_dummy_value()

        signature = (types.int64 if gives else types.none)(*[types.int64] * count)
        names = ", ".join(f"a{n}" for n in range(count))
        scope = {"signature": signature, "generate": generate}
        text = f"def {build.__name__}(typing_context, {names}):\n    return signature, generate\n"
        exec(text, scope)  # an intrinsic's arity is that of its Python function
        return intrinsic(scope[build.__name__])

    return make


def _steady(r: LaneRow, moved: Any, lanes: Any) -> Any:
    """Whether the lanes that take part have all the same number."""
    first = r.call("llvm.cttz.i64", WORD, lanes, ir.Constant(FLAG, 0))
    first = r.b.and_(r.b.trunc(first, HALF), ir.Constant(HALF, 31))
    kind = moved.type
    same = r.b.icmp_unsigned("==", moved, r.splat(r.b.extract_element(moved, first), kind))
    odd = r.b.and_(r.b.not_(r.b.bitcast(same, HALF)), r.b.trunc(lanes, HALF))
    return r.b.icmp_unsigned("==", odd, ir.Constant(HALF, 0))


def _kept(r: LaneRow, warp: Any, addresses: Any) -> None:
    r.store(addresses, r.b.add(warp, ir.Constant(WORD, 8 * ADDRESSES)), 8)


@builds(6, gives=True)
def spread_short(r: LaneRow, op: Any, warp: Any, a: Any, b: Any, lanes: Any, width: Any) -> Any:
    """Keep the addresses of 32 bits, ``(a << shift) + b + offset`` with shift and offset of the
    micro-operation; whether the lanes that take part ask for consecutive places."""
    shift, offset = (r.splat(r.b.trunc(r.word(op, at), HALF), V32) for at in (I_INDEX_SHIFT, I_OFFSET_BYTES))
    address = r.b.add(r.b.add(r.b.shl(r.load(a), shift), r.load(b)), offset)
    _kept(r, warp, r.b.zext(address, V64))
    step = r.b.mul(r.lanes(1, V32), r.splat(r.b.trunc(width, HALF), V32))
    return _steady(r, r.b.sub(address, step), lanes)


def _spread(wide: bool) -> Callable[..., Any]:
    def build(r: LaneRow, warp: Any, a: Any, added: Any, lanes: Any, width: Any) -> Any:
        address = r.b.zext(r.load(a), V64)
        if wide:
            address = r.whole(r.load(a), r.load(r.b.add(a, ir.Constant(WORD, ROW_BYTES))))
        address = r.b.add(address, r.splat(added, V64))
        _kept(r, warp, address)
        step = r.b.mul(r.lanes(1, V32), r.splat(r.b.trunc(width, HALF), V32))
        return _steady(r, r.b.sub(address, r.b.zext(step, V64)), lanes)

    build.__name__ = "spread_wide" if wide else "spread_narrow"
    return build


spread_wide = builds(5, gives=True)(_spread(True))
"""The same for addresses in a pair of registers, and a number added to all."""
spread_narrow = builds(5, gives=True)(_spread(False))
"""The same for a register of 32 bits without a sign."""


@builds(5, gives=True)
def all_inside(r: LaneRow, warp: Any, lanes: Any, low: Any, room: Any, width: Any) -> Any:
    """Whether the addresses of all lanes that take part lie whole in ``room`` bytes from ``low`` on, and on
    multiples of the width."""
    address = r.addresses(warp)
    last = r.b.sub(room, width)
    fine = r.b.icmp_unsigned("<=", r.b.sub(address, r.splat(low, V64)), r.splat(last, V64))
    odd = r.b.and_(address, r.splat(r.b.sub(width, ir.Constant(WORD, 1)), V64))
    fine = r.b.and_(fine, r.b.icmp_unsigned("==", odd, r.all(0, V64)))
    left = r.b.and_(r.b.not_(r.b.bitcast(fine, HALF)), r.b.trunc(lanes, HALF))
    left = r.b.icmp_unsigned("==", left, ir.Constant(HALF, 0))
    return r.b.and_(left, r.b.icmp_signed(">=", last, ir.Constant(WORD, 0)))


def _places(r: LaneRow, warp: Any, moved: Any, stride: Any) -> Any:
    """Where the lanes' addresses lie here: ``moved`` further on, and ``stride`` for each lane."""
    step = r.b.mul(r.lanes(1, V32), r.splat(r.b.trunc(stride, HALF), V32))
    return r.b.add(r.b.add(r.addresses(warp), r.splat(moved, V64)), r.b.zext(step, V64))


@builds(5)
def gather_row(r: LaneRow, warp: Any, lanes: Any, moved: Any, stride: Any, to: Any) -> None:
    """Words of the lanes' own places into a row."""
    r.keep(to, r.gathered(_places(r, warp, moved, stride), lanes), lanes)


@builds(5)
def scatter_row(r: LaneRow, warp: Any, lanes: Any, moved: Any, stride: Any, source: Any) -> None:
    r.scattered(r.load(source), _places(r, warp, moved, stride), lanes)


@builds(3)
def load_row(r: LaneRow, place: Any, lanes: Any, to: Any) -> None:
    """Consecutive words into a row; ``place`` is lane 0's, whether it takes part or not."""
    r.keep(to, r.masked(place, lanes, V32, ir.Constant(V32, ir.Undefined)), lanes)


@builds(1, gives=True)
def jumps(r: LaneRow, warp: Any) -> Any:
    """The lanes that ask for another word than the one after that of the lane below them, and the first."""
    unit = r.addresses(warp)
    places = ir.Constant(V32, [0, *range(31)])
    moved = r.b.sub(unit, r.b.shuffle_vector(unit, unit, places))
    scattered = r.b.bitcast(r.b.icmp_unsigned("!=", moved, r.all(4, V64)), HALF)
    return r.b.zext(scattered, WORD)


def _joined(runs: int) -> Callable[..., Any]:
    def build(r: LaneRow, *arguments: Any) -> None:
        places, begins, to = arguments[:runs], arguments[runs:-1], arguments[-1]
        value, none = ir.Constant(V32, ir.Undefined), ir.Constant(WORD, 0)
        for place, begin, end in zip(places, [None, *begins], [*begins, none], strict=True):
            lanes = r.b.not_(end) if begin is None else r.b.and_(begin, r.b.not_(end))
            value = r.masked(place, lanes, V32, value)
        r.store(value, to)

    build.__name__ = f"load_{runs}_runs"
    return build


load_2_runs, load_4_runs = (builds(2 * runs)(_joined(runs)) for runs in (2, 4))
"""Runs of consecutive words into a whole row: where lane 0 would be in each run, from which lane on each run
but the first reaches, as masks, and the row."""


@inlined
def run_place(warp: int, lane: int) -> Any:
    """Lane 0's address if its run were that of another lane, which may be the one behind the last."""
    return get64(warp + 8 * ADDRESSES + 8 * min(lane, 31)) - 4 * lane


@inlined
def load_few_runs(warp: int, starts: int, moved: int, dst: int) -> None:
    """A row of two to four runs of consecutive words, which begin at the lanes ``starts``: rows of a tile
    that is narrower than a warp. A gather takes several times as long."""
    end = 1 << 32
    starts = (starts & (starts - 1)) | end
    second = lowest_bit(starts)
    starts = (starts & (starts - 1)) | end
    third = lowest_bit(starts)
    first = get64(warp + 8 * ADDRESSES) + moved
    if third == 32:
        load_2_runs(first, run_place(warp, second) + moved, FULL << second, dst)
        return
    starts = (starts & (starts - 1)) | end
    fourth = lowest_bit(starts)
    load_4_runs(
        first,
        run_place(warp, second) + moved,
        run_place(warp, third) + moved,
        run_place(warp, fourth) + moved,
        FULL << second,
        FULL << third,
        FULL << fourth,
        dst,
    )


@builds(3)
def store_row(r: LaneRow, place: Any, lanes: Any, source: Any) -> None:
    r.put_masked(r.load(source), place, lanes)


@builds(3)
def load_pair(r: LaneRow, place: Any, lanes: Any, to: Any) -> None:
    low, high = r.halves(r.masked(place, lanes, V64, ir.Constant(V64, ir.Undefined)))
    r.keep(to, low, lanes)
    r.keep(r.b.add(to, ir.Constant(WORD, ROW_BYTES)), high, lanes)


@builds(3)
def store_pair(r: LaneRow, place: Any, lanes: Any, source: Any) -> None:
    high = r.load(r.b.add(source, ir.Constant(WORD, ROW_BYTES)))
    r.put_masked(r.whole(r.load(source), high), place, lanes)


def _short(bits: int, loads: bool, signed: bool = False) -> Callable[..., Any]:
    kind = ir.VectorType(ir.IntType(bits), 32)

    def load(r: LaneRow, place: Any, lanes: Any, to: Any) -> None:
        value = r.masked(place, lanes, kind, ir.Constant(kind, ir.Undefined))
        r.keep(to, (r.b.sext if signed else r.b.zext)(value, V32), lanes)

    def store(r: LaneRow, place: Any, lanes: Any, source: Any) -> None:
        r.put_masked(r.b.trunc(r.load(source), kind), place, lanes)

    build = load if loads else store
    build.__name__ = f"{build.__name__}_{bits}{'s' if signed else ''}"
    return build


load_8, load_16 = (builds(3)(_short(bits, True)) for bits in (8, 16))
load_8s, load_16s = (builds(3)(_short(bits, True, True)) for bits in (8, 16))
store_8, store_16 = (builds(3)(_short(bits, False)) for bits in (8, 16))


def _all_known(r: LaneRow, words: Any) -> Any:
    unknown = r.b.icmp_unsigned("==", words, r.all(0, V32))
    return r.b.icmp_unsigned("==", r.b.bitcast(unknown, HALF), ir.Constant(HALF, 0))


@builds(2, gives=True)
def known_row(r: LaneRow, place: Any, lanes: Any) -> Any:
    """Whether consecutive marks are all set."""
    return _all_known(r, r.masked(place, lanes, V32, r.all(1, V32)))


@builds(2)
def mark_row(r: LaneRow, place: Any, lanes: Any) -> None:
    r.put_masked(r.all(1, V32), place, lanes)


def _marks(r: LaneRow, warp: Any, moved: Any) -> Any:
    words = r.b.and_(r.addresses(warp), r.all(-4, V64))
    return r.b.add(words, r.splat(moved, V64))


@builds(3, gives=True)
def known_lanes(r: LaneRow, warp: Any, lanes: Any, moved: Any) -> Any:
    """Whether the marks of the lanes' own words are all set."""
    marks = r.gathered(_marks(r, warp, moved), lanes)
    return _all_known(r, r.b.select(r.bits(lanes), marks, r.all(1, V32)))


@builds(3)
def mark_lanes(r: LaneRow, warp: Any, lanes: Any, moved: Any) -> None:
    r.scattered(r.all(1, V32), _marks(r, warp, moved), lanes)


@builds(3)
def mark_words(r: LaneRow, place: Any, words: Any, mark: Any) -> None:
    """Put a mark into consecutive bytes, and 255 where there is another one already."""
    kind = ir.VectorType(ir.IntType(8), 32)
    old, mine = r.masked(place, words, kind, r.all(0, kind)), r.splat(r.b.trunc(mark, kind.element), kind)
    free = r.b.or_(r.b.icmp_unsigned("==", old, r.all(0, kind)), r.b.icmp_unsigned("==", old, mine))
    r.put_masked(r.b.select(free, mine, r.all(255, kind)), place, words)


@builds(3)
def put_all(r: LaneRow, at: Any, value: Any, lanes: Any) -> None:
    """One number into a row's lanes."""
    r.keep(at, r.splat(r.b.trunc(value, HALF), V32), lanes)


@builds(4)
def add_row(r: LaneRow, place: Any, lanes: Any, source: Any, to: Any) -> None:
    """Consecutive words of memory, each with a lane's number added; what was there goes into a row."""
    old = r.masked(place, lanes, V32, r.all(0, V32))
    r.put_masked(r.b.add(old, r.load(source)), place, lanes)
    r.keep(to, old, lanes)


@builds(2, gives=True)
def one_place(r: LaneRow, warp: Any, lanes: Any) -> Any:
    """Whether the lanes that take part ask for one place."""
    return _steady(r, r.addresses(warp), lanes)


@builds(2, gives=True)
def summed(r: LaneRow, source: Any, lanes: Any) -> Any:
    """The sum of a row's lanes, modulo 2**32."""
    mine = r.b.select(r.bits(lanes), r.load(source), r.all(0, V32))
    return r.call("llvm.vector.reduce.add.v32i32", HALF, mine)

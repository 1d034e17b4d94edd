"""Passes over the banks of shared memory, in machine code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from llvmlite import ir
from numba.core import cgutils

from smlab.sim.compiled.jit import bits_set, helper, inlined, lowest_bit
from smlab.sim.isa import operation_codes as d
from smlab.sim.isa.memory.access_vectors import LaneRow, builds, one_place
from smlab.sim.isa.memory_layout import ADDRESSES, CONSECUTIVE, LANES
from smlab.sim.isa.vectors.llvm_lanes import HALF, V32, V64, WORD
from smlab.sim.isa.vectors.word_access import (
    FULL,
    I_CODE,
    I_MATRICES,
    I_OPERATION,
    I_WIDTH_BYTES,
    at,
    get64,
)

_BYTE: Final = ir.IntType(8)
_BYTES: Final = ir.VectorType(_BYTE, 32)
_QUARTER: Final = ir.VectorType(_BYTE, 8)


def _turned(r: LaneRow, value: Any, by: int, other: Any | None = None) -> Any:
    """Each lane gets the value of the lane ``by`` below it; the first ones those of the last lanes, or of
    ``other``."""
    first = value if other is None else other
    places = ir.Constant(V32, [lane - by if lane >= by else 64 + lane - by for lane in range(32)])
    return r.b.shuffle_vector(value, first, places)


def _most(merges: bool) -> Callable[..., Any]:
    def build(r: LaneRow, warp: Any, lanes: Any, shift: Any, level: Any) -> Any:
        B, taking = r.b, r.bits(lanes)
        shift, level = B.trunc(shift, HALF), B.trunc(level, HALF)
        unit = B.lshr(B.trunc(r.addresses(warp), V32), r.splat(shift, V32))
        part = B.lshr(r.lanes(1, V32), r.splat(B.sub(ir.Constant(HALF, 7), level), V32))
        groups = B.sub(B.lshr(ir.Constant(HALF, 128), shift), ir.Constant(HALF, 1))
        bank = B.or_(B.and_(unit, r.splat(groups, V32)), B.shl(part, r.all(5, V32)))
        if merges:  # of the lanes that ask for one word in one part of the warp the first one counts
            asked = B.select(taking, B.or_(B.shl(unit, r.all(2, V32)), part), r.all(-1, V32))
            again = None
            for by in range(1, 32):
                same = B.icmp_unsigned("==", asked, _turned(r, asked, by, r.all(-1, V32)))
                again = same if again is None else B.or_(again, same)
            taking = B.and_(taking, B.not_(again))
        alone = ir.Constant(_BYTES, [128 + lane for lane in range(32)])
        bank = B.select(taking, B.trunc(bank, _BYTES), alone)
        count = r.all(1, _BYTES)
        for by in range(1, 32):
            same = B.icmp_unsigned("==", bank, _turned(r, bank, by))
            count = B.sub(count, B.sext(same, _BYTES))
        count = B.select(taking, count, r.all(0, _BYTES))
        quarters = []
        for n in range(4):
            places = ir.Constant(ir.VectorType(HALF, 8), [8 * n + lane for lane in range(8)])
            mine = B.shuffle_vector(count, count, places)
            quarters.append(B.zext(r.call("llvm.vector.reduce.umax.v8i8", _BYTE, mine), HALF))

        def larger(a: Any, b: Any) -> Any:
            return B.select(B.icmp_unsigned(">", a, b), a, b)

        halves = larger(quarters[0], quarters[1]), larger(quarters[2], quarters[3])
        whole, by_halves = larger(*halves), B.add(*halves)
        by_quarters = B.add(B.add(quarters[0], quarters[1]), B.add(quarters[2], quarters[3]))
        at_once = B.icmp_unsigned("==", level, ir.Constant(HALF, 2))
        twice = B.icmp_unsigned("==", level, ir.Constant(HALF, 3))
        return B.select(at_once, whole, B.select(twice, by_halves, by_quarters))

    build.__name__ = "most_words" if merges else "most_lanes"
    return build


most_words = builds(4, gives=True)(_most(True))
"""The most distinct words on one bank (pairs and quadruples on as many banks), by whole warp, halves or
quarters in sum; the third argument is the binary logarithm of the bytes a lane, 2 at least, the fourth is 2,
3 or 4 for whole warp, halves or quarters."""
most_lanes = builds(4, gives=True)(_most(False))
"""The same of lanes."""


@builds(2, gives=True)
def pairs_agree(r: LaneRow, warp: Any, lanes: Any) -> Any:
    """Whether all lanes ask for the place of their neighbour (lane xor 1), or all for that of the next but
    one (lane xor 2); a lane that takes no part agrees with any."""
    B, taking, addresses = r.b, r.bits(lanes), r.addresses(warp)
    agree = None
    for by in (1, 2):
        places = ir.Constant(V32, [lane ^ by for lane in range(32)])
        both = B.and_(taking, B.shuffle_vector(taking, taking, places))
        other = B.shuffle_vector(addresses, addresses, places)
        different = B.and_(both, B.icmp_unsigned("!=", addresses, other))
        all_same = B.icmp_unsigned("==", B.bitcast(different, HALF), ir.Constant(HALF, 0))
        agree = all_same if agree is None else B.or_(agree, all_same)
    return agree


@builds(4, gives=True)
def first_words(r: LaneRow, warp: Any, lanes: Any, shift: Any, level: Any) -> Any:
    """Of the lanes that take part, those that ask for one word of each bank: all put their words into a table
    by bank, and see whose word is there then. Halves or quarters of the warp that go on their own have banks
    of their own, 32 in all."""
    B = r.b
    shift, level = B.trunc(shift, HALF), B.trunc(level, HALF)
    unit = B.lshr(B.trunc(r.addresses(warp), V32), r.splat(shift, V32))
    part = B.lshr(r.lanes(1, V32), r.splat(B.sub(ir.Constant(HALF, 7), level), V32))
    banks = B.lshr(ir.Constant(HALF, 128), shift)
    bank = B.and_(unit, r.splat(B.sub(banks, ir.Constant(HALF, 1)), V32))
    bank = B.add(bank, B.mul(part, r.splat(banks, V32)))
    table = B.ptrtoint(cgutils.alloca_once(B, ir.ArrayType(HALF, 32)), WORD)
    places = B.add(B.shl(B.zext(bank, V64), r.all(2, V64)), r.splat(table, V64))
    r.scattered(unit, places, lanes)
    won = B.bitcast(B.icmp_unsigned("==", r.gathered(places, lanes), unit), HALF)
    return B.and_(lanes, B.zext(won, WORD))


@builds(1, gives=True)
def breaks(r: LaneRow, warp: Any) -> Any:
    """The lanes that ask for another word than the lane below them, and not for the one after that; what it
    says of the first lane means nothing."""
    unit = r.b.lshr(r.b.trunc(r.addresses(warp), V32), r.all(2, V32))
    different = r.b.icmp_unsigned(">", r.b.sub(unit, _turned(r, unit, 1)), r.all(1, V32))
    return r.b.zext(r.b.bitcast(different, HALF), WORD)


@inlined
def word_asked(warp: int, lane: int) -> Any:
    return (get64(warp + 8 * ADDRESSES + 8 * lane) & FULL) >> 2


MOST_RUNS: Final = 8


@helper
def wavefronts_of_runs(warp: int) -> Any:
    """The most distinct words on one bank where all lanes ask for a few runs of consecutive words in
    ascending order, as rows of a tile that is narrower than a warp do; 0 where they do not.

    A run has at most one word on each bank; how many runs have one is counted for all banks at once, in
    binary digits that lie in four words.
    """
    begins = breaks(warp) | 1
    if bits_set(begins) > MOST_RUNS:
        return 0
    one = two = four = eight = 0
    last = -1
    while begins != 0:
        first = word_asked(warp, lowest_bit(begins))
        begins &= begins - 1
        if first <= last:
            return 0
        last = word_asked(warp, min(lowest_bit(begins), 32) - 1)
        run, by = FULL >> (31 - (last - first)), first & 31
        carry = ((run << by) | (run >> (32 - by))) & FULL  # by bank
        one, carry = one ^ carry, one & carry
        two, carry = two ^ carry, two & carry
        four, carry = four ^ carry, four & carry
        eight |= carry
    most, banks = 0, FULL
    for digit in (eight, four, two, one):
        most <<= 1
        if banks & digit != 0:
            banks &= digit
            most += 1
    return most


FEW_WAVEFRONTS: Final = 4
"""With more than so many, comparing all lanes with all is quicker than one word of each bank after the other.
"""


@inlined
def lane_groups(lanes: int, level: int) -> Any:
    """How many parts of the warp (the whole, halves, quarters: 2, 3, 4) have a lane that takes part."""
    parts, size = 0, 128 >> level
    for first in range(0, 32, size):
        parts += (lanes >> first) & (FULL >> (32 - size)) != 0
    return parts


@helper
def wavefronts_of_words(warp: int, lanes: int, shift: int, level: int) -> Any:
    """The most distinct words on one bank, by whole warp, halves or quarters in sum."""
    passes, rest = 0, lanes
    for _ in range(FEW_WAVEFRONTS):
        passes += lane_groups(rest, level)
        rest &= ~first_words(warp, rest, shift, level)
        if rest == 0:
            return passes
    return passes + most_words(warp, rest, shift, level)


@helper
def bank_wavefronts(op: int, warp: int) -> Any:
    """Passes over the banks that the last instruction's addresses need.

    The most distinct words on one bank, or, of an atomic, the most lanes; wide accesses go by halves and
    quarters of the warp, each of which asks for all its words. Wide loads whose lanes agree in pairs take two
    such parts at once.
    """
    lanes, width = at(warp, LANES), at(op, I_WIDTH_BYTES)
    if lanes == 0:
        return 1
    if (
        at(op, I_CODE) == d.LOAD_MATRIX or at(op, I_CODE) == d.STORE_MATRIX
    ):  # each eight lanes' addresses are a matrix
        lanes &= FULL >> (32 - 8 * at(op, I_MATRICES))
    shift = 2 if width <= 4 else 3 if width == 8 else 4
    level = shift
    if shift > 2 and at(op, I_CODE) == d.LOAD and pairs_agree(warp, lanes) != 0:
        level -= 1
    elif at(warp, CONSECUTIVE) != 0:
        return max(1, lane_groups(lanes, level))
    merges = at(op, I_CODE) != d.ATOMIC or at(op, I_OPERATION) == d.COUNT
    if merges and shift == 2 and lanes == FULL:
        passes = wavefronts_of_runs(warp)
        if passes != 0:
            return passes
    if width <= 4 and one_place(warp, lanes) != 0:
        return 1 if merges else bits_set(lanes)
    passes = (
        wavefronts_of_words(warp, lanes, shift, level) if merges else most_lanes(warp, lanes, shift, level)
    )
    return max(1, passes)

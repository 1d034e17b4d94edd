"""Words in memory by address, for machine code: what a micro-operation says and a warp holds."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils

from smlab.sim.compiled.jit import prefetch
from smlab.sim.machine_code import meanings, record, rounding
from smlab.sim.machine_code.lanes import intrinsic
from smlab.sim.machine_code.record import (
    FAULT,
    FAULT_ADDRESS,
    FAULT_LANE,
    PREDICATES,
)
from smlab.sim.source import FAULTS

WORD, HALF, BYTE, SHORT = ir.IntType(64), ir.IntType(32), ir.IntType(8), ir.IntType(16)
FULL = 0xFFFFFFFF
VECTOR_CODES = meanings.VECTOR_CODES
_P = record.PLACE
(I_GUARD, I_GUARD_XOR, I_UNIFORM, I_DST, I_A, I_A_REG, I_B, I_B_REG, I_C, I_C_REG) = (
    _P[n] for n in ("guard", "guard_xor", "uniform", "dst", "a", "a_reg", "b", "b_reg", "c", "c_reg")
)
(I_CODE, I_P, I_P_XOR, I_Q, I_Q_XOR, I_PD, I_QD, I_I, I_J, I_K, I_WIDTH, I_OFFSET) = (
    _P[n] for n in ("code", "p", "p_xor", "q", "q_xor", "pd", "qd", "i", "j", "k", "width", "offset")
)
I_AHEAD = _P["ahead"]
I_A_AND, I_A_XOR, I_A_ADD = _P["a_and"], _P["a_xor"], _P["a_add"]
I_C_AND, I_C_XOR, I_C_ADD = _P["c_and"], _P["c_xor"], _P["c_add"]
I_B_XOR, I_B_ADD = _P["b_xor"], _P["b_add"]


def _reader(width: Any, extend: str) -> Any:
    @intrinsic
    def read(typing_context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            loaded = builder.load(builder.inttoptr(arguments[0], width.as_pointer()))
            loaded.align = 1
            return loaded if width is WORD else getattr(builder, extend)(loaded, WORD)

        return types.int64(types.int64), generate

    return read


def _writer(width: Any) -> Any:
    @intrinsic
    def write(typing_context: Any, address: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            value = arguments[1] if width is WORD else builder.trunc(arguments[1], width)
            builder.store(value, builder.inttoptr(arguments[0], width.as_pointer())).align = 1
            return context.get_dummy_value()

        return types.none(types.int64, types.int64), generate

    return write


get8, get16, get32, get64 = (_reader(w, "zext") for w in (BYTE, SHORT, HALF, WORD))
get8s, get16s, get32s = (_reader(w, "sext") for w in (BYTE, SHORT, HALF))
put8, put16, put32, put64 = (_writer(w) for w in (BYTE, SHORT, HALF, WORD))


@intrinsic
def ones(typing_context: Any, mask: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.int64), generate


@intrinsic
def lowest(typing_context: Any, mask: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.int64), generate


@intrinsic
def clear(typing_context: Any, address: Any, size: Any) -> Any:
    """Set ``size`` bytes at an address to zero."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        cgutils.memset(builder, builder.inttoptr(arguments[0], BYTE.as_pointer()), arguments[1], 0)
        return context.get_dummy_value()

    return types.none(types.int64, types.int64), generate


@intrinsic
def add_singles(typing_context: Any, a: Any, b: Any) -> Any:
    """The sum of two singles, as bits."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FloatType()
        x, y = (builder.bitcast(builder.trunc(v, HALF), kind) for v in arguments)
        total = builder.fadd(x, y)
        bits = builder.bitcast(total, HALF)
        nan = ir.Constant(HALF, rounding.NAN32)
        bits = builder.select(builder.fcmp_unordered("uno", total, total), nan, bits)
        return builder.zext(bits, WORD)

    return types.int64(types.int64, types.int64), generate


@intrinsic
def add_doubles(typing_context: Any, a: Any, b: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.DoubleType()
        x, y = (builder.bitcast(v, kind) for v in arguments)
        total = builder.fadd(x, y)
        nan = ir.Constant(WORD, rounding.NAN64)
        return builder.select(builder.fcmp_unordered("uno", total, total), nan, builder.bitcast(total, WORD))

    return types.int64(types.int64, types.int64), generate


def help(function: Any) -> Any:
    return njit(nogil=True, error_model="numpy")(function)


def inlined(function: Any) -> Any:
    """The same, but put into the code of each caller."""
    return njit(nogil=True, error_model="numpy", forceinline=True)(function)


@inlined
def at(base: int, word: int) -> Any:
    return get64(base + 8 * word)


@inlined
def put(base: int, word: int, value: int) -> None:
    put64(base + 8 * word, value)


@help
def predicate(op: int, warp: int, place: int, flip: int) -> Any:
    return at(warp, PREDICATES + at(op, place)) ^ at(op, flip)


@help
def set_predicate(op: int, warp: int, place: int, value: int, lanes: int) -> None:
    word = PREDICATES + at(op, place)
    put(warp, word, (at(warp, word) & ~lanes) | (value & lanes))


@help
def row_of(op: int, warp: int, name: int) -> Any:
    """The address of a source's row; its ``_reg`` word follows."""
    return at(op, name) + (warp & at(op, name + 1))


@help
def word_of(op: int, warp: int, name: int, lane: int) -> Any:
    value = get32(row_of(op, warp, name) + 4 * lane)
    return (((value & at(op, name + 2)) ^ at(op, name + 3)) + at(op, name + 4)) & 0xFFFFFFFF


@inlined
def prefetch_rows(op: int, warp: int) -> None:
    """Ask for the rows that a micro-operation reads and writes."""
    for row in (row_of(op, warp, I_A), row_of(op, warp, I_B), row_of(op, warp, I_C), warp + at(op, I_DST)):
        prefetch(row)
        prefetch(row + 64)


@help
def fault(warp: int, kind: int, lane: int, address: int) -> Any:
    put(warp, FAULT, kind)
    put(warp, FAULT_LANE, lane)
    put(warp, FAULT_ADDRESS, address)
    return FAULTS

"""Words in memory by address, for machine code: what a micro-operation says and a warp holds."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from smlab.sim.compiled.jit import helper, inlined, intrinsic, prefetch, read_at, write_at
from smlab.sim.instruction_source import FAULTS
from smlab.sim.isa import memory_layout
from smlab.sim.isa.meanings import rounding, vector_meanings
from smlab.sim.isa.memory_layout import (
    FAULT,
    FAULT_ADDRESS,
    FAULT_LANE,
    PREDICATES,
)

at, put = read_at, write_at

WORD, HALF, BYTE, SHORT = ir.IntType(64), ir.IntType(32), ir.IntType(8), ir.IntType(16)
FULL = 0xFFFFFFFF
at, put = read_at, write_at
VECTOR_CODES = vector_meanings.VECTOR_CODES
_P = memory_layout.PLACE
# The word of each field of a micro-operation (`record.KINDS`): of those that all or many kinds have,
I_CODE = _P["code"]
I_GUARD = _P["guard"]
I_GUARD_XOR = _P["guard_xor"]
I_UNIFORM = _P["uniform"]
I_EARLY_EXECUTION = _P["early_execution"]
I_DST = _P["dst"]
I_A = _P["a"]
I_B = _P["b"]
I_C = _P["c"]
I_PREDICATE_A = _P["predicate_a"]
I_PREDICATE_B = _P["predicate_b"]
I_PREDICATE_C = _P["predicate_c"]
I_PREDICATE_DST = _P["predicate_dst"]
I_PREDICATE_DST_B = _P["predicate_dst_b"]
I_IS_SIGNED = _P["is_signed"]
I_B_IS_SIGNED = _P["b_is_signed"]
# of accesses,
I_SPACE = _P["space"]
I_WIDTH_BYTES = _P["width_bytes"]
I_ADDRESS_FORM = _P["address_form"]
I_INDEX_SHIFT = _P["index_shift"]
I_OFFSET_BYTES = _P["offset_bytes"]
I_SHARED_OFFSET_BYTES = _P["shared_offset_bytes"]
I_BYPASSES_L1 = _P["bypasses_l1"]
I_BANK = _P["bank"]
I_MATRICES = _P["matrices"]
I_TRANSPOSED = _P["transposed"]
# atomics and reductions,
I_OPERATION = _P["operation"]
I_NAN_WINS = _P["nan_wins"]
I_NUMBER_TYPE = _P["number_type"]
I_SWAP_VALUE = _P["swap_value"]
I_SHARED_BASE = _P["shared_base"]
I_DONE_PREDICATE = _P["done_predicate"]
# control,
I_TARGET = _P["target"]
I_WHEN_SPLIT = _P["when_split"]
I_UNANIMOUS = _P["unanimous"]
I_BASE_INSTRUCTION = _P["base_instruction"]
I_BARRIER = _P["barrier"]
I_EXCLUSIVE = _P["exclusive"]
I_CLEARS = _P["clears"]
I_ARRIVES_ONLY = _P["arrives_only"]
I_REDUCES = _P["reduces"]
I_REDUCTION = _P["reduction"]
# exchange between lanes, products of matrices
I_MODE = _P["mode"]
I_IS_64_BIT = _P["is_64_bit"]
I_SPECIAL_REGISTER = _P["special_register"]
I_TRUTH_TABLE = _P["truth_table"]
I_TRUTH_TABLE_B = _P["truth_table_b"]
I_ELEMENT_TYPE = _P["element_type"]
I_K_STEPS = _P["k_steps"]
I_SUM_TYPE = _P["sum_type"]
I_ROW_GROUPS = _P["row_groups"]
I_B_ELEMENT_TYPE = _P["b_element_type"]
I_GROUP = _P["group"]
I_FRACTION_BITS = _P["fraction_bits"]
I_ZERO_EXPONENT = _P["zero_exponent"]
I_STEP = _P["step"]
I_FIRST_SCALES = _P["first_scales"]
I_SECOND_SCALES = _P["second_scales"]
I_SCALE_CHOICE = _P["scale_choice"]
I_SCALE_BLOCKS = _P["scale_blocks"]
I_SCALE_TYPE = _P["scale_type"]
I_SCALES = _P["scales"]
I_PIECE_BYTES = _P["piece_bytes"]
I_A_BY_COLUMNS = _P["a_by_columns"]
I_B_BY_ROWS = _P["b_by_rows"]
I_PREDICATE_SUM = _P["predicate_sum"]
I_COLUMN_GROUPS = _P["column_groups"]
I_A_IN_SHARED = _P["a_in_shared"]
I_A_TURNED = _P["a_turned"]
I_B_TURNED = _P["b_turned"]
I_CLOSES_PRODUCTS = _P["closes_products"]
I_ACTION = _P["action"]
I_ARRIVALS = _P["arrivals"]
I_TRANSACTIONS = _P["transactions"]
I_DROPS = _P["drops"]
I_PHASE_PREDICATE = _P["phase_predicate"]
I_DIMENSIONS = _P["dimensions"]
I_TO_GLOBAL = _P["to_global"]
I_NAMED_ROWS = _P["named_rows"]
I_MULTICAST = _P["multicast"]
I_TO_L2 = _P["to_l2"]
I_IS_REDUCTION = _P["is_reduction"]
I_REMOTE = _P["remote"]
I_SECOND_C = _P["second_c"]
I_SECOND_DST = _P["second_dst"]
I_WORDS_KEPT = _P["words_kept"]
I_IN_HALVES = _P["in_halves"]
I_PRODUCT_DESCRIPTOR = _P["product_descriptor"]
I_FAMILY = _P["family"]
I_LANE_SHAPE = _P["lane_shape"]
I_REGISTERS = _P["registers"]
I_PACKS = _P["packs"]
I_ZEROS = _P["zeros"]


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


def _swapper(width: Any) -> Any:
    @intrinsic
    def swap(typing_context: Any, address: Any, old: Any, new: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            at = builder.inttoptr(arguments[0], width.as_pointer())
            values = [a if width is WORD else builder.trunc(a, width) for a in arguments[1:]]
            done = builder.extract_value(builder.cmpxchg(at, *values, "monotonic", "monotonic"), 1)
            return builder.zext(done, WORD)

        return types.int64(types.int64, types.int64, types.int64), generate

    return swap


swap_if_32, swap_if_64 = _swapper(HALF), _swapper(WORD)
"""Put a number in the place of another one, if that is still there, while other threads do; 1 if it was."""


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


@helper
def predicate(op: int, warp: int, name: int) -> Any:
    """The lanes of a predicate; its ``_xor`` word follows."""
    return at(warp, PREDICATES + at(op, name)) ^ at(op, name + 1)


@helper
def set_predicate(op: int, warp: int, place: int, value: int, lanes: int) -> None:
    word = PREDICATES + at(op, place)
    put(warp, word, (at(warp, word) & ~lanes) | (value & lanes))


@helper
def row_of(op: int, warp: int, name: int) -> Any:
    """The address of a source's row; its ``_reg`` word follows."""
    return at(op, name) + (warp & at(op, name + 1))


@helper
def word_of(op: int, warp: int, name: int, lane: int) -> Any:
    value = get32(row_of(op, warp, name) + 4 * lane)
    return (((value & at(op, name + 2)) ^ at(op, name + 3)) + at(op, name + 4)) & 0xFFFFFFFF


@inlined
def prefetch_rows(op: int, warp: int) -> None:
    """Ask for the rows that a micro-operation reads and writes."""
    for row in (row_of(op, warp, I_A), row_of(op, warp, I_B), row_of(op, warp, I_C), warp + at(op, I_DST)):
        prefetch(row)
        prefetch(row + 64)


@helper
def fault(warp: int, kind: int, lane: int, address: int) -> Any:
    put(warp, FAULT, kind)
    put(warp, FAULT_LANE, lane)
    put(warp, FAULT_ADDRESS, address)
    return FAULTS

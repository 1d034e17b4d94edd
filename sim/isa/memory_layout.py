"""How micro-operations and a warp's state lie in memory: words of 64 bits, at fixed places, for Python and
Numba alike.

`KINDS` is the schema of a micro-operation: for each kind of opcode, the fields that it has and the word where
each lies. The decoder sets fields by these names, and both meanings read them by these names: the plain one
from `MicroOperation.fields`, the compiled one through the constants ``I_NAME`` of `words`. A name is one word
in all kinds; a word may be shared by names of several kinds, never by two of one kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from smlab.sim import instruction_source

OPERAND_PARTS: Final = ("", "_reg", "_and", "_xor", "_add")
"""A source is five words: an address, or an offset in the warp if ``_reg`` is -1; its value is
``((row & and) ^ xor) + add``, on each 32-bit word."""
PREDICATE_PARTS: Final = ("", "_xor")
"""A predicate that is read is two words: its place, and what its lanes are exclusive-ored with."""

_COMMON: Final = {"code": 0, "guard": 1, "guard_xor": 2, "uniform": 3, "early_execution": 31}
"""What every micro-operation has. ``guard``: the predicate under which it is executed; ``uniform``: by all
lanes, whatever the active mask; ``ahead``: what may be done before it is issued (module `ahead`)."""
_SOURCES: Final = {"a": 5, "b": 10, "c": 15}
_PREDICATES: Final = {"predicate_a": 20, "predicate_b": 22, "predicate_c": 29, "predicate_sum": 32}
_PLAIN: Final = {
    # results: the byte offset in the warp of the first row; the places of predicates
    "dst": 4,
    "predicate_dst": 24,
    "predicate_dst_b": 25,
    # numbers: how a result is computed
    "rounding": 26,  # mode, as the module `rounding` numbers them
    "flush": 28,  # subnormals to zero
    "saturate": 29,  # to [0, 1]
    "half_choice": 30,  # a bit for each source whose upper half is taken
    "only_positive": 28,  # no result is below 0
    "finite": 29,  # the largest number in place of an infinite one
    "nan_wins": 30,  # of two numbers of which one is none, the result is none
    "power_of_two": 27,  # what a product is multiplied by
    "is_signed": 25,
    "b_is_signed": 24,
    "cut_bits": 27,  # the bits that a short integer lacks of a word's
    "first_bit": 29,  # at which a short integer begins in its register
    "relations": 26,  # LESS, EQUAL, GREATER, UNORDERED: those for which a comparison holds
    "combine": 27,  # how it is combined with a predicate: AND, OR, XOR
    "extends": 29,  # a comparison of high words: where they are equal, `predicate_b` decides
    "sets_one": 30,  # 1.0 for true in place of all ones
    "pair_forms": 27,  # module `halves`: how each source gives two numbers
    "half_flags": 28,  # module `half_meanings`: which halves, saturate, RELU, NaN
    "takes_lesser": 26,
    "above_zero": 26,  # no result is below 0
    "addend": 26,
    "negated": 26,  # a bit for each source that is taken away
    "complemented": 27,  # a bit for each source whose bits are all turned
    "shift": 27,
    "count_limit": 26,  # the highest shift count, where `wrap_mask` is 0
    "wrap_mask": 27,
    "truth_table": 26,
    "truth_table_b": 27,
    "as_shift": 26,  # the highest bit's place as the count of a shift to the left
    "wraps": 26,  # a bit's place modulo 32
    "upper_bytes": 26,
    "sums_bytes": 26,
    # memory
    "index_shift": 24,  # of the register in an address
    "address_form": 27,  # `NARROW`, `WIDE`, `NARROW_INDEX` of the module `codes`
    "space": 28,
    "width_bytes": 29,  # a lane
    "offset_bytes": 30,
    "shared_offset_bytes": 26,
    "bypasses_l1": 34,
    "second_dst": 34,  # where the upper four words of 32 bytes go
    "second_c": 34,  # and where those are that are stored
    "words_kept": 35,  # a bit for each of these eight words; those kept fill registers side by side
    "bank": 26,
    "matrices": 26,
    "transposed": 25,
    # atomics and reductions
    "operation": 26,
    "number_type": 20,
    "swap_value": 22,  # the new value of a compare-and-swap, as a source without changes
    "swap_value_reg": 23,
    "shared_base": 22,  # what is added to a copy's address in shared memory, as a source without changes
    "shared_base_reg": 23,
    "done_predicate": 25,
    # control
    "target": 26,  # the number of an instruction
    "when_split": 27,
    "unanimous": 28,  # taken by all active lanes or by none
    "base_instruction": 26,  # added to an address in a register
    "barrier": 27,  # B0 to B15
    "clears": 28,
    "exclusive": 28,  # lanes with another mask go on on their own
    "arrives_only": 28,
    "reduces": 26,
    "reduction": 27,
    # exchange between lanes
    "mode": 26,
    "is_64_bit": 27,
    "special_register": 26,
    # products of matrices (module `matrix_products`): steps of four registers' columns, groups of eight rows
    "element_type": 26,
    "b_element_type": 20,
    "k_steps": 27,
    "sum_type": 28,
    "row_groups": 29,
    "group": 21,  # of products that are added at once
    "fraction_bits": 22,
    "zero_exponent": 23,
    "step": 30,  # of a product in several instructions
    "a_by_columns": 25,
    "b_by_rows": 24,
    # products with scales of blocks: registers with four scales a lane, and which of them count, as sources
    # without changes; how many scales a row of the first matrix has
    "first_scales": 32,
    "first_scales_reg": 33,
    "second_scales": 34,
    "second_scales_reg": 35,
    "scale_choice": 36,
    "scale_choice_reg": 37,
    "scale_blocks": 30,
    "scale_type": 25,
    # products of a group of four warps (module `group_products`)
    "column_groups": 34,  # of eight columns
    "a_in_shared": 35,
    "a_turned": 36,  # a matrix lies in shared memory column by column of what is multiplied
    "b_turned": 37,
    "joins_products": 38,
    "closes_products": 39,
    # tensor memory (module `tensor_memory`)
    "product_descriptor": 22,  # of a product, as a source without changes
    "product_descriptor_reg": 23,
    "scales": 36,  # uniform registers with the places of the scales of a product, as a source without changes
    "scales_reg": 37,
    "piece_bytes": 29,  # of a row, that a copy brings
    "family": 26,  # of a product's types: the first of those that the opcode may have
    "lane_shape": 26,  # how registers lie in it
    "registers": 27,
    "packs": 28,  # two columns of 16 bits are a register
    "zeros": 29,  # what is stored is no register
    # barriers in memory, and copies of the copy engine (module `asynchronous_units`)
    "action": 34,
    "arrivals": 35,
    "transactions": 36,
    "drops": 37,
    "remote": 39,  # of any block of the cluster
    "in_halves": 26,  # the barrier is what sm_80 has: two words, the second with the phase
    "phase_predicate": 38,
    "dimensions": 34,  # of a tensor map; 0: consecutive bytes
    "to_global": 35,
    "multicast": 36,  # to the blocks of the cluster that `c` has bits for
    "to_l2": 37,  # asked for, and copied nowhere
    "named_rows": 39,  # instead of a box's
    "is_reduction": 38,  # of global memory, by ``operation``; a tensor map has the ``number_type``
}
PLACE: Final = (
    _COMMON
    | {f"{name}{part}": at + n for name, at in _SOURCES.items() for n, part in enumerate(OPERAND_PARTS)}
    | {f"{name}{part}": at + n for name, at in _PREDICATES.items() for n, part in enumerate(PREDICATE_PARTS)}
    | _PLAIN
)
"""The word of each field."""
WORDS: Final = 40
"""What a micro-operation takes: whole cache lines."""


def _kind(*names: str) -> Mapping[str, int]:
    """The fields of a kind: the common ones and these, sources and predicates with all their words."""
    fields = dict(_COMMON)
    for name in names:
        parts = OPERAND_PARTS if name in _SOURCES else PREDICATE_PARTS if name in _PREDICATES else ("",)
        fields |= {name + part: PLACE[name + part] for part in parts}
    if len(set(fields.values())) != len(fields):
        raise ValueError(f"two fields of a kind share a word: {names}")
    return fields


_VECTOR: Final = ("dst", "a", "b", "c")
_ADDRESS: Final = ("a", "b", "space", "address_form", "index_shift", "width_bytes", "offset_bytes")
KINDS: Final[dict[str, Mapping[str, int]]] = {
    # vector operations: module `meanings`
    "arithmetic": _kind(*_VECTOR),
    "carry arithmetic": _kind(
        *_VECTOR, "predicate_a", "predicate_b", "predicate_dst", "predicate_dst_b", "addend", "shift"
    ),
    "64-bit sum": _kind(*_VECTOR, "negated"),
    "64-bit sum with carry": _kind(
        *_VECTOR, "predicate_a", "predicate_dst", "predicate_dst_b", "addend", "complemented"
    ),
    "bitwise logic": _kind(*_VECTOR, "predicate_a", "predicate_dst", "truth_table"),
    "shift": _kind(*_VECTOR, "count_limit", "wrap_mask"),
    "bit field": _kind(*_VECTOR, "is_signed", "as_shift"),
    "bit mask": _kind(*_VECTOR, "wraps"),
    "selection": _kind(*_VECTOR, "predicate_a", "is_signed", "above_zero", "flush", "nan_wins"),
    "comparison": _kind(
        *_VECTOR,
        *("predicate_a", "predicate_b", "predicate_dst", "predicate_dst_b"),
        *("relations", "combine", "extends", "flush", "sets_one"),
    ),
    "minimum or maximum test": _kind(
        *_VECTOR, "predicate_a", "predicate_dst", "predicate_dst_b", "takes_lesser"
    ),
    "floating point": _kind(*_VECTOR, "rounding", "flush", "saturate", "power_of_two"),
    "pairs of singles": _kind(*_VECTOR, "rounding", "flush", "pair_forms"),
    "conversion": _kind(*_VECTOR, "rounding", "is_signed", "cut_bits", "first_bit", "flush"),
    "packing": _kind(*_VECTOR, "rounding", "is_signed", "cut_bits", "only_positive", "finite", "half_choice"),
    "mixed precision": _kind(*_VECTOR, "rounding", "flush", "saturate", "half_choice"),
    "packed arithmetic": _kind(*_VECTOR, "predicate_a", "is_signed", "negated"),
    "half precision": _kind(
        *_VECTOR,
        *("predicate_a", "predicate_dst", "predicate_dst_b", "half_flags", "relations", "combine"),
    ),
    "small floats": _kind(*_VECTOR, "first_bit", "only_positive"),
    "byte arithmetic": _kind(*_VECTOR, "is_signed", "b_is_signed", "upper_bytes"),
    "absolute difference": _kind(*_VECTOR, "is_signed", "sums_bytes"),
    "predicate logic": _kind(
        *("predicate_a", "predicate_b", "predicate_c", "predicate_dst", "predicate_dst_b"),
        *("truth_table", "truth_table_b"),
    ),
    "logic of signs": _kind(*_VECTOR, "predicate_dst", "predicate_dst_b", "truth_table", "truth_table_b"),
    # memory
    "load": _kind("dst", *_ADDRESS, "is_signed", "second_dst", "words_kept"),
    "store": _kind("c", *_ADDRESS, "second_c"),
    "copy": _kind(
        *("c", *_ADDRESS, "shared_offset_bytes", "shared_base", "shared_base_reg"),
        *("predicate_a", "bypasses_l1"),
    ),
    "matrix load": _kind("dst", *_ADDRESS, "matrices", "transposed"),
    "matrix store": _kind("c", *_ADDRESS, "matrices", "transposed"),
    "constant load": _kind("dst", "a", "bank", "width_bytes", "offset_bytes", "is_signed"),
    "atomic": _kind(
        "dst",
        "c",
        *_ADDRESS,
        *("operation", "number_type", "swap_value", "swap_value_reg", "done_predicate"),
    ),
    # control
    "no operation": _kind(),
    "exit": _kind("predicate_a"),
    "branch": _kind("predicate_a", "a", "target", "when_split", "unanimous"),
    "indirect branch": _kind("predicate_a", "a", "base_instruction", "offset_bytes"),
    "convergence barrier": _kind("predicate_a", "dst", "a", "barrier", "clears"),
    "warp barrier": _kind("a", "exclusive"),
    "block barrier": _kind("a", "b", "predicate_a", "arrives_only", "reduces", "reduction"),
    "barrier result": _kind("dst", "predicate_dst"),
    # between lanes
    "shuffle": _kind("dst", "a", "b", "c", "predicate_dst", "mode"),
    "vote": _kind("dst", "predicate_a", "predicate_dst", "mode"),
    "match": _kind("dst", "a", "predicate_dst", "mode", "is_64_bit"),
    "reduction": _kind("dst", "a", "operation", "number_type", "nan_wins"),
    "special register": _kind("dst", "special_register", "width_bytes"),
    "packed predicates": _kind("dst", "a", "b", "mode"),
    "matrix product": _kind(
        *("dst", "a", "b", "c", "element_type", "b_element_type", "k_steps", "sum_type", "row_groups"),
        *("is_signed", "b_is_signed", "group", "fraction_bits", "zero_exponent"),
    ),
    "matrix product with scales": _kind(
        *("dst", "a", "b", "c", "element_type", "b_element_type", "k_steps", "sum_type", "row_groups"),
        *("group", "fraction_bits", "zero_exponent", "scale_blocks", "scale_type"),
        *(
            f"{name}{part}"
            for name in ("first_scales", "second_scales", "scale_choice")
            for part in ("", "_reg")
        ),
    ),
    "product by quads": _kind(
        *("dst", "a", "b", "c", "sum_type", "step", "a_by_columns", "b_by_rows"),
        *("fraction_bits", "zero_exponent"),
    ),
    "transposition": _kind("dst", "a"),
    "group product": _kind(
        *("dst", "a", "b", "c", "element_type", "b_element_type", "k_steps", "sum_type", "row_groups"),
        *("is_signed", "b_is_signed", "group", "fraction_bits", "zero_exponent"),
        *("predicate_sum", "column_groups", "a_in_shared", "a_turned", "b_turned"),
        *("joins_products", "closes_products"),
    ),
    "empty group": _kind("joins_products", "closes_products"),
    "memory barrier": _kind(
        *("dst", "c", *_ADDRESS, "action", "arrivals", "transactions", "drops", "phase_predicate", "remote"),
        "in_halves",
    ),
    "bulk copy": _kind(
        *("a", "b", "c", "dimensions", "to_global", "multicast", "to_l2", "named_rows"),
        *("is_reduction", "operation", "number_type"),
    ),
    "election": _kind("dst", "predicate_dst", "predicate_a"),
    "allocation of tensor memory": _kind("dst", "a", "predicate_dst", "action"),
    "load of tensor memory": _kind("dst", "a", "lane_shape", "registers", "packs", "offset_bytes"),
    "store to tensor memory": _kind("c", "a", "lane_shape", "registers", "packs", "offset_bytes", "zeros"),
    "product in tensor memory": _kind(
        *("a", "b", "c", "product_descriptor", "product_descriptor_reg", "family", "predicate_sum"),
        *("a_in_shared", "joins_products", "scales", "scales_reg", "scale_blocks"),
    ),
    "copy to tensor memory": _kind("a", "b", "lane_shape", "piece_bytes", "offset_bytes", "joins_products"),
    "arrival behind products": _kind("a"),
}
"""The fields of each kind of micro-operation, and the word of each."""

# The words of a warp. The first ones are those that the engines know (`smlab.sim.instruction_source`).
PC: Final = instruction_source.PC  # number of the next instruction
LANES: Final = instruction_source.LANES
PASSES: Final = instruction_source.PASSES
CONSECUTIVE: Final = instruction_source.CONSECUTIVE
ADDRESSES: Final = instruction_source.ADDRESSES
BARRIER: Final = instruction_source.BARRIER
ACTIVE: Final = 4  # lanes of the running part of the warp
LIVE: Final = 41  # lanes that have not exited
PATHS: Final = 5  # parts that do not run now: rows of PATH_PC, PATH_MASK, PATH_WAIT
WARP_OF_BLOCK: Final = 43
BLOCK: Final = 44  # address of the block's words
CLOCK: Final = 6
MAY_WRITE: Final = 45  # whether it may write to shared memory before the block's next barrier (`ahead`)
SM_ID: Final = 46
FAULT: Final = 7
FAULT_LANE: Final = 48
FAULT_ADDRESS: Final = 49
PATIENCE: Final = 50  # backward branches until another part gets its turn
CLUSTER_COUNT: Final = 42  # how often it has come to the cluster's barrier
LAST_PC: Final = 47  # of the instruction that stopped the warp last
COMPLETE_AT: Final = instruction_source.COMPLETE_AT
INDEX: Final = 52  # of the block in the grid
PREDICATES: Final = 53  # P0 to P6, PT, UP0 to UP6, UPT
PT: Final = 7
UPT: Final = 15
NO_PREDICATE: Final = 16  # written, never read
UNSET: Final = {
    "guard": PT,
    "predicate_a": PT,
    "predicate_b": PT,
    "predicate_c": PT,
    "predicate_sum": PT,
    "predicate_dst": NO_PREDICATE,
    "predicate_dst_b": NO_PREDICATE,
    "done_predicate": NO_PREDICATE,
    "phase_predicate": NO_PREDICATE,
}
"""What fields hold that the decoder does not set; the others are 0."""
BARRIERS: Final = 16  # B0 to B15: for each lane, the lanes that it will wait for; rows of their own
PATH_PC: Final = 71
PATH_MASK: Final = 103
PATH_WAIT: Final = 135
AHEAD: Final = instruction_source.AHEAD
REGISTERS_AT: Final = 184  # a multiple of 8, so that rows begin on cache lines

ROW_BYTES: Final = 128
ZERO_ROWS: Final = 4  # RZ, and what follows it in pairs and quadruples
DUMP_ROWS: Final = 4
UNIFORM_ROWS: Final = 80  # 64 before sm_100

NOT_WAITING: Final = -1
AT_BLOCK_BARRIER: Final = 100  # a part waits at a barrier of the block (`source.BARRIER`); below: for that
# convergence barrier
AT_WARP_SYNC: Final = 1000

# The words of a block.
BLOCK_X: Final = 0
BLOCK_Y: Final = 1
BLOCK_Z: Final = 2
SHARED: Final = 3  # address of its shared memory
SHARED_KNOWN: Final = 4  # address of a word for each word of it: whether it has been written
LOCAL: Final = 5  # address of its local memory
UNKNOWN_AT: Final = 6  # address of the first of these words that may be 0, and of the end of them
UNKNOWN_END: Final = 7
ARRIVED: Final = 8  # by barrier, without timing: warps that came
REDUCED: Final = (
    ARRIVED + instruction_source.BLOCK_BARRIERS
)  # by barrier: what BAR.RED has gathered since it opened last
RESULT: Final = REDUCED + instruction_source.BLOCK_BARRIERS  # and what it had gathered then
WRITERS: Final = RESULT + instruction_source.BLOCK_BARRIERS  # warps with `MAY_WRITE`
COPIES: Final = WRITERS + 1  # on their way, of the copy engine
FAILED_CHECKS: Final = WRITERS + 2  # of barriers in memory, since one of them changed
PRODUCTS_CLOSED: Final = WRITERS + 8  # by warp: groups of products of matrices by a group of warps
SHARED_BASE: Final = PRODUCTS_CLOSED + 32  # its first shared address, its rank from bit 24 on
NUMBER: Final = SHARED_BASE + 1  # in the order of launch, + 1
CLUSTER_ARRIVED: Final = SHARED_BASE + 2  # warps that have come to the cluster's barrier
CLUSTER_EXITED: Final = SHARED_BASE + 3  # warps that have exited, which count as having come
CLUSTER_PHASE: Final = SHARED_BASE + 4  # how often all warps have come
CLUSTER_TIME: Final = SHARED_BASE + 5  # the cycle in which they had for the last time
TENSOR_OWNED: Final = (
    SHARED_BASE + 6
)  # a bit for each `TENSOR_GRANULE` of columns of tensor memory that it has
TENSOR_ROW: Final = SHARED_BASE + 7  # address of its SM's words of tensor memory
BLOCK_WORDS: Final = SHARED_BASE + 8  # whole cache lines

# Tensor memory: a word with the granules that blocks of the SM have, then lane by lane its columns of 32
# bits.
TENSOR_LANES, TENSOR_COLUMNS, TENSOR_GRANULE = 128, 512, 32
TENSOR_AT: Final = 64
TENSOR_BYTES: Final = TENSOR_AT + 4 * TENSOR_LANES * TENSOR_COLUMNS

# The words of a launch.
GRID_X: Final = 0
DIM_X: Final = 3
SHARED_BYTES: Final = 6
SHARED_FIRST: Final = 7
LOCAL_BYTES: Final = 8
ALLOCATIONS: Final = 9
ALLOCATION_TABLE: Final = 10  # address of (first byte, end, address here) a row
BANK_TABLE: Final = 11  # address of (address here, bytes) for banks 0 to 7
TARGET_TABLE: Final = 12
LAST_ALLOCATION: Final = 13
REGISTER_FILE_BYTES: Final = 14
CHECK_SHARED: Final = 15
OPS: Final = 16
LENGTH: Final = 17
BLOCKS_AT: Final = 18
KNOWN_BYTES: Final = 19
EXECUTED: Final = 20
EXECUTED_LANES: Final = 21
PREFETCHES: Final = 22  # whether the next instruction's rows are asked for ahead
BLOCK_MAP: Final = 25  # address of the grid indices of the blocks that run; 0: all, in order
THREADS: Final = 23
WARPS: Final = 24
CLEARED: Final = 26  # address of the ranges of a warp's words (offset, bytes) that begin as zeros
CLEARED_RANGES: Final = 41  # how many there are
RECORDING: Final = 27  # address of the words of a recording, or 0
SCRATCH: Final = 29  # address of what products of matrices are unpacked to
SM_HZ: Final = 28  # turns cycles into the nanoseconds of the global timer
NOTHING: Final = 30  # 0
UNWRITTEN: Final = 31  # address of a row an instruction: reads of shared memory that nobody has written
COPY_TABLE: Final = 32  # address of a block's copies on their way, `MAX_COPIES` rows of `COPY_WORDS` for each
BULK_REQUEST: Final = instruction_source.BULK_REQUEST
COPIES_TIMED: Final = 34  # whether an engine says when a bulk copy is done; else it is at once
MOST_CHECKS: Final = 36  # failed checks of barriers in memory with no change of one, then the block is stuck
MARKS: Final = 37  # address of what a thread writes down of its accesses, or 0
THREADED: Final = 38  # whether other threads execute the launch at the same time
CLUSTER_BLOCKS: Final = 35  # blocks of a cluster
BLOCK_ROOMS: Final = 39  # address of a word for each block in the order of launch: where its words lie
NETWORK_CYCLES: Final = 40  # from one SM of a cluster to another
CLUSTER_BARRIER_CYCLES: Final = 42  # from the last arrival at a cluster's barrier until its blocks know it
TENSOR_MEMORY: Final = 43  # address of the tensor memory of the first SM; 0: the kernel has none
KNOWN_FIRST: Final = 44  # words of shared memory that the system has written when a block starts
MEMORY_PRODUCTS: Final = (
    45  # address of `PRODUCT_WORDS` an instruction: what products in tensor memory multiplied
)
LAUNCH_WORDS: Final = 48
PRODUCT_WORDS: Final = 2  # multiply-adds in sum, and the last instruction descriptor
MAX_COPIES: Final = 256
CLUSTER_PATIENCE: Final = 64
"""How many times as often as at a barrier in memory warps may ask for their cluster's barrier. So what holds
another block up is told there, and a long wait is no deadlock."""
COPY_DONE: Final = instruction_source.COPY_DONE
COPY_LEFT: Final = instruction_source.COPY_LEFT
COPY_BARRIER, COPY_BYTES = 2, 3  # the address of its barrier; bytes, 0 in a free row
COPY_ARRIVALS: Final = 4  # from another block of the cluster; a free row has neither these nor bytes
COPY_NEXT: Final = instruction_source.COPY_NEXT
COPY_ISSUED: Final = instruction_source.COPY_ISSUED
COPY_HALVES: Final = 7  # whether its barrier is two words, as sm_80 has them
COPY_WORDS: Final = 8
UNWRITTEN_WORDS: Final = 4  # words read in sum; block, thread and address of the first
SCALES_OF_PRODUCT: Final = 24 * 4 * 2
"""Words: a significand and an exponent of up to four scales of 16 rows and eight columns."""
SCRATCH_WORDS: Final = (
    32 * 4 * (4 + 2) + 4 * 16 + 4 + max(6 * 16, SCALES_OF_PRODUCT)
)  # two matrices of 16 and 8 by 32 numbers, sums, a row of them, rows of two matrices from shared memory
TENSOR_SCRATCH_WORDS: Final = 12 * 1024
"""What a product in tensor memory keeps beyond that."""

# Faults.
(
    FINE,
    OUT_OF_BOUNDS,
    MISALIGNED,
    DIVERGED_BARRIER,
    BAD_TARGET,
    DEADLOCK,
    LOST,
    NEVER_OPENS,
    BASE_OFFSET,
    NEVER_COMPLETES,
    TOO_MANY_ARRIVALS,
    NO_TENSOR_MAP,
    TOO_MANY_COPIES,
    LONE_PRODUCT,
    CLUSTER_STUCK,
    OUTSIDE_TENSOR_MEMORY,
    COLUMNS_NEVER_FREE,
    COLUMNS_KEPT,
    UNKNOWN_PRODUCT,
) = range(19)


_ZERO_AT: Final = REGISTERS_AT * 8 + BARRIERS * ROW_BYTES
_DUMP_AT: Final = _ZERO_AT + ZERO_ROWS * ROW_BYTES
_UNIFORM_AT: Final = _DUMP_AT + DUMP_ROWS * ROW_BYTES
_REGISTER_AT: Final = _UNIFORM_AT + UNIFORM_ROWS * ROW_BYTES


def barrier_at(number: int) -> int:
    return REGISTERS_AT * 8 + number * ROW_BYTES


def zero_at() -> int:
    return _ZERO_AT


def dump_at() -> int:
    return _DUMP_AT


def uniform_at(number: int) -> int:
    return _UNIFORM_AT + number * ROW_BYTES


def register_at(number: int) -> int:
    return _REGISTER_AT + number * ROW_BYTES


def warp_bytes(registers: int) -> int:
    """The bytes of a warp's state with so many registers a thread."""
    return register_at(registers + 4)

"""How micro-operations and a warp's state lie in memory: words of 64 bits, at fixed places, for Python and
Numba alike."""

from __future__ import annotations

from typing import Final

from smlab.sim import source

FIELDS: Final = (
    "code",
    # guard: the predicate's place and what it is exclusive-ored with; `uniform`: all lanes, whatever the
    # active mask
    "guard",
    "guard_xor",
    "uniform",
    # result: byte offset in the warp of its first row
    "dst",
    # three sources: an address, or an offset if `_reg` is -1; value = ((row & and) ^ xor) + add, on each
    # 32-bit word
    "a",
    "a_reg",
    "a_and",
    "a_xor",
    "a_add",
    "b",
    "b_reg",
    "b_and",
    "b_xor",
    "b_add",
    "c",
    "c_reg",
    "c_and",
    "c_xor",
    "c_add",
    # two predicates read, two written, by place
    "p",
    "p_xor",
    "q",
    "q_xor",
    "pd",
    "qd",
    # numbers that the meaning itself uses
    "i",
    "j",
    "k",
    # memory: bytes a lane
    "width",
    "offset",
    # what may be done before it is issued (`ahead`)
    "ahead",
)
"""The words of a micro-operation, in order."""

PLACE: Final = {name: place for place, name in enumerate(FIELDS)}
WORDS: Final = 32
"""What a micro-operation takes: whole cache lines."""

# The words of a warp. The first ones are those that the engines know (`smlab.sim.source`).
PC: Final = source.PC  # number of the next instruction
LANES: Final = source.LANES
PASSES: Final = source.PASSES
CONSECUTIVE: Final = source.CONSECUTIVE
ADDRESSES: Final = source.ADDRESSES
BARRIER: Final = source.BARRIER
ACTIVE: Final = 4  # lanes of the running part of the warp
LIVE: Final = 41  # lanes that have not exited
PARTS: Final = 5  # parts that do not run now: rows of PART_PC, PART_MASK, PART_WAIT
WARP_OF_BLOCK: Final = 43
BLOCK: Final = 44  # address of the block's words
CLOCK: Final = 6
MAY_WRITE: Final = 45  # whether it may write to shared memory before the block's next barrier (`ahead`)
SM_ID: Final = 46
FAULT: Final = 7
FAULT_LANE: Final = 48
FAULT_ADDRESS: Final = 49
PATIENCE: Final = 50  # backward branches until another part gets its turn
LAST_PC: Final = 47  # of the instruction that stopped the warp last
INDEX: Final = 52  # of the block in the grid
PREDICATES: Final = 53  # P0 to P6, PT, UP0 to UP6, UPT
PT: Final = 7
UPT: Final = 15
NO_PREDICATE: Final = 16  # written, never read
BARRIERS: Final = 16  # B0 to B15: for each lane, the lanes that it will wait for; rows of their own
PART_PC: Final = 71
PART_MASK: Final = 103
PART_WAIT: Final = 135
AHEAD: Final = source.AHEAD
REGISTERS_AT: Final = 184  # a multiple of 8, so that rows begin on cache lines

ROW_BYTES: Final = 128
ZERO_ROWS: Final = 4  # RZ, and what follows it in pairs and quadruples
DUMP_ROWS: Final = 4
UNIFORM_ROWS: Final = 64

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
REDUCED: Final = ARRIVED + source.BLOCK_BARRIERS  # by barrier: what BAR.RED has gathered since it opened last
RESULT: Final = REDUCED + source.BLOCK_BARRIERS  # and what it had gathered then
WRITERS: Final = RESULT + source.BLOCK_BARRIERS  # warps with `MAY_WRITE`
BLOCK_WORDS: Final = WRITERS + 8  # whole cache lines

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
UNIFORM_ROWS_USED: Final = 26  # so many uniform registers begin as zeros
RECORDING: Final = 27  # address of the words of a recording, or 0
SCRATCH: Final = 29  # address of what products of matrices are unpacked to
SM_HZ: Final = 28  # turns cycles into the nanoseconds of the global timer
NOTHING: Final = 30  # 0
LAUNCH_WORDS: Final = 32
SCRATCH_WORDS: Final = 32 * 4 * (4 + 2)

# Faults.
FINE, OUT_OF_BOUNDS, MISALIGNED, UNINITIALISED, DIVERGED_BARRIER, BAD_TARGET, DEADLOCK, LOST, NEVER_OPENS = (
    range(9)
)


def barrier_at(number: int) -> int:
    return REGISTERS_AT * 8 + number * ROW_BYTES


def zero_at() -> int:
    return barrier_at(BARRIERS)


def dump_at() -> int:
    return zero_at() + ZERO_ROWS * ROW_BYTES


def uniform_at(number: int) -> int:
    return dump_at() + DUMP_ROWS * ROW_BYTES + number * ROW_BYTES


def register_at(number: int) -> int:
    return uniform_at(UNIFORM_ROWS) + number * ROW_BYTES


def warp_bytes(registers: int) -> int:
    """The bytes of a warp's state with so many registers a thread."""
    return register_at(registers + 4)

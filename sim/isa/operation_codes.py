"""Numbers of what is not a vector operation, and of spaces, atomics and special registers.

Numbers that both meanings of machine code share.
"""

from __future__ import annotations

from typing import Final

# Codes of what is not a vector operation.
(
    NOP,
    EXIT,
    BRANCH,
    BRANCH_SPLIT,
    BSSY,
    BSYNC,
    BREAK,
    WARPSYNC,
    BARRIER,
    BARRIER_REDUCE,
    JUMP,
    YIELD,
    LOAD,
    STORE,
    ATOMIC,
    LOAD_CONSTANT,
    SHUFFLE,
    VOTE,
    MATCH,
    REDUCE,
    SPECIAL,
    PLOP3,
    R2P,
    P2R,
    BARRIER_RESULT,
    KILL,
    BMOV_OUT,
    BMOV_IN,
    DEPBAR,
    COPY,
    MMA,
    LOAD_MATRIX,
    STORE_MATRIX,
    MMA_QUADS,
    MMA_SCALED,
    TRANSPOSE,
    MMA_GROUP,
    EMPTY_GROUP,
    MEMORY_BARRIER,
    BULK_COPY,
    ELECT,
    BRANCH_ANY,
    READ_CHOSEN,
    AWAIT_PRODUCTS,
    CLUSTER_ARRIVE,
    CLUSTER_WAIT,
    TENSOR_ALLOCATE,
    TENSOR_LOAD,
    TENSOR_STORE,
    TENSOR_PRODUCT,
    TENSOR_COMMIT,
    TENSOR_COPY,
) = range(192, 244)
GLOBAL, SHARED, LOCAL, GENERIC, MIXED, TENSOR = range(6)
SET_BARRIER, ARRIVE_AT_BARRIER, CHECK_PHASE, GIVE_BARRIER_UP, ARRIVE_AFTER_COPIES = range(5)
"""What is done to a barrier in memory."""
NO_COUNT, ONE, FROM_REGISTER, MINUS_REGISTER = range(4)
"""How many arrivals, and bytes of transactions."""
FIND_COLUMNS, KEEP_COLUMNS = range(2)
"""What is done with columns of tensor memory: find and take some, or keep those of a mask alone."""
ALL_ROWS, ROWS_TWICE, ROWS_TWICE_IN_TURN, ROWS_FOUR_TIMES = range(4)
"""What a copy to tensor memory writes: 128 rows, 64 rows to quarters 0 and 1 and to 2 and 3, or to 0 and 2
and to 1 and 3, or 32 rows to each quarter."""
WHOLE_LANES, LOW_HALF, HIGH_HALF, BITS_64, BITS_128, BITS_256 = range(6)
"""How registers of a warp lie in tensor memory (PTX ISA, "tcgen05 data movement shape"): 32 lanes, 16 lanes
for its first or its last 16 threads, or 16 lanes in pieces of 64, 128 or 256 bits."""
ADD, MIN, MAX, AND, OR, XOR, INC, DEC, EXCHANGE, SWAP, SPIN, COUNT, ARRIVE = range(13)
U32, S32, U64, S64, FLOAT32, FLOAT64, HALF_PAIR, BFLOAT16_PAIR = range(8)
EVERYONE, SAME, DIFFERENT, OTHERS, MORE_OTHERS = range(5)
"""What a match tells: each lane the lanes with its value, all whether they have one value, or, with that
value in a uniform register, whether they have not; or, with the value of the first lane of those that take
part, each whether it has another one, or had another one before."""
NARROW, WIDE, NARROW_INDEX = range(3)
"""The forms of an address: of 32 bits, of 64 bits in a pair of registers, or of 64 bits in a uniform pair
with a register of 32 bits added."""
SPECIALS: Final = {
    name: number
    for number, name in enumerate(
        (
            "SR_TID.X",
            "SR_TID.Y",
            "SR_TID.Z",
            "SR_CTAID.X",
            "SR_CTAID.Y",
            "SR_CTAID.Z",
            "SR_LANEID",
            "SR_CLOCKLO",
            "SR_CLOCKHI",
            "SR_VIRTUALSMID",
            "SR_LTMASK",
            "SR_LEMASK",
            "SR_GTMASK",
            "SR_GEMASK",
            "SR_EQMASK",
            "SR_CgaCtaId",
            "SRZ",
            "SR_NTID.X",
            "SR_VIRTID",
            "SR_GLOBALTIMERLO",
            "SR_GLOBALTIMERHI",
            "SR_CTAIDX_UNUSED",
            "SR_SMEMSZ",
            "SR_WARPID",
            "SR_SWINHI",
        )
    )
}
KINDS: Final = {
    **dict.fromkeys((NOP, YIELD, KILL, DEPBAR, AWAIT_PRODUCTS, CLUSTER_ARRIVE, CLUSTER_WAIT), "no operation"),
    EXIT: "exit",
    **dict.fromkeys((BRANCH, BRANCH_SPLIT, BRANCH_ANY), "branch"),
    JUMP: "indirect branch",
    **dict.fromkeys((BSSY, BSYNC, BREAK, BMOV_OUT, BMOV_IN), "convergence barrier"),
    WARPSYNC: "warp barrier",
    **dict.fromkeys((BARRIER, BARRIER_REDUCE), "block barrier"),
    BARRIER_RESULT: "barrier result",
    LOAD: "load",
    STORE: "store",
    ATOMIC: "atomic",
    LOAD_CONSTANT: "constant load",
    COPY: "copy",
    LOAD_MATRIX: "matrix load",
    STORE_MATRIX: "matrix store",
    SHUFFLE: "shuffle",
    VOTE: "vote",
    MATCH: "match",
    REDUCE: "reduction",
    SPECIAL: "special register",
    PLOP3: "predicate logic",
    **dict.fromkeys((R2P, P2R), "packed predicates"),
    MMA: "matrix product",
    MMA_QUADS: "product by quads",
    MMA_SCALED: "matrix product with scales",
    TRANSPOSE: "transposition",
    MMA_GROUP: "group product",
    EMPTY_GROUP: "empty group",
    MEMORY_BARRIER: "memory barrier",
    BULK_COPY: "bulk copy",
    ELECT: "election",
    READ_CHOSEN: "transposition",
    TENSOR_ALLOCATE: "allocation of tensor memory",
    TENSOR_LOAD: "load of tensor memory",
    TENSOR_STORE: "store to tensor memory",
    TENSOR_PRODUCT: "product in tensor memory",
    TENSOR_COMMIT: "arrival behind products",
    TENSOR_COPY: "copy to tensor memory",
}
"""The kind of each code, by the names of `smlab.sim.isa.memory_layout.KINDS`."""


TURNS: Final = 64
"""Backward branches of a part before another part of its warp gets a turn, so that spin locks end."""
SHARED_WINDOW: Final = 0x7F4A
"""The high word of generic addresses in shared memory."""
LOCAL_WINDOW: Final = 0x7F4B
"""And of those in local memory."""
LOCAL_PAD: Final = 4608
"""Bytes between the local memories of warps for the caches: a stride that is no power of two, so that the
same few bytes of each warp's stack lie in all sets, as in caches that hash their addresses."""
LOCAL_AT: Final = 1 << 46
"""Where local memory lies for the caches: each word of a warp's threads side by side."""
BANKS: Final = 8
"""Of constants."""
BANK_BITS: Final = 16
"""An address in a bank of constants has the bank's number from this bit on, for the caches."""
BANK_MASK: Final = (1 << BANK_BITS) - 1
FIRST_ADDRESS: Final = 0x7F00_0000_0000
"""Where global memory begins; nothing lies below."""
ON_REGISTERS: Final = 1
"""What may be executed before it is issued (`smlab.sim.execution.early_execution`): works on its warp's
registers alone, in a pipe."""
SHARED_LOAD: Final = 2
WRITE_FOLLOWS: Final = 4
"""From here on a write to shared memory can be reached before a barrier of the whole block."""
SETTLES: Final = 8
"""Reads shared memory, where asynchronous copies that are back by now have arrived at a barrier before."""

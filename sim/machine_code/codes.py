"""Numbers of what is not a vector operation, and of spaces, atomics and special registers."""

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
) = range(128, 160)
GLOBAL, SHARED, LOCAL, GENERIC, MIXED = 0, 1, 2, 3, 4
ADD, MIN, MAX, AND, OR, XOR, INC, DEC, EXCHANGE, SWAP, SPIN, COUNT = range(12)
U32, S32, U64, S64, FLOAT32, FLOAT64, HALF_PAIR, BRAIN_PAIR = range(8)
EVERYONE, SAME, DIFFERENT = range(3)
"""What a match tells: each lane the lanes with its value, all whether they have one value, or, with that
value in a uniform register, whether they have not."""
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
# Products of matrices: what the matrices hold (`i`), and what their product is summed in (`k`). `j` are steps
# of k, of four registers' columns each; `width` the rows of registers, of eight matrix rows each; `offset` 1
# and 2: the bytes of the first and the second matrix have signs.
HALVES, BRAIN, BYTES = 0, 1, 2
SINGLE_SUM, HALF_SUM, INTEGER_SUM = 0, 1, 2

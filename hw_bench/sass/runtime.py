"""Functions of CUDA's runtime on the device, which no cubin contains, in machine code of our own.

``printf`` becomes a call of ``vprintf(format, arguments)``, whose arguments lie on the caller's stack. On a
GPU the driver's own code writes them into a buffer that the host prints; so does ours, into a buffer whose
place the launch tells in constant bank 0 (`PRINTS_AT`). ``malloc`` takes the next bytes of a heap
(`HEAP_AT`); ``free`` does not give them back.
"""

from __future__ import annotations

from typing import Final

from smlab.hw_bench.sass.instruction import Function, Predicate, SassInstruction
from smlab.hw_bench.sass.listing import split_operands

PRINTS_AT: Final = 0x30
"""Where constant bank 0 has the buffer's address (8 bytes), and in 4 bytes each how many calls it has room
for, the high word of generic addresses in local memory, and a thread's local memory in bytes."""
PRINT_HEADER_BYTES: Final = 16
"""Before the first record, the number of calls."""
PRINT_BYTES: Final = 272
"""A record of a call: the format's address (8 bytes), how many bytes of arguments follow (4), nothing (4),
arguments."""
MAX_ARGUMENT_BYTES: Final = 256
"""32 arguments of 8 bytes, which is CUDA's own limit."""

HEAP_AT: Final = 0xA0
"""Where constant bank 0 has the heap's address (8 bytes) and its size without the header (4 bytes)."""
HEAP_HEADER_BYTES: Final = 16
"""Before the first piece, the bytes that are taken."""
_MALLOC: Final = f"""
    MOV R8, c[0x0][{HEAP_AT:#x}]
    MOV R9, c[0x0][{HEAP_AT + 4:#x}]
    IADD3 R6, R4, 0xf, RZ
    LOP3.LUT R6, R6, 0xfffffff0, RZ, 0xc0, !PT
    ISETP.GT.U32.AND P0, PT, R4, c[0x0][{HEAP_AT + 8:#x}], PT
    @P0 BRA `(.none)
    ISETP.NE.AND P0, PT, R5, RZ, PT
    @P0 BRA `(.none)
    ATOM.E.ADD.STRONG.GPU PT, R11, [R8], R6
    IADD3 R12, R11, R6, RZ
    ISETP.GT.U32.AND P0, PT, R12, c[0x0][{HEAP_AT + 8:#x}], PT
    @P0 BRA `(.none)
    IADD3 R11, R11, {HEAP_HEADER_BYTES:#x}, RZ
    IMAD.WIDE.U32 R4, R11, 0x1, R8
    RET.ABS.NODEC R20 0x0
.none:
    MOV R4, RZ
    MOV R5, RZ
    RET.ABS.NODEC R20 0x0
"""
"""R4 and R5 have the bytes that are asked for, then the address, or 0 where the heap has no room for them."""

_VPRINTF: Final = f"""
    MOV R8, c[0x0][{PRINTS_AT:#x}]
    MOV R9, c[0x0][{PRINTS_AT + 4:#x}]
    MOV R10, 0x1
    ATOM.E.ADD.STRONG.GPU PT, R11, [R8], R10
    ISETP.GE.U32.AND P0, PT, R11, c[0x0][{PRINTS_AT + 8:#x}], PT
    @P0 BRA `(.count)
    IMAD.WIDE.U32 R8, R11, {PRINT_BYTES:#x}, R8
    ST.E.64 [R8+0x10], R4
    IADD3 R12, -R6, c[0x0][{PRINTS_AT + 16:#x}], RZ
    ISETP.LT.U32.AND P0, PT, R12, {MAX_ARGUMENT_BYTES:#x}, PT
    SEL R12, R12, {MAX_ARGUMENT_BYTES:#x}, P0
    ISETP.NE.AND P0, PT, R7, c[0x0][{PRINTS_AT + 12:#x}], PT
    @P0 MOV R12, RZ
    ST.E [R8+0x18], R12
.copy:
    ISETP.EQ.AND P0, PT, R12, RZ, PT
    @P0 BRA `(.count)
    LD.E.64 R14, [R6]
    ST.E.64 [R8+0x20], R14
    IADD3 R6, R6, 0x8, RZ
    IMAD.WIDE.U32 R8, R10, 0x8, R8
    IADD3 R12, R12, -0x8, RZ
    BRA `(.copy)
.count:
    MOV R0, RZ
    MOV R3, RZ
.next:
    LD.E.U8 R8, [R4]
    IMAD.WIDE.U32 R4, R10, 0x1, R4
    ISETP.EQ.AND P0, PT, R8, RZ, PT
    @P0 BRA `(.done)
    ISETP.NE.AND P0, PT, R3, RZ, PT
    @P0 BRA `(.inside)
    ISETP.EQ.AND P0, PT, R8, 0x25, PT
    @P0 MOV R3, 0x1
    @P0 IADD3 R0, R0, 0x1, RZ
    BRA `(.next)
.inside:
    ISETP.EQ.AND P0, PT, R8, 0x2a, PT
    @P0 IADD3 R0, R0, 0x1, RZ
    ISETP.EQ.AND P0, PT, R8, 0x25, PT
    @P0 IADD3 R0, R0, -0x1, RZ
    @P0 MOV R3, RZ
    LOP3.LUT R9, R8, 0x20, RZ, 0xfc, !PT
    ISETP.GE.U32.AND P0, PT, R9, 0x61, PT
    ISETP.LE.U32.AND P0, PT, R9, 0x7a, P0
    ISETP.NE.AND P0, PT, R9, 0x68, P0
    ISETP.NE.AND P0, PT, R9, 0x6a, P0
    ISETP.NE.AND P0, PT, R9, 0x6c, P0
    ISETP.NE.AND P0, PT, R9, 0x74, P0
    ISETP.NE.AND P0, PT, R9, 0x7a, P0
    @P0 MOV R3, RZ
    BRA `(.next)
.done:
    MOV R4, R0
    RET.ABS.NODEC R20 0x0
"""
"""R4 and R5 have the format's address, R6 and R7 the arguments', R20 and R21 the place to come back to; R0,
R3 to R15 and predicates need not be kept. All of the caller's stack behind the arguments' address is copied,
up to the limit. Then the format is read for the result, how many arguments it names: R3 tells whether a
conversion has begun, which ends with a letter other than a length (h, l, j, z, t) or a second percent
sign."""
_FREE: Final = "RET.ABS.NODEC R20 0x0"
_TRAP: Final = "BPT.TRAP 0x1"
_SLOW: Final = ("LD", "ATOM")
_INSTRUCTION_BYTES: Final = 16


def of_runtime(name: str, architecture: str) -> Function:
    """What stands for a function of the runtime: ``printf``'s, ``malloc``, ``free``, which has nothing to do,
    and for any other (a failed ``assert``) a stop of the kernel."""
    code = {"vprintf": _VPRINTF, "malloc": _MALLOC, "free": _FREE}.get(name, _TRAP)
    labels: dict[str, int] = {}
    instructions: list[SassInstruction] = []
    for line in filter(None, map(str.strip, code.splitlines())):
        address = _INSTRUCTION_BYTES * len(instructions)
        if line.endswith(":"):
            labels[line[:-1]] = address
            continue
        guard, text = (line[1:].split(" ", 1)) if line.startswith("@") else ("", line)
        mnemonic, _, operands = text.partition(" ")
        instructions.append(
            SassInstruction(
                address,
                mnemonic,
                split_operands(operands),
                Predicate(guard) if guard else None,
                words=(0, _control(mnemonic)),
            )
        )
    return Function(name, architecture, tuple(instructions), labels)


def _control(mnemonic: str) -> int:
    """A control code's word: 5 cycles, loads set the first scoreboard, which all wait for."""
    scoreboard = 0 if mnemonic.startswith(_SLOW) else 7
    return (1 << 11 | 7 << 8 | scoreboard << 5 | 1 << 4 | 5) << 41

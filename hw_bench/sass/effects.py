"""What an instruction reads and writes: registers, predicates, uniform registers, and the six scoreboards.

Read from the printed operands, so a listing without encodings is enough for all but the scoreboards, which
are in the control code. Registers are named one by one (a 64-bit operand ``R2`` is ``R2`` and ``R3``);
what is always the same (``RZ``, ``PT``) is not named.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from smlab.hw_bench.sass.instruction import Operand, SassInstruction
from smlab.hw_bench.sass.opcodes import SINGLE_PAIRS

SCOREBOARDS: Final = tuple(f"SB{n}" for n in range(6))
"""Names of the scoreboards, as ``DEPBAR`` prints them."""

_NAMED: Final = re.compile(r"(?<![\w.])(U?)R(\d+)((?:\.\w+)*)")
_PREDICATE: Final = re.compile(r"!?(U?P\d)$")
_DEPBAR: Final = re.compile(r"SB(\d)$")
_NO_RESULT_NAMES: Final = (
    "ST STG STS STL RED REDG REDAS BRA BRX BRXU JMP JMX JMXU CALL RET EXIT KILL BAR MEMBAR ERRBAR CCTL CCTLL "
    "NOP DEPBAR LDGDEPBAR LDGSTS BSSY BSYNC BREAK WARPSYNC YIELD NANOSLEEP BPT RPCMOV UTMASTG UTMALDG STSM "
    "UTMAPF ARRIVES FENCE PREEXIT ENDCOLLECTIVE UBLKCP SUST SURED WARPGROUP"
)
_NO_RESULT: Final = frozenset(_NO_RESULT_NAMES.split())
_SETP_NAMES: Final = "ISETP FSETP DSETP HSETP2 PSETP PLOP3 UISETP UFSETP UPLOP3 UPSETP FCHK"
PREDICATES_ONLY: Final = frozenset(_SETP_NAMES.split())
_PREDICATES_AFTER: Final = {
    "IADD3": 2, "UIADD3": 2, "IADD": 2, "UIADD": 2, "LEA": 1, "ULEA": 1, "VOTE": 1, "VOTEU": 1,
    "MATCH": 0, "VIMNMX": 2, "UVIMNMX": 2, "VIMNMX3": 2,
}  # fmt: skip
_SIDE_BY_SIDE: Final = {"F32x2": 2, "F16x4": 2, "BF16x4": 2, "F32x4": 4, "F16x8": 4, "BF16x8": 4}
_ALL_PREDICATES: Final = frozenset(f"P{n}" for n in range(7))
_MEMORY_NAMES: Final = "LD LDG LDS LDL LDC LDSM ST STG STS STL ATOM ATOMG ATOMS RED REDG ULDC LDGSTS LDCU"
_MEMORY: Final = frozenset(_MEMORY_NAMES.split())
_WIDE_RESULT: Final = frozenset(("DADD", "DMUL", "DFMA", "DMNMX", *SINGLE_PAIRS))
_LONG_NAMES: Final = "IADD UIADD IADD3 UIADD3 MOV UMOV SEL USEL IMNMX UIMNMX ISETP UISETP"
_LONG: Final = frozenset(_LONG_NAMES.split())
_CONVERSIONS: Final = frozenset(("F2F", "I2F", "F2I", "FRND", "I2I", "UI2F", "UF2I"))
_TYPE: Final = re.compile(r"[FSU](8|16|32|64)")
_TYPES: Final = {"F64": 2, "S64": 2, "U64": 2}


@dataclass(frozen=True)
class InstructionEffects:
    """Names read and written by one instruction; the guard predicate is among those read.

    ``waits`` are the scoreboards that must be free before it issues; ``sets`` those that it raises,
    ``result_on`` the one of them that is free with its result and ``operands_on`` the one that is free when
    its operands have been read.
    """

    reads: frozenset[str]
    writes: frozenset[str]
    waits: frozenset[str]
    result_on: str | None = None
    operands_on: str | None = None

    @property
    def sets(self) -> frozenset[str]:
        return frozenset(name for name in (self.result_on, self.operands_on) if name is not None)


def effects_of(instruction: SassInstruction) -> InstructionEffects:
    """What an instruction reads and writes. One that can never execute does neither."""
    waits, result_on, operands_on = _scoreboards(instruction)
    if instruction.never_executed:
        return InstructionEffects(frozenset(), frozenset(), waits)
    results, sources = split_operands(instruction)
    writes: set[str] = set()
    for operand in results:
        writes.update(_named(operand, _result_words(instruction)))
    reads: set[str] = set()
    for place, operand in enumerate(sources):
        reads.update(_named(operand, _source_words(instruction, place, len(sources), operand)))
    if instruction.opcode == "R2P":
        writes |= _ALL_PREDICATES
    if instruction.opcode == "P2R":
        reads |= _ALL_PREDICATES
    guard = instruction.predicate
    if guard is not None and not guard.always:
        reads.add(guard.register)
    return InstructionEffects(frozenset(reads), frozenset(writes), waits, result_on, operands_on)


def _scoreboards(instruction: SassInstruction) -> tuple[frozenset[str], str | None, str | None]:
    waits: set[str] = set()
    if instruction.opcode == "DEPBAR":
        waits.update(o.text for o in instruction.operands if _DEPBAR.match(o.text))
    control = instruction.control
    if control is None:
        return frozenset(waits), None, None
    waits.update(SCOREBOARDS[b] for b in range(6) if control.waits_for(b))

    def name(barrier: int | None) -> str | None:
        return None if barrier is None or barrier >= 6 else SCOREBOARDS[barrier]

    return frozenset(waits), name(control.write_barrier), name(control.read_barrier)


def split_operands(instruction: SassInstruction) -> tuple[list[Operand], list[Operand]]:
    """The operands as results and sources. Predicates before the result's register, and for additions with
    a carry behind it, are results."""
    operands = list(instruction.operands)
    opcode = instruction.opcode
    if opcode in _NO_RESULT:
        return [], operands
    if opcode == "R2P":
        return [], operands[1:]
    if opcode in PREDICATES_ONLY:
        count = sum(1 for o in operands[:2] if o.kind == "predicate")
        return operands[:count], operands[count:]
    at = 0
    while at < len(operands) and operands[at].kind == "predicate":
        at += 1
    if at >= len(operands):
        return operands[:1], operands[1:]  # VOTE.ANY P0, P1: no register at all
    if operands[at].kind == "memory":
        return operands[:at], operands[at:]  # ATOMS.CAST.SPIN P0, [R2], R4, R5: a predicate alone
    at += 2 if opcode == "LDG" and "256" in instruction.modifiers else 1
    allowed = _PREDICATES_AFTER.get(opcode, 0)
    while allowed and at < len(operands) and operands[at].kind == "predicate":
        at, allowed = at + 1, allowed - 1
    return operands[:at], operands[at:]


def _named(operand: Operand, words: int) -> set[str]:
    if operand.kind == "predicate":
        match = _PREDICATE.match(operand.text.removesuffix(".reuse"))
        return {match[1]} if match else set()
    names: set[str] = set()
    for match in _NAMED.finditer(operand.text):
        first, count = int(match[2]), words
        if ".64" in match[3]:
            count = max(count, 2)
        names.update(f"{match[1]}R{first + n}" for n in range(count))
    return names


def _result_words(instruction: SassInstruction) -> int:
    opcode, modifiers = instruction.opcode, instruction.modifiers
    if opcode in _MEMORY:
        return access_words(instruction)
    if opcode in _WIDE_RESULT or "WIDE" in modifiers:
        return 2
    if opcode in ("CS2R", "CS2UR"):
        return 1 if "32" in modifiers else 2
    if opcode in _CONVERSIONS:
        return _conversion(instruction)[0]
    if opcode.endswith("GMMA"):
        return _group_words(instruction)
    if "MMA" in opcode:
        singles = "F32" in [m for m in modifiers if m not in ("SF", "SP")][:2]
        return 4 if singles or opcode in ("DMMA", "IMMA") else 2
    return 2 if _is_long(instruction) else 1


def _source_words(instruction: SassInstruction, place: int, count: int, operand: Operand) -> int:
    opcode, modifiers = instruction.opcode, instruction.modifiers
    if opcode.endswith("GMMA"):  # a register of the first matrix, two descriptors, the sum before
        return 4 if place == 0 or "gdesc" in operand.text else _group_words(instruction)
    if operand.kind == "memory":
        return _address_words(instruction)
    if opcode in _MEMORY:
        return access_words(instruction)
    if opcode in SINGLE_PAIRS:
        return 2 if "F32x2" in operand.text else 1
    if opcode in _WIDE_RESULT or opcode == "DSETP" or _is_long(instruction):
        return 2
    if "WIDE" in modifiers:
        return 2 if place == 2 else 1
    if opcode in _CONVERSIONS:
        return _conversion(instruction)[1]
    if "MMA" in opcode:
        return 1 if place > 2 else 2 if place == 1 else 4  # behind the matrices: scales
    if opcode in ("RET", "BRX", "JMX", "CALL"):
        return 2
    return 1


def _group_words(instruction: SassInstruction) -> int:
    """The registers of a lane's part of the result of a product of matrices by a group of warps."""
    shape = instruction.modifiers[0].split("x") if instruction.modifiers else []
    columns = int(shape[1]) if len(shape) == 3 and shape[1].isdigit() else 8
    return columns // (4 if "F16" in instruction.modifiers else 2)


def _is_long(instruction: SassInstruction) -> bool:
    """Whether it works on whole numbers of 64 bits in pairs of registers."""
    return instruction.opcode in _LONG and any(m in ("64", "S64", "U64") for m in instruction.modifiers)


def _address_words(instruction: SassInstruction) -> int:
    """Global addresses are 64 bits wide, also where a listing writes ``[R2]``; all others 32."""
    if instruction.opcode in ("LDS", "STS", "ATOMS", "LDL", "STL", "LDSM", "LDC", "ULDC", "LDCU"):
        return 1
    return 2 if "E" in instruction.modifiers or instruction.opcode in ("RET", "LD", "ST") else 1


def access_words(instruction: SassInstruction) -> int:
    """How many registers a lane's value of a memory access fills."""
    if "128" in instruction.modifiers or "256" in instruction.modifiers:  # the latter in two operands
        return 4
    if any(m in instruction.modifiers for m in ("64", "F64", "S64", "U64")):
        return 2
    for kind, words in _SIDE_BY_SIDE.items():
        if kind in instruction.modifiers:
            return words
    if instruction.opcode == "LDSM":
        return next((int(m) for m in reversed(instruction.modifiers) if m in ("2", "4")), 1)
    return 1


def _conversion(instruction: SassInstruction) -> tuple[int, int]:
    """Words of the result and of the source, by the types that the mnemonic names, result first. One type
    alone is the floating-point side's of a conversion if it is F64, else the integer side's."""
    types = [m for m in instruction.modifiers if _TYPE.fullmatch(m)]
    words = [_TYPES.get(t, 1) for t in types]
    if len(words) >= 2:
        return words[0], words[1]
    if not words:
        return 1, 1
    if instruction.opcode in ("FRND", "F2F", "I2I"):
        return words[0], words[0]
    floats = types[0].startswith("F")
    of_result = floats == (instruction.opcode in ("I2F", "UI2F"))
    return (words[0], 1) if of_result else (1, words[0])

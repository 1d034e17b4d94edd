"""Kinds of opcodes, as an advisor and a reader of profiles tell them apart: by memory space, by pipe."""

from __future__ import annotations

from typing import Final, Literal

from smlab.hw_bench.sass.instruction import SassInstruction

Kind = Literal[
    "global", "local", "shared", "shared-atomic", "constant", "special", "fp64", "int", "fp32", "fp16",
    "tensor", "barrier", "control", "uniform", "conversion", "exchange", "other",
]  # fmt: skip

_OPCODES: Final[dict[Kind, str]] = {
    "global": "LDG STG LD ST ATOM ATOMG RED REDG LDGSTS TEX TLD TLD4 SULD SUST",
    "local": "LDL STL",
    "shared": "LDS STS LDSM STSM",
    "shared-atomic": "ATOMS",
    "constant": "LDC ULDC LDCU",
    "special": "MUFU S2R S2UR CS2R BMOV",
    "fp64": "DADD DMUL DFMA DSETP DMNMX",
    "conversion": "F2F F2I I2F FRND I2I",
    "exchange": "SHFL VOTE VOTEU MATCH REDUX R2UR",
    "barrier": "BAR WARPSYNC DEPBAR MEMBAR ERRBAR",
    "control": "BRA BRX BRXU JMP JMX CALL RET EXIT KILL BSSY BSYNC BREAK YIELD NANOSLEEP NOP BPT",
    "fp32": "FADD FMUL FFMA FMNMX FSEL FSET FSETP FSWZADD FCHK FADD32I FMUL32I FFMA32I",
    "fp16": "HADD2 HMUL2 HFMA2 HSETP2 HSET2 HMNMX2",
}
_BY_OPCODE: Final = {opcode: kind for kind, names in _OPCODES.items() for opcode in names.split()}


_VARIABLE: Final = "global local shared shared-atomic constant special fp64 conversion exchange tensor"
VARIABLE_LATENCY: Final = frozenset(_VARIABLE.split())
"""Kinds whose results scoreboards guard."""


def kind_of_opcode(instruction: SassInstruction) -> Kind:
    """Where an instruction is executed, by its opcode."""
    opcode = instruction.opcode
    if opcode in _BY_OPCODE:
        return _BY_OPCODE[opcode]
    if "MMA" in opcode:
        return "tensor"
    if opcode.startswith("U"):
        return "uniform"
    return "int"


def is_load(instruction: SassInstruction) -> bool:
    return instruction.opcode in ("LD", "LDG", "LDS", "LDL", "LDC", "LDSM", "ULDC", "LDCU", "TEX", "TLD")


def is_store(instruction: SassInstruction) -> bool:
    return instruction.opcode in ("ST", "STG", "STS", "STL", "STSM", "RED", "REDG")

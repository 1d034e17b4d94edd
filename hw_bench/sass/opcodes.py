"""Kinds of opcodes, as an advisor and a reader of profiles tell them apart: by memory space, by pipe.

Which of the profiler's counters of executed instructions an opcode belongs to.

Nsight Compute's ``smsp__sass_thread_inst_executed_op_KIND_pred_on.sum`` count active lanes whose predicate
is true. Their documentation gives no list of opcodes; this one reproduces the counters of kernels whose
machine code is known (KTT's convolution on an RTX 2080 Ti, compiled by us to the same number of
instructions). Opcodes that do not occur in those are placed by what they do.
"""

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
    "exchange": "SHFL VOTE VOTEU MATCH REDUX CREDUX R2UR",
    "barrier": "BAR WARPSYNC DEPBAR MEMBAR ERRBAR",
    "control": "BRA BRX BRXU JMP JMX CALL RET EXIT KILL BSSY BSYNC BREAK YIELD NANOSLEEP NOP BPT",
    "fp32": "FADD FMUL FFMA FADD2 FMUL2 FFMA2 FMNMX FSEL FSET FSETP FSWZADD FCHK FADD32I FMUL32I FFMA32I",
    "fp16": "HADD2 HMUL2 HFMA2 HSETP2 HSET2 HMNMX2",
}
SINGLE_PAIRS: Final = ("FADD2", "FMUL2", "FFMA2")
"""Opcodes of arithmetic on pairs of singles."""
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


_WRITTEN: Final = {
    "fp32": (
        "FADD FADD2 FADD32I FCHK FFMA FFMA2 FFMA32I FMNMX FMUL FMUL2 FMUL32I FSEL FSET FSETP FSWZADD MUFU"
    ),
    "fp64": "DADD DFMA DMUL DSETP DMNMX DSET",
    "fp16": "HADD2 HADD2_32I HFMA2 HFMA2_32I HMUL2 HMUL2_32I HSET2 HSETP2 HMNMX2",
    "integer": (
        "BMSK BREV FLO IABS IADD IADD3 IADD32I IDP IMAD IMNMX IMUL ISCADD ISETP LEA LOP LOP3 LOP32I "
        "POPC SGXT SHF SHL SHR VABSDIFF VIADD VIMNMX UIADD3 UIMAD UISETP ULEA ULOP3 UPOPC USHF UFLO "
        "UBREV UBMSK USGXT"
    ),
    "conversion": "F2F F2FP F2I F2IP FRND I2F I2FP I2I I2IP",
    "memory": "ATOM ATOMG ATOMS LD LDG LDGSTS LDL LDS LDSM RED ST STG STL STS",
    "control": (
        "BRA BREAK BRX BRXU BSSY BSYNC CALL EXIT JMP JMX JMXU KILL NANOSLEEP RET RPCMOV WARPSYNC YIELD"
    ),
    "inter_thread_communication": "CREDUX MATCH R2UR REDUX SHFL VOTE VOTEU",
}
KINDS: Final = {kind: tuple(text.split()) for kind, text in _WRITTEN.items()}
"""Opcodes by kind; every other one is ``misc`` (MOV, S2R, BMOV, BAR, NOP, SEL and their like)."""

_KIND_OF: Final = {opcode: kind for kind, opcodes in KINDS.items() for opcode in opcodes}


def kind_of(opcode: str) -> str:
    """The profiler's kind of an opcode, by its name without modifiers (``IMAD``)."""
    return _KIND_OF.get(opcode, "misc")

"""Which of the profiler's counters of executed instructions an opcode belongs to.

Nsight Compute's ``smsp__sass_thread_inst_executed_op_KIND_pred_on.sum`` count active lanes whose predicate
is true. Their documentation gives no list of opcodes; this one reproduces the counters of kernels whose
machine code is known (KTT's convolution on an RTX 2080 Ti, compiled by us to the same number of
instructions). Opcodes that do not occur in those are placed by what they do.
"""

from __future__ import annotations

from typing import Final

_WRITTEN: Final = {
    "fp32": "FADD FADD32I FCHK FFMA FFMA32I FMNMX FMUL FMUL32I FSEL FSET FSETP FSWZADD MUFU",
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
    "inter_thread_communication": "MATCH R2UR REDUX SHFL VOTE VOTEU",
}
KINDS: Final = {kind: tuple(text.split()) for kind, text in _WRITTEN.items()}
"""Opcodes by kind; every other one is ``misc`` (MOV, S2R, BMOV, BAR, NOP, SEL and their like)."""

_KIND_OF: Final = {opcode: kind for kind, opcodes in KINDS.items() for opcode in opcodes}


def kind_of(opcode: str) -> str:
    """The profiler's kind of an opcode, by its name without modifiers (``IMAD``)."""
    return _KIND_OF.get(opcode, "misc")

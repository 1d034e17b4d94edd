"""What instructions read and write, by hand and against the simulator's own decoding."""

from pathlib import Path

import pytest

from smlab.hw_bench.sass import parse_listing
from smlab.hw_bench.sass.effects import effects_of
from smlab.hw_bench.sass.instruction import Predicate, SassInstruction
from smlab.hw_bench.sass.listing import split_operands

CASES = [
    ("IADD.64 R4, R2, -R8", "R2 R3 R8 R9", "R4 R5"),
    ("IMNMX.S64 PT, PT, R2, R4, R6, PT, !PT", "R4 R5 R6 R7", "R2 R3"),
    ("ISETP.GE.U64.AND P2, PT, R18, R20, P1", "R18 R19 R20 R21 P1", "P2"),
    ("VIMNMX R6, PT, PT, R7, 0x1, !PT", "R7", "R6"),
    ("LDCU.128 UR12, c[0x0][0x500]", "", "UR12 UR13 UR14 UR15"),
    ("CS2UR UR8, SR_CLOCKLO", "", "UR8 UR9"),
    ("ATOMS.CAST.SPIN.64 P0, [R5], R8, R10", "R5 R8 R9 R10 R11", "P0"),
    ("FFMA R0, R1, -R2, |R3|", "R1 R2 R3", "R0"),
    ("IADD3 R4, P0, R4, R6.reuse, RZ", "R4 R6", "R4 P0"),
    ("IADD3.X R5, R5, R7, RZ, P0, !PT", "R5 R7 P0", "R5"),
    ("IMAD.WIDE R4, R8, R9, c[0x0][0x168]", "R8 R9", "R4 R5"),
    ("IMAD.WIDE R4, R8, R9, R10", "R8 R9 R10 R11", "R4 R5"),
    ("LDG.E.64 R4, [R2.64+UR4]", "R2 R3 UR4 UR5", "R4 R5"),
    ("LDG.E.128.SYS R4, [R2]", "R2 R3", "R4 R5 R6 R7"),
    ("STG.E.64 [R8], R6", "R8 R9 R6 R7", ""),
    ("LDS.U.64 R2, [R4+0x10]", "R4", "R2 R3"),
    ("ATOMS.ADD RZ, [R7], R6", "R7 R6", ""),
    ("ATOMG.E.CAS.STRONG.GPU PT, R21, [R6], R20, R21", "R6 R7 R20 R21", "R21"),
    ("SHFL.IDX PT, R5, R0, R1, 0x1f", "R0 R1", "R5"),
    ("ISETP.GE.AND P0, PT, R0, c[0x0][0x160], !P1", "R0 P1", "P0"),
    ("DSETP.NAN.AND P0, PT, R4, R4, PT", "R4 R5", "P0"),
    ("DFMA R6, R2, R4, R6", "R2 R3 R4 R5 R6 R7", "R6 R7"),
    ("F2F.F32.F64 R21, R12", "R12 R13", "R21"),
    ("F2F.F64.F32 R4, R5", "R5", "R4 R5"),
    ("I2F.F64 R16, R18", "R18", "R16 R17"),
    ("F2I.F64.TRUNC R15, R14", "R14 R15", "R15"),
    ("I2F.S64 R5, R4", "R4 R5", "R5"),
    ("VOTE.ANY R8, PT, P1", "P1", "R8"),
    ("VOTE.ANY P0, P2", "P2", "P0"),
    ("PLOP3.LUT P0, PT, P1, P2, PT, 0x80, 0x0", "P1 P2", "P0"),
    ("CS2R R2, SR_CLOCKLO", "", "R2 R3"),
    ("CS2R.32 R2, SR_CLOCKLO", "", "R2"),
    ("SEL R0, R1, R2, P3", "R1 R2 P3", "R0"),
    ("RET.REL.NODEC R2 `(k)", "R2 R3", ""),
    ("ULDC.64 UR4, c[0x0][0x118]", "", "UR4 UR5"),
]


@pytest.mark.parametrize(("text", "reads", "writes"), CASES)
def test_reads_and_writes(text: str, reads: str, writes: str) -> None:
    mnemonic, _, operands = text.partition(" ")
    effects = effects_of(SassInstruction(0, mnemonic, split_operands(operands)))
    assert effects.reads == set(reads.split())
    assert effects.writes == set(writes.split())


def test_a_guard_is_read_and_an_instruction_that_never_executes_does_nothing() -> None:
    operands = split_operands("R0, R1")
    assert "P2" in effects_of(SassInstruction(0, "MOV", operands, Predicate("P2", True))).reads
    assert not effects_of(SassInstruction(0, "MOV", operands, Predicate("PT", True))).writes


def test_the_simulators_decoding_agrees() -> None:
    """Results and sources of every instruction of a listing that the simulator executes."""
    from smlab.examples import KERNEL
    from smlab.sim.isa import memory_layout
    from smlab.sim.isa.decode.decode import decode
    from smlab.sim.isa.decode.operands import OperandRows

    (function,) = parse_listing(Path(KERNEL).read_text())
    general = {memory_layout.register_at(n): f"R{n}" for n in range(255)}
    for micro in decode(function, OperandRows(lambda bank, offset: 0)):
        effects = effects_of(micro.instruction)
        result = general.get(micro.fields.get("dst", -1))
        if result is not None:
            assert result in effects.writes, micro.instruction
        for name in "abc":
            if micro.fields.get(f"{name}_reg", 0):
                source = general.get(micro.fields[name])
                assert source is None or source in effects.reads, micro.instruction
        for name in ("predicate_a", "predicate_b", "predicate_c", "guard"):
            place = micro.fields.get(name, memory_layout.PT)
            if place < memory_layout.PT:
                assert f"P{place}" in effects.reads, micro.instruction

"""Numbers in listings that no instruction can hold: refused in one line, which names the instruction."""

import numpy as np
import pytest

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.sass import parse_listing
from smlab.hw_bench.sass.image import listed_image
from smlab.sim.isa.decode.micro import MicroOperation
from smlab.sim.isa.launch.launch import MachineLaunch

HEAD = '.headerflags @"EF_CUDA_SM70"\n.section .text.kernel,\n.text.kernel:\n'


def decoded(text: str) -> tuple[MicroOperation, ...]:
    (function,) = parse_listing(f"{HEAD}/*0000*/ {text} ;\n/*0010*/ EXIT ;\n")
    return MachineLaunch(listed_image(function), (1, 1, 1), (32, 1, 1)).code


BEYOND = (
    *("MOV R0, 0x" + "f" * n for n in range(9, 23)),
    *("IADD3 R0, R1, -0x" + "f" * n + ", RZ" for n in (8, 16, 22)),
    *("LDG.E R0, [R2+0x" + "f" * n + "]" for n in (9, 16, 17, 22)),
    *("STS [R2+-" + "9" * n + "], R0" for n in (16, 22, 5000)),
    "FADD R0, R1, 1e39",
    "FADD R0, R1, -1e400",
    "FADD R0, R1, " + "9" * 5000,
    "FADD R0, R1, 1_0",
    "HADD2 R0, R1, 1e9, 1e9",
    "DADD R0, R2, 1e400",
    "LOP3.LUT R0, R1, R2, R3, 0x" + "f" * 17 + ", !PT",
    "PLOP3.LUT P0, PT, P0, P1, PT, 0x80, 0x" + "8" * 22,
    "BRA 0x" + "f" * 16,
    "BRA 0x" + "f" * 22,
    "MOV R0, c[0x0][0x" + "f" * 16 + "]",
    "MOV R" + "9" * 5000 + ", R1",
    "MOV R0, R1234",
    "IADD3 R0, R1, 0" + "7" * 30 + ", RZ",
)


@pytest.mark.parametrize("text", BEYOND, ids=lambda text: text[:30])
def test_a_number_that_no_instruction_holds_is_refused(text: str) -> None:
    with pytest.raises(SmlabError, match=r"kernel: the instruction .* at 0x0 is not one that is executed"):
        decoded(text)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("MOV R0, 0xffffffff", 0xFFFFFFFF),
        ("MOV R0, -0x80000000", 0x80000000),
        ("FADD R0, R1, 3.40282346e+38", int(np.float32(3.40282346e38).view(np.uint32))),
        ("FADD R0, R1, -QNAN", 0xFFFFFFFF),
        ("FADD R0, R1, +INF", 0x7F800000),
        ("DADD R0, R2, 1.79e+308", 0),
    ],
)
def test_the_last_number_that_an_instruction_holds_is_read(text: str, word: int) -> None:
    assert decoded(text)[0].instruction.opcode == text.split()[0]
    (function,) = parse_listing(f"{HEAD}/*0000*/ {text} ;\n/*0010*/ EXIT ;\n")
    launch = MachineLaunch(listed_image(function), (1, 1, 1), (32, 1, 1))
    assert launch.code
    assert word in launch.rows.words


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD.replace("70", "7" * 100_000), "line 1: the architecture has too many digits .got 100000"),
        (HEAD + "/*" + "f" * 22 + "*/ EXIT ;", "line 4: the address is beyond any kernel"),
        (HEAD + "/*0000*/ MOV R0, " + "x" * (1 << 20) + " ;", "line 4: is too long"),
        (HEAD + '//## File "a.cu", line ' + "9" * 5000, "line 4: the source line has too many digits"),
    ],
    ids=["architecture", "address", "long", "line"],
)
def test_a_listing_without_measure_is_refused(text: str, message: str) -> None:
    with pytest.raises(SmlabError, match=message):
        parse_listing(text)


def test_many_inlined_calls_have_an_outermost_line() -> None:
    notes = "".join(f'//## File "a.cu", line {n} inlined at "b.cu", line {n + 1}\n' for n in range(1, 3000))
    (function,) = parse_listing(f"{HEAD}{notes}/*0000*/ EXIT ;\n")
    assert function.instructions[0].source.outermost.line == 3000


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("HMMA.SP.16832.F32 R4, R4, R8, RZ, R0, 0x0", "(a sparse product)"),
        ("QMMA.SP.16864.F32.E4M3.E4M3 R4, R4, R8, RZ, R0, 0x0", "(a sparse product)"),
        ("QMMA.SF.SP.16864.F32.E4M3.E4M3.E8 R4, R4, R8, RZ, R0, R1, R2, URZ", "(a sparse product)"),
        ("OMMA.SF.SP.168128.F32.E2M1.E2M1.UE4M3.4X R4, R4, R8, RZ, R0, R1, R2, URZ", "OMMA.SF.SP.168128"),
        ("OMMA.SF.16864.F32.E2M1.E2M1.E8 R4, R4, R8, RZ, R0, UR1, URZ", "(the operand UR1)"),
        ("TEX.SCR.LZ RZ, R5, R0, R2, 0x0, 0x58, 2D, 0x1", "TEX.SCR.LZ"),
        ("SUST.D.BA.1D.STRONG.SM.TRAP [R5], R2, 0x0, 0x58", "SUST.D.BA.1D"),
        ("STAS [R14.64], R10", "STAS"),
        (
            "UTCHMMA.2CTA gdesc[UR4], gdesc[UR6], tmem[UR8], tmem[UR10], idesc[UR11], UP0",
            "(the modifier .2CTA)",
        ),
        (
            "UTCHMMA gdesc[UR4], gdesc[UR6], tmem[UR8], tmem[UR10], idesc[UR11], UR12, UP0",
            "(the operand UR12)",
        ),
        ("UTCHMMA gdesc[UR4], gdesc[UR6], tmem[UR8], tmem[UR10], idesc[UR11], tmem[UR12], UP0", "UTCHMMA"),
        ("UTCOMMA gdesc[UR4], gdesc[UR6], tmem[UR8], tmem[UR10], idesc[UR11], UP0", "without scales)"),
        ("UTCCP.T.S.4x32dp128bit.U4x16P64 tmem[UR15+0x100], gdesc[UR8]", "(the modifier .U4x16P64)"),
        ("LDTM.x3 R4, tmem[UR4]", "(the form x3)"),
    ],
)
def test_forms_that_are_not_executed_are_refused_by_name(text: str, told: str) -> None:
    with pytest.raises(SmlabError, match="is not one that is executed here") as found:
        decoded(text)
    assert told in str(found.value)
    assert text in str(found.value)

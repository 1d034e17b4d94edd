"""Divisions by what a compiler made of them: nothing of the dividend, all of the rest."""

from collections.abc import Callable

from smlab.models.advisor.changes.divisions import by_what_stays, exact_divisions, integer_divisions
from smlab.models.advisor.code import AdvisedCode

# x += (x + 7) % n, unsigned, as NVRTC 12 compiles it for sm_70; the reciprocal is taken before the loop.
REMAINDER = """
I2F.U32.RP R9, c[0x0][0x188] | write=0
ISETP.NE.U32.AND P0, PT, RZ, c[0x0][0x188], PT
MUFU.RCP R9, R9 | waits=0 write=0
IADD3 R10, R9, 0xffffffe, RZ | waits=0
LOP3.LUT R12, RZ, c[0x0][0x188], RZ, 0x33, !PT
F2I.FTZ.U32.TRUNC.NTZ R5, R10 | write=0
IADD3 R6, R6, 0x7, RZ | waits=0
IMAD.WIDE.U32 R2, R5, R6, RZ
IADD3 R3, -R3, RZ, RZ
IMAD R2, R3, c[0x0][0x188], R6
ISETP.GE.U32.AND P1, PT, R2, c[0x0][0x188], PT
@P1 IADD3 R2, R2, -c[0x0][0x188], RZ
SEL R3, R12, R2, !P0
IADD3 R6, R3, R6, RZ
ISETP.GE.AND P1, PT, R6, R7, PT
@!P1 BRA 0x60
EXIT
"""
QUOTIENT = """
FADD R5, R4, 1
FADD R12, R7, -R2
MUFU.RCP R8, R5 | write=0
BSSY B0, 0xb0
FFMA R9, -R5, R8, 1 | waits=0
FFMA R9, R8, R9, R8
FFMA R8, R12, R9, RZ
FCHK P0, R12, R5 | write=0
FFMA R10, -R5, R8, R12
FFMA R9, R9, R10, R8
@!P0 BRA 0xc0 | waits=0
NOP
FADD R2, R9, R2
@P2 BRA 0x10
EXIT
"""


def test_an_integer_remainder_is_all_but_its_dividend(code_of: Callable[[str], AdvisedCode]) -> None:
    code = code_of(REMAINDER)
    (found,) = integer_divisions(code, range(len(code)))
    assert found.result == 12
    assert found.instructions == {0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12}


def test_an_exact_division_and_its_divisor(code_of: Callable[[str], AdvisedCode]) -> None:
    code = code_of(QUOTIENT)
    ((found, check),) = exact_divisions(code, range(len(code)))
    assert (check, found.result) == (7, 9)
    assert found.instructions == {2, 3, 4, 5, 6, 7, 8, 9, 10}
    assert by_what_stays(code, check)
    assert not by_what_stays(code_of(QUOTIENT.replace("FADD R2, R9, R2", "FADD R5, R9, R2")), check)
    assert not integer_divisions(code, range(len(code)))

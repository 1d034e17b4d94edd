"""What is executed before it is issued: nothing that other warps do may make a difference to it."""

from collections.abc import Callable

import numpy as np
import pytest

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.sim import Record
from smlab.sim.execution.early_execution import (
    ON_REGISTERS,
    SHARED_LOAD,
    WRITE_FOLLOWS,
    early_execution_flags,
)
from smlab.sim.execution.source import lower_machine_code
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.sim.machine import machine_from
from smlab.sim.simulate import ENGINES
from smlab.sim.traces.compare import first_difference

Launch = Callable[..., MachineLaunch]
FIRST = [
    "S2R R0, SR_TID.X",
    "MOV R24, c[0x0][0x160]",
    "MOV R25, c[0x0][0x164]",
    "IMAD.WIDE.U32 R22, R0, 0x4, R24",
    "IMAD.SHL.U32 R1, R0, 0x4, RZ",
]
SUM = [f"LDS.U R{4 + n}, [R1+{4 * n:#x}]" for n in range(4)] + [
    f"IADD3 R3, R3, R{4 + n}, R3" for n in range(4)
]


def agreed(launch: Launch, lines: list[str], *, block: int, shared: int = 256) -> list[int]:
    """What the threads leave in their words of the output, which is one and the same in both engines."""
    machine = machine_from(load_gpu("v100"))
    left, results = [], []
    for engine in ("compiled", "simpy"):
        out = np.zeros(block, np.int32)
        made = launch(lines, out, block=block, check_shared=False, shared=shared)
        results.append(ENGINES[engine](lower_machine_code(made, machine, 1), Record.ALL, None, None))
        left.append(out.tolist())
    assert first_difference(*results) is None
    assert left[0] == left[1]
    return list(left[0])


def test_a_write_counts_up_to_the_next_barrier_of_all(launch: Launch) -> None:
    lines = ["STS [R1], R0", "BAR.SYNC 0x0", "LDS.U R2, [R1]", "IADD3 R2, R2, R2, RZ", "EXIT"]
    write, load = WRITE_FOLLOWS, SHARED_LOAD
    assert early_execution_flags(launch(lines).code).tolist() == [write, 0, load, ON_REGISTERS, 0]
    loop = [*lines[:2], ".L_1:", *lines[2:4], "BAR.SYNC 0x0", "STS [R1], R2", "@P0 BRA `(.L_1)", "EXIT"]
    marks = early_execution_flags(launch(loop).code)
    assert (marks & WRITE_FOLLOWS != 0).tolist() == [True, False, False, False, False, True, False, False]
    some = [loop[0], "BAR.SYNC 0x1, 0x40", *loop[2:]]  # that some pass while others write
    assert (early_execution_flags(launch(some).code) & WRITE_FOLLOWS != 0).tolist() == [True] * 7 + [False]


def test_a_warp_sees_what_another_writes_while_it_waits(launch: Launch) -> None:
    """No barrier is between the word's writer and its reader, which asks for it again and again."""
    lines = [
        *FIRST,
        "ISETP.GE.AND P0, PT, R0, 0x20, PT",
        "@P0 BRA `(.L_write)",
        ".L_again:",
        "LDS.U R2, [RZ]",
        "IADD3 R3, R3, 0x1, RZ",
        "ISETP.EQ.AND P1, PT, R2, RZ, PT",
        "@P1 BRA `(.L_again)",
        "STG.E.SYS [R22], R3",
        "EXIT",
        ".L_write:",
        "LDG.E.SYS R4, [R22]",
        "IADD3 R4, R4, 0x7, RZ",
        "STS [RZ], R4",
        "EXIT",
    ]
    assert agreed(launch, lines, block=64)[0] > 3


def test_loads_behind_a_barrier_see_what_was_written_before_it(launch: Launch) -> None:
    lines = [
        *FIRST,
        "STS [R1], R0",
        "BAR.SYNC 0x0",
        *SUM,
        "BAR.SYNC 0x0",
        "STS [R1], R3",
        "BAR.SYNC 0x0",
        *SUM,
        "STG.E.SYS [R22], R3",
        "EXIT",
    ]
    assert any(agreed(launch, lines, block=128, shared=1024))


def test_a_fault_is_told_when_its_instruction_is_issued(launch: Launch) -> None:
    """The first warp reads outside of its memory behind many instructions, the second one, further on in the
    code, is there sooner."""
    adds = ["IADD3 R3, R3, 0x1, RZ"] * 40
    lines = [
        *FIRST,
        "ISETP.GE.AND P0, PT, R0, 0x20, PT",
        "@P0 BRA `(.L_second)",
        *adds,
        "LDS.U R2, [R1+0x4000]",
        "EXIT",
        ".L_second:",
        *adds[:20],
        "LDS.U R2, [R1+0x8000]",
        "EXIT",
    ]
    said = []
    for engine in ("compiled", "simpy"):
        lowered = lower_machine_code(
            launch(lines, np.zeros(64, np.int32), block=64), machine_from(load_gpu("v100")), 1
        )
        with pytest.raises(SmlabError, match=r"thread \(32, 0, 0\)") as caught:
            ENGINES[engine](lowered, Record.TOTALS, None, None)
        said.append(str(caught.value))
    assert said[0] == said[1]

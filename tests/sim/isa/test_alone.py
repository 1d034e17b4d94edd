"""SMs that have nothing on its way to L2 run on alone in the compiled engine, ahead of the others; that may
not show."""

from collections.abc import Callable

import numpy as np
import pytest

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.sim import Record
from smlab.sim.execution.source import lower_machine_code
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.sim.machine import Machine, machine_from
from smlab.sim.simulate import ENGINES
from smlab.sim.traces.compare import first_difference

Launch = Callable[..., MachineLaunch]
SMS = 3
UNEVEN = [
    "S2R R0, SR_TID.X",
    "S2R R1, SR_CTAID.X",
    "MOV R24, c[0x0][0x160]",
    "MOV R25, c[0x0][0x164]",
    "IMAD R3, R1, 0x40, R0",
    "IMAD.WIDE.U32 R22, R3, 0x4, R24",
    "LOP3.LUT R2, R1, 0x3, RZ, 0xc0, !PT",
    "IMAD R2, R2, 0x9, R2",
    "IADD3 R2, R2, 0x2, RZ",
    ".L_x_1:",
    "LOP3.LUT R4, R2, 0x7, RZ, 0xc0, !PT",
    "ISETP.NE.AND P1, PT, R4, RZ, PT",
    "@P1 BRA `(.L_x_2)",
    "LDG.E.SYS R5, [R22]",
    "IADD3 R5, R5, 0x1, RZ",
    "STG.E.SYS [R22], R5",
    ".L_x_2:",
    *(f"IADD3 R{6 + n % 9}, R{6 + (n + 1) % 9}, R2, RZ" for n in range(40)),
    "CS2R R16, SR_CLOCKLO",
    "IADD3 R2, R2, -0x1, RZ",
    "ISETP.GT.AND P0, PT, R2, RZ, PT",
    "@P0 BRA `(.L_x_1)",
    "STG.E.SYS [R22+0x1000], R16",
    "EXIT",
]
"""Blocks of one to four lengths that ask for memory now and then, and write when they end."""


@pytest.mark.parametrize("blocks", [SMS, 11])
def test_sms_of_unequal_blocks_meet_in_l2_as_cycle_by_cycle(launch: Launch, blocks: int) -> None:
    results, arrays = [], []
    for engine in ("compiled", "simpy"):
        array = np.arange(2048, dtype=np.int32)
        lowered = lower_machine_code(launch(UNEVEN, array, grid=blocks, block=64), _machine(), SMS)
        results.append(ENGINES[engine](lowered, Record.ALL, None, None))
        arrays.append(array)
    assert first_difference(*results) is None
    assert np.array_equal(*arrays)
    assert len(set((results[0].blocks.retire - results[0].blocks.launch).tolist())) > 2


@pytest.mark.parametrize("first", [0, 1, 2])
def test_of_faults_on_several_sms_the_first_is_told(launch: Launch, first: int) -> None:
    """Each block loops, then writes outside; block ``first`` loops least."""
    lines = [
        "S2R R1, SR_CTAID.X",
        "MOV R24, c[0x0][0x160]",
        "MOV R25, c[0x0][0x164]",
        "LDG.E.SYS R5, [R24]",
        f"ISETP.EQ.AND P1, PT, R1, {first:#x}, PT",
        "MOV R2, 0x60",
        "@P1 MOV R2, 0x10",
        ".L_x_1:",
        "IADD3 R2, R2, -0x1, RZ",
        "ISETP.GT.AND P0, PT, R2, RZ, PT",
        "@P0 BRA `(.L_x_1)",
        "STG.E.SYS [R24+0x100000], R2",
        "EXIT",
    ]
    for engine in ("compiled", "simpy"):
        lowered = lower_machine_code(launch(lines, np.zeros(64, np.int32), grid=SMS), _machine(), SMS)
        with pytest.raises(SmlabError, match=rf"block \({first}, 0, 0\), thread \(0, 0, 0\)"):
            ENGINES[engine](lowered, Record.TOTALS, None, None)


def _machine() -> Machine:
    return machine_from(load_gpu("v100"))

"""Shared memory that is read before anything has written it: told, taken as 0, alike in both engines."""

from collections.abc import Callable

import numpy as np
import pytest

from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.sim import Record
from smlab.sim.execution.run import MachineRun, run_machine_code
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.sim.traces.compare import first_difference

Launch = Callable[..., MachineLaunch]
POINTER = [
    "S2R R0, SR_TID.X",
    "S2R R1, SR_CTAID.X",
    "MOV R24, c[0x0][0x160]",
    "MOV R25, c[0x0][0x164]",
    "IMAD R3, R1, 0x40, R0",
    "IMAD.WIDE.U32 R22, R3, 0x4, R24",
    "IMAD.SHL.U32 R2, R0, 0x4, RZ",
]
PADDED = [
    *POINTER,
    "IMAD R3, R0, 0x10, RZ",  # a row of four words, of which the last one is padding
    "STS.64 [R3], R0",
    "STS [R3+0x8], R0",
    "BAR.SYNC 0x0",
    "LDS.U.128 R4, [R3]",
    "IADD3 R4, R4, R5, R6",
    "STG.E.SYS [R22], R4",
    "EXIT",
]


def both(launch: Launch, lines: list[str], *, grid: int = 1, **more: object) -> tuple[MachineRun, np.ndarray]:
    """The run, and what it leaves in memory, one and the same in both engines."""
    runs, left = [], []
    for engine in ("compiled", "simpy"):
        out = np.full(64 * grid, -1, dtype=np.int32)
        made = launch(lines, out, grid=grid, block=64, shared=1024, **more)
        gpu = load_gpu("v100").with_values({"gpu.sms": 2}, source="assumed: a small GPU", where="test")
        runs.append(run_machine_code(made, gpu, engine=engine, keep=Record.ALL))
        left.append(out)
    assert first_difference(runs[0].result, runs[1].result) is None
    assert np.array_equal(*left)
    assert runs[0].notes == runs[1].notes
    return runs[0], left[0]


def test_rows_with_padding_are_loaded(launch: Launch) -> None:
    done, out = both(launch, PADDED, grid=6)
    assert out.reshape(6, 64).tolist() == [[2 * t + b for t in range(64)] for b in range(6)]
    (note,) = done.notes
    assert note == (
        "shared memory is read before anything has written it, and taken as 0: 384 words, the first at "
        "0xc of the block's 1024 bytes, at 0xb0 LDS.U.128 R4, [R3]; block (0, 0, 0), thread (0, 0, 0)"
    )


def test_nothing_is_told_where_it_was_not_asked(launch: Launch) -> None:
    assert both(launch, PADDED, check_shared=False)[0].notes == ()


def test_a_word_that_nobody_wrote_is_0_whatever_the_block_before_left(launch: Launch) -> None:
    lines = [*POINTER, "LDS.U R4, [R2]", "STG.E.SYS [R22], R4", "STS [R2], R24", "EXIT"]
    done, out = both(launch, lines, grid=200)  # more blocks than have room at once
    assert not out.any()
    assert f"{64 * 200:,} words, the first at 0x0 " in done.notes[0]


def test_the_first_is_told_and_how_many_more_do_it(launch: Launch) -> None:
    lines = [
        *POINTER,
        "ISETP.LT.AND P0, PT, R0, 0x21, PT",
        "@P0 STS [R2], R0",
        "BAR.SYNC 0x0",
        "LDS.U R4, [R2]",
        "LDS.U.S8 R5, [R2+0x2]",
        "ATOMS.ADD R6, [R2], R0",
        "ATOMS.ADD R7, [R2], R0",  # by then they are written
        "STG.E.SYS [R22], R7",
        "EXIT",
    ]
    done, out = both(launch, lines)
    assert out.tolist() == [2 * t if t < 33 else t for t in range(64)]
    (note,) = done.notes
    assert "31 words, the first at 0x84 of" in note
    assert note.endswith("thread (33, 0, 0); so do 2 more instructions")


@pytest.mark.parametrize(("number", "count"), [("", 1), (".4", 4)])
def test_matrices_are_looked_at_by_their_rows(launch: Launch, number: str, count: int) -> None:
    lines = [
        *POINTER,
        "IMAD R3, R0, 0x10, RZ",
        f"LDSM.16.M88{number} R8, [R3]",
        "STG.E.SYS [R22], R8",
        "EXIT",
    ]
    done, _ = both(launch, lines)
    assert f"taken as 0: {2 * 8 * count * 4} words" in done.notes[0]

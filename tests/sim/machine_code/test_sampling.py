"""Samples of large grids: what neighbours fetch is in L2, the arrays are as the sample left them, and both
engines agree."""

from collections.abc import Callable

import numpy as np

from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.sim import Record
from smlab.sim.machine_code.elsewhere import Neighbours
from smlab.sim.machine_code.launch import MachineLaunch
from smlab.sim.machine_code.run import run_machine_code

Launch = Callable[..., MachineLaunch]
BLOCKS = 1200
LINES = [
    "S2R R0, SR_TID.X",
    "S2R R1, SR_CTAID.X",
    "MOV R24, c[0x0][0x160]",
    "MOV R25, c[0x0][0x164]",
    "IMAD R2, R1, 0x20, R0",
    "IMAD.WIDE.U32 R22, R2, 0x4, R24",
    "LDG.E.SYS R4, [R22]",
    "LDG.E.SYS R5, [R22+0x80]",
    "LDG.E.SYS R6, [R22+0x100]",
    "IADD3 R4, R4, R5, R6",
    "MOV R26, c[0x0][0x168]",
    "MOV R27, c[0x0][0x16c]",
    "IMAD.WIDE.U32 R28, R2, 0x4, R26",
    "STG.E.SYS [R28], R4",
    "EXIT",
]
"""Each block reads its own 32 words and those of the next two blocks."""


def arrays() -> tuple[np.ndarray, np.ndarray]:
    return np.arange(32 * (BLOCKS + 2), dtype=np.int32), np.zeros(32 * BLOCKS, dtype=np.int32)


def test_a_sector_belongs_to_the_first_block_that_asks_for_it(launch: Launch) -> None:
    source, out = arrays()
    asked = launch(LINES, source, out, grid=BLOCKS)
    neighbours = Neighbours(asked, 32)
    assert neighbours.block_instructions() == len(LINES)
    chosen = np.array([100, 180, 260])
    found = neighbours.fetched(chosen, 40)
    again = neighbours.fetched(chosen, 40)  # from what was kept
    assert np.array_equal(found.bits, again.bits)
    assert found.read_each == again.read_each
    assert not out.any()  # executed on the side
    first = asked.allocations[0].address // 32
    own = {n for n in range(60 * 4, 263 * 4) if first + n not in found}
    assert own == {4 * b + 8 + n for b in chosen for n in range(4)}  # the last third: others had the rest
    # The first block's eight sectors are read by nobody before.
    assert found.read_each == (4 * 201 + 8) / 201


def test_a_sample_reads_from_dram_what_the_whole_grid_reads(launch: Launch) -> None:
    gpu = load_gpu("v100").with_values({"gpu.sms": 16}, source="assumed: a small GPU", where="test")
    source, out = arrays()
    whole = run_machine_code(launch(LINES, source, out, grid=BLOCKS), gpu, keep=Record.TOTALS)
    assert np.array_equal(out, source[:-64] + source[32:-32] + source[64:])
    source, out = arrays()
    part = run_machine_code(launch(LINES, source, out, grid=BLOCKS), gpu, sms=2, keep=Record.TOTALS)
    assert 0 < part.blocks_simulated < BLOCKS
    assert whole.dram_sectors_read == 4 * (BLOCKS + 2)
    assert abs(part.dram_sectors_read / whole.dram_sectors_read - 1) < 0.02


def test_both_engines_find_the_same_in_l2(launch: Launch) -> None:
    gpu = load_gpu("v100").with_values({"gpu.sms": 40}, source="assumed: a small GPU", where="test")
    runs = [
        run_machine_code(launch(LINES, *arrays(), grid=BLOCKS), gpu, sms=1, engine=engine, keep=Record.TOTALS)
        for engine in ("compiled", "simpy")
    ]
    assert runs[0].cycles == runs[1].cycles
    assert runs[0].result.memory == runs[1].result.memory
    assert 0 < runs[0].result.memory.dram_sectors < 12 * runs[0].blocks_simulated


def test_a_grid_of_fewer_blocks_than_sms_is_sampled(launch: Launch) -> None:
    gpu = load_gpu("v100")
    for blocks, sms in ((1, 3), (16, 8), (16, 30)):
        source, out = arrays()
        found = run_machine_code(launch(LINES, source, out, grid=blocks), gpu, sms=sms, keep=Record.TOTALS)
        assert found.blocks_simulated == min(blocks, sms)

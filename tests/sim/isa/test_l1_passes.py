"""What global loads and stores, loads of constants and local stores take where L1 looks up several lines at
once (SEMANTICS 6.4, 7.1, 7.5), in both engines. Expected passes are worked out by hand."""

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.sim import Record
from smlab.sim.execution.source import lower_machine_code
from smlab.sim.instructions import CLASS_NAMES
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.sim.machine import Machine, machine_from
from smlab.sim.result import SimResult
from smlab.sim.simulate import ENGINES
from smlab.sim.traces.compare import first_difference

Launch = Callable[..., MachineLaunch]
LANE = np.arange(32)
ADDRESS = [
    "S2R R0, SR_TID.X",
    "MOV R24, c[0x0][0x168]",
    "MOV R25, c[0x0][0x16c]",
    "IMAD.WIDE.U32 R22, R0, 0x4, R24",
    "LDG.E.SYS R8, [R22]",
    "MOV R26, c[0x0][0x160]",
    "MOV R27, c[0x0][0x164]",
    "IMAD.WIDE.U32 R22, R8, 0x1, R26",
]
"""A lane's place: the second array says how many bytes behind the beginning of the first."""


@pytest.fixture(scope="module")
def machine() -> Machine:
    found = machine_from(load_gpu("v100"))
    return dataclasses.replace(found, l1_tag_banks=4, l1_register_bytes=128)


def executed(machine: Machine, made: MachineLaunch) -> SimResult:
    """What both engines say."""
    lowered = [lower_machine_code(made, machine, 1) for _ in range(2)]
    results = [
        ENGINES[engine](one, Record.ALL, None, None)
        for engine, one in zip(("compiled", "simpy"), lowered, strict=True)
    ]
    assert first_difference(*results) is None
    return results[0]


def passes(result: SimResult, name: str) -> list[int]:
    assert result.jobs is not None
    return [int(p) for p in result.jobs.passes[result.jobs.op == CLASS_NAMES.index(name)]]


CASES = {
    "a row that begins anywhere": ("", 4 * LANE + 16, 1),
    "a row in lines 7 and 8, which share a part of the tags": ("", 4 * LANE + 7 * 128 + 64, 2),
    "one word": ("", 0 * LANE, 1),
    "bytes in two lines": (".U8", LANE + 112, 1),
    "each second word": ("", 8 * LANE, 2),
    "a line a lane, all on one bank": ("", 128 * LANE, 32),
    "a line a lane, all on different banks": ("", 132 * LANE, 8),
    "two rows on the same banks": ("", 4 * (LANE % 16) + 512 * (LANE // 16), 2),
    "two rows on different banks": ("", 4 * (LANE % 16) + 576 * (LANE // 16), 1),
    "two rows in one part of the tags": ("", 4 * (LANE % 16) + 704 * (LANE // 16), 2),
    "two words a lane": (".64", 8 * LANE, 2),
    "two words a lane, with holes": (".64", 16 * LANE, 4),
    "four words of one place": (".128", 0 * LANE, 4),
    "four words a lane, with holes": (".128", 32 * LANE, 8),
    "rows of 32 bytes in 16 lines": (".128", 16 * (LANE % 2) + 128 * (LANE // 2), 16),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("store", [False, True])
def test_passes_by_banks_and_tags(machine: Machine, launch: Launch, name: str, store: bool) -> None:
    width, places, expected = CASES[name]
    access = f"STG.E{width}.SYS [R22], R4" if store else f"LDG.E{width}.SYS R4, [R22]"
    made = launch([*ADDRESS, access, "EXIT"], np.zeros(2048, np.int32), places.astype(np.int32))
    if store:  # which gives no registers their words
        expected = 1 if name == "four words of one place" else expected
    result = executed(machine, made)
    assert passes(result, "global-store" if store else "global-load")[-1] == expected


@pytest.mark.parametrize(
    ("mask", "expected"), [(0xF00F00FF, 2), (0x01010101, 4), (0x00FF0000, 1), (0x80000001, 1)]
)
def test_lanes_without_part_in_a_wide_row(machine: Machine, launch: Launch, mask: int, expected: int) -> None:
    """Four words a lane, side by side: words of lanes 0, 8, 16 and 24 lie on one bank."""
    lines = [
        *ADDRESS,
        f"MOV R9, {mask:#x}",
        "SHF.R.U32.HI R9, RZ, R0, R9",
        "LOP3.LUT R9, R9, 0x1, RZ, 0xc0, !PT",
        "ISETP.NE.AND P0, PT, R9, RZ, PT",
        "@P0 LDG.E.128.SYS R4, [R22]",
        "EXIT",
    ]
    plain = dataclasses.replace(machine, l1_register_bytes=0)
    made = launch(lines, np.zeros(2048, np.int32), (16 * LANE).astype(np.int32))
    assert passes(executed(plain, made), "global-load")[-1] == expected


def test_without_the_key_a_line_is_a_pass(machine: Machine, launch: Launch) -> None:
    plain = dataclasses.replace(machine, l1_tag_banks=0)
    made = launch(
        [*ADDRESS, "LDG.E.SYS R4, [R22]", "EXIT"], np.zeros(2048, np.int32), (4 * LANE + 16).astype(np.int32)
    )
    assert passes(executed(plain, made), "global-load")[-1] == 2


@pytest.mark.parametrize("words", [1, 2, 8, 32])
def test_constants_take_their_unit_for_each_word(machine: Machine, launch: Launch, words: int) -> None:
    """CUDA C++ Programming Guide: a request is split into one for each different address."""
    slower = dataclasses.replace(machine, constant_interval_cycles=3)
    lines = [
        "S2R R0, SR_TID.X",
        f"LOP3.LUT R2, R0, {words - 1:#x}, RZ, 0xc0, !PT",
        "IMAD.SHL.U32 R2, R2, 0x4, RZ",
        "LDC R4, c[0x0][R2+0x160]",
        "LDC R5, c[0x0][R2+0x160]",
        "EXIT",
    ]
    result = executed(slower, launch(lines, *range(32)))
    assert passes(result, "constant-load") == [words] * 2
    jobs = result.jobs
    assert jobs is not None
    at = jobs.op == CLASS_NAMES.index("constant-load")
    latency = slower.access_latency_cycles["constant-load"]
    assert int((jobs.completion - jobs.issue)[at][0]) == latency + 3 * (words - 1)
    assert result.sms[0].stage_occupied_cycles == 0


@pytest.mark.parametrize("keeps", [False, True])
def test_l1_keeps_what_local_stores_write(machine: Machine, launch: Launch, keeps: bool) -> None:
    lines = ["S2R R0, SR_TID.X", "MOV R1, RZ", "STL [R1], R0", "LDL R2, [R1]", "EXIT"]
    made = launch(lines)
    local = dataclasses.replace(made, image=dataclasses.replace(made.image, local_bytes=64))
    result = executed(dataclasses.replace(machine, keeps_local_stores=keeps), local)
    sm = result.sms[0]
    assert (sm.l1_sector_hits, sm.l1_sector_misses) == ((4, 0) if keeps else (0, 4))
    assert sm.l1_store_sectors == 4  # L2 has them as well


def test_global_stores_are_not_kept(machine: Machine, launch: Launch) -> None:
    lines = [*ADDRESS, "STG.E.SYS [R22], R0", "LDG.E.SYS R4, [R22]", "EXIT"]
    made = launch(lines, np.zeros(64, np.int32), (4 * LANE).astype(np.int32))
    result = executed(dataclasses.replace(machine, keeps_local_stores=True), made)
    assert (result.sms[0].l1_sector_hits, result.sms[0].l1_sector_misses) == (0, 8)

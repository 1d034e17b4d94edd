"""Fences in machine code (SEMANTICS 9.11), in both engines."""

from collections.abc import Callable

import numpy as np
import pytest

from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.sim import Record
from smlab.sim.execution.source import lower_machine_code
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.sim.machine import machine_from
from smlab.sim.result import SimResult
from smlab.sim.simulate import ENGINES

Launch = Callable[..., MachineLaunch]
BEGIN = [
    "S2R R0, SR_TID.X",
    "MOV R24, c[0x0][0x160]",
    "MOV R25, c[0x0][0x164]",
    "IMAD.WIDE.U32 R22, R0, 0x4, R24",
]
STALL = 15
"""What each instruction of these listings keeps its warp from the next one."""


@pytest.fixture(params=["compiled", "simpy"])
def execute(request: pytest.FixtureRequest, launch: Launch) -> Callable[..., SimResult]:
    """Runs lines behind `BEGIN` on one SM of a V100."""

    def run(*lines: str) -> SimResult:
        array = np.arange(64, dtype=np.int32)
        machine = machine_from(load_gpu("v100"))
        lowered = lower_machine_code(launch([*BEGIN, *lines, "EXIT"], array), machine, 1)
        return ENGINES[request.param](lowered, Record.ALL, None, None)

    return run


def issued(result: SimResult, place: int) -> int:
    """When the instruction at a place behind `BEGIN` issued."""
    assert result.issues is not None
    return int(result.issues.cycle[result.issues.slot == len(BEGIN) + place][0])


@pytest.mark.parametrize("access", ["STG.E.SYS [R22], R0", "RED.E.ADD.STRONG.GPU [R22], R0"])
def test_a_fence_waits_until_its_warp_s_stores_are_back(
    execute: Callable[..., SimResult], access: str
) -> None:
    fenced = execute(access, "MEMBAR.SC.GPU")
    assert fenced.jobs is not None
    assert issued(fenced, 1) == fenced.jobs.completion[-1] > issued(fenced, 0) + 10 * STALL
    assert fenced.stalls["long_scoreboard"] > 10 * STALL
    within = execute(access, "MEMBAR.SC.CTA")
    assert issued(within, 1) == issued(within, 0) + STALL


def test_a_fence_before_asynchronous_units_waits_for_shared_stores(
    execute: Callable[..., SimResult],
) -> None:
    """Their readers go past the path that stores take, so nothing else waits for these."""
    stores = ["STS [R0.X4], R0"] * 4
    fenced = execute(*stores, "FENCE.VIEW.ASYNC.S", "NOP")
    assert fenced.jobs is not None
    assert issued(fenced, 4) == fenced.jobs.completion[-1] > issued(fenced, 3) + STALL
    assert fenced.stalls["short_scoreboard"] > 0
    assert not fenced.stalls["long_scoreboard"]
    none = execute(*stores, "NOP", "FENCE.VIEW.GLOBAL")
    assert issued(none, 4) == issued(none, 3) + STALL


def test_a_fence_of_the_system_waits_for_the_host_as_well(execute: Callable[..., SimResult]) -> None:
    beyond = machine_from(load_gpu("v100")).system_fence_cycles
    assert beyond > 1000
    one, all_of_them = (execute("STG.E.SYS [R22], R0", f"MEMBAR.SC.{s}", "NOP") for s in ("GPU", "SYS"))
    assert issued(one, 2) == issued(one, 1) + STALL
    assert issued(all_of_them, 2) == issued(all_of_them, 1) + STALL + beyond


def test_behind_a_fence_l1_has_nothing(execute: Callable[..., SimResult]) -> None:
    kept = execute("LDG.E.SYS R2, [R22]", "IADD3 R3, R2, R2, RZ", "NOP", "LDG.E.SYS R4, [R22]")
    emptied = execute("LDG.E.SYS R2, [R22]", "IADD3 R3, R2, R2, RZ", "CCTL.IVALL", "LDG.E.SYS R4, [R22]")
    assert (kept.sms[0].l1_sector_misses, kept.sms[0].l1_sector_hits) == (4, 4)
    assert (emptied.sms[0].l1_sector_misses, emptied.sms[0].l1_sector_hits) == (8, 0)


def test_floating_point_numbers_are_added_more_slowly_on_one_word(
    execute: Callable[..., SimResult],
) -> None:
    cycles = {}
    for number in ("", "F32.FTZ.RN.", "64."):
        result = execute(*[f"RED.E.ADD.{number}STRONG.GPU [R24], R2"] * 40)
        assert result.jobs is not None
        cycles[number] = float(np.diff(result.jobs.completion[10:]).mean())
    # 32 lanes on a word: 1.2 cycles each of integers of either width, 3.13 of floating-point numbers.
    assert cycles[""] == pytest.approx(32 * 1.2, rel=0.02)
    assert cycles["64."] == pytest.approx(32 * 1.2, rel=0.02)
    assert cycles["F32.FTZ.RN."] == pytest.approx(32 * 3.13, rel=0.02)

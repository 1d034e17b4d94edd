"""Caches of constants: what fits costs nothing, what does not is asked for again, and the engines agree."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.sim import Record
from smlab.sim.execution.source import constant_lines, lower_machine_code
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.sim.lowering import INDEXED_CONSTANT, NO_CONSTANT
from smlab.sim.machine import CacheShape, ConstantTiming, Machine, machine_from
from smlab.sim.simulate import ENGINES

LINE, SECOND_LINE = 64, 256
TIMING = ConstantTiming(
    line_bytes=LINE,
    first=CacheShape(8, 4),
    load_miss_cycles=70,
    operand_miss_cycles=60,
    second_lines=SECOND_LINE // LINE,
    second_miss_cycles=200,
)
TABLE = 3
TURNS = 5

Launch = Callable[..., MachineLaunch]
Cycles = Callable[..., int]


@pytest.fixture(params=["compiled", "simpy"], name="cycles")
def cycles_fixture(request: pytest.FixtureRequest, launch: Launch) -> Cycles:
    """How many cycles more lines of code take with caches of constants than without."""
    machine = machine_from(load_gpu("v100"))

    def run(lines: list[str], given: Machine, warps: int) -> int:
        one = launch(lines)
        image = dataclasses.replace(one.image, banks={TABLE: bytes(1 << 16)})
        made = dataclasses.replace(one, image=image, block=(32 * warps, 1, 1))
        lowered = lower_machine_code(made, given, 1)
        return ENGINES[request.param](lowered, Record.ALL, None, None).cycles

    def more(lines: list[str], warps: int = 1) -> int:
        with_caches = dataclasses.replace(machine, constants=TIMING)
        return run(lines, with_caches, warps) - run(lines, machine, warps)

    return more


def loads(count: int, repetitions: int) -> list[str]:
    """Loads of so many lines in a row, one after the other, so often."""
    step = ["LDC R4, c[0x3][R2]", f"IADD3 R2, R2, {LINE:#x}, R4"]
    again = ["IADD3 R3, R3, -0x1, RZ", "ISETP.NE.AND P0, PT, R3, RZ, PT", "@P0 BRA `(again)"]
    return [f"MOV R3, {repetitions:#x}", "again:", "MOV R2, RZ", *step * count, *again, "EXIT"]


def first_turn(lines: int, miss: int) -> int:
    return lines * miss + -(-lines * LINE // SECOND_LINE) * TIMING.second_miss_cycles


def test_a_table_that_fits_is_brought_once(cycles: Cycles) -> None:
    assert cycles(loads(24, 1)) == cycles(loads(24, TURNS)) == first_turn(24, 70)


def test_a_table_that_does_not_fit_comes_from_the_second_cache_in_each_turn(cycles: Cycles) -> None:
    assert cycles(loads(40, TURNS)) == first_turn(40, 70) + (TURNS - 1) * 40 * 70


def test_a_fifth_line_of_a_set_costs_the_set_alone(cycles: Cycles) -> None:
    assert cycles(loads(33, TURNS)) == first_turn(33, 70) + (TURNS - 1) * 5 * 70


def test_an_operand_is_waited_for_before_the_issue(cycles: Cycles) -> None:
    """Less the 15 cycles for which the instruction before keeps the next one; lines that are there cost
    nothing."""
    code = [f"IADD3 R4, R4, c[0x3][{LINE * n:#x}], RZ" for n in range(8)] * 3
    assert cycles(["MOV R4, RZ", *code, "EXIT"]) == first_turn(8, 60 - 15)


def test_uniform_loads_with_an_index_are_waited_for_behind_their_issue(cycles: Cycles) -> None:
    code = ["UMOV UR5, 0x0", "ULDC UR4, c[0x3][UR5]", "ULDC UR4, c[0x3][UR5+0x4]", "EXIT"]
    assert cycles(code) == 60 + 200 - 15


@pytest.mark.parametrize("lines", [loads(24, 1), loads(40, 2)])
def test_warps_that_ask_for_a_line_on_its_way_wait_for_it_too(cycles: Cycles, lines: list[str]) -> None:
    assert cycles(lines, 8) == pytest.approx(cycles(lines), rel=0.05)


def test_what_a_launch_brings_is_there(cycles: Cycles) -> None:
    """Even beside a table."""
    code = ["LDC R4, c[0x0][0x160]", "IADD3 R4, R4, c[0x0][0x0], RZ", "IADD3 R4, R4, c[0x3][0x0], RZ"]
    assert cycles([*code[:2], "EXIT"]) == 0
    assert cycles(["MOV R2, RZ", "LDC R2, c[0x3][R2]", *code, "EXIT"]) <= 2 * 200 + 70 + 60


def test_lanes_at_several_lines_wait_for_the_last(cycles: Cycles) -> None:
    """They come at the same time; two lines of the second cache do, too."""
    code = [
        "S2R R0, SR_TID.X",
        "IMAD.SHL.U32 R2, R0, 0x4, RZ",
        "LDC R4, c[0x3][R2+0x80]",
        "MOV R5, R4",
        "EXIT",
    ]
    far = [line.replace("0x80", "0xc0") for line in code]
    assert cycles(code) == cycles(far) == 70 + 200


def test_nobody_looks_where_the_launch_brings_all(launch: Launch) -> None:
    table = launch(["MOV R4, c[0x0][0x160]", "LDC R5, c[0x0][R4]", "ULDC UR4, c[0x0][0x0]", "EXIT"]).code
    assert constant_lines(table, TIMING, 0x200) == [NO_CONSTANT, INDEXED_CONSTANT, NO_CONSTANT, NO_CONSTANT]
    assert constant_lines(table, TIMING, 0x100) == [5, INDEXED_CONSTANT, 0, NO_CONSTANT]
    assert constant_lines(table, None, 0) == [NO_CONSTANT] * 4


@pytest.mark.parametrize("offset", ["-0x8000", "0x8000"])
def test_listings_print_offsets_beyond_32_kib_as_negative_ones(launch: Launch, offset: str) -> None:
    out = np.zeros(1, np.int32)
    lines = [f"MOV R4, c[0x3][{offset}]", "MOV R2, c[0x0][0x160]", "MOV R3, c[0x0][0x164]"]
    made = launch([*lines, "STG.E.SYS [R2], R4", "EXIT"], out)
    table = np.arange(1 << 14, dtype=np.uint32).tobytes()
    made = dataclasses.replace(made, image=dataclasses.replace(made.image, banks={TABLE: table}))
    lowered = lower_machine_code(made, machine_from(load_gpu("v100")), 1)
    ENGINES["compiled"](lowered, Record.TOTALS, None, None)
    assert out[0] == 0x8000 // 4

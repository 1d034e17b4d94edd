"""Matches, register banks, NOPs and atomics at uniform addresses in machine code (SEMANTICS 5.4, 6.12, 7.7,
9.2), in both engines."""

from collections.abc import Callable

import numpy as np
import pytest

from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.sim import Record
from smlab.sim.execution.source import lower_machine_code
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.sim.machine import TICKS_PER_CYCLE, machine_from
from smlab.sim.result import SimResult
from smlab.sim.simulate import ENGINES

Launch = Callable[..., MachineLaunch]
Execute = Callable[..., SimResult]


@pytest.fixture(params=["compiled", "simpy"])
def execute(request: pytest.FixtureRequest, launch: Launch) -> Execute:
    """Runs lines on one SM of an RTX A6000, at given constants."""

    def run(*lines: str, block: int = 32, **constants: float) -> SimResult:
        values = {name.replace("_", ".", 1): value for name, value in constants.items()}
        described = load_gpu("a6000")
        described = described.with_values(values, source="a test") if values else described
        made = launch([*lines, "EXIT"], np.zeros(64, dtype=np.int32), block=block)
        return ENGINES[request.param](
            lower_machine_code(made, machine_from(described), 1), Record.ALL, None, None
        )

    return run


def matched(result: SimResult) -> tuple[int, int, int]:
    """Passes, cycles in the data stage and latency of a run's only match."""
    assert result.jobs is not None
    jobs = result.jobs
    return int(jobs.passes[0]), int((jobs.end - jobs.start)[0]), int((jobs.completion - jobs.issue)[0])


@pytest.mark.parametrize(("values", "mask"), [(1, 0), (2, 1), (4, 3), (16, 15), (32, 31)])
def test_a_match_takes_a_pass_for_each_distinct_value(execute: Execute, values: int, mask: int) -> None:
    """Burtchell and Burtscher, 2024, A100 and RTX 4090: 34, 45, 67 and 199 cycles for 1, 2, 4 and 16 values,
    of which LOP3 takes 6; of 64 bits 38, 51, 77 and 233."""
    short = execute("S2R R0, SR_TID.X", f"LOP3.LUT R2, R0, {mask:#x}, RZ, 0xc0, !PT", "MATCH.ANY R4, R2")
    assert matched(short) == (values, 2 * values, 17 + 11 * values)
    long = execute(
        "S2R R0, SR_TID.X", f"LOP3.LUT R2, R0, {mask:#x}, RZ, 0xc0, !PT", "MOV R3, RZ", "MATCH.ANY.U64 R4, R2"
    )
    assert matched(long) == (2 * values, 4 * values, 19 + 13 * values)


def test_a_conversion_from_or_to_64_bits_takes_the_fp64_pipe(execute: Execute) -> None:
    """R100001/Programming-Massively-Parallel-Processors, RTX 3080: two conversions and two comparisons of
    doubles a result, 64 cycles a warp and SM."""

    def cycles(line: str, times: int) -> int:
        return execute(*(line.format(2 * n) for n in range(3, 3 + times)), block=128).cycles

    long, short = "F2F.F64.F32 R{}, R0", "F2I.TRUNC.NTZ R{}, R0"
    # Four schedulers share one pipe for 64 bits, and have one each for 32, where the issue takes longer.
    assert cycles(long, 9) - cycles(long, 1) == 8 * 4 * 16
    assert cycles(short, 9) - cycles(short, 1) < 8 * 16
    assert cycles("I2F.S64 R{}, R4", 9) - cycles("I2F.S64 R{}, R4", 1) == 8 * 4 * 16
    # Conversions and comparisons of doubles wait for each other.
    compared = (long.format(6), "DSETP.MAX.AND P0, P1, RZ, R4, PT", long.format(8))
    assert execute(*compared, block=128).cycles - cycles(long, 1) == 2 * 4 * 16
    slower = {"pipe.fp64-conversion.interval_cycles": 20.0}
    described = load_gpu("a6000").with_values(slower, source="a test")
    assert machine_from(described).pipes["fp64-conversion"].interval_cycles == 20


def test_inactive_lanes_and_other_constants_change_a_match(execute: Execute) -> None:
    lines = ("S2R R0, SR_TID.X", "ISETP.LT.U32.AND P0, PT, R0, 0x3, PT", "@P0 MATCH.ALL PT, R4, R0")
    assert matched(execute(*lines)) == (3, 6, 50)
    changed = execute(*lines, mio_match_pass_cycles=5, mio_match_value_cycles=20, mio_match_latency_cycles=40)
    assert matched(changed) == (3, 15, 80)


def cycles_between(result: SimResult, place: int) -> int:
    """The cycles between the issues of an instruction by two warps of one scheduler."""
    assert result.issues is not None
    issues = result.issues
    cycles = issues.cycle[issues.slot == place]
    assert len(cycles) == 5
    return int(np.sort(cycles[np.isin(issues.warp[issues.slot == place], (0, 4))]) @ (-1, 1))


@pytest.mark.parametrize(
    ("instruction", "cycles"),
    [
        ("FFMA R11, R10, R13, R16", 2),
        ("FFMA R11, R10, R12, R14", 3),
        ("FFMA R11, R10, R10, R13", 1),  # one register, read once
        ("FFMA R11, R10, R13, RZ", 1),
        ("FFMA R11, R10, c[0x0][0x160], R12", 2),
        ("FADD R11, R10, R13", 1),
        ("FADD R11, R10, R12", 2),
        ("IADD3 R11, R10, R12, R14", 3),
    ],
)
def test_a_bank_of_registers_is_read_once_a_cycle(execute: Execute, instruction: str, cycles: int) -> None:
    assert cycles_between(execute(instruction, block=160), 0) == cycles
    assert cycles_between(execute(instruction, block=160, sm_register_banks=64), 0) == (
        2 if instruction[0] == "I" else 1
    )


def test_an_operand_that_is_kept_is_not_read_again(execute: Execute) -> None:
    second = "FFMA R15, R10, R12, R14"
    assert cycles_between(execute("FFMA R11, R10.reuse, R13, R17", second, block=160), 1) == 2
    assert (
        cycles_between(execute("FFMA R11, R13, R10.reuse, R17", second, block=160), 1) == 3
    )  # another place
    assert cycles_between(execute("FFMA R11, R10, R13, R17", second, block=160), 1) == 3
    first = "FFMA R11, R10.reuse, R13, R17"
    assert cycles_between(execute(first, "FADD R18, R13, R10", second, block=160), 2) == 2  # the other bank
    assert cycles_between(execute(first, "FADD R18, R12, R13", second, block=160), 2) == 3  # that bank


def test_a_nop_takes_its_issue_alone(execute: Execute) -> None:
    """1,024 threads take 8 cycles for a barrier of a warp, 8 warps a scheduler (Burtchell and Burtscher)."""
    assert cycles_between(execute("NOP", block=160), 0) == 1
    assert cycles_between(execute("YIELD", block=160), 0) == 2


@pytest.mark.parametrize(
    ("instruction", "cycles"),
    [
        ("RED.E.ADD.64.STRONG.GPU [UR4], R2", 4),
        ("RED.E.ADD.STRONG.GPU [UR4], R2", 4),
        ("RED.E.ADD.64.STRONG.GPU [R24], R2", 8),
        ("RED.E.ADD.STRONG.GPU [R24], R2", 6),
    ],
)
def test_an_address_in_uniform_registers_is_not_read_of_the_lanes(
    launch: Launch, instruction: str, cycles: int
) -> None:
    """One thread on an RTX 2070 Super: 4 cycles at [UR4], whether of 32 or 64 bits; 6 and 8 at [R24]."""
    machine = machine_from(load_gpu("rtx-2070-super"))
    lowered = lower_machine_code(launch([instruction, "EXIT"]), machine, 1)
    assert lowered.programs[0].operations[0].request.address == cycles * TICKS_PER_CYCLE


def test_a_constant_at_a_fixed_address_makes_one_pass_whatever_loads_before_it_made(execute: Execute) -> None:
    jobs = execute(
        "S2R R2, SR_TID.X", "IMAD.SHL.U32 R2, R2, 0x4, RZ", "LDC R4, c[0x0][R2]", "LDC R5, c[0x0][0x28]"
    ).jobs
    assert jobs is not None
    assert jobs.passes.tolist() == [32, 1]


@pytest.mark.parametrize("access", ["LDS R4, [R2]", "STS [R2], R4"])
def test_an_access_to_shared_memory_without_a_lane_may_make_a_pass(execute: Execute, access: str) -> None:
    """P0 holds for no lane. Where a description says so, the access goes the way of one that makes a pass,
    which is not counted among those of loads and stores."""
    never = ("MOV R2, RZ", "ISETP.NE.AND P0, PT, RZ, RZ, PT")
    idle = execute(*never, f"@P0 {access}", shared_inactive_passes=0)
    passing = execute(*never, f"@P0 {access}")
    taking_part = execute(*never, access, shared_inactive_passes=1)
    assert idle.jobs is not None
    assert passing.jobs is not None
    assert taking_part.jobs is not None
    assert len(idle.jobs.issue) == 0
    assert (passing.jobs.passes.tolist(), passing.jobs.lanes.tolist()) == ([1], [0])
    assert passing.sms[0].shared_load_passes == passing.sms[0].shared_store_passes == 0
    way = (taking_part.jobs.completion - taking_part.jobs.issue).tolist()
    assert (passing.jobs.completion - passing.jobs.issue).tolist() == way
    assert passing.cycles == taking_part.cycles > idle.cycles


def test_what_asks_for_global_memory_without_a_lane_takes_its_issue_alone(execute: Execute) -> None:
    never = ("ISETP.NE.AND P0, PT, RZ, RZ, PT",)
    for access in ("@P0 LDG.E R4, [R2.64]", "@P0 ATOMS.ADD R4, [R2], R5"):
        assert (
            execute(*never, access, shared_inactive_passes=1).cycles
            == execute(*never, access, shared_inactive_passes=0).cycles
        )


@pytest.mark.parametrize(
    ("instruction", "full", "one"),
    [
        ("RED.E.ADD.STRONG.GPU [R24], R2", 1, 1),
        ("RED.E.ADD.F32.FTZ.RN.STRONG.GPU [R24], R2", 1, 1),
        ("RED.E.ADD.F64.RN.STRONG.GPU [R24], R2", 1.75, 1),
        ("RED.E.MAX.64.STRONG.GPU [R24], R2", 1, 1),
        ("ATOMG.E.EXCH.STRONG.GPU PT, R2, [R24], R4", 1, 1),
        ("ATOMG.E.CAS.STRONG.GPU PT, R2, [R24], R4, R5", 2, 1),
    ],
)
def test_a_slice_takes_a_sector_of_operands_at_a_time(
    launch: Launch, instruction: str, full: float, one: float
) -> None:
    """A sector of compare-and-swaps has two sectors of operands, a single lane's has 8 bytes."""
    keys = {"l2.slice_double_factor": 1.75, "l2.partitions": 2}
    machine = machine_from(load_gpu("h100-sxm").with_values(keys, source="a test"))
    (operation, _) = lower_machine_code(launch([instruction, "EXIT"]), machine, 1).programs[0].operations
    ticks, request = machine.l2_slices.atomic_sector_ticks, operation.request
    sectors = 8 if "64" in instruction else 4
    assert request.in_slice(32, sectors) == pytest.approx(full * ticks, rel=1e-5)
    assert request.in_slice(1, 1) == one * ticks
    assert request.in_slice(32, 32) == one * ticks
    assert request.past == (ticks if instruction.startswith("ATOMG") else ticks // 2)

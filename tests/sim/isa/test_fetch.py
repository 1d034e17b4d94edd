"""Instruction caches: what fits costs nothing, what does not is fetched again, and the engines agree."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.sim import Record
from smlab.sim.execution.run import MachineRun, run_machine_code
from smlab.sim.isa.launch.launch import MachineLaunch

TURNS = 6
LINE = 8
"""Instructions of a line."""
MISS = 79
"""What a line takes that L0 does not have and L1 has."""


def loop(lines: int, repetitions: int = TURNS) -> list[str]:
    """A loop as long as so many lines of code, turned so often; it begins after an instruction, so it lies in
    one more."""
    body = ["FADD R3, R3, R4"] * (lines * LINE - 3)
    tail = ["IADD3 R2, R2, -0x1, RZ", "ISETP.NE.AND P0, PT, R2, RZ, PT", "@P0 BRA `(again)"]
    return [f"MOV R2, {repetitions:#x}", "again:", *body, *tail, "EXIT"]


def with_caches(**changed: int) -> Gpu:
    values = {f"icache.{name}": value for name, value in changed.items()}
    return load_gpu("v100").with_values(values, source="assumed: a test", where="test")


def waiting(run: MachineRun) -> int:
    return run.result.stalls["no_instruction"]


Runner = Callable[[list[str], Gpu], int]


@pytest.fixture(params=["compiled", "simpy"], name="waits")
def waits_fixture(request: pytest.FixtureRequest, launch: Callable[..., MachineLaunch]) -> Runner:
    """Cycles for which one warp waits for instructions, in one of the engines."""

    def execute(lines: list[str], gpu: Gpu) -> int:
        return waiting(run_machine_code(launch(lines), gpu, engine=request.param, keep=Record.ALL))

    return execute


def test_a_loop_that_fits_waits_for_its_first_line_only(waits: Runner) -> None:
    """The others are asked for ahead and come while the first are executed."""
    v100 = load_gpu("v100")
    assert waits(loop(5), v100) == waits(loop(5, 60), v100) < MISS


def test_a_loop_beyond_l0_is_fetched_at_every_turn(waits: Runner) -> None:
    found = waits(loop(12), with_caches(l0_bytes=4 * 128, l0_ways=4, ahead_lines=0))
    assert found == pytest.approx(TURNS * 13 * (MISS - 1), rel=0.05)
    assert waits(loop(12), with_caches(ahead_lines=0)) < found / 4


def test_code_beyond_l1_comes_from_l2(waits: Runner) -> None:
    small = {"l0_bytes": 4 * 128, "l0_ways": 4, "ahead_lines": 0, "earlier_launches": 0}
    near = waits(loop(12), with_caches(**small))
    far = waits(loop(12), with_caches(**small, l1_bytes=4 * 128, l1_ways=4))
    l2 = load_gpu("v100").number("l2.latency_cycles")
    assert far - near == pytest.approx((TURNS - 1) * 13 * l2, rel=0.1)  # near, too, comes once
    # After an earlier launch the cache of the group has it.
    again = waits(loop(12), with_caches(**{**small, "earlier_launches": 1}, l1_bytes=4 * 128, l1_ways=4))
    assert again < near + TURNS * 13 * l2 / 2


def test_an_earlier_launch_may_leave_the_code_in_l0(waits: Runner) -> None:
    """With 2 no warp waits for its code, as long as L0 holds it."""
    assert waits(loop(12), with_caches(earlier_launches=2)) == 0 < waits(loop(12), with_caches())


def test_code_of_a_first_launch_comes_from_l2_once(waits: Runner) -> None:
    few = {"l0_bytes": 4 * 128, "l0_ways": 4, "ahead_lines": 0}
    warm, cold = (waits(loop(12), with_caches(**few, earlier_launches=n)) for n in (1, 0))
    assert cold - warm == pytest.approx(13 * load_gpu("v100").number("l2.latency_cycles"), rel=0.1)


def test_a_launch_brings_code_into_l1(waits: Runner) -> None:
    few = {"l0_bytes": 4 * 128, "l0_ways": 4, "ahead_lines": 0, "l1_miss_cycles": 50, "earlier_launches": 0}
    whole, half = (waits(loop(12), with_caches(**few, preloaded_bytes=128 * n)) for n in (13, 6))
    near = waits(loop(12), with_caches(**{**few, "earlier_launches": 1}))
    assert whole == near
    assert half - whole == pytest.approx(7 * (50 + load_gpu("v100").number("l2.latency_cycles")), rel=0.1)


def test_lines_asked_for_ahead_hide_misses(waits: Runner) -> None:
    small = {"l0_bytes": 16 * 128, "l0_ways": 16}
    assert (
        waits(loop(40), with_caches(**small, ahead_lines=8))
        < waits(loop(40), with_caches(**small, ahead_lines=0)) / 4
    )


def test_sub_cores_that_share_an_l0_share_its_room(launch: Callable[..., MachineLaunch]) -> None:
    """Two warps at places of their own fit into an L0 each, and not into one. At one place they share what is
    there."""
    loops = [line.replace("again", name) for name in ("first", "second") for line in loop(12)]
    room = {"l0_bytes": 16 * 128, "l0_ways": 16, "ahead_lines": 0, "earlier_launches": 1}

    def waits_of(sub_cores: int, lines: list[str]) -> list[int]:
        gpu = with_caches(**room, l0_sub_cores=sub_cores)
        runs = [
            run_machine_code(launch(lines, block=64), gpu, engine=engine, keep=Record.ALL)
            for engine in ("compiled", "simpy")
        ]
        assert runs[0].result.cycles == runs[1].result.cycles
        return [waiting(run) for run in runs]

    half = len(loops) // 2
    branch = ["S2R R5, SR_TID.X", "ISETP.GT.U32.AND P1, PT, R5, 0x1f, PT", "@P1 BRA `(other)"]
    two_places = [*branch, *loops[:half], "other:", *loops[half:]]
    own, shared = waits_of(1, two_places), waits_of(4, two_places)
    assert shared[0] > 2 * own[0]
    one_place = waits_of(1, loops[:half]), waits_of(4, loops[:half])
    assert one_place[1][0] < one_place[0][0]


def test_engines_agree_where_little_fits(launch: Callable[..., MachineLaunch]) -> None:
    few = {"l0_bytes": 2 * 128, "l0_ways": 1, "l1_bytes": 6 * 128, "l1_ways": 2}
    group = {"l1_miss_cycles": 50, "preloaded_bytes": 7 * 128}
    for sub_cores in (1, 2, 3, 4):
        gpu = with_caches(
            **few, **group, request_interval_cycles=3, earlier_launches=0, l0_sub_cores=sub_cores
        )
        one, other = (
            run_machine_code(launch(loop(11, 3), grid=3, block=160), gpu, engine=engine, keep=Record.ALL)
            for engine in ("compiled", "simpy")
        )
        assert one.result.cycles == other.result.cycles
        assert [i.stalls for i in one.instructions] == [i.stalls for i in other.instructions]
    assert waiting(one) > 0

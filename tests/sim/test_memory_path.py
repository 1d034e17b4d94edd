"""The memory path against the measurements that it is made of (Huerta et al., Burtchell and Burtscher)."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from small_kernels import fp32, issues, run
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.sim import Duration, Instruction, Loop
from smlab.sim.address_patterns import Strided

pytestmark = pytest.mark.usefixtures("engine")


@pytest.mark.parametrize(
    ("busy", "issued"),
    [
        (1, [[2, 3, 4, 5, 6, 13, 17, 21, 25]]),
        (2, [[2, 3, 4, 5, 6, 13, 17, 21, 25], [2, 3, 4, 5, 6, 15, 19, 23, 27]]),
        (
            3,
            [
                [2, 3, 4, 5, 6, 13, 19, 25, 31],
                [2, 3, 4, 5, 6, 15, 21, 27, 33],
                [2, 3, 4, 5, 6, 17, 23, 29, 35],
            ],
        ),
        (
            4,
            [
                [2, 3, 4, 5, 6, 13, 21, 29, 37],
                [2, 3, 4, 5, 6, 15, 23, 31, 39],
                [2, 3, 4, 5, 6, 17, 25, 33, 41],
                [2, 3, 4, 5, 6, 19, 27, 35, 43],
            ],
        ),
    ],
)
def test_independent_loads_issue_as_measured_on_an_a6000(busy: int, issued: list[list[int]]) -> None:
    """Huerta et al., 2025, Table 1, every row: issue cycles by instruction and busy sub-core."""
    body = (Instruction("shared-load"),) * 9
    trace = run(load_gpu("a6000"), *body, warps=busy).issues
    assert trace is not None
    shift = int(trace.cycle.min()) - 2
    assert [(trace.cycle[trace.warp == w] - shift).tolist() for w in range(busy)] == issued


@pytest.mark.parametrize(("warps", "measured"), [(1, 106), (2, 112), (3, 170), (4, 173), (8, 301)])
def test_the_data_stage_of_an_h100_works_on_two_loads_at_once(warps: int, measured: int) -> None:
    """Measured (datasets/measured/h100-sxm): loads of 32 words on a bank, first start to last result;
    reading the clock takes 21 cycles of it, as one load without conflict tells."""
    load = Instruction("shared-load", shared=Strided(32))
    jobs = run(load_gpu("h100-sxm"), load, warps=warps).jobs
    assert jobs is not None
    took = int(jobs.completion.max() - jobs.issue.min())
    assert took + 21 == pytest.approx(measured, abs=6)


@pytest.mark.parametrize("warps", [1, 2, 3, 4])
def test_one_sub_cores_jobs_follow_each_other_through_two_places(warps: int) -> None:
    """Measured on the same card: stores of one warp are 64 cycles apart, those of two, three and four warps
    one in 32."""
    stores = Loop(30, (Instruction("shared-store", shared=Strided(32)),))
    jobs = run(load_gpu("h100-sxm"), stores, warps=warps).jobs
    assert jobs is not None
    each = (jobs.start.max() - jobs.start.min()) / (len(jobs) - 1)
    assert each == pytest.approx(64 if warps == 1 else 32, rel=0.04)


@pytest.mark.parametrize(
    ("op", "width", "uniform", "read", "use"),
    [
        ("global-load", 32, True, 9, 29),
        ("global-load", 64, True, 9, 31),
        ("global-load", 128, True, 9, 35),
        ("global-load", 32, False, 11, 32),
        ("global-load", 64, False, 11, 34),
        ("global-load", 128, False, 11, 38),
        ("shared-load", 32, True, 9, 23),
        ("shared-load", 64, True, 9, 23),
        ("shared-load", 128, True, 9, 25),
        ("shared-load", 32, False, 9, 24),
        ("shared-load", 64, False, 9, 24),
        ("shared-load", 128, False, 9, 26),
        ("shared-store", 32, True, 10, None),
        ("shared-store", 64, True, 12, None),
        ("shared-store", 128, True, 16, None),
        ("shared-store", 32, False, 12, None),
        ("shared-store", 64, False, 14, None),
        ("shared-store", 128, False, 18, None),
        ("global-store", 32, False, 14, None),
        ("global-store", 64, False, 16, None),
        ("global-store", 128, False, 20, None),
        ("global-store", 32, True, 10, None),
        ("constant-load", 32, False, 29, 29),
        ("constant-load", 32, True, 10, 26),
        ("async-copy", 32, False, 13, 39),
    ],
)
def test_latencies_by_width_and_address_as_measured_on_an_a6000(
    op: str, width: int, uniform: bool, read: int, use: int | None
) -> None:
    """Huerta et al., 2025, Table 2: to the use of the result, and to when an operand may be overwritten.

    Global loads hit in L1: an access before has fetched the line.
    """
    gpu = load_gpu("a6000")
    own = Instruction(op, name="x", width=width, uniform=uniform)
    pause = Instruction("think", name="t", duration=Duration(2000))
    warm = (Instruction("global-load", width=width), pause) if global_op(op) else (pause,)
    own = dataclasses.replace(own, after=("t",))
    if use is not None:
        assert np.diff(issues(run(gpu, *warm, own, fp32("x"))))[-1] == pytest.approx(use, abs=1)
    overwrites = Instruction("fp32", after_read=("x",))
    assert np.diff(issues(run(gpu, *warm, own, overwrites)))[-1] == pytest.approx(read, abs=1)


def global_op(op: str) -> bool:
    return op in ("global-load", "async-copy")


@pytest.mark.parametrize(
    ("body", "cycles"),
    [
        (("shared-load",), 2),  # one request in two cycles
        (("constant-load",), 2),  # one constant load in two cycles
        (("shared-load", "constant-load"), 2),  # both side by side
    ],
)
def test_constant_loads_leave_the_data_path_to_others(body: tuple[str, ...], cycles: int) -> None:
    """Four sub-cores, 16 warps: the time of a round of loads by each warp, on an A6000."""
    rounds, warps = 40, 16
    loop = Loop(rounds, tuple(Instruction(op) for op in body))
    trace = run(load_gpu("a6000"), loop, warps=warps).issues
    assert trace is not None
    half = int(trace.cycle.max() - np.sort(trace.cycle)[len(trace.cycle) // 2])
    assert half / (rounds * warps / 2) == pytest.approx(cycles, rel=0.1)


@pytest.mark.parametrize("warps", [1, 2, 4, 8, 16, 32])
def test_a_barrier_takes_longer_the_more_warps_it_has(warps: int) -> None:
    """21 + 2 cycles a warp on an A100 (Burtchell and Burtscher, 2024)."""
    trace = run(load_gpu("a100-40"), Loop(20, (Instruction("barrier"),)), warps=warps).issues
    assert trace is not None
    assert np.diff(trace.cycle[trace.warp == 0])[-1] == pytest.approx(21 + 2 * warps, abs=1)


@pytest.mark.parametrize(("warps", "operations"), [(1, 30), (2, 20), (3, 16.7), (4, 15)])
def test_how_many_jobs_of_a_warp_an_h100_holds(warps: int, operations: float) -> None:
    """Measured on the same card, bursts with 32 lanes on a word: ten in each sub-core, twenty let in."""
    add = Loop(60, (Instruction("atomic-add", shared=Strided(0)),))
    jobs = run(load_gpu("h100-sxm"), add, warps=warps).jobs
    assert jobs is not None
    last = int(jobs.issue.max() - jobs.issue.min())
    assert last == pytest.approx(max(64, 32 * warps) * (60 - operations), rel=0.02)

"""What resident warps wait for, carried from GPU to GPU: against a closed system that is solved exactly."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smlab.hw_bench.gpu.descriptions import Gpu, list_gpus, load_gpu
from smlab.hw_bench.profiles.work.kernel_work import KernelWork
from smlab.models.projection.parallelism import resident_blocks
from smlab.models.projection.peak_rates import maxima_of
from smlab.models.projection.projection import ProjectionSwitches, project
from smlab.models.projection.residency import APART, Residency
from smlab.models.projection.uncertainty import FACTOR, NAMES, UNEXPLAINED
from smlab.models.roofline.ceilings import CeilingSwitches, ceilings
from smlab.models.roofline.clock import clock_ratios

TURING, AMPERE = load_gpu("rtx-2080-ti"), load_gpu("rtx-3090")


def kernel(gpu: Gpu, warps: int, service: float, waiting: float, **changed: Any) -> KernelWork:
    """Shared-memory accesses by ``warps`` resident warps of each SM, one block of a warp each, in many waves.

    Each warp's 1000 accesses take ``service`` cycles of the SM's arbiter and ``waiting`` cycles elsewhere, so
    that the SM's time is (N - 1) D + D + Z for N warps: the balanced job bounds with equality.
    """
    sms, clock = gpu.integer("gpu.sms"), float(gpu.number("clock.sm_hz"))
    waves, accesses = 50, 1000.0
    cycles = waves * accesses * ((warps - 1) * service + service + waiting)
    blocks = sms * warps * waves
    given_ = {
        "blocks": blocks,
        "threads_per_block": 32,
        "registers_per_thread": 32,
        "shared_bytes_per_block": gpu.integer("sm.shared_bytes") // warps // 256 * 256,
        "memory_requests": accesses * blocks,
        "resident_warps": warps,
        "instructions": accesses * blocks,
        "thread_instructions": 32 * accesses * blocks,
        **changed,
    }
    return KernelWork.of(["k"], [cycles / clock], **given_)


@pytest.mark.parametrize("warps", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("waiting", [0.0, 20.0, 500.0])
def test_what_an_sm_waits_for_takes_as_many_cycles_on_the_target(warps: int, waiting: float) -> None:
    """Requests take two cycles on both GPUs, so that the same warps on an SM take the same cycles for an SM's
    work."""
    work = kernel(TURING, warps, 2.0, waiting)
    found = project(work, TURING, AMPERE, ProjectionSwitches(launch_overhead=False))
    held = int(resident_blocks(AMPERE, 32, 32, work.shared_bytes_per_block)[0])
    sms = TURING.integer("gpu.sms") / AMPERE.integer("gpu.sms")
    hertz = TURING.number("clock.sm_hz") / AMPERE.number("clock.sm_hz")
    per_warp = 2.0 + waiting
    here, there = ((n - 1) * 2.0 + per_warp for n in (warps, held))
    expected = work.seconds[0] * hertz * sms * (there / held) / (here / warps)
    assert found.mid_s[0] == pytest.approx(expected, rel=0.03)


def test_a_request_ceiling_bounds_what_bytes_and_wavefronts_do_not() -> None:
    work = kernel(TURING, 16, 2.0, 0.0)
    top = maxima_of(TURING)
    with_, without = (ceilings(work, TURING, top, CeilingSwitches(requests=on)) for on in (True, False))
    assert with_.limiter[0] == "request"
    assert with_.efficiency[0] == pytest.approx(1.0, rel=0.01)
    assert without.efficiency[0] < 0.6
    faster = work.with_values(seconds=work.seconds / 1.2)
    assert ceilings(faster, TURING, top).exceeds[0]


def test_issue_bounds_integers_and_fp32_where_they_share_lanes() -> None:
    """Shared lanes are no bound of their own: they take all that the schedulers can issue."""
    sharing = [g for g in map(load_gpu, list_gpus()) if g.has("pipe.int32.lanes")]
    assert {g.name for g in sharing} >= {"rtx-3090", "rtx-4090", "gtx-1080-ti"}
    for gpu in sharing:
        work = KernelWork.of(["k"], [1.0], fp32_fma=32e12, instructions=2e12, integer_operations=32e12)
        bound = ceilings(work, gpu, "spec")
        lanes = float(gpu.number("peak.fp32_flops_per_s")) / 2
        assert bound.bound_s[0] >= 0.98 * 64e12 / lanes


def test_a_busy_kernel_carries_less_of_a_clock_above_the_rating() -> None:
    """Half of what is above it with no instruction, a quarter with one in every other cycle, none with one in
    each."""
    rated = float(TURING.number("clock.sm_hz"))
    slots = float(TURING.number("gpu.sms") * TURING.number("sm.schedulers")) * 1.21 * rated
    for issuing, carried in ((0.0, 1.1), (0.5, 1.21**0.25), (1.0, 1.0)):
        work = KernelWork.of(["k"], [2.0], instructions=2 * issuing * slots, clock_hz=1.21 * rated)
        assert clock_ratios(work, TURING, AMPERE).target == pytest.approx([carried])


def test_a_told_clock_of_the_source_is_the_one_that_it_ran_at() -> None:
    """Cycles stay: at 0.8 of the clock here, and one that is told there, a fifth of them are fewer."""
    work = kernel(TURING, 16, 2.0, 0.0)
    here, there = (float(gpu.number("clock.sm_hz")) for gpu in (TURING, AMPERE))
    times = [
        project(work, TURING, AMPERE, ProjectionSwitches(source_clock_hz=clock, target_clock_hz=there)).mid_s
        for clock in (here, 0.8 * here)
    ]
    assert times[1] / times[0] == pytest.approx(0.8, rel=0.01)


def test_a_clock_above_the_rating_is_carried_by_half_and_one_below_it_whole() -> None:
    rated = float(TURING.number("clock.sm_hz"))
    work = KernelWork.of(
        ["a", "b", "c"],
        [1.0] * 3,
        fp32_fma=1.0,
        clock_hz=[1.21 * rated, 0.8 * rated, np.nan],
        instructions=0.0,
    )
    found = clock_ratios(work, TURING, AMPERE)
    assert found.source == pytest.approx([1.21, 0.8, 1.0])
    assert found.target == pytest.approx([1.1, 0.8, 1.0])
    assert found.low == pytest.approx([1.0, 0.8, 1.0])
    assert found.high == pytest.approx([1.21, 0.8, 1.0])
    same = clock_ratios(work, TURING, TURING)
    assert same.target == pytest.approx(found.source)


@given(st.integers(1, 16), st.floats(0, 1000), st.floats(1.0, 1.2))
def test_onto_the_same_gpu_nothing_changes_and_nothing_is_uncertain(
    warps: int, waiting: float, clock: float
) -> None:
    hertz = clock * float(TURING.number("clock.sm_hz"))
    work = kernel(TURING, warps, 2.0, waiting, clock_hz=hertz)
    found = project(work, TURING, TURING)
    assert found.mid_s == pytest.approx(work.seconds)
    assert (found.low_s == found.mid_s).all()
    assert (found.high_s == found.mid_s).all()


def test_more_warps_hide_more_and_fewer_registers_make_room_for_them() -> None:
    """Few registers: the target holds more of the blocks, and the time falls towards its bound."""
    free = {"shared_bytes_per_block": 0.0, "resident_warps": 8.0}
    times = [
        project(kernel(TURING, 8, 2.0, 400.0, registers_per_thread=r, **free), TURING, AMPERE).mid_s[0]
        for r in (250, 120, 60, 32)
    ]
    assert times == sorted(times, reverse=True)


def test_parts_are_named_and_small_where_nothing_is_in_doubt() -> None:
    busy = project(kernel(TURING, 16, 2.0, 0.0), TURING, AMPERE, ProjectionSwitches(launch_overhead=False))
    parts = dict(zip(NAMES, busy.parts.log[0], strict=True))
    assert parts["unexplained"] == UNEXPLAINED
    assert parts["efficiency"] < 0.05
    waits = project(kernel(TURING, 16, 2.0, 60.0), TURING, AMPERE, ProjectionSwitches(launch_overhead=False))
    wide = dict(zip(NAMES, waits.parts.log[0], strict=True))
    assert wide["efficiency"] > parts["efficiency"]
    assert waits.high_s[0] / waits.mid_s[0] == pytest.approx(np.exp(FACTOR * waits.parts.width()[0]))
    assert waits.high_s[0] / waits.mid_s[0] == pytest.approx(waits.mid_s[0] / waits.low_s[0])


def test_a_launch_that_is_not_known_is_a_part_of_its_own() -> None:
    alone = KernelWork.of(["k"], [1e-3], dram_bytes=1e9, l2_bytes=1e9)
    found = project(alone, TURING, AMPERE)
    assert found.parts.log[0, NAMES.index("launch unknown")] > 0
    assert found.low_s[0] < found.mid_s[0] < found.high_s[0]


def test_levels_that_no_latency_can_be_trusted_for_are_held_near_the_other_two() -> None:
    one = np.ones(1)
    known = np.array([True])
    r = Residency(2 * one, 3 * one, one, one, one, ~known, known)
    assert r.best(np.array([100.0]))[0] == pytest.approx(3 * APART)
    assert r.best(np.array([0.1]))[0] == pytest.approx(2 / APART)
    assert r.best(np.array([2.5]))[0] == 2.5
    assert replace(r, applies=known).best(np.array([2.5]))[0] == 2.0

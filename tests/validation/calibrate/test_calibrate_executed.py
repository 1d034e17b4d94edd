"""Calibration on times that machine code took in the simulator: the constants come back, what no constant
stands for is noticed. All of it thorough: the suite is compiled and run for each queue depth."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import pytest

from smlab.hw_bench.cuda import toolkit
from smlab.hw_bench.cuda.measuring import plan
from smlab.hw_bench.cuda.measuring.batch import Batch
from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.validation.calibrate.executed import Noise, execute_suite
from smlab.validation.calibrate.recovery import recover_executed

pytestmark = pytest.mark.thorough

DEPTHS = (8, 16, 23, 32)
PROFILE = replace(
    plan.PROFILES["quick"],
    repetitions=3,  # the first finds the code not yet in the instruction caches
    warps=(1, 2, 4, 8, 16, 32),
    lanes=(1, 2, 4, 8, 16, 32),
    cas_steps=2,
    loop_lanes=(1, 4, 8, 32),
    bursts=(4, 8, 16, 32, 64),
    pattern_warps=(1, 8),
)
START = {
    "gpu.sms": 1,
    "atomic.queue_entries": 12,
    "mio.queue_entries": 8,
    "atomic.add.latency_cycles": 45,
    "atomic.add.base_interval_cycles": 6.0,
    "atomic.cas.pass_interval_cycles": 1.5,
}
"""Where the fit begins: off in what it must find."""


def truth(depth: int) -> Gpu:
    return load_gpu("a100-40").with_values(
        {"gpu.sms": 1, "atomic.queue_entries": depth}, source="assumed: test"
    )


@lru_cache
def batches(depth: int) -> dict[str, list[Batch]]:
    if not toolkit.has_compiler():
        pytest.skip("machine code not executed: the extra cuda12 is not installed")
    from smlab.commands.bench.on_simulator import BenchmarkGpu

    return execute_suite(BenchmarkGpu(truth(depth)), PROFILE)


def start() -> Gpu:
    return load_gpu("a100-40").with_values(START, source="assumed: test")


def switching(row: Mapping[str, Any]) -> float:
    """6 cycles whenever an operation of the other kind comes."""
    n, c = row["warps"], row["cas_warps"]
    return 12.0 * min(c, n - c) * row["iterations"] if 0 < c < n else 0.0


def convex(row: Mapping[str, Any]) -> float:
    """A cost of lanes that grows with their square: 8 cycles for 32 lanes on one word."""
    if row["operation"] == "none":
        return 0.0
    return 0.008 * (row["same_word"] * row["same_bank"]) ** 2 * row["warps"] * row["iterations"]


def test_constants_come_back_at_each_depth() -> None:
    found = [
        recover_executed(truth(d), start(), batches(d), 30, noise=Noise(), seed=1000 * d) for d in DEPTHS
    ]
    assert sum(f.together for f in found) >= 106
    assert max(f.queue_half_width for f in found) <= 3
    assert sum(f.lacking for f in found) <= 12


@pytest.mark.parametrize("hidden", [switching, convex])
def test_what_no_constant_stands_for_is_noticed(hidden: Callable[[Mapping[str, Any]], float]) -> None:
    found = recover_executed(truth(16), start(), batches(16), 30, noise=Noise(), hidden=hidden)
    assert found.lacking >= 27


@pytest.mark.parametrize("noise", [Noise(outliers=0.05), Noise(launch=0.03)], ids=["outliers", "launches"])
def test_outliers_and_noise_of_launches_are_survived(noise: Noise) -> None:
    found = recover_executed(truth(16), start(), batches(16), 30, noise=noise)
    assert found.together >= 27


@pytest.mark.parametrize("noise", [Noise(drift=0.05), Noise(freedom=3)], ids=["drift", "heavy tails"])
def test_each_interval_holds_under_drift_and_heavy_tails(noise: Noise) -> None:
    """All together they hold less often than 27 times of 30, under drift 25 times."""
    found = recover_executed(truth(16), start(), batches(16), 30, noise=noise)
    assert min(found.by_constant.values()) >= 27


def test_warps_that_start_apart_are_survived_or_noticed() -> None:
    """Rows whose warps start far apart for what they take are left out; the others are longer by some
    cycles."""
    noise = Noise(stagger_cycles=8)
    found = recover_executed(truth(16), start(), batches(16), 30, noise=noise)
    assert min(found.by_constant.values()) >= 27 or found.lacking >= 27

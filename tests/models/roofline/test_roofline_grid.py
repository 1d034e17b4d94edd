"""The parallelism ceiling of a kernel: Little's law by hand, what a measurement shows, and what it cannot
show."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.profiles.work.kernel_work import KernelWork
from smlab.models.projection.grid import ENOUGH, USES, mean_latency_cycles
from smlab.models.roofline.ceilings import CeilingSwitches, ceilings

V100 = load_gpu("v100")


def stream(seconds: float, blocks: int = 80, threads: int = 32) -> KernelWork:
    """846 GB through DRAM, nothing used again, by blocks of ``threads``."""
    return KernelWork.of(
        ["k"],
        seconds,
        l1_bytes=846e9,
        l2_bytes=846e9,
        dram_bytes=846e9,
        blocks=blocks,
        threads_per_block=threads,
    )


def share(w: KernelWork, use: str) -> float:
    return float(ceilings(w, V100).grid.of(use)[0])


def per_warp(w: KernelWork, use: str) -> float:
    seen = ceilings(w, V100).seen
    assert seen is not None
    return float(seen.per_warp[0, USES.index(use)])


def test_few_warps_cannot_keep_the_memory_busy() -> None:
    """One warp an SM with 128 bytes under way; 846 GB/s for 375 cycles are 22.45 such warps on each of 80
    SMs."""
    needed = 846e9 / 80 / 1.38e9 * 375 / 128
    assert needed == pytest.approx(22.45, abs=0.01)
    slow = stream(1000.0)
    assert per_warp(slow, "dram") == 128
    assert share(slow, "dram") == pytest.approx(1 / needed)
    assert share(stream(1000.0, blocks=80 * 16 * 8, threads=128), "dram") == pytest.approx(1.0)


def test_a_measurement_shows_what_was_under_way_at_least() -> None:
    """Half of the memory's bandwidth by one warp an SM: each had half of 22.45 requests under way."""
    w = stream(2.0)
    assert per_warp(w, "dram") >= 128 * 22.45 / 2 * 0.999
    assert share(w, "dram") == pytest.approx(0.5, rel=0.02)
    assert ceilings(w, V100).level_s[0] == pytest.approx([2.0] * 3, rel=0.02)


def test_a_saturated_memory_does_not_show_what_more_there_is() -> None:
    w = stream(1.05)
    assert per_warp(w, "dram") >= ENOUGH
    assert share(w, "dram") == pytest.approx(1.0)


def test_idle_sms_and_the_tail_cost_the_sm() -> None:
    """40 blocks on 80 SMs use half of the pipes; 120 take as long as 160; 80 lose nothing."""
    w = KernelWork.of(
        ["half", "whole", "tail"],
        10.0,
        fp32_fma=1e12,
        instructions=1e12 / 32,
        blocks=[40.0, 80.0, 120.0],
        threads_per_block=1024,
    )
    grid = ceilings(w, V100).grid
    assert grid.of("issue") == pytest.approx([0.5, 1.0, 0.75])
    assert grid.busy_sms == pytest.approx([0.5, 1.0, 1.0])


def test_an_unknown_launch_has_no_ceiling() -> None:
    w = KernelWork.of(["k"], 1.0, dram_bytes=1e9)
    grid = ceilings(w, V100).grid
    assert not grid.known[0]
    assert (grid.share == 1).all()


def test_latency_is_that_of_the_mix() -> None:
    """A V100: FP32 4 cycles, FP64 8, integers 4."""
    w = KernelWork.of(
        ["a", "b", "c"], 1.0, fp32_fma=[32.0, 0, 0], fp64_fma=[0, 32.0, 0], instructions=[1.0, 1.0, 2.0]
    )
    assert mean_latency_cycles(w, V100) == pytest.approx([4.0, 8.0, 4.0])
    half = KernelWork.of(["a"], 1.0, fp64_fma=32.0, instructions=2.0)
    assert mean_latency_cycles(half, V100) == pytest.approx([6.0])


@given(
    st.integers(1, 60).map(lambda waves: 80 * waves),
    st.sampled_from((32, 128, 1024)),
    st.floats(1e6, 1e12),
    st.floats(1, 10),
    st.floats(1, 10),
    st.floats(1.01, 1e4),
)
def test_the_ceilings_of_memory_allow_what_was_measured(
    blocks: int, threads: int, dram: float, l2: float, l1: float, slower: float
) -> None:
    """Where all transfers, one after the other at full bandwidth, fit the time, they do with the grid's share
    as well.

    The grid is as many blocks on each SM: idle SMs and a tail take from L1 what no concurrency can give back.
    """
    full = KernelWork.of(["k"], 1.0, dram_bytes=dram, l2_bytes=dram * l2, l1_bytes=dram * l2 * l1)
    at_best = np.nanmax(ceilings(full, V100, switches=CeilingSwitches(parallelism=False)).level_s)
    w = full.with_values(
        seconds=np.array([at_best * slower]),
        blocks=np.array([float(blocks)]),
        threads_per_block=np.array([float(threads)]),
    )
    found = ceilings(w, V100)
    assert ((found.grid.share > 0) & (found.grid.share <= 1)).all()
    assert np.nanmax(found.level_s) <= w.seconds[0] * 1.05

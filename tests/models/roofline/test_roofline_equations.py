"""Eq. 1 to 10 of Van Lanker et al. 2024 on numbers worked by hand, V100's from their Table 1 (GFLOP/s and
GB/s)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smlab.models.roofline import equations as eq

PERF, DRAM, L2, L1 = 6890.0, 846.0, 2460.0, 13963.0
rates = st.floats(1.0, 1e6)
counts = st.integers(0, 10**12)


def test_eq_1_below_and_above_the_ridge() -> None:
    assert eq.roofline(1.0, DRAM, PERF) == 846.0
    assert eq.roofline(100.0, DRAM, PERF) == 6890.0
    assert eq.roofline(PERF / DRAM, DRAM, PERF) == pytest.approx(PERF)
    assert eq.roofline(np.inf, DRAM, PERF) == PERF


def test_eq_2_mixes_by_instructions() -> None:
    """3 fma and 1 add: 7 FLOPs in 4 instructions, each as long as an fma: 7/8 of the peak."""
    assert eq.mixed_peak(3, 1, 0, PERF, PERF / 2) == pytest.approx(PERF * 7 / 8)
    assert eq.mixed_peak(5, 0, 0, PERF, PERF / 2) == PERF
    assert eq.mixed_peak(0, 2, 7, PERF, PERF / 2) == PERF / 2
    assert np.isnan(eq.mixed_peak(0, 0, 0, PERF, PERF / 2))


@given(counts, counts, counts, rates)
def test_eq_2_is_the_rate_of_instructions_of_equal_length(fma: int, add: int, mul: int, peak: float) -> None:
    if fma + add + mul == 0:
        return
    instructions_per_s = peak / 2
    flops = 2 * fma + add + mul
    seconds = (fma + add + mul) / instructions_per_s
    assert eq.mixed_peak(fma, add, mul, peak, peak / 2) == pytest.approx(flops / seconds)


def test_eq_4_and_5_are_times() -> None:
    assert eq.transfer_seconds(1692e9, DRAM * 1e9) == pytest.approx(2.0)
    assert eq.transfer_seconds(0.0, DRAM) == 0.0
    # 64 bytes a cycle where 128 would pass: a two-way conflict takes twice as long
    whole = eq.shared_seconds(1e12, 128.0, L1 * 1e9)
    assert whole == pytest.approx(1e12 / (L1 * 1e9))
    assert eq.shared_seconds(1e12, 64.0, L1 * 1e9) == pytest.approx(2 * whole)
    assert eq.shared_seconds(0.0, 0.0, L1) == 0.0


@given(st.floats(1, 1e9), st.floats(1, 128), rates)
def test_eq_5_by_passes_is_eq_5_by_bytes(bytes_: float, each: float, bandwidth: float) -> None:
    assert eq.shared_seconds(bytes_, each, bandwidth) == pytest.approx(
        eq.shared_seconds(bytes_ / each, 1.0, bandwidth)
    )


def test_eq_6_to_8_are_harmonic_means() -> None:
    """Hits of 100, 200 and 300 GB at 10, 5 and 1 TB/s: 10, 40 and 300 s/1000, and 128 GB of shared memory
    in 20."""
    served, seconds = np.array([100.0, 200.0, 300.0]), np.array([0.01, 0.04, 0.3])
    found = eq.bandwidth_ceilings(served, seconds, 128.0, 0.02)
    assert found == pytest.approx([728 / 0.37, 500 / 0.34, 1000.0])
    assert eq.bandwidth_ceilings(served, seconds, 0.0, 0.0)[0] == pytest.approx(600 / 0.35)


def test_eq_6_to_8_of_one_level_only() -> None:
    """All from DRAM: the three ceilings are DRAM's. All from L1: nothing passes the others."""
    assert eq.bandwidth_ceilings([0.0, 0.0, DRAM], [0.0, 0.0, 1.0], 0.0, 0.0) == pytest.approx([DRAM] * 3)
    found = eq.bandwidth_ceilings([L1, 0.0, 0.0], [1.0, 0.0, 0.0], 0.0, 0.0)
    assert found[0] == L1
    assert np.isnan(found[1:]).all()


@given(st.lists(st.floats(1, 1e9), min_size=3, max_size=3))
def test_a_ceiling_is_between_the_bandwidths_it_is_made_of(served: list[float]) -> None:
    bandwidth = np.array([L1, L2, DRAM])
    found = eq.bandwidth_ceilings(served, np.array(served) / bandwidth, 0.0, 0.0)
    assert (found <= bandwidth * (1 + 1e-12)).all()
    assert (found >= DRAM * (1 - 1e-12)).all()
    assert found[0] >= found[1] * (1 - 1e-12)
    assert found[1] >= found[2] * (1 - 1e-12)


def test_eq_9_keeps_the_share_of_the_roofline() -> None:
    """423 of 846 on the V100 is half; half of the A100's 1375."""
    assert eq.projected(423.0, 846.0, 1375.0) == 687.5


def test_eq_10_has_limits() -> None:
    assert eq.operational_intensity(10.0, 40.0) == 0.25
    assert eq.operational_intensity(10.0, 0.0) == np.inf
    assert np.isnan(eq.operational_intensity(0.0, 0.0))

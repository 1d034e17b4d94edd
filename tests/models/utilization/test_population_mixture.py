"""Networks whose population changes: the mixture has the counted mean, and agrees with the exact network
without draining."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smlab.models import solve_machine_repairman
from smlab.models.utilization.closed_network import Mixture, members_of

SERVICE = 3.0 + 25.0 / np.arange(1, 65)


@given(warps=st.floats(0.05, 64), ratio=st.floats(1, 20))
def test_populations_are_whole_and_their_mean_is_the_counted_one(warps: float, ratio: float) -> None:
    peak = min(64.0, warps * ratio)
    populations, weights = members_of(np.array([warps]), np.array([max(peak, warps)]))
    assert (populations == np.floor(populations)).all()
    assert (weights >= -1e-12).all()
    assert weights.sum() == pytest.approx(1)
    assert (weights * populations).sum() == pytest.approx(warps)
    assert populations[weights > 0].max() <= np.ceil(max(peak, warps) + 1e-9)


@given(warps=st.integers(1, 64), think=st.floats(0.5, 1e6))
def test_one_population_is_the_exact_network(warps: int, think: float) -> None:
    w = np.array([float(warps)])
    throughput, busy, queue = Mixture(w, w, SERVICE[None, :]).answers(np.array([think]))
    exact = solve_machine_repairman(SERVICE[:warps], think, warps)
    assert throughput[0] == pytest.approx(float(exact.throughput), rel=1e-9)
    assert busy[0] == pytest.approx(float(exact.utilization), rel=1e-9)
    assert queue[0] == pytest.approx(float(exact.queue_length), rel=1e-9)


@given(think=st.floats(1e-12, 1e-3))
def test_a_think_time_near_zero_is_the_saturated_network(think: float) -> None:
    w, peak = np.array([20.0]), np.array([32.0])
    network = Mixture(w, peak, SERVICE[None, :])
    for found, limit in zip(network.answers(np.array([think])), network.saturated(), strict=True):
        assert found[0] == pytest.approx(limit[0], rel=2e-3)


def test_a_population_that_runs_out_is_the_average_over_its_levels() -> None:
    """Against the exact networks of 32, 31, ... 1 warps, each for as long as the next, and the full one
    for a while."""
    think, peak, full = 400.0, 32, 0.6
    levels = (np.arange(1000) + 0.5) / 1000 * peak
    exact = np.zeros(2)
    for level, weight in [(float(peak), full), *((x, (1 - full) / 1000) for x in levels)]:
        for population, part in ((int(level), 1 - level % 1), (int(level) + 1, level % 1)):
            if part and population:
                solved = solve_machine_repairman(SERVICE[:population], think, population)
                exact += weight * part * np.array([float(solved.throughput), float(solved.utilization)])
    mean = full * peak + (1 - full) * peak / 2
    found = Mixture(np.array([mean]), np.array([float(peak)]), SERVICE[None, :]).answers(np.array([think]))
    assert [found[0][0], found[1][0]] == pytest.approx(exact.tolist(), rel=0.01)
    constant = Mixture(np.array([mean]), np.array([mean]), SERVICE[None, :]).answers(np.array([think]))
    assert constant[1][0] > found[1][0] * 1.01  # the mean population alone overrates utilization

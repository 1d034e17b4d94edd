"""Closed systems: the simulator against exact queuing results, and the averages taken from a trace."""

import numpy as np
import pytest

from smlab.hw_bench.errors import SmlabError
from smlab.models import solve_machine_repairman
from smlab.sim.result import JobTrace
from smlab.sim.simulate import DEFAULT_ENGINE
from smlab.sim.workloads.workload import NO_WARP, Duration
from smlab.validation.checks.theory import (
    KNOWN_THROUGHPUT,
    SERVICE,
    THINK,
    coverage_trials,
    exact,
    replications,
    small_truth,
)
from smlab.validation.laws.closed_system import (
    LATENCY_CYCLES,
    Window,
    closed_kernel,
    gaps_between_completions,
    run_closed,
    steady_state,
    steady_window,
    theory_gpu,
)
from smlab.validation.method.statistics import mean_interval


def trace(issue: list[int], completion: list[int], warp: list[int]) -> JobTrace:
    rows = [
        (0, k, w, 0, 3, 9, 32, 1, i, i, c - 1, c, i)
        for k, (i, c, w) in enumerate(zip(issue, completion, warp, strict=True))
    ]
    return JobTrace.from_rows(rows)


def test_steady_state_by_hand() -> None:
    jobs = trace([0, 12, 20, 45, 48], [10, 18, 30, 50, 55], [0, 1, 0, 0, 1])
    window = Window(10, 50)
    found = steady_state(jobs, window)
    assert found.throughput == pytest.approx(3 / 40)
    assert found.utilization == pytest.approx((6 + 10 + 5) / 40)
    assert found.queue_length == pytest.approx((6 + 10 + 5 + 2) / 40)
    assert gaps_between_completions(jobs, window).tolist() == [8, 12, 20]


def test_a_window_in_which_a_warp_finishes_is_refused() -> None:
    jobs = trace([0, 12, 20, 45, 48], [10, 18, 30, 50, 55], [0, 1, 0, 0, 1])
    with pytest.raises(SmlabError, match="a warp finished within the window .got 50; expected later than 51"):
        steady_state(jobs, Window(10, 51))


def test_the_window_is_where_it_should_be() -> None:
    assert steady_window(100, Duration(30), Duration(10)) == Window(600, 2400)


def test_fixed_times_give_the_cycle_time_exactly() -> None:
    kernel = closed_kernel(1, 50, Duration(100), Duration(30))
    cycle = 100 + 30 + LATENCY_CYCLES
    found = steady_state(run_closed(kernel, theory_gpu(), 0), Window(10 * cycle, 30 * cycle))
    assert found.throughput == pytest.approx(1 / cycle)
    assert found.utilization == pytest.approx((30 + LATENCY_CYCLES) / cycle)


def test_many_warps_make_two_blocks_and_some_do_compare_and_swap() -> None:
    kernel = closed_kernel(35, 1, Duration(5), cas_warps=20)
    assert kernel.blocks == 2
    flat = [role for row in kernel.roles for role in row]
    assert flat.count(NO_WARP) == 1
    assert (flat.count(1), flat.count(0)) == (20, 15)


@pytest.mark.parametrize("population", [2, 16, 64])
def test_the_simulator_agrees_with_the_exact_solution(population: int) -> None:
    found = replications(population, 20, 200 * max(1, 8 // population), 7, DEFAULT_ENGINE)
    for column, truth in zip(found.T, exact(population), strict=True):
        interval = mean_interval(column, 0.9999)
        assert interval.contains(truth), (interval, truth)
        # The interval is tight enough to mean something.
        assert interval.half_width < 0.2 * truth


def test_the_comparison_would_see_a_server_that_is_a_tenth_too_slow() -> None:
    found = replications(64, 20, 200, 7, DEFAULT_ENGINE)
    slow = solve_machine_repairman(np.full(64, 1.1 * SERVICE), THINK + LATENCY_CYCLES, 64)
    assert not mean_interval(found[:, 1], 0.9999).contains(float(slow.queue_length))


def test_the_scaled_system_is_the_known_machine_repairman() -> None:
    throughput = float(solve_machine_repairman(np.full(64, SERVICE), THINK, 64).throughput)
    assert throughput * SERVICE == pytest.approx(KNOWN_THROUGHPUT, abs=1e-6)


def test_intervals_cover_as_often_as_they_say() -> None:
    """Nominal 95 %, observed 90 to 98 % over 400 trials of a small closed system."""
    covered = coverage_trials(400, 20250301, DEFAULT_ENGINE)
    assert covered.refused <= 20
    assert 0.90 <= covered.held / (covered.trials - covered.refused) <= 0.98
    assert small_truth() > 20

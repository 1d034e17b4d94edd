"""Operational laws are identities: they must hold exactly for any trace that anybody can write down."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smlab.hw_bench.errors import SmlabError
from smlab.models.operational import (
    Observation,
    asymptotic_bounds,
    balanced_job_bounds,
    bottleneck,
    flow_imbalance,
    forced_flow_law,
    interactive_response_time_law,
    is_flow_balanced,
    littles_law,
    response_time_law,
    utilization_law,
)

stays = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 20)), min_size=1, max_size=15)
exact = st.fractions(min_value=Fraction(1, 100), max_value=100, max_denominator=100)
demand_lists = st.lists(exact, min_size=1, max_size=6)
think_times = st.just(Fraction(0)) | exact
populations = st.integers(1, 40)


def observe(stays: list[tuple[int, int]], length: int) -> Observation:
    """What an observer of [0, length) counts, cycle by cycle, of jobs present (from, for how long)."""
    present = [sum(a <= t < a + r for a, r in stays) for t in range(length)]
    arrivals = sum(a < length for a, _ in stays)
    completions = sum(a + r <= length for a, r in stays)
    return Observation(length, arrivals, completions, sum(n > 0 for n in present), sum(present))


@given(stays)
def test_laws_hold_exactly_on_a_trace_that_starts_and_ends_empty(stays: list[tuple[int, int]]) -> None:
    seen = observe(stays, 80)
    mean_stay = Fraction(sum(r for _, r in stays), len(stays))
    assert seen.response_cycles == mean_stay
    assert seen.queue_length == littles_law(seen.throughput, mean_stay)
    assert seen.utilization == utilization_law(seen.throughput, seen.service_cycles)
    assert is_flow_balanced(seen)
    assert flow_imbalance(seen) == 0
    assert 0 <= seen.utilization <= 1
    assert seen.utilization <= seen.queue_length
    assert seen.service_cycles <= seen.response_cycles


@given(stays, st.integers(1, 80))
def test_laws_are_identities_on_a_cut_trace_too(stays: list[tuple[int, int]], length: int) -> None:
    seen = observe(stays, length)
    if seen.completions:
        assert seen.queue_length == littles_law(seen.throughput, seen.response_cycles)
        assert seen.utilization == utilization_law(seen.throughput, seen.service_cycles)
        imbalance = abs(flow_imbalance(seen))
        assert is_flow_balanced(seen, imbalance)
        assert imbalance == 0 or not is_flow_balanced(seen, imbalance * Fraction(99, 100))


@given(st.lists(stays, min_size=1, max_size=4), st.integers(1, 20))
def test_stations_add_up_to_their_system(traces: list[list[tuple[int, int]]], jobs: int) -> None:
    """Forced flow and the response-time law, with the visits counted on each station's own trace."""
    stations = [observe(trace, 80) for trace in traces]
    system_throughput = Fraction(jobs, 80)
    visits = [Fraction(int(s.completions), jobs) for s in stations]
    for station, v in zip(stations, visits, strict=True):
        assert forced_flow_law(system_throughput, v) == station.throughput
    response = response_time_law(visits, [s.response_cycles for s in stations])
    assert littles_law(system_throughput, response) == sum(s.queue_length for s in stations)


def test_numbers_by_hand() -> None:
    seen = Observation(length_cycles=20, arrivals=7, completions=10, busy_cycles=16, job_cycles=40)
    assert seen.utilization == Fraction(4, 5)
    assert seen.throughput == Fraction(1, 2)
    assert seen.service_cycles == Fraction(8, 5)
    assert seen.queue_length == 2
    assert seen.response_cycles == 4
    assert flow_imbalance(seen) == Fraction(-3, 10)
    assert is_flow_balanced(seen, Fraction(3, 10))
    assert not is_flow_balanced(seen, 0.29)


def test_exact_in_exact_out_and_float_in_float_out() -> None:
    assert isinstance(Observation(3, 1, 1, 1, 1).utilization, Fraction)
    assert isinstance(Observation(np.int64(3), np.int64(1), 1, 1, 1).utilization, Fraction)
    assert isinstance(Observation(3.0, 1, 1, 1, 1).utilization, float)
    assert isinstance(utilization_law(1, 2), Fraction)
    assert isinstance(utilization_law(1, 2.0), float)
    assert isinstance(asymptotic_bounds([1, 2], 3, 4).throughput_low, Fraction)


@given(think_times, exact, populations)
def test_interactive_law_is_littles_law_of_the_whole_loop(z: Fraction, r: Fraction, n: int) -> None:
    assert interactive_response_time_law(n, Fraction(n) / (r + z), z) == r


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ((0, 1, 1, 0, 0), "length_cycles: an empty observation period"),
        ((10, 1, 1, 11, 11), "busy_cycles: busy for longer than observed"),
        ((10, 1, 1, 5, 4), "job_cycles: busy without a job"),
        ((10, -1, 1, 5, 5), "arrivals: not a usable quantity"),
        ((10, 1, float("nan"), 5, 5), "completions: not a usable quantity"),
        ((float("inf"), 1, 1, 5, 5), "length_cycles: not a usable quantity"),
    ],
)
def test_impossible_observations_are_refused(numbers: tuple[float, ...], message: str) -> None:
    with pytest.raises(SmlabError, match=message):
        Observation(*numbers)


def test_what_does_not_exist_is_refused() -> None:
    idle = Observation(10, 2, 0, 4, 4)
    with pytest.raises(SmlabError, match="no job completed, a service time does not exist"):
        _ = idle.service_cycles
    with pytest.raises(SmlabError, match="no job completed, a response time does not exist"):
        _ = idle.response_cycles
    with pytest.raises(SmlabError, match="no job completed, its flow balance does not exist"):
        flow_imbalance(idle)
    assert not is_flow_balanced(idle, 10)
    with pytest.raises(SmlabError, match="throughput: no job completes"):
        interactive_response_time_law(4, 0, 1)
    with pytest.raises(SmlabError, match="visits: one number a station"):
        response_time_law([1, 2], [1])
    with pytest.raises(SmlabError, match="no station has a demand"):
        asymptotic_bounds([0, 0], 1, 1)
    with pytest.raises(SmlabError, match=r"demands_cycles\[1\]: not a usable quantity"):
        balanced_job_bounds([1, -1], 1, 1)
    for customers in (0, 1.5, float("nan"), float("inf")):
        with pytest.raises(SmlabError, match="customers: not a population"):
            asymptotic_bounds([1], 1, customers)


def test_rounding_of_floats_is_not_an_error_but_exact_excess_is() -> None:
    thirds = 0.1 + 0.2  # a little above 0.3
    assert Observation(0.3, 1, 1, thirds, thirds).utilization == pytest.approx(1)
    with pytest.raises(SmlabError, match="busy_cycles"):
        Observation(Fraction(3, 10), 1, 1, Fraction(3, 10) + Fraction(1, 10**20), 1)


@given(demand_lists, think_times, populations)
def test_balanced_job_bounds_lie_inside_the_asymptotic_ones(d: list[Fraction], z: Fraction, n: int) -> None:
    outer, inner = asymptotic_bounds(d, z, n), balanced_job_bounds(d, z, n)
    assert outer.throughput_low <= inner.throughput_low <= inner.throughput_high <= outer.throughput_high
    assert outer.response_low_cycles <= inner.response_low_cycles
    assert inner.response_low_cycles <= inner.response_high_cycles <= outer.response_high_cycles


@given(demand_lists, think_times, populations)
def test_bounds_on_x_and_r_are_the_same_statement(d: list[Fraction], z: Fraction, n: int) -> None:
    for bounds in (asymptotic_bounds(d, z, n), balanced_job_bounds(d, z, n)):
        assert interactive_response_time_law(n, bounds.throughput_high, z) == bounds.response_low_cycles
        assert interactive_response_time_law(n, bounds.throughput_low, z) == bounds.response_high_cycles


@given(exact, st.integers(1, 8), populations)
def test_balanced_network_without_think_time_leaves_no_gap(demand: Fraction, count: int, n: int) -> None:
    bounds = balanced_job_bounds([demand] * count, 0, n)
    assert bounds.throughput_low == bounds.throughput_high == Fraction(n, n + count - 1) / demand


@given(demand_lists, think_times)
def test_one_customer_never_queues(d: list[Fraction], z: Fraction) -> None:
    for bounds in (asymptotic_bounds(d, z, 1), balanced_job_bounds(d, z, 1)):
        assert bounds.throughput_low == bounds.throughput_high == 1 / (sum(d) + z)


@given(demand_lists, think_times)
def test_a_station_without_demand_changes_no_bound(d: list[Fraction], z: Fraction) -> None:
    assert asymptotic_bounds([*d, 0], z, 5) == asymptotic_bounds(d, z, 5)
    assert balanced_job_bounds([0, *d], z, 5) == balanced_job_bounds(d, z, 5)


@given(demand_lists, think_times)
def test_throughput_bounds_rise_with_the_population(d: list[Fraction], z: Fraction) -> None:
    for law in (asymptotic_bounds, balanced_job_bounds):
        for less, more in pairwise([law(d, z, n) for n in range(1, 12)]):
            assert less.throughput_low <= more.throughput_low
            assert less.throughput_high <= more.throughput_high


@given(demand_lists, think_times)
def test_asymptotes_cross_at_the_saturation_point(d: list[Fraction], z: Fraction) -> None:
    found = bottleneck({f"s{k}": value for k, value in enumerate(d)}, z)
    assert found.demand_cycles == max(d)
    assert found.stations == tuple(f"s{k}" for k, value in enumerate(d) if value == max(d))
    assert found.saturation_customers / (sum(d) + z) == found.throughput_limit
    below, above = int(found.saturation_customers), int(found.saturation_customers) + 1
    assert asymptotic_bounds(d, z, above).throughput_high == found.throughput_limit
    assert asymptotic_bounds(d, z, below).throughput_high == Fraction(below) / (sum(d) + z)


def test_bottleneck_by_hand() -> None:
    found = bottleneck({"atomic": 4, "alu": 2, "load": 4, "none": 0}, 30)
    assert found.stations == ("atomic", "load")
    assert found.saturation_customers == 10
    assert found.throughput_limit == Fraction(1, 4)

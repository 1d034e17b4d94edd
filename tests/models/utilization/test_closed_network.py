"""Closed networks: three methods that share nothing, closed forms, and the bounds that none may leave."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operational import asymptotic_bounds, balanced_job_bounds
from smlab.hw_bench.errors import SmlabError
from smlab.models.utilization.closed_network import Station, solve, solve_machine_repairman

cycles = st.integers(1, 400).map(lambda k: k / 4)  # exact in binary, so that fractions can check it
rates = st.integers(1, 40).map(lambda k: k / 8)
thinks = st.just(0.0) | cycles
CUSTOMERS = 6


@st.composite
def networks(draw: st.DrawFn, kinds: str = "fld") -> list[Station]:
    """1 to 4 stations of the kinds f(ixed rate), l(oad-dependent), d(elay)."""
    stations = []
    for k, kind in enumerate(draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=4))):
        demand = draw(cycles)
        load = st.lists(rates, min_size=CUSTOMERS, max_size=CUSTOMERS)
        multipliers = tuple(draw(load)) if kind == "l" else None
        stations.append(Station(f"s{k}", demand, multipliers, is_delay=kind == "d"))
    return stations


def exact_states(stations: Sequence[Station], think: float, n: int) -> dict[tuple[int, ...], Fraction]:
    """The product form, in fractions, over all states of n customers (jobs by station; the rest think)."""
    weights: dict[tuple[int, ...], Fraction] = {(): Fraction(1)}
    for s in stations:
        factors = [Fraction(1)]
        for j in range(1, n + 1):
            rate = j if s.is_delay else s.rate_multipliers[j - 1] if s.rate_multipliers else 1
            factors.append(factors[-1] * Fraction(s.demand_cycles) / Fraction(rate))
        weights = {
            (*state, j): w * factors[j]
            for state, w in weights.items()
            for j in range(n + 1)
            if sum(state) + j <= n
        }
    thinking = [Fraction(think) ** k / math.factorial(k) for k in range(n + 1)]
    weights = {state: w * thinking[n - sum(state)] for state, w in weights.items()}
    return weights


def birth_death(service: Sequence[float], think: float, n: int) -> list[Fraction]:
    """p(j), j = 0 .. n, in fractions, from the balance (n - j) / Z p(j) = p(j+1) / S(j+1)."""
    p = [Fraction(1)]
    for j in range(n):
        p.append(p[-1] * Fraction(n - j) / Fraction(think) * Fraction(service[j]))
    return [x / sum(p) for x in p]


def textbook_mva(service: Sequence[float], think: float, n: int) -> list[float]:
    """p(0 | m) for m = 1 .. n by the recursion as first published, with p(0) = 1 - sum of the others."""
    p, idle = [1.0], []
    for m in range(1, n + 1):
        x = m / (think + sum((j + 1) * service[j] * p[j] for j in range(m)))
        rest = [x * service[j] * p[j] for j in range(m)]
        p = [1 - sum(rest), *rest]
        idle.append(p[0])
    return idle


@settings(max_examples=60)
@given(networks(), thinks)
def test_every_population_agrees_with_the_product_form(stations: list[Station], think: float) -> None:
    solution = solve(stations, think, CUSTOMERS)
    constants = [sum(exact_states(stations, think, n).values()) for n in range(CUSTOMERS + 1)]
    for n in range(1, CUSTOMERS + 1):
        states = exact_states(stations, think, n)
        row = n - 1
        assert solution.throughput[row] == pytest.approx(float(constants[n - 1] / constants[n]), rel=1e-11)
        for k, s in enumerate(stations):
            by_load = [sum(w for x, w in states.items() if x[k] == j) / constants[n] for j in range(n + 1)]
            mean = float(sum(j * p for j, p in enumerate(by_load)))
            assert solution.queue_length[row, k] == pytest.approx(mean, rel=1e-11)
            if not s.is_delay:
                assert solution.utilization[row, k] == pytest.approx(float(1 - by_load[0]), rel=1e-11)
            if s.rate_multipliers is not None:
                marginal = solution.marginals[s.name][row]
                np.testing.assert_allclose(marginal[: n + 1], [float(p) for p in by_load], rtol=1e-11)
                assert not marginal[n + 1 :].any()


@given(networks(), thinks)
def test_operational_laws_hold_in_every_solution(stations: list[Station], think: float) -> None:
    solution = solve(stations, think, CUSTOMERS)
    n = np.arange(1, CUSTOMERS + 1)
    x = solution.throughput
    np.testing.assert_allclose(solution.queue_length.sum(axis=1) + x * think, n, rtol=1e-11)
    np.testing.assert_allclose(n / x - think, solution.response_cycles, rtol=1e-9, atol=1e-9)
    queue = x[:, np.newaxis] * solution.station_response_cycles
    np.testing.assert_allclose(queue, solution.queue_length, rtol=1e-12)
    for marginal in solution.marginals.values():
        np.testing.assert_allclose(marginal.sum(axis=1), 1, rtol=1e-11)


@given(networks("fd"), thinks)
def test_more_customers_never_lower_throughput_nor_response(stations: list[Station], think: float) -> None:
    solution = solve(stations, think, 25)
    for values in (solution.throughput, solution.response_cycles):
        assert all(less <= more * (1 + 1e-12) for less, more in pairwise(values))


@given(networks("fl"), thinks, cycles)
def test_a_longer_think_time_never_raises_throughput(
    stations: list[Station], think: float, more: float
) -> None:
    """True of load-dependent stations that never slow down as work piles up, so their rates are sorted."""
    rising = [
        Station(s.name, s.demand_cycles, s.rate_multipliers and tuple(sorted(s.rate_multipliers)))
        for s in stations
    ]
    short, long = solve(rising, think, CUSTOMERS), solve(rising, think + more, CUSTOMERS)
    assert (long.throughput <= short.throughput * (1 + 1e-12)).all()


@given(networks("f"), thinks, st.integers(1, 60))
def test_every_network_lies_inside_its_bounds(stations: list[Station], think: float, n: int) -> None:
    solution = solve(stations, think, n)
    x, r = solution.throughput[-1], solution.response_cycles[-1]
    demands = [s.demand_cycles for s in stations]
    for bounds in (asymptotic_bounds(demands, think, n), balanced_job_bounds(demands, think, n)):
        assert bounds.throughput_low * (1 - 1e-12) <= x <= bounds.throughput_high * (1 + 1e-12)
        assert bounds.response_low_cycles * (1 - 1e-12) <= r <= bounds.response_high_cycles * (1 + 1e-12)


@given(cycles, st.integers(1, 12), st.integers(1, 80))
def test_balanced_networks_follow_their_closed_form(demand: float, count: int, n: int) -> None:
    solution = solve([Station(f"s{k}", demand) for k in range(count)], 0.0, n)
    populations = np.arange(1, n + 1)
    expected = populations / (populations + count - 1) / demand
    np.testing.assert_allclose(solution.throughput, expected, rtol=1e-9)


@given(cycles, st.integers(1, 12), st.integers(1, 80))
def test_balanced_networks_through_the_load_dependent_path(demand: float, count: int, n: int) -> None:
    first = Station.by_load("s0", [demand] * n)
    solution = solve([first, *(Station(f"s{k}", demand) for k in range(1, count))], 0.0, n)
    populations = np.arange(1, n + 1)
    expected = populations / (populations + count - 1) / demand
    np.testing.assert_allclose(solution.throughput, expected, rtol=1e-9)


@given(networks("f"), thinks)
def test_kinds_of_stations_agree_where_they_mean_the_same(stations: list[Station], think: float) -> None:
    """Rate 1 at every load is a fixed rate, rate n is a delay, and a delay is think time."""
    last = stations[-1]
    flat = [Station(s.name, s.demand_cycles, (1.0,) * CUSTOMERS) for s in stations]
    fixed = solve(stations, think, CUSTOMERS)
    np.testing.assert_allclose(solve(flat, think, CUSTOMERS).queue_length, fixed.queue_length, rtol=1e-11)
    servers = [*stations[:-1], Station("d", last.demand_cycles, tuple(range(1, CUSTOMERS + 1)))]
    delay = [*stations[:-1], Station("d", last.demand_cycles, is_delay=True)]
    as_delay = solve(delay, think, CUSTOMERS)
    np.testing.assert_allclose(solve(servers, think, CUSTOMERS).throughput, as_delay.throughput, rtol=1e-11)
    thinking = [*stations[:-1], Station("none", 0.0)]
    as_think = solve(thinking, think + last.demand_cycles, CUSTOMERS)
    np.testing.assert_allclose(as_think.throughput, as_delay.throughput, rtol=1e-12)
    np.testing.assert_allclose(
        as_delay.queue_length[:, -1], as_delay.throughput * last.demand_cycles, rtol=1e-12
    )


MULTISERVER = [10.0 / min(j, 16) for j in range(1, 65)]
"""16 servers of 10 cycles, in the company of 64 customers that hardly think: p(0) is about 1e-30."""


def test_textbook_recursion_turns_negative_and_ours_does_not() -> None:
    naive = textbook_mva(MULTISERVER, 1.0, 64)
    assert min(naive) < 0
    truth = [birth_death(MULTISERVER, 1.0, n) for n in range(1, 65)]
    solution = solve([Station.by_load("atomic", MULTISERVER)], 1.0, 64)
    marginal = solution.marginals["atomic"]
    for n, p in enumerate(truth, start=1):
        np.testing.assert_allclose(marginal[n - 1, : n + 1], [float(x) for x in p], rtol=1e-10)
    repairman = solve_machine_repairman(MULTISERVER, 1.0, 64)
    np.testing.assert_allclose(repairman.marginal, [float(x) for x in truth[-1]], rtol=1e-10)


@given(st.lists(cycles, min_size=1, max_size=30), cycles)
def test_repairman_agrees_with_exact_birth_death_and_with_the_network(s: list[float], think: float) -> None:
    n = len(s)
    p = birth_death(s, think, n)
    ours, network = solve_machine_repairman(s, think, n), solve([Station.by_load("k", s)], think, n)
    np.testing.assert_allclose(ours.marginal, [float(x) for x in p], rtol=1e-11)
    x = float(sum(q / Fraction(t) for q, t in zip(p[1:], s, strict=True)))
    assert float(ours.throughput) == pytest.approx(x, rel=1e-11)
    assert float(ours.queue_length) == pytest.approx(float(sum(j * q for j, q in enumerate(p))), rel=1e-11)
    assert float(ours.utilization) == pytest.approx(float(1 - p[0]), rel=1e-11)
    assert network.throughput[-1] == pytest.approx(x, rel=1e-11)
    assert network.utilization[-1, 0] == pytest.approx(float(1 - p[0]), rel=1e-11)
    assert float(ours.response_cycles) == pytest.approx(network.response_cycles[-1], rel=1e-11)


def test_machine_repairman_closed_form() -> None:
    """M/M/1//N: X = (1 - p0) / S with 1 / p0 = sum_j N! / (N-j)! (S/Z)^j; 64 customers, Z = 100, S = 1."""
    idle = 1 / sum(Fraction(math.perm(64, j), 100**j) for j in range(65))
    assert float(1 - idle) == pytest.approx(0.624339, abs=1e-6)
    one = solve_machine_repairman(np.ones(64), 100.0, 64)
    assert float(one.throughput) == pytest.approx(0.624339, abs=1e-6)
    assert float(one.throughput) == pytest.approx(float(1 - idle), rel=1e-12)
    assert solve([Station("atomic", 1.0)], 100.0, 64).throughput[-1] == pytest.approx(
        float(1 - idle), rel=1e-12
    )


@given(st.lists(st.tuples(cycles, thinks, st.integers(1, 8)), min_size=1, max_size=6))
def test_a_batch_is_its_members(members: list[tuple[float, float, int]]) -> None:
    service = np.full((len(members), 8), np.nan)  # what lies beyond a member's population is not looked at
    for row, (s, _, n) in zip(service, members, strict=True):
        row[:n] = [s / (1 + j / 8) for j in range(n)]
    think, customers = np.array([z for _, z, _ in members]), np.array([n for *_, n in members])
    batch = solve_machine_repairman(service, think, customers)
    for k, (_, z, n) in enumerate(members):
        alone = solve_machine_repairman(service[k, :n], z, n)
        np.testing.assert_allclose(batch.marginal[k, : n + 1], alone.marginal, rtol=1e-13)
        assert not batch.marginal[k, n + 1 :].any()
        for name in ("throughput", "response_cycles", "queue_length", "utilization"):
            assert getattr(batch, name)[k] == pytest.approx(float(getattr(alone, name)), rel=1e-13)


def test_repairman_broadcasts_and_saturates() -> None:
    think = np.array([[0.0], [10.0], [1e9]])
    customers = np.array([1, 4, 32, 64])
    grid = solve_machine_repairman(np.full(64, 2.0), think, customers)
    assert grid.throughput.shape == (3, 4)
    assert grid.marginal.shape == (3, 4, 65)
    np.testing.assert_allclose(grid.throughput[0], 0.5, rtol=1e-14)
    np.testing.assert_array_equal(grid.queue_length[0], customers)
    np.testing.assert_allclose(grid.throughput[2], customers / 1e9, rtol=1e-6)
    assert (np.diff(grid.throughput, axis=0) <= 1e-15).all()
    np.testing.assert_allclose(grid.queue_length + grid.throughput * think, customers + 0 * think, rtol=1e-12)


def test_large_networks_neither_overflow_nor_drift() -> None:
    servers = Station("atomic", 1e5, tuple(min(j, 40) for j in range(1, 401)))
    solution = solve([servers, Station("bus", 3e3), Station("wire", 500.0, is_delay=True)], 1e6, 400)
    held = solution.queue_length.sum(axis=1) + solution.throughput * 1e6
    np.testing.assert_allclose(held, np.arange(1, 401), rtol=1e-10)
    np.testing.assert_allclose(solution.marginals["atomic"].sum(axis=1), 1, rtol=1e-10)


def test_a_station_without_demand_holds_nobody() -> None:
    idle = Station("idle", 0.0, (1.0, 2.0, 3.0))
    solution = solve([idle, Station("busy", 2.0)], 0.0, 3)
    np.testing.assert_array_equal(solution.queue_length[:, 0], 0)
    np.testing.assert_allclose(solution.marginals["idle"][:, 0], 1, rtol=1e-14)
    np.testing.assert_allclose(solution.throughput, 0.5, rtol=1e-14)


def test_unusable_networks_are_refused() -> None:
    ok = Station("a", 1.0)
    for stations, think, n, message in [
        ([ok], 1.0, 0, "customers: not a population"),
        ([ok], 1.0, 2.5, "customers: not a population"),
        ([ok], 1.0, float("nan"), "customers: not a population"),
        ([ok], -1.0, 1, "think_cycles: unusable think time"),
        ([ok], float("inf"), 1, "think_cycles: unusable think time"),
        ([ok, ok], 1.0, 1, "two stations share a name"),
        ([Station("a", 0.0)], 0.0, 1, "nothing takes any time"),
        ([Station("a", 1.0, (1.0, 2.0))], 0.0, 3, r"station 'a': rate multipliers end .*got 2; expected 3"),
    ]:
        with pytest.raises(SmlabError, match=message):
            solve(stations, think, n)
    with pytest.raises(SmlabError, match="station 'a': unusable demand"):
        Station("a", -1.0)
    with pytest.raises(SmlabError, match="unusable rate multiplier for n = 2"):
        Station("a", 1.0, (1.0, 0.0))
    with pytest.raises(SmlabError, match="a delay station has no rate multipliers"):
        Station("a", 1.0, (1.0,), is_delay=True)
    with pytest.raises(SmlabError, match="unusable service time for n = 2"):
        Station.by_load("a", [1.0, float("nan")])
    with pytest.raises(SmlabError, match="no service times"):
        Station.by_load("a", [])


def test_unusable_batches_are_refused() -> None:
    for service, think, n, message in [
        (1.0, 1.0, 1, "service_cycles: no load axis"),
        ([1.0], 1.0, 2, r"customers: not a population \(got 2.0; expected a whole number, 1 .. 1\)"),
        ([1.0, 1.0], 1.0, 1.5, "customers: not a population"),
        ([1.0], 1.0, float("nan"), "customers: not a population"),
        ([1.0], [1.0, -2.0], 1, r"think_cycles: unusable think time \(got -2.0"),
        ([[1.0, 1.0], [1.0, 0.0]], 1.0, 2, r"service_cycles at \(1, 1\): unusable service time"),
        ([[1.0], [1.0]], [1.0, 1.0, 1.0], 1, "batch shapes do not fit"),
    ]:
        with pytest.raises(SmlabError, match=message):
            solve_machine_repairman(service, think, n)

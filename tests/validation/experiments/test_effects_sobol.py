"""Sobol indices, pairs of a Saltelli design and rank coefficients against what theory says they must be."""

import math

import numpy as np
import pytest
from numpy.random import SeedSequence, default_rng
from SALib.sample import sobol as saltelli

from smlab.hw_bench.errors import SmlabError
from smlab.models import solve_machine_repairman
from smlab.validation.experiments.effects.sensitivity import rank_coefficients, sobol_indices
from smlab.validation.method.statistics import binomial_interval

PI = math.pi


def ishigami(x: np.ndarray, a: float = 7.0, b: float = 0.1) -> np.ndarray:
    """sin x1 + a sin^2 x2 + b x3^4 sin x1 on [-pi, pi]^3 (T. Ishigami and T. Homma, ISUMA 1990)."""
    return np.sin(x[:, 0]) + a * np.sin(x[:, 1]) ** 2 + b * x[:, 2] ** 4 * np.sin(x[:, 0])


def ishigami_indices(a: float = 7.0, b: float = 0.1) -> dict[tuple[str, ...], tuple[float, float | None]]:
    """(Index, total) by factors; the variances are in closed form (Saltelli, Chan and Scott, "Sensitivity
    Analysis", 2000)."""
    v1 = 0.5 * (1 + b * PI**4 / 5) ** 2
    v2 = a**2 / 8
    v13 = b**2 * PI**8 * (1 / 18 - 1 / 50)
    v = v1 + v2 + v13
    return {
        ("x1",): (v1 / v, (v1 + v13) / v),
        ("x2",): (v2 / v, v2 / v),
        ("x3",): (0.0, v13 / v),
        ("x1", "x2"): (0.0, None),
        ("x1", "x3"): (v13 / v, None),
        ("x2", "x3"): (0.0, None),
    }


def holds(found, truth) -> tuple[int, int]:
    """How many of the intervals hold the truth, and of how many."""
    inside = [i.index.contains(truth[i.factors][0]) for i in found]
    inside += [i.total.contains(truth[i.factors][1]) for i in found if i.total is not None]
    return sum(inside), len(inside)


NAMES = ("x1", "x2", "x3")
PROBLEM = {"num_vars": 3, "names": list(NAMES), "bounds": [[-PI, PI]] * 3}


def test_ishigami_indices_are_in_their_intervals() -> None:
    truth = ishigami_indices()
    assert truth["x1",][0] == pytest.approx(0.3139, abs=5e-5)  # as printed in the literature
    assert truth["x2",][0] == pytest.approx(0.4424, abs=5e-5)
    assert truth["x3",][1] == pytest.approx(0.2437, abs=5e-5)
    held = trials = 0
    for seed in range(1, 13):
        x = saltelli.sample(PROBLEM, 256, calc_second_order=True, seed=seed)
        found = holds(sobol_indices(ishigami(x), NAMES, second_order=True, seed=seed, resamples=300), truth)
        held, trials = held + found[0], trials + found[1]
    # A low-discrepancy design has smaller errors than the bootstrap allows for, so it covers more than it
    # claims.
    assert binomial_interval(held, trials, 0.999).high >= 0.95
    assert held / trials >= 0.95


def independent_design(rng, count: int) -> np.ndarray:
    """The same blocks as Saltelli's, from independent random points."""
    a, b = rng.uniform(-PI, PI, (2, count, 3))
    block = np.empty((count, 8, 3))
    block[:, 0], block[:, 7] = a, b
    for j in range(3):
        block[:, 1 + j], block[:, 4 + j] = a, b
        block[:, 1 + j, j], block[:, 4 + j, j] = b[:, j], a[:, j]
    return block.reshape(-1, 3)


def test_bootstrap_intervals_hold_at_the_nominal_rate_where_points_are_independent() -> None:
    truth = ishigami_indices()
    held = trials = 0
    for stream in SeedSequence(21).spawn(40):
        x = independent_design(default_rng(stream), 256)
        found = holds(sobol_indices(ishigami(x), NAMES, second_order=True, seed=1, resamples=300), truth)
        held, trials = held + found[0], trials + found[1]
    assert 0.92 <= held / trials <= 0.98


def repairman_throughput(service: np.ndarray, think: np.ndarray, customers: int = 8) -> np.ndarray:
    """X of the machine repairman by its closed form, customers fixed, arrays of one shape."""
    loads = np.ones((*service.shape, customers)) * service[..., None]
    return np.asarray(solve_machine_repairman(loads, think, customers).throughput)


def test_indices_of_a_closed_queue_are_in_their_intervals() -> None:
    """Throughput of 8 customers, service 10 to 100 and think 100 to 2,000 cycles, uniform: indices by
    quadrature."""
    nodes, weights = np.polynomial.legendre.leggauss(40)
    service, think = 55 + 45 * nodes, 1050 + 950 * nodes
    x = repairman_throughput(*np.meshgrid(service, think, indexing="ij"))
    w = weights / 2
    mean = w @ x @ w
    variance = w @ (x - mean) ** 2 @ w
    first = (w @ (x @ w - mean) ** 2 / variance, w @ (w @ x - mean) ** 2 / variance)
    names = ("service", "think")
    truth = {
        ("service",): (first[0], 1 - first[1]),
        ("think",): (first[1], 1 - first[0]),
        names: (1 - sum(first), None),
    }
    assert truth[names][0] > 0.02  # the two interact, or the total index would test nothing
    problem = {"num_vars": 2, "names": list(names), "bounds": [[10, 100], [100, 2000]]}
    held = trials = 0
    for seed in range(1, 13):
        points = saltelli.sample(problem, 256, calc_second_order=True, seed=seed)
        values = repairman_throughput(points[:, 0], points[:, 1])
        found = holds(sobol_indices(values, names, second_order=True, seed=seed, resamples=300), truth)
        held, trials = held + found[0], trials + found[1]
    assert held / trials >= 0.95


def test_a_wrong_order_of_points_is_noticed_by_the_indices() -> None:
    """The intervals can fail: with the columns of the design mixed up they hold nothing."""
    x = saltelli.sample(PROBLEM, 256, calc_second_order=True, seed=1)
    mixed = x[:, [1, 2, 0]]
    held, trials = holds(sobol_indices(ishigami(mixed), NAMES, second_order=True, seed=1), ishigami_indices())
    assert held <= trials - 3


def test_sobol_refuses_what_is_no_design() -> None:
    for values, message in (
        (np.ones(8 * 20 + 1), "unusable number"),
        (np.ones(8 * 4), "unusable number"),
        (np.where(np.arange(8 * 20) == 3, np.nan, 1.0), "a response is missing"),
    ):
        with pytest.raises(SmlabError, match=message):
            sobol_indices(values, NAMES, second_order=True, seed=1)
    assert sobol_indices(np.ones(8 * 20), NAMES, second_order=True, seed=1) == ()


def test_equal_seeds_give_equal_intervals_also_for_seed_0() -> None:
    x = saltelli.sample(PROBLEM, 64, calc_second_order=False, seed=4)
    found = [sobol_indices(ishigami(x), NAMES, second_order=False, seed=0, resamples=50) for _ in range(2)]
    assert found[0] == found[1]
    assert found[0] != sobol_indices(ishigami(x), NAMES, second_order=False, seed=1, resamples=50)


# A random design


def test_rank_coefficients_hold_what_theory_says() -> None:
    """A linear response of independent uniform factors: ranks of n points give almost the linear
    coefficients."""
    held, trials = 0, 0
    weights = np.array([2.0, -1.0, 0.0])
    reference = default_rng(99).uniform(size=(200_000, 3))
    truth = [
        c.coefficient.estimate
        for c in rank_coefficients(reference, reference @ weights, NAMES, seed=1, resamples=2)
    ]
    assert truth[0] > 0.85
    assert truth[2] == pytest.approx(0, abs=0.01)
    for stream in SeedSequence(31).spawn(60):
        x = default_rng(stream).uniform(size=(80, 3))
        for found, true in zip(
            rank_coefficients(x, x @ weights, NAMES, seed=2, resamples=200), truth, strict=True
        ):
            held += found.coefficient.contains(true)
            trials += 1
    assert 0.88 <= held / trials <= 0.99


def test_rank_regression_of_a_monotone_response_is_exact_and_of_a_constant_empty() -> None:
    x = default_rng(1).uniform(size=(50, 1))
    found = rank_coefficients(x, np.exp(5 * x[:, 0]), ["x"], seed=1)[0]
    assert found.coefficient.estimate == pytest.approx(1)
    assert found.r_squared == pytest.approx(1)
    assert rank_coefficients(x, np.ones(50), ["x"], seed=1) == ()
    with pytest.raises(SmlabError, match="unusable points"):
        rank_coefficients(x[:5], np.ones(5), ["x"], seed=1)

"""Paired comparisons and shares of variance against what theory says they must be."""

import math
from itertools import product

import numpy as np
import pandas as pd
import pytest
from numpy.random import SeedSequence, default_rng

from coverage_study import coverage_study
from smlab.hw_bench.errors import SmlabError
from smlab.validation.experiments.effects.factorial import interaction, marginal, variance_shares
from smlab.validation.experiments.effects.paired import compare, mean_of, variance_reduction
from smlab.validation.experiments.effects.points import FactorLevels, Layout
from smlab.validation.method.statistics import Interval

# Paired comparisons


def pair(rng, count: int, correlation: float, low: float = 90.0, high: float = 100.0):
    """Two variants with standard deviations 10 and 8 and this correlation."""
    x, y = rng.normal(size=(2, count))
    return high + 10 * x, low + 8 * (correlation * x + math.sqrt(1 - correlation**2) * y)


@pytest.mark.parametrize("correlation", [-0.5, 0.0, 0.95])
def test_paired_intervals_cover_what_they_claim(correlation: float) -> None:
    def difference(stream: SeedSequence):
        return compare(*pair(default_rng(stream), 10, correlation)).difference

    def ratio(stream: SeedSequence):
        found = compare(*pair(default_rng(stream), 20, correlation)).ratio
        assert found is not None
        return found

    # Within what 800 trials of a true 95 % would give but for one time in a thousand.
    for trial, truth in ((difference, 10.0), (ratio, 100 / 90)):
        found = coverage_study(trial, truth, 800, seed=3)
        slack = 3.3 * math.sqrt(95 * 5 / 800)
        assert 95 - slack <= found.observed <= 95 + slack


def test_an_unpaired_interval_would_not_cover_where_runs_are_correlated() -> None:
    """The variances apart are right only for independent runs: with correlation 0.95 they are four times
    too wide."""
    a, b = pair(default_rng(1), 2000, 0.95)
    independent = math.sqrt(np.var(a) + np.var(b)) / math.sqrt(2000) * 1.96
    assert compare(a, b).difference.half_width < 0.35 * independent


def test_a_ratio_and_its_inverse_never_disagree() -> None:
    """Of ratios of arithmetic means, both can be below 1 at once: the example of the issue, in small."""
    cycles, base = np.array([[100.0, 1000.0]] * 3), np.array([[200.0, 900.0]] * 3)
    assert cycles.mean() / base.mean() == 1.0
    ratio, inverse = compare(cycles, base).ratio, compare(base, cycles).ratio
    assert ratio is not None
    assert inverse is not None
    assert ratio.estimate == pytest.approx(math.sqrt(0.5 * 10 / 9))
    assert ratio.estimate * inverse.estimate == pytest.approx(1, rel=1e-14)
    noisy = compare(cycles * default_rng(0).uniform(0.9, 1.1, cycles.shape), base).ratio
    assert noisy is not None
    assert noisy.low < ratio.estimate < noisy.high


def test_a_geometric_ratio_covers_what_it_claims() -> None:
    def trial(stream: SeedSequence) -> Interval:
        rng = default_rng(stream)
        shared = np.exp(rng.normal(0, 1, (8, 5)))  # what chance does to both
        found = compare(1.3 * shared * np.exp(rng.normal(0, 0.2, (8, 5))), shared).ratio
        assert found is not None
        return found

    found = coverage_study(trial, 1.3, 800, seed=4)
    slack = 3.3 * math.sqrt(95 * 5 / 800)
    assert 95 - slack <= found.observed <= 95 + slack


@pytest.mark.parametrize("correlation", [0.0, 0.9])
def test_variance_reduction_is_what_the_correlation_gives(correlation: float) -> None:
    truth = (100 + 64) / (100 + 64 - 2 * correlation * 80)

    def trial(stream: SeedSequence):
        found = variance_reduction(*pair(default_rng(stream), 40, correlation))
        assert found is not None
        return found

    found = coverage_study(trial, truth, 600, seed=5)
    assert 90 <= found.observed <= 98.5


def test_what_has_no_interval_says_so() -> None:
    one = compare([12.0], [10.0])
    assert one.difference.estimate == 2
    assert math.isnan(one.difference.low)
    assert one.ratio is not None
    assert one.ratio.estimate == 1.2
    assert one.variance_reduction is None
    assert compare([1.0, 2.0], [0.0, 1.0]).ratio is None
    assert compare([1.0] * 6, [2.0] * 6).variance_reduction is None
    with pytest.raises(SmlabError, match="do not pair"):
        compare([1.0, 2.0], [1.0])


def test_runs_that_do_not_vary_have_an_interval_of_no_width() -> None:
    found = compare([3.0] * 4, [2.0] * 4)
    assert (found.difference.low, found.difference.high) == (1.0, 1.0)
    assert mean_of([3.0] * 4).half_width == 0


# Grids


def grid(rng, replications: int, noise: float) -> np.ndarray:
    """y = 3 a + 2 b + a b + noise on levels (-1, 1) x (-1, 0, 1) x 2 idle levels, with noise of its own
    and a common one."""
    a, b = np.array([-1.0, 1.0]), np.array([-1.0, 0.0, 1.0])
    truth = (
        3 * a[:, None, None]
        + 2 * b[None, :, None]
        + a[:, None, None] * b[None, :, None]
        + np.zeros((2, 3, 2))
    )
    common = rng.normal(0, 5, size=(replications, 1, 1, 1))
    return truth[None] + common + rng.normal(0, noise, size=(replications, 2, 3, 2))


def test_shares_of_variance_are_those_of_the_formula() -> None:
    # Variances: 9 of a, 4 x 2/3 of b, 2/3 of the product.
    total = 9 + 4 * 2 / 3 + 2 / 3
    truth = {("a",): 9 / total, ("b",): 8 / 3 / total, ("a", "b"): 2 / 3 / total}
    exact = {s.factors: s.share.estimate for s in variance_shares(grid(default_rng(1), 1, 0.0), "abc")}
    for factors, share in exact.items():
        assert share == pytest.approx(truth.get(factors, 0.0), abs=1e-9)
    assert sum(exact.values()) == pytest.approx(1)


def test_intervals_of_shares_hold_them() -> None:
    total = 9 + 4 * 2 / 3 + 2 / 3
    truth = {("a",): 9 / total, ("b",): 8 / 3 / total, ("a", "b"): 2 / 3 / total}
    held, trials = 0, 0
    for stream in SeedSequence(11).spawn(200):
        for share in variance_shares(grid(default_rng(stream), 10, 2.0), "abc"):
            if share.factors in truth:
                held += share.share.contains(truth[share.factors])
                trials += 1
    assert 91 <= 100 * held / trials <= 98.5


def test_noise_is_not_taken_for_an_interaction() -> None:
    """Without the jackknife, 10 replications of this noise would give the idle factor's pairs a share
    above 0 every time."""
    idle = [
        share.share.estimate
        for stream in SeedSequence(12).spawn(100)
        for share in variance_shares(grid(default_rng(stream), 10, 4.0), "abc")
        if share.factors == ("c",)
    ]
    assert abs(np.mean(idle)) < 4 * np.std(idle) / 10


def test_an_interaction_is_what_is_beyond_the_sum() -> None:
    values = grid(default_rng(1), 2, 0.0)
    product_of_levels = np.outer([-1, 1], [-1, 0, 1])
    np.testing.assert_allclose(interaction(values, 0, 1)[0], product_of_levels, atol=1e-9)
    np.testing.assert_allclose(interaction(values, 1, 0)[0], product_of_levels.T, atol=1e-9)
    np.testing.assert_allclose(marginal(values, 0)[0] - values[0].mean(), [-3, 3], atol=1e-9)


def test_a_grid_with_holes_is_refused_and_a_constant_has_no_shares() -> None:
    values = grid(default_rng(1), 2, 0.0)
    assert variance_shares(np.ones((3, 2, 2)), "ab") == ()
    values[0, 0, 0, 0] = np.nan
    with pytest.raises(SmlabError, match="not a full grid"):
        variance_shares(values, "abc")


def test_every_combination_is_compared_with_its_reference() -> None:
    """Guards the tests above: a grid of the formula, as a table, has the same effects as the array."""
    rows = [
        {"a": a, "b": b, "replication": r, "y": 3 * a + 2 * b + a * b + 10 * r}
        for a, b, r in product((-1, 1), (-1, 0, 1), range(3))
    ]
    from smlab.validation.experiments.effects.effects import effects_of

    layout = Layout("grid", "grid", (FactorLevels("a", -1, ()), FactorLevels("b", 0, ())), ("y",))
    found = effects_of(layout, pd.DataFrame(rows))["y"]
    by_level = {(e.factor, e.level): e for e in found.levels}
    assert by_level["a", -1].against is None
    assert by_level["a", 1].against.difference.estimate == pytest.approx(6)
    assert by_level["b", 1].against.difference.estimate == pytest.approx(2)
    assert by_level["b", -1].against.difference.half_width == pytest.approx(0, abs=1e-9)

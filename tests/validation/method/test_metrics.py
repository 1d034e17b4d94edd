"""Error tables against values worked out by hand, and the coverage of their interval."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coverage_study import coverage_study
from smlab.hw_bench.errors import SmlabError
from smlab.validation.method.metrics import error_table, mean_bootstrap, points_table
from smlab.validation.method.statistics import Interval

KEYS = [
    "n",
    "mape",
    "median_ape",
    "worst_ape",
    "bias",
    "spread",
    "kendall_tau",
    "within_5",
    "within_10",
    "within_25",
    "mape_low",
    "mape_high",
    "baseline_mape",
]


def test_by_hand():
    table = error_table([105, 90, 200, 30], [100, 100, 100, 40], baseline=[100, 100, 100, 100])
    assert table.n == 4
    assert table.mape == pytest.approx((5 + 10 + 100 + 25) / 4)
    assert table.median_ape == pytest.approx(17.5)
    assert table.worst_ape == pytest.approx(100)
    logs = np.log([1.05, 0.9, 2.0, 0.75])
    assert table.bias == pytest.approx(math.exp(logs.mean()))
    assert table.spread == pytest.approx(math.exp(logs.std(ddof=1)))
    assert (table.within_5, table.within_10, table.within_25) == (25, 50, 75)
    assert table.mape_low < table.mape < table.mape_high
    assert table.baseline_mape == pytest.approx(150 / 4)
    assert list(table.as_row()) == KEYS


def test_tau_b_by_hand():
    # The truth has one tie, so 5 of 6 pairs compare: 4 concordant, 1 discordant; tau-b = 3 / sqrt(6 * 5).
    table = error_table([1, 2, 4, 3], [1, 1, 2, 3])
    assert table.kendall_tau == pytest.approx(3 / math.sqrt(30))


def test_a_perfect_predictor():
    table = error_table([1.0, 2.0, 3.0], [1.0, 2.0, 3.0])
    row = table.as_row()
    assert (row["mape"], row["bias"], row["spread"], row["kendall_tau"]) == pytest.approx((0, 1, 1, 1))
    assert (table.mape_low, table.mape_high, table.within_5) == (0, 0, 100)
    assert table.baseline_mape is None


def test_a_share_counts_its_own_limit():
    assert error_table([1.05, 0.95, 1.1, 1.25], [1, 1, 1, 1]).within_5 == 50


def test_one_case_has_no_interval_spread_or_rank():
    table = error_table([11], [10])
    assert all(math.isnan(v) for v in (table.mape_low, table.mape_high, table.spread, table.kendall_tau))
    assert table.bias == pytest.approx(1.1)


def test_a_prediction_of_zero_is_a_hundred_per_cent_off_and_has_no_spread():
    table = error_table([0, 10], [10, 10])
    assert table.worst_ape == 100
    assert table.bias == 0
    assert math.isnan(table.spread)


@pytest.mark.parametrize(
    ("predicted", "truth", "says"),
    [
        ([1, 2], [1, 0], r"truth, case 1.*got 0\.0"),
        ([1, 2], [-3, 0], r"truth, case 0.*1 more.*got -3\.0"),
        ([1, math.nan], [1, 1], r"predicted, case 1.*got nan"),
        ([1, 1], [math.inf, 1], r"truth, case 0.*got inf"),
        ([1, -1], [1, 1], r"predicted, case 1.*got -1\.0"),
        ([1, 2, 3], [1, 2], "unequal lengths.*got 3.*expected 2"),
        ([], [], "no cases"),
        ([[1]], [1], "wrong shape"),
        (["a"], [1], "not a list of numbers"),
    ],
)
def test_refusals_name_the_case(predicted, truth, says):
    with pytest.raises(SmlabError, match=says):
        error_table(predicted, truth)


def test_an_unusable_baseline_is_refused():
    with pytest.raises(SmlabError, match="baseline"):
        error_table([1, 1], [1, 1], baseline=[1])


def test_the_interval_is_repeatable_and_leaves_the_global_generator_alone():
    p, t = np.linspace(1, 2, 30), np.linspace(1, 1.5, 30)
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    assert error_table(p, t, seed=3) == error_table(p, t, seed=3)
    assert error_table(p, t, seed=3).mape_low != error_table(p, t, seed=4).mape_low
    assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_the_bootstrap_interval_covers_the_mean_of_skewed_errors():
    """Absolute errors of 50 cases with exponential tails; the BCa interval should hold the true mean about 95
    times in 100.
    """

    def trial(stream):
        x = np.random.default_rng(stream).exponential(10.0, size=50)
        low, high = mean_bootstrap(x, seed=int(stream.generate_state(1)[0]), resamples=500)
        return Interval(float(np.mean(x)), low, high, 0.95, len(x))

    coverage = coverage_study(trial, truth=10.0, trials=600, seed=11)
    assert 90 < coverage.observed < 98


def test_too_few_resamples_are_refused():
    with pytest.raises(SmlabError, match="resamples"):
        mean_bootstrap([1, 2], resamples=10)


positive = st.floats(0.01, 1e6)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(positive, positive), min_size=2, max_size=30), st.floats(0.1, 10))
def test_what_holds_for_any_table(pairs, factor):
    p, t = np.array(pairs).T
    table = error_table(p, t, resamples=200)
    assert table.median_ape <= table.worst_ape
    assert table.mape <= table.worst_ape * (1 + 1e-12)
    assert 0 <= table.within_5 <= table.within_10 <= table.within_25 <= 100
    assert table.mape_low <= table.mape_high
    assert math.isnan(table.kendall_tau) or -1 <= table.kendall_tau <= 1
    # Multiplying every prediction by a factor multiplies the bias and leaves the spread.
    scaled = error_table(factor * p, t, resamples=200)
    assert scaled.bias == pytest.approx(factor * table.bias)
    assert scaled.spread == pytest.approx(table.spread)
    # The unit does not matter.
    assert error_table(7 * p, 7 * t, resamples=200).mape == pytest.approx(table.mape)


def test_points_by_hand():
    errors = points_table([0.50, 0.20, 1.10, 0.0], [0.40, 0.25, 1.00, 0.0])
    assert errors.mean_points == pytest.approx((10 + 5 + 10 + 0) / 4)
    assert errors.worst_points == pytest.approx(10)
    assert errors.bias_points == pytest.approx((10 - 5 + 10) / 4)
    assert errors.p95_points == pytest.approx(10)
    assert errors.above_100 == 1
    assert errors.mean_low <= errors.mean_points <= errors.mean_high
    assert errors.as_row()["n"] == 4


@pytest.mark.parametrize(
    ("estimated", "exact", "says"),
    [
        ([40.0], [40.0], "exact, case 0.*fraction"),
        ([0.5], [-0.1], "exact, case 0"),
        ([-0.5], [0.1], "estimated, case 0"),
        ([0.5, 0.5], [0.1], "unequal lengths"),
        ([], [], "no cases"),
    ],
)
def test_points_refusals(estimated, exact, says):
    with pytest.raises(SmlabError, match=says):
        points_table(estimated, exact)

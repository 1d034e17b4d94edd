"""Intervals are tested by how often they hold a truth that is known in closed form."""

import math

import numpy as np
import pytest
from numpy.random import SeedSequence, default_rng
from scipy import signal

from coverage_study import coverage_study
from smlab.hw_bench.errors import SmlabError
from smlab.validation.method.statistics import (
    MIN_BATCHES,
    Interval,
    batch_means,
    binomial_interval,
    lag1,
    mean_interval,
    mser5,
    von_neumann_p,
)

TRIALS = 400


def ar1(stream: SeedSequence, n: int, phi: float = 0.8, mean: float = 5.0, start: float = 0.0):
    """x_i = mean + phi (x_{i-1} - mean) + noise; it starts ``start`` above the mean and forgets that
    exponentially.
    """
    noise = default_rng(stream).standard_normal(n)
    return mean + signal.lfilter([1.0], [1.0, -phi], noise, zi=[phi * start])[0]


def mm1_waits(stream: SeedSequence, n: int, rho: float):
    """Waits of n customers of an M/M/1 queue that starts empty, service rate 1; mean in steady state rho / (1
    - rho).

    Lindley's recursion w_{i+1} = max(0, w_i + s_i - a_i), unrolled: with c the sums of s - a, w = c - min(0,
    running min c).
    """
    arrivals, services = (default_rng(s) for s in stream.spawn(2))
    steps = services.exponential(1.0, n - 1) - arrivals.exponential(1.0 / rho, n - 1)
    c = np.concatenate([[0.0], np.cumsum(steps)])
    return c - np.minimum.accumulate(c)


def inside(coverage):
    """Nominal 95 %: the observed share of at least 400 trials lies within 90 and 98 %."""
    return coverage.trials >= TRIALS and 90 <= coverage.observed <= 98


def test_lindley_unrolled_is_lindley():
    w = mm1_waits(SeedSequence(1), 200, 0.8)
    arrivals, services = (default_rng(s) for s in SeedSequence(1).spawn(2))
    s, a = services.exponential(1.0, 199), arrivals.exponential(1.25, 199)
    expected = [0.0]
    for i in range(199):
        expected.append(max(0.0, expected[-1] + s[i] - a[i]))
    np.testing.assert_allclose(w, expected, atol=1e-9)


class TestMeanInterval:
    def test_by_hand(self):
        interval = mean_interval([1.0, 2.0, 3.0, 4.0], 0.95)
        half = 3.182446 * math.sqrt(5 / 3) / 2  # t quantile 0.975 with three degrees of freedom
        assert interval.estimate == 2.5
        assert (interval.low, interval.high) == pytest.approx((2.5 - half, 2.5 + half), rel=1e-6)
        assert (interval.level, interval.count) == (0.95, 4)
        assert interval.half_width == pytest.approx(half, rel=1e-6)

    def test_coverage_over_replications_of_ar1(self):
        def trial(stream):
            return mean_interval([ar1(s, 200).mean() for s in stream.spawn(10)])

        assert inside(coverage_study(trial, 5.0, TRIALS, seed=21))

    def test_coverage_over_replications_of_mm1(self):
        def trial(stream):
            return mean_interval([mm1_waits(s, 6000, 0.7)[1000:].mean() for s in stream.spawn(10)])

        assert inside(coverage_study(trial, 0.7 / 0.3, TRIALS, seed=22))


class TestBatchMeans:
    def test_coverage_on_ar1(self):
        coverage = coverage_study(lambda s: batch_means(ar1(s, 4000)), 5.0, TRIALS, seed=23)
        assert inside(coverage)
        assert coverage.refused <= TRIALS // 20

    def test_coverage_on_ar1_that_starts_far_away(self):
        coverage = coverage_study(lambda s: batch_means(ar1(s, 4000, start=30)), 5.0, TRIALS, seed=24)
        assert inside(coverage)
        assert coverage.refused <= TRIALS // 20

    def test_coverage_on_mm1(self):
        coverage = coverage_study(
            lambda s: batch_means(mm1_waits(s, 40_000, 0.7)), 0.7 / 0.3, TRIALS, seed=25
        )
        assert inside(coverage)
        assert coverage.refused <= TRIALS // 20

    def test_a_naive_interval_from_raw_waits_fails(self):
        """Why `batch_means` exists.

        Student's t over raw waits takes 40,000 correlated waits for independent ones. The interval is many
        times too narrow: it holds the true mean wait in well under half of the runs and not in 95 % of them.
        """
        coverage = coverage_study(
            lambda s: mean_interval(mm1_waits(s, 40_000, 0.7)), 0.7 / 0.3, TRIALS, seed=25
        )
        assert coverage.high < 50

    def test_the_limit_is_where_the_docstring_puts_it(self):
        """A load of 0.9 needs far more than 40,000 waits."""

        def short(stream):
            return batch_means(mm1_waits(stream, 40_000, 0.9))

        assert 80 <= coverage_study(short, 9.0, TRIALS, seed=27).observed <= 90
        assert inside(coverage_study(lambda s: batch_means(mm1_waits(s, 200_000, 0.9)), 9.0, TRIALS, seed=28))

    def test_batches_are_merged_until_neighbours_agree_no_more(self):
        x = ar1(SeedSequence(3), 4000, phi=0.97)
        interval = batch_means(x, batches=200, warmup=0)
        assert interval.count < 200
        assert f"merged {round(math.log2(200 / interval.count))} times from 200 batches" in interval.note
        assert interval.batch_length * interval.count + interval.deleted == 4000
        assert interval.lag1 < 0.5

    def test_a_series_too_short_is_refused(self):
        with pytest.raises(SmlabError, match=r"too short.*lag 1.*twice as long"):
            batch_means(ar1(SeedSequence(4), 400, phi=0.999), batches=16, warmup=0)

    def test_independent_values_are_left_alone(self):
        x = default_rng(SeedSequence(5)).standard_normal(3200)
        interval = batch_means(x, batches=32, warmup=0)
        assert (interval.count, interval.batch_length, interval.deleted) == (32, 100, 0)
        assert interval.estimate == pytest.approx(x.mean())
        assert "merged" not in interval.note

    def test_what_does_not_fill_a_batch_is_dropped_at_the_start(self):
        interval = batch_means(np.r_[np.full(7, 1e6), np.tile([1.0, 2.0], 400)], batches=16, warmup=0)
        assert interval.deleted == 7
        assert interval.estimate == 1.5

    @pytest.mark.parametrize(
        ("series", "options", "says"),
        [
            (np.ones(20), {}, "wrong shape"),
            (np.ones((100, 2)), {}, "wrong shape"),
            (np.r_[np.ones(200), np.nan], {}, "value 200.*nan"),
            (np.ones(1000), {"batches": MIN_BATCHES - 1}, "number of batches"),
            (np.ones(1000), {"batches": 500}, "number of batches"),
            (np.ones(1000), {"level": 95}, "confidence level"),
            (np.ones(1000), {"warmup": 900}, "warm-up"),
            (["a"] * 100, {}, "not a list of numbers"),
        ],
    )
    def test_refusals(self, series, options, says):
        with pytest.raises(SmlabError, match=says):
            batch_means(series, **options)


class TestWarmUp:
    def test_an_initial_transient_is_found(self):
        x = ar1(SeedSequence(6), 4000, start=100)
        d = mser5(x)
        assert 5 <= d <= 200
        assert abs(x[d:].mean() - 5) < abs(x.mean() - 5)

    def test_the_criterion_written_out(self):
        x = ar1(SeedSequence(7), 300, start=20)
        y = x.reshape(60, 5).mean(axis=1)
        slow = [np.sum((y[d:] - y[d:].mean()) ** 2) / (60 - d) ** 2 for d in range(31)]
        assert mser5(x) == 5 * int(np.argmin(slow))

    def test_a_constant_series_has_none(self):
        assert mser5(np.full(100, 3.0)) == 0

    def test_a_series_that_never_settles_is_refused(self):
        with pytest.raises(SmlabError, match="first half"):
            mser5(np.arange(1000.0))


class TestVonNeumann:
    def test_holds_its_level_on_independent_values(self):
        streams = SeedSequence(8).spawn(2000)
        rejected = sum(von_neumann_p(default_rng(s).standard_normal(16)) < 0.10 for s in streams)
        share = binomial_interval(rejected, 2000, level=0.999)
        assert share.contains(0.10)

    def test_sees_correlation(self):
        x = ar1(SeedSequence(9), 64, phi=0.8)
        assert von_neumann_p(x) < 0.01
        assert lag1(x) > 0.4

    def test_constant_values(self):
        assert von_neumann_p(np.ones(10)) == 1
        assert lag1(np.ones(10)) == 0


class TestBinomial:
    def test_published_values(self):
        """81 of 263: Wilson's interval 0.2553 to 0.3662; 0 of 20: 0 to 0.1611 (Newcombe 1998, table I)."""
        interval = binomial_interval(81, 263)
        assert (interval.low, interval.high) == pytest.approx((0.2553, 0.3662), abs=5e-5)
        none = binomial_interval(0, 20)
        assert (none.low, none.high) == pytest.approx((0.0, 0.1611), abs=5e-5)

    def test_ends(self):
        assert binomial_interval(10, 10).high == 1
        assert binomial_interval(10, 10).low < 1

    @pytest.mark.parametrize(("k", "n"), [(1, 0), (-1, 5), (6, 5)])
    def test_refusals(self, k, n):
        with pytest.raises(SmlabError):
            binomial_interval(k, n)


class TestCoverageStudy:
    def test_counts_and_repeats(self):
        def trial(stream):
            x = default_rng(stream).random()
            return Interval(x, x - 0.5, x + 0.5, 0.5, 1)

        coverage = coverage_study(trial, truth=1.0, trials=300, seed=1)  # holds 1.0 when x >= 0.5
        assert coverage == coverage_study(trial, truth=1.0, trials=300, seed=1)
        assert coverage.low < 50 < coverage.high
        assert coverage.mean_half_width == pytest.approx(0.5)
        assert (coverage.trials, coverage.refused) == (300, 0)

    def test_refusals_are_counted(self):
        def trial(stream):
            if default_rng(stream).random() < 0.5:
                raise SmlabError("too short")
            return Interval(0, -1, 1, 0.95, 2)

        coverage = coverage_study(trial, 0.0, 100, seed=2)
        assert coverage.observed == 100
        assert 30 < coverage.refused < 70

    def test_when_all_refuse_the_message_is_passed_on(self):
        def trial(stream):
            raise SmlabError("too short")

        with pytest.raises(SmlabError, match=r"each of 3 trials was refused.*too short"):
            coverage_study(trial, 0.0, 3, seed=2)
        with pytest.raises(SmlabError, match="number of trials"):
            coverage_study(trial, 0.0, 0, seed=2)

    def test_programming_errors_are_not_refusals(self):
        def trial(stream):
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            coverage_study(trial, 0.0, 3, seed=2)

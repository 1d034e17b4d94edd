"""Better, no better or worse than a baseline: one rule, and how often it is wrong."""

import math

import numpy as np
import pytest

from smlab.hw_bench.errors import SmlabError
from smlab.validation.method.baseline import (
    Baseline,
    compare_with_baseline,
    point_errors,
    relative_errors,
)

RNG = np.random.default_rng(np.random.SeedSequence(12))


def errors(n: int, scale: float = 1.0) -> np.ndarray:
    """Skewed errors, as real ones are."""
    return RNG.exponential(scale, n)


def test_a_clear_difference_gets_its_word_and_a_hidden_one_does_not() -> None:
    noise = errors(200)
    assert compare_with_baseline(noise, [Baseline("b", noise + 0.5)]).word == "better"
    assert compare_with_baseline(noise + 0.5, [Baseline("b", noise)]).word == "worse"
    assert compare_with_baseline(noise, [Baseline("b", noise)]).word == "no better"
    assert compare_with_baseline(errors(6), [Baseline("b", errors(6))]).word == "no better"


def test_pairing_finds_what_two_separate_intervals_hide() -> None:
    """The same hard cases are hard for both: 1 point less on each is a difference, though each mean is known
    to
    within 10."""
    hard = errors(60, 40.0) + 1
    found = compare_with_baseline(hard - 1, [Baseline("b", hard)])
    assert found.high - found.low > 10
    assert found.difference == pytest.approx(-1)
    assert found.word == "better"


def test_the_hardest_baseline_stands_for_all_and_a_fitted_one_is_marked() -> None:
    found = compare_with_baseline(
        [3.0, 5.0], [Baseline("easy", [9, 9]), Baseline("hard", [2, 2], fitted=True)]
    )
    assert (found.baseline, found.baseline_error, found.baseline_fitted) == ("hard", 2.0, True)
    assert (found.n, found.error, found.difference) == (2, 4.0, 2.0)


def test_few_groups_of_many_alike_cases_are_few_cases() -> None:
    """2,000 kernels of two families say no more of a third family than two numbers do."""
    family = np.repeat([0, 1], 1000)
    model = errors(2000, 0.01) + np.where(family == 0, 1.0, 2.0)
    baseline = np.full(2000, 2.1)
    assert compare_with_baseline(model, [Baseline("b", baseline)]).word == "better"
    grouped = compare_with_baseline(model, [Baseline("b", baseline)], groups=family.tolist())
    assert (grouped.groups, grouped.word) == (2, "no better")
    assert grouped.error == pytest.approx(model.mean())


def test_groups_of_one_case_are_cases_and_unequal_groups_keep_the_mean_over_cases() -> None:
    x, y = errors(30), errors(30)
    alone = compare_with_baseline(x, [Baseline("b", y)])
    assert compare_with_baseline(x, [Baseline("b", y)], groups=list(range(30))) == alone
    uneven = compare_with_baseline(x, [Baseline("b", y)], groups=[0] * 25 + [1, 2, 3, 4, 5])
    assert uneven.error == pytest.approx(alone.error)
    assert uneven.groups == 6


@pytest.mark.parametrize(("groups", "size"), [(4, 1), (12, 1), (60, 1), (10, 8), (14, 40)])
def test_equal_models_are_seldom_told_apart(groups: int, size: int) -> None:
    """Two models that are equally good on average, in groups that differ: either word in at most 8 % of the
    trials.
    (5 % is meant; errors are skewed and groups are few.)"""
    trials, told = 400, 0
    labels = np.repeat(np.arange(groups), size).tolist()
    for trial in range(trials):
        x, y = (np.repeat(errors(groups), size) + errors(groups * size) for _ in range(2))
        told += compare_with_baseline(x, [Baseline("b", y)], groups=labels, seed=trial).word != "no better"
    assert told / trials <= 0.08


def test_a_single_case_or_group_tells_nothing() -> None:
    found = compare_with_baseline([1.0], [Baseline("b", [50.0])])
    assert found.word == "no better"
    assert math.isnan(found.low)
    assert math.isnan(found.difference_high)


def test_errors_of_predictions() -> None:
    np.testing.assert_allclose(relative_errors([1.1, 3.0], [1.0, 4.0]), [10, 25])
    np.testing.assert_allclose(point_errors([0.5, 1.2], [0.4, 1.0]), [10, 20])


def test_refusals_name_the_model_or_baseline() -> None:
    with pytest.raises(SmlabError, match="no baseline"):
        compare_with_baseline([1.0], [])
    with pytest.raises(SmlabError, match="'peak'.*unequal lengths"):
        compare_with_baseline([1.0, 2.0], [Baseline("peak", [1.0])])
    with pytest.raises(SmlabError, match="the model, case 1: unusable value"):
        compare_with_baseline([1.0, math.nan], [Baseline("b", [1.0, 1.0])])
    with pytest.raises(SmlabError, match="groups: unequal lengths"):
        compare_with_baseline([1.0, 2.0], [Baseline("b", [1.0, 1.0])], groups=["a"])

"""Pennycook's metric on cases worked by hand, and at its definition's limits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from smlab.hw_bench.errors import SmlabError
from smlab.models.portability.metric import (
    application_efficiency,
    cascade,
    portability,
)

EFFICIENCIES = arrays(
    np.float64, st.tuples(st.integers(1, 5), st.integers(1, 6)), elements=st.floats(0.01, 1.0)
)


def test_worked_by_hand() -> None:
    found = portability([[0.5, 1.0], [0.25, 0.75], [0.9, 0.9]])
    assert found.metric == pytest.approx([2 / 3, 2 / (4 + 4 / 3), 0.9], abs=1e-12)
    assert found.least.tolist() == [0.5, 0.25, 0.9]
    assert found.mean == pytest.approx([0.75, 0.5, 0.9], abs=1e-12)


def test_a_platform_that_fails_makes_it_zero() -> None:
    found = portability([[1.0, 0.0, 1.0]])
    assert found.metric.tolist() == [0.0]
    assert found.mean == pytest.approx([2 / 3])


@given(st.floats(0.01, 1.0), st.integers(1, 9))
def test_equal_efficiencies_give_themselves(efficiency: float, platforms: int) -> None:
    assert portability([[efficiency] * platforms]).metric == pytest.approx([efficiency], abs=1e-12)


@given(EFFICIENCIES)
def test_the_metric_lies_between_the_least_and_the_mean(values: np.ndarray) -> None:
    found = portability(values)
    assert (found.metric >= found.least - 1e-12).all()
    assert (found.metric <= found.mean + 1e-12).all()


@given(EFFICIENCIES)
def test_the_cascade_falls_and_ends_at_the_metric(values: np.ndarray) -> None:
    order, falling, metric = cascade(values)
    assert (np.diff(falling, axis=1) <= 0).all()
    assert (np.diff(metric, axis=1) <= 1e-12).all()
    assert metric[:, -1] == pytest.approx(portability(values).metric, abs=1e-12)
    assert (np.sort(order, axis=1) == np.arange(values.shape[1])).all()


def test_one_application_is_its_own_best() -> None:
    assert application_efficiency([[3.0, 5.0]]).tolist() == [[1.0, 1.0]]


def test_application_efficiency_is_against_the_fastest_that_runs() -> None:
    found = application_efficiency([[2.0, np.nan, 4.0], [1.0, 3.0, np.inf], [4.0, 6.0, np.nan]])
    assert found.tolist() == [[0.5, 0.0, 1.0], [1.0, 1.0, 0.0], [0.25, 0.5, 0.0]]


def test_a_platform_on_which_all_fail_is_zero_for_all() -> None:
    assert application_efficiency([[1.0, np.nan], [2.0, np.nan]])[:, 1].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("wrong", [[[1.1]], [[-0.1]], [[float("nan")]], [[]]])
def test_what_is_no_efficiency_is_refused(wrong: list[list[float]]) -> None:
    with pytest.raises(SmlabError, match="efficiencies"):
        portability(wrong)


def test_a_time_that_is_none_is_refused() -> None:
    with pytest.raises(SmlabError, match="not a time"):
        application_efficiency([[0.0, 1.0]])

"""Matching configurations of several GPUs, and noticing units that differ."""

import numpy as np
import pytest

from smlab.hw_bench.errors import SmlabError
from smlab.models.portability.matching import check_units, match


def test_rows_that_all_have_in_the_order_of_the_first() -> None:
    found = match({"a": ["x", "y", "z"], "b": ["z", "x", "w"]})
    assert found.labels == ("x", "z")
    assert found.rows.tolist() == [[0, 1], [2, 0]]
    assert found.unmatched == {"a": ("y",), "b": ("w",)}


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"a": ["x"]}, "needs two GPUs or more"),
        ({"a": ["x", "x"], "b": ["x"]}, "a: a configuration stands twice"),
        ({"a": ["x"], "b": ["y"]}, "no kernel and configuration is in all files"),
    ],
)
def test_what_cannot_be_matched_is_told(labels: dict[str, list[str]], message: str) -> None:
    with pytest.raises(SmlabError, match=message):
        match(labels)


@pytest.mark.parametrize(("factor", "named"), [(1e3, "b"), (1e6, "b"), (1e-3, "a"), (400.0, "b")])
def test_times_in_another_unit_are_refused_by_name(factor: float, named: str) -> None:
    times = np.array([1.0, 2.0, 3.0])
    with pytest.raises(SmlabError, match=f"^{named}: its times are some"):
        check_units(("a", "b"), (times, times * factor * np.array([0.8, 1.0, 1.2])))


@pytest.mark.parametrize("factor", [0.01, 0.5, 1.0, 40.0])
def test_ratios_of_gpus_are_none(factor: float) -> None:
    times = np.array([1.0, 2.0, 3.0])
    check_units(("a", "b"), (times, times * factor))

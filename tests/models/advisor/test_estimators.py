"""Equations 2 to 10 on worked numbers and at their limits, and our refinement at its own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smlab.hw_bench.errors import SmlabError
from smlab.models.advisor.estimates import gpa_equations as e


def test_equation_2() -> None:
    assert e.stall_elimination(100, 5.805) == pytest.approx(1.0616, abs=1e-4)  # the paper's Figure 8: 1.062x
    assert e.stall_elimination(100, 0) == 1
    assert e.stall_elimination(100, 100) == e.MAX_SPEEDUP


def test_equations_3_and_4() -> None:
    assert e.latency_hiding(100, 30, 60) == pytest.approx(100 / 70)  # only 30 active samples fill slots
    assert e.latency_hiding(100, 50, 50) == 2


@given(st.integers(1, 10_000), st.integers(0, 10_000), st.integers(0, 10_000))
def test_theorem_of_equation_4(total: int, active: int, matched: int) -> None:
    active = min(active, total)
    matched = min(matched, total - active)
    assert 1 <= e.latency_hiding(total, active, matched) <= 2 + 1e-12


def test_equation_5_is_bounded_by_each_loops_own_samples() -> None:
    assert e.latency_hiding_in_scopes(100, [(10, 40), (20, 5)]) == pytest.approx(100 / 85)
    nested = e.latency_hiding_in_scopes(100, [(30, 40)])
    assert nested > e.latency_hiding_in_scopes(100, [(10, 40)])


def test_equations_6_to_10() -> None:
    assert e.issue_rate(0.25, 2) == pytest.approx(1 - 0.75**2)
    # Twice the SMs, half the warps on each scheduler: C_W = 1/2.
    expected = 2 * (1 - 0.75**2) / (1 - 0.75**4)
    assert e.parallel(0.25, 4, 2) == pytest.approx(expected)
    assert e.parallel(0.25, 4, 4) == 1
    assert e.parallel(0.25, 4, 4, factor=1.5) == 1.5
    assert e.parallel(1e-9, 8, 4) == pytest.approx(
        1, abs=1e-6
    )  # nothing hides nothing: rate falls as warps do


@pytest.mark.parametrize(("total", "matched"), [(0, 0), (10, 11), (10, -1)])
def test_samples_out_of_range_are_refused(total: float, matched: float) -> None:
    with pytest.raises(SmlabError):
        e.stall_elimination(total, matched)

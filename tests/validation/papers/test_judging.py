"""One judge of what papers say: what "holds", "in part" and "does not hold" mean in numbers."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smlab.validation.papers.judging import (
    Met,
    PaperVerdict,
    Range,
    Scale,
    how_far_met,
    part_range,
    verdict_of,
    verdict_of_cases,
)

INF = math.inf
ORDER = [Met.NO, Met.PARTLY, Met.YES]


def test_the_whole_interval_meets_the_estimate_alone_meets_in_part() -> None:
    asked = Range(2, 3)
    assert how_far_met(asked, Scale.FIGURE, 2.5, 2.4, 2.6) is Met.YES
    assert how_far_met(asked, Scale.FIGURE, 2.9, 2.8, 3.1) is Met.PARTLY
    assert how_far_met(asked, Scale.FIGURE, 3.4, 3.4, 3.4) is Met.PARTLY, "twice the tolerance"
    assert how_far_met(asked, Scale.FIGURE, 3.6, 2.9, 4.0) is Met.NO, (
        "the estimate decides, not the interval's reach"
    )


@pytest.mark.parametrize(
    ("scale", "asked", "wider"),
    [
        (Scale.SHARE, Range(90, INF), Range(50, INF)),
        (Scale.SHARE, Range(100, 100), Range(50, 100)),
        (Scale.SHARE, Range(-INF, 20), Range(-INF, 50)),
        (Scale.SHARE, Range(0.5, INF), Range(0.5, INF)),
        (Scale.ERROR, Range(-INF, 6), Range(-INF, 12)),
        (Scale.RATIO, Range(10, INF), Range(5.5, INF)),
        (Scale.RATIO, Range(-INF, 0.9), Range(-INF, 0.95)),
        (Scale.RATIO, Range(-INF, 2), Range(-INF, 2)),
        (Scale.DIFFERENCE, Range(3, INF), Range(1.5, INF)),
        (Scale.DIFFERENCE, Range(-INF, -10), Range(-INF, -5)),
        (Scale.FIGURE, Range(5.5, 6.5), Range(5, 7)),
        (Scale.RATIO, Range(50, 200), Range(25, 400)),
        (Scale.FIGURE, Range(600, 600), Range(570, 630)),
        (Scale.FIGURE, Range(0, 0), Range(0, 0)),
        (Scale.FIGURE, Range(5, INF), Range(5, INF)),
    ],
)
def test_what_in_part_is_follows_from_the_kind_of_number(scale: Scale, asked: Range, wider: Range) -> None:
    found = part_range(asked, scale)
    assert (found.low, found.high) == pytest.approx((wider.low, wider.high))


ENDS = st.one_of(st.just(INF), st.floats(-100, 100))


@given(st.sampled_from(list(Scale)), st.floats(-100, 100), ENDS)
def test_the_wider_range_holds_the_confirming_one_and_never_the_opposite_effect(
    scale: Scale, low: float, high: float
) -> None:
    asked = Range(min(low, high), max(low, high))
    wider = part_range(asked, scale)
    assert wider.contains(asked.low, asked.high)
    if math.isinf(asked.high):
        none = {Scale.RATIO: 1.0, Scale.DIFFERENCE: 0.0}.get(scale)
        if none is not None and asked.low > none:
            assert wider.low >= none


@given(st.lists(st.sampled_from(list(Met)), min_size=1, max_size=6))
def test_verdicts_follow_from_what_is_met(met: list[Met]) -> None:
    verdict = verdict_of(met)
    assert (verdict is PaperVerdict.HOLDS) == (set(met) == {Met.YES})
    points = sum(ORDER.index(m) for m in met)
    assert (verdict is PaperVerdict.FAILS) == (points < len(met))
    better = verdict_of([*met[1:], Met.YES])
    order = [PaperVerdict.FAILS, PaperVerdict.PARTLY, PaperVerdict.HOLDS]
    assert order.index(better) >= order.index(verdict), "meeting a condition never makes a verdict worse"


def test_signs_right_in_three_of_four_and_sizes_far_off_is_no_reproduction() -> None:
    """`coyne-bank-4-simulated`: 75 % of the signs where all were asked, a mean miss of 23 points where 5
    were."""
    signs = how_far_met(Range(99, INF), Scale.SHARE, 75, 75, 75)
    sizes = how_far_met(Range(-INF, 5), Scale.ERROR, 23, 23, 23)
    assert (signs, sizes) == (Met.PARTLY, Met.NO)
    assert verdict_of([signs, sizes]) is PaperVerdict.FAILS


def test_necessary_conditions_refute_and_do_not_count() -> None:
    assert verdict_of([Met.YES, Met.PARTLY], [False, True]) is PaperVerdict.FAILS
    assert verdict_of([Met.NO, Met.YES, Met.YES], [False, True, True]) is PaperVerdict.FAILS
    assert verdict_of([Met.YES], [True]) is PaperVerdict.UNJUDGED


def test_cases() -> None:
    assert [str(verdict_of_cases(p)) for p in (100, 99.9, 50, 49.9, 0)] == [
        "holds",
        "holds in part",
        "holds in part",
        "does not hold",
        "does not hold",
    ]

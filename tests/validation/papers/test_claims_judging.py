"""Verdicts: what follows from numbers and ranges, and from what is missing."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.validation.checks import Plan
from smlab.validation.checks import claims as check
from smlab.validation.papers.claims import Judged, Verdict, capabilities, judge, load_ledger
from smlab.validation.papers.claims.judging import Met, how_far_met, verdict_of
from smlab.validation.papers.claims.ledger import Claim, Expectation, Range
from smlab.validation.papers.claims.registry import Observed, Quantity
from smlab.validation.report import Report

LEDGER = load_ledger()
PLAN = Plan(gpu=load_gpu("v100"), quick=True, seed=0, processes=1)


def expectation(low: float, high: float, part: Range | None = None, value: float = 1.0) -> Expectation:
    quantity = Quantity("test", "", "published", True, lambda: Observed.exactly(value))
    return Expectation(quantity, {}, "", Range(low, high), part, "a test")


def claim(*expects: Expectation, needs: tuple[str, ...] = ()) -> Claim:
    return Claim("a-claim", "P", "P, here", "So it is.", expects, needs, "smlab claims", "")


@pytest.fixture(scope="module")
def judged() -> list[Judged]:
    """All quick claims, once."""
    return check.judge_quick()


def test_an_interval_inside_meets_one_across_the_end_meets_in_part_one_outside_does_not() -> None:
    asked = expectation(2, 3)
    assert how_far_met(asked, Observed(2.5, 2.4, 2.6)) is Met.YES
    assert how_far_met(asked, Observed(2.9, 2.8, 3.1)) is Met.PARTLY
    assert how_far_met(asked, Observed(3.5, 3.1, 3.9)) is Met.NO
    wider = expectation(2, 3, Range(1, 4))
    assert how_far_met(wider, Observed(3.5, 3.1, 3.9)) is Met.PARTLY
    assert how_far_met(wider, Observed.exactly(5)) is Met.NO


@given(
    st.lists(st.sampled_from(list(Met)), min_size=1, max_size=6),
)
def test_verdicts_follow_from_what_is_met(met: list[Met]) -> None:
    verdict = verdict_of(met)
    assert (verdict is Verdict.HOLDS) == (set(met) == {Met.YES})
    assert (verdict is Verdict.FAILS) == (set(met) == {Met.NO})
    assert verdict is not Verdict.UNJUDGED


@given(
    st.floats(-10, 10), st.floats(0, 5), st.floats(-10, 10), st.floats(0, 5), st.floats(0, 5), st.floats(0, 5)
)
def test_a_wider_range_never_makes_a_verdict_worse(
    low: float, width: float, value: float, below: float, above: float, more: float
) -> None:
    order = [Met.NO, Met.PARTLY, Met.YES]
    seen = Observed(value, value - below, value + above)
    narrow = how_far_met(expectation(low, low + width), seen)
    wide = how_far_met(expectation(low - more, low + width + more), seen)
    assert order.index(wide) >= order.index(narrow)


def test_a_missing_capability_is_named_and_its_coming_makes_the_claim_overdue(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(capabilities, "DATA", tmp_path)
    waiting = claim(needs=("gpu:titan-v",))
    before = judge(waiting)
    assert (before.verdict, before.missing, before.overdue) == (Verdict.UNJUDGED, ("gpu:titan-v",), False)
    assert "Titan V" in before.observed
    assert before.evidence is None

    (tmp_path / "titan-v").mkdir()
    assert judge(waiting).missing, "an empty folder is no data set"
    (tmp_path / "titan-v" / "shared_atomics.csv").write_text("n,e,c,t_cycles\n", encoding="utf-8")
    after = judge(waiting)
    assert (after.verdict, after.missing, after.overdue) == (Verdict.UNJUDGED, (), True)


def test_a_claim_with_a_quantity_is_judged_once_its_needs_are_here(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(capabilities, "DATA", tmp_path)
    asked = claim(expectation(0, 2), needs=("gpu:titan-v",))
    assert judge(asked).verdict is Verdict.UNJUDGED
    (tmp_path / "titan-v").mkdir()
    (tmp_path / "titan-v" / "a.csv").write_text("", encoding="utf-8")
    found = judge(asked)
    assert (found.verdict, found.evidence) == (Verdict.HOLDS, "published")


def test_no_verdict_without_a_number() -> None:
    with pytest.raises(SmlabError, match=r"claim a-claim: .*not a number"):
        judge(claim(expectation(0, 2, value=float("nan"))))


def test_every_quick_claim_is_judged_or_names_what_is_missing(judged: list[Judged]) -> None:
    assert [j.claim.id for j in judged] == [c.id for c in LEDGER.claims if c.quick]
    assert len(judged) >= 45
    for j in judged:
        assert (j.verdict is Verdict.UNJUDGED) == bool(j.missing), j.claim.id
        assert j.expected or j.verdict is Verdict.UNJUDGED
        assert j.observed
    assert set(Counter(j.verdict for j in judged)) == set(Verdict)


def test_the_verdicts_are_those_of_the_numbers(judged: list[Judged]) -> None:
    """Judged again from the plain values of the JSON rows, by other code."""
    for j in judged:
        row = j.as_row()
        inside = [c["low"] <= c["value_low"] and c["value_high"] <= c["high"] for c in row["conditions"]]
        if inside and all(inside):
            assert row["verdict"] == "holds"
        elif inside:
            assert row["verdict"] in ("holds in part", "does not hold")
        if any(inside) and not all(inside):
            assert row["verdict"] == "holds in part"


def test_the_report_lists_the_claims(judged: list[Judged]) -> None:
    page = Report("test")
    check.report(page, PLAN, {"claims": judged})
    (verdict,) = page.checks
    assert (verdict.name, verdict.ok) == ("claims-judged", True)
    rows = [
        row for name, table in page.as_json()["tables"].items() if name != "claims-by-paper" for row in table
    ]
    assert len(rows) == len(judged)
    assert list(page.drawings()) == ["claims-blocks"]
    by_paper = page.as_json()["tables"]["claims-by-paper"]
    assert sum(row["does_not_hold"] for row in by_paper) == sum(j.verdict is Verdict.FAILS for j in judged)


def test_the_report_falls_short_of_a_claim_that_could_be_judged(judged: list[Judged]) -> None:
    stale = [replace(j, missing=()) if j.missing else j for j in judged]
    page = Report("test")
    check.report(page, PLAN, {"claims": stale})
    assert page.checks[0].ok is False
    assert "dp-cas-costs-more" in page.checks[0].summary

"""Verdicts: what follows from numbers and ranges, and from what is missing."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.validation.checks import Plan
from smlab.validation.checks import claims as check
from smlab.validation.papers.claims import JudgedClaim, judge, load_ledger
from smlab.validation.papers.claims import ledger as capabilities
from smlab.validation.papers.claims.ledger import Claim, Expectation
from smlab.validation.papers.claims.registry import Observed, Quantity
from smlab.validation.papers.judging import PaperVerdict, Range
from smlab.validation.report import Report

LEDGER = load_ledger()
PLAN = Plan(gpu=load_gpu("v100"), quick=True, seed=0, processes=1)


def expectation(low: float, high: float, value: float = 1.0, *, necessary: bool = False) -> Expectation:
    quantity = Quantity("test", "", "published", True, lambda: Observed.exactly(value))
    return Expectation(quantity, {}, "", Range(low, high), "a test", necessary)


def claim(*expects: Expectation, needs: tuple[str, ...] = ()) -> Claim:
    return Claim("a-claim", "P", "P, here", "So it is.", expects, needs, "smlab claims", "")


@pytest.fixture(scope="module")
def judged() -> list[JudgedClaim]:
    """All quick claims, once."""
    return check.judge_quick()


def test_a_necessary_condition_refutes_and_confirms_nothing() -> None:
    refuted = judge(claim(expectation(0, 2), expectation(5, 6, necessary=True)))
    assert refuted.verdict is PaperVerdict.FAILS
    assert judge(claim(expectation(0, 2), expectation(0, 2, necessary=True))).verdict is PaperVerdict.HOLDS
    alone = judge(claim(expectation(0, 2, necessary=True)))
    assert (alone.verdict, alone.overdue) == (PaperVerdict.UNJUDGED, False)
    assert alone.observed.startswith("1")


def test_a_missing_capability_is_named_and_its_coming_makes_the_claim_overdue(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(capabilities, "DATA", tmp_path)
    waiting = claim(needs=("gpu:titan-v",))
    before = judge(waiting)
    assert (before.verdict, before.missing, before.overdue) == (
        PaperVerdict.UNJUDGED,
        ("gpu:titan-v",),
        False,
    )
    assert "Titan V" in before.observed
    assert before.evidence is None

    (tmp_path / "titan-v").mkdir()
    assert judge(waiting).missing, "an empty folder is no data set"
    (tmp_path / "titan-v" / "shared_atomics.csv").write_text("n,e,c,t_cycles\n", encoding="utf-8")
    after = judge(waiting)
    assert (after.verdict, after.missing, after.overdue) == (PaperVerdict.UNJUDGED, (), True)


def test_a_claim_with_a_quantity_is_judged_once_its_needs_are_here(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(capabilities, "DATA", tmp_path)
    asked = claim(expectation(0, 2), needs=("gpu:titan-v",))
    assert judge(asked).verdict is PaperVerdict.UNJUDGED
    (tmp_path / "titan-v").mkdir()
    (tmp_path / "titan-v" / "a.csv").write_text("", encoding="utf-8")
    found = judge(asked)
    assert (found.verdict, found.evidence) == (PaperVerdict.HOLDS, "published")


def test_no_verdict_without_a_number() -> None:
    with pytest.raises(SmlabError, match=r"claim a-claim: .*not a number"):
        judge(claim(expectation(0, 2, value=float("nan"))))


def test_every_quick_claim_is_judged_or_names_what_is_missing(judged: list[JudgedClaim]) -> None:
    assert [j.claim.id for j in judged] == [c.id for c in LEDGER.claims if c.quick]
    assert len(judged) >= 45
    for j in judged:
        assert (j.verdict is PaperVerdict.UNJUDGED) == bool(j.missing), j.claim.id
        assert j.expected or j.verdict is PaperVerdict.UNJUDGED
        assert j.observed
    assert set(Counter(j.verdict for j in judged)) == set(PaperVerdict)


def test_the_verdicts_are_those_of_the_numbers(judged: list[JudgedClaim]) -> None:
    """Judged again from the plain values of the JSON rows, by other code."""
    for j in judged:
        row = j.as_row()
        telling = [c for c in row["conditions"] if not c["necessary"]]
        refuted = any(c["met"] != "met" for c in row["conditions"] if c["necessary"])
        for c in row["conditions"]:
            inside = c["low"] <= c["value_low"] and c["value_high"] <= c["high"]
            assert (c["met"] == "met") == inside, j.claim.id
        if not row["conditions"]:
            continue
        score = sum({"met": 2, "in part": 1, "not met": 0}[c["met"]] for c in telling)
        if refuted or score < len(telling):
            assert row["verdict"] == "does not hold", j.claim.id
        elif telling:
            assert row["verdict"] == ("holds" if score == 2 * len(telling) else "holds in part"), j.claim.id


def test_the_report_lists_the_claims(judged: list[JudgedClaim]) -> None:
    page = Report("test")
    check.report(page, PLAN, {"claims": check.verdicts(judged)})
    (verdict,) = page.checks
    assert (verdict.name, verdict.ok) == ("claims-judged", True)
    rows = [
        row for name, table in page.as_json()["tables"].items() if name != "claims-by-paper" for row in table
    ]
    assert len(rows) == len(judged)
    assert list(page.drawings()) == ["claims-blocks"]
    by_paper = page.as_json()["tables"]["claims-by-paper"]
    assert sum(row["does_not_hold"] for row in by_paper) == sum(
        j.verdict is PaperVerdict.FAILS for j in judged
    )


def test_the_report_falls_short_of_a_claim_that_could_be_judged(judged: list[JudgedClaim]) -> None:
    stale = [replace(j, missing=()) if j.missing else j for j in judged]
    page = Report("test")
    check.report(page, PLAN, {"claims": check.verdicts(stale)})
    assert page.checks[0].ok is False
    assert "dp-cas-costs-more" in page.checks[0].summary

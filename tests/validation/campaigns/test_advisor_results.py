"""The shipped results of the advisor's study: whole, in the report as they are, and in the track record."""

from pathlib import Path
from typing import Any

import pytest

from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.models.advisor.track_record import no_promise, record_of, track_records
from smlab.validation.campaigns.advisor import section as advisor
from smlab.validation.campaigns.advisor.__main__ import _records
from smlab.validation.campaigns.advisor.generated_kernels import JUDGED, SHAPED
from smlab.validation.campaigns.advisor.held_out_kernels import ROUNDS
from smlab.validation.campaigns.advisor.pairs import PAIRS, TRIED, answers_of, judged
from smlab.validation.campaigns.advisor.producer_gains import ALL_POLICIES
from smlab.validation.campaigns.advisor.section import first_runs, rounded, stored_results
from smlab.validation.campaigns.advisor.simulate import POLICIES
from smlab.validation.campaigns.advisor.speedups import NOT_FORESEEN, ChangeRow, numbers
from smlab.validation.checks import Plan
from smlab.validation.report import Report


def test_the_report_tells_the_stored_tables() -> None:
    page = Report("title", "about")
    plan = Plan(load_gpu("v100"), quick=True, seed=0, processes=1)
    assert advisor.tasks(plan) == []
    advisor.report(page, plan, {})
    found = stored_results()
    assert [row[1] for row in page.tables()["advisor-speedups"].rows] == [
        found["speedups"]["summary"]["changes"],
        *(found["held-out"][part]["summary"]["changes"] for part in ROUNDS),
    ]
    assert "advisor-samples" in page.drawings()
    (finding,) = page.findings
    told = found["pairs"]["summary"]
    assert finding.comparison.error == pytest.approx(told["numbers"]["mape"], rel=1e-3)
    assert page.tables()["advisor-pairs"].rows[-1][1:3] == (told["changes"], told["numbers"]["changes"])


def table_on_trust() -> list[str]:
    """The rows of the table in docs/explanation/trust.md, from the stored results."""
    found, last = stored_results(), ROUNDS[advisor.JUDGE]
    blame, new = found["held-out-blame"]["summary"], first_runs()[advisor.JUDGE]
    rows = [row for part in (found["speedups"], *found["held-out"].values()) for row in part["rows"]]
    told = numbers([ChangeRow(**row) for row in rows if not row["doubt"]])
    held, bounds = told["held"], [row for row in rows if row["doubt"] not in ("", NOT_FORESEEN)]
    above = sum(row["true"] <= row["bound"] for row in bounds)
    judged = (
        f"{new['changes']} changes to {len({row['kernel'] for row in rows} & {k.name for k in last})} kernels"
    )
    first = new["first_advice"]
    parts = ("producer-gains", "held-out-producer-gains")
    shaped, unseen = (found[part]["summary"][ALL_POLICIES] for part in parts)
    other, chance = "truth under another policy", found["generated"]["judged"]["summary"]

    def runs(truth: str, mode: str, of: dict[str, Any] = blame) -> str:
        return " and ".join(f"{100 * of[truth][mode][how]:.0f} %" for how in ("mean", "min"))

    def ranked(part: dict[str, Any]) -> str:
        told = part["summary"][ALL_POLICIES]
        low, high = told["interval"]
        return f"{told['spearman']:.3f} ({low:.2f} to {high:.2f})"

    return [
        "| | asked | found | beside it |",
        "|---|---|---|---|",
        f"| stalled cycles blamed on the producer that came last: mean and worst run of {blame['kernels']} "
        f"kernels held out | 95 and 85 % | {runs('last', 'smlab')} "
        f"| GPA's method: {runs('last', 'as-published')} |",
        f"| the same, divided among all that are out | 95 and 85 % | {runs('shared', 'smlab (shared)')} "
        f"| true shares under another scheduling policy: {runs('shared', other)} |",
        f"| both on {chance['kernels']} random kernels | 95 and 85 % "
        f"| {runs('last', 'smlab', chance)}; {runs('shared', 'smlab (shared)', chance)} "
        f"| GPA's method: {runs('last', 'as-published', chance)}; {runs('shared', 'as-published', chance)} |",
        f"| speedup of a change, mean error ({judged}, written afterwards) | 10 % "
        f"| {new['smlab']['mape']:.0f} % | best constant: {new['constant']['mape']:.0f} % |",
        f"| its gain, median error | 20 % | {new['smlab']['median_error_of_gain']:.0f} % "
        f"| best constant: {new['constant']['median_error_of_gain']:.0f} % |",
        f"| speedups told as numbers, {told['changes']} of {len(rows)} changes (seen and mended after): "
        f"mean error, rank correlation | 8 %, 0.7 | {told['mape']:.1f} %, {told['spearman']:.2f} "
        f"| best constant: {told['constant']['mape']:.0f} % |",
        f"| the same, promises above twice the truth | none | {len(told['above_twice'])} | |",
        f"| intervals of 90 %, the change's own kind and kernel left out | 90 % "
        f"| {round(held['share'] * held['n'])} of {held['n']} "
        f"| of the last round when new: {100 * new['held']['share']:.0f} % |",
        f"| what is told as a bound is one | | {above} of {len(bounds)} | |",
        *_rows_by_others(),
        f"| the best change made is among the first two pieces of advice | 80 % "
        f"| {first['right']} of {first['kernels']} | |",
        f"| rank correlation of producers by counterfactual gain (mean of {len(POLICIES)} policies), median; "
        f"90 % intervals | 0.8 | {ranked(found['producer-gains'])}, of held-out kernels "
        f"{ranked(found['held-out-producer-gains'])} | GPA's method: "
        f"{shaped['spearman_published']:.2f}, {unseen['spearman_published']:.2f} |",
    ]


def _rows_by_others() -> list[str]:
    new = first_runs()["tenth_and_eleventh_round"]
    n, tried = new["smlab"], new["pairs"] - new["kernels"]
    return [
        f"| **kernels by others**: {new['kernels']} changes, {new['changes']} told as numbers: mean error, "
        f"rank correlation | 8 %, 0.7 | **{n['mape']:.0f} %, {new['spearman']:.2f}** "
        f"| best constant: {new['constant']['mape']:.0f} % |",
        f"| their gain, median error | 20 % | {n['median_error_of_gain']:.0f} % "
        f"| best constant: {new['constant']['median_error_of_gain']:.0f} % |",
        f"| their intervals of 90 %; promises above twice the truth; bounds | 90 %; none; all "
        f"| **{_count(new['held'])}**; {len(new['above_twice'])}; {_count(new['bounds'])} | |",
        f"| the change made is the first advice, among two, among five ({tried} launches, tried, included) | "
        f"| {', '.join(str(new['among_the_first'][k]) for k in '125')} of {new['pairs']} | |",
    ]


def _count(share: dict[str, float]) -> str:
    return f"{round(share['share'] * share['n'])} of {share['n']:.0f}"


def test_rounds_by_others_are_told_as_their_rows() -> None:
    part = stored_results()["pairs"]
    answers = {name: answers_of(part[name]) for name in PAIRS}
    every = [answer for of in answers.values() for answer in of]
    assert {answer.row.kernel for answer in every} == {pair.name for of in PAIRS.values() for pair in of}
    for of, stored in [(every, part["summary"]), *((answers[name], part[name]["summary"]) for name in PAIRS)]:
        again = rounded(judged(of)["summary"])
        assert again["numbers"]["mape"] == pytest.approx(stored["numbers"]["mape"], rel=1e-3)
        assert again["numbers"]["held"] == stored["numbers"]["held"]
        for key in ("pairs", "told_as_numbers", "told_as_bounds", "not_told", "among_the_first", "bounds"):
            assert again[key] == stored[key]


def test_the_page_of_speedups_tells_the_rounds_by_others() -> None:
    text = (Path(__file__).parents[3] / "docs" / "findings" / "advisor-speedups.md").read_text()
    assert "\n".join(table_by_others()) in text
    assert "\n".join(table_of_pairs()) in text


def table_by_others() -> list[str]:
    """The rows of the page's table of the two rounds when they were new, and of both."""
    found = []
    for name, of in {"10": "tenth_round", "11": "eleventh_round", "both": "tenth_and_eleventh_round"}.items():
        new = first_runs()[of]
        n, held, bounds = new["smlab"], _count(new["held"]), _count(new["bounds"])
        cells = (
            *(name, f"{new['changes']} of {new['kernels']}", f"{n['mape']:.1f} %"),
            *(f"{new['constant']['mape']:.1f} %", f"{new['spearman']:.2f}"),
            *(f"{n['median_error_of_gain']:.0f} %", held, str(len(new["above_twice"])), bounds),
            f"{', '.join(str(new['among_the_first'][k]) for k in '125')} of {new['pairs']}",
        )
        found.append(f"| {' | '.join(cells)} |")
    return found


def table_of_pairs() -> list[str]:
    """Each kernel by others: what was promised where, and what was true."""
    part, found = stored_results()["pairs"], []
    for name, number in zip(PAIRS, ("10", "11"), strict=True):
        for row in part[name]["rows"]:
            promised = f"{row['estimated']:.2f} ({row['low']:.2f} to {row['high']:.2f})"
            if row["rank"] is None:
                promised = "nothing"
            elif row["doubt"]:
                promised = f"at most {row['bound']:.2f}"
            elif row["change"] == TRIED:
                promised = f"{row['estimated']:.2f}, tried"
            place = "" if row["rank"] is None else str(row["rank"] + 1)
            kernel, true = f"`{row['kernel']}`", f"{row['true']:.2f}"
            found.append(f"| {' | '.join((number, kernel, row['change'], promised, true, place))} |")
    return found


def test_the_page_on_trust_tells_the_stored_results() -> None:
    text = (Path(__file__).parents[3] / "docs" / "explanation" / "trust.md").read_text()
    assert "\n".join(table_on_trust()) in text
    before = [r["smlab"]["mape"] for name, r in first_runs().items() if name in ROUNDS]
    assert f"off by {min(before[:-1]):.0f} to {max(before[:-1]):.0f} %" in text
    assert before[-1] <= 10 < min(before[:-1])


def test_each_round_is_told_as_it_was_when_new() -> None:
    new = first_runs()
    assert [*ROUNDS][-1] == advisor.JUDGE
    for name in ROUNDS:
        assert new[name]["changes"] == stored_results()["held-out"][name]["summary"]["changes"]


def test_all_parts_are_there_and_conserved() -> None:
    found = stored_results()
    blame = found["blame"]["summary"]
    assert blame["kernels"] >= 40
    assert blame["conserved"]
    assert blame["unexplained_cycles"] == 0
    assert len(found["blame"]["worst_runs"]) == blame["kernels"]
    short = {
        kernel
        for part in ("blame", "held-out-blame")
        for kernel, least in found[part]["worst_runs"].items()
        if min(least.values()) < 0.85
    }
    assert {row["kernel"] for row in found["limits"]["rows"]} == short
    for row in found["limits"]["rows"]:
        least = {**found["blame"]["worst_runs"], **found["held-out-blame"]["worst_runs"]}[row["kernel"]]
        assert {truth: row[truth]["ours"] for truth in least} == pytest.approx(least, rel=1e-4)
    for part, seeds in (("shaped", SHAPED), ("judged", JUDGED)):
        chance = found["generated"][part]
        assert chance["summary"]["kernels"] == len(chance["worst_runs"]) == len(seeds)
        assert chance["summary"]["conserved"]
        assert chance["summary"]["unexplained_cycles"] == 0
    assert found["speedups"]["summary"]["changes"] >= 60
    assert found["speedups"]["summary"]["kernels"] >= 20


def test_the_track_record_is_that_of_the_stored_changes() -> None:
    records = rounded(_records(stored_results()))
    assert {row["optimizer"] for row in records} == set(track_records())
    for row in records:
        shipped = track_records()[row["optimizer"]]
        assert (shipped.n, shipped.low, shipped.high) == pytest.approx(
            (row["n"], row["low"], row["high"]), rel=1e-3
        )
    assert str(record_of("all").n) in record_of("all").text


def test_no_interval_is_narrower_than_that_of_kernels_by_others() -> None:
    """90 % of the numbers told for kernels by others: with 18 of them from the lowest to the highest."""
    others = track_records()["by others"]
    found = stored_results()["pairs"]
    rows = [row for name in ("tenth_round", "eleventh_round") for row in found[name]["rows"]]
    ratios = [r["true"] / r["estimated"] for r in rows if not r["doubt"] and r["change"] != "launch-shape"]
    assert (others.n, others.low, others.high) == pytest.approx((18, min(ratios), max(ratios)), rel=1e-3)
    for name in track_records():
        low, high = record_of(name).interval(2.0)
        assert low <= 2 * min(ratios) * 1.001
        assert high >= 2 * max(ratios) * 0.999
    of = found["summary"]["numbers"]
    assert f"{of['changes']} were off by {of['mape']:.0f} % in the mean" in no_promise()
    assert f"a constant by {of['constant']['mape']:.0f} %" in no_promise()

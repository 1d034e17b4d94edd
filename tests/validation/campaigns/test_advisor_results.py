"""The shipped results of the advisor's study: whole, in the report as they are, and in the track record."""

import json
from pathlib import Path
from typing import Any

import pytest

from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.models.advisor.track_record import as_made_by_others, record_of, track_records
from smlab.validation.campaigns.advisor import section as advisor
from smlab.validation.campaigns.advisor.__main__ import _records
from smlab.validation.campaigns.advisor.generated_kernels import JUDGED, SHAPED
from smlab.validation.campaigns.advisor.kernels import ROUNDS
from smlab.validation.campaigns.advisor.pairs import (
    DEVELOPED,
    PAIRS,
    SIMULATED,
    answers_of,
    intervals,
    judged,
)
from smlab.validation.campaigns.advisor.producer_gains import ALL_POLICIES
from smlab.validation.campaigns.advisor.second_hand import ROUNDS as SECOND_ROUNDS
from smlab.validation.campaigns.advisor.second_hand import SecondHand
from smlab.validation.campaigns.advisor.second_hand import judged as second_judged
from smlab.validation.campaigns.advisor.section import first_runs, rounded, stored_results
from smlab.validation.campaigns.advisor.simulate import POLICIES
from smlab.validation.campaigns.advisor.speedups import ChangeRow, numbers
from smlab.validation.checks import Plan
from smlab.validation.checks.stored import JUDGEMENTS
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
    assert page.tables()["advisor-pairs"].rows[-1][1:3] == (told["pairs"], told["numbers"]["changes"])
    shipped = json.loads((JUDGEMENTS / "advisor" / "section.json").read_text())
    assert shipped["findings"][0]["comparison"]["error"] == pytest.approx(finding.comparison.error)


def table_on_trust() -> list[str]:
    """The rows of the table in docs/explanation/trust.md, from the stored results."""
    found, last = stored_results(), ROUNDS[advisor.JUDGE]
    blame, new = found["held-out-blame"]["summary"], first_runs()[advisor.JUDGE]
    rows = [row for part in (found["speedups"], *found["held-out"].values()) for row in part["rows"]]
    tried, intervals = found["tried"]["summary"], found["tried"]["intervals"]
    told, kernels = tried["numbers"], len({row["kernel"] for row in found["tried"]["rows"]})
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
        f"| numbers by trying, {told['changes']} of {tried['pairs']} changes to {kernels} kernels of ours "
        f"drawn by a seed: mean error, rank correlation | 8 %, 0.7 "
        f"| {told['mape']:.1f} %, {told['spearman']:.2f} | best constant: {told['constant']['mape']:.0f} % |",
        f"| the same, promises above twice the truth | none | {len(told['above_twice'])} | |",
        f"| intervals of 90 %, kinds of changes left out in turn | 85 to 95 % "
        f"| {intervals['held']} of {intervals['n']} "
        f"| {intervals['low']:.2f} to {intervals['high']:.2f} times the number |",
        f"| what is told as a bound is one | | {tried['bounds']['hold']} of {tried['bounds']['n']} | |",
        *_rows_by_others(),
        f"| the best change made is among the first two pieces of advice | 80 % "
        f"| {first['right']} of {first['kernels']} | |",
        f"| rank correlation of producers by counterfactual gain (mean of {len(POLICIES)} policies), median; "
        f"90 % intervals | 0.8 | {ranked(found['producer-gains'])}, of held-out kernels "
        f"{ranked(found['held-out-producer-gains'])} | GPA's method: "
        f"{shaped['spearman_published']:.2f}, {unseen['spearman_published']:.2f} |",
    ]


def _rows_by_others() -> list[str]:
    new = stored_results()["pairs"]["summary"]
    n, bounds = new["numbers"], new["bounds"]
    old, every = first_runs()["eighteenth_and_nineteenth_round"], stored_results()["pairs"]["intervals"]
    return [
        f"| **kernels by others**, the rounds that judge: {new['pairs']} changes, {n['changes']} told as "
        f"numbers ({new['simulated']['changes']} simulated): mean error, rank correlation | 8 %, 0.7 "
        f"| **{n['mape']:.0f} %, {n['spearman']:.2f}** | best constant: {n['constant']['mape']:.0f} % |",
        f"| their gain, median error | 20 % | {n['median_error_of_gain']:.0f} % "
        f"| best constant: {n['constant']['median_error_of_gain']:.0f} % |",
        f"| their intervals of 90 % when new; promises above twice the truth; bounds | 90 %; none; all "
        f"| {_count(old['held'])}; {len(n['above_twice'])}; {bounds['hold']} of {bounds['n']} | |",
        f"| intervals of today, all ten rounds by others, kinds of changes left out in turn; rounds left "
        f"out in turn | 85 to 95 % | {every['held']} of {every['n']}; {every['held_rounds']} of {every['n']} "
        f"| {every['low']:.2f} to {every['high']:.2f} times the number |",
        f"| the change made is the first advice, among two, among five | "
        f"| {', '.join(str(new['among_the_first'][k]) for k in '125')} of {new['pairs']} | |",
    ]


def _count(share: dict[str, float]) -> str:
    return f"{round(share['share'] * share['n'])} of {share['n']:.0f}"


def test_rounds_by_others_are_told_as_their_rows() -> None:
    part = stored_results()["pairs"]
    answers = {name: answers_of(part[name]) for name in PAIRS}
    sets = [(answers[name], part[name]["summary"]) for name in PAIRS]
    for key, names in {"developed": DEVELOPED, "summary": advisor.JUDGING}.items():
        sets.append(([answer for name in names for answer in answers[name]], part[key]))
    for of, stored in sets:
        again = rounded(judged(of)["summary"])
        assert again.keys() == stored.keys()
        assert again["numbers"]["mape"] == pytest.approx(stored["numbers"]["mape"], rel=1e-3)
        for key in again.keys() - {"numbers", "simulated", "replayed_numbers"}:
            assert again[key] == stored[key]
    for name, pairs in PAIRS.items():
        judged_ones = [answer.row.kernel for answer in answers[name]]
        assert judged_ones == [pair.name for pair in pairs if pair.name in judged_ones]


def test_the_page_of_speedups_tells_the_rounds_by_others() -> None:
    text = (Path(__file__).parents[3] / "docs" / "findings" / "advisor-speedups.md").read_text()
    assert "\n".join(table_by_others()) in text
    assert "\n".join(table_of_pairs()) in text


NUMBERS = dict(zip(PAIRS, map(str, range(10, 20)), strict=True))
STATES = {"10": ", made on it", "11": ", made on it", **{str(n): ", when new" for n in range(12, 18)}}


def table_by_others() -> list[str]:
    """The rows of the page's table of rounds: the first two by replay alone, when they were new; then all by
    the method of today."""
    found = []
    for name, of in {"10": "tenth_round", "11": "eleventh_round", "both": "tenth_and_eleventh_round"}.items():
        new = first_runs()[of]
        n, held, bounds = new["smlab"], _count(new["held"]), _count(new["bounds"])
        cells = (
            *(f"{name}, replayed", f"{new['changes']} of {new['kernels']}", f"{n['mape']:.1f} %"),
            *(f"{new['constant']['mape']:.1f} %", f"{new['spearman']:.2f}"),
            *(f"{n['median_error_of_gain']:.0f} %", held, str(len(new["above_twice"])), bounds),
            f"{', '.join(str(new['among_the_first'][k]) for k in '125')} of {new['pairs']}",
        )
        found.append(f"| {' | '.join(cells)} |")
    part = stored_results()["pairs"]
    rounds = {number + STATES.get(number, ""): name for name, number in NUMBERS.items()}
    for name, stored in {**rounds, "**18 and 19**": "summary"}.items():
        new = part[stored] if stored == "summary" else part[stored]["summary"]
        n, bounds = new["numbers"], new["bounds"]
        cells = (
            *(name, f"{n['changes']} of {new['pairs']}", f"{n['mape']:.1f} %"),
            *(f"{n['constant']['mape']:.1f} %", f"{n['spearman']:.2f}", f"{n['median_error_of_gain']:.0f} %"),
            *(_count(n["held"]), str(len(n["above_twice"])), f"{bounds['hold']} of {bounds['n']}"),
            f"{', '.join(str(new['among_the_first'][k]) for k in '125')} of {new['pairs']}",
        )
        found.append(f"| {' | '.join(cells)} |")
    return found


def table_of_pairs() -> list[str]:
    """Each kernel by others: what is told where, and what is true."""
    part, found = stored_results()["pairs"], []
    for name, number in NUMBERS.items():
        for row in part[name]["rows"]:
            told = f"{row['estimated']:.2f}, {row['how']}"
            if row["rank"] is None:
                told = "nothing"
            elif row["how"] == "ranked":
                told = "no number"
            elif row["how"] == "bound":
                told = f"at most {row['bound']:.2f}"
            place = "" if row["rank"] is None else str(row["rank"] + 1)
            kernel, true = f"`{row['kernel']}`", f"{row['true']:.2f}"
            by = "" if row["rank"] is None else row["optimizer"]
            found.append(f"| {' | '.join((number, kernel, row['change'], by, told, true, place))} |")
    return found


def test_the_page_tells_two_engineers_gains_by_one_change() -> None:
    stored = stored_results()
    part, told = stored["second-hand"], stored["pairs"]
    rows = [SecondHand(**row) for row in part["rows"]]
    answers = [answer for name in SECOND_ROUNDS for answer in answers_of(told[name])]
    assert [row.kernel for row in rows] == [pair.name for name in SECOND_ROUNDS for pair in PAIRS[name]]
    again = rounded(second_judged(rows, [answer.row for answer in answers]))
    for key in ("all", "told"):
        assert again["summary"][key]["mape"] == pytest.approx(part["summary"][key]["mape"], rel=1e-3)
    assert all(row.differ < 1e-3 for row in rows)
    numbers = {answer.row.kernel: f"{answer.row.estimated:.2f}" for answer in answers if not answer.row.doubt}
    lines = [
        f"| `{r.kernel}` | {r.change} | {r.author:.2f} | {r.second:.2f} | {numbers.get(r.kernel, '')} |"
        for r in rows
    ]
    text = (Path(__file__).parents[3] / "docs" / "findings" / "advisor-speedups.md").read_text()
    assert "\n".join(lines) in text
    every, some = part["summary"]["all"], part["summary"]["told"]
    assert f"{every['mape']:.1f} % apart in the mean and {every['median_ape']:.1f} % in the median" in text
    assert f"the second engineers are {some['mape']:.1f} % off" in text


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
    """It comes from all four rounds; the errors are of those that were opened when the method was frozen."""
    others = track_records()["by others"]
    found = stored_results()["pairs"]
    rows = [ChangeRow(**row) for name in advisor.JUDGING for row in found[name]["rows"] if not row["doubt"]]
    low, high = (found["intervals"][end] for end in ("low", "high"))
    assert (others.n, others.low, others.high) == pytest.approx((len(rows), low, high), rel=1e-3)
    for name in track_records():
        least, most = record_of(name).interval(2.0)
        assert least <= 2 * low * 1.001
        assert most >= 2 * high * 0.999
    of = numbers(rows)
    assert f"{of['changes']} such numbers were {of['mape']:.0f} % off" in as_made_by_others()
    assert f"the best constant was {of['constant']['mape']:.0f} %" in as_made_by_others()


def test_intervals_hold_where_their_kind_of_change_is_left_out() -> None:
    found = stored_results()["pairs"]
    told = [(answer, name) for name in PAIRS for answer in answers_of(found[name])]
    every = [answer for answer, _ in told]
    again = intervals([answer.row for answer in every], [name for _, name in told])
    assert rounded(again) == found["intervals"]
    held = sum(a.row.low <= a.row.true <= a.row.high for a in every if a.row.how in SIMULATED)
    assert held == again["held"]
    for left in ("held", "held_rounds"):
        assert 0.85 <= again[left] / again["n"] <= 0.95

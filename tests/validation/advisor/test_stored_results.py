"""The shipped results of the advisor's study: whole, in the report as they are, and in the track record."""

import pytest

from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.models.advisor.record import record_of, track_records
from smlab.validation.advisor.__main__ import _records
from smlab.validation.advisor.stored import first_runs, rounded, stored_results
from smlab.validation.advisor.unseen import ROUNDS
from smlab.validation.checks import Plan, advisor
from smlab.validation.report import Report


def test_the_report_tells_the_stored_tables() -> None:
    page = Report("title", "about")
    plan = Plan(load_gpu("v100"), quick=True, seed=0, processes=1)
    assert advisor.tasks(plan) == []
    advisor.report(page, plan, {})
    found = stored_results()
    assert [row[1] for row in page.tables()["advisor-speedups"].rows] == [
        found["speedups"]["summary"]["changes"],
        *(found["unseen"][part]["summary"]["changes"] for part in ROUNDS),
    ]
    assert "advisor-samples" in page.drawings()
    (finding,) = page.findings
    assert finding.comparison.error == pytest.approx(
        found["unseen"][advisor.JUDGE]["summary"]["smlab"]["mape"], rel=1e-3
    )


def test_each_round_is_told_as_it_was_when_new() -> None:
    new = first_runs()
    assert [*ROUNDS][-1] == advisor.JUDGE
    for name in ROUNDS:
        assert new[name]["changes"] == stored_results()["unseen"][name]["summary"]["changes"]


def test_all_parts_are_there_and_conserved() -> None:
    found = stored_results()
    blame = found["blame"]["summary"]
    assert blame["kernels"] >= 40
    assert blame["conserved"]
    assert blame["unexplained_cycles"] == 0
    assert len(found["blame"]["worst_runs"]) == blame["kernels"]
    assert found["speedups"]["summary"]["changes"] >= 60
    assert found["speedups"]["summary"]["kernels"] >= 20


def test_the_track_record_is_that_of_the_stored_changes() -> None:
    records = rounded(_records(stored_results()))
    assert {row["optimizer"] for row in records} == set(track_records())
    for row in records:
        shipped = record_of(row["optimizer"])
        assert (shipped.n, shipped.low, shipped.high) == pytest.approx(
            (row["n"], row["low"], row["high"]), rel=1e-3
        )
    assert str(record_of("all").n) in record_of("all").text

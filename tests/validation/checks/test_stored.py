"""Judgements that are shown as they were stored."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from scipy.stats import binom

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.validation.checks import Plan, run
from smlab.validation.checks.stored import STORED, StoredCheck
from smlab.validation.method.baseline import Baseline, compare_with_baseline
from smlab.validation.report import Cell, Column, Report
from smlab.validation.report.content import Finding
from smlab.validation.report.stored import StoredProvenance, add_stored, read_provenance, write_stored

MADE = StoredProvenance("make it", "2026-11-23", "abc", "v100", 0)
PLAN = Plan(load_gpu("v100"), quick=False, seed=0, processes=1)


@pytest.fixture
def said() -> Report:
    """A report with one of everything."""
    page = Report("t")
    page.headline("label", "12 %", kind="simulated", note="a note")
    page.check("sound", True, "as it should be", "one")
    page.check("open", None, "not done")
    comparison = compare_with_baseline([1.0, 2.0, 4.0], [Baseline("guess", [3.0, 3.0, 3.5])], groups="aab")
    page.finding(
        Finding("how far", "ours", comparison, unit="%", evidence="simulated", group="letters", section="one")
    )
    section = page.section("one", "Title", "Introduction.")
    section.text("Some **text**.")
    section.fold("folded")
    section.heading("heading")
    rows = [["a", 1, 0.1], ["b", None, float("nan")], [Cell("c", "assumed"), 3, 1e-9]]
    section.table("numbers", [Column("name"), Column("n"), Column("x", unit="%", digits=2)], rows, "Caption.")
    section.unfold()
    section.figure("drawn", Figure(), {"x": [1, 2], "y": [0.5, 0.25]}, "Caption.", "Nothing is seen.")
    return page


def test_what_is_stored_is_shown_as_it_was(said: Report, tmp_path: Path) -> None:
    write_stored(said, MADE, tmp_path / "part")
    page = Report("t")
    add_stored(page, tmp_path / "part", "Not made in this run.")
    assert page.metrics() == said.metrics()
    assert [type(b) for b in page.sections[0].blocks] == [type(b) for b in said.sections[0].blocks]
    assert page.sections[0].intro == "Introduction. Not made in this run."
    assert page.drawings()["drawn"].svg == said.drawings()["drawn"].svg
    assert page.drawings()["drawn"].csv == said.drawings()["drawn"].csv
    report = page.write(tmp_path / "out")
    assert "Nothing is seen." in report.read_text()
    assert (tmp_path / "out" / "figures" / "drawn.svg").exists()


def test_writing_again_leaves_nothing_of_before(said: Report, tmp_path: Path) -> None:
    write_stored(said, MADE, tmp_path)
    write_stored(Report("t"), replace(MADE, seed=1), tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["section.json"]
    assert read_provenance(tmp_path).seed == 1


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"made": {}, "headlines": [{}]}'])
def test_what_is_no_stored_part_is_refused_in_one_line(text: str, tmp_path: Path) -> None:
    (tmp_path / "section.json").write_text(text)
    with pytest.raises(SmlabError, match="stored part") as told:
        add_stored(Report("t"), tmp_path)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("check", STORED, ids=lambda c: c.name)
def test_each_shipped_part_says_how_it_was_made_and_for_which_gpu(check: StoredCheck) -> None:
    assert check.tasks(PLAN) == []
    page, other = Report("t"), Report("t")
    check.report(page, PLAN, {})
    check.report(other, replace(PLAN, gpu=load_gpu("a100-40")), {})
    made = read_provenance(check.folder)
    assert (made.gpu, made.seed) == ("v100", 0)
    assert made.command.endswith(check.name)
    assert made.date in page.sections[0].intro
    assert "alone" not in page.sections[0].intro
    assert "says nothing of `a100-40`" in other.sections[0].intro
    assert page.findings or page.checks
    document = json.loads((check.folder / "section.json").read_text())
    names = {b["name"] for s in document["sections"] for b in s["blocks"] if b["type"] == "figure"}
    assert {p.stem for p in check.folder.glob("*.svg")} == names == set(page.drawings())


def test_every_stored_check_has_a_reason() -> None:
    for part in STORED:
        page = Report("t")
        part.report(page, PLAN, {})
        for check in page.checks:
            assert check.ok, check
            assert any(check.name.startswith(begin) for begin in run.REASONS), check.name


def test_right_intervals_leave_the_bounds_of_their_coverage_once_in_500_runs() -> None:
    trials = 400
    alarms = binom.cdf(0.90 * trials - 1, trials, 0.95) + binom.sf(0.98 * trials, trials, 0.95)
    assert alarms < 1 / 500

"""The report: one file that needs nothing from outside, says everything that was put in, and escapes all
of it."""

import csv
import json
import math
import os
from html.parser import HTMLParser

import numpy as np
import pytest
from matplotlib.figure import Figure

from smlab.hw_bench.errors import SmlabError
from smlab.validation.method.baseline import Baseline, compare_with_baseline
from smlab.validation.method.metrics import error_table, points_table
from smlab.validation.report import KINDS, Cell, Column, Report
from smlab.validation.report.content import Finding
from smlab.validation.report.page import (
    ErrorAxis,
    error_bars,
    error_text,
    inline,
    paragraphs,
    summary_of_checks,
    summary_of_findings,
)
from smlab.validation.report.tables import ABSENT, show

HOSTILE = (
    "</style></script><script>alert('x')</script>"
    """<img src="http://evil.example/x.png" onerror=alert(1)>&"'"""
)
VOID = {"meta", "img", "br", "hr", "link", "input"}


class Page(HTMLParser):
    """Parses a page strictly: tags must nest, ids must be unique."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.open, self.ids, self.attributes, self.tags, self.words = [], [], [], [], []
        self.feed(html)
        self.close()
        assert self.open == []

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, key, value) for key, value in attrs]
        self.ids += [value for key, value in attrs if key == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> without a start"
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.words.append(data)


def small_figure():
    fig = Figure(figsize=(3, 2))
    fig.subplots().plot([1, 2], [3, 4])
    return fig


@pytest.fixture(scope="module")
def report():
    r = Report(
        "Validation", "How far, and **where**", provenance={"smlab": "0.1.0", "seed": np.int64(0), "x": None}
    )
    r.headline("Atomic unit", "19.26 cycles", kind="simulated", note="published 19.47")
    r.check("law", np.True_, "n = X R")
    r.check("hardware-v100", False, "MAPE 3 % (bound 1.5 %)", section="hardware")
    r.check("cas", None, "needs a GPU: `smlab bench run`", section="nowhere")
    cases = np.arange(1.0, 9.0)
    r.finding(
        Finding(
            "How long?",
            "simulator",
            compare_with_baseline(cases, [Baseline(HOSTILE, cases + 5, fitted=True)]),
            unit="%",
            evidence="published",
            group="families",
            section="hardware",
        )
    )
    r.finding(
        Finding(
            "How long?",
            "a guess",
            compare_with_baseline(cases + 9, [Baseline("other", cases)], groups=list("aabbccdd")),
            unit="%",
            evidence="published",
            group="families",
        )
    )
    s = r.section("hardware", "Against hardware", intro=f"First.\n\n{HOSTILE} and `a < b`")
    s.heading("Details & more")
    s.text(HOSTILE)
    s.table(
        "points",
        [Column("N", unit="lanes"), Column("Cycles", unit="c", kind="published", digits=2), Column("Note")],
        [
            [1, 4.421, HOSTILE],
            [np.int64(32), np.float64(35.0), None],
            [2, math.nan, "nan"],
            [4, -math.inf, "inf"],
        ],
        caption=HOSTILE,
    )
    s.table(
        "constants",
        [Column("Key"), Column("Value")],
        [["a", Cell(3.4, "calibrated")], ["b", Cell(2, "assumed")]],
    )
    s.error_tables(
        "errors",
        {HOSTILE: error_table([1, 2, 3], [1, 2, 4], baseline=[2, 2, 2]), "one case": error_table([1], [2])},
        kinds={"one case": "modelled"},
    )
    s.point_errors("points-off", {"model": points_table([0.5, 1.2], [0.4, 1.0])})
    s.figure("curve", small_figure(), {"x": [1, 2], "y": np.array([3.0, math.pi])}, HOSTILE, alt=HOSTILE)
    folded = r.section("folded", "With a fold")
    folded.text("in the open")
    folded.fold("Details of it")
    folded.text("folded away")
    r.section("empty", "Nothing here")
    return r


@pytest.fixture(scope="module")
def written(report, tmp_path_factory):
    return report.write(tmp_path_factory.mktemp("out") / "deep" / "down")


@pytest.fixture(scope="module")
def page(written):
    return Page(written.read_text(encoding="utf-8"))


class TestPage:
    def test_nothing_comes_from_outside(self, page):
        assert {"script", "link", "iframe", "object"}.isdisjoint(page.tags)
        for tag, key, value in page.attributes:
            assert not key.startswith("on"), (tag, key)
            if key in {"src", "href", "xlink:href", "action", "srcset"}:
                assert value.startswith(("#", "data:")), (tag, key, value[:60])
        policy = next(
            v for t, k, v in page.attributes if t == "meta" and k == "content" and "default-src" in v
        )
        assert policy.startswith("default-src 'none'")

    def test_the_style_sheet_asks_for_nothing(self, written):
        style = written.read_text().split("<style>")[1].split("</style>")[0]
        assert "url(" not in style
        assert "@import" not in style
        assert "prefers-color-scheme: dark" in style
        assert "@media print" in style

    def test_everything_is_there_once_and_every_link_leads_somewhere(self, page, report):
        assert len(page.ids) == len(set(page.ids))
        wanted = {f"check-{c.name}" for c in report.checks} | {f"table-{n}" for n in report.tables()}
        wanted |= {"figure-curve", "hardware", "empty", "summary", "contents", "legend", "provenance"}
        assert wanted <= set(page.ids)
        links = {v[1:] for _, k, v in page.attributes if k == "href" and v.startswith("#")}
        assert links <= set(page.ids)

    def test_hostile_strings_are_shown_not_obeyed(self, page):
        assert page.text.count("alert('x')") >= 5
        assert page.tags.count("img") == 1  # the figure
        assert ("img", "alt", HOSTILE) in page.attributes

    def test_verdicts(self, page):
        assert "One check of the testbed fell short. 1 of 3 held, 1 fell short, 1 not done." in page.text
        assert (
            page.text.index("fell short hardware-v100")
            < page.text.index("not done cas")
            < page.text.index("held law")
        )

    def test_kinds_are_badged_and_explained(self, page):
        for kind in ("simulated", "published", "calibrated", "assumed", "modelled"):
            assert KINDS[kind] in page.text
            assert any(k == "class" and v == f"kind kind-{kind}" for _, k, v in page.attributes)
        assert KINDS["measured"] not in page.text

    def test_numbers_as_printed(self, page):
        for text in ("4.42", "35.00", "−∞", ABSENT, "19.26 cycles"):
            assert text in page.text


class TestFiles:
    def test_all_files(self, written, report):
        folder = written.parent
        found = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}
        assert found == {
            "report.html",
            "metrics.json",
            *(f"figures/curve.{ext}" for ext in ("svg", "png", "csv")),
            *(f"tables/{name}.csv" for name in report.tables()),
        }
        assert (folder / "figures/curve.png").read_bytes().startswith(b"\x89PNG")
        assert b"<svg" in (folder / "figures/curve.svg").read_bytes()

    def test_json(self, written, report):
        def refuse(constant):
            raise AssertionError(constant)

        metrics = json.loads((written.parent / "metrics.json").read_text(), parse_constant=refuse)
        assert {k: metrics[k] for k in report.as_json()} == report.as_json()
        assert set(report.as_json()) == {"ok", "checks", "findings", "tables"}
        assert metrics["ok"] is False
        assert metrics["checks"][2] == {
            "name": "cas",
            "verdict": "not done",
            "ok": None,
            "summary": "needs a GPU: `smlab bench run`",
        }
        assert metrics["provenance"] == {"smlab": "0.1.0", "seed": 0, "x": None}
        points = metrics["tables"]["points"]
        assert points[0] == {"n": 1, "cycles": 4.421, "note": HOSTILE}
        assert [row["cycles"] for row in points[1:]] == [35.0, None, None]
        errors = metrics["tables"]["errors"][1]
        assert (errors["mape"], errors["spread"], errors["predictor"]) == (50.0, None, "one case")
        assert metrics["tables"]["constants"][1] == {"key": "b", "value": 2, "value_kind": "assumed"}
        assert metrics["columns"]["points"][1] == {
            "key": "cycles",
            "label": "Cycles",
            "unit": "c",
            "kind": "published",
        }

    def test_csv_keeps_every_digit(self, written):
        with (written.parent / "figures/curve.csv").open() as f:
            assert list(csv.DictReader(f))[1] == {"x": "2", "y": repr(math.pi)}
        with (written.parent / "tables/points.csv").open() as f:
            assert next(csv.DictReader(f))["note"] == HOSTILE

    def test_the_same_report_gives_the_same_bytes(self, report, written, tmp_path):
        again = report.write(tmp_path)
        assert again.read_bytes() == written.read_bytes()
        assert (tmp_path / "metrics.json").read_bytes() == (written.parent / "metrics.json").read_bytes()

    def test_a_folder_that_cannot_be_made_is_told(self, report, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(SmlabError, match="cannot be written"):
            report.write(tmp_path / "file")


class TestRefusals:
    @pytest.mark.parametrize("name", ["", "../x", "A", "a b", "a/b", "-a", "x" * 81, HOSTILE])
    def test_names(self, name):
        with pytest.raises(SmlabError, match="unusable name"):
            Report("t").check(name, True, "")

    def test_names_are_unique(self):
        r = Report("t")
        r.check("a", True, "")
        s = r.section("a", "A")
        s.table("a", [Column("x")], [])
        for again in (
            lambda: r.check("a", True, ""),
            lambda: r.section("a", ""),
            lambda: s.table("a", [Column("x")], []),
        ):
            with pytest.raises(SmlabError, match="already"):
                again()
        with pytest.raises(SmlabError, match="reserved"):
            r.section("legend", "")

    @pytest.mark.parametrize("ok", [1, "yes", 0.0])
    def test_verdicts(self, ok):
        with pytest.raises(SmlabError, match="verdict"):
            Report("t").check("a", ok, "")

    def test_tables(self):
        s = Report("t").section("s", "S")
        with pytest.raises(SmlabError, match="row 1.*wrong number of cells"):
            s.table("a", [Column("x")], [[1], [1, 2]])
        with pytest.raises(SmlabError, match="one key"):
            s.table("b", [Column("x"), Column("X")], [])
        with pytest.raises(SmlabError, match="not a plain value"):
            s.table("c", [Column("x")], [[[1]]])
        with pytest.raises(SmlabError, match="no columns"):
            s.table("d", [], [])
        with pytest.raises(SmlabError, match="unknown kind"):
            Column("x", kind="guessed")
        with pytest.raises(SmlabError, match="unknown kind"):
            Cell(1, "guessed")

    def test_figures(self):
        s = Report("t").section("s", "S")
        with pytest.raises(SmlabError, match="alternative text"):
            s.figure("a", small_figure(), {"x": [1]}, "", alt=" ")
        with pytest.raises(SmlabError, match="unequal length"):
            s.figure("b", small_figure(), {"x": [1], "y": [1, 2]}, "", alt="a")
        with pytest.raises(SmlabError, match="no data"):
            s.figure("c", small_figure(), {}, "", alt="a")


class TestFindings:
    def test_the_json_has_the_agreed_keys_and_the_paired_interval(self, report):
        first, second = report.as_json()["findings"]
        agreed = {"question", "model", "n", "error", "low", "high", "unit", "baseline", "baseline_error"}
        assert agreed | {"word", "evidence"} <= set(first)
        assert (first["word"], first["baseline"], first["baseline_fitted"]) == ("better", HOSTILE, True)
        assert (first["n"], first["groups"], first["error"], first["baseline_error"]) == (8, 8, 4.5, 9.5)
        assert first["difference"] == first["difference_low"] == first["difference_high"] == -5
        assert (second["word"], second["groups"], second["group"]) == ("worse", 4, "families")

    def test_what_is_not_better_is_said_in_the_first_lines(self, page, report):
        told = summary_of_findings(report.findings)
        assert told.startswith(
            "Of 2 comparisons of a model with its baseline 1 came out better, 0 no better, 1 worse."
        )
        assert "Worse: a guess (How long?)." in told.replace("**", "")
        assert "1 worse , 1 better ." in page.text
        assert page.text.index("Worse than the baseline") < page.text.index("Better than the baseline")
        assert page.text.index("Better than the baseline") < page.text.index("law")
        assert "(fitted to these cases)" in page.text

    def test_the_picture_places_errors_by_their_ratio_to_the_baseline_s(self, report):
        scale = ErrorAxis.of(report.findings)
        first, second = (f.comparison.error / f.comparison.baseline_error for f in report.findings)
        assert (scale.low, scale.high) == (-2, 2)
        worse, better = error_bars(report.findings, scale)
        assert (worse.word, better.word) == ("worse", "better")
        (row,) = better.rows
        assert row.low < row.dot < row.high < scale.place(1.0) == 50
        assert row.dot == pytest.approx(100 * (math.log2(first) + 2) / 4, abs=0.01)
        assert worse.rows[0].dot == pytest.approx(100 * (math.log2(second) + 2) / 4, abs=0.01)
        assert (scale.place(0), scale.place(math.inf), scale.place(1000)) == (0, 100, 100)

    def test_a_finding_never_decides_the_status(self):
        r = Report("t")
        r.finding(
            Finding(
                "Q",
                "m",
                compare_with_baseline([20, 30, 30], [Baseline("b", [1, 1, 1])]),
                unit="%",
                evidence="measured",
            )
        )
        assert r.findings[0].word == "worse"
        assert r.ok

    def test_one_question_has_one_unit_and_each_model_one_answer(self):
        r = Report("t")
        compared = compare_with_baseline([2, 3], [Baseline("b", [1, 1])])
        r.finding(Finding("Q", "m", compared, unit="%", evidence="measured"))
        with pytest.raises(SmlabError, match="a model stands twice"):
            r.finding(Finding("Q", "m", compared, unit="%", evidence="measured"))
        with pytest.raises(SmlabError, match="another unit"):
            r.finding(Finding("Q", "other", compared, unit="points", evidence="measured"))
        with pytest.raises(SmlabError, match="unknown kind"):
            r.finding(Finding("R", "m", compared, unit="%", evidence="hearsay"))

    @pytest.mark.parametrize(
        ("value", "text"),
        [(0.456, "0.46"), (0.997, "1.0"), (7.16, "7.2"), (99.6, "100"), (1520.9, "1\u2009521")],
    )
    def test_errors_are_told_with_the_digits_that_matter(self, value, text):
        assert error_text(value) == text
        assert error_text(math.nan) == ABSENT


class TestFolds:
    def test_what_follows_a_fold_is_in_it(self, written):
        page = written.read_text()
        fold = page.index("<details><summary>Details of it</summary>")
        assert page.index("in the open") < fold < page.index("folded away") < page.index("</details>", fold)


class TestVerdict:
    @pytest.mark.parametrize(
        ("oks", "verdict", "says", "ok"),
        [
            ([], "not done", "No checks were made", True),
            ([None], "not done", "No check was done", True),
            ([True], "held", "Every check of the testbed held", True),
            ([True, None], "not done", "Every check done held; 1 not done", True),
            ([True, False, False], "fell short", "2 checks of the testbed fell short", False),
        ],
    )
    def test_what_was_not_done_never_holds(self, oks, verdict, says, ok):
        r = Report("t")
        for i, one in enumerate(oks):
            r.check(f"c{i}", one, "")
        told = summary_of_checks(r.checks)
        assert (told.verdict, told.headline, r.ok) == (verdict, says, ok)
        assert f"{sum(o is True for o in oks)} of" in told.counts or not oks

    def test_an_empty_report_is_a_page(self, tmp_path):
        assert "No checks were made" in Page(Report("t").write(tmp_path).read_text()).text


class TestText:
    def test_markup(self):
        assert inline("a **b `c*d`** <e>") == "a <strong>b <code>c*d</code></strong> &lt;e&gt;"
        assert inline("`**x**`") == "<code>**x**</code>"
        assert inline("2 ** 3 and ` alone") == "2 ** 3 and ` alone"
        assert paragraphs("a\n\n\n b \n") == "<p>a</p>\n<p>b</p>"

    @pytest.mark.parametrize(
        ("value", "digits", "text"),
        [
            (None, 2, "–"),
            (math.nan, None, "–"),
            (True, None, "yes"),
            (0.0, None, "0"),
            (-1.5, 2, "−1.50"),
            (1234567, None, "1\u2009234\u2009567"),
            (12345.678, 1, "12\u2009345.7"),
            (math.pi, None, "3.142"),
            (314.159, None, "314.2"),
            (1e-7, None, "1.000e−07"),
            ("1-2", 1, "1-2"),
        ],
    )
    def test_numbers(self, value, digits, text):
        assert show(value, digits) == text


def test_package_data_are_found_from_anywhere(tmp_path):
    here = os.getcwd()
    os.chdir(tmp_path)
    try:
        assert Report("t").write(tmp_path).exists()
    finally:
        os.chdir(here)

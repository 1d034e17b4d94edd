"""The report: one file that needs nothing from outside, says everything that was put in, and escapes all
of it."""

import csv
import json
import math
import os
from html.parser import HTMLParser

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from smlab.hw_bench.errors import SmlabError
from smlab.validation.method.metrics import error_table, points_table
from smlab.validation.report import KINDS, Cell, Column, Report
from smlab.validation.report import figures as figs
from smlab.validation.report.markup import inline, paragraphs
from smlab.validation.report.page import verdict
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
        assert "One check fell short. 1 of 3 passed, 1 fell short, 1 not done." in page.text
        assert (
            page.text.index("fell short hardware-v100")
            < page.text.index("not done cas")
            < page.text.index("passed law")
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
        assert {k: metrics[k] for k in ("ok", "checks", "tables")} == report.as_json()
        assert set(report.as_json()) == {"ok", "checks", "tables"}
        assert metrics["ok"] is False
        assert metrics["checks"][2] == {
            "name": "cas",
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


class TestVerdict:
    @pytest.mark.parametrize(
        ("oks", "status", "says", "ok"),
        [
            ([], "not done", "No checks were made", True),
            ([None], "not done", "No check was done", True),
            ([True], "passed", "Every check has passed", True),
            ([True, None], "passed", "Every check done has passed; 1 not done", True),
            ([True, False, False], "fell short", "2 checks fell short", False),
        ],
    )
    def test_what_was_not_done_never_passes(self, oks, status, says, ok):
        r = Report("t")
        for i, one in enumerate(oks):
            r.check(f"c{i}", one, "")
        assert (verdict(r.checks).status, verdict(r.checks).headline, r.ok) == (status, says, ok)
        assert f"{sum(o is True for o in oks)} of" in verdict(r.checks).counts or not oks

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


N, E, C = np.arange(1, 9), np.array([1, 2, 4, 8, 16, 24, 32]), np.arange(9)
TABLE = np.where(N[:, None, None] >= C, (3.4 + E)[None, :, None] + C / N[:, None, None], np.nan)
LANES = np.array([1, 2, 4, 8, 16, 32])
SERIES = figs.HardwareSeries(
    "V100",
    LANES,
    3.4 + LANES,
    3.3 + LANES,
    3.5 + LANES,
    3.5 + LANES,
    fitted=[True, False, False, False, False, True],
)
RNG = np.random.default_rng(np.random.SeedSequence(3))
TRUE = RNG.random(2500)
FIGURES = {
    "grid": lambda: figs.service_time_grid(N, E, TABLE),
    "grid-of-two": lambda: figs.service_time_grid(
        N, E, TABLE, show_n=[1, 8], show_e=[1], compare={"model": TABLE}
    ),
    "grid-flat": lambda: figs.service_time_grid([4], [1], np.full((1, 1, 5), 2.0), c_values=np.arange(5)),
    "hardware": lambda: figs.hardware_comparison([SERIES]),
    "hardware-others": lambda: figs.hardware_comparison(
        [SERIES, figs.HardwareSeries("POPC", LANES[:3], [5, 5, 5], [4, 4, 4], [6, 6, 6], [5, 5, 5.1])],
        predictors={"distinct words only (Accel-Sim's rule)": (LANES, np.full(6, 3.1))},
    ),
    "scatter": lambda: figs.estimate_against_truth(100 * TRUE, {"a": 90 * TRUE, "b": 300 * TRUE}),
    "scatter-no-limit": lambda: figs.estimate_against_truth(
        [1, 2], {"a": [1, 2]}, label="time", unit="s", limit=None
    ),
    "errors": lambda: figs.error_by_regime(
        {"low": {"a": TRUE, "b": 50 * TRUE}, "high": {"b": [0.0, 3000.0]}}
    ),
    "errors-none": lambda: figs.error_by_regime({r: {"a": [0.0]} for r in "abcd"}),
    "sensitivity": lambda: figs.sensitivity(
        [10, 20, 30], {"n = 1": [27, 37, 47], "n = 8": [18, 19, 20]}, adopted=23
    ),
    "mva": lambda: figs.mva_against_simulation(
        [1, 2, 3],
        *({"throughput": np.array([1.0, 2, 3]) + d, "queue_length": [1, 2, 3]} for d in (0, 0.1, -0.1, 0.2)),
    ),
}


class TestFigures:
    @pytest.mark.parametrize("name", FIGURES)
    def test_is_drawn_without_a_trace(self, name):
        before = dict(matplotlib.rcParams)
        fig = FIGURES[name]()
        s = Report("t").section("s", "S")
        s.figure(name, fig, {"x": [1]}, "caption", alt="alt")
        drawing = s.report.drawings()[name]
        assert drawing.png.startswith(b"\x89PNG")
        assert b"http://purl.org" not in drawing.svg
        assert dict(matplotlib.rcParams) == before
        for ax in fig.axes:
            if ax.get_visible():
                labels = [ax.get_xlabel(), ax.get_ylabel(), fig.get_supxlabel(), fig.get_supylabel()]
                assert any(labels), "an axis without a label"

    def test_the_grid_says_what_it_leaves_out(self):
        fig = figs.service_time_grid(N, E, TABLE)
        assert "(4 of 8 values of n" not in fig.get_supxlabel()
        assert "5 of 7 values of e" in fig.get_supxlabel()
        assert "values" not in figs.service_time_grid(N[:2], E[:2], TABLE[:2, :2]).get_supxlabel()

    def test_estimates_above_100_per_cent_are_counted_in_the_legend(self):
        fig = figs.estimate_against_truth([50, 90, 95], {"counter": [50, 120, 130], "model": [50, 90, 95]})
        texts = [t.get_text() for t in fig.axes[0].get_legend().get_texts()]
        assert texts == ["within 10 %", "counter (2 above 100 %)", "model"]

    def test_mismatched_arrays_are_refused(self):
        with pytest.raises(SmlabError, match="wrong shape"):
            figs.service_time_grid(N, E, TABLE[:3])
        with pytest.raises(SmlabError, match="no such n"):
            figs.service_time_grid(N, E, TABLE, show_n=[77])
        with pytest.raises(SmlabError, match="do not match"):
            figs.hardware_comparison([figs.HardwareSeries("x", [1, 2], [1], [1], [1], [1])])
        with pytest.raises(SmlabError, match="do not match"):
            figs.estimate_against_truth([1, 2], {"a": [1]})
        with pytest.raises(SmlabError, match="no series"):
            figs.hardware_comparison([])
        with pytest.raises(SmlabError, match="no regimes"):
            figs.error_by_regime({})
        with pytest.raises(SmlabError, match="no simulated values"):
            figs.mva_against_simulation([1], {"throughput": [1]}, {}, {}, {})

    def test_large_data_are_linked_and_large_drawings_are_pixels(self):
        x = np.arange(30_000)
        fig = Figure(figsize=(3, 2))
        fig.subplots().scatter(x, x * 1.5, c=x)
        s = Report("t").section("s", "S")
        s.figure("big", fig, {"x": x, "y": x * 1.5}, "caption", alt="alt")
        drawing = s.report.drawings()["big"]
        assert drawing.data_uri == "figures/big.csv"
        assert drawing.image_uri.startswith("data:image/png")


def test_package_data_are_found_from_anywhere(tmp_path):
    here = os.getcwd()
    os.chdir(tmp_path)
    try:
        assert Report("t").write(tmp_path).exists()
    finally:
        os.chdir(here)

"""Figures of the reports: drawn without a trace, saying what they leave out, refusing what does not match."""

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure

from smlab.hw_bench.errors import SmlabError
from smlab.validation.report import Report
from smlab.validation.report import figures as figs

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
    "grid-of-two": lambda: figs.service_time_grid(N, E, TABLE, show=([1, 8], [1])),
    "grid-flat": lambda: figs.service_time_grid([4], [1], np.full((1, 1, 5), 2.0), c_values=np.arange(5)),
    "hardware": lambda: figs.hardware_comparison([SERIES]),
    "hardware-others": lambda: figs.hardware_comparison(
        [SERIES, figs.HardwareSeries("POPC", LANES[:3], [5, 5, 5], [4, 4, 4], [6, 6, 6], [5, 5, 5.1])],
        predictors={"distinct words only (Accel-Sim's rule)": (LANES, np.full(6, 3.1))},
    ),
    "scatter": lambda: figs.estimate_against_truth(100 * TRUE, {"a": 90 * TRUE, "b": 300 * TRUE}),
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
        r = Report("t")
        s = r.section("s", "S")
        s.figure(name, fig, {"x": [1]}, "caption", alt="alt")
        drawing = r.drawings()[name]
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
            figs.service_time_grid(N, E, TABLE, show=([77], None))
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
        r = Report("t")
        s = r.section("s", "S")
        s.figure("big", fig, {"x": x, "y": x * 1.5}, "caption", alt="alt")
        drawing = r.drawings()["big"]
        assert drawing.data_uri == "figures/big.csv"
        assert drawing.image_uri.startswith("data:image/png")

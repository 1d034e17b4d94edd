"""From a table of points to effects, notes, JSON, files: every design, what is left out, and equal bytes."""

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.random import default_rng

from smlab.hw_bench.errors import SmlabError
from smlab.validation.experiments.design.study import parse_study
from smlab.validation.experiments.effects import Effects, summarise, write_outputs
from smlab.validation.experiments.effects.effects import effects_of
from smlab.validation.experiments.effects.page import effects_csv, write_page
from smlab.validation.experiments.effects.plots import curve
from smlab.validation.experiments.effects.points import FactorLevels, Layout
from smlab.validation.experiments.run.running import run_whatif

REPLICATIONS = 6


def grid_frame() -> pd.DataFrame:
    """Cycles over queue (numbers) and policy (names), with noise that a replication shares; case 0 is the
    base."""
    rng = default_rng(5)
    common = rng.normal(0, 30, REPLICATIONS)
    rows = []
    combinations = [(4, "gto"), *itertools.product((2, 4, 8, 16), ("gto", "lrr"))]
    for case, (queue, policy) in enumerate(combinations):
        for r in range(REPLICATIONS):
            cycles = (
                1000 / queue
                + (100 if policy == "lrr" and queue > 4 else 0)
                + common[r]
                + rng.normal(0, 2)
                + 500
            )
            rows.append({"case": case, "replication": r, "queue": queue, "policy": policy, "cycles": cycles})
    return pd.DataFrame(rows)


FACTORS = (FactorLevels("queue", 4, (4,)), FactorLevels("policy", "gto", ("gto",)))
GRID = Layout("demo", "grid", FACTORS, ("cycles",))
SINGLE = Layout("demo", "one-at-a-time", FACTORS, ("cycles",))


def single_frame() -> pd.DataFrame:
    frame = grid_frame()
    return frame[
        (frame["case"] == 0) | (frame["policy"] == "gto") & (frame["queue"] != 4) | (frame["queue"] == 4)
    ]


def ishigami(kind: str, **design: object) -> tuple[object, Path]:
    raw = {
        "title": "Ishigami",
        "responses": ["y"],
        "base": {"model": "ishigami"},
        "factors": {f"x{i}": {"range": [-math.pi, math.pi]} for i in (1, 2, 3)},
        "design": {"kind": kind, "seed": 3, **design},
    }
    return parse_study(raw, "ishigami.toml", Path(), "ishigami")


def test_a_grid_gives_levels_shares_and_a_note_for_nothing() -> None:
    found = effects_of(GRID, grid_frame())
    assert found.notes == ()
    effects = found["cycles"]
    assert [(e.factor, e.level) for e in effects.levels] == [
        *(("queue", q) for q in (2, 4, 8, 16)),
        *(("policy", p) for p in ("gto", "lrr")),
    ]
    assert effects.shares[0].factors == ("queue",)
    assert {s.factors for s in effects.shares} == {("queue",), ("policy",), ("queue", "policy")}
    lrr = effects.of("policy")[1].against
    assert lrr is not None
    assert lrr.difference.contains(50)
    assert lrr.variance_reduction is not None
    assert lrr.variance_reduction.estimate > 20


def test_the_base_is_no_point_of_a_grid() -> None:
    """Case 0 repeats a combination with another value: it must not change the grid's effects."""
    frame = grid_frame()
    other = frame.copy()
    other.loc[other["case"] == 0, "cycles"] += 1e6
    assert effects_of(GRID, frame) == effects_of(GRID, other)
    # The one-at-a-time design is compared with it.
    single = single_frame()
    shifted = single.copy()
    shifted.loc[shifted["case"] == 0, "cycles"] *= 2
    assert effects_of(SINGLE, single) != effects_of(SINGLE, shifted)


def test_one_at_a_time_compares_with_the_base() -> None:
    found = effects_of(SINGLE, single_frame())["cycles"]
    by_level = {(e.factor, e.level): e.against for e in found.levels}
    assert by_level["queue", 4] is None
    difference = by_level["queue", 2].difference
    assert difference.contains(250)
    assert difference.half_width < 10  # the noise that all share is 30


def test_failed_points_are_counted_and_not_silent() -> None:
    frame = grid_frame()
    frame.loc[(frame["case"] == 3) & (frame["replication"] == 2), "cycles"] = np.nan
    found = effects_of(GRID, frame)
    assert any("1 of 48 rows have no value" in note for note in found.notes)
    assert any("1 of 6 replications are not complete" in note for note in found.notes)
    assert found["cycles"].of("queue")[0].mean.count == REPLICATIONS - 1
    frame.loc[frame["case"] == 3, "cycles"] = np.nan
    found = effects_of(GRID, frame)
    assert any("1 of 8 combinations" in note for note in found.notes)
    assert found["cycles"].levels == ()
    frame["cycles"] = np.nan
    with pytest.raises(SmlabError, match="no point has a value"):
        effects_of(GRID, frame)
    with pytest.raises(SmlabError, match="no column"):
        effects_of(GRID, grid_frame().drop(columns="policy"))


def test_one_replication_has_no_intervals_and_says_so() -> None:
    frame = grid_frame()
    found = effects_of(GRID, frame[frame["replication"] == 0])
    assert any("One replication" in note for note in found.notes)
    document = json.dumps(found.as_json(), allow_nan=False)
    level = json.loads(document)["responses"]["cycles"]["levels"][0]
    assert level["difference"]["low"] is None
    assert level["difference"]["estimate"] is not None


def test_a_saltelli_design_with_a_hole_loses_a_block() -> None:
    names = ("x1", "x2")
    rng = default_rng(1)
    frame = pd.DataFrame(rng.uniform(size=(4 * 32, 2)), columns=list(names))
    frame["case"], frame["replication"] = np.arange(1, len(frame) + 1), 0
    frame["y"] = frame["x1"] + frame["x2"]
    layout = Layout("s", "sobol", tuple(FactorLevels(n, None, ()) for n in names), ("y",))
    assert effects_of(layout, frame)["y"].sobol[0].index.count == 32
    frame.loc[5, "y"] = np.nan
    found = effects_of(layout, frame)
    assert found["y"].sobol[0].index.count == 31
    assert any("1 of 32 blocks" in note for note in found.notes)


def test_a_study_from_file_to_page(tmp_path: Path) -> None:
    study = ishigami("sobol", samples=256, second_order=True)
    found = run_whatif(study, tmp_path, jobs=1).effects
    assert isinstance(found, Effects)
    indices = {i.factors: i for i in found["y"].sobol}
    assert indices["x1",].index.contains(0.3139)
    assert indices["x3",].total.contains(0.2437)
    assert indices["x1", "x3"].index.contains(0.2437)
    page = (tmp_path / "report.html").read_text()
    assert "Sobol" in page
    for name in ("ishigami-y-sobol", "ishigami-y-response"):
        for ending in ("svg", "png", "csv"):
            assert (tmp_path / "figures" / f"{name}.{ending}").stat().st_size > 0
    rows = pd.read_csv(tmp_path / "effects.csv")
    assert {"sobol index", "sobol total", "mean"} == set(rows["measure"])
    assert json.loads(json.dumps(found.as_json(), allow_nan=False))["responses"]["y"]["sobol"]


def test_a_random_design_has_rank_coefficients_and_curves(tmp_path: Path) -> None:
    study = ishigami("random", samples=200)
    outcome = run_whatif(study, tmp_path, jobs=1)
    ranks = {r.factor: r for r in outcome.effects["y"].ranks}
    assert ranks["x1"].coefficient.low > 0
    assert abs(ranks["x2"].coefficient.estimate) < 4 / math.sqrt(200)  # theory: 0
    assert (tmp_path / "figures" / "ishigami-y-ranks.svg").exists()


@pytest.mark.parametrize(
    ("layout", "frame", "figures"),
    [
        (GRID, grid_frame(), {"demo-cycles-main", "demo-cycles-interactions", "demo-cycles-response"}),
        (SINGLE, single_frame(), {"demo-cycles-tornado"}),
    ],
    ids=["grid", "one-at-a-time"],
)
def test_pages_have_their_figures_and_equal_bytes(
    tmp_path: Path, layout: Layout, frame: pd.DataFrame, figures: set[str]
) -> None:
    effects = effects_of(layout, frame)
    for folder in ("a", "b"):
        write_page(effects, frame, tmp_path / folder, "Why?", {"seed": 1})
    assert {p.stem for p in (tmp_path / "a" / "figures").iterdir()} == figures
    for file in (tmp_path / "a").rglob("*.*"):
        assert file.read_bytes() == (tmp_path / "b" / file.relative_to(tmp_path / "a")).read_bytes(), file


def test_every_estimate_is_in_the_csv() -> None:
    effects = effects_of(GRID, grid_frame())
    lines = effects_csv(effects).splitlines()
    assert lines[0] == "response,measure,factors,level,reference,estimate,low,high,count"
    # The mean; 6 levels; 4 comparisons with difference, ratio and variance reduction; 3 shares.
    assert len(lines) == 1 + 1 + 6 + 4 * 3 + 3


def test_curves_bin_many_values_and_keep_few() -> None:
    frame = pd.DataFrame({"x": np.linspace(0, 1, 600), "replication": 0})
    frame["y"] = 2 * frame["x"]
    found = curve(FactorLevels("x", None, tuple(frame["x"])), frame, "y", drawn=True)
    assert len(found.levels) == 12
    assert found.count.sum() == 600
    np.testing.assert_allclose(found.mean, 2 * np.array(found.levels), atol=0.01)
    few = grid_frame()
    found = curve(FactorLevels("queue", 4, (2, 4, 8, 16)), few[few["case"] > 0], "cycles", drawn=False)
    assert found.levels == (2, 4, 8, 16)
    assert (found.low < found.mean).all()


def test_summarise_names_a_study_by_its_folder() -> None:
    study = ishigami("random", samples=40)
    frame = pd.DataFrame(
        [{"case": c, "replication": 0, "x1": c / 40, "x2": 0.5, "x3": 0.1, "y": float(c)} for c in range(41)]
    )
    assert summarise(study, frame).layout.name == "ishigami"
    assert write_outputs is not None

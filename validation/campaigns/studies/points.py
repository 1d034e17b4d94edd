"""Running a study for an answer: whole as its file says, or reduced for a report that has seconds."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.inputs import load_toml
from smlab.validation.experiments.design.study import Study, parse_study
from smlab.validation.experiments.effects import Effects, layout_of, summarise
from smlab.validation.experiments.effects.points import Layout, of_design
from smlab.validation.experiments.run.export import read_points
from smlab.validation.experiments.run.running import run_whatif

FOLDER = Path(__file__).parent


def folder_of(study: str) -> Path:
    """The folder of a shipped study; a package, so its name has no hyphens."""
    return FOLDER / study.replace("-", "_")


@dataclass(frozen=True, eq=False)
class Points:
    """A study that has run: its layout, its table of points without the base's row where the design is apart
    from it, and its effects."""

    study: Study
    layout: Layout
    frame: pd.DataFrame
    effects: Effects


@dataclass(frozen=True)
class Reduction:
    """What a smaller run of a study changes in its file: ``samples`` or ``replications`` of the design,
    levels of factors, and settings of the ``base``, and factors ``left_out``, which stay as in the base.

    All else is as in the file, so a reduced answer is to the same question, or to a part of it, with wider
    intervals.
    """

    samples: int | None = None
    replications: int | None = None
    levels: Mapping[str, tuple[Any, ...]] | None = None
    base: Mapping[str, Any] | None = None
    left_out: tuple[str, ...] = ()


def read(folder: str, file: str, reduction: Reduction | None = None, alternative: str | None = None) -> Study:
    """One of the shipped studies, whole or reduced, with its GPUs under their ``alternative`` of that name
    or as they are described."""
    path = folder_of(folder) / file
    raw = load_toml(path)
    if reduction is not None:
        for key in ("samples", "replications"):
            if getattr(reduction, key) is not None and key in raw["design"]:
                raw["design"][key] = getattr(reduction, key)
        for name, values in (reduction.levels or {}).items():
            entry = raw["factors"][name]
            if isinstance(entry, dict):
                entry["values"] = list(values)
            else:
                raw["factors"][name] = list(values)
        raw["base"].setdefault("set", {}).update(reduction.base or {})
        for name in reduction.left_out:
            del raw["factors"][name]
    return parse_study(raw, str(path), path.parent, path.stem, alternative)


def other_alternatives(folder: str, file: str, reduction: Reduction | None = None) -> dict[str, str]:
    """The alternatives of a study's GPU beyond the first that its answer hangs on, by name, with the reason
    for which it cannot be asked under it; empty where it can."""
    study = read(folder, file, reduction)
    found = {}
    for alternative in study.system.alternatives()[1:]:
        try:
            study.under(alternative.name)
        except SmlabError as error:  # a level that is none of this mechanism's
            found[alternative.name] = str(error).removeprefix(f"{study.where}: ")
        else:
            found[alternative.name] = ""
    return found


def points_of(
    folder: str,
    file: str,
    reduction: Reduction | None = None,
    jobs: int | None = 1,
    alternative: str | None = None,
) -> pd.DataFrame:
    """Run a study in a folder of its own, which is gone afterwards, and give its table of points.

    ``jobs`` worker processes, or this one alone; None for one a processor.
    """
    study = read(folder, file, reduction, alternative)
    with tempfile.TemporaryDirectory(prefix="smlab-study-") as place:
        run_whatif(study, Path(place), jobs=jobs, effects=False)
        return read_points(Path(place) / "points.csv")


def analysed(
    folder: str,
    file: str,
    frame: pd.DataFrame,
    reduction: Reduction | None = None,
    alternative: str | None = None,
) -> Points:
    """A study's points with their effects."""
    study = read(folder, file, reduction, alternative)
    layout = layout_of(study)
    return Points(study, layout, of_design(layout, frame).reset_index(drop=True), summarise(study, frame))

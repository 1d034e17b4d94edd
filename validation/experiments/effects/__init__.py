"""Effects of a study's factors: paired differences with intervals, shares of variance, Sobol indices, plots
and a page.

`summarise` and `write_outputs` are what `smlab whatif` calls when the points are there.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from smlab.validation.experiments.effects.effects import effects_of
from smlab.validation.experiments.effects.points import FactorLevels, Layout
from smlab.validation.experiments.effects.results import Effects

if TYPE_CHECKING:  # the study's modules bring the simulator with them
    from smlab.validation.experiments.design.study import Study

__all__ = ["Effects", "layout_of", "summarise", "write_outputs"]


def layout_of(study: Study) -> Layout:
    """What the effects need to know of a study."""
    from smlab.validation.experiments.systems.formulas import Formula

    stem = Path(study.where).stem
    return Layout(
        name=Path(study.where).parent.name if stem == "study" else study.name,
        title=study.title,
        design=study.kind,
        factors=tuple(FactorLevels(f.name, f.base, (f.base,)) for f in study.factors),
        responses=study.responses,
        seed=study.seed,
        second_order=study.second_order,
        level=study.level,
        random=study.random,
        kind="modelled" if isinstance(study.system, Formula) else "simulated",
    )


def summarise(study: Study, frame: pd.DataFrame) -> Effects:
    """The effects of a study's factors on its responses.

    ``frame`` is what `smlab.validation.experiments.read_points` gives: a row a case and replication with the
    columns ``case`` (0 is the base), ``replication``, the factors and the responses, NaN where a case failed.
    """
    return effects_of(layout_of(study), frame)


def write_outputs(study: Study, frame: pd.DataFrame, effects: Effects, out_dir: Path) -> Path:
    """Write ``report.html``, ``figures/`` (SVG, PNG, CSV), ``tables/``, ``metrics.json`` and ``effects.csv``
    into ``out_dir``; the path of the page."""
    from smlab.validation.experiments.effects.page import write_page

    provenance: dict[str, object] = {"study": study.name, "design": study.kind, "seed": study.seed}
    return write_page(effects, frame, out_dir, study.question, provenance)

"""How often projected intervals hold for families of configurations that were left out of the fit of their
width."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from smlab.models.roofline import Projection
from smlab.validation.method.widths import LeftOut, left_out, width_factor
from smlab.validation.projection.tuning.judge import TuningJudgement


@dataclass(frozen=True)
class TuningCoverage:
    """``factor`` is that of all families (`smlab.models.roofline.uncertainty.FACTOR`); ``families`` each with
    the factor of the others; ``pooled`` the share of all rows that were held so."""

    factor: float
    families: tuple[LeftOut, ...]

    @property
    def pooled(self) -> float:
        """Over all rows, each judged by a width fitted without its family."""
        return sum(f.coverage * f.n for f in self.families) / sum(f.n for f in self.families)


def tuning_coverage(judged: TuningJudgement) -> TuningCoverage:
    """Coverage by family of a projection by counters that has a truth."""
    assert judged.actual_s is not None
    assert isinstance(judged.projection, Projection)
    known = ~np.isnan(judged.actual_s)
    error = np.log(judged.actual_s / judged.projection.mid_s)[known]
    width = judged.projection.parts.width()[known]
    family = np.array(judged.family)[known]
    return TuningCoverage(width_factor(error, width, family), tuple(left_out(error, width, family)))

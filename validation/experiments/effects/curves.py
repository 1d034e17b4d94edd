"""A response against one factor, whatever else varies: what `plots.response_curves` draws."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from smlab.validation.experiments.effects.paired import mean_of, over_cells
from smlab.validation.experiments.effects.points import MAX_LEVELS, RATIOS, FactorLevels

Floats = NDArray[np.float64]

BINS = 12


@dataclass(frozen=True)
class Curve:
    """A response by level of ``factor``; all arrays of shape ``(levels,)``.

    ``mean`` with its interval ``low`` to ``high`` (NaN from a single value), the tenth and ninetieth
    percentile of the points and their ``count``. Levels of a factor with many values are the middles of bins
    of equal numbers of points.
    """

    factor: FactorLevels
    levels: tuple[Any, ...]
    mean: Floats
    low: Floats
    high: Floats
    tenth: Floats
    ninetieth: Floats
    count: NDArray[np.int64]


def curve(
    factor: FactorLevels, frame: pd.DataFrame, response: str, *, drawn: bool, level: float = 0.95
) -> Curve:
    """The response against one factor, over all rows that have a value.

    Where the points are ``drawn`` (random, Sobol), the interval of a mean is over the points; else over the
    replications, since the points of a grid are no sample.
    """
    known = frame[np.isfinite(frame[response].to_numpy(dtype=np.float64))]
    column = known[factor.name]
    if factor.numeric and len(factor.levels) > MAX_LEVELS:
        x = column.to_numpy(dtype=np.float64)
        edges = np.unique(np.quantile(x, np.linspace(0, 1, BINS + 1)))
        place = np.clip(np.searchsorted(edges, x, side="right") - 1, 0, len(edges) - 2)
        groups = [known[place == k] for k in range(len(edges) - 1)]
        groups = [g for g in groups if len(g)]
        levels = tuple(float(np.median(g[factor.name])) for g in groups)
        values = [g[response].to_numpy(dtype=np.float64) for g in groups]
    else:
        present = [v for v in factor.levels if (column == v).any()]
        levels = tuple(present)
        groups = [known[(column == v).to_numpy()] for v in present]
        values = [_of_mean(g, response, drawn) for g in groups]
    intervals = [mean_of(v, level, geometric=response in RATIOS) for v in values]
    spread = [np.percentile(g[response].to_numpy(dtype=np.float64), [10, 90]) for g in groups]
    return Curve(
        replace(factor, levels=levels),
        levels,
        np.array([i.estimate for i in intervals]),
        np.array([i.low for i in intervals]),
        np.array([i.high for i in intervals]),
        np.array([s[0] for s in spread]),
        np.array([s[1] for s in spread]),
        np.array([len(g) for g in groups], dtype=np.int64),
    )


def _of_mean(group: pd.DataFrame, response: str, drawn: bool) -> Floats:
    """The values whose mean is drawn: points, or the means of the replications."""
    if drawn:
        return np.asarray(group[response], dtype=np.float64)
    parts = (part.to_numpy(dtype=np.float64) for _, part in group.groupby("replication")[response])
    return np.array([over_cells(part[None], geometric=response in RATIOS)[0] for part in parts])

"""The figures that a study's section gets for one response, each with its data, caption and words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.validation.experiments.effects import bars, plots
from smlab.validation.experiments.effects.curves import Curve, curve
from smlab.validation.experiments.effects.factorial import marginal
from smlab.validation.experiments.effects.page_rows import UNITS, anchor, level_columns, level_row
from smlab.validation.experiments.effects.points import RATIOS, Layout, grid_values
from smlab.validation.experiments.effects.results import LevelEffect, ResponseEffects
from smlab.validation.method.statistics import mean_interval
from smlab.validation.report import Section

Floats = NDArray[np.float64]

MAX_PAIRS = 4
SMALLEST_PAIR = 0.005
"""Interactions with less than this share of the variance are in the table and not drawn."""
MAX_CURVES = 9


def add_figures(section: Section, layout: Layout, found: ResponseEffects, frame: pd.DataFrame) -> None:
    """Add the figures of one response, whatever its design gives."""
    name, unit = (layout.name, found.response), UNITS.get(found.response, "")
    words = found.response.replace("_", " ")
    if found.levels and layout.design == "grid":
        of = [found.of(f.name) for f in layout.factors]
        section.figure(
            anchor(*name, "main"),
            plots.main_effects(of, layout.factors, found.response, unit),
            _level_data(found.levels),
            f"Main effects on {words}: the mean at each level over all other factors, with its interval "
            f"over the replications.",
            f"One panel for each of {len(of)} factors; the mean of {words} over the levels.",
        )
        _interaction_figure(section, layout, found, frame)
    if found.levels and layout.design == "one-at-a-time":
        compared = [e for e in found.levels if e.against is not None]
        as_ratio = all(e.against is not None and e.against.ratio is not None for e in compared)
        if compared:
            section.figure(
                anchor(*name, "tornado"),
                bars.tornado(compared, words, as_ratio=as_ratio, unit=unit),
                _level_data(found.levels),
                f"Each factor moved alone: {words} against the base. "
                "The number at a bar is the level; whiskers are paired intervals.",
                f"A tornado of {len({e.factor for e in compared})} factors, the one with the largest effect "
                f"on {words} on top.",
            )
    if found.sobol:
        section.figure(
            anchor(*name, "sobol"),
            bars.sobol_bars(found.sobol, words),
            {
                "factors": [" x ".join(i.factors) for i in found.sobol],
                "index": [i.index.estimate for i in found.sobol],
                "index_low": [i.index.low for i in found.sobol],
                "index_high": [i.index.high for i in found.sobol],
                "total": [i.total.estimate if i.total else None for i in found.sobol],
                "total_low": [i.total.low if i.total else None for i in found.sobol],
                "total_high": [i.total.high if i.total else None for i in found.sobol],
            },
            f"Sobol indices of {words}: what share of its variance each factor is responsible for, alone "
            f"and with interactions.",
            f"Horizontal bars, two a factor, the factor with the largest total index of {words} on top.",
        )
    if found.ranks:
        section.figure(
            anchor(*name, "ranks"),
            bars.rank_bars(found.ranks, words),
            {
                "factor": [r.factor for r in found.ranks],
                "coefficient": [r.coefficient.estimate for r in found.ranks],
                "low": [r.coefficient.low for r in found.ranks],
                "high": [r.coefficient.high for r in found.ranks],
            },
            f"Which way and how strongly {words} goes with each factor.",
            "Horizontal bars of rank coefficients between -1 and 1, the largest on top.",
        )
    drawn = layout.design in ("sobol", "random")
    if drawn or (layout.design == "grid" and len(layout.factors) > 1):
        curves = [
            curve(f, frame, found.response, drawn=drawn, level=layout.level)
            for f in layout.factors[:MAX_CURVES]
            if f.numeric
        ]
        if curves:
            section.figure(
                anchor(*name, "response"),
                plots.response_curves(curves, found.response, unit),
                _curve_data(curves),
                f"{words} against each factor, whatever the others are: mean, its interval, and the middle "
                f"80 % of the points.",
                f"One panel for each of {len(curves)} numeric factors: a line with a dark and a pale band.",
            )


def _interaction_figure(
    section: Section, layout: Layout, found: ResponseEffects, frame: pd.DataFrame
) -> None:
    """The largest pairs of a grid, drawn by level."""
    pairs = [s for s in found.shares if len(s.factors) == 2 and s.share.estimate >= SMALLEST_PAIR][:MAX_PAIRS]
    if not pairs:
        return
    try:
        values, _ = grid_values(layout, frame, found.response)
    except SmlabError:
        return
    cells = []
    rows: list[list[object]] = []
    for pair in pairs:
        # The factor with more levels lies along the axis; lines are few.
        i, j = sorted(
            (layout.names.index(f) for f in pair.factors), key=lambda k: (-len(layout.factors[k].levels), k)
        )
        across, lines = layout.factors[i], layout.factors[j]
        ratio = found.response in RATIOS
        means = marginal(np.log(values) if ratio else values, *sorted((i, j)))
        means = np.exp(means) if ratio else means
        means = means if i < j else np.swapaxes(means, 1, 2)
        low, high = _bounds(means, layout.level)
        cells.append((across, lines, means.mean(axis=0), low, high))
        rows.extend(
            [
                across.name,
                plots.show_level(a),
                lines.name,
                plots.show_level(b),
                float(means.mean(axis=0)[x, y]),
            ]
            for x, a in enumerate(across.levels)
            for y, b in enumerate(lines.levels)
        )
    keys = ("factor", "level", "other_factor", "other_level", "mean")
    section.figure(
        anchor(layout.name, found.response, "interactions"),
        plots.interactions(cells, found.response, UNITS.get(found.response, "")),
        {key: [row[k] for row in rows] for k, key in enumerate(keys)},
        f"The largest interactions on {found.response.replace('_', ' ')} ("
        + "; ".join(f"{100 * p.share.estimate:.1f} % of the variance" for p in pairs)
        + "). Parallel lines would mean that the two factors just add.",
        f"{len(pairs)} panels; lines over one factor, one for each level of another.",
    )


def _bounds(means: Floats, level: float) -> tuple[Floats, Floats]:
    """Ends of the intervals over the replications, each (levels, lines); NaN with a single replication."""
    if len(means) < 2:
        return np.full(means.shape[1:], np.nan), np.full(means.shape[1:], np.nan)
    found = [mean_interval(column, level) for column in means.reshape(len(means), -1).T]
    low, high = (
        np.array([getattr(i, end) for i in found]).reshape(means.shape[1:]) for end in ("low", "high")
    )
    return low, high


def _level_data(levels: Sequence[LevelEffect]) -> dict[str, list[object]]:
    rows = [level_row(e) for e in levels]
    return {column.key: [row[k] for row in rows] for k, column in enumerate(level_columns("simulated"))}


def _curve_data(curves: Sequence[Curve]) -> dict[str, list[object]]:
    rows = [
        (
            c.factor.name,
            plots.show_level(v),
            *(float(getattr(c, f)[k]) for f in ("mean", "low", "high", "tenth", "ninetieth")),
        )
        for c in curves
        for k, v in enumerate(c.levels)
    ]
    keys = ("factor", "level", "mean", "low", "high", "tenth", "ninetieth")
    return {key: [row[k] for row in rows] for k, key in enumerate(keys)}

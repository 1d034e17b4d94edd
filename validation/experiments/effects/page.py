"""The effects of a study as a page: a section with tables and figures for each response, and its files
(HTML, figures, tables, all effects in one CSV).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.files import write_atomic
from smlab.validation.experiments.effects import plots
from smlab.validation.experiments.effects.answers import (
    UNITS,
    anchor,
    answers,
    leading,
    level_columns,
    level_row,
    percent,
    ranked,
    three,
    unit_of,
)
from smlab.validation.experiments.effects.factorial import marginal
from smlab.validation.experiments.effects.plots import Curve, curve
from smlab.validation.experiments.effects.points import RATIOS, Layout, grid_values, of_design
from smlab.validation.experiments.effects.results import Effects, LevelEffect, ResponseEffects
from smlab.validation.method.statistics import Interval, mean_interval
from smlab.validation.report import Column, Report, Section
from smlab.validation.report.tables import csv_text


def add_tables(section: Section, layout: Layout, effects: ResponseEffects) -> None:
    """Add the tables of one response, whatever its design gives."""
    name = (layout.name, effects.response)
    if effects.levels:
        section.table(
            anchor(*name, "levels"),
            level_columns(layout.kind),
            [level_row(e) for e in effects.levels],
            f"{effects.response.replace('_', ' ')} by level{unit_of(effects.response, ', in ')}. "
            "**Pairing** is how many times more independent runs the same interval would need.",
        )
    if effects.shares:
        section.table(
            anchor(*name, "shares"),
            [
                Column("Factors", key="factors"),
                Column("Share of the variance", unit="%", key="share", digits=2, kind=layout.kind),
                Column("low", unit="%", key="share_low", digits=2),
                Column("high", unit="%", key="share_high", digits=2),
            ],
            [
                [
                    " × ".join(s.factors) or "three and more factors together",
                    *(percent(x) for x in three(s.share)),
                ]
                for s in effects.shares
            ],
            f"Where the variance of {effects.response.replace('_', ' ')} over the grid comes from. A pair's "
            "share is its interaction: what the two give beyond the sum of their effects.",
        )
    if effects.sobol:
        section.table(
            anchor(*name, "sobol"),
            [
                Column("Factors", key="factors"),
                Column("Index", key="index", digits=3, kind=layout.kind),
                Column("low", key="index_low", digits=3),
                Column("high", key="index_high", digits=3),
                Column("Total", key="total", digits=3, kind=layout.kind),
                Column("low", key="total_low", digits=3),
                Column("high", key="total_high", digits=3),
            ],
            [[" × ".join(i.factors), *three(i.index), *three(i.total)] for i in effects.sobol],
            f"Shares of the variance of {effects.response.replace('_', ' ')}: a factor's first-order index "
            f"and its total with all "
            f"interactions; a pair's second-order index. {effects.sobol[0].index.count} base samples.",
        )
    if effects.ranking:
        shown = effects.ranking[:MAX_RANKED]
        section.table(
            anchor(*name, "ranking"),
            [
                Column("Place", key="place"),
                Column("Case", key="case"),
                *(Column(f.name, key=f.name) for f in layout.factors),
                Column("Mean", key="mean", kind=layout.kind),
                Column("low", key="mean_low"),
                Column("high", key="mean_high"),
            ],
            [[i, c.case, *c.settings.values(), *three(c.mean)] for i, c in enumerate(shown, 1)],
            f"The cases of the list by {effects.response.replace('_', ' ')}"
            + (
                f": the first {len(shown)} of {len(effects.ranking)}."
                if effects.ranking[MAX_RANKED:]
                else "."
            ),
        )
    if effects.ranks:
        section.table(
            anchor(*name, "ranks"),
            [
                Column("Factor", key="factor"),
                Column("Rank coefficient", key="coefficient", digits=3, kind=layout.kind),
                Column("low", key="low", digits=3),
                Column("high", key="high", digits=3),
            ],
            [[r.factor, *three(r.coefficient)] for r in effects.ranks],
            f"Standardised regression of the ranks of {effects.response.replace('_', ' ')}; R² "
            f"{effects.ranks[0].r_squared:.3f}.",
        )


Floats = NDArray[np.float64]

MAX_PAIRS = 4
MAX_RANKED = 50
"""Cases of a list that the page shows; effects.csv has all."""
SMALLEST_PAIR = 0.005
"""Interactions with less than this share of the variance are in the table and not drawn."""
MAX_CURVES = 9


def add_figures(section: Section, layout: Layout, effects: ResponseEffects, frame: pd.DataFrame) -> None:
    """Add the figures of one response, whatever its design gives."""
    name, unit = (layout.name, effects.response), UNITS.get(effects.response, "")
    words = effects.response.replace("_", " ")
    if effects.levels and layout.design == "grid":
        of = [effects.of(f.name) for f in layout.factors]
        section.figure(
            anchor(*name, "main"),
            plots.main_effects(of, layout.factors, effects.response, unit),
            _level_data(effects.levels),
            f"Main effects on {words}: the mean at each level over all other factors, with its interval "
            f"over the replications.",
            f"One panel for each of {len(of)} factors; the mean of {words} over the levels.",
        )
        _interaction_figure(section, layout, effects, frame)
    if effects.levels and layout.design == "one-at-a-time":
        compared = [e for e in effects.levels if e.against is not None]
        as_ratio = all(e.against is not None and e.against.ratio is not None for e in compared)
        if compared:
            section.figure(
                anchor(*name, "tornado"),
                plots.tornado(compared, words, as_ratio=as_ratio, unit=unit),
                _level_data(effects.levels),
                f"Each factor moved alone: {words} against the base. "
                "The number at a bar is the level; whiskers are paired intervals.",
                f"A tornado of {len({e.factor for e in compared})} factors, the one with the largest effect "
                f"on {words} on top.",
            )
    if effects.sobol:
        section.figure(
            anchor(*name, "sobol"),
            plots.sobol_bars(effects.sobol, words),
            {
                "factors": [" x ".join(i.factors) for i in effects.sobol],
                "index": [i.index.estimate for i in effects.sobol],
                "index_low": [i.index.low for i in effects.sobol],
                "index_high": [i.index.high for i in effects.sobol],
                "total": [i.total.estimate if i.total else None for i in effects.sobol],
                "total_low": [i.total.low if i.total else None for i in effects.sobol],
                "total_high": [i.total.high if i.total else None for i in effects.sobol],
            },
            f"Sobol indices of {words}: what share of its variance each factor is responsible for, alone "
            f"and with interactions.",
            f"Horizontal bars, two a factor, the factor with the largest total index of {words} on top.",
        )
    if effects.ranks:
        section.figure(
            anchor(*name, "ranks"),
            plots.rank_bars(effects.ranks, words),
            {
                "factor": [r.factor for r in effects.ranks],
                "coefficient": [r.coefficient.estimate for r in effects.ranks],
                "low": [r.coefficient.low for r in effects.ranks],
                "high": [r.coefficient.high for r in effects.ranks],
            },
            f"Which way and how strongly {words} goes with each factor.",
            "Horizontal bars of rank coefficients between -1 and 1, the largest on top.",
        )
    drawn = layout.design in ("sobol", "random")
    if drawn or (layout.design == "grid" and len(layout.factors) > 1):
        curves = [
            curve(f, frame, effects.response, drawn=drawn, level=layout.level)
            for f in layout.factors[:MAX_CURVES]
            if f.numeric
        ]
        if curves:
            section.figure(
                anchor(*name, "response"),
                plots.response_curves(curves, effects.response, unit),
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


MAX_HEADLINES = 4


def add_effects(section: Section, effects: Effects, frame: pd.DataFrame, response: str) -> None:
    """Add the effects on one response to a section: tables and figures."""
    found = effects[response]
    add_tables(section, effects.layout, found)
    add_figures(section, effects.layout, found, of_design(effects.layout, frame))


def effects_page(
    question: str, effects: Effects, frame: pd.DataFrame, provenance: Mapping[str, object]
) -> Report:
    """A page of its own for one study."""
    layout, times = effects.layout, effects.replications
    size = f"{effects.points} cases, {times} replication{'s' if times > 1 else ''}, design `{layout.design}`."
    page = Report(f"What if: {layout.title or layout.name}", f"{question} {size}".strip(), provenance)
    for label, value in answers(effects)[:MAX_HEADLINES]:
        page.headline(label, value, kind=layout.kind)
    _answer_section(page, effects)
    for found in effects.responses:
        section = page.section(anchor(found.response), found.response.replace("_", " "), _intro(effects))
        for note in effects.notes if found is effects.responses[0] else ():
            section.text(note)
        add_effects(section, effects, frame, found.response)
    return page


def _answer_section(page: Report, effects: Effects) -> None:
    """What the study asks for, before anything else: what each change does to the leading response."""
    found = leading(effects)
    rows = [level_row(e) for e in ranked(found)]
    if not rows:
        return
    section = page.section(
        "answer",
        "The answer",
        f"What each change does to {found.response.replace('_', ' ')}, the largest effect first. Ratios are "
        "geometric means of paired ratios: the same in every other respect, and the same random numbers.",
    )
    section.table("answer", level_columns(effects.layout.kind), rows, "Every level against its reference.")


def _intro(effects: Effects) -> str:
    level = f"{100 * effects.layout.level:g} %"
    times = f"{effects.replications} times"
    return {
        "grid": f"Every combination of levels, {times}. A level's effect is averaged over the other factors "
        "and compared with the reference level replication by replication, with the same random numbers; "
        f"intervals are at {level}.",
        "one-at-a-time": f"Each factor moved alone, the others at the base, {times}. Differences and ratios "
        f"are paired by common random numbers; intervals are at {level}.",
        "sobol": f"Sobol indices (SALib) over the factors' distributions, with bootstrap intervals at "
        f"{level}. These hold the "
        "truth more often than they claim, since the design is a low-discrepancy sequence.",
        "random": "Points drawn from the factors' distributions; standardised rank regression with "
        f"bootstrap intervals at {level}.",
        "listed": f"The cases of a list, {times}, in the order of their mean response; intervals are at "
        f"{level}.",
    }[effects.layout.design]


EFFECT_COLUMNS = ("response", "measure", "factors", "level", "reference", "estimate", "low", "high", "count")


def effects_csv(effects: Effects) -> str:
    """Every estimate with its interval, a row each: what it is a measure of, of which factors, at which
    level."""
    rows: list[list[Any]] = []

    def add(
        response: str, measure: str, factors: str, level: Any, reference: Any, found: Interval | None
    ) -> None:
        if found is not None:
            plain = [None if x != x else x for x in (found.estimate, found.low, found.high)]
            rows.append([response, measure, factors, level, reference, *plain, found.count])

    for found in effects.responses:
        name = found.response
        add(name, "mean", "", None, None, found.mean)
        for e in found.levels:
            add(name, "mean", e.factor, e.level, e.reference, e.mean)
            if e.against is not None:
                add(name, "difference", e.factor, e.level, e.reference, e.against.difference)
                add(name, "ratio", e.factor, e.level, e.reference, e.against.ratio)
                add(name, "variance reduction", e.factor, e.level, e.reference, e.against.variance_reduction)
        for s in found.shares:
            add(name, "share of variance", " x ".join(s.factors) or "higher", None, None, s.share)
        for i in found.sobol:
            add(name, "sobol index", " x ".join(i.factors), None, None, i.index)
            add(name, "sobol total", " x ".join(i.factors), None, None, i.total)
        for c in found.ranking:
            add(name, "mean of a case", c.label, c.case, None, c.mean)
        for r in found.ranks:
            add(name, "rank coefficient", r.factor, None, None, r.coefficient)
    return csv_text(EFFECT_COLUMNS, rows)


def write_page(
    effects: Effects, frame: pd.DataFrame, out_dir: Path, question: str, provenance: dict[str, object]
) -> Path:
    """Write ``report.html`` with ``figures/`` (SVG, PNG, CSV) and ``tables/``, and ``effects.csv``; the
    page's path."""
    out_dir = Path(out_dir)
    page = effects_page(question, effects, frame, provenance)
    path = page.write(out_dir)
    try:
        write_atomic(out_dir / "effects.csv", effects_csv(effects).encode())
    except OSError as error:
        raise SmlabError(f"{out_dir}: the effects cannot be written: {error}") from error
    return path

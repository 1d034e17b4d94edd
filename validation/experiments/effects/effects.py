"""Computing the effects of a study's factors on its responses: what `summarise` does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from smlab.hw_bench.errors import SmlabError
from smlab.validation.experiments.effects.factorial import Share, variance_shares
from smlab.validation.experiments.effects.paired import compare, mean_of, over_cells
from smlab.validation.experiments.effects.points import (
    RATIOS,
    FactorLevels,
    Layout,
    by_point,
    common_replications,
    grid_values,
    of_design,
    plain_value,
)
from smlab.validation.experiments.effects.results import Effects, LevelEffect, RankedCase, ResponseEffects
from smlab.validation.experiments.effects.sensitivity import (
    MIN_SAMPLES,
    RankCoefficient,
    SobolIndex,
    rank_coefficients,
    sobol_indices,
)


def effects_of(layout: Layout, frame: pd.DataFrame) -> Effects:
    """Compute the effects that the design allows, for every response.

    ``frame`` has a row a case and replication, in the order of the design: a column for each factor,
    ``replication``, perhaps ``case`` (0 is the base), and the responses (NaN where a case failed). Rows
    without a value are left out and counted in ``notes``.

    Raises:
        SmlabError: a column is missing, or a response has no value at all.
    """
    frame = of_design(layout, frame)
    if not len(frame):
        raise SmlabError(f"study {layout.name}: there are no points, so there are no effects")
    layout = layout.with_levels_of(frame)
    notes: list[str] = []
    found = tuple(_response_effects(layout, frame, response, notes.append) for response in layout.responses)
    replications = int(frame["replication"].nunique())
    if replications == 1 and layout.design in ("grid", "one-at-a-time"):
        notes.append(
            "One replication: differences and ratios have no intervals. Set `replications` in the study."
            if layout.random
            else "Nothing in this study is random: its figures are exact and have no intervals."
        )
    cases = int(frame["case"].nunique()) if "case" in frame.columns else len(frame) // replications
    return Effects(layout, cases, replications, found, tuple(dict.fromkeys(notes)))


def _response_effects(
    layout: Layout, frame: pd.DataFrame, response: str, note: Callable[[str], None]
) -> ResponseEffects:
    known = np.isfinite(frame[response].to_numpy(dtype=np.float64))
    if not known.any():
        raise SmlabError(f"study {layout.name}: {response}: no point has a value")
    if not known.all():
        note(f"{response}: {int((~known).sum())} of {len(known)} rows have no value and were left out")
    geometric = response in RATIOS
    groups = frame[known].groupby("replication")[response]
    per_replication = [
        over_cells(g.to_numpy(dtype=np.float64)[None], geometric=geometric)[0] for _, g in groups
    ]
    mean = mean_of(per_replication, layout.level, geometric=geometric)
    levels: tuple[LevelEffect, ...] = ()
    shares: tuple[Share, ...] = ()
    indices: tuple[SobolIndex, ...] = ()
    ranks: tuple[RankCoefficient, ...] = ()
    ranking: tuple[RankedCase, ...] = ()
    if layout.design == "grid":
        levels, shares = _grid_effects(layout, frame, response, note)
    elif layout.design == "one-at-a-time":
        levels = _single_effects(layout, frame[known], response, note)
    elif layout.design == "sobol":
        indices = _sobol_effects(layout, frame, response, note)
    elif layout.design == "listed":
        ranking = _ranking(layout, frame[known], response)
    else:
        ranks = _rank_effects(layout, frame, response, note)
    return ResponseEffects(response, mean, levels, shares, indices, ranks, ranking)


def _ranking(layout: Layout, frame: pd.DataFrame, response: str) -> tuple[RankedCase, ...]:
    """The cases in order of their mean response."""
    geometric = response in RATIOS
    found = []
    for case, rows in frame.groupby("case", sort=True):
        mean = mean_of(rows[response].to_numpy(dtype=np.float64), layout.level, geometric=geometric)
        settings = {name: plain_value(rows[name].iloc[0]) for name in layout.names}
        found.append(RankedCase(int(case), settings, mean))
    return tuple(sorted(found, key=lambda c: c.mean.estimate, reverse=geometric))


def _grid_effects(
    layout: Layout, frame: pd.DataFrame, response: str, note: Callable[[str], None]
) -> tuple[tuple[LevelEffect, ...], tuple[Share, ...]]:
    try:
        values, left_out = grid_values(layout, frame, response)
    except SmlabError as error:
        note(f"{error}; no main effects")
        return (), ()
    if left_out:
        note(f"{response}: {left_out}")
    effects = []
    for axis, factor in enumerate(layout.factors):
        cells = np.moveaxis(values, 1 + axis, 1)
        columns = {level: cells[:, k].reshape(len(values), -1) for k, level in enumerate(factor.levels)}
        effects.extend(_against_reference(layout, response, factor, columns))
    return tuple(effects), variance_shares(values, layout.names, layout.level)


def _against_reference(
    layout: Layout, response: str, factor: FactorLevels, columns: dict[Any, np.ndarray]
) -> list[LevelEffect]:
    """The levels of one factor, from the response at each, shape ``(replications, cells)``."""
    reference, geometric = factor.reference, response in RATIOS
    return [
        LevelEffect(
            response,
            factor.name,
            level,
            reference,
            mean_of(over_cells(column, geometric=geometric), layout.level, geometric=geometric),
            None
            if level == reference
            else compare(column, columns[reference], layout.level, geometric=geometric),
        )
        for level, column in columns.items()
    ]


def _single_effects(
    layout: Layout, frame: pd.DataFrame, response: str, note: Callable[[str], None]
) -> tuple[LevelEffect, ...]:
    columns = {f.name: frame[f.name].to_numpy() for f in layout.factors}
    moved = {f.name: columns[f.name] != f.reference for f in layout.factors}
    away = np.sum(list(moved.values()), axis=0)
    at_base = frame[away == 0]
    if not len(at_base):
        note(f"{response}: the base itself has no value, so nothing can be compared with it")
        return ()
    effects = []
    for factor in layout.factors:
        others_at_base = away - moved[factor.name] == 0
        for level in factor.levels:
            rows = frame[others_at_base & (columns[factor.name] == level)]
            if not len(rows):
                note(f"{response}: {factor.name} = {level} has no value")
                continue
            variant, reference = common_replications(rows, at_base, response)
            if not len(variant):
                note(f"{response}: {factor.name} = {level} shares no replication with the base")
                continue
            geometric = response in RATIOS
            against = (
                None
                if level == factor.reference
                else compare(variant, reference, layout.level, geometric=geometric)
            )
            mean = mean_of(rows[response].to_numpy(dtype=np.float64), layout.level, geometric=geometric)
            effects.append(LevelEffect(response, factor.name, level, factor.reference, mean, against))
    return tuple(effects)


def _sobol_effects(
    layout: Layout, frame: pd.DataFrame, response: str, note: Callable[[str], None]
) -> tuple[SobolIndex, ...]:
    _, values = by_point(layout, frame, response)
    block = len(layout.factors) * (2 if layout.second_order else 1) + 2
    whole = len(values) // block * block
    if whole < len(values):
        note(f"{response}: {len(values) - whole} points at the end do not fill a block of the design")
    rows = values[:whole].reshape(-1, block)
    complete = np.isfinite(rows).all(axis=1)
    if not complete.all():
        note(
            f"{response}: {int((~complete).sum())} of {len(rows)} blocks of the design have a point without "
            f"a value"
        )
    if complete.sum() < MIN_SAMPLES:
        note(
            f"{response}: {int(complete.sum())} complete blocks are too few for indices (at least "
            f"{MIN_SAMPLES})"
        )
        return ()
    found = sobol_indices(
        rows[complete].ravel(),
        layout.names,
        second_order=layout.second_order,
        seed=layout.seed,
        level=layout.level,
    )
    if not found:
        note(f"{response}: does not vary, so it has no indices")
    return found


def _rank_effects(
    layout: Layout, frame: pd.DataFrame, response: str, note: Callable[[str], None]
) -> tuple[RankCoefficient, ...]:
    points, values = by_point(layout, frame, response)
    known = np.isfinite(values)
    numeric = [f for f in layout.factors if f.numeric]
    for factor in layout.factors:
        if not factor.numeric:
            note(f"{factor.name} is not a number, so it has no rank coefficient")
    if not numeric or known.sum() < MIN_SAMPLES + len(numeric):
        note(f"{response}: {int(known.sum())} points and {len(numeric)} numeric factors: no rank regression")
        return ()
    names = [f.name for f in numeric]
    inputs = points.loc[known, names].to_numpy(dtype=np.float64)
    found = rank_coefficients(inputs, values[known], names, seed=layout.seed, level=layout.level)
    if not found:
        note(f"{response}: does not vary, so it has no coefficients")
    return found

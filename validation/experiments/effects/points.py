"""The points of a study as arrays: what the effects are computed from, whatever wrote the table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError

Floats = NDArray[np.float64]

RATIOS = ("speedup",)
"""Responses that are ratios themselves: their means are geometric."""

DESIGNS = ("grid", "one-at-a-time", "sobol", "random", "listed")
MAX_LEVELS = 24
"""A factor with more distinct values than this is shown in bins."""


@dataclass(frozen=True)
class FactorLevels:
    """One factor: the column's name, its value in the base (None where the base does not say), and its levels
    in order.

    A factor is ``numeric`` if all its levels are numbers; ``log`` asks for a logarithmic axis.
    """

    name: str
    base: Any
    levels: tuple[Any, ...]
    log: bool = False

    @property
    def numeric(self) -> bool:
        return all(isinstance(v, int | float | np.number) and not isinstance(v, bool) for v in self.levels)

    @property
    def reference(self) -> Any:
        """The level that others are compared with: the base's, or the first."""
        return self.base if self.base in self.levels else self.levels[0]

    @property
    def label(self) -> str:
        """The name without the long beginning: the last two parts of a dotted key, in words."""
        parts = self.name.removeprefix("gpu.").removeprefix("workload.").split(".")
        return " ".join(parts).replace("_", " ")


@dataclass(frozen=True)
class Layout:
    """What the effects need to know of a study: its ``design``, factors and responses, the intervals'
    ``level``, and whether anything in it is ``random``. ``kind`` is where its numbers come from:
    ``simulated``, or ``modelled`` by a closed form."""

    name: str
    design: str
    factors: tuple[FactorLevels, ...]
    responses: tuple[str, ...]
    seed: int = 1
    second_order: bool = False
    level: float = 0.95
    title: str = ""
    random: bool = True
    kind: str = "simulated"

    def __post_init__(self) -> None:
        if self.design not in DESIGNS:
            raise SmlabError.at(f"study {self.name}: design", "unknown", self.design, ", ".join(DESIGNS))
        if not self.factors or not self.responses:
            raise SmlabError.at(f"study {self.name}", "nothing to compare", expected="factors and responses")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.factors)

    def with_levels_of(self, frame: pd.DataFrame) -> Layout:
        """The same with the levels that occur in the points, numbers in ascending order, names as they
        first appear."""
        factors = []
        for factor in self.factors:
            if factor.name not in frame.columns:
                raise SmlabError.at(
                    f"study {self.name}: points", "no column", factor.name, ", ".join(self.names)
                )
            seen = tuple(plain_value(v) for v in frame[factor.name].drop_duplicates().tolist())
            factor = replace(factor, levels=seen)
            if factor.numeric:
                factor = replace(factor, levels=tuple(sorted(seen)))
            factors.append(factor)
        missing = [r for r in self.responses if r not in frame.columns]
        if missing:
            raise SmlabError.at(f"study {self.name}: points", "no column", missing[0], "every response")
        return replace(self, factors=tuple(factors))


def of_design(layout: Layout, frame: pd.DataFrame) -> pd.DataFrame:
    """The rows that belong to the design. Case 0 is the base, which only a one-at-a-time design is
    compared with."""
    if "case" not in frame.columns or layout.design == "one-at-a-time":
        return frame
    return frame[frame["case"] > 0]


def grid_values(layout: Layout, frame: pd.DataFrame, response: str) -> tuple[Floats, str]:
    """The response over a full grid, ``(replications, levels of factor 0, ...)``, and a note on what was left
    out.

    Only replications that every combination has are used (a combination that was stopped early has fewer).
    `SmlabError` where a combination has none at all: then the grid cannot be taken apart.
    """
    index = [np.searchsorted(np.arange(len(f.levels)), _codes(f, frame[f.name])) for f in layout.factors]
    shape = tuple(len(f.levels) for f in layout.factors)
    cell = np.ravel_multi_index(index, shape)
    cells = int(np.prod(shape))
    y = frame[response].to_numpy(dtype=np.float64)
    known = np.isfinite(y)
    replications, row = np.unique(frame["replication"].to_numpy(), return_inverse=True)
    table = np.full((len(replications), cells), np.nan)
    table[row[known], cell[known]] = y[known]
    empty = int(np.isnan(table).all(axis=0).sum())
    if empty:
        raise SmlabError(
            f"{layout.name}: {response}: {empty} of {cells} combinations of levels have no value, so the "
            f"grid is not full"
        )
    complete = np.isfinite(table).all(axis=1)
    if not complete.any():
        raise SmlabError(
            f"{layout.name}: {response}: no replication has a value for every combination of levels"
        )
    left = int((~complete).sum())
    note = f"{left} of {len(replications)} replications are not complete and were left out" if left else ""
    return table[complete].reshape(-1, *shape), note


def common_replications(a: pd.DataFrame, b: pd.DataFrame, response: str) -> tuple[Floats, Floats]:
    """The response of two variants in the replications that both have, in the order of the replications."""
    found = []
    for rows in (a, b):
        replications, first = np.unique(rows["replication"].to_numpy(), return_index=True)
        values = rows[response].to_numpy(dtype=np.float64)[first]
        known = np.isfinite(values)
        found.append((replications[known], values[known]))
    _, left, right = np.intersect1d(found[0][0], found[1][0], assume_unique=True, return_indices=True)
    return found[0][1][left], found[1][1][right]


def by_point(layout: Layout, frame: pd.DataFrame, response: str) -> tuple[pd.DataFrame, Floats]:
    """The points in the order of the design, one row each, and the response's mean over their replications.

    A Saltelli design may contain a point twice, so rows are told apart by ``case`` where the table has it,
    else by their order within a replication.
    """
    if "case" in frame.columns:
        key = frame["case"].to_numpy()
    else:
        key = frame.groupby("replication", sort=False).cumcount().to_numpy()
    order = np.argsort(key, kind="stable")
    ordered = frame.iloc[order]
    _, first, count = np.unique(key[order], return_index=True, return_counts=True)
    y = ordered[response].to_numpy(dtype=np.float64)
    mean = np.add.reduceat(y, first) / count
    return ordered.iloc[first].reset_index(drop=True), mean


def _codes(factor: FactorLevels, column: pd.Series) -> NDArray[np.int64]:
    place = {value: k for k, value in enumerate(factor.levels)}
    return np.array([place[plain_value(v)] for v in column.tolist()], dtype=np.int64)


def plain_value(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value

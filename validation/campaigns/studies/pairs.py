"""All else equal, within a Saltelli design: pairs of points that differ in one factor only.

Each block of the design holds a point A and, for each factor, the point that is A but for that factor. So
beside indices the design gives what a factor does where all others are drawn from their distributions, and
the blocks give the interval.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.validation.experiments.effects.points import Layout, of_design
from smlab.validation.method.statistics import Interval, ratio_interval

Floats = NDArray[np.float64]


def saltelli_pairs(layout: Layout, frame: pd.DataFrame, factor: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The points A of all blocks, and the points that differ from them in ``factor`` alone, each with a row a
    block.

    Blocks in which one of the two has no value are left out, as are those in which the factor has the same
    value twice.
    """
    if layout.design != "sobol" or factor not in layout.names:
        raise SmlabError.at(f"study {layout.name}: pairs", "no Saltelli design of this factor", factor)
    rows = of_design(layout, frame)
    rows = rows[rows["replication"] == rows["replication"].min()]
    if "case" in rows.columns:
        rows = rows.sort_values("case", kind="stable")
    block = len(layout.names) * (2 if layout.second_order else 1) + 2
    if len(rows) % block:
        raise SmlabError.at(
            f"study {layout.name}: pairs", "not whole blocks", len(rows), f"a multiple of {block}"
        )
    place = 1 + layout.names.index(factor)
    a = rows.iloc[0::block].reset_index(drop=True)
    b = rows.iloc[place::block].reset_index(drop=True)
    known = a[list(layout.responses)].notna().all(axis=1) & b[list(layout.responses)].notna().all(axis=1)
    kept = known & (a[factor] != b[factor])
    return a[kept].reset_index(drop=True), b[kept].reset_index(drop=True)


def elasticity(a: pd.DataFrame, b: pd.DataFrame, factor: str, response: str, level: float = 0.95) -> Interval:
    """Per cent that the response changes when the factor changes by one per cent: d ln y / d ln x, over
    pairs.

    The least-squares slope through the pairs' log ratios, ``sum(dy dx) / sum(dx^2)``, with the jackknife's
    interval over them. FactorLevels and response must be above 0.
    """
    dx = np.log(b[factor].to_numpy(dtype=np.float64) / a[factor].to_numpy(dtype=np.float64))
    dy = np.log(b[response].to_numpy(dtype=np.float64) / a[response].to_numpy(dtype=np.float64))
    if len(dx) < 2 or not (np.isfinite(dx).all() and np.isfinite(dy).all()):
        raise SmlabError.at(
            f"elasticity of {response} to {factor}", "unusable pairs", len(dx), "2 or more, all above 0"
        )
    return ratio_interval(dx * dy, dx**2, level)


def two_levels(
    a: pd.DataFrame, b: pd.DataFrame, factor: str, response: str, variant: object, base: object
) -> tuple[Floats, Floats]:
    """The response at ``variant`` and at ``base`` in the pairs that hold these two levels, in the order of
    the pairs."""
    forward = ((a[factor] == base) & (b[factor] == variant)).to_numpy()
    backward = ((a[factor] == variant) & (b[factor] == base)).to_numpy()
    ya, yb = a[response].to_numpy(dtype=np.float64), b[response].to_numpy(dtype=np.float64)
    either = forward | backward
    return np.where(forward, yb, ya)[either], np.where(forward, ya, yb)[either]

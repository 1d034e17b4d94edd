"""A full grid taken apart: means by level, means by pairs of levels, and each factor's share of the
variance.

The functional analysis of variance of a balanced grid (every combination of levels once a replication):
the variance of the response over the grid is the sum of a part of each factor alone, of each pair's
interaction, and of all that needs three factors and more. The parts are of the mean over the
replications; what chance adds to them is taken out by the jackknife over the replications, which also
gives the intervals.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.validation.method.statistics import Interval, mean_interval

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Share:
    """The share of a response's variance over the grid that belongs to one factor, to a pair's interaction,
    or (no factors named) to interactions of three and more. ``share`` is a fraction."""

    factors: tuple[str, ...]
    share: Interval


def marginal(values: Floats, *axes: int) -> Floats:
    """Means over everything but the given axes of factors: ``(replications, levels of the axes...)``, axes
    ascending.

    ``values`` has shape ``(replications, levels of factor 0, levels of factor 1, ...)``.
    """
    others = tuple(1 + k for k in range(values.ndim - 1) if k not in axes)
    means: Floats = values.mean(axis=others)
    return means


def interaction(values: Floats, first: int, second: int) -> Floats:
    """What a pair of levels gives beyond the two levels' own effects, shape ``(replications, first,
    second)``.

    0 everywhere means that the two factors simply add.
    """
    low, high = sorted((first, second))
    pair = marginal(values, low, high)
    excess: Floats = (
        pair
        - pair.mean(axis=1, keepdims=True)
        - pair.mean(axis=2, keepdims=True)
        + pair.mean((1, 2), keepdims=True)
    )
    return excess if first < second else np.swapaxes(excess, 1, 2)


def variance_shares(values: Floats, names: Sequence[str], level: float = 0.95) -> tuple[Share, ...]:
    """Every factor's share of the variance, every pair's, and the rest's, largest first; they add up to 1.

    ``values`` as for `marginal`, with no NaN. Empty where the response does not vary. With one replication
    the shares have no interval (NaN). The jackknifed shares may fall a little below 0; that is chance, and
    they are given as they are.
    """
    if values.ndim != 1 + len(names) or not np.isfinite(values).all():
        raise SmlabError.at(
            "grid", "not a full grid", values.shape, f"finite, replications and {len(names)} factors"
        )
    count = len(values)
    whole = _shares(values.mean(axis=0))
    if not whole:
        return ()
    keys = list(whole)
    if count == 1:
        found = {key: Interval(whole[key], math.nan, math.nan, level, 1) for key in keys}
    else:
        total = values.sum(axis=0)
        left_out = [_shares((total - one) / (count - 1)) for one in values]
        if not all(left_out):
            return ()
        found = {
            key: mean_interval([count * whole[key] - (count - 1) * part[key] for part in left_out], level)
            for key in keys
        }
    shares = [Share(tuple(names[k] for k in key), found[key]) for key in keys]
    return tuple(sorted(shares, key=lambda s: (not s.factors, -s.share.estimate)))


def _shares(mean: Floats) -> dict[tuple[int, ...], float]:
    """The shares of the variance of one grid ``(levels...)``; empty if it is constant."""
    total = float(np.var(mean))
    if total <= 1e-24 * float(np.mean(mean)) ** 2 or total == 0:
        return {}
    grid = mean[None]
    parts: dict[tuple[int, ...], float] = {}
    for k in range(mean.ndim):
        parts[(k,)] = float(np.var(marginal(grid, k))) / total
    for pair in itertools.combinations(range(mean.ndim), 2):
        parts[pair] = float(np.mean(interaction(grid, *pair) ** 2)) / total
    if mean.ndim > 2:
        parts[()] = 1.0 - sum(parts.values())
    return parts

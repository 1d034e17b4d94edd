"""Fitting boosted trees (J. Friedman, "Greedy function approximation: a gradient boosting machine", Annals of
Statistics 29, 2001): for a quantile and for a chance (logistic)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numba import njit
from numpy.random import Generator, default_rng
from numpy.typing import NDArray

from smlab.models.boosted_trees import BoostedTrees

Floats = NDArray[np.float64]
Loss = Literal["quantile", "logistic"]

BINS = 32
"""Values of a feature between which a tree may part."""


@dataclass(frozen=True)
class Boosting:
    """How to fit: so many ``trees`` of a ``depth``, each taken at the learning ``rate``, on a ``share`` of
    rows and of features, of ``most_rows`` at most; a leaf's weight is counted with ``damping`` rows of answer
    0 more. ``quantile`` says which: 0.5 is the median."""

    trees: int = 150
    depth: int = 4
    rate: float = 0.1
    share: float = 0.5
    most_rows: int = 10_000
    damping: float = 20.0
    quantile: float = 0.5


DEFAULT = Boosting()


def fit_trees(
    given: Floats,
    target: Floats,
    weight: Floats | None = None,
    loss: Loss = "quantile",
    how: Boosting = DEFAULT,
    seed: int = 0,
) -> BoostedTrees:
    """Trees for ``target`` (rows,) from features ``given`` (rows, features): its weighted quantile, or (loss
    ``logistic``, targets 0 and 1) the logarithm of the odds of a 1."""
    rng = default_rng(seed)
    weight = np.ones(len(target)) if weight is None else weight / weight.mean()
    edges = [np.unique(np.quantile(column, np.linspace(0, 1, BINS + 1)[1:-1])) for column in given.T]
    binned = np.stack([np.searchsorted(e, x).astype(np.uint8) for e, x in zip(edges, given.T, strict=True)])
    start = _start(target, weight, loss, how)
    now = np.full(len(target), start)
    features, thresholds, leaves = [], [], []
    part = min(how.share, how.most_rows / len(target))
    for _ in range(how.trees):
        slope = _slope(target - now, loss, target, now, how)
        rows = np.flatnonzero(rng.random(len(target)) < part)
        asked, places = _questions(binned, rows, slope * weight, weight, how, rng)
        leaf = ((binned[asked] > places[:, None]) * (2 ** np.arange(how.depth))[:, None]).sum(axis=0)
        answers = how.rate * _answers(
            leaf[rows], (target - now)[rows], slope[rows], now[rows], weight[rows], loss, how
        )
        now += answers[leaf]
        features.append(asked)
        thresholds.append(
            [edges[f][p] if p < len(edges[f]) else np.inf for f, p in zip(asked, places, strict=True)]
        )
        leaves.append(answers)
    return BoostedTrees(start, np.array(features), np.array(thresholds), np.array(leaves))


def _start(target: Floats, weight: Floats, loss: Loss, how: Boosting) -> float:
    if loss == "quantile":
        return _quantile(target, weight, how.quantile)
    chance = float(np.clip(np.average(target, weights=weight), 1e-3, 1 - 1e-3))
    return float(np.log(chance / (1 - chance)))


def _slope(off: Floats, loss: Loss, target: Floats, now: Floats, how: Boosting) -> Floats:
    """The way in which each row's answer should go."""
    if loss == "quantile":
        up, down = 2 * how.quantile, 2 * how.quantile - 2
        slope: Floats = np.where(off > 0, up, down) * (off != 0)
        return slope
    return target - 1 / (1 + np.exp(-now))


def _questions(
    binned: NDArray[np.uint8],
    rows: NDArray[np.intp],
    pull: Floats,
    weight: Floats,
    how: Boosting,
    rng: Generator,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Features and bins (depth,) by which the slopes of the rows part best, one question after the other."""
    leaf = np.zeros(len(rows), dtype=np.int64)
    asked, places = [], []
    for level in range(how.depth):
        count = 2**level
        tried = rng.random(len(binned)) < how.share
        tried[rng.integers(len(binned))] = True
        chosen = np.flatnonzero(tried)
        tables: Floats = _sums(binned, chosen, rows, leaf, pull, weight, count)
        below = tables.cumsum(axis=-1)  # (features, 2, leaves, bins): pulls and weights
        above = below[..., -1:] - below
        sides = [(x[:, 0] ** 2 / (x[:, 1] + how.damping)).sum(axis=1) for x in (below, above)]
        gain = (sides[0] + sides[1])[:, :-1]
        best, place = np.unravel_index(int(np.argmax(gain)), gain.shape)
        feature = int(chosen[best])
        asked.append(feature)
        places.append(int(place))
        leaf += count * (binned[feature][rows] > place)
    return np.array(asked), np.array(places)


@njit(cache=True)
def _sums(
    binned: NDArray[np.uint8],
    chosen: NDArray[np.intp],
    rows: NDArray[np.intp],
    leaf: NDArray[np.int64],
    pull: Floats,
    weight: Floats,
    leaves: int,
) -> Floats:
    """Pulls and weights of the rows by chosen feature, leaf and bin, (features, 2, leaves, `BINS`)."""
    tables = np.zeros((len(chosen), 2, leaves, BINS))
    for i in range(len(chosen)):
        own, table = binned[chosen[i]], tables[i]
        for k in range(len(rows)):
            row = rows[k]
            table[0, leaf[k], own[row]] += pull[row]
            table[1, leaf[k], own[row]] += weight[row]
    return tables


def _answers(
    leaf: NDArray[np.int64],
    off: Floats,
    slope: Floats,
    now: Floats,
    weight: Floats,
    loss: Loss,
    how: Boosting,
) -> Floats:
    """What each leaf adds: the quantile of what is left, or Newton's step; less where few rows say so."""
    count = 2**how.depth
    total = np.bincount(leaf, weight, count)
    if loss == "logistic":
        chance = 1 / (1 + np.exp(-now))
        curve = np.bincount(leaf, weight * chance * (1 - chance), count)
        return np.bincount(leaf, weight * slope, count) / (curve + how.damping / 4)
    found = np.zeros(count)
    order = np.argsort(leaf, kind="stable")
    for number, rows in zip(*_groups(leaf[order], order), strict=True):
        found[number] = _quantile(off[rows], weight[rows], how.quantile)
    shrunk: Floats = found * total / (total + how.damping)
    return shrunk


def _groups(ordered: NDArray[np.int64], order: NDArray[np.intp]) -> tuple[list[int], list[NDArray[np.intp]]]:
    numbers, first = np.unique(ordered, return_index=True)
    return numbers.tolist(), np.split(order, first[1:])


def _quantile(values: Floats, weight: Floats, share: float) -> float:
    order = np.argsort(values)
    below = np.cumsum(weight[order])
    return float(values[order][np.searchsorted(below, below[-1] * share)])

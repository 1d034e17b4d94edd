"""Fitting boosted trees (J. Friedman, "Greedy function approximation: a gradient boosting machine", Annals of
Statistics 29, 2001): for absolute errors (a median) and for a chance (logistic)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.random import Generator, default_rng
from numpy.typing import NDArray
from smlab.models.boosted_trees import BoostedTrees

Floats = NDArray[np.float64]
Loss = Literal["absolute", "logistic"]

BINS = 32
"""Values of a feature between which a tree may part."""


@dataclass(frozen=True)
class Boosting:
    """How to fit: so many ``trees`` of a ``depth``, each taken at the learning ``rate``, on a ``share`` of
    rows and of features; a leaf's weight is counted with ``damping`` rows of answer 0 more."""

    trees: int = 150
    depth: int = 4
    rate: float = 0.1
    share: float = 0.5
    damping: float = 20.0


DEFAULT = Boosting()


def fit_trees(
    given: Floats,
    target: Floats,
    weight: Floats | None = None,
    loss: Loss = "absolute",
    how: Boosting = DEFAULT,
    seed: int = 0,
) -> BoostedTrees:
    """Trees for ``target`` (rows,) from features ``given`` (rows, features): its weighted median, or (loss
    ``logistic``, targets 0 and 1) the logarithm of the odds of a 1."""
    rng = default_rng(seed)
    weight = np.ones(len(target)) if weight is None else weight / weight.mean()
    edges = [np.unique(np.quantile(column, np.linspace(0, 1, BINS + 1)[1:-1])) for column in given.T]
    binned = np.stack([np.searchsorted(e, x) for e, x in zip(edges, given.T, strict=True)])
    start = _start(target, weight, loss)
    now = np.full(len(target), start)
    features, thresholds, leaves = [], [], []
    for _ in range(how.trees):
        slope = _slope(target - now, loss, target, now)
        rows = np.flatnonzero(rng.random(len(target)) < how.share)
        asked, places = _questions(binned[:, rows], slope[rows], weight[rows], how, rng)
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


def _start(target: Floats, weight: Floats, loss: Loss) -> float:
    if loss == "absolute":
        return _median(target, weight)
    chance = float(np.clip(np.average(target, weights=weight), 1e-3, 1 - 1e-3))
    return float(np.log(chance / (1 - chance)))


def _slope(off: Floats, loss: Loss, target: Floats, now: Floats) -> Floats:
    """The way in which each row's answer should go."""
    return np.sign(off) if loss == "absolute" else target - 1 / (1 + np.exp(-now))


def _questions(
    binned: NDArray[np.int64], slope: Floats, weight: Floats, how: Boosting, rng: Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Features and bins (depth,) by which the slopes part best, one question after the other."""
    leaf = np.zeros(binned.shape[1], dtype=np.int64)
    pull = slope * weight
    asked, places = [], []
    for level in range(how.depth):
        count = 2**level
        best = (-np.inf, 0, 0)
        tried = rng.random(len(binned)) < how.share
        tried[rng.integers(len(binned))] = True
        for feature in np.flatnonzero(tried).tolist():
            cell = leaf * BINS + binned[feature]
            pulls, weights = (
                np.bincount(cell, x, count * BINS).reshape(count, BINS).cumsum(axis=1) for x in (pull, weight)
            )
            rest, other = pulls[:, -1:] - pulls, weights[:, -1:] - weights
            gain = (pulls**2 / (weights + how.damping) + rest**2 / (other + how.damping)).sum(axis=0)
            place = int(np.argmax(gain[:-1]))
            best = max(best, (float(gain[place]), feature, place))
        _, feature, place = best
        asked.append(feature)
        places.append(place)
        leaf += count * (binned[feature] > place)
    return np.array(asked), np.array(places)


def _answers(
    leaf: NDArray[np.int64],
    off: Floats,
    slope: Floats,
    now: Floats,
    weight: Floats,
    loss: Loss,
    how: Boosting,
) -> Floats:
    """What each leaf adds: the median of what is left, or Newton's step; less where few rows say so."""
    count = 2**how.depth
    total = np.bincount(leaf, weight, count)
    if loss == "logistic":
        chance = 1 / (1 + np.exp(-now))
        curve = np.bincount(leaf, weight * chance * (1 - chance), count)
        return np.bincount(leaf, weight * slope, count) / (curve + how.damping / 4)
    found = np.zeros(count)
    order = np.argsort(leaf, kind="stable")
    for number, rows in zip(*_groups(leaf[order], order), strict=True):
        found[number] = _median(off[rows], weight[rows])
    shrunk: Floats = found * total / (total + how.damping)
    return shrunk


def _groups(ordered: NDArray[np.int64], order: NDArray[np.intp]) -> tuple[list[int], list[NDArray[np.intp]]]:
    numbers, first = np.unique(ordered, return_index=True)
    return numbers.tolist(), np.split(order, first[1:])


def _median(values: Floats, weight: Floats) -> float:
    order = np.argsort(values)
    below = np.cumsum(weight[order])
    return float(values[order][np.searchsorted(below, below[-1] / 2)])

"""Making the counter maps: trees for medians, widths and chances, and what families left out say of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from numba import njit
from numpy.random import Generator, default_rng
from numpy.typing import NDArray

from smlab.hw_bench.rows import Rows
from smlab.models.utilization.boosted_trees import BoostedTrees
from smlab.models.utilization.counter_maps import (
    FASTER,
    LEAST_WIDTH,
    QUANTITIES,
    SPREAD,
    UTILIZATION,
    CounterMap,
    CounterMaps,
    plain_answer,
)
from smlab.models.utilization.counter_sets import (
    SAMPLES,
    SETS,
    STATE_NAMES,
    STATES,
    Counters,
    feature_names,
    feature_table,
)
from smlab.models.utilization.trust_map import UtilizationEstimates
from smlab.models.utilization.verdict import GAIN
from smlab.sim.instructions import Reason
from smlab.validation.campaigns.utilization_maps.families import group_of
from smlab.validation.campaigns.utilization_maps.fit import truth
from smlab.validation.campaigns.utilization_maps.simulate import CampaignTable

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


FOLDS = 8
"""Parts of the families; each is left out in turn."""
MEDIANS = {UTILIZATION: Boosting(600, 4, 0.1), FASTER: Boosting(400, 4, 0.1), SPREAD: Boosting(400, 4, 0.1)}
TELLING = (STATES, SAMPLES)
"""Sets that tell who comes with whom; their medians of the utilization learn from few warps too."""
WITH_FEW = Boosting(1000, 4, 0.1)
WIDTHS = Boosting(60, 4, 0.1, quantile=0.9)
CHANCES = Boosting(200, 4, 0.1, share=0.4)
LEVEL = 0.9
FACTORS = np.linspace(0.6, 1.8, 13)
"""Of the residuals, among which that is taken with which mixtures hold this level."""
RESIDUALS = 100
"""Equally likely residuals that are kept."""

CALLED_GAIN, MISSED_GAIN = 0.955, 0.0075
"""Shares of the kernels of families left out that shall gain 10 % where they are called `bottleneck`, at
least, and `not the bottleneck`, at most: better than what is promised of new ones (90 and 1 %), since the
limits are the furthest that keep it on these."""


def counters_of(table: CampaignTable) -> Counters:
    """What the counters of a campaign's kernels say."""
    labels = [reason.label for reason in Reason]
    columns = [labels.index(name) for name in STATE_NAMES]
    each = table.active_cycles * table.sms
    states, at_atomic, at_result = (x[:, columns] for x in (table.states, table.at_atomic, table.at_result))
    return Counters(
        table.peak_warps,
        table.block_warps,
        table.wavefronts / each,
        table.requests / each[:, None],
        states,
        at_atomic,
        at_result,
        table.spacing,
    )


@dataclass(frozen=True, eq=False)
class Known(Rows):
    """Kernels whose truth is known, each as often as there are readings of it: arrays (rows,); ``kernel``
    says which rows are of one kernel, ``own`` which are told by the tables of the machine it ran on."""

    families: NDArray[np.object_]
    kernel: NDArray[np.int64]
    own: NDArray[np.bool_]
    estimates: UtilizationEstimates
    counters: Counters
    utilization: Floats
    gain: Floats
    gain_spread: Floats

    def exact(self, quantity: str) -> Floats:
        """A place between floor and ceiling, or the logarithm of a speedup."""
        if quantity == UTILIZATION:
            f = self.estimates.features
            place: Floats = (self.utilization - f.floor) / f.scale
            return place
        speedup: Floats = np.log(self.gain if quantity == FASTER else self.gain_spread)
        return speedup

    def weight(self, quantity: str, plain: Floats) -> Floats:
        """What an error of one costs in points of utilization, or in times as fast where the `plain_answer`
        is about right."""
        if quantity == UTILIZATION:
            return self.estimates.features.scale
        return np.exp(plain)


def known_of(
    table: CampaignTable,
    estimates: UtilizationEstimates,
    counters: Counters,
    first: int = 0,
    *,
    own: bool = True,
) -> Known:
    """The kernels of a campaign, with what is estimated of them and counted; numbers from ``first`` on.
    ``own``: whether the estimates are by the tables of the machine that they ran on."""
    numbers, whose = first + np.arange(len(table)), np.full(len(table), own)
    exact = truth(table)
    return Known(table.family, numbers, whose, estimates, counters, exact, table.gain, table.gain_spread)


def fit_maps(known: Known, few: Known, about: Mapping[str, object], seed: int = 0) -> CounterMaps:
    """The maps of all sets of counters."""
    return CounterMaps(dict(about), {which: fit_map(known, few, which, seed) for which in SETS})


def fit_map(known: Known, few: Known, which: str, seed: int = 0) -> CounterMap:
    """The map of one set of counters; the kernels of ``few`` warps serve the median of the utilization alone,
    of the sets that are `TELLING`: of so few warps the others have too few kernels.

    The trees learn what holds where the reading is the right one, from each kernel by the tables of its own
    machine. That nobody knows which is right, the mixture of all readings tells: its width and the limits of
    its chance are those that hold on families left out. The chance itself is learnt from all rows, since a
    share between 0 and 1 is no worse for some doubt (on families left out it is better by 2 %).
    """
    given = feature_table(known.estimates, known.counters, which)
    own = known.own
    folds = list(_folds(known.families))
    more = _Rows.of(few, which)

    def taught(used: NDArray[np.bool_], target: Floats, weight: Floats, how: Boosting) -> BoostedTrees:
        return fit_trees(given[used], target[used], weight[used], how=how, seed=seed)

    def median_of(quantity: str, used: NDArray[np.bool_], target: Floats, weight: Floats) -> BoostedTrees:
        if quantity != UTILIZATION or which not in TELLING:
            return taught(used, target, weight, MEDIANS[quantity])
        # Families of few warps are left out with those that they are of a kind with.
        alike = np.isin(more.kin, [group_of(name) for name in set(known.families[~used & own].tolist())])
        rows, kept = (target, weight, given), (more.target, more.weight, more.given)
        answer, weights, asked = (
            np.concatenate([a[used], b[~alike]]) for a, b in zip(rows, kept, strict=True)
        )
        return fit_trees(asked, answer, weights, how=WITH_FEW, seed=seed)

    def left_out(fit: Callable[[NDArray[np.bool_]], BoostedTrees]) -> Floats:
        found = np.zeros(len(given))
        for out in folds:
            found[out] = fit(own & ~out).predict(given[out])
        return found

    median, width, residuals = {}, {}, {}
    none = np.ones(len(given))
    for quantity in QUANTITIES:
        plain = plain_answer(quantity, known.estimates, known.counters, which)
        exact, weight = known.exact(quantity), known.weight(quantity, plain)
        least = LEAST_WIDTH[quantity]
        fit = partial(median_of, quantity, target=exact - plain, weight=weight)
        median[quantity] = fit(own)
        middle = plain + left_out(fit)
        off = exact - middle
        size = np.log(np.abs(off) + least)
        width[quantity] = taught(own, size, none, WIDTHS)
        wide = np.maximum(np.exp(left_out(partial(taught, target=size, weight=none, how=WIDTHS))), least)
        at = (np.arange(RESIDUALS) + 0.5) / RESIDUALS
        relative = np.quantile((off / wide)[own], at, method="weibull")
        residuals[quantity] = relative * _scaled(known, quantity, middle, wide, relative)
    trees, limits = _chances(known, given, folds, seed)
    seen = np.concatenate([given, more.given]) if which in TELLING else given
    reach = np.stack([seen.min(axis=0), seen.max(axis=0)])
    return CounterMap(feature_names(which), median, width, residuals, trees, limits, reach)


@dataclass(frozen=True, eq=False)
class _Rows:
    """What the median of the utilization is learnt from kernels by their own machine's tables, arrays
    (rows,): the families they are of a kind with (`group_of`), features, answers, and weights."""

    kin: NDArray[np.object_]
    given: Floats
    target: Floats
    weight: Floats

    @classmethod
    def of(cls, known: Known, which: str) -> _Rows:
        own = known.own
        plain = plain_answer(UTILIZATION, known.estimates, known.counters, which)
        kin = np.array([group_of(name) for name in known.families[own].tolist()], dtype=object)
        given = feature_table(known.estimates, known.counters, which)[own]
        target, weight = known.exact(UTILIZATION) - plain, known.weight(UTILIZATION, plain)
        return cls(kin, given, target[own], weight[own])


def _chances(
    known: Known, given: Floats, folds: Sequence[NDArray[np.bool_]], seed: int
) -> tuple[BoostedTrees, tuple[float, float]]:
    """The trees for the chance that a unit twice as fast brings `GAIN`, and the limits of its mixtures."""
    gains = (known.gain >= GAIN).astype(np.float64)
    odds = np.zeros(len(gains))
    for out in folds:
        kept = fit_trees(given[~out], gains[~out], loss="logistic", how=CHANCES, seed=seed)
        odds[out] = kept.predict(given[out])
    trees = fit_trees(given, gains, loss="logistic", how=CHANCES, seed=seed)
    rows = _readings(known)
    return trees, limits_of((1 / (1 + np.exp(-odds)))[rows].mean(axis=1), gains[rows[:, 0]])


def _readings(known: Known) -> NDArray[np.intp]:
    """The rows of each kernel, (kernels, readings)."""
    counts = np.unique(known.kernel, return_counts=True)[1]
    if len(set(counts.tolist())) != 1:
        raise ValueError("kernels with unequal numbers of readings")
    return np.argsort(known.kernel, kind="stable").reshape(-1, int(counts[0]))


def _scaled(known: Known, quantity: str, middle: Floats, wide: Floats, relative: Floats) -> float:
    """The factor for the residuals with which 90 % intervals of *mixtures*, each of all readings of a kernel,
    hold 90 % of the kernels of families left out, on the mean over the families (families, not kernels, are
    what is drawn at random). A mixture is as wide as its readings disagree, which is more than need be where
    all are about right, and less where none is."""
    rows = _readings(known)
    start, unit = np.zeros(len(middle)), np.ones(len(middle))
    if quantity == UTILIZATION:
        f = known.estimates.features
        start, unit = f.floor, f.scale
    exact = (start + unit * known.exact(quantity))[rows[:, 0]]
    groups = np.array([group_of(name) for name in known.families[rows[:, 0]].tolist()], dtype=object)
    place = np.unique(groups, return_inverse=True)[1]
    held = []
    for factor in FACTORS.tolist():
        atoms = (start + unit * middle)[:, None] + (unit * wide)[:, None] * factor * relative
        low, high = np.quantile(atoms[rows].reshape(len(exact), -1), [0.05, 0.95], axis=1)
        inside = ((low <= exact) & (exact <= high)).astype(np.float64)
        held.append(float((np.bincount(place, inside) / np.bincount(place)).mean()))
    return float(np.interp(LEVEL, np.maximum.accumulate(held), FACTORS))


def _folds(families: NDArray[np.object_]) -> Iterable[NDArray[np.bool_]]:
    names = list(dict.fromkeys(families.tolist()))
    for first in range(FOLDS):
        yield np.isin(families, names[first::FOLDS])


def limits_of(chance: Floats, gains: Floats) -> tuple[float, float]:
    """Up to the first chance a kernel is not held back, from the second on it is, so that `CALLED_GAIN` and
    `MISSED_GAIN` are kept on these kernels."""
    order = np.argsort(chance)
    rising, count = gains[order], np.arange(1, len(gains) + 1)
    missed = np.cumsum(rising) / count
    called = np.cumsum(rising[::-1]) / count
    few, many = np.flatnonzero(missed <= MISSED_GAIN), np.flatnonzero(called >= CALLED_GAIN)
    low = float(chance[order[few[-1]]]) if len(few) else 0.0
    high = float(chance[order[::-1][many[-1]]]) if len(many) else 1.0
    return (low, high) if low <= high else (high, high)

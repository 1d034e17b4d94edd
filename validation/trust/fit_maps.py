"""Making the counter maps: trees for medians, widths and chances, and what families left out say of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smlab.models.counter_maps import (
    FASTER,
    LEAST_WIDTH,
    QUANTITIES,
    SPREAD,
    UTILIZATION,
    CounterMap,
    CounterMaps,
    plain_answer,
)
from smlab.models.counter_sets import SETS, STATE_NAMES, Counters, feature_table
from smlab.models.trust import UtilizationEstimates
from smlab.models.verdict import GAIN
from smlab.sim.instructions import Reason
from smlab.validation.trust.boosting import Boosting, fit_trees
from smlab.validation.trust.fit import joined_estimates, truth
from smlab.validation.trust.simulate import CampaignTable

Floats = NDArray[np.float64]

FOLDS = 8
"""Parts of the families; each is left out in turn."""
MEDIANS = {UTILIZATION: Boosting(600, 4, 0.1), FASTER: Boosting(200, 4, 0.1), SPREAD: Boosting(200, 4, 0.1)}
WIDTHS = Boosting(60, 4, 0.1, quantile=0.9)
CHANCES = Boosting(200, 4, 0.1, share=0.4)
LEVEL = 0.9
FACTORS = np.linspace(0.5, 1.2, 15)
"""Of the residuals, among which that is taken with which mixtures hold this level."""
RESIDUALS = 100
"""Equally likely residuals that are kept."""

CALLED_GAIN, MISSED_GAIN = 0.955, 0.0085
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
class Known:
    """Kernels whose truth is known, each as often as there are readings of it: arrays (rows,); ``kernel``
    says which rows are of one kernel."""

    families: NDArray[np.object_]
    kernel: NDArray[np.int64]
    estimates: UtilizationEstimates
    counters: Counters
    utilization: Floats
    gain: Floats
    gain_spread: Floats

    def target(self, quantity: str) -> Floats:
        """What the trees learn: how far a place between floor and ceiling, or the logarithm of a speedup,
        is from `plain_answer`."""
        if quantity == UTILIZATION:
            f = self.estimates.features
            exact = (self.utilization - f.floor) / f.scale
        else:
            exact = np.log(self.gain if quantity == FASTER else self.gain_spread)
        beyond: Floats = exact - plain_answer(quantity, self.estimates)
        return beyond

    def weight(self, quantity: str) -> Floats:
        if quantity == UTILIZATION:
            return self.estimates.features.scale
        return np.ones(len(self.gain))

    @classmethod
    def joined(cls, parts: Sequence[Known]) -> Known:
        """Those of several campaigns, one after the other."""

        def all_of(name: str) -> NDArray[Any]:
            return np.concatenate([getattr(p, name) for p in parts])

        return cls(
            all_of("families"),
            all_of("kernel"),
            joined_estimates([p.estimates for p in parts]),
            Counters.joined(p.counters for p in parts),
            all_of("utilization"),
            all_of("gain"),
            all_of("gain_spread"),
        )


def known_of(
    table: CampaignTable, estimates: UtilizationEstimates, counters: Counters, first: int = 0
) -> Known:
    """The kernels of a campaign, with what is estimated of them and counted; numbers from ``first`` on."""
    numbers = first + np.arange(len(table))
    return Known(table.family, numbers, estimates, counters, truth(table), table.gain, table.gain_spread)


def fit_maps(known: Known, about: Mapping[str, object], seed: int = 0) -> CounterMaps:
    """The maps of all sets of counters."""
    return CounterMaps(dict(about), {which: fit_map(known, which, seed) for which in SETS})


def fit_map(known: Known, which: str, seed: int = 0) -> CounterMap:
    """The map of one set of counters."""
    given = feature_table(known.estimates, known.counters, which)
    folds = list(_folds(known.families))
    median, width, residuals = {}, {}, {}
    for quantity in QUANTITIES:
        target, weight = known.target(quantity), known.weight(quantity)
        median[quantity] = fit_trees(given, target, weight, how=MEDIANS[quantity], seed=seed)
        off = np.zeros(len(target))
        for out in folds:
            kept = fit_trees(given[~out], target[~out], weight[~out], how=MEDIANS[quantity], seed=seed)
            off[out] = target[out] - kept.predict(given[out])
        size = np.log(np.abs(off) + LEAST_WIDTH[quantity])
        width[quantity] = fit_trees(given, size, how=WIDTHS, seed=seed)
        wide = np.zeros(len(target))
        for out in folds:
            kept = fit_trees(given[~out], size[~out], how=WIDTHS, seed=seed)
            wide[out] = np.maximum(np.exp(kept.predict(given[out])), LEAST_WIDTH[quantity])
        at = (np.arange(RESIDUALS) + 0.5) / RESIDUALS
        relative = np.quantile(off / wide, at, method="weibull")
        residuals[quantity] = relative * _narrowed(known, quantity, target - off, wide, relative)
    gains = (known.gain >= GAIN).astype(np.float64)
    chance = np.zeros(len(gains))
    for out in folds:
        kept = fit_trees(given[~out], gains[~out], loss="logistic", how=CHANCES, seed=seed)
        chance[out] = 1 / (1 + np.exp(-kept.predict(given[out])))
    trees = fit_trees(given, gains, loss="logistic", how=CHANCES, seed=seed)
    reach = np.stack([given.min(axis=0), given.max(axis=0)])
    return CounterMap(median, width, residuals, trees, limits_of(chance, gains), reach)


def _narrowed(known: Known, quantity: str, middle: Floats, wide: Floats, relative: Floats) -> float:
    """The factor for the residuals with which 90 % intervals of *mixtures*, each of all readings of a kernel,
    hold 90 % of the kernels of families left out. Each reading's residuals hold already that it may be the
    wrong one, so a mixture of them is wider than need be."""
    order = np.argsort(known.kernel, kind="stable")
    counts = np.unique(known.kernel, return_counts=True)[1]
    if len(set(counts.tolist())) != 1:
        raise ValueError("kernels with unequal numbers of readings")
    start, unit = np.zeros(len(middle)), np.ones(len(middle))
    if quantity == UTILIZATION:
        f = known.estimates.features
        unit = f.scale
        start = f.floor + plain_answer(quantity, known.estimates) * unit
    exact = (start + unit * known.target(quantity))[order].reshape(-1, counts[0])[:, 0]
    held = []
    for factor in FACTORS.tolist():
        atoms = (start + unit * middle)[:, None] + (unit * wide)[:, None] * factor * relative
        each = np.quantile(atoms[order].reshape(len(exact), -1), [0.05, 0.95], axis=1)
        held.append(float(((each[0] <= exact) & (exact <= each[1])).mean()))
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

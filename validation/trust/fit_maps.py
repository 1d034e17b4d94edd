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
    UTILIZATION,
    CounterMap,
    CounterMaps,
)
from smlab.models.counter_sets import SETS, STATE_NAMES, Counters, feature_table
from smlab.models.trust import UtilizationEstimates
from smlab.models.verdict import GAIN
from smlab.sim.instructions import Reason
from smlab.validation.trust.boosting import Boosting, fit_trees
from smlab.validation.trust.fit import joined_estimates, truth
from smlab.validation.trust.simulate import CampaignTable

Floats = NDArray[np.float64]

FOLDS = 4
"""Parts of the families; each is left out in turn."""
MEDIANS, WIDTHS, CHANCES = Boosting(150, 4, 0.1), Boosting(40, 3, 0.15), Boosting(250, 4, 0.08, share=0.4)
RESIDUALS = 100
"""Equally likely residuals that are kept."""

CALLED_GAIN, MISSED_GAIN = 0.955, 0.0095
"""Shares of the kernels of families left out that shall gain 10 % where they are called `bottleneck`, at
least, and `not the bottleneck`, at most: a little better than what is promised of new ones (90 and 1 %),
since the limits are the furthest that keep it on these."""

SAMPLING_CYCLES = 2048
"""A profiler looks at one warp of each scheduler every so many cycles."""


def counters_of(table: CampaignTable, sampled_sms: int = 0, seed: int = 0) -> Counters:
    """What the counters of a campaign's kernels say. With ``sampled_sms`` (SMs of the GPU, 4 schedulers
    each), the samples at the atomics are drawn as often as a profiler takes some; else they are exact."""
    labels = [reason.label for reason in Reason]
    columns = [labels.index(name) for name in STATE_NAMES]
    each = table.active_cycles * table.sms
    states, at, after = (x[:, columns] for x in (table.states, table.at_atomic, table.at_result))
    if sampled_sms:
        rng = np.random.default_rng(seed)
        taken = 4 * sampled_sms * table.active_cycles / SAMPLING_CYCLES
        a_warp = (taken / table.warps)[:, None]  # samples for each warp that is resident on average
        at, after = (
            np.where(np.isnan(x), np.nan, rng.poisson(np.nan_to_num(x) * a_warp) / a_warp)
            for x in (at, after)
        )
    return Counters(
        table.peak_warps,
        table.wavefronts / each,
        table.requests / each[:, None],
        states,
        at,
        after,
    )


@dataclass(frozen=True, eq=False)
class Known:
    """Kernels whose truth is known: arrays (kernels,)."""

    families: NDArray[np.object_]
    estimates: UtilizationEstimates
    counters: Counters
    utilization: Floats
    gain: Floats
    gain_spread: Floats

    def target(self, quantity: str) -> Floats:
        """What the trees learn: a place between floor and ceiling, or the logarithm of a speedup."""
        if quantity == UTILIZATION:
            f = self.estimates.features
            return (self.utilization - f.floor) / f.scale
        return np.log(self.gain if quantity == FASTER else self.gain_spread)

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
            joined_estimates([p.estimates for p in parts]),
            Counters.joined(p.counters for p in parts),
            all_of("utilization"),
            all_of("gain"),
            all_of("gain_spread"),
        )


def known_of(table: CampaignTable, estimates: UtilizationEstimates, counters: Counters) -> Known:
    """The kernels of a campaign, with what is estimated of them and counted."""
    return Known(table.family, estimates, counters, truth(table), table.gain, table.gain_spread)


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
        median[quantity] = fit_trees(given, target, weight, how=MEDIANS, seed=seed)
        off = np.zeros(len(target))
        for out in folds:
            kept = fit_trees(given[~out], target[~out], weight[~out], how=MEDIANS, seed=seed)
            off[out] = target[out] - kept.predict(given[out])
        size = np.log(np.abs(off) + LEAST_WIDTH[quantity])
        width[quantity] = fit_trees(given, size, how=WIDTHS, seed=seed)
        relative = np.zeros(len(target))
        for out in folds:
            kept = fit_trees(given[~out], size[~out], how=WIDTHS, seed=seed)
            least = np.maximum(np.exp(kept.predict(given[out])), LEAST_WIDTH[quantity])
            relative[out] = off[out] / least
        at = (np.arange(RESIDUALS) + 0.5) / RESIDUALS
        residuals[quantity] = np.quantile(relative, at, method="weibull")
    gains = (known.gain >= GAIN).astype(np.float64)
    chance = np.zeros(len(gains))
    for out in folds:
        kept = fit_trees(given[~out], gains[~out], loss="logistic", how=CHANCES, seed=seed)
        chance[out] = 1 / (1 + np.exp(-kept.predict(given[out])))
    trees = fit_trees(given, gains, loss="logistic", how=CHANCES, seed=seed)
    return CounterMap(median, width, residuals, trees, limits_of(chance, gains))


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

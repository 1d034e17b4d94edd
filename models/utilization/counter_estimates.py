"""What the counters of a kernel tell, taken together: utilization, gains and verdict from a set of counters,
over all alternatives of a GPU's description."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.rows import Rows
from smlab.models.utilization.alternative_estimates import AlternativeEstimates, mean_over, mixed_interval
from smlab.models.utilization.counter_maps import (
    CHANGES,
    UTILIZATION,
    CounterMaps,
    Spread,
    mixed,
    plain_answer,
)
from smlab.models.utilization.counter_sets import ATOMIC, SETS, Counters, feature_table
from smlab.models.utilization.trust_map import CLOSED, TrustMap, shipped_map
from smlab.models.utilization.verdict import BOTTLENECK, CANNOT_TELL, FULL, NOT

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class GuessedInterval(Rows):
    """A best guess and an interval, all (kernels,)."""

    guess: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, eq=False)
class CounterAnswers:
    """For each kernel: ``utilization`` over the active cycles, and ``gain``, the speedup by change.
    ``chance`` is the probability that a unit twice as fast gains 10 % or more. The ``verdict`` follows it. It
    is a bottleneck too if the unit, kept fed, would be busy nearly all of the time. ``counters`` names the
    set that was used."""

    utilization: GuessedInterval
    gain: dict[str, GuessedInterval]
    chance: Floats
    verdict: NDArray[np.object_]
    counters: NDArray[np.object_]

    def put(self, chosen: NDArray[np.bool_], other: CounterAnswers) -> CounterAnswers:
        """These answers, with others for the chosen kernels."""

        def both(old: NDArray[Any], new: NDArray[Any]) -> NDArray[Any]:
            values = old.copy()
            values[chosen] = new
            return values

        def interval(old: GuessedInterval, new: GuessedInterval) -> GuessedInterval:
            return GuessedInterval(
                *(both(getattr(old, n), getattr(new, n)) for n in ("guess", "low", "high"))
            )

        return CounterAnswers(
            interval(self.utilization, other.utilization),
            {change: interval(mine, other.gain[change]) for change, mine in self.gain.items()},
            both(self.chance, other.chance),
            both(self.verdict, other.verdict),
            both(self.counters, other.counters),
        )


def answer(
    parts: Sequence[AlternativeEstimates],
    counters: Counters,
    which: str,
    maps: CounterMaps,
    level: float,
    trust: TrustMap | None = None,
) -> CounterAnswers:
    """The answers from the counters of set ``which``, which all kernels have.

    From launch and atomic counters alone the utilization is the closed network's with its trust map: trees
    were hardly better there. Beyond the trust map's range an interval is floor to ceiling. A kernel unlike
    all that a set's map has seen is told from the next poorer set.
    """
    counter_map = maps.maps[which]
    trust = trust or shipped_map()
    features = [feature_table(p.estimates, counters, which) for p in parts]
    unlike = ~np.all([counter_map.known(g) for g in features], axis=0)
    answers = _from_map(parts, counters, which, maps, level, trust, features)
    if which == ATOMIC or not unlike.any():
        return answers
    poorer = SETS[SETS.index(which) - 1]
    return answers.put(
        unlike, answer([p.take(unlike) for p in parts], counters.take(unlike), poorer, maps, level, trust)
    )


def _from_map(
    parts: Sequence[AlternativeEstimates],
    counters: Counters,
    which: str,
    maps: CounterMaps,
    level: float,
    trust: TrustMap,
    features: Sequence[Floats],
) -> CounterAnswers:
    """The answers of one map, from the features under each alternative."""
    counter_map, weights = maps.maps[which], [p.weight for p in parts]

    def spread_of(quantity: str) -> Spread:
        each = (
            counter_map.spread_of_features(
                quantity, p.estimates, plain_answer(quantity, p.estimates, counters, which), g
            )
            for p, g in zip(parts, features, strict=True)
        )
        return mixed(list(each), weights)

    interval = mixed_interval(parts, trust, level, CLOSED)
    if which == ATOMIC:
        guess = mean_over(parts, [p.estimates.utilization[CLOSED] for p in parts])
        utilization = GuessedInterval(guess, interval.low, interval.high)
    else:
        spread = spread_of(UTILIZATION)
        low, high = spread.interval(level)
        beyond = np.array([bool(names) for names in interval.outside], dtype=bool)
        low, high = (np.where(beyond, end, x) for end, x in ((interval.low, low), (interval.high, high)))
        utilization = GuessedInterval(
            spread.guess, np.minimum(low, spread.guess), np.maximum(high, spread.guess)
        )
    gain = {}
    for change in CHANGES:
        spread = spread_of(change)
        gain[change] = GuessedInterval(spread.guess, *spread.interval(level))
    chance: Floats = np.average([counter_map.chances(g) for g in features], axis=0, weights=weights)
    not_below, from_here = counter_map.limits
    verdict = np.full(chance.shape, CANNOT_TELL, dtype=object)
    verdict[chance <= not_below] = NOT
    floor = mean_over(parts, [p.estimates.features.floor for p in parts])
    verdict[(chance >= from_here) | (floor >= FULL)] = BOTTLENECK
    return CounterAnswers(utilization, gain, chance, verdict, np.full(chance.shape, which, dtype=object))

"""What each set of counters tells of a kernel: utilization of the atomic unit, and what a change would gain.

The maps (``models/utilization/counter_maps.json``) are learnt from the simulated campaign that the trust map
comes from, in which every kernel was also run with each change; made anew by
`smlab.models.utilization.trust_map.MAKE`. A map belongs to a set of counters
(`smlab.models.utilization.counter_sets`) and a quantity. It has three parts. A sum of small trees gives the
median of what is added to a plain answer (the closed network's utilization; that nothing is gained). A second
sum gives the width: how far off the first one is. Last come the quantiles of (truth - median) / width. They
are taken among kernels of families *left out* of both sums. So the intervals know that a kernel of a new
family is less like the known ones than they are like each other (cross-conformal prediction: V. Vovk,
"Cross-conformal predictors", Annals of Mathematics and Artificial Intelligence 74, 2015; with families in
place of folds, as R. Dunn, L. Wasserman, A. Ramdas, JASA 118, 2023).

The verdict goes by the *chance* that a unit twice as fast brings 10 % or more. Its two limits are chosen on
families left out, so that of the kernels called `bottleneck` enough gain that much, and of `not the
bottleneck` few.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from smlab.models.utilization.boosted_trees import BoostedTrees
from smlab.models.utilization.counter_sets import (
    SETS,
    Counters,
    feature_names,
    feature_table,
    gain_by_waiting,
)
from smlab.models.utilization.model_files import check_features, read_map, write_map
from smlab.models.utilization.trust_map import MAKE, UtilizationEstimates

Floats = NDArray[np.float64]

VERSION: Final = 5
PATH: Final = Path(__file__).with_name("counter_maps.json")

UTILIZATION, FASTER, SPREAD = "utilization", "a unit twice as fast", "conflicts removed"
QUANTITIES: Final = (UTILIZATION, FASTER, SPREAD)
CHANGES: Final = (FASTER, SPREAD)
"""The changes whose gain is known. Either the unit takes half the time for everything, or every lane of an
atomic has a bank of its own (e = 1)."""

LEAST_WIDTH: Final = {UTILIZATION: 0.01, FASTER: 0.005, SPREAD: 0.005}
"""Of the place between floor and ceiling, and of logarithms of speedups."""


@dataclass(frozen=True, eq=False)
class Spread:
    """Equally likely values of a quantity, (kernels, values) in ascending order, and its best guess
    (kernels,)."""

    guess: Floats
    values: Floats

    def interval(self, level: float) -> tuple[Floats, Floats]:
        """The ends at ``level``."""
        low, high = (np.quantile(self.values, p, axis=1) for p in ((1 - level) / 2, (1 + level) / 2))
        return np.minimum(low, self.guess), np.maximum(high, self.guess)


def plain_answer(quantity: str, estimates: UtilizationEstimates, counters: Counters, which: str) -> Floats:
    """What the trees add to, (kernels,). For utilization: where the closed network's lies between floor (0)
    and ceiling (1). For a gain: the logarithm of the speedup, by how many warps wait for the unit
    (`gain_by_waiting`)."""
    f, closed = estimates.features, estimates.closed
    if quantity == UTILIZATION:
        place: Floats = (closed.utilization - f.floor) / f.scale
        return place
    network = closed.gain_faster if quantity == FASTER else closed.gain_spread
    return gain_by_waiting(estimates, counters, which, network)


@dataclass(frozen=True, eq=False)
class CounterMap:
    """What one set of counters tells. ``features`` are their names, in the order of the columns of
    `smlab.models.utilization.counter_sets.feature_table`. By quantity there are the trees of ``median``
    (beyond `plain_answer`), those of ``width`` (its logarithm), and ``residuals``: equally likely values of
    (truth - median) / width. ``chance`` has the trees of the chance (log odds). ``limits`` are the chances
    below and above which there is a verdict. ``reach``: the least and the greatest of each feature, (2,
    features), that the map has seen."""

    features: tuple[str, ...]
    median: Mapping[str, BoostedTrees]
    width: Mapping[str, BoostedTrees]
    residuals: Mapping[str, Floats]
    chance: BoostedTrees
    limits: tuple[float, float]
    reach: Floats

    def known(self, features: Floats) -> NDArray[np.bool_]:
        """Whether kernels with these features are like any that the map comes from: none is further outside
        than a twentieth of what it has seen."""
        low, high = self.reach
        spare = (high - low) / 20 + 1e-3 * (1 + np.fmax(abs(low), abs(high)))
        inside: NDArray[np.bool_] = ((features >= low - spare) & (features <= high + spare)).all(axis=1)
        return inside

    def spread(
        self, quantity: str, estimates: UtilizationEstimates, counters: Counters, which: str
    ) -> Spread:
        """Utilization over the active cycles, or the speedup of a change, of kernels with this set."""
        features = feature_table(estimates, counters, which)
        return self.spread_of_features(
            quantity, estimates, plain_answer(quantity, estimates, counters, which), features
        )

    def spread_of_features(
        self, quantity: str, estimates: UtilizationEstimates, plain: Floats, features: Floats
    ) -> Spread:
        """As `spread`, from the `plain_answer` and the features."""
        middle = plain + self.median[quantity].predict(features)
        width = np.maximum(np.exp(self.width[quantity].predict(features)), LEAST_WIDTH[quantity])
        values = middle[:, None] + width[:, None] * self.residuals[quantity]
        if quantity == UTILIZATION:
            f = estimates.features
            guess, among = (f.floor + middle * f.scale), f.floor[:, None] + values * f.scale[:, None]
            return Spread(np.clip(guess, 0, 1), np.clip(among, 0, 1))
        most = np.log(2.0) if quantity == FASTER else np.inf
        least = 0.0 if quantity == FASTER else -np.inf
        return Spread(np.exp(np.clip(middle, least, most)), np.exp(np.clip(values, -0.1, most)))

    def chances(self, features: Floats) -> Floats:
        """The chance that a unit twice as fast brings 10 % or more, from the features; 0 .. 1."""
        chances: Floats = 1 / (1 + np.exp(-self.chance.predict(features)))
        return chances


@dataclass(frozen=True)
class CounterMaps:
    """A map for each of `SETS`; ``about`` tells how they were made."""

    about: Mapping[str, Any]
    maps: Mapping[str, CounterMap]

    def write(self, path: Path) -> None:
        """Write as JSON, numbers rounded to what they are known to."""
        maps = {
            name: {
                "features": list(m.features),
                "median": {q: t.as_json() for q, t in m.median.items()},
                "width": {q: t.as_json() for q, t in m.width.items()},
                "residuals": {q: r.tolist() for q, r in m.residuals.items()},
                "chance": m.chance.as_json(),
                "limits": list(m.limits),
                "reach": m.reach.tolist(),
            }
            for name, m in self.maps.items()
        }
        document = {"format": "smlab counter maps", "version": VERSION, "about": self.about, "maps": maps}
        write_map(path, document, compact=True)

    @classmethod
    def read(cls, path: Path = PATH) -> CounterMaps:
        """Read what `write` wrote; `SmlabError` naming the file and the command that makes it on anything
        else, and on a map that was fitted on other features than `feature_names`."""
        with read_map(path, "counter maps", VERSION, MAKE) as document:
            maps = {name: _map_of(m) for name, m in document["maps"].items()}
            read = cls(document["about"], {which: maps[which] for which in SETS})
        for which, fitted in read.maps.items():
            check_features(f"{path}: maps.{which}", fitted.features, feature_names(which))
        return read


def _map_of(m: Mapping[str, Any]) -> CounterMap:
    return CounterMap(
        tuple(m["features"]),
        {q: BoostedTrees.from_json(t) for q, t in m["median"].items()},
        {q: BoostedTrees.from_json(t) for q, t in m["width"].items()},
        {q: np.array(r, dtype=np.float64) for q, r in m["residuals"].items()},
        BoostedTrees.from_json(m["chance"]),
        (float(m["limits"][0]), float(m["limits"][1])),
        np.array(m["reach"], dtype=np.float64),
    )


@cache
def shipped_maps() -> CounterMaps:
    """The maps that come with smlab."""
    return CounterMaps.read(PATH)


def mixed(parts: Sequence[Spread], weights: Sequence[float]) -> Spread:
    """The mixture of what each alternative of a GPU tells, by their weights."""
    if len(parts) == 1:
        return parts[0]
    guess = np.average([p.guess for p in parts], axis=0, weights=weights)
    values = np.concatenate([p.values for p in parts], axis=1)
    weight = np.concatenate(
        [np.full(p.values.shape[1], w / p.values.shape[1]) for p, w in zip(parts, weights, strict=True)]
    )
    order = np.argsort(values, axis=1, kind="stable")
    below = np.cumsum(weight[order], axis=1) / weight.sum()
    sorted_values = np.take_along_axis(values, order, axis=1)
    at = (np.arange(parts[0].values.shape[1]) + 0.5) / parts[0].values.shape[1]
    rows = [np.interp(at, b, v) for b, v in zip(below, sorted_values, strict=True)]
    return Spread(guess, np.stack(rows) if rows else values)

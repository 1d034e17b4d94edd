"""Whether the sign of a foreseen change on the new GPU is right as often as is told.

Judged on pairs of configurations that differ in one parameter and whose times on the new GPU differ by
`LEAST_CHANGE`: with less between them a sign is of no use. The two numbers that make a chance of a foreseen
change (`smlab.models.portability.advice.GuessQuality`) are fitted on all kinds of searches but the one that
they are then judged on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.random import SeedSequence, default_rng
from numpy.typing import NDArray
from scipy import optimize, special

from smlab.models.portability.advice import GuessQuality, one_change
from smlab.models.portability.ratio_model import SCALES, RatioModel
from smlab.models.portability.transfer import search_space
from smlab.validation.portability.model_spaces import model_pair
from smlab.validation.portability.search_pairs import (
    SearchPair,
    measured_pairs,
    projected_searches,
    with_drawn_ratio,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LEAST_CHANGE: Final = math.log(1.03)
MOST_PAIRS: Final = 2000
"""Of the pairs of one search, so many are drawn."""

LEAST_PAIRS: Final = 100
SURE: Final = 0.9
BINS: Final = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
START: Final = (0.5, 0.1)


@dataclass(frozen=True, eq=False)
class ForeseenSigns:
    """Pairs of one search, arrays (pairs,): the size of the foreseen change of the logarithm, whether its
    sign is that on the new GPU, and whether the old GPU's is. ``variance`` (scales, pairs) is that of what
    the guess leaves open, with spread 1; ``parameter`` is the column in which the two differ."""

    collection: str
    size: Floats
    right: NDArray[np.bool_]
    copied_right: NDArray[np.bool_]
    variance: Floats
    parameter: Ints

    def __len__(self) -> int:
        return len(self.size)

    def chance(self, quality: GuessQuality) -> Floats:
        """The told chances, (pairs,)."""
        normal = special.ndtr(self.size / (quality.spread * np.sqrt(self.variance))).mean(axis=0)
        return np.asarray((1 - quality.accidents) * normal + quality.accidents / 2)


def foreseen_signs(
    pair: SearchPair,
    collection: str,
    seed: int,
    guess_s: Floats | None = None,
    first: NDArray[np.bool_] | None = None,
    within: NDArray[np.bool_] | None = None,
) -> ForeseenSigns | None:
    """The pairs of a search, by guessed times (the old GPU's without ``guess_s``), of those alone whose first
    configuration is in the mask ``first`` and both in ``within``; None where there are too few."""
    ran = np.flatnonzero(np.isfinite(pair.new_s) & (True if within is None else within))
    config = [pair.config[row] for row in ran.tolist()]
    old, new = np.log(pair.old_s[ran]), np.log(pair.new_s[ran])
    guess = old if guess_s is None else np.log(guess_s[ran])
    found = one_change(config)
    change = new[found.second] - new[found.first]
    wanted = np.ones(len(change), dtype=bool) if first is None else first[ran][found.first]
    clear = np.flatnonzero(wanted & (np.abs(change) >= LEAST_CHANGE))
    if len(clear) < LEAST_PAIRS:
        return None
    rng = default_rng(SeedSequence([seed, len(pair)]))
    at = np.sort(rng.permutation(clear)[:MOST_PAIRS])
    one, other, sign = found.first[at], found.second[at], np.sign(change[at])
    model = RatioModel(search_space(np.exp(guess), config).parameters)
    variance = np.empty((len(SCALES), len(at)))
    for row in np.unique(one).tolist():
        of_row = one == row
        variance[:, of_row] = model.difference(row, other[of_row]).variance
    foreseen = guess[other] - guess[one]
    return ForeseenSigns(
        collection=collection,
        size=np.abs(foreseen),
        right=np.sign(foreseen) == sign,
        copied_right=np.sign(old[other] - old[one]) == sign,
        variance=variance,
        parameter=found.parameter[at],
    )


MODELLED: Final = 30
DRAWN: Final = 6
PARTS: Final = 4


def copied_signs(data: Path | None, seed: int) -> list[ForeseenSigns]:
    """Signs of the old GPU's own changes: of measured searches (a collection each, both directions), ratios
    drawn for them, and kernels in closed form."""
    whole = [] if data is None else measured_pairs(data)
    pairs = [(f"measured {i // 2 + 1}", pair) for i, pair in enumerate(whole)]
    pairs += [
        ("drawn ratios", with_drawn_ratio(pair, number, seed + i))
        for i, pair in enumerate(whole)
        for number in range(DRAWN)
    ]
    pairs += [("modelled kernels", model_pair(number, seed)) for number in range(MODELLED)]
    found = [foreseen_signs(pair, name, seed) for name, pair in pairs if pair.usable]
    return [one for one in found if one is not None]


def projected_signs(data: Path, seed: int) -> list[ForeseenSigns]:
    """Signs of projected changes, where the old GPU's search holds counters: a collection for each
    `PARTS`-th of the tiles, by the first configuration of a pair."""
    found = []
    for search in projected_searches(data):
        part = np.unique(search.family, return_inverse=True)[1] % PARTS
        for number in range(PARTS):
            name = f"{search.pair.name}, tiles {number + 1} of {PARTS}"
            one = foreseen_signs(search.pair, name, seed, search.guess_s, first=part == number)
            found += [] if one is None else [one]
    return found


def fitted_quality(searches: Sequence[ForeseenSigns]) -> GuessQuality:
    """The quality under which the signs of all searches, each with the same weight, are likeliest."""

    def loss(x: Floats) -> float:
        spread, accidents = float(x[0]), float(x[1])
        if not (0.02 < spread < 5 and 0 <= accidents < 0.9):
            return 1e3
        quality = GuessQuality(spread, accidents)
        each = []
        for one in searches:
            chance = one.chance(quality)
            each.append(-np.log(np.where(one.right, chance, 1 - chance)).mean())
        return float(np.mean(each))

    found = optimize.minimize(loss, START, method="Nelder-Mead", options={"xatol": 0.005, "fatol": 1e-5})
    return GuessQuality(round(float(found.x[0]), 3), round(float(found.x[1]), 3))


def quality_of_collections(searches: Sequence[ForeseenSigns]) -> GuessQuality:
    """The mean of the qualities that each collection gives alone: none counts for more by being larger."""
    names = list(dict.fromkeys(one.collection for one in searches))
    each = [fitted_quality([one for one in searches if one.collection == name]) for name in names]
    return GuessQuality(
        round(float(np.mean([q.spread for q in each])), 3),
        round(float(np.mean([q.accidents for q in each])), 3),
    )


def summary_of_signs(searches: Sequence[ForeseenSigns]) -> dict[str, Any]:
    """For each collection: how often signs are right, and how often they are told to be, by a quality that
    was fitted without it."""
    names = list(dict.fromkeys(one.collection for one in searches))
    found: dict[str, Any] = {"fitted_to_all": vars(quality_of_collections(searches))}
    for name in names:
        own = [one for one in searches if one.collection == name]
        others = [one for one in searches if one.collection != name]
        quality = quality_of_collections(others)
        found[name] = {"searches": len(own), "fitted_to_others": vars(quality), **_shares(own, quality)}
    return found


def _shares(searches: Sequence[ForeseenSigns], quality: GuessQuality) -> Mapping[str, Any]:
    right = np.concatenate([one.right for one in searches])
    told = np.concatenate([one.chance(quality) for one in searches])
    sure = told >= SURE
    of_parameters = [
        float(one.right[one.parameter == column].mean())
        for one in searches
        for column in np.unique(one.parameter).tolist()
        if (one.parameter == column).sum() >= LEAST_PAIRS
    ]
    bins = {}
    for low, high in pairwise(BINS):
        inside = (told >= low) & (told < high + (high == 1.0))
        if inside.sum() >= LEAST_PAIRS:
            bins[f"{low:g} to {high:g}"] = {
                "pairs": int(inside.sum()),
                "told": _rounded(told[inside].mean()),
                "right": _rounded(right[inside].mean()),
            }
    return {
        "pairs": len(right),
        "right": _rounded(right.mean()),
        "copied_right": _rounded(np.concatenate([one.copied_right for one in searches]).mean()),
        "told": _rounded(told.mean()),
        "sure": {
            "share": _rounded(sure.mean()),
            "right": _rounded(right[sure].mean()) if sure.any() else None,
        },
        "by_parameter": [_rounded(min(of_parameters)), _rounded(max(of_parameters))]
        if of_parameters
        else None,
        "by_chance": bins,
    }


def _rounded(value: Any) -> float:
    return round(float(value), 4)

"""How good `smlab port tune` is at finding fast configurations: against the old GPU's best, on many pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.random import SeedSequence, default_rng
from numpy.typing import NDArray

from smlab.models.portability.transfer import TransferSearch, search_space
from smlab.validation.method.statistics import binomial_interval
from smlab.validation.portability.model_spaces import model_pair
from smlab.validation.portability.search_pairs import SearchPair, measured_pairs, parts, with_drawn_ratio
from smlab.validation.portability.simulated_spaces import simulated_pairs

Floats = NDArray[np.float64]

BUDGETS: Final = (5, 10, 20)
WHOLE_BUDGETS: Final = (*BUDGETS, 50)
"""Whole measured spaces are searched with a large budget too."""

TOLERATED: Final = 0.02
"""How far below the old GPU's best a search may fall, in fractions of the optimum."""

TO_GAIN: Final = 0.9
"""Where the old GPU's best configurations reach less of the optimum there is something to gain."""

MODELLED: Final = 80
DRAWN: Final = 15
RANDOM: Final = 20
LEVEL_WIDTH: Final = 1.645


@dataclass(frozen=True)
class SearchOutcome:
    """What one pair gave with one budget: fractions of the new GPU's optimum.

    ``random`` is the median of `RANDOM` random searches; ``covered`` the share of measurements, from the
    second on, that were within the 90 % interval told when they were chosen.
    """

    pair: str
    kind: str
    budget: int
    found: float
    old_best: float
    random: float
    covered: float

    @property
    def above(self) -> float:
        return self.found - self.old_best


def all_pairs(data: Path | None, seed: int) -> list[SearchPair]:
    """Every kind of pair that can be made here; those of measured searches where ``data`` has some."""
    whole = [] if data is None else measured_pairs(data)
    found = [*whole, *(part for pair in whole for part in parts(pair, seed))]
    modelled = [model_pair(number, seed) for number in range(MODELLED)]
    olds = whole or modelled[:: MODELLED // 4]
    found += [with_drawn_ratio(p, number, seed + i) for i, p in enumerate(olds) for number in range(DRAWN)]
    return [pair for pair in [*found, *modelled, *simulated_pairs()] if pair.usable]


def judge_searches(
    pairs: Sequence[SearchPair], progress: Callable[[int, int], None] | None = None
) -> list[SearchOutcome]:
    """Search every pair with every budget."""
    found = []
    for done, pair in enumerate(pairs, start=1):
        budgets = WHOLE_BUDGETS if pair.kind == "whole" else BUDGETS
        found += [judge_search(pair, budget) for budget in budgets]
        if progress is not None:
            progress(done, len(pairs))
    return found


def judge_search(pair: SearchPair, budget: int) -> SearchOutcome:
    """One search; the same pair always gives the same."""
    best = float(pair.new_s.min())
    search = TransferSearch(search_space(pair.old_s, pair.config), budget)
    held: list[bool] = []
    while len(search.measured) < budget and (row := search.next()) is not None:
        new_s = float(pair.new_s[row])
        if np.isfinite(new_s) and search.measured:
            mean, deviation = search.expected(row)
            held.append(abs(np.log(new_s) - mean) <= LEVEL_WIDTH * deviation)
        search.tell(row, new_s if np.isfinite(new_s) else None)
    rng = default_rng(SeedSequence([budget, len(pair)]))
    count = min(budget, len(pair))
    random = [
        best / float(pair.new_s[rng.choice(len(pair), count, replace=False)].min()) for _ in range(RANDOM)
    ]
    return SearchOutcome(
        pair=pair.name,
        kind=pair.kind,
        budget=budget,
        found=best / float(pair.new_s[search.measured].min()),
        old_best=best / float(pair.new_s[np.argsort(pair.old_s, kind="stable")[:budget]].min()),
        random=float(np.median(random)),
        covered=float(np.mean(held)) if held else float("nan"),
    )


def summary_of_searches(outcomes: Sequence[SearchOutcome]) -> dict[str, Any]:
    """By budget and kind: how far above the old GPU's best, how often below, the worst pair."""
    return {
        str(budget): {
            kind: _summary([o for o in outcomes if o.budget == budget and kind in (o.kind, "all")])
            # The largest budgets are of whole searches only.
            for kind in [*dict.fromkeys(o.kind for o in outcomes if o.budget == budget), "all"]
        }
        for budget in sorted({o.budget for o in outcomes})
    }


def _summary(outcomes: Sequence[SearchOutcome]) -> dict[str, Any]:
    above = np.array([o.above for o in outcomes])
    worst = outcomes[int(np.argmin(above))]
    low = np.array([o.old_best < TO_GAIN for o in outcomes])
    below = binomial_interval(int((above < -TOLERATED).sum()), len(above))
    means = {
        name: _rounded(float(np.mean([getattr(o, name) for o in outcomes])))
        for name in ("found", "old_best", "random")
    }
    return {
        "pairs": len(outcomes),
        "mean": means,
        "above_old_best": {
            f"{100 * q:g} %": _rounded(float(np.quantile(above, q))) for q in (0, 0.05, 0.25, 0.5, 0.75, 0.95)
        },
        "share_below_tolerated": {
            "share": _rounded(below.estimate),
            "low": _rounded(below.low),
            "high": _rounded(below.high),
        },
        "worst": {
            "pair": worst.pair,
            "found": _rounded(worst.found),
            "old_best": _rounded(worst.old_best),
        },
        "where_there_is_something_to_gain": {
            "pairs": int(low.sum()),
            "median_gain": _rounded(float(np.median(above[low]))) if low.any() else None,
            "share_gaining_0.05": _rounded(float(np.mean(above[low] >= 0.05))) if low.any() else None,
        },
        "interval_told_when_chosen_holds": _rounded(float(np.nanmean([o.covered for o in outcomes]))),
    }


def _rounded(value: float) -> float:
    return round(value, 4)

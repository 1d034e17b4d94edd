"""Which few configurations to measure on a new GPU, when a whole space was measured on an old one.

The old GPU's times are a good guess and a wrong one. Its best configurations are often near copies of one
another, so that ten of them are hardly more than one draw; yet often enough the new GPU's best is among them.
A search that leaves them for what a model promises gains where much has changed and loses where little has.
So this one divides its budget among three:

1. the first `TO_OLD_BEST` of it to the old GPU's best, in their order;
2. up to `TO_STRATA` to strata: combinations of switches (parameters of two values, such as whether shared
   memory is used), since a switch can turn the order of whole parts of a space over. The next most promising
   are visited `VISITS` times each: one configuration cannot tell what the switch does from what it does
   itself. A stratum whose first is slower than the best by more than `UNPROMISING` is not visited again;
3. the rest to whatever is most likely to be faster than the best seen by `WORTH` (probability of improvement:
   Kushner 1964; Jones 2001), under a model of the ratios of new to old times (`ratio_model`) that keeps all
   scales on which ratios may differ and weighs them by what was measured. With nothing seen to differ this is
   the old order again. Whoever searches compares with measuring the old GPU's best, so that being behind
   them weighs `LOSS` times as much as being as far ahead: the chance of one that is among them counts
   ``1 + LOSS`` times.

While nothing ran, the next is one that is fast on the old GPU and little like those that failed.

How often the search falls behind the old GPU's best, on which kinds of pairs, is a study
(docs/findings/porting.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.rows import Rows
from smlab.models.portability.ratio_model import Parameters, RatioModel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

TO_OLD_BEST: Final = 0.3
MOST_OLD_BEST: Final = 5
"""The share of the budget for the old GPU's best configurations, and how many of them are enough: beyond
them the model decides which are measured."""

TO_STRATA: Final = 0.4
VISITS: Final = 2
PROMISING: Final = 1.5
"""A stratum whose best was slower than the best of all by more than this factor is left to the model."""

UNPROMISING: Final = 1.5

WORTH: Final = 0.02
"""Relative gain below which a configuration is as good as another."""

LOSS: Final = 4.0
"""How much more it weighs to be behind the old GPU's best than to be as far ahead of them. Chosen with pairs
of searches of all kinds in view; judged on others (docs/findings/porting.md)."""

DOUBT: Final = 0.3
"""How far the logarithms of two ratios are apart, as long as nothing ran (standard deviation)."""

CONTAGION: Final = 0.7
"""The chance that a failure's cause is one that a configuration like it has too, times how like it is."""

CANDIDATES: Final = 2000
"""Of the configurations not measured, so many with the best guesses are looked at."""

FAILED: Final = 2.0
"""A configuration that does not run counts as so many times the slowest that did."""


@dataclass(frozen=True, eq=False)
class SearchSpace(Rows):
    """A space that was measured on the old GPU.

    ``guess`` (configurations,) holds the logarithms of the times expected on the new one, but for a factor.
    They are the old GPU's, or projected ones. ``stratum`` is the number of each one's combination of
    switches. ``runs`` is False where the configuration cannot run on the new GPU.
    """

    guess: Floats
    parameters: Parameters
    stratum: Ints
    runs: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.guess)


def search_space(
    seconds: ArrayLike, config: Sequence[Sequence[object]], runs: ArrayLike | None = None
) -> SearchSpace:
    """A space from times on the old GPU (or projected ones) and each configuration's parameters.

    Raises:
        SmlabError: no configuration, a time that is none, configurations of unequal length.
    """
    times = np.asarray(seconds, dtype=np.float64)
    if times.ndim != 1 or not len(times) or len(config) != len(times):
        raise SmlabError.at("space", "not a time for each configuration", len(times), str(len(config)))
    if not (np.isfinite(times) & (times > 0)).all():
        raise SmlabError.at("space", "not a time", float(times.min()), "above 0")
    if len({len(row) for row in config}) > 1:
        raise SmlabError.at("space", "configurations of unequal length", expected="a value of each parameter")
    sizes, switches = [], []
    for column in zip(*config, strict=True):
        values = sorted(set(column), key=str)
        numbers = _numbers(column)
        if len(values) > 2 and numbers is not None:
            sizes.append(_standardised(numbers))
        elif len(values) > 1:
            switches.append([values.index(v) for v in column])
    count = len(times)
    stratum = (
        np.unique(np.array(switches).T, axis=0, return_inverse=True)[1].ravel()
        if switches
        else np.zeros(count, dtype=np.int64)
    )
    codes = np.array(switches, dtype=np.int64).reshape(-1, count).T
    return SearchSpace(
        guess=np.log(times),
        parameters=Parameters(np.array(sizes).reshape(-1, count).T, codes),
        stratum=stratum.astype(np.int64),
        runs=np.ones(count, dtype=bool) if runs is None else np.asarray(runs, dtype=bool),
    )


def _numbers(column: Sequence[object]) -> Floats | None:
    if not all(isinstance(v, int | float) for v in column):
        return None
    return np.array([float(v) for v in column if isinstance(v, int | float)])


def _standardised(values: Floats) -> Floats:
    """Sizes act by their factors: in logarithms where all are above 0."""
    scale = np.log2(values) if values.min() > 0 else values
    return np.asarray((scale - scale.mean()) / scale.std())


class TransferSearch:
    """Asks for one configuration after the other: `next`, then `tell` what it took.

    ``budget`` is how many will be measured in all; it decides what of it goes to the old GPU's best and to
    strata.
    """

    def __init__(self, space: SearchSpace, budget: int) -> None:
        if budget < 1:
            raise SmlabError.at("budget", "nothing to measure", budget, "1 or more")
        self.space = space
        self.measured: list[int] = []
        self._logs: dict[int, float] = {}
        self._failed: list[int] = []
        self._model = RatioModel(space.parameters)
        order = np.argsort(space.guess, kind="stable")
        self._order = order[space.runs[order]]
        self._left = np.ones(len(space), dtype=bool)
        self._weight = np.ones(len(space))
        self._weight[self._order[:budget]] += LOSS
        self._may_run = np.ones(len(space))
        self._plan = self._planned(budget)

    def _planned(self, budget: int) -> list[int]:
        """The old GPU's best, then visits to strata, the most promising first."""
        best = self._order[: max(1, min(MOST_OLD_BEST, round(TO_OLD_BEST * budget)))].tolist()
        strata: dict[int, list[int]] = {}
        for row in self._order.tolist():
            if self.space.guess[row] > self.space.guess[self._order[0]] + np.log(PROMISING):
                break
            strata.setdefault(int(self.space.stratum[row]), []).append(row)
        for row in best:
            strata.pop(int(self.space.stratum[row]), None)
        visited = list(strata.values())[: int(TO_STRATA * budget) // VISITS]
        return [*best, *(row for rows in visited for row in rows[:VISITS])]

    def next(self) -> int | None:
        """The row to measure next; None when all were measured."""
        none_ran = bool(self._failed)
        while self._plan and not none_ran:
            row = self._plan.pop(0)
            if self._left[row] and not self._unpromising(row):
                return row
        left = self._order[self._left[self._order]][:CANDIDATES]
        if not len(left):
            return None
        if not self._logs:
            behind = self.space.guess[left] - self.space.guess[left[0]]
            return int(left[np.argmax(special.ndtr(-behind / DOUBT) * self._may_run[left])])
        predicted = self._model.predicted(left)
        wanted = min(self._logs.values()) - WORTH - self.space.guess[left]
        chance = predicted.weight @ special.ndtr((wanted - predicted.mean) / np.sqrt(predicted.variance))
        return int(left[np.argmax(self._weight[left] * chance)])

    def tell(self, row: int, seconds: float | None) -> None:
        """What a configuration took on the new GPU; None where it did not run."""
        if seconds is not None and not (np.isfinite(seconds) and seconds > 0):
            raise SmlabError.at(f"configuration {row}", "not a time", seconds, "above 0")
        self.measured.append(row)
        self._left[row] = False
        if seconds is not None:
            self._logs[row] = float(np.log(seconds))
            self._model.tell(row, self._logs[row] - float(self.space.guess[row]))
        else:
            self._failed.append(row)
            self._may_run *= 1 - CONTAGION * self._model.likeness(row)
        # How slow a failure counts hangs on what did run; until something does it tells nothing.
        if self._logs:
            for failed in self._failed:
                self._logs[failed] = max(self._logs.values()) + float(np.log(FAILED))
                self._model.tell(failed, self._logs[failed] - float(self.space.guess[failed]))
            self._failed.clear()

    def expected(self, row: int) -> tuple[float, float]:
        """Mean and standard deviation of the logarithm of the time of a configuration that is not measured
        yet."""
        ratio, deviation = self._model.predicted(np.array([row])).moments()
        return float(self.space.guess[row] + ratio[0]), float(deviation[0])

    def predicted(self) -> tuple[Floats, Floats]:
        """Mean and standard deviation of the logarithm of each configuration's time, (configurations,); a
        configuration that was measured has its own."""
        ratio, deviation = self._model.predicted(np.arange(len(self.space))).moments()
        mean = self.space.guess + ratio
        if self._logs:
            rows = list(self._logs)
            mean[rows], deviation[rows] = list(self._logs.values()), 1e-3
        return mean, deviation

    def _unpromising(self, row: int) -> bool:
        mine = [log for at, log in self._logs.items() if self.space.stratum[at] == self.space.stratum[row]]
        return bool(mine) and min(mine) > min(self._logs.values()) + np.log(UNPROMISING)


def planned(search: TransferSearch, count: int) -> list[int]:
    """The next ``count`` rows if each turned out as predicted: a list to measure in one go."""
    rows: list[int] = []
    for _ in range(count):
        row = search.next()
        if row is None:
            break
        rows.append(row)
        search.tell(row, float(np.exp(search.predicted()[0][row])))
    return rows

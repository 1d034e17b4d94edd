"""Which few configurations to measure on a new GPU, when a whole space was measured on an old one.

The old GPU's times are a good guess and a wrong one: what changes from one generation to the next is often
the effect of a *switch* (use shared memory or not, read through the texture path or not), which turns the
order of whole parts of the space over, and, less, of sizes. So the space is cut into strata by its switches
(parameters of two values). First, the most promising strata are visited twice each, in the order of the old
GPU's times: one configuration cannot tell what the switch does from what it does itself. A stratum whose
first is slower than the best by more than `HOPELESS` is not visited again. What is left of the budget goes to
expected improvement under a Gaussian process (Rasmussen and Williams 2006, chapter 2; Jones, Schonlau and
Welch 1998) on the logarithm of the *ratio* of new to old times, so that with nothing measured its guess is
the old order. Its scales are not fitted: a handful of ratios cannot tell them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from smlab.hw_bench.errors import SmlabError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

VISITS: Final = 2
"""Configurations of a stratum before the model is asked."""

TO_STRATA: Final = 0.8
"""The share of the budget that these visits may take, so that some is left to act on what they told."""

HOPELESS: Final = 2.0

OF_STRATUM: Final = 0.3
OF_SIZES: Final = 0.2
OF_ITSELF: Final = 0.15
"""Standard deviations of the logarithm of the ratio: by a stratum, by sizes (smoothly), and of each
configuration alone. Ratios of 2 between strata and of 1.2 between neighbours are usual."""

LENGTH: Final = 2.0
"""Distance at which sizes are no longer alike, in standard deviations of each (of its logarithm)."""

ACROSS: Final = 0.5
"""How far what sizes do in one stratum holds in another."""

OF_ALL: Final = 1.0
"""Standard deviation of what all ratios have in common."""

FAILED: Final = 2.0
"""A configuration that does not run counts as so many times the slowest that did."""


@dataclass(frozen=True, eq=False)
class SearchSpace:
    """A space that was measured on the old GPU: ``guess`` (configurations,) holds the logarithms of the times
    expected on the new one but for a factor (the old GPU's, or projected ones), ``sizes`` (configurations,
    parameters) the parameters of more than two values, standardised, ``stratum`` the number of each one's
    combination of switches. ``runs`` is False where the configuration cannot run on the new GPU.
    """

    guess: Floats
    sizes: Floats
    stratum: Ints
    runs: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.guess)


def search_space(
    seconds: ArrayLike,
    config: Sequence[Sequence[object]],
    runs: ArrayLike | None = None,
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
        raise SmlabError.at("space", "configurations of unequal length")
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
    return SearchSpace(
        guess=np.log(times),
        sizes=np.array(sizes).T if sizes else np.zeros((count, 0)),
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

    ``budget`` is how many will be measured; it decides how many strata can be visited at all.
    """

    def __init__(self, space: SearchSpace, budget: int) -> None:
        if budget < 1:
            raise SmlabError.at("budget", "nothing to measure", budget, "1 or more")
        self.space = space
        self.measured: list[int] = []
        self._logs: list[float] = []
        self._columns = np.zeros((len(space), 0))
        self._visits = self._plan(max(1, int(TO_STRATA * budget) // VISITS))

    def _plan(self, strata: int) -> list[int]:
        """The first `VISITS` of each of the most promising strata, round by round."""
        order = np.flatnonzero(self.space.runs)
        order = order[np.argsort(self.space.guess[order], kind="stable")]
        by_stratum: dict[int, list[int]] = {}
        for row in order.tolist():
            by_stratum.setdefault(int(self.space.stratum[row]), []).append(row)
        chosen = list(by_stratum.values())[:strata]
        if len(chosen) < 2:
            return [int(row) for row in order[:1]]
        return [rows[visit] for visit in range(VISITS) for rows in chosen if len(rows) > visit]

    def next(self) -> int | None:
        """The row to measure next; None when all were measured."""
        while self._visits:
            row = self._visits.pop(0)
            if row not in self.measured and not self._hopeless(row):
                return row
        left = self.space.runs.copy()
        left[self.measured] = False
        if not left.any():
            return None
        if not self.measured:
            return int(np.flatnonzero(left)[np.argmin(self.space.guess[left])])
        mean, deviation = self.predicted()
        best = min(self._logs)
        z = (best - mean) / deviation
        gain = (best - mean) * stats.norm.cdf(z) + deviation * stats.norm.pdf(z)
        return int(np.argmax(np.where(left, gain, -np.inf)))

    def tell(self, row: int, seconds: float | None) -> None:
        """What a configuration took on the new GPU; None where it did not run."""
        if seconds is not None and not (np.isfinite(seconds) and seconds > 0):
            raise SmlabError.at(f"configuration {row}", "not a time", seconds, "above 0")
        if seconds is None:
            known = max(self._logs, default=float(self.space.guess[row]))
            value = max(known, float(self.space.guess[row])) + float(np.log(FAILED))
        else:
            value = float(np.log(seconds))
        self.measured.append(row)
        self._logs.append(value)
        self._columns = np.column_stack([self._columns, self._covariance(row)])

    def predicted(self) -> tuple[Floats, Floats]:
        """Mean and standard deviation of the logarithm of each configuration's time, (configurations,); a
        configuration that was measured has its own."""
        prior = OF_STRATUM**2 + OF_SIZES**2 + OF_ITSELF**2 + OF_ALL**2
        if not self.measured:
            return self.space.guess, np.full(len(self.space), np.sqrt(prior))
        rows = np.array(self.measured)
        known = self._columns[rows] + OF_ITSELF**2 * np.eye(len(rows))
        ratio = np.array(self._logs) - self.space.guess[rows]
        mean = self.space.guess + self._columns @ np.linalg.solve(known, ratio)
        told = np.einsum("ij,ji->i", self._columns, np.linalg.solve(known, self._columns.T))
        deviation = np.sqrt(np.maximum(prior - told, 1e-6))
        mean[rows], deviation[rows] = self._logs, 1e-3
        return mean, deviation

    def _hopeless(self, row: int) -> bool:
        mine = [
            log
            for at, log in zip(self.measured, self._logs, strict=True)
            if self.space.stratum[at] == self.space.stratum[row]
        ]
        return bool(mine) and min(mine) > min(self._logs) + np.log(HOPELESS)

    def _covariance(self, row: int) -> Floats:
        """Of what each configuration's ratio shares with that of ``row``."""
        same = self.space.stratum == self.space.stratum[row]
        distance = ((self.space.sizes - self.space.sizes[row]) ** 2).sum(axis=1)
        smooth = OF_SIZES**2 * np.exp(-distance / (2 * LENGTH**2)) * np.where(same, 1.0, ACROSS)
        return np.asarray(OF_ALL**2 + OF_STRATUM**2 * same + smooth)


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

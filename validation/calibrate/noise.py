"""Noise: what repetitions tell of it, what launches share, drift, and outliers.

Rows of one launch may share an error, and launches one that depends on when in the run they were: a *line*
(a steady drift) or a *walk* (a level that wanders), both 0 at the beginning of the run. Of such a mixed
model, with the variances of the shared parts as ratios to that of the rows, residuals and derivatives are
*whitened*, after which least squares are right; the ratios are those of the largest restricted likelihood
(Patterson and Thompson 1971). Outliers are met by Huber's loss.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from smlab.hw_bench.cuda.measuring import steadiness
from smlab.validation.calibrate.cases import Floats, Ints

HUBER: Final = 1.5
"""Residuals beyond so many standard deviations count by their sign and no longer by their size."""
_DRAWS: Final = 20_000
_RATIOS: Final = (0.0, 0.01, 0.02, 0.04, 0.08, 0.15, 0.3, 0.6, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0)
_DRIFTS: Final = (0.1, 0.3, 1.0, 3.0, 10.0, 100.0)
"""As `_RATIOS`, of the variance that a drift reaches at the end of the run."""
_CONVINCED: Final = 2.0
"""By so much the logarithm of the likelihood must grow for noise of launches to be taken to be there."""
_OF_DRIFT: Final = 3.0
"""As `_CONVINCED`, for a drift: of two forms, the likelier is taken."""


@lru_cache
def _of(repetitions: int) -> tuple[float, float]:
    """Of so many normal numbers with standard deviation 1 around 100: the standard deviation of their median,
    and the median of what `steadiness.noise` tells of them."""
    rng = np.random.default_rng(0)
    draws = 100 + rng.standard_normal((_DRAWS, repetitions))
    medians = np.median(draws, axis=1)
    told = [100 * steadiness.noise(row) for row in draws[:2000]]
    return float(medians.std()), float(np.median(told))


def median_noise(repetitions: int) -> float:
    """The standard deviation of the median of so many normal numbers, in theirs."""
    return _of(int(repetitions))[0]


def noise_of_median(repetitions: ArrayLike) -> Floats:
    """By what to multiply the noise that repetitions are told to have, so that the median over many rows is
    the noise of their medians; 0 for one repetition, which tells none."""
    return _by_count(repetitions, lambda n: _of(n)[0] / _of(n)[1])


def _by_count(repetitions: ArrayLike, factor: Callable[[int], float]) -> Floats:
    """The factor of each number of repetitions; 0 for one repetition."""
    counts = np.asarray(repetitions)
    factors = {int(n): 0.0 if n < 2 else factor(int(n)) for n in np.unique(counts)}
    return np.array([factors[int(n)] for n in counts.ravel()], dtype=np.float64).reshape(counts.shape)


@lru_cache
def outlier_shift(repetitions: int) -> float:
    """By how many standard deviations the median of so many normal numbers lies too high in the mean, where
    one of them is an outlier far above; infinite for fewer than 3, whose median that is or holds."""
    if repetitions < 3:
        return np.inf
    draws = np.random.default_rng(0).standard_normal((_DRAWS, repetitions))
    # Halves of an even and a symmetric distribution: the mean over draws and their mirror images.
    draws = np.concatenate([draws, -draws])
    draws[:, 0] = np.inf
    return float(np.median(draws, axis=1).mean())


def noise_of_repetitions(told: ArrayLike, repetitions: ArrayLike) -> Floats:
    """The standard deviation of a repetition, from what `steadiness.noise` tells of rows of so many."""
    return np.asarray(told, dtype=np.float64) * _by_count(repetitions, lambda n: 1 / _of(n)[1])


@dataclass(frozen=True)
class SharedNoise:
    """The variances that launches share over that of the rows: of each launch by itself, of a line over the
    run and of a walk, both at the run's end."""

    launch: float = 0.0
    line: float = 0.0
    walk: float = 0.0

    @property
    def drifting(self) -> bool:
        return self.line > 0 or self.walk > 0


@dataclass(frozen=True, eq=False)
class Launches:
    """Of which launch each row is, and when each launch was: ``at`` is 0 at the beginning of the run and 1
    at its end, times the weight of its rows."""

    of_row: Ints
    at: Floats

    @staticmethod
    def of(names: Ints, moments: Floats) -> Launches:
        """From the launch and the (weighted) moment of each row."""
        of_row = np.unique(names, return_inverse=True)[1]
        return Launches(of_row, np.bincount(of_row, moments) / np.maximum(np.bincount(of_row), 1))

    def covariance(self, shared: SharedNoise) -> Floats:
        """Of the launches' errors, as a ratio to the variance of a row."""
        earlier = np.minimum(self.at[:, None], self.at)
        line = shared.line * np.outer(self.at, self.at)
        found: Floats = shared.launch * np.eye(len(self.at)) + line + shared.walk * earlier
        return found

    def sums(self, rows: Floats) -> Floats:
        """Over the rows of each launch; a column each."""
        columns = rows.reshape(len(rows), -1)
        found = np.zeros((len(self.at), columns.shape[1]))
        np.add.at(found, self.of_row, columns)
        return found

    def axes(self, shared: SharedNoise) -> tuple[Floats, Floats]:
        """The covariance of rows is 1 but along these directions, of launches over the root of their rows;
        and what is added to 1 along each."""
        roots = np.sqrt(np.bincount(self.of_row, minlength=len(self.at)))
        added, axes = np.linalg.eigh(self.covariance(shared) * np.outer(roots, roots))
        return np.maximum(added, 0.0), axes / roots[:, None]

    def errors(self, residuals: Floats, shared: SharedNoise) -> Floats:
        """What each launch's rows have of a drift, as the residuals tell it (their best linear
        prediction)."""
        added, axes = self.axes(shared)
        counts = np.bincount(self.of_row, minlength=len(self.at))
        sums = self.sums(residuals)[:, 0]
        clean = sums - counts * (axes @ (added / (1 + added) * (axes.T @ sums)))
        found: Floats = self.covariance(SharedNoise(0.0, shared.line, shared.walk)) @ clean
        return found


def whitened(rows: Floats, launches: Launches, shared: SharedNoise) -> Floats:
    """Rows (residuals, or derivatives with a column each) free of what launches share."""
    if shared == SharedNoise():
        return rows
    added, axes = launches.axes(shared)
    taken = axes @ ((1 - 1 / np.sqrt(1 + added))[:, None] * (axes.T @ launches.sums(rows)))
    found: Floats = rows - taken[launches.of_row].reshape(rows.shape)
    return found


def spread(residuals: Floats, constants: int) -> float:
    """The standard deviation of residuals, by their median size, for what so many fitted constants took of
    it."""
    size = float(np.median(np.abs(residuals))) / float(special.ndtri(0.75))
    return size * float(np.sqrt(len(residuals) / max(1, len(residuals) - constants)))


def shared_noise(residuals: Floats, slopes: Floats, launches: Launches, sigma: float) -> SharedNoise:
    """What launches share, of `_RATIOS` and `_DRIFTS` that of the largest restricted likelihood; each part is
    0 where it makes the data not convincingly likelier."""
    clipped = np.clip(residuals, -3 * sigma, 3 * sigma)
    used = slopes[:, np.abs(slopes).max(axis=0) > 0]
    freedom = len(residuals) - used.shape[1]
    if freedom < 1 or len(launches.at) < 2:
        return SharedNoise()
    basis, _ = np.linalg.qr(used)
    rows = np.column_stack([basis, clipped])
    sums, products = launches.sums(rows), rows.T @ rows

    def likelihood(shared: SharedNoise) -> float:
        added, axes = launches.axes(shared)
        along = axes.T @ sums
        inner = products - along.T @ ((added / (1 + added))[:, None] * along)
        fitted, cross = inner[:-1, :-1], inner[:-1, -1]
        rest = float(inner[-1, -1] - cross @ np.linalg.solve(fitted, cross))
        logs = float(np.log1p(added).sum()) + float(np.linalg.slogdet(fitted)[1])
        return float(-0.5 * (logs + freedom * np.log(max(rest, 1e-300))))

    def told(shared: SharedNoise) -> float:
        return likelihood(shared) - _CONVINCED * (shared.launch > 0) - _OF_DRIFT * shared.drifting

    best = max((SharedNoise(ratio) for ratio in _RATIOS), key=told)
    if np.ptp(launches.at) == 0:
        return best
    # What looks like noise of launches may all be drift.
    ratios = sorted({0.0, best.launch})
    lines = [SharedNoise(ratio, line=drift) for ratio in ratios for drift in _DRIFTS]
    walks = [SharedNoise(ratio, walk=drift) for ratio in ratios for drift in _DRIFTS]
    return max((best, *lines, *walks), key=told)

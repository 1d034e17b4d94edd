"""Noise: what repetitions tell of it, what the rows of a launch share, and outliers.

Rows of one launch may share an error (a clock that was slow in it). With the variance of the shared part
known as a ratio to that of the rows, residuals and derivatives are *whitened*, after which least squares are
right; the ratio is that of the largest restricted likelihood (Patterson and Thompson 1971). Outliers are met
by Huber's loss.
"""

from __future__ import annotations

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
_CONVINCED: Final = 2.0
"""By so much the logarithm of the likelihood must grow for launches to share anything."""


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
    counts = np.asarray(repetitions)
    factors = {int(n): 0.0 if n < 2 else _of(int(n))[0] / _of(int(n))[1] for n in np.unique(counts)}
    return np.array([factors[int(n)] for n in counts.ravel()], dtype=np.float64).reshape(counts.shape)


def whitened(rows: Floats, launches: Ints, ratio: float) -> Floats:
    """Rows (residuals, or derivatives with a column each) free of the shared part that ``ratio`` tells."""
    if ratio == 0:
        return rows
    counts = np.bincount(launches).astype(np.float64)
    share = 1 - 1 / np.sqrt(1 + counts * ratio)
    columns = rows.reshape(len(rows), -1)
    sums = np.zeros((len(counts), columns.shape[1]))
    np.add.at(sums, launches, columns)
    found: Floats = (columns - (share / counts)[launches, None] * sums[launches]).reshape(rows.shape)
    return found


def spread(residuals: Floats, constants: int) -> float:
    """The standard deviation of residuals, by their median size, for what so many fitted constants took of
    it."""
    size = float(np.median(np.abs(residuals))) / float(special.ndtri(0.75))
    return size * float(np.sqrt(len(residuals) / max(1, len(residuals) - constants)))


def shared_ratio(residuals: Floats, slopes: Floats, launches: Ints, sigma: float) -> float:
    """The variance that rows of a launch share over that of the rows: of `_RATIOS` the one of largest
    restricted likelihood, 0 where it is not convincingly better."""
    clipped = np.clip(residuals, -3 * sigma, 3 * sigma)
    counts = np.bincount(launches)
    used = slopes[:, np.abs(slopes).max(axis=0) > 0]
    freedom = len(residuals) - used.shape[1]
    if freedom < 1 or (counts > 0).sum() < 2:
        return 0.0

    def likelihood(ratio: float) -> float:
        basis, triangle = np.linalg.qr(whitened(used, launches, ratio))
        rows = whitened(clipped, launches, ratio)
        rest = float(((rows - basis @ (basis.T @ rows)) ** 2).sum())
        diagonal = np.maximum(np.abs(np.diag(triangle)), 1e-12)
        shared, fitted = float(np.log1p(counts * ratio).sum()), float(np.log(diagonal).sum())
        return float(-0.5 * (shared + 2 * fitted + freedom * np.log(rest)))

    told = [likelihood(ratio) for ratio in _RATIOS]
    best = int(np.argmax(told))
    return _RATIOS[best] if told[best] - told[0] > _CONVINCED else 0.0

"""When to stop measuring, where the steady part of a series begins, and how noisy it is.

A series is kept whole and in order. Its beginning (cold instruction cache, clocks that still rise) is told
from its steady part by a change point: the split into two level pieces that leaves the smallest squares,
taken only when it explains most of them.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

_EXPLAINED: Final = 0.75
"""The share of the squares that a split must explain, and"""
_STEP: Final = 0.01
"""the relative step that it must make, for the beginning to be set apart."""
_TO_SIGMA: Final = 1.4826
"""Median absolute deviation to standard deviation, for normal noise."""

Verdict = Literal["quiet", "stable", "noisy"]


def steady_from(series: ArrayLike) -> NDArray[np.int64]:
    """Where the steady part begins, for each row of ``series`` of shape ``(rows, samples)``: 0 when no start
    stands out.

    At least half of each series is kept.
    """
    values = np.atleast_2d(np.asarray(series, dtype=np.float64))
    rows, samples = values.shape
    best = np.zeros(rows, dtype=np.int64)
    if samples < 4:
        return best
    whole = _squares(values)
    least = whole * (1 - _EXPLAINED)
    for at in range(1, samples // 2 + 1):
        before, after = values[:, :at], values[:, at:]
        left = _squares(before) + _squares(after)
        level = after.mean(axis=1)
        step = np.abs(before.mean(axis=1) - level) > _STEP * np.abs(level)
        better = (left < least) & step
        best[better] = at
        least = np.where(better, left, least)
    return best


def noise(series: ArrayLike) -> float:
    """Relative noise: the standard deviation that the median absolute deviation stands for, over the
    median."""
    values = np.asarray(series, dtype=np.float64)
    middle = float(np.median(values))
    return _TO_SIGMA * float(np.median(np.abs(values - middle))) / abs(middle) if middle else 0.0


@dataclass
class Stopping:
    """Decides after each sample of a series whether to go on, as nvbench does.

    Stop when the noise is under ``bound`` (*quiet*), when it no longer changes (*stable*), or after
    ``limit_s`` seconds or ``most`` samples (*noisy*). The ``least`` samples are taken first, whatever
    ``limit_s``, unless they take ``patience_s`` seconds.
    """

    bound: float = 0.005
    least: int = 10
    most: int = 200
    limit_s: float = 2.0
    patience_s: float = 10.0

    def __post_init__(self) -> None:
        self._began = time.monotonic()
        self._noises: list[float] = []

    def verdict(self, series: list[float]) -> Verdict | None:
        """What to call the series, or None to go on."""
        if len(series) < self.least:
            return None if time.monotonic() - self._began < max(self.limit_s, self.patience_s) else "noisy"
        now = noise(series[int(steady_from(series)[0]) :])
        self._noises.append(now)
        if now <= self.bound:
            return "quiet"
        recent = self._noises[-self.least :]
        if len(recent) == self.least and max(recent) - min(recent) < 0.05 * np.mean(recent):
            return "stable"
        if len(series) >= self.most or time.monotonic() - self._began >= self.limit_s:
            return "noisy"
        return None


def _squares(values: NDArray[np.float64]) -> NDArray[np.float64]:
    squares: NDArray[np.float64] = ((values - values.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
    return squares

"""One configuration launched again and again: its first launches, its steady time, its noise, its drift.

A GPU's clock follows its temperature and its power limit, so a series is rarely stationary. In public
searches the first launch takes 2 to 12 % more than the rest. On a card held by its power limit, a quarter of
the configurations change their time by a step of several per cent within 32 launches. A mean over such a
series describes no state of the card, and its standard error (which takes launches for independent) does not
hold the next launches' mean.

All work is in logarithms, so a step is a factor. Levels are medians: one launch that the system disturbed
moves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from smlab.hw_bench.errors import SmlabError

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

MIN_LAUNCHES: Final = 5
"""With fewer launches, noise and drift cannot be told apart."""

INITIAL_LAUNCHES: Final = 1
"""The first launch loads code and fills caches; it is told apart from the steady ones always."""

NOISE_FLOOR: Final = 2e-4
"""Relative; events tick in steps of about 1 µs (0.5 to 1.024), which on kernels of milliseconds hides
noise."""

DRIFT_SIGMAS: Final = 8.0
"""How many standard errors of a level the two sides of a step must differ by to be called a drift. The best
of all splits is taken, and the noise is estimated from few launches, so the usual 2 or 3 would call half of
all quiet series drifting."""

DRIFT_STEP: Final = 0.005
"""And the least step, relative, that is called a drift: less is of no use to whoever compares two GPUs."""

_TO_SIGMA: Final = 1.4826
"""Median absolute deviation to standard deviation, for normal noise."""

_MEDIAN_ERROR: Final = 1.2533
"""Standard error of a median over that of a mean, for normal noise: the square root of pi / 2."""


@dataclass(frozen=True, eq=False)
class LaunchSeries:
    """What series of launches tell, a row a configuration; all arrays of shape ``(configurations,)``.

    ``initial_s`` is the time of the first launch, ``steady_s`` the median of the others. ``noise`` is the
    relative standard deviation of a launch. It is taken from differences of successive ones, so that a drift
    does not count as noise. ``error`` is the relative standard error of ``steady_s`` where nothing drifts.
    ``step`` is the most significant relative step within the steady launches (later over earlier, less 1),
    ``step_at`` the launch where it begins, ``drifting`` whether it is one.
    """

    initial_s: Floats
    steady_s: Floats
    noise: Floats
    error: Floats
    step: Floats
    step_at: NDArray[np.int64]
    drifting: Bools

    def __len__(self) -> int:
        return len(self.steady_s)


def launch_series(seconds: ArrayLike) -> LaunchSeries:
    """Analyse launches in the order in which they ran; ``seconds`` is of shape ``(configurations,
    launches)``.

    Raises:
        SmlabError: fewer than `MIN_LAUNCHES` launches, or a time that is not a positive number.
    """
    values = np.asarray(seconds, dtype=np.float64)
    if values.ndim != 2 or values.shape[1] < MIN_LAUNCHES:
        raise SmlabError.at(
            "launches",
            "too few of each configuration to tell noise from drift",
            values.shape[-1] if values.ndim == 2 else f"an array of {values.ndim} dimensions",
            f"{MIN_LAUNCHES} or more",
        )
    wrong = ~(np.isfinite(values) & (values > 0))
    if wrong.any():
        row, column = (int(i) for i in np.argwhere(wrong)[0])
        raise SmlabError.at(
            f"configuration {row}: launch {column}", "not a time", values[row, column], "seconds above 0"
        )
    logs = np.log(values)
    steady = logs[:, INITIAL_LAUNCHES:]
    count = steady.shape[1]
    noise = _noise(steady)
    step, step_at, sigmas = _largest_step(steady, noise)
    return LaunchSeries(
        initial_s=values[:, 0],
        steady_s=np.exp(np.median(steady, axis=1)),
        noise=noise,
        error=_MEDIAN_ERROR * noise / np.sqrt(count),
        step=np.expm1(step),
        step_at=step_at + INITIAL_LAUNCHES,
        drifting=(sigmas > DRIFT_SIGMAS) & (np.abs(step) > DRIFT_STEP),
    )


def _noise(steady: Floats) -> Floats:
    """Relative noise of a launch: successive differences, whose spread a drift hardly touches, over root
    two."""
    differences = np.diff(steady, axis=1)
    middle = np.median(differences, axis=1, keepdims=True)
    spread = _TO_SIGMA * np.median(np.abs(differences - middle), axis=1)
    noise: Floats = np.maximum(spread / np.sqrt(2), NOISE_FLOOR)
    return noise


def _largest_step(steady: Floats, noise: Floats) -> tuple[Floats, NDArray[np.int64], Floats]:
    """The split into two levels (medians, two launches at least on each side) with the most significant
    step: the step in logarithms and in standard errors; and where the later part of the best fit begins.
    """
    rows, count = steady.shape
    step, at, most = np.zeros(rows), np.zeros(rows, dtype=np.int64), np.zeros(rows)
    least = np.full(rows, np.inf)
    for split in range(2, count - 1):
        steps = np.median(steady[:, split:], axis=1) - np.median(steady[:, :split], axis=1)
        sigmas = np.abs(steps) / (noise * np.sqrt(1 / split + 1 / (count - split)))
        better = sigmas > most
        step[better], most[better] = steps[better], sigmas[better]
        # Medians forgive a launch on the wrong side; where a step begins, distances from both levels tell.
        away = sum(
            np.abs(part - np.median(part, axis=1, keepdims=True)).sum(axis=1)
            for part in (steady[:, :split], steady[:, split:])
        )
        closer = away < least
        at[closer], least[closer] = split, away[closer]
    return step, at, most

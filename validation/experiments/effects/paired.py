"""Two variants compared run by run: differences and ratios with intervals, and what the pairing was worth.

Replication i of both variants has the same seed, so both see the same random numbers (*common random
numbers*). What chance does to both cancels in the difference. The interval comes from the differences, one a
replication, not from the two variances apart: Var(a - b) = Var(a) + Var(b) - 2 Cov(a, b) (A. M. Law,
"Simulation Modeling and Analysis", chapter on variance-reduction techniques).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from smlab.hw_bench.errors import SmlabError
from smlab.validation.method.statistics import Interval, mean_interval, ratio_interval

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Paired:
    """A variant against its base over ``difference.count`` common replications.

    ``difference`` of the means (variant less base); ``ratio`` of the means, None where the base is not above
    0 throughout; ``variance_reduction`` how many times fewer runs the pairing needs than independent runs
    would for the same width, None where it cannot be told (under `FEWEST_FOR_VARIANCE` replications, or no
    variance at all).
    """

    difference: Interval
    ratio: Interval | None
    variance_reduction: Interval | None


FEWEST_FOR_VARIANCE = 5
"""A ratio of variances from fewer replications says nothing."""


def compare(variant: ArrayLike, base: ArrayLike, level: float = 0.95) -> Paired:
    """Compare two variants over k paired replications, arrays of shape ``(k,)`` in the order of the
    replications.

    The difference has Student's t interval, the ratio of the means a jackknife interval (`ratio_interval`).
    With one replication there is no interval: its ends are NaN and its count is 1.
    """
    a, b = _pair(variant, base)
    if len(a) == 1:
        ratio = single(float(a[0] / b[0]), level) if b[0] > 0 else None
        return Paired(single(float(a[0] - b[0]), level), ratio, None)
    ratio = ratio_interval(a, b, level) if (b > 0).all() else None
    return Paired(mean_interval(a - b, level), ratio, variance_reduction(a, b, level))


def single(value: float, level: float) -> Interval:
    """An estimate from one replication: no interval."""
    return Interval(value, math.nan, math.nan, level, 1)


def mean_of(values: ArrayLike, level: float = 0.95) -> Interval:
    """Student's t interval of the mean over replications, shape ``(k,)``; of one replication, the value
    alone."""
    x = np.asarray(values, dtype=np.float64)
    return single(float(x[0]), level) if len(x) == 1 else mean_interval(x, level)


def variance_reduction(variant: ArrayLike, base: ArrayLike, level: float = 0.95) -> Interval | None:
    """(Var a + Var b) / Var(a - b): how many times more runs independent variants would need for the same
    interval.

    1 is no gain, below 1 the pairing hurts. The interval is the jackknife's on the logarithm of the ratio,
    over the replications. None with fewer than `FEWEST_FOR_VARIANCE` replications, or where one of the
    variances is 0.
    """
    a, b = _pair(variant, base)
    k = len(a)
    if k < FEWEST_FOR_VARIANCE or min(np.var(a), np.var(b)) == 0:
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        without = np.log(_left_out_variances(a) + _left_out_variances(b)) - np.log(_left_out_variances(a - b))
        whole = math.log(np.var(a) + np.var(b)) - math.log(np.var(a - b)) if np.var(a - b) > 0 else math.inf
    if not (np.isfinite(without).all() and math.isfinite(whole)):
        return None
    on_log = mean_interval(k * whole - (k - 1) * without, level)
    return Interval(math.exp(on_log.estimate), math.exp(on_log.low), math.exp(on_log.high), level, k)


def _left_out_variances(x: Floats) -> Floats:
    """The variance of ``x`` without each of its values in turn, shape ``(k,)``."""
    k, d = len(x), x - x.mean()
    mean = -d / (k - 1)
    squares: Floats = (np.sum(d**2) - d**2) / (k - 1) - mean**2
    return np.where(squares > 1e-12 * np.var(x), squares, 0.0)


def _pair(variant: ArrayLike, base: ArrayLike) -> tuple[Floats, Floats]:
    a, b = (np.asarray(x, dtype=np.float64) for x in (variant, base))
    if a.shape != b.shape or a.ndim != 1 or not len(a):
        raise SmlabError.at(
            "compare", "replications do not pair", (a.shape, b.shape), "one shape (k,), k >= 1"
        )
    return a, b

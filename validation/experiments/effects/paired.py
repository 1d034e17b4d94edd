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
from smlab.validation.method.statistics import Interval, geometric_ratio_interval, mean_interval

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Paired:
    """A variant against its base over ``difference.count`` common replications.

    ``difference`` of the means (variant less base); ``ratio``, the geometric mean of the paired ratios, None
    where not all values are above 0; ``variance_reduction`` how many times fewer runs the pairing needs than
    independent runs would for the same width, None where it cannot be told (under `MIN_FOR_VARIANCE`
    replications, or no variance at all).
    """

    difference: Interval
    ratio: Interval | None
    variance_reduction: Interval | None


MIN_FOR_VARIANCE = 5
"""A ratio of variances from fewer replications says nothing."""


def compare(variant: ArrayLike, base: ArrayLike, level: float = 0.95, *, geometric: bool = False) -> Paired:
    """Compare two variants over k paired replications, arrays of shape ``(k,)`` in the order of the
    replications, or ``(k, cells)`` with the cells of a grid in which all else is equal.

    The difference is of the means over the cells (``geometric`` ones for a response that is itself a ratio)
    with Student's t interval. The ratio is the geometric mean over replications and cells, its interval over
    the replications. With one replication there is no interval: its ends are NaN and its count is 1.
    """
    a, b = (np.asarray(x, dtype=np.float64) for x in (variant, base))
    if a.shape != b.shape or a.ndim not in (1, 2) or not a.size:
        expected = "one shape (k,) or (k, cells), k >= 1"
        raise SmlabError.at("compare", "replications do not pair", (a.shape, b.shape), expected)
    a, b = a.reshape(len(a), -1), b.reshape(len(b), -1)
    positive = bool((a > 0).all() and (b > 0).all())
    x, y = (over_cells(values, geometric=geometric) for values in (a, b))
    if len(a) == 1:
        ratio = single(float(np.exp(np.log(a / b).mean())), level) if positive else None
        return Paired(single(float(x[0] - y[0]), level), ratio, None)
    ratio = (
        geometric_ratio_interval(np.exp(np.log(a / b).mean(axis=1)), np.ones(len(a)), level)
        if positive
        else None
    )
    return Paired(mean_interval(x - y, level), ratio, variance_reduction(x, y, level))


def over_cells(values: Floats, *, geometric: bool) -> Floats:
    """The mean over all but the first axis, shape ``(k,)``."""
    flat = values.reshape(len(values), -1)
    means: Floats = np.exp(np.log(flat).mean(axis=1)) if geometric and (flat > 0).all() else flat.mean(axis=1)
    return means


def single(value: float, level: float) -> Interval:
    """An estimate from one replication: no interval."""
    return Interval(value, math.nan, math.nan, level, 1)


def mean_of(values: ArrayLike, level: float = 0.95, *, geometric: bool = False) -> Interval:
    """Student's t interval of the mean (or ``geometric`` mean) over replications, shape ``(k,)``; of one
    replication, the value alone."""
    x = np.asarray(values, dtype=np.float64)
    if geometric and len(x) > 1 and (x > 0).all():
        return geometric_ratio_interval(x, np.ones(len(x)), level)
    return single(float(x[0]), level) if len(x) == 1 else mean_interval(x, level)


def variance_reduction(variant: ArrayLike, base: ArrayLike, level: float = 0.95) -> Interval | None:
    """(Var a + Var b) / Var(a - b): how many times more runs independent variants would need for the same
    interval.

    1 is no gain, below 1 the pairing hurts. The interval is the jackknife's on the logarithm of the ratio,
    over the replications. None with fewer than `MIN_FOR_VARIANCE` replications, or where one of the
    variances is 0.
    """
    a, b = _pair(variant, base)
    k = len(a)
    if k < MIN_FOR_VARIANCE or min(np.var(a), np.var(b)) == 0:
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

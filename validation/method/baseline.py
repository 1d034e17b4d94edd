"""Whether a model is better than its trivial baseline. One rule, for every finding of this project.

On each case, d is the model's absolute error less the baseline's on the same case. The word is

- ``better`` where the whole 95 % interval of the mean of d lies below 0,
- ``worse`` where it lies above 0,
- ``no better`` otherwise: what was seen does not tell the model from a guess that costs nothing.

Of several baselines the one with the smallest mean error stands for them, which is against the model. One
that was fitted to the very cases that judge is marked as such; no prediction can be made with it.

Cases come in groups where they are not independent draws: kernels of one family, points of one image. Then
the groups are what is drawn at random, and the interval is over them. Intervals are the hull of Student's t
and of the BCa bootstrap (`mean_bootstrap`): errors are skewed, which t does not know, and few, which the
bootstrap does not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.validation.method.metrics import mean_bootstrap
from smlab.validation.method.statistics import mean_interval

Word = Literal["better", "no better", "worse"]
WORDS: Final[tuple[Word, ...]] = ("better", "no better", "worse")
LEVEL: Final = 0.95

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Baseline:
    """A guess that costs nothing, with its absolute error on each case, shape ``(n,)``; ``fitted`` if it was
    fitted
    to these very cases."""

    name: str
    errors: ArrayLike
    fitted: bool = False


@dataclass(frozen=True)
class Comparison:
    """A model's mean absolute error with its interval, beside the best baseline's on the same ``n`` cases.

    ``difference`` is the mean of (model's error - baseline's error) with its interval ``difference_low`` to
    ``difference_high``, from which the `word` follows. ``groups`` is the number of independent groups of
    cases, n where each case is one. NaN ends where a single group gives no interval.
    """

    n: int
    groups: int
    error: float
    low: float
    high: float
    baseline: str
    baseline_error: float
    baseline_fitted: bool
    difference: float
    difference_low: float
    difference_high: float

    @property
    def word(self) -> Word:
        """The verdict; see the rule in the module's text."""
        if self.difference_high < 0:
            return "better"
        return "worse" if self.difference_low > 0 else "no better"


def compare_with_baseline(
    errors: ArrayLike, baselines: Sequence[Baseline], *, groups: Sequence[object] | None = None, seed: int = 0
) -> Comparison:
    """Compare a model's absolute errors, shape ``(n,)`` in any one unit, with those of one or more baselines.

    ``groups`` names the group of each case; by default each case is its own. Means are over cases, whatever
    the groups.
    """
    x = _errors("the model", errors)
    if not baselines:
        raise SmlabError.at("comparison with a baseline", "no baseline", expected="at least one")
    found = [(b, _errors(f"baseline {b.name!r}", b.errors)) for b in baselines]
    for baseline, y in found:
        if len(y) != len(x):
            raise SmlabError.at(
                f"baseline {baseline.name!r}", "unequal lengths", len(y), f"{len(x)} errors, as the model has"
            )
    best, y = min(found, key=lambda pair: float(pair[1].mean()))
    labels = np.arange(len(x)) if groups is None else _labels(groups, len(x))
    low, high = _interval(_group_values(x, labels), seed)
    difference = x - y
    difference_low, difference_high = _interval(_group_values(difference, labels), seed)
    return Comparison(
        n=len(x),
        groups=int(labels.max()) + 1,
        error=float(x.mean()),
        low=max(low, 0.0) if math.isfinite(low) else low,
        high=high,
        baseline=best.name,
        baseline_error=float(y.mean()),
        baseline_fitted=best.fitted,
        difference=float(difference.mean()),
        difference_low=difference_low,
        difference_high=difference_high,
    )


def relative_errors(predicted: ArrayLike, truth: ArrayLike) -> FloatArray:
    """Absolute errors in per cent of the truth, shape ``(n,)``."""
    t = np.asarray(truth, dtype=np.float64)
    return np.asarray(100 * np.abs(np.asarray(predicted, dtype=np.float64) - t) / t)


def point_errors(estimated: ArrayLike, exact: ArrayLike) -> FloatArray:
    """Absolute errors in percentage points of utilizations given as fractions, shape ``(n,)``."""
    return np.asarray(
        100 * np.abs(np.asarray(estimated, dtype=np.float64) - np.asarray(exact, dtype=np.float64))
    )


def _group_values(x: FloatArray, labels: NDArray[np.int64]) -> FloatArray:
    """One value a group whose mean is the mean of all cases: the mean, and what the group adds to or takes
    from it.

    With sums s and sizes m of G groups, the mean of the cases is ``sum(s) / sum(m)``, a ratio; its linearised
    values are ``mean + G (s - mean m) / sum(m)`` (W. G. Cochran, Sampling Techniques, 3rd ed., Section 9A).
    For groups of one size they are the groups' means.
    """
    sums, sizes = np.bincount(labels, x), np.bincount(labels)
    mean = float(x.mean())
    return np.asarray(mean + len(sums) * (sums - mean * sizes) / len(x))


def _interval(values: FloatArray, seed: int) -> tuple[float, float]:
    """The hull of the t and the BCa interval of the mean of independent values; NaN for a single one."""
    if len(values) < 2:
        return math.nan, math.nan
    student, bootstrap = mean_interval(values, LEVEL), mean_bootstrap(values, level=LEVEL, seed=seed)
    return min(student.low, bootstrap[0]), max(student.high, bootstrap[1])


def _labels(groups: Sequence[object], n: int) -> NDArray[np.int64]:
    if len(groups) != n:
        raise SmlabError.at("groups", "unequal lengths", len(groups), f"{n} labels, one for each case")
    number: dict[object, int] = {}
    return np.array([number.setdefault(g, len(number)) for g in groups], dtype=np.int64)


def _errors(name: str, values: ArrayLike) -> FloatArray:
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 1 or len(x) == 0:
        raise SmlabError.at(f"errors of {name}", "wrong shape", x.shape, "one number a case, shape (n,)")
    bad = np.flatnonzero(~(np.isfinite(x) & (x >= 0)))
    if len(bad):
        raise SmlabError.at(
            f"errors of {name}, case {int(bad[0])}",
            "unusable value",
            float(x[bad[0]]),
            "an absolute error, 0 or more",
        )
    return x

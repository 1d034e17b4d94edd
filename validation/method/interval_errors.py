"""Errors of projected times with intervals, with the keys that every data set of ``smlab project --json``
has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import scipy
from numpy.typing import NDArray

from smlab.validation.method.metrics import ErrorTable, error_table

Floats = NDArray[np.float64]

BEST_CONSTANT: Final = "best constant (fitted to the truth)"


@dataclass(frozen=True, eq=False)
class TimedIntervals:
    """Times on the source, and their intervals on the target, (rows,) each."""

    before_s: Floats
    low_s: Floats
    mid_s: Floats
    high_s: Floats


@dataclass(frozen=True)
class IntervalErrors:
    """The error table of one set of rows; ``baselines`` by name, the best constant fitted to these very
    rows.

    ``coverage`` is the percentage of rows whose time lies in the interval, ``median_width`` how far its
    upper end lies above the prediction, in percent, at the median. ``spearman_ratio`` is the rank
    correlation of predicted and actual *ratios* of the two GPUs' times, None where either is a constant and
    has none.
    """

    projected: ErrorTable
    coverage: float
    median_width: float
    spearman_ratio: float | None
    baselines: tuple[tuple[str, ErrorTable], ...]

    def as_json(self) -> dict[str, Any]:
        """With the keys that scripts rely on."""
        return {
            **self.projected.as_row(),
            "coverage": self.coverage,
            "median_width": self.median_width,
            "spearman_ratio": self.spearman_ratio,
            "baseline_constant_mape": dict(self.baselines)[BEST_CONSTANT].mape,
            "baselines": {name: table.as_row() for name, table in self.baselines},
        }


def interval_errors(
    times: TimedIntervals, actual_s: Floats, baselines: Mapping[str, Floats], beside: str
) -> IntervalErrors:
    """Errors against ``actual_s``; ``beside`` is the baseline that the error table is held against. The
    best constant is added where it is not among the ``baselines``."""
    baselines = dict(baselines)
    baselines.setdefault(BEST_CONSTANT, times.before_s * best_constant(times.before_s, actual_s))
    inside = (times.low_s <= actual_s) & (actual_s <= times.high_s)
    correlation = None
    ratios = times.mid_s / times.before_s, actual_s / times.before_s
    if all(np.ptp(r) > 1e-9 * r.max() for r in ratios):
        correlation = float(scipy.stats.spearmanr(*ratios).statistic)
    return IntervalErrors(
        error_table(times.mid_s, actual_s, baseline=baselines[beside]),
        float(100 * np.mean(inside)),
        float(100 * np.median(times.high_s / times.mid_s - 1)),
        correlation,
        tuple((name, error_table(p, actual_s)) for name, p in baselines.items()),
    )


def best_constant(before: Floats, truth: Floats) -> float:
    """The c of least mean |c x - t| / t: the median of t / x, each weighted with x / t."""
    ratio = truth / before
    order = np.argsort(ratio)
    weight = np.cumsum(1 / ratio[order])
    return float(ratio[order][np.searchsorted(weight, weight[-1] / 2)])

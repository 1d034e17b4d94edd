"""Errors of projected times of a tuning space, with what an interval and a ranking are worth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.validation.method.metrics import ErrorTable, error_table
from smlab.validation.projection.operators.judge import best_constant

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class TuningErrors:
    """The error table of one set of rows; ``baselines`` by name, the best constant fitted to these very rows.

    ``coverage`` is the percentage of rows whose time lies in the interval, ``median_width`` how far its upper
    end lies above the prediction, in percent, at the median. ``spearman_ratio`` is the rank correlation of
    predicted and actual *ratios* of the two GPUs' times, None where either is a constant and has none.
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
            "baseline_constant_mape": dict(self.baselines)["best constant (fitted to the truth)"].mape,
            "baselines": {name: table.as_row() for name, table in self.baselines},
        }


def tuning_errors(
    before_s: Floats, low_s: Floats, mid_s: Floats, high_s: Floats, actual_s: Floats, source: Gpu, target: Gpu
) -> TuningErrors:
    """Errors of ``mid_s`` and of the interval against ``actual_s``; ``before_s`` are the source's times,
    (rows,)."""
    flops, bandwidth = (
        float(source.number(key)) / float(target.number(key))
        for key in ("peak.fp32_flops_per_s", "dram.bandwidth_bytes_per_s")
    )
    baselines = {
        "FP32 ratio": before_s * flops,
        "bandwidth ratio": before_s * bandwidth,
        "best constant (fitted to the truth)": before_s * best_constant(before_s, actual_s),
    }
    inside = (low_s <= actual_s) & (actual_s <= high_s)
    correlation = None
    ratios = mid_s / before_s, actual_s / before_s
    if all(np.ptp(r) > 1e-9 * r.max() for r in ratios):
        correlation = float(spearmanr(*ratios).statistic)
    return TuningErrors(
        error_table(mid_s, actual_s, baseline=baselines["FP32 ratio"]),
        float(100 * np.mean(inside)),
        float(100 * np.median(high_s / mid_s - 1)),
        correlation,
        tuple((name, error_table(p, actual_s)) for name, p in baselines.items()),
    )

"""Arithmetic on Table III of Zhou et al. (GPA): speedups achieved and estimated, and the errors printed
beside them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.validation.method.metrics import error_table
from smlab.validation.papers.claims.published import AdvisorRow, advisor_table
from smlab.validation.papers.claims.registry import Observed, quantity
from smlab.validation.papers.judging import Scale

LATENCY_HIDING = ("Loop Unrolling", "Code Reorder", "Function Inlining")
"""The optimizations of Table II that rearrange instructions."""

ROUNDING = 0.005
"""Half a unit of the last digit of a printed speedup."""


def _column(name: str) -> NDArray[np.float64]:
    columns = ("achieved", "estimated", "error_percent")
    if name not in columns:
        raise SmlabError.at("column of Table III", "unknown", name, "one of " + ", ".join(columns))
    return np.array([getattr(row, name) for row in advisor_table().rows], dtype=np.float64)


def _mean(values: NDArray[np.float64], kind: str) -> float:
    if kind == "geometric":
        return float(np.exp(np.log(values).mean()))
    if kind == "arithmetic":
        return float(values.mean())
    raise SmlabError.at("mean", "unknown", kind, "geometric or arithmetic")


@quantity("advisor.mean_error", unit="%", evidence="published", scale=Scale.ERROR)
def mean_error(mean: str) -> Observed:
    """The geometric or arithmetic mean of the errors, from the printed speedups."""
    achieved = _column("achieved")
    errors = 100 * np.abs(_column("estimated") / achieved - 1)
    printed = _mean(_column("error_percent"), mean)
    return Observed.exactly(
        _mean(errors, mean), f"{mean} mean; of the printed, rounded errors {printed:.2f} %"
    )


@quantity("advisor.mean_speedup", unit="x", evidence="published", scale=Scale.RATIO)
def mean_speedup(column: str, mean: str) -> Observed:
    """The mean of the achieved or estimated speedups; the interval is that of the printed digits."""
    values = _column(column)
    return Observed(
        _mean(values, mean), _mean(values - ROUNDING, mean), _mean(values + ROUNDING, mean), f"{mean} mean"
    )


@quantity("advisor.extreme_speedup", unit="x", evidence="published", scale=Scale.RATIO)
def extreme_speedup(column: str, which: str) -> Observed:
    """The least or the greatest speedup of a column."""
    values = _column(column)
    at = int(values.argmin() if which == "least" else values.argmax())
    return Observed.exactly(values[at], advisor_table().rows[at].name.split(":")[0])


@quantity("advisor.text_agreement", unit="% of the speedups", evidence="published", scale=Scale.SHARE)
def text_agreement() -> Observed:
    """The share of the speedups that the text tells which are the table's."""
    table = advisor_table()
    off = [
        f"{name} {optimization}: text {told:.2f}, table {table.find(name, optimization).achieved:.2f}"
        for name, optimization, told in table.told
        if abs(table.find(name, optimization).achieved - told) > ROUNDING
    ]
    share = 100 * (1 - len(off) / len(table.told))
    return Observed.exactly(share, "; ".join(off) or f"all {len(table.told)} agree")


def _error_interval(row: AdvisorRow) -> tuple[float, float]:
    """The errors that the printed speedups allow, in %."""
    corners = [
        100 * abs((row.estimated + i) - (row.achieved + j)) / (row.achieved + j)
        for i in (-ROUNDING, ROUNDING)
        for j in (-ROUNDING, ROUNDING)
    ]
    crosses = abs(row.estimated - row.achieved) <= 2 * ROUNDING
    return (0.0 if crosses else min(corners)), max(corners)


@quantity("advisor.error_mismatches", unit="rows", evidence="published")
def error_mismatches() -> Observed:
    """Rows whose printed error no speedups that round to the printed ones would give."""
    off = []
    for row in advisor_table().rows:
        low, high = _error_interval(row)
        if not (low <= row.error_percent + 0.5 and row.error_percent - 0.5 <= high):
            off.append(f"{row.name.split(':')[0]} {row.optimization}")
    return Observed.exactly(len(off), "; ".join(off))


@quantity("advisor.worst_optimizations", unit="of 2", evidence="published")
def worst_optimizations() -> Observed:
    """How many of loop unrolling and code reordering are among the two optimizations with the largest
    single errors."""
    largest: dict[str, float] = {}
    for row in advisor_table().rows:
        largest[row.optimization] = max(largest.get(row.optimization, 0.0), row.error_percent)
    order = sorted(largest, key=lambda name: -largest[name])
    found = {"Loop Unrolling", "Code Reorder"} & set(order[:2])
    return Observed.exactly(len(found), ", ".join(f"{name} {largest[name]:.0f} %" for name in order[:3]))


@quantity("advisor.mape", unit="%", evidence="published", scale=Scale.ERROR)
def mape() -> Observed:
    """The mean absolute percentage error of the estimated speedups, with its bootstrap interval."""
    achieved = _column("achieved")
    table = error_table(_column("estimated"), achieved, baseline=np.full(len(achieved), 1.15))
    return Observed(
        table.mape,
        table.mape_low,
        table.mape_high,
        f"median {table.median_ape:.1f} %, worst {table.worst_ape:.0f} %",
    )


@quantity("advisor.mape_of_constant", unit="times", evidence="published", scale=Scale.RATIO)
def mape_of_constant() -> Observed:
    """The error of the best constant guess over that of the estimates: above 1, the estimates know
    something."""
    achieved = _column("achieved")
    constants = np.linspace(1.0, 2.0, 1001)
    errors = np.abs(constants[:, None] / achieved - 1).mean(axis=1) * 100
    best = int(errors.argmin())
    ratio = float(errors[best] / error_table(_column("estimated"), achieved).mape)
    return Observed.exactly(
        ratio, f"the best constant, {constants[best]:.2f}x, is off by {errors[best]:.1f} %"
    )


@quantity("advisor.rank_agreement", unit="", evidence="published", scale=Scale.DIFFERENCE)
def rank_agreement() -> Observed:
    """Kendall's tau-b between estimated and achieved speedups: whether the order of the advice is right."""
    return Observed.exactly(error_table(_column("estimated"), _column("achieved")).kendall_tau)


@quantity("advisor.share_overestimated", unit="%", evidence="published", scale=Scale.SHARE)
def share_overestimated() -> Observed:
    """The share of rows in which the estimate exceeds what was achieved."""
    over = _column("estimated") > _column("achieved")
    bias = float(np.exp(np.log(_column("estimated") / _column("achieved")).mean()))
    return Observed.exactly(100 * over.mean(), f"geometric mean of estimated over achieved {bias:.3f}")


@quantity("advisor.largest_latency_hiding", unit="x", evidence="published", scale=Scale.RATIO)
def largest_latency_hiding(column: str) -> Observed:
    """The largest speedup, achieved or estimated, of the optimizations that rearrange instructions."""
    rows = [r for r in advisor_table().rows if r.optimization in LATENCY_HIDING]
    best = max(rows, key=lambda r: float(getattr(r, column)))
    return Observed.exactly(getattr(best, column), f"{best.name.split(':')[0]}, {len(rows)} rows")

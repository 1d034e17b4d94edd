"""How often projected intervals hold where their width was fitted without the operator, the target card or
the family of configurations that they are asked of.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.datasets import OperatorTimes
from smlab.hw_bench.gpu.descriptions import list_gpus, load_gpu
from smlab.models.operators import operator_work
from smlab.models.operators.interval import KINDS, LEVEL, Margin, kinds_of
from smlab.models.projection.projection import Projection
from smlab.validation.method.widths import LeftOut, left_out, width_factor
from smlab.validation.projection.operators import MIN_S, judge_projection
from smlab.validation.projection.tuning import TuningJudgement

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class OperatorCases:
    """Judged rows of all ordered pairs of GPUs, (cases,). How far, in logarithms, the time lies below the
    lower bound of the projection (``below``) and above the upper one (``above``), negative inside; and how
    far the upper bound is above the prediction (``up``)."""

    operator: NDArray[np.object_]
    kind: NDArray[np.object_]
    source: NDArray[np.object_]
    target: NDArray[np.object_]
    below: Floats
    above: Floats
    up: Floats

    @property
    def pair(self) -> NDArray[np.object_]:
        """The ordered pair of each case, by name."""
        return np.array([f"{a} to {b}" for a, b in zip(self.source, self.target, strict=True)], dtype=object)


@dataclass(frozen=True)
class OperatorCoverage:
    """The share of one operator's rows from ``source`` to ``target`` that lie in their interval, its
    margins fitted without any pair that has this target."""

    operator: str
    source: str
    target: str
    n: int
    coverage: float


def operator_cases(times: OperatorTimes) -> OperatorCases:
    """Every row that is judged, of every ordered pair of GPUs in ``times``."""
    columns: dict[str, list[np.ndarray]] = {field.name: [] for field in fields(OperatorCases)}
    for source, target in itertools.permutations(sorted(set(times.gpu) & set(list_gpus())), 2):
        judged = judge_projection(times, load_gpu(source), load_gpu(target), parts=False)
        assert judged.actual_s is not None
        p, work = judged.projection, operator_work(judged.source_rows)
        long = (judged.source_rows.seconds > MIN_S) & (judged.actual_s > MIN_S)
        count = int(long.sum())
        columns["operator"].append(judged.source_rows.operator[long])
        columns["kind"].append(kinds_of(work)[long])
        columns["source"].append(np.full(count, source, dtype=object))
        columns["target"].append(np.full(count, target, dtype=object))
        columns["below"].append(np.log(p.least_s / judged.actual_s)[long])
        columns["above"].append(np.log(judged.actual_s / p.most_s)[long])
        columns["up"].append(np.log(p.most_s / p.mid_s)[long])
    return OperatorCases(**{name: np.concatenate(parts) for name, parts in columns.items()})


def fitted_margins(cases: OperatorCases, of: NDArray[np.bool_] | None = None) -> dict[str, Margin]:
    """The margins of some cases by kind: of each side the quantile that leaves half of what `LEVEL` leaves,
    each pair with the same say, and never below 0."""
    of = np.ones(len(cases.above), dtype=bool) if of is None else of
    found = {}
    for kind in KINDS:
        own = of & (cases.kind == kind)
        pair = cases.pair[own]
        sides = (_quantile(x[own], pair, (1 + LEVEL) / 2) for x in (cases.below, cases.above))
        found[kind] = Margin(*(max(side, 0.0) for side in sides))
    return found


def held(cases: OperatorCases, margins: Mapping[str, Margin]) -> NDArray[np.bool_]:
    """Which cases lie in their interval with ``margins``, on a target whose library was in view; (cases,)."""
    below, above = (
        np.array([getattr(margins[kind], side) for kind in cases.kind]) for side in ("below", "above")
    )
    return np.asarray((cases.below <= below) & (cases.above <= above))


def operator_coverage(cases: OperatorCases) -> list[OperatorCoverage]:
    """For each operator, source and target how often intervals hold whose margins no pair of this target
    made."""
    inside = np.zeros(len(cases.above), dtype=bool)
    for target in sorted(set(cases.target)):
        there = cases.target == target
        inside |= there & held(cases, fitted_margins(cases, ~there))
    found = []
    for operator, source, target in sorted(set(zip(cases.operator, cases.source, cases.target, strict=True))):
        of = (cases.operator == operator) & (cases.source == source) & (cases.target == target)
        found.append(OperatorCoverage(operator, source, target, int(of.sum()), float(inside[of].mean())))
    return found


def _quantile(values: Floats, group: NDArray[np.object_], level: float) -> float:
    """The quantile in which each group has the same say."""
    _, inverse, counts = np.unique(group.astype(str), return_inverse=True, return_counts=True)
    weight = 1.0 / counts[inverse]
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weight[order]) / weight.sum()
    return float(values[order][min(int(np.searchsorted(reached, level)), len(values) - 1)])


@dataclass(frozen=True)
class TuningCoverage:
    """``factor`` is that of all families (`smlab.models.projection.uncertainty.FACTOR`); ``families`` each
    with the factor of the others; ``pooled`` the share of all rows that were held so."""

    factor: float
    families: tuple[LeftOut, ...]

    @property
    def pooled(self) -> float:
        """Over all rows, each judged by a width fitted without its family."""
        return sum(f.coverage * f.n for f in self.families) / sum(f.n for f in self.families)


def tuning_coverage(judged: TuningJudgement) -> TuningCoverage:
    """Coverage by family of a projection by counters that has a truth."""
    assert judged.actual_s is not None
    assert isinstance(judged.projection, Projection)
    known = ~np.isnan(judged.actual_s)
    error = np.log(judged.actual_s / judged.projection.mid_s)[known]
    width = judged.projection.parts.width()[known]
    family = np.array(judged.family)[known]
    return TuningCoverage(width_factor(error, width, family), tuple(left_out(error, width, family)))

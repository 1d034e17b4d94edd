"""How often projected intervals hold where their width was fitted without the operator, the target card or
the family of configurations that they are asked of.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.datasets import OperatorTimes
from smlab.hw_bench.gpu.descriptions import list_gpus, load_gpu
from smlab.models.operators.interval import width_of
from smlab.models.projection.projection import Projection
from smlab.validation.method.widths import LeftOut, left_out, width_factor
from smlab.validation.projection.operators import MIN_S, judge_projection
from smlab.validation.projection.tuning import TuningJudgement

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class OperatorCases:
    """Judged rows of all ordered pairs of GPUs, (cases,): the error in logarithms and the width before its
    factor."""

    operator: NDArray[np.object_]
    pair: NDArray[np.object_]
    target: NDArray[np.object_]
    error: Floats
    width: Floats


@dataclass(frozen=True)
class OperatorCoverage:
    """The share of one operator's rows, pooled over all pairs, that lie in their interval, its factor fitted
    without the operator, without the target card, and without both."""

    operator: str
    n: int
    without_operator: float
    without_target: float
    without_both: float


def operator_cases(times: OperatorTimes) -> OperatorCases:
    """Every row that is judged, of every ordered pair of GPUs in ``times``."""
    columns: dict[str, list[np.ndarray]] = {n: [] for n in ("operator", "pair", "target", "error", "width")}
    for source, target in itertools.permutations(sorted(set(times.gpu) & set(list_gpus())), 2):
        judged = judge_projection(times, load_gpu(source), load_gpu(target), parts=False)
        assert judged.actual_s is not None
        rows = judged.source_rows
        long = (rows.seconds > MIN_S) & (judged.actual_s > MIN_S)
        count = int(long.sum())
        columns["operator"].append(rows.operator[long])
        columns["pair"].append(np.full(count, f"{source} to {target}", dtype=object))
        columns["target"].append(np.full(count, target, dtype=object))
        columns["error"].append(np.log(judged.actual_s / judged.projection.mid_s)[long])
        columns["width"].append(width_of(judged.projection.parts)[long])
    return OperatorCases(**{name: np.concatenate(parts) for name, parts in columns.items()})


def fitted_factor(cases: OperatorCases, of: NDArray[np.bool_] | None = None) -> float:
    """The factor of the widths of some cases, each operator of each pair with the same say."""
    of = np.ones(len(cases.error), dtype=bool) if of is None else of
    group = np.array([f"{o} {p}" for o, p in zip(cases.operator[of], cases.pair[of], strict=True)])
    return width_factor(cases.error[of], cases.width[of], group)


def operator_coverage(cases: OperatorCases) -> list[OperatorCoverage]:
    """For each operator how often its intervals hold, fitted on what was left."""
    error, width = np.abs(cases.error), cases.width
    found = []
    for operator in sorted(set(cases.operator)):
        of = cases.operator == operator
        held = {name: np.zeros(len(error), dtype=bool) for name in ("operator", "target", "both")}
        held["operator"] = error <= fitted_factor(cases, ~of) * width
        for target in sorted(set(cases.target)):
            there = cases.target == target
            without = fitted_factor(cases, ~there)
            without_both = fitted_factor(cases, ~there & ~of)
            held["target"] |= there & (error <= without * width)
            held["both"] |= there & (error <= without_both * width)
        shares = [float(held[name][of].mean()) for name in ("operator", "target", "both")]
        found.append(OperatorCoverage(str(operator), int(of.sum()), *shares))
    return found


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

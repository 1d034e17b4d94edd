"""Whether the projection of operators holds beyond one pair of GPUs: every ordered pair that a set of
measurements has."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from smlab.hw_bench.datasets import OperatorTimes
from smlab.hw_bench.gpu.descriptions import list_gpus, load_gpu
from smlab.models.operators import OperatorSwitches
from smlab.validation.method.metrics import ErrorTable
from smlab.validation.projection.operators.judge import judge_projection


@dataclass(frozen=True)
class PairErrors:
    """The errors of one operator from one GPU to another, and of the rated figures' ratio."""

    source: str
    target: str
    operator: str
    projected: ErrorTable
    peak_ratio: ErrorTable


def all_pairs(times: OperatorTimes, switches: OperatorSwitches | None = None) -> list[PairErrors]:
    """Errors for every ordered pair of GPUs in ``times`` that have shapes in common, and every operator."""
    found = []
    for source, target in itertools.permutations(sorted(set(times.gpu) & set(list_gpus())), 2):
        judged = judge_projection(times, load_gpu(source), load_gpu(target), switches, parts=False)
        for errors in judged.operators:
            peak = dict(errors.baselines)["peak ratio"]
            found.append(PairErrors(source, target, errors.operator, errors.projected, peak))
    return found

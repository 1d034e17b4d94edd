"""How far an operator's time on another GPU can be predicted: error tables by operator, with baselines and
each part off.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.datasets import OperatorTimes
from smlab.hw_bench.datasets.operator_times import match, named_as
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.models.operators import (
    OperatorProjection,
    OperatorSwitches,
    OperatorWork,
    operator_work,
    project_operators,
)
from smlab.models.operators.work import OPERATORS
from smlab.validation.method.interval_errors import (
    BEST_CONSTANT,
    IntervalErrors,
    TimedIntervals,
    best_constant,
    interval_errors,
)
from smlab.validation.method.metrics import ErrorTable, error_table


def looked_at(times: OperatorTimes) -> NDArray[np.bool_]:
    """For each row, whether its shape belongs to the half that was looked at, (rows,)."""
    product = np.isin(times.operator, ["linear", "bmm"])
    seen = []
    for i in range(len(times)):
        name = times.variant[i]
        if product[i]:
            shape = f"{name}:{times.batch[i]},{times.m[i]},{times.n[i]},{times.k[i]},0"
        else:
            shape = f"{name}:{times.m[i]},0,0,0,{times.n[i]}"
        seen.append(hashlib.sha256(shape.encode()).digest()[0] % 2 == 0)
    return np.array(seen, dtype=bool)


Floats = NDArray[np.float64]

MIN_S: Final = 50e-6
"""Rows with a shorter time on either GPU are not judged: their time is the launch's more than the
kernel's."""

PAPER: Final = OperatorSwitches(
    **{**dict.fromkeys((field.name for field in fields(OperatorSwitches)), False), "sustained": True}
)
"""Van Lanker et al. 2024 as published: equation 9 with measured maxima."""


@dataclass(frozen=True)
class OperatorErrors:
    """Errors of the middle of the interval for one operator; all tables over the same rows but for
    ``halves``.

    The baselines of ``errors`` know the two GPUs' rated figures only, but for the best constant, which is
    fitted to the truth that it is judged on. ``parts`` is the method with one mechanism off. ``halves`` are
    the shapes looked at during the design and the others.
    """

    operator: str
    errors: IntervalErrors
    parts: tuple[tuple[str, ErrorTable], ...]
    halves: tuple[tuple[str, ErrorTable], ...]


@dataclass(frozen=True, eq=False)
class Judgement:
    """A projection of all shapes of ``source_rows``; ``actual_s`` is None where the set has no row of the
    target.

    ``operators`` are the error tables, empty where there is no truth; ``skipped`` lists rows that were not
    judged, with the reason; ``notes`` tell how rows were matched.
    """

    source: Gpu
    target: Gpu
    source_rows: OperatorTimes
    projection: OperatorProjection
    actual_s: Floats | None
    operators: tuple[OperatorErrors, ...]
    skipped: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]


def judge_projection(
    times: OperatorTimes,
    source: Gpu,
    target: Gpu,
    switches: OperatorSwitches | None = None,
    *,
    parts: bool = True,
) -> Judgement:
    """Project the rows of ``source`` in ``times`` onto ``target`` and judge them by the rows of the target.

    ``parts``: also with each mechanism off, which takes most of the time.

    Raises: SmlabError: no row of the source.
    """
    on = switches or OperatorSwitches()
    times = named_as(times, (source, target))
    present = sorted(set(times.gpu))
    if source.name not in present:
        raise SmlabError.at(str(times.path), "no measurement of the source", source.name, ", ".join(present))
    own = times.take(np.flatnonzero(times.gpu == source.name))
    skipped = list(times.skipped)
    if target.name not in present:
        alone = (f"no measurement of {target.name} in the set: nothing to compare with",)
        projection = project_operators(operator_work(own), own.seconds, source, target, on)
        return Judgement(source, target, own, projection, None, (), tuple(skipped), alone)
    here, there, notes = match(times, source.name, target.name)
    if not len(here):
        raise SmlabError(f"{times.path}: {source.name} and {target.name} have no shape in common")
    case = _Case(here, there.seconds, operator_work(here), source, target, on)
    projection = case.project(on)
    long = (here.seconds > MIN_S) & (there.seconds > MIN_S)
    if not long.all():
        skipped.append((str(times.path), f"{int((~long).sum())} shapes below {1e6 * MIN_S:g} us, not judged"))
    judged = []
    for operator in OPERATORS:
        rows = np.flatnonzero((here.operator == operator) & long)
        if len(rows):
            judged.append(_errors_of(operator, case.take(rows), projection, rows, parts))
    return Judgement(source, target, here, projection, there.seconds, tuple(judged), tuple(skipped), notes)


@dataclass(frozen=True, eq=False)
class _Case:
    """Rows that both GPUs have, with all that a projection of them takes."""

    here: OperatorTimes
    actual_s: Floats
    work: OperatorWork
    source: Gpu
    target: Gpu
    on: OperatorSwitches

    def take(self, rows: NDArray[np.int64]) -> _Case:
        return replace(
            self, here=self.here.take(rows), actual_s=self.actual_s[rows], work=self.work.take(rows)
        )

    def project(self, switches: OperatorSwitches) -> OperatorProjection:
        return project_operators(self.work, self.here.seconds, self.source, self.target, switches)


def _errors_of(
    operator: str, case: _Case, projection: OperatorProjection, rows: NDArray[np.int64], with_parts: bool
) -> OperatorErrors:
    """The errors of one operator's ``rows``; ``case`` has only them, ``projection`` all."""
    truth, mid = case.actual_s, projection.mid_s[rows]
    baselines = baseline_times(operator, case.here.seconds, truth, case.source, case.target)
    peak = baselines["peak ratio"]
    parts = [
        (name, error_table(case.project(changed).mid_s, truth, baseline=peak))
        for name, changed in (variants(case.on) if with_parts else [])
    ]
    seen = looked_at(case.here)
    halves = [
        (name, error_table(mid[half], truth[half], baseline=peak[half]))
        for name, half in (("looked at", seen), ("not looked at", ~seen))
        if half.any()
    ]
    times = TimedIntervals(case.here.seconds, projection.low_s[rows], mid, projection.high_s[rows])
    return OperatorErrors(
        operator, interval_errors(times, truth, baselines, "peak ratio"), tuple(parts), tuple(halves)
    )


def baseline_times(
    operator: str, before: Floats, truth: Floats, source: Gpu, target: Gpu
) -> dict[str, Floats]:
    """What the trivial predictors say, by name; (rows,) each.

    The peak ratio is that of the rated figure that bounds the operator: FP32 FLOP/s for products of matrices,
    DRAM bandwidth for all others. The best constant is the one of least MAPE on these very rows.
    """
    flops, bandwidth = (
        source.number(key) / target.number(key)
        for key in ("peak.fp32_flops_per_s", "dram.bandwidth_bytes_per_s")
    )
    return {
        "peak ratio": before * (flops if operator in ("linear", "bmm") else bandwidth),
        "FP32 ratio": before * flops,
        "bandwidth ratio": before * bandwidth,
        BEST_CONSTANT: before * best_constant(before, truth),
    }


NAMES: Final = {
    "sustained": "sustained maxima",
    "half": "half going along",
    "named": "named tiles",
    "waits": "waiting rows",
}
"""What tables call mechanisms whose switches say too little."""


def variants(switches: OperatorSwitches) -> list[tuple[str, OperatorSwitches]]:
    """The method as published, and as asked for with each mechanism the other way."""
    found = [("as published", PAPER)] if switches != PAPER else []
    for field in fields(OperatorSwitches):
        is_on = getattr(switches, field.name)
        name = NAMES.get(field.name, field.name)
        found.append(
            (f"{'without' if is_on else 'with'} {name}", replace(switches, **{field.name: not is_on}))
        )
    return found

"""How a campaign's estimates compare with the truth: by family, with coverage, and what the verdicts are
worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smlab.models.alternative_estimates import (
    AlternativeEstimates,
    joint_verdict,
    mean_over,
    mixed_interval,
)
from smlab.models.trust import CLOSED, CLOSED_BATCH, ESTIMATORS, OCCUPANCY, TrustMap, UtilizationEstimates
from smlab.models.verdict import BOTTLENECK, GAIN, NOT, Verdict, verdicts
from smlab.validation.method.metrics import PointErrors, points_table
from smlab.validation.service_tables import ServiceTables
from smlab.validation.trust.fit import estimate_campaign, joined_alternatives, joined_estimates, truth
from smlab.validation.trust.simulate import CampaignTable

Floats = NDArray[np.float64]
LEVEL = 0.9
ALL = "all families"
MIDDLE = "middle of floor and ceiling"
"""The trivial baseline: halfway between what the counters allow, with no queue model."""
PREDICTORS = (*ESTIMATORS, MIDDLE)


@dataclass(frozen=True)
class Reading:
    """The service tables under one alternative of a GPU's description, and its weight."""

    name: str
    weight: float
    tables: ServiceTables


@dataclass(frozen=True, eq=False)
class JudgedCampaign:
    """A campaign with everything that is estimated of it; arrays (rows of the table,), utilizations over the
    elapsed cycles.

    ``utilization`` and ``covered`` (whether the interval holds the truth) by estimator; ``width`` of the
    closed network's interval; ``outside`` whether the map flags the kernel; ``n`` by the closed network, over
    the elapsed time. Where there are several readings all of these are of their mixture, ``estimates`` are by
    the first of them, and ``by_reading`` has each.
    """

    table: CampaignTable
    estimates: UtilizationEstimates
    by_reading: tuple[AlternativeEstimates, ...]
    utilization: dict[str, Floats]
    covered: dict[str, NDArray[np.bool_]]
    width: Floats
    outside: NDArray[np.bool_]
    n: Floats
    verdicts: list[Verdict]

    @classmethod
    def joined(cls, parts: Sequence[JudgedCampaign]) -> JudgedCampaign:
        """Campaigns on several machines, one after the other; their readings must be the same."""

        def all_of(tables: Sequence[dict[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
            return {name: np.concatenate([t[name] for t in tables]) for name in tables[0]}

        return cls(
            table=CampaignTable.joined(p.table for p in parts),
            estimates=joined_estimates([p.estimates for p in parts]),
            by_reading=tuple(joined_alternatives([p.by_reading for p in parts])),
            utilization=all_of([p.utilization for p in parts]),
            covered=all_of([p.covered for p in parts]),
            width=np.concatenate([p.width for p in parts]),
            outside=np.concatenate([p.outside for p in parts]),
            n=np.concatenate([p.n for p in parts]),
            verdicts=[v for p in parts for v in p.verdicts],
        )


def judge(table: CampaignTable, tables: ServiceTables | Sequence[Reading], trust: TrustMap) -> JudgedCampaign:
    """Estimate all rows that have jobs, under each reading, and hold the mixture against the truth."""
    readings = (Reading("", 1.0, tables),) if isinstance(tables, ServiceTables) else tuple(tables)
    table = table.take(table.jobs > 0)
    parts = tuple(
        AlternativeEstimates(r.name, r.weight, estimate_campaign(table, r.tables)) for r in readings
    )
    active = table.active_cycles / table.elapsed_cycles
    exact = truth(table)
    covered = {}
    for name in ESTIMATORS:
        interval = mixed_interval(parts, trust, LEVEL, name)
        covered[name] = (interval.low - 1e-9 <= exact) & (exact <= interval.high + 1e-9)
    interval = mixed_interval(parts, trust, LEVEL, CLOSED)
    middle = [(p.estimates.features.floor + p.estimates.features.ceiling) / 2 for p in parts]
    by_estimator = {e: mean_over(parts, [p.estimates.utilization[e] for p in parts]) for e in ESTIMATORS}
    said = [verdicts(p.estimates, trust.interval(p.estimates, LEVEL)) for p in parts]
    together = verdicts(parts[0].estimates, interval)
    names = [p.name for p in parts]
    return JudgedCampaign(
        table=table,
        estimates=parts[0].estimates,
        by_reading=parts,
        utilization={
            name: u * active for name, u in {**by_estimator, MIDDLE: mean_over(parts, middle)}.items()
        },
        covered=covered,
        width=(interval.high - interval.low) * active,
        outside=np.array([bool(names) for names in interval.outside]),
        n=mean_over(parts, [p.estimates.closed.n for p in parts]) * active,
        verdicts=[joint_verdict(names, own, mixed) for *own, mixed in zip(*said, together, strict=True)],
    )


@dataclass(frozen=True)
class FamilyRow:
    """One family (or all): errors by estimator in points, coverage and mean width of the 90 % intervals,
    and of n in jobs."""

    family: str
    errors: dict[str, PointErrors]
    covered_percent: dict[str, float]
    width_points: float
    outside: int
    n_error: float
    n_bias: float


def by_family(judged: JudgedCampaign, seed: int = 0) -> list[FamilyRow]:
    """A row for each family, over whole kernels (one row a kernel), and one for all of them; flagged
    kernels are in."""
    whole = judged.table.whole
    rows = []
    for family in [*dict.fromkeys(judged.table.family.tolist()), ALL]:
        own = whole & ((judged.table.family == family) | (family == ALL))
        rows.append(row_of(judged, family, own, seed))
    return rows


def row_of(judged: JudgedCampaign, name: str, own: NDArray[np.bool_], seed: int = 0) -> FamilyRow:
    """The errors over the chosen rows."""
    exact = judged.table.utilization[own]
    off = judged.n[own] - judged.table.n[own]
    return FamilyRow(
        family=name,
        errors={e: points_table(judged.utilization[e][own], exact, seed=seed) for e in PREDICTORS},
        covered_percent={e: float(100 * judged.covered[e][own].mean()) for e in ESTIMATORS},
        width_points=float(100 * judged.width[own].mean()),
        outside=int(judged.outside[own].sum()),
        n_error=float(np.abs(off).mean()),
        n_bias=float(off.mean()),
    )


@dataclass(frozen=True)
class VerdictRow:
    """How many kernels got a verdict, and how many of them gain at least `GAIN` from a unit twice as fast."""

    verdict: str
    kernels: int
    gaining: int
    median_gain: float


def verdict_rows(judged: JudgedCampaign) -> list[VerdictRow]:
    """The verdicts on whole kernels against what a faster unit brings."""
    said = np.array([v.verdict for v in judged.verdicts])
    rows = []
    for verdict in (BOTTLENECK, NOT, "cannot tell"):
        gain = judged.table.gain[(said == verdict) & judged.table.whole]
        rows.append(
            VerdictRow(
                verdict, len(gain), int((gain >= GAIN).sum()), float(np.median(gain)) if len(gain) else np.nan
            )
        )
    return rows


def as_text(judged: JudgedCampaign) -> str:
    """The figures as a plain table, for the terminal: mean errors in points, and what the intervals and
    verdicts are worth."""
    heads = (
        "n",
        "U %",
        "occup.",
        ">100%",
        "middle",
        "batch",
        "looped",
        "p95",
        "worst",
        "bias",
        "cover %",
        "width",
        "out",
        "n off",
    )
    lines = [f"{'family':22s}" + "".join(f"{head:>8s}" for head in heads)]
    for row in by_family(judged):
        own = judged.table.whole & ((judged.table.family == row.family) | (row.family == ALL))
        published, batch, closed = (row.errors[e] for e in (OCCUPANCY, CLOSED_BATCH, CLOSED))
        values = (
            closed.n,
            100 * float(judged.table.utilization[own].mean()),
            published.mean_points,
            published.above_100,
            row.errors[MIDDLE].mean_points,
            batch.mean_points,
            closed.mean_points,
            closed.p95_points,
            closed.worst_points,
            closed.bias_points,
            row.covered_percent[CLOSED],
            row.width_points,
            row.outside,
            row.n_error,
        )
        cells = (f"{v:8d}" if isinstance(v, int) else f"{v:8.2f}" for v in values)
        lines.append(f"{row.family:22s}" + "".join(cells))
    lines += [
        f"{v.verdict}: {v.kernels} kernels, {v.gaining} gain 10 % or more from a unit twice as fast (median "
        f"{v.median_gain:.2f}x)"
        for v in verdict_rows(judged)
    ]
    return "\n".join(lines)

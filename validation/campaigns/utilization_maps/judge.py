"""How a campaign's estimates, and each set of counters, compare with the truth: by family, with coverage,
and what the verdicts tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smlab.models.utilization.alternative_estimates import (
    AlternativeEstimates,
    joint_verdict,
    mean_over,
    mixed_interval,
)
from smlab.models.utilization.counter_estimates import CounterAnswers, answer
from smlab.models.utilization.counter_maps import CHANGES, FASTER, SPREAD, CounterMaps
from smlab.models.utilization.counter_sets import SETS
from smlab.models.utilization.trust_map import CLOSED, ESTIMATORS, OCCUPANCY, TrustMap, UtilizationEstimates
from smlab.models.utilization.verdict import BOTTLENECK, CANNOT_TELL, GAIN, NOT, Verdict, verdicts
from smlab.validation.campaigns.utilization_maps.fit import (
    estimate_campaign,
    joined_alternatives,
    truth,
)
from smlab.validation.campaigns.utilization_maps.fit_maps import counters_of
from smlab.validation.campaigns.utilization_maps.indistinguishable import (
    IndistinguishableKernels,
    ordered_correctly_percent,
)
from smlab.validation.campaigns.utilization_maps.simulate import CampaignTable
from smlab.validation.method.metrics import PointErrors, points_table
from smlab.validation.service_tables import ServiceTables

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
            estimates=UtilizationEstimates.joined(p.estimates for p in parts),
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
    mixture = verdicts(parts[0].estimates, interval)
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
        verdicts=[joint_verdict(names, own, mixed) for *own, mixed in zip(*said, mixture, strict=True)],
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


NO_GAIN, AMDAHL = "no gain", "Amdahl by utilization"
BASELINES = (NO_GAIN, AMDAHL)
"""What a gain is held against: that nothing changes, and that the busy time halves (Amdahl's law), or shrinks
as its service does without conflicts, and all else stays."""


@dataclass(frozen=True, eq=False)
class JudgedSets:
    """Whole kernels of a campaign, (kernels,): the truth, and by set of counters what `answer` gives.

    ``utilization`` is over the elapsed cycles and ``active`` their active share; ``others`` are estimates
    that need no map, by name. ``gain`` by change is how many times as fast the kernel became, and
    ``baselines`` what is guessed of that without a map.
    """

    family: NDArray[np.object_]
    utilization: Floats
    active: Floats
    gain: dict[str, Floats]
    others: dict[str, Floats]
    baselines: dict[str, dict[str, Floats]]
    answers: dict[str, CounterAnswers]


@dataclass(frozen=True)
class SetRow:
    """What one set of counters is worth: errors of utilization in points and of speedups (times as fast, mean
    absolute), coverage in percent and mean width of 90 % intervals; how many kernels each verdict was given,
    and how many of them gain at least `GAIN`."""

    counters: str
    kernels: int
    utilization_points: float
    utilization_covered: float
    utilization_width: float
    gain_error: dict[str, float]
    gain_covered: dict[str, float]
    gain_width: dict[str, float]
    verdicts: dict[str, tuple[int, int]]

    @property
    def cannot_tell_percent(self) -> float:
        return 100 * self.verdicts[CANNOT_TELL][0] / self.kernels

    def gaining_percent(self, verdict: str) -> float:
        count, gaining = self.verdicts[verdict]
        return 100 * gaining / count if count else np.nan


def judge_sets(judged: JudgedCampaign, maps: CounterMaps) -> JudgedSets:
    """Answer for all whole kernels of a judged campaign from each set of counters."""
    whole = judged.table.whole
    table = judged.table.take(whole)
    counters = counters_of(table)
    parts = [p.take(whole) for p in judged.by_reading]
    active = table.active_cycles / table.elapsed_cycles
    closed = judged.utilization[CLOSED][whole]
    first = parts[0].estimates.features
    lighter = np.clip(1 / first.e, 0, 1)
    none = np.ones(len(closed))
    return JudgedSets(
        family=table.family,
        utilization=table.utilization,
        active=active,
        gain={FASTER: table.gain, SPREAD: table.gain_spread},
        others={name: judged.utilization[name][whole] for name in (CLOSED, MIDDLE, OCCUPANCY)},
        baselines={
            FASTER: {NO_GAIN: none, AMDAHL: 1 / (1 - closed / 2)},
            SPREAD: {NO_GAIN: none, AMDAHL: 1 / (1 - closed * (1 - lighter))},
        },
        answers={which: answer(parts, counters, which, maps, LEVEL) for which in SETS},
    )


def set_rows(judged: Sequence[JudgedSets]) -> list[SetRow]:
    """A row for each set of counters, over all kernels."""
    rows = []
    exact, active = _all(j.utilization for j in judged), _all(j.active for j in judged)
    for which in SETS:
        own = [j.answers[which] for j in judged]
        low, high = (_all(getattr(a.utilization, n) for a in own) * active for n in ("low", "high"))
        gains: dict[str, tuple[Floats, Floats, Floats]] = {
            change: (
                _all(a.gain[change].guess for a in own),
                _all(a.gain[change].low for a in own),
                _all(a.gain[change].high for a in own),
            )
            for change in CHANGES
        }
        truth = {change: _all(j.gain[change] for j in judged) for change in CHANGES}
        said = np.concatenate([a.verdict for a in own])
        gaining = truth[FASTER] >= GAIN
        rows.append(
            SetRow(
                which,
                len(exact),
                float(100 * np.abs(_all(a.utilization.guess for a in own) * active - exact).mean()),
                float(100 * _held(low, high, exact).mean()),
                float(100 * (high - low).mean()),
                {c: float(np.abs(gains[c][0] - truth[c]).mean()) for c in CHANGES},
                {c: float(100 * _held(*gains[c][1:], truth[c]).mean()) for c in CHANGES},
                {c: float((gains[c][2] - gains[c][1]).mean()) for c in CHANGES},
                {
                    v: (int((said == v).sum()), int(((said == v) & gaining).sum()))
                    for v in (BOTTLENECK, NOT, CANNOT_TELL)
                },
            )
        )
    return rows


def baseline_errors(judged: Sequence[JudgedSets]) -> dict[str, dict[str, float]]:
    """Mean absolute error of the speedup by each of `BASELINES`, by change."""
    return {
        change: {
            name: float(
                np.abs(
                    _all(j.baselines[change][name] for j in judged) - _all(j.gain[change] for j in judged)
                ).mean()
            )
            for name in BASELINES
        }
        for change in CHANGES
    }


def other_errors(judged: Sequence[JudgedSets]) -> dict[str, float]:
    """Mean error of utilization, in points, of what needs no map."""
    exact = _all(j.utilization for j in judged)
    names = judged[0].others
    return {n: float(100 * np.abs(_all(j.others[n] for j in judged) - exact).mean()) for n in names}


def estimated_by_set(
    equal_counters: IndistinguishableKernels, parts: Sequence[AlternativeEstimates], maps: CounterMaps
) -> dict[str, tuple[float, float]]:
    """By set of counters, the percentage of the pairs of ``equal_counters`` whose busier one is recognised,
    and the mean error of utilization in points; ``parts`` are the estimates under each reading."""
    counters, exact = counters_of(equal_counters.table), equal_counters.truth()
    active = equal_counters.table.active_cycles / equal_counters.table.elapsed_cycles
    found = {}
    for which in SETS:
        told = answer(parts, counters, which, maps, LEVEL).utilization.guess * active
        guess = told.reshape(exact.shape)
        found[which] = ordered_correctly_percent(exact, guess), float(100 * np.abs(guess - exact).mean())
    return found


def _all(parts: Iterable[Floats]) -> Floats:
    return np.concatenate(list(parts))


def _held(low: Floats, high: Floats, exact: Floats) -> NDArray[np.bool_]:
    return (low - 1e-6 <= exact) & (exact <= high + 1e-6)

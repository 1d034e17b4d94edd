"""Making the trust map: residuals of the estimators on a campaign, their quantiles, and what new families
ask for on top."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from smlab.models.utilization.alternative_estimates import AlternativeEstimates, mixed_utilization
from smlab.models.utilization.trust_map import (
    ESTIMATORS,
    LEVELS,
    RANGED,
    AtomicLoad,
    Features,
    Quantiles,
    TrustMap,
    UtilizationEstimates,
    estimate_all,
)
from smlab.validation.campaigns.utilization_maps.simulate import CampaignTable
from smlab.validation.service_tables import ServiceTables

Floats = NDArray[np.float64]

EDGES = {"saturation": (0.1, 0.3, 0.6, 0.9), "demand": (0.3, 1.0, 2.0), "warps": (6.0, 24.0)}
"""Where the bins part. Chosen on the families that fit, each left out in turn."""

PROBABILITIES = (
    *(
        0.005,
        0.01,
        0.015,
        0.02,
        0.025,
        0.03,
        0.04,
        0.05,
        0.06,
        0.08,
        0.1,
        0.125,
        0.15,
        0.2,
        0.25,
        0.3,
        0.4,
        0.5,
    ),
    *(0.6, 0.7, 0.75, 0.8, 0.85, 0.875, 0.9, 0.92, 0.94, 0.95, 0.96, 0.97, 0.975, 0.98, 0.985, 0.99, 0.995),
)
FEWEST = 80
"""Kernels in a bin below which it takes the quantiles of the bins that differ from it in warps only, or
else of all."""

OPEN_ABOVE, OPEN_BELOW = ("jobs", "jobs_per_warp"), ("demand", "saturation")
"""Features with no limit on one side: start and end matter ever less for a longer kernel, and on a unit that
is asked for less floor and ceiling meet."""
ENDLESS = 1e18

POOLED = np.arange(0.4, 0.9901, 0.01)
"""Levels of the pooled families, and of mixtures, that are tried for those of a new family."""
SLACK = 1e-9


def estimate_campaign(table: CampaignTable, tables: ServiceTables) -> UtilizationEstimates:
    """All estimators on the counters of a campaign's rows."""
    load = AtomicLoad(
        jobs=table.jobs / table.sms,
        active_cycles=table.active_cycles,
        warps=np.minimum(table.warps, tables.looped.n_max),
        e=table.wavefronts / table.jobs,
        cas_share=table.cas_jobs / table.jobs,
        peak_warps=np.minimum(table.peak_warps, tables.looped.n_max),
    )
    return estimate_all(load, tables.looped, tables.batch, tables.row)


def truth(table: CampaignTable) -> Floats:
    """The exact utilization over the active cycles, as the intervals speak of it."""
    return table.utilization * table.elapsed_cycles / table.active_cycles


def fit(
    families: NDArray[np.object_],
    estimates: UtilizationEstimates,
    exact: Floats,
    about: Mapping[str, object],
    edges: Mapping[str, Sequence[float]] = EDGES,
    readings: Sequence[AlternativeEstimates] = (),
) -> TrustMap:
    """The trust map of kernels of several ``families`` with their estimates and ``exact`` utilizations;
    all (kernels,).

    ``estimates`` are by the tables of each kernel's own machine. ``readings`` are what somebody has who does
    not know which alternative it is: estimates of the same kernels under each. Without them mixtures are
    taken at the level that is asked for.
    """
    features = estimates.features
    ranges = {n: _range(n, getattr(features, n)) for n in RANGED}
    blank = TrustMap(dict(about), {k: tuple(v) for k, v in edges.items()}, ranges, PROBABILITIES, {})
    found: dict[str, Quantiles] = {}
    for name in ESTIMATORS:
        residual = (exact - estimates.utilization[name]) / features.scale
        others, without = {}, {}
        for family in dict.fromkeys(families.tolist()):
            own = families == family
            others[family] = Quantiles(_quantiles(blank, features.take(~own), residual[~own]), (), (), {})
            judged = replace(blank, estimators={name: others[family]})
            without[str(family)] = _coverage(judged, estimates.take(own), exact[own], name)
        pooled = _levels(np.mean(list(without.values()), axis=0))
        mixed = LEVELS[: len(pooled)]
        if readings:
            held = []
            for family, quantiles in others.items():
                own = families == family
                judged = replace(blank, estimators={name: replace(quantiles, pooled=pooled)})
                held.append(_mixed_coverage(judged, [r.take(own) for r in readings], exact[own], name))
            mixed = _levels(np.mean(held, axis=0))[: len(pooled)]
        reached = dict(zip(LEVELS, pooled, strict=False)).get(0.9, POOLED[-1])
        left_out = {f: float(100 * np.interp(reached, POOLED, held)) for f, held in without.items()}
        found[name] = Quantiles(_quantiles(blank, features, residual), pooled, mixed, left_out)
    return replace(blank, estimators=found)


def _coverage(trust: TrustMap, estimates: UtilizationEstimates, exact: Floats, estimator: str) -> Floats:
    """The share of the kernels that pooled intervals of each of the `POOLED` levels hold."""
    ends = (trust.pooled_interval(estimates, level, estimator) for level in POOLED)
    return np.array([((low - SLACK <= exact) & (exact <= high + SLACK)).mean() for low, high in ends])


def _mixed_coverage(
    trust: TrustMap, readings: Sequence[AlternativeEstimates], exact: Floats, estimator: str
) -> Floats:
    """The share of the kernels that mixtures hold between their quantiles at each of the `POOLED` levels."""
    mixture = mixed_utilization(readings, trust, estimator)
    ends = (mixture.ends(level) for level in POOLED)
    return np.array([((low - SLACK <= exact) & (exact <= high + SLACK)).mean() for low, high in ends])


def _levels(coverage: Floats) -> tuple[float, ...]:
    """For each of `LEVELS` that of the `POOLED` ones whose ``coverage`` of families left out is that, as far
    as there is one."""
    grown = np.maximum.accumulate(coverage)
    return tuple(float(np.interp(level, grown, POOLED)) for level in LEVELS if level <= grown[-1])


def _range(name: str, values: Floats) -> tuple[float, float]:
    """The least and the greatest, with a thousandth to spare for the rounding in the file; open where more
    cannot hurt."""
    low = 0.0 if name in OPEN_BELOW else float(values.min()) * 0.999
    high = ENDLESS if name in OPEN_ABOVE else float(values.max()) * 1.001
    return low, high


def _quantiles(blank: TrustMap, features: Features, residual: Floats) -> tuple[tuple[float, ...], ...]:
    """The residual's quantiles in each bin; the k-th of m values stands at probability k / (m + 1), as
    conformal sets ask."""
    bins = blank.bins(features)
    last = len(blank.edges["warps"]) + 1
    rows = []
    for number in range(blank.bin_count):
        inside = residual[bins == number]
        if len(inside) < FEWEST:
            inside = residual[bins // last == number // last]
        if len(inside) < FEWEST:
            inside = residual
        rows.append(tuple(np.quantile(inside, PROBABILITIES, method="weibull").tolist()))
    return tuple(rows)


def holds(
    trust: TrustMap, estimates: UtilizationEstimates, exact: Floats, level: float, estimator: str
) -> NDArray[np.bool_]:
    """Whether each interval holds the exact value."""
    interval = trust.interval(estimates, level, estimator)
    held: NDArray[np.bool_] = (interval.low - SLACK <= exact) & (exact <= interval.high + SLACK)
    return held


def joined_alternatives(parts: Sequence[Sequence[AlternativeEstimates]]) -> list[AlternativeEstimates]:
    """What each alternative says of several campaigns, one after the other; they must be of equal names."""
    found = []
    for several in zip(*parts, strict=True):
        if len({(a.name, a.weight) for a in several}) != 1:
            raise ValueError("campaigns on machines with unequal alternatives")
        found.append(AlternativeEstimates.joined(several))
    return found

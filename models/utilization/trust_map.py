"""How far an estimate of the atomic unit's utilization can be trusted: intervals learnt where the truth is
known.

The trust map (``models/utilization/trust_map.json``) comes from a campaign of simulated kernels whose exact
utilization is known; made anew by ``python -m smlab.validation.campaigns.utilization_maps --out
models/utilization/trust_map.json``. What it holds is in numbers without a unit of their own, so that it
serves every GPU with a service table:

- *floor* and *ceiling*: the counted throughput X times the least and the most time that the unit can be busy
  with a job, S at full load and S(1). They follow from the counters and the table alone. How the arrivals are
  strewn decides where between them the truth lies, and no counter shows that. The ceiling is one of a kernel
  whose atomics wait for atomics alone: behind scattered loads in their sub-core they may stay longer.
- an estimate's *residual*: (truth - estimate) / (ceiling - floor). Its quantiles, in bins of what counters
  see, give the interval: split-conformal prediction with the local scale ceiling - floor (J. Lei, M. G'Sell,
  A. Rinaldo, R. Tibshirani, L. Wasserman, "Distribution-free predictive inference for regression", JASA 113,
  2018, Section 5.2).
- the families of the campaign are pooled with equal weight, and a kernel of a new family is less like them
  than they are like themselves. So the quantiles for a level are taken further out. That goes on until
  intervals made without a family hold that level's share of its kernels, in the mean over the families.
  (Families, not kernels, are what is drawn at random: R. Dunn, L. Wasserman, A. Ramdas, "Distribution-free
  prediction sets for two-layer hierarchical models", JASA 118, 2023.) Where a description leaves a choice,
  what is told is a mixture, and its level is found in the same way. ``left_out`` says how many of each
  family's 90 % intervals then hold, and `smlab validate` counts them on families that the map has never seen.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.rows import Rows
from smlab.models.utilization.closed_estimator import ClosedEstimate, estimate_closed
from smlab.models.utilization.model_files import check_features, read_map, write_map
from smlab.models.utilization.service_table import ServiceTable
from smlab.models.utilization.simultaneous_arrivals import BatchService, batch_service

Floats = NDArray[np.float64]

VERSION: Final = 3
PATH: Final = Path(__file__).with_name("trust_map.json")
MAKE: Final = "python -m smlab.validation.campaigns.utilization_maps --out models/utilization/trust_map.json"

OCCUPANCY, CLOSED_BATCH, CLOSED = "occupancy", "closed, batch table", "closed, looped table"
ESTIMATORS: Final = (OCCUPANCY, CLOSED_BATCH, CLOSED)

OUTSIDE: Final = "outside the trust map"
MIN_SCALE: Final = 0.02
"""The scale of residuals where floor and ceiling meet: the table interpolates, and jobs of one kernel
differ."""


@dataclass(frozen=True, eq=False)
class Features(Rows):
    """What the counters and the looped table say of each kernel before any queue is modelled; all arrays
    (kernels,).

    ``jobs`` are those of an SM, ``warps`` those resident on average over the active cycles. ``jobs_per_warp``
    is their ratio. ``e`` counts the lanes serialised per job, ``cas_share`` is the compare-and-swaps' part of
    the jobs. ``throughput`` is in jobs per active cycle. ``saturation`` is throughput over the most that
    ``warps`` can draw from the unit, if they wait for every result. ``demand`` is throughput times S(1): the
    utilization if no two jobs ever met. ``floor`` and ``ceiling`` bound the utilization over the active
    cycles (0 .. 1); ``spread`` S(1) over S at full load; ``conflict_free`` S at full load if no lanes met (e
    = 1) over that.
    """

    jobs: Floats
    warps: Floats
    jobs_per_warp: Floats
    e: Floats
    cas_share: Floats
    throughput: Floats
    saturation: Floats
    demand: Floats
    floor: Floats
    ceiling: Floats
    spread: Floats
    conflict_free: Floats

    @property
    def scale(self) -> Floats:
        """How far floor and ceiling are apart: what the counters leave open."""
        return np.maximum(self.ceiling - self.floor, MIN_SCALE)


@dataclass(frozen=True, eq=False)
class UtilizationEstimates(Rows):
    """Utilization of each kernel over its active cycles, by estimator, with `Features` and the closed
    network's answer.

    ``utilization`` maps each of `ESTIMATORS` to an array (kernels,); only the occupancy estimator can exceed
    1.
    """

    utilization: dict[str, Floats]
    features: Features
    closed: ClosedEstimate
    batch_service: BatchService


@dataclass(frozen=True, eq=False)
class AtomicLoad:
    """What the counters say of each kernel's atomics: arguments of `estimate_closed`, arrays (kernels,) or
    broadcastable to it; without ``peak_warps`` as many as ``warps``."""

    jobs: ArrayLike
    active_cycles: ArrayLike
    warps: ArrayLike
    e: ArrayLike
    cas_share: ArrayLike
    peak_warps: ArrayLike | None = None


def estimate_all(
    load: AtomicLoad, looped: ServiceTable, batch: ServiceTable | None = None, row: ServiceTable | None = None
) -> UtilizationEstimates:
    """All estimators on the same counters; those on ``batch`` if it is given. ``row``: what
    `smlab.models.utilization.simultaneous_arrivals.batch_service` wants to know of one warp's jobs.

    Kernels with no jobs or no warps are not meant to come here: `SmlabError`.
    """
    peak_warps = load.warps if load.peak_warps is None else load.peak_warps
    columns = (load.jobs, load.active_cycles, load.warps, load.e, load.cas_share, peak_warps)
    arrays = (np.asarray(x, dtype=np.float64).ravel() for x in columns)
    jobs, active, warps, e, share, peak = np.broadcast_arrays(*arrays)
    closed = estimate_closed(jobs, active, warps, e, share, looped, peak)
    utilization = {CLOSED: closed.utilization}
    if batch is not None:
        utilization[OCCUPANCY] = jobs * batch.service_cycles(warps, e, warps * share) / active
        utilization[CLOSED_BATCH] = estimate_closed(jobs, active, warps, e, share, batch, peak).utilization
    full = float(looped.n_max)
    at_full, alone = looped.service_cycles(full, e, full * share), looped.service_cycles(1.0, e, share)
    throughput = jobs / active
    features = Features(
        jobs=jobs,
        warps=warps,
        jobs_per_warp=jobs / warps,
        e=e,
        cas_share=share,
        throughput=throughput,
        saturation=closed.saturation,
        demand=throughput * alone,
        floor=np.minimum(1.0, throughput * at_full),
        ceiling=np.minimum(1.0, throughput * alone),
        spread=alone / at_full,
        conflict_free=looped.service_cycles(full, 1.0, full * share) / at_full,
    )
    served = batch_service(e, share, alone, at_full, batch, row)
    return UtilizationEstimates(utilization, features, closed, served)


BINNED: Final = ("saturation", "demand", "warps")
"""The features that the map tells kernels apart by."""

LEVELS: Final = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95)
"""Levels at which `Quantiles.pooled` is known, as far as the map reaches; 0 is 0, and between them it is
interpolated."""

RANGED: Final = ("warps", "jobs", "jobs_per_warp", "spread", "demand", "saturation")
"""The features in which a kernel must be within the campaign's range."""

NEAR: Final = 0.05
"""A kernel that leaves a range by less than this share is still like those within. The ends are extremes of a
sample, and service tables change by some percent with the simulator's rules."""


@dataclass(frozen=True)
class UtilizationInterval:
    """Intervals of many kernels at one level, over the active cycles; ``low`` and ``high`` (kernels,), 0 ..
    1.

    ``outside`` names for each kernel the features in which it leaves the campaign's range, or is empty. There
    the interval is no guess: it is floor to ceiling, which hold whatever the arrivals are like.
    """

    level: float
    low: Floats
    high: Floats
    outside: tuple[tuple[str, ...], ...]

    @property
    def flags(self) -> tuple[tuple[str, ...], ...]:
        """For each kernel, what a report says beside its interval."""
        return tuple((f"{OUTSIDE}: {', '.join(names)}",) if names else () for names in self.outside)


@dataclass(frozen=True)
class Quantiles:
    """Residuals of one estimator: ``quantiles[bin][k]`` at ``probabilities[k]`` of the map.

    ``pooled[i]`` is the level to take of the pooled families for level `LEVELS` [i] on a new one; it ends
    where the map does. ``mixed[i]`` is the level to take of a mixture of alternatives for that level.
    ``left_out``: by family, the percentage of its kernels that a 90 % interval of the other families covers.
    """

    quantiles: tuple[tuple[float, ...], ...]
    pooled: tuple[float, ...]
    mixed: tuple[float, ...]
    left_out: dict[str, float]

    def pooled_level(self, level: float) -> float:
        """The level to take of the pooled families."""
        return _level(level, self.pooled)

    def mixture_level(self, level: float) -> float:
        """The level to take of a mixture of alternatives, each with quantiles at the pooled levels."""
        return _level(level, self.mixed)


def _level(level: float, known: tuple[float, ...]) -> float:
    return float(np.interp(level, (0.0, *LEVELS[: len(known)]), (0.0, *known)))


@dataclass(frozen=True)
class CoverageRecord:
    """How many of the 90 % intervals held for families of kernels that were left out of the fit: ``mean`` and
    ``least`` in percent over ``families``, ``least`` that of ``least_family``."""

    families: int
    mean: float
    least: float
    least_family: str


@dataclass(frozen=True)
class TrustMap:
    """The map: ``edges`` of the bins by feature (of `BINNED`), ``ranges`` by feature (of `RANGED`), residuals
    by estimator.

    ``about`` tells how it was made: the command, GPUs, families, kernels, seed.
    """

    about: dict[str, Any]
    edges: dict[str, tuple[float, ...]]
    ranges: dict[str, tuple[float, float]]
    probabilities: tuple[float, ...]
    estimators: dict[str, Quantiles]

    def held(self, estimator: str = CLOSED) -> CoverageRecord:
        """How often the 90 % intervals of an estimator held where they were judged."""
        by_family = self.estimators[estimator].left_out
        worst = min(by_family, key=by_family.__getitem__)
        return CoverageRecord(
            len(by_family), float(np.mean(list(by_family.values()))), by_family[worst], worst
        )

    def bins(self, features: Features) -> NDArray[np.int64]:
        """The bin of each kernel, shape (kernels,)."""
        bins = np.zeros(len(features.jobs), dtype=np.int64)
        for name in BINNED:
            bins = bins * (len(self.edges[name]) + 1) + np.searchsorted(
                self.edges[name], getattr(features, name)
            )
        return bins

    @property
    def bin_count(self) -> int:
        return int(np.prod([len(self.edges[name]) + 1 for name in BINNED]))

    def outside(self, features: Features) -> tuple[tuple[str, ...], ...]:
        """For each kernel, in which features it is beyond the campaign."""
        values = {n: getattr(features, n) for n in self.ranges}
        beyond = {
            n: (values[n] < (1 - NEAR) * low) | (values[n] > (1 + NEAR) * high)
            for n, (low, high) in self.ranges.items()
        }
        any_beyond = np.logical_or.reduce(list(beyond.values()))
        nothing: tuple[str, ...] = ()
        return tuple(
            tuple(n.replace("_", " ") for n, bad in beyond.items() if bad[i]) if any_beyond[i] else nothing
            for i in range(len(any_beyond))
        )

    def interval(
        self, estimates: UtilizationEstimates, level: float = 0.9, estimator: str = CLOSED
    ) -> UtilizationInterval:
        """The interval of each kernel's utilization at ``level``.

        `SmlabError` for a level that the map does not reach and for an estimator that it does not know.
        """
        if estimator not in self.estimators:
            raise SmlabError.at("estimator", "not in the trust map", estimator, ", ".join(self.estimators))
        quantiles = self.estimators[estimator]
        most = LEVELS[len(quantiles.pooled) - 1]
        if not 0 < level <= most + 1e-9:
            raise SmlabError.at("level", "not in the trust map", level, f"above 0, at most {most:g}")
        low, high = self.pooled_interval(estimates, quantiles.pooled_level(level), estimator)
        outside = self.outside(estimates.features)
        beyond = np.array([bool(names) for names in outside], dtype=bool)
        low = np.where(beyond, estimates.features.floor, low)
        high = np.where(beyond, estimates.features.ceiling, high)
        return UtilizationInterval(level, np.minimum(low, high), np.maximum(low, high), outside)

    def pooled_interval(
        self, estimates: UtilizationEstimates, level: float, estimator: str
    ) -> tuple[Floats, Floats]:
        """Low and high of an interval that holds ``level`` of the map's own families together."""
        table = np.array(self.estimators[estimator].quantiles)
        bins = self.bins(estimates.features)
        ends = []
        for probability in ((1 - level) / 2, (1 + level) / 2):
            by_bin = np.array([np.interp(probability, self.probabilities, row) for row in table])
            ends.append(estimates.utilization[estimator] + by_bin[bins] * estimates.features.scale)
        return np.clip(ends[0], 0, 1), np.clip(ends[1], 0, 1)

    def write(self, path: Path) -> None:
        """Write the map as JSON, numbers rounded to what they are known to."""
        document = {"format": "smlab trust map", "version": VERSION, **asdict(self)}
        write_map(path, document)

    @classmethod
    def read(cls, path: Path = PATH) -> TrustMap:
        """Read what `write` wrote; `SmlabError` naming the file and the command that makes it on anything
        else, and on a map of other features than `BINNED` and `RANGED`."""
        with read_map(path, "trust map", VERSION, MAKE) as document:
            known = cls(
                about=document["about"],
                edges={k: tuple(v) for k, v in document["edges"].items()},
                ranges={k: (v[0], v[1]) for k, v in document["ranges"].items()},
                probabilities=tuple(document["probabilities"]),
                estimators={
                    name: Quantiles(
                        tuple(tuple(row) for row in q["quantiles"]),
                        tuple(q["pooled"]),
                        tuple(q["mixed"]),
                        q["left_out"],
                    )
                    for name, q in document["estimators"].items()
                },
            )
        check_features(f"{path}: edges", sorted(known.edges), sorted(BINNED))
        check_features(f"{path}: ranges", sorted(known.ranges), sorted(RANGED))
        return known


@cache
def shipped_map() -> TrustMap:
    """The map that comes with smlab."""
    return TrustMap.read(PATH)

"""Rows of ``smlab utilization``: every launch (and SM) of a profile with its estimate, interval, verdict
and flags."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from smlab.commands.utilization.answers import GainAnswer, answer_kernels, counters_beside, opposed
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.profiles import AtomicQuantities
from smlab.hw_bench.profiles.atomics.atomic_samples import AtomicSamples
from smlab.hw_bench.profiles.atomics.warp_counters import PathCounters
from smlab.hw_bench.profiles.counter_table import WHOLE_GPU
from smlab.hw_bench.sass.linking import readable_name
from smlab.models.utilization.alternative_estimates import (
    AlternativeEstimates,
    joint_verdict,
    mean_over,
    mixed_interval,
)
from smlab.models.utilization.counter_maps import shipped_maps
from smlab.models.utilization.counter_sets import ATOMIC, Counters
from smlab.models.utilization.service_table import ServiceTable
from smlab.models.utilization.trust_map import (
    CLOSED,
    CLOSED_BATCH,
    OCCUPANCY,
    AtomicLoad,
    TrustMap,
    UtilizationEstimates,
    estimate_all,
    shipped_map,
)
from smlab.models.utilization.verdict import BOTTLENECK, CANNOT_TELL, NOT, Verdict, percent_range, verdicts

LEVEL = 0.9

E_FROM_LANES = "e from active lanes: the profile counts no wavefronts"
UNLIKE = "estimated from fewer counters: by the others it is unlike the training kernels"
SHORT_OF_TABLE = "more warps than the table has jobs: cut off"
BATCH_ONLY = "batch table: it holds the filling and draining of the pipeline, so the estimate is high"

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class TablePair:
    """The service tables to estimate with: ``looped`` for the closed network, ``batch`` for the occupancy
    estimator, or one; ``row`` for one warp's jobs in a row, where there is one."""

    looped: ServiceTable | None
    batch: ServiceTable | None
    row: ServiceTable | None = None

    @property
    def estimator(self) -> str:
        """Which of the estimators the utilization and its interval are of."""
        return CLOSED if self.looped else CLOSED_BATCH

    @property
    def main(self) -> ServiceTable:
        table = self.looped or self.batch
        assert table is not None
        return table


@dataclass(frozen=True)
class AlternativeTables:
    """The tables of one alternative of a GPU's description, and its weight."""

    name: str
    weight: float
    tables: TablePair


@dataclass(frozen=True)
class AlternativeAnswer:
    """What one alternative says of a launch or SM: as the columns of that name in `KernelRow`."""

    name: str
    weight: float
    occupied: float
    saturation: float
    utilization: float
    low: float
    high: float
    verdict: str


@dataclass(frozen=True, repr=False)
class KernelRow:
    """One launch, or one SM of it (``sm`` None: the whole GPU). ``jobs`` and ``cas_jobs`` are summed over its
    SMs.

    Two numbers say what bounds throughput. ``occupied`` is the share of the elapsed cycles that the unit
    needs for these jobs when it is kept fed (1: it takes no more). ``saturation`` is the throughput over the
    most that this many warps can draw from the unit, each waiting for its result. ``utilization`` is the
    share with a job in the unit (n > 0, the paper's); ``latency`` is what of it is no work but waiting for
    results.

    For each SM (the mean) it has the resident ``warps``, and the jobs in the unit ``n`` and compare-and-swap
    jobs ``c`` over the elapsed time. ``n`` and ``c`` are best guesses without an interval: no counter tells
    how the atomics come, so they are not printed. ``busy_cycles`` are a part of ``elapsed_cycles``, and
    ``service_cycles`` the busy time per job. ``utilization`` is that of the closed network with its 90 %
    interval ``low`` to ``high``, and as published. ``e``: lanes serialised per job.

    ``counters`` is the set of counters that utilization, ``gain`` and verdict are told from
    (`smlab.models.utilization.counter_sets`), the richest that the profile has; ``gain`` is empty where no
    map knows such kernels.

    Where the description carries alternatives, all these are their means by weight, the interval is that of
    their mixture, and ``alternatives`` says what each gives; ``utilization_occupancy`` is by the first.
    """

    kernel: str
    launch: int
    sm: int | None
    jobs: float
    cas_jobs: float
    warps: float
    n: float
    e: float
    c: float
    occupied: float
    saturation: float
    latency: float
    service_cycles: float
    busy_cycles: float
    elapsed_cycles: float
    utilization: float
    low: float
    high: float
    utilization_occupancy: float
    verdict: str
    flags: tuple[str, ...]
    counters: str
    gain: tuple[GainAnswer, ...]
    alternatives: tuple[AlternativeAnswer, ...]
    why: Verdict = field(compare=False, repr=False)

    def __repr__(self) -> str:
        where = "" if self.sm is None else f", SM {self.sm}"
        return _told(self, where)

    def as_json(self) -> dict[str, Any]:
        row = {k: v for k, v in asdict(self).items() if k != "why"}
        gain = {g.change: {"speedup": g.speedup, "low": g.low, "high": g.high} for g in self.gain}
        lists = {"flags": list(self.flags), "alternatives": list(row["alternatives"])}
        return {**row, **lists, "gain": gain}


def estimate_rows(
    quantities: AtomicQuantities,
    by_alternative: Sequence[AlternativeTables],
    gpu: Gpu,
    path: PathCounters | None = None,
    samples: Sequence[AtomicSamples] = (),
) -> list[KernelRow]:
    """The estimates of all launches (and SMs) at once, under each alternative that has tables. They use all
    that the profile counts beside the atomics (``path``), and ``samples`` of its kernels."""
    tables, trust, q = by_alternative[0].tables, shipped_map(), quantities
    busy = q.jobs > 0
    if not busy.any():
        return []
    table = tables.main
    from_lanes = np.isnan(q.wavefronts)
    passes = np.where(from_lanes, q.thread_operations, q.wavefronts)
    with np.errstate(divide="ignore", invalid="ignore"):
        e = np.where(busy, passes / q.jobs, np.nan)
        share = np.where(busy, q.cas_jobs / q.jobs, 0.0)
    e_used, warps_used = np.clip(e, 1, table.e_max), np.minimum(q.mean_active_warps, table.n_max)
    peak = np.minimum(np.fmax(q.peak_warps, warps_used), table.n_max)
    given = np.stack([q.jobs / q.sms, q.active_cycles, warps_used, e_used, share, peak])[:, busy]
    parts = [AlternativeEstimates(a.name, a.weight, _estimates(a.tables, given)) for a in by_alternative]
    found = parts[0].estimates
    counters = counters_beside(q, passes, path, samples).take(busy)
    told = answer_kernels(parts, counters, trust, shipped_maps(), tables.estimator, LEVEL)
    interval = mixed_interval(parts, trust, LEVEL, tables.estimator)
    interval = replace(interval, low=told.low, high=told.high)
    merges = tuple(int(x) for x in gpu.compute_capability.split(".")) >= (8, 0)
    place = np.cumsum(busy) - 1
    share_active = q.active_cycles / np.where(q.elapsed_cycles > 0, q.elapsed_cycles, 1)
    answers = _by_alternative(parts, counters, trust, tables.estimator, merges, share_active[busy])
    mixture = verdicts(
        found, interval, merges_increments=merges, active=share_active[busy], words=told.words.tolist()
    )
    said = [
        joint_verdict([p.name for p in parts], own, by_mixture)
        if word is None or opposed([why.verdict for why in own])
        else by_mixture
        for own, by_mixture, word in zip(
            ([why for _, why in row] for row in answers), mixture, told.words.tolist(), strict=True
        )
    ]
    active = share_active.tolist()
    main = told.guess.tolist()
    published = found.utilization.get(OCCUPANCY, np.full(int(busy.sum()), np.nan)).tolist()
    low, high = interval.low.tolist(), interval.high.tolist()
    n_all = mean_over(parts, [p.estimates.closed.n for p in parts]).tolist()
    outside = interval.flags
    saturation = mean_over(parts, [p.estimates.closed.saturation for p in parts]).tolist()
    floors = mean_over(parts, [p.estimates.features.floor for p in parts]).tolist()
    idle = Verdict(NOT, "no shared-memory atomics on this SM")
    rows = []
    columns = (q.kernel, q.launch, q.sm, q.sms, q.jobs, q.cas_jobs, q.mean_active_warps, q.elapsed_cycles)
    for i, (kernel, launch, sm, sms, jobs, cas, warps, elapsed) in enumerate(
        zip(*(c.tolist() for c in columns), strict=True)
    ):
        k = int(place[i])
        if busy[i]:
            u, n, why = main[k] * active[i], n_all[k] * active[i], said[k]
            ends = (low[k] * active[i], high[k] * active[i], published[k] * active[i])
            flags, own = list(outside[k]), tuple(answer for answer, _ in answers[k])
            occupied, full = floors[k] * active[i], saturation[k]
            used, gain = str(told.counters[k]), told.gains[k]
        else:
            u, n, why, ends, flags, own = 0.0, 0.0, idle, (0.0, 0.0, 0.0), [], ()
            occupied = full = 0.0
            used, gain = ATOMIC, ()
        if busy[i] and from_lanes[i]:
            flags.append(E_FROM_LANES)
        if busy[i] and e[i] != e_used[i]:
            flags.append(f"e = {e[i]:.2f} lies outside the table: {e_used[i]:g} is taken")
        if busy[i] and told.unlike[k]:
            flags.append(UNLIKE)
        if warps > table.n_max:
            flags.append(SHORT_OF_TABLE)
        if tables.looped is None:
            flags.append(BATCH_ONLY)
        if busy[i] and saturation[k] > 1:
            flags.append(_beyond(saturation[k], floors[k]))
        rows.append(
            KernelRow(
                kernel=str(kernel),
                launch=launch,
                sm=None if sm == WHOLE_GPU else sm,
                jobs=jobs,
                cas_jobs=cas,
                warps=warps,
                n=n,
                e=float(e[i]),
                c=n * float(share[i]),
                occupied=occupied,
                saturation=full,
                latency=max(0.0, u - occupied),
                service_cycles=u * elapsed * sms / jobs if busy[i] else math.nan,
                busy_cycles=u * elapsed,
                elapsed_cycles=elapsed,
                utilization=u,
                low=ends[0],
                high=ends[1],
                utilization_occupancy=ends[2],
                verdict=why.verdict,
                flags=tuple(flags),
                counters=used,
                gain=gain,
                alternatives=own,
                why=why,
            )
        )
    return rows


def _by_alternative(
    parts: Sequence[AlternativeEstimates],
    counters: Counters,
    trust: TrustMap,
    estimator: str,
    merges: bool,
    active: Floats,
) -> list[list[tuple[AlternativeAnswer, Verdict]]]:
    """For each kernel what each alternative says, ``active`` being the active share of its elapsed cycles."""
    columns = []
    for p in parts:
        told = answer_kernels([p], counters, trust, shipped_maps(), estimator, LEVEL)
        interval = replace(trust.interval(p.estimates, LEVEL, estimator), low=told.low, high=told.high)
        said = verdicts(
            p.estimates, interval, merges_increments=merges, active=active, words=told.words.tolist()
        )
        numbers = np.stack(
            [
                p.estimates.features.floor * active,
                p.estimates.closed.saturation,
                told.guess * active,
                interval.low * active,
                interval.high * active,
            ],
            axis=1,
        )
        columns.append(
            [
                (AlternativeAnswer(p.name, p.weight, work, full, u, low, high, why.verdict), why)
                for (work, full, u, low, high), why in zip(numbers.tolist(), said, strict=True)
            ]
        )
    return [list(own) for own in zip(*columns, strict=True)]


def _estimates(tables: TablePair, given: Floats) -> UtilizationEstimates:
    """All estimators that the tables allow; ``given`` (6, kernels): jobs, active cycles, warps, e, share
    of CAS, peak warps."""
    load = AtomicLoad(*given)
    if tables.looped is not None:
        return estimate_all(load, tables.looped, tables.batch, tables.row)
    assert tables.batch is not None
    # Only a batch table: the closed network has to do with it, and is then the estimator of that name.
    found = estimate_all(load, tables.batch, tables.batch)
    return UtilizationEstimates(
        {n: u for n, u in found.utilization.items() if n != CLOSED},
        found.features,
        found.closed,
        found.batch_service,
    )


def _beyond(saturation: float, floor: float) -> str:
    """What a throughput says that warps which wait for each result could not reach."""
    if floor >= 1:
        return (
            f"throughput {100 * saturation:.0f} % of what the table's unit can do: the real one is "
            f"faster than the table"
        )
    return "throughput beyond what waiting for each result allows: warps have several atomics in flight"


@dataclass(frozen=True, repr=False)
class LaunchRow(KernelRow):
    """A launch as a whole, for print and for comparing. `MEANS` are over ``sms`` SMs (0: the profile counts
    the whole GPU only). The verdict on the launch, with its reason, is that of ``agreeing`` of the SMs. All
    else is of the busiest of these."""

    sms: int
    agreeing: int

    def __repr__(self) -> str:
        return _told(self, f", {self.sms} SMs" if self.sms else "")

    def as_json(self) -> dict[str, Any]:
        """What a comparison tells of it."""
        busy = ("occupied", "saturation", "utilization", "low", "high", "elapsed_cycles")
        return {name: getattr(self, name) for name in ("kernel", "launch", *busy, "verdict")}


def _told(row: KernelRow, where: str) -> str:
    busy = percent_range(row.low, row.high)
    return f"<{readable_name(row.kernel)}, launch {row.launch}{where}: {row.verdict}, busy {busy} %>"


MEANS: Final = (
    *("occupied", "saturation", "utilization", "low", "high", "warps", "e", "service_cycles"),
    "utilization_occupancy",
)
"""What of a launch is the mean of its SMs."""


def launches(rows: Iterable[KernelRow]) -> list[LaunchRow]:
    """The launches in order; one SM that is a bottleneck makes the launch one, and all must have room for
    it to have room."""
    groups: dict[tuple[str, int], list[KernelRow]] = {}
    for row in rows:
        groups.setdefault((row.kernel, row.launch), []).append(row)
    return [_launch_of(members) for members in groups.values()]


def _launch_of(members: list[KernelRow]) -> LaunchRow:
    said = {row.verdict for row in members}
    verdict = BOTTLENECK if BOTTLENECK in said else NOT if said == {NOT} else CANNOT_TELL
    agreeing = [row for row in members if row.verdict == verdict] or members
    busiest = max(agreeing, key=lambda row: row.utilization)

    def mean(name: str) -> float:
        values = np.array([getattr(row, name) for row in members], dtype=np.float64)
        known = values[~np.isnan(values)]
        return float(known.mean()) if len(known) else math.nan

    told = {**vars(busiest), **{name: mean(name) for name in MEANS}, "verdict": verdict}
    told["elapsed_cycles"] = max(row.elapsed_cycles for row in members)
    sms = 0 if busiest.sm is None else len(members)
    return LaunchRow(**told, sms=sms, agreeing=len(agreeing))


def compare_rows(before: Iterable[KernelRow], after: Iterable[KernelRow]) -> list[dict[str, Any]]:
    """Launches of the same kernel (the first with the first, and so on): did the bottleneck move?"""

    def numbered(rows: Iterable[LaunchRow]) -> dict[tuple[str, int], LaunchRow]:
        seen: dict[str, int] = {}
        result = {}
        for row in rows:
            seen[row.kernel] = seen.get(row.kernel, -1) + 1
            result[row.kernel, seen[row.kernel]] = row
        return result

    first, second = numbered(launches(before)), numbered(launches(after))
    found = []
    for key in dict.fromkeys([*first, *second]):
        a, b = first.get(key), second.get(key)
        if a is None or b is None:
            moved = "only in the second profile" if a is None else "only in the first profile"
        else:
            moved = _moved(a, b)
        found.append(
            {"kernel": key[0], "before": a and a.as_json(), "after": b and b.as_json(), "moved": moved}
        )
    return found


def _moved(a: LaunchRow, b: LaunchRow) -> str:
    if CANNOT_TELL in (a.verdict, b.verdict):
        disjoint = b.low > a.high or b.high < a.low
        more = "busier" if b.utilization > a.utilization else "less busy"
        return f"cannot tell; the atomic unit is {more}" if disjoint else "cannot tell"
    if a.verdict == b.verdict:
        return "it did not move: " + (
            "still the atomic unit" if a.verdict == BOTTLENECK else "it was never the atomic unit"
        )
    return "to the atomic unit" if b.verdict == BOTTLENECK else "away from the atomic unit"

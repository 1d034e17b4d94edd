"""A tuning space projected from the GPU that it was profiled on to another, and held against the times
there; where no counter was collected, by the two GPUs' peaks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.datasets.tuning import TuningTimes
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.gpu.devices import is_called
from smlab.hw_bench.profiles.work.kernel_work import PRECISIONS, KernelWork
from smlab.hw_bench.profiles.work.roofline_quantities import roofline_quantities
from smlab.models.projection.machine_code import work_by_code
from smlab.models.projection.peak_rates import maxima_of
from smlab.models.projection.projection import PAPER, Projection, ProjectionSwitches, project
from smlab.models.roofline.clock import clock_ratios, ran_at
from smlab.models.roofline.compiler_alternatives import mixed
from smlab.validation.method.interval_errors import IntervalErrors, TimedIntervals, interval_errors
from smlab.validation.projection.tuning_code import Progress, TuningSource, drawn

Floats = NDArray[np.float64]


def tuning_errors(
    before_s: Floats, low_s: Floats, mid_s: Floats, high_s: Floats, actual_s: Floats, source: Gpu, target: Gpu
) -> IntervalErrors:
    """Errors of ``mid_s`` and of the interval against ``actual_s``; ``before_s`` are the source's times,
    (rows,)."""
    flops, bandwidth = (
        float(source.number(key)) / float(target.number(key))
        for key in ("peak.fp32_flops_per_s", "dram.bandwidth_bytes_per_s")
    )
    baselines = {"FP32 ratio": before_s * flops, "bandwidth ratio": before_s * bandwidth}
    return interval_errors(TimedIntervals(before_s, low_s, mid_s, high_s), actual_s, baselines, "FP32 ratio")


WIDTH: Final = 0.46
"""Half width of the interval, in logarithms."""


@dataclass(frozen=True, eq=False)
class PeakProjection:
    """As `smlab.models.roofline.Projection`, of times alone; arrays (rows,)."""

    source_s: Floats
    low_s: Floats
    mid_s: Floats
    high_s: Floats
    limiter: NDArray[np.object_]
    index: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.source_s)


def project_by_peaks(
    seconds: Floats, source: Gpu, target: Gpu, switches: ProjectionSwitches
) -> PeakProjection:
    """The source's times by the middle of the ratios of FP32 and of issue, at the clocks that somebody saw,
    within `WIDTH`."""
    here, there = (maxima_of(gpu, switches.maxima) for gpu in (source, target))
    fp32 = PRECISIONS.index("fp32")
    arithmetic = here.fma_flops_per_s[fp32] / there.fma_flops_per_s[fp32]
    ratio = float(np.sqrt(arithmetic * here.issue_per_s / there.issue_per_s))
    for gpu, clock_hz, power in (
        (source, switches.source_clock_hz, 1),
        (target, switches.target_clock_hz, -1),
    ):
        ratio *= 1.0 if clock_hz is None else (clock_hz / float(gpu.number("clock.sm_hz"))) ** power
    factor = 1.0 if source.constants == target.constants else float(np.exp(WIDTH))
    nobody = np.full(len(seconds), "unknown", dtype=object)
    middle = seconds * ratio
    return PeakProjection(seconds, middle / factor, middle, middle * factor, nobody, np.arange(len(seconds)))


BLOWN_UP: Final = 1.5
"""Registers of the target over the source's from which on its compiler is said to have made another
kernel."""

MECHANISMS: Final = ("requests", "clock", "residency", "parallelism", "cache", "issue")
"""Switches that are turned off in turn."""


@dataclass(frozen=True, eq=False)
class TuningJudgement:
    """``labels`` are the rows projected; ``actual_s`` is NaN where the target's set lacks one, None without
    such a set. ``every`` are the errors of all rows with a truth, ``groups`` of parts of them by name,
    ``without`` with each mechanism off. ``projection`` is by counters, or by peaks alone where the set has no
    counters (``work`` is None then). ``rows`` are those of ``times``, the source's set.
    """

    source: Gpu
    target: Gpu
    labels: tuple[str, ...]
    family: tuple[str, ...]
    projection: Projection | PeakProjection
    actual_s: NDArray[np.float64] | None
    every: IntervalErrors | None
    groups: tuple[tuple[str, IntervalErrors], ...]
    without: tuple[tuple[str, IntervalErrors], ...]
    notes: tuple[str, ...]
    times: TuningTimes
    rows: NDArray[np.int64]
    work: KernelWork | None
    target_clock_hz: float | None = None

    @property
    def clock_ratio(self) -> NDArray[np.float64]:
        """The SM clock of the source over that of the target, as both are taken to have run, (rows,)."""
        if self.work is None:
            rated = float(self.source.number("clock.sm_hz")) / float(self.target.number("clock.sm_hz"))
            return np.full(len(self.rows), rated)
        ratios = clock_ratios(self.work, self.source, self.target, self.target_clock_hz)
        return ratios.in_hz(self.source, self.target)


@dataclass(frozen=True)
class TuningOptions:
    """How a space is projected and judged.

    ``parts`` also judges with each mechanism off. ``code`` is compiled for both GPUs with each
    configuration's parameters, so that the target's registers, spills and instructions are known. ``draw``
    takes so many configurations (with ``code``, of those whose code differs) that have a truth, or any where
    there is none.
    """

    switches: ProjectionSwitches | None = None
    parts: bool = True
    code: TuningSource | None = None
    draw: int | None = None


def judge_tuning(
    sets: Sequence[TuningTimes],
    source: Gpu,
    target: Gpu,
    options: TuningOptions | None = None,
    progress: Progress | None = None,
) -> TuningJudgement:
    """Project the set measured on ``source`` to ``target`` and judge it by the set measured there, if there
    is one.

    ``progress`` is told of each configuration that was compiled.

    Raises:
        SmlabError: no set of the source, or several; code that does not compile.
    """
    options = options or TuningOptions()
    on, parts, code, draw = (
        options.switches or ProjectionSwitches(),
        options.parts,
        options.code,
        options.draw,
    )
    here = _of(sets, source, required=True)
    assert here is not None
    there = _of(sets, target, required=False)
    notes = [f"{len(here.failed):,} configurations did not run on {source.name}"] if here.failed else []
    if here.counters is None:
        notes.append("no counters in the set: one ratio for all rows, between those of FP32 and of issue")
        found: Projection | PeakProjection = project_by_peaks(here.seconds, source, target, on)
        work = changed = None
    else:
        read = roofline_quantities(here.profile(), source)
        work, skipped = ran_at(read.work, on.source_clock_hz), read.skipped
        notes += [f"{len(skipped)} rows skipped: {skipped[0].reason}"] if skipped else []
        if draw is not None:
            work = work.take(_drawn(here, there, work, code, draw))
            notes.append(f"{len(work)} configurations drawn with seed 0")
        changed = None
        if code is not None:
            codes = code.compare(here, work.launch.tolist(), source, target, progress)
            changed = work_by_code(work, codes, target)
        found = _projected(work, changed, source, target, on)
        notes += [f"{len(found.skipped)} rows not projected: {found.skipped[0][1]}"] if found.skipped else []
    rows = found.index if work is None else work.launch[found.index]
    own = None if work is None else work.take(found.index)
    names = here.labels()
    labels = tuple(names[i] for i in rows.tolist())
    families = tuple(family_of(here, i) for i in rows.tolist())
    if there is None:
        notes.append(f"no measurement of {target.name} in the set: nothing to compare with")
        return TuningJudgement(
            source,
            target,
            labels,
            families,
            found,
            None,
            None,
            (),
            (),
            tuple(notes),
            here,
            rows,
            own,
            on.target_clock_hz,
        )
    match = _Match.of(labels, there)
    if not match.known.any():
        raise SmlabError(f"{there.path}: no configuration in common with {here.path}")
    if not match.known.all():
        notes.append(f"{int((~match.known).sum()):,} configurations were not measured on {target.name}")
    every = _errors(found, match, match.known, source, target)
    groups = _groups(here, there, rows, match, found, source, target)
    without = _without(work, changed, on, match, source, target) if parts and work is not None else ()
    return TuningJudgement(
        source,
        target,
        labels,
        families,
        found,
        match.actual_s,
        every,
        groups,
        without,
        tuple(notes),
        here,
        rows,
        own,
        on.target_clock_hz,
    )


def family_of(times: TuningTimes, row: int) -> str:
    """The family of a row: its kernel and those of its parameters whose names say tile or work per thread,
    or, where no name does, the block's shape."""
    named = list(zip(times.parameters, times.config[row], strict=True))
    tile = [
        f"{n}={v}" for n, v in named if any(w in n.lower() for w in ("tile", "work_per", "wpt", "coarsen"))
    ]
    block = [f"{n}={v}" for n, v in named if "block" in n.lower() or "work_group" in n.lower()]
    return f"{times.kernel[row]} {', '.join(tile or block)}".strip()


@dataclass(frozen=True, eq=False)
class _Match:
    """For each row its row in the target's set (-1: none) and the time there."""

    row: NDArray[np.int64]
    actual_s: NDArray[np.float64]

    @property
    def known(self) -> NDArray[np.bool_]:
        return self.row >= 0

    @classmethod
    def of(cls, labels: Sequence[str], there: TuningTimes) -> _Match:
        place = {label: i for i, label in enumerate(there.labels())}
        row = np.array([place.get(label, -1) for label in labels], dtype=np.int64)
        return cls(row, np.where(row >= 0, there.seconds[row], np.nan))


def _of(sets: Sequence[TuningTimes], gpu: Gpu, *, required: bool) -> TuningTimes | None:
    """The set measured on ``gpu``; of several files of one device, the first with counters."""
    found = [s for s in sets if s.device and is_called(gpu, s.device)]
    if not found and required:
        known = ", ".join(sorted({s.device or "a device without a name" for s in sets}))
        raise SmlabError.at("--dataset", "no measurement of the source", gpu.name, f"one of {known}")
    return min(found, key=lambda s: s.counters is None) if found else None


def _errors(
    found: Projection | PeakProjection, match: _Match, of: NDArray[np.bool_], source: Gpu, target: Gpu
) -> IntervalErrors:
    times = (found.source_s, found.low_s, found.mid_s, found.high_s, match.actual_s)
    before_s, low_s, mid_s, high_s, actual_s = (x[of] for x in times)
    return tuning_errors(before_s, low_s, mid_s, high_s, actual_s, source, target)


def _groups(
    here: TuningTimes,
    there: TuningTimes,
    rows: NDArray[np.int64],
    match: _Match,
    found: Projection | PeakProjection,
    source: Gpu,
    target: Gpu,
) -> tuple[tuple[str, IntervalErrors], ...]:
    """Rows whose registers on the target are like the source's, and those that its compiler blew up."""
    growth = there.registers_per_thread[match.row] / here.registers_per_thread[rows]
    blown = match.known & (growth > BLOWN_UP)
    alike = match.known & (growth <= BLOWN_UP)
    if not blown.any() or not alike.any():
        return ()
    return tuple(
        (name, _errors(found, match, of, source, target))
        for name, of in (
            (f"registers within {BLOWN_UP} times the source's", alike),
            (f"registers above {BLOWN_UP} times the source's", blown),
        )
    )


def switched(switches: ProjectionSwitches, name: str) -> ProjectionSwitches:
    """``switches`` with one switch off."""
    off: dict[str, Any] = {name: False}
    return replace(switches, **off)


def _drawn(
    here: TuningTimes, there: TuningTimes | None, work: KernelWork, code: TuningSource | None, count: int
) -> NDArray[np.int64]:
    """Rows of ``work``, ``count`` of them: of configurations that have a truth, in the order of its file."""
    names = here.labels()
    row_of = {names[launch]: row for row, launch in enumerate(work.launch.tolist())}
    rows = [row_of[label] for label in there.labels() if label in row_of] if there is not None else []
    rows = rows or list(range(len(work)))
    if code is not None:
        launches = work.launch[rows].tolist()
        first = set(code.distinct(here, launches))
        rows = [row for row, launch in zip(rows, launches, strict=True) if launch in first]
    return drawn(rows, count)


def _projected(
    work: KernelWork, changed: KernelWork | None, source: Gpu, target: Gpu, on: ProjectionSwitches
) -> Projection:
    """By counters alone, or between both readings of the target's code where it was compiled here."""
    as_source = project(work, source, target, on)
    if changed is None:
        return as_source
    return mixed(project(work, source, target, on, target_work=changed), as_source)


def _without(
    work: KernelWork,
    changed: KernelWork | None,
    on: ProjectionSwitches,
    match: _Match,
    source: Gpu,
    target: Gpu,
) -> tuple[tuple[str, IntervalErrors], ...]:
    """The method as published, with each mechanism off that is on, and without the target's code where it is
    known (``changed``)."""
    variants = [] if on == PAPER else [("as published", replace(PAPER, maxima=on.maxima))]
    known = {f.name for f in fields(ProjectionSwitches)}
    variants += [
        (f"without {name}", switched(on, name)) for name in MECHANISMS if name in known and getattr(on, name)
    ]
    every = [(name, other, changed) for name, other in variants]
    every += [("without the target's code", on, None)] if changed is not None else []
    projections = [(name, _projected(work, code, source, target, chosen)) for name, chosen, code in every]
    if changed is not None:
        compiled = project(work, source, target, on, target_work=changed)
        projections.append(("the target's code as compiled here, alone", compiled))
    found = []
    for name, other in projections:
        if len(other) == len(match.row):
            found.append((name, _errors(other, match, match.known, source, target)))
    return tuple(found)

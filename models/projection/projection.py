"""A kernel's time on another GPU, as an interval (Eq. 9 and 10), and what the published method leaves out,
each switchable.

Eq. 9 takes the share of its roofline that a kernel reached on the source, for each level of memory, and gives
it the same share of its roofline on the target. A roofline of operations F and time T is F / T. So the time
on the target is ``t_source x T_target / T_source``. That has a meaning without floating-point operations too.
The levels' times are the interval.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.profiles.work.kernel_work import LEVELS, Floats, KernelWork, add_flag, object_array
from smlab.models.projection.grid import GridShare
from smlab.models.projection.peak_rates import Maxima, Which, maxima_of
from smlab.models.projection.residency import Residency, carried_by_residency, target_dram_bytes
from smlab.models.projection.uncertainty import LAUNCH_S, Parts, ResidencyReadings, parts_of
from smlab.models.roofline.ceilings import LOW_EFFICIENCY, TOLERANCE, Ceilings, CeilingSwitches, ceilings
from smlab.models.roofline.clock import ClockRatios, clock_ratios, ran_at
from smlab.models.roofline.violations import constants_behind


@dataclass(frozen=True)
class ProjectionSwitches:
    """What is taken into account.

    ``maxima``: published (``sustained``) or rated (``spec``) ones. ``parallelism``: what the grid can use of
    each GPU. ``cache``: L2's capacity, where the working set is known. ``launch_overhead``: a part of the
    time that no ceiling scales. ``issue``: the rate of instructions. `PAPER` has none of them.

    ``latency``, off by default: what warps wait for takes the latencies of both descriptions, whoever
    measured them, in place of as many cycles (`smlab.models.projection.residency.latency_ratio`). Right for
    simulated GPUs, whose descriptions are true.

    ``requests``: how many memory instructions an SM takes. ``clock``: the clock that the kernel had on the
    source, where the profile tells it (`smlab.models.roofline.clock`), and that of the target;
    ``source_clock_hz`` and ``target_clock_hz`` where somebody saw them. ``residency``: where an SM limits,
    what its resident warps wait for (`smlab.models.projection.residency`). ``interval``: an interval that
    holds with a stated level (`smlab.models.projection.uncertainty`) instead of the span of the levels.

    Integer instructions that share lanes with FP32 ones (GA10x, Ada, Pascal) have no bound: these lanes take
    an instruction a cycle and scheduler, which is what ``issue`` allows anyway.

    ``overhead_s`` is the launch overhead of both GPUs; without it, that of the descriptions, or where they
    have none the middle between nothing and `smlab.models.projection.uncertainty.LAUNCH_S`.
    """

    maxima: Which = "sustained"
    parallelism: bool = True
    cache: bool = True
    launch_overhead: bool = True
    issue: bool = True
    latency: bool = False
    requests: bool = True
    clock: bool = True
    residency: bool = True
    interval: bool = True
    overhead_s: float | None = None
    source_clock_hz: float | None = None
    target_clock_hz: float | None = None

    def __post_init__(self) -> None:
        if self.overhead_s is not None and not 0 <= self.overhead_s < 1:
            raise SmlabError.at("launch overhead", "an absurd time", self.overhead_s, "0 to 1 s")


PAPER = ProjectionSwitches(
    parallelism=False,
    cache=False,
    launch_overhead=False,
    issue=False,
    latency=False,
    requests=False,
    clock=False,
    residency=False,
    interval=False,
)
"""Van Lanker et al. as published."""


@dataclass(frozen=True, eq=False)
class Projection:
    """Times on the target in seconds, one row a kernel that can be projected; arrays (kernels,), ``level_s``
    (kernels, 3).

    ``level_s`` is by level (L1, L2, DRAM), NaN at one that was not counted. ``mid_s`` is the prediction;
    ``low_s`` to ``high_s`` holds the time with the level of `smlab.models.projection.uncertainty`, and
    ``parts`` are what it is made of. With `PAPER`, ``low_s`` and ``high_s`` are the ends of ``level_s`` and
    ``mid_s`` the middle between them. ``limiter`` is the resource that takes longest on the target. ``index``
    is the row in the work that was given; ``skipped`` are (row, reason) of the others.
    """

    kernel: NDArray[np.object_]
    launch: NDArray[np.int64]
    source_s: Floats
    level_s: Floats
    low_s: Floats
    mid_s: Floats
    high_s: Floats
    limiter: NDArray[np.object_]
    parts: Parts
    flags: NDArray[np.object_]
    index: NDArray[np.int64]
    skipped: tuple[tuple[int, str], ...]

    def __len__(self) -> int:
        return len(self.kernel)


def project(
    work: KernelWork,
    source: Gpu,
    target: Gpu,
    switches: ProjectionSwitches | None = None,
    *,
    target_work: KernelWork | None = None,
    source_maxima: Maxima | None = None,
    target_maxima: Maxima | None = None,
) -> Projection:
    """The times of the kernels of ``work``, measured on ``source``, on ``target``.

    ``target_work`` is what the kernels do there, where it is known to differ (from machine code:
    `smlab.models.projection.machine_code`); its times do not matter. Maxima may be given where they are not
    the descriptions'.
    """
    on = switches or ProjectionSwitches()
    work = ran_at(work, on.source_clock_hz)
    there = work if target_work is None else target_work
    if len(there) != len(work):
        raise SmlabError.at(
            "target_work", "other kernels than the source's", len(there), f"{len(work)} kernels"
        )
    flags = there.flags.copy()
    if on.cache:
        dram = target_dram_bytes(there, source, target)
        flags = add_flag(
            flags, _differ(dram, there.dram_bytes), f"DRAM traffic as L2 of {target.name} holds it"
        )
        there = replace(there, dram_bytes=dram)
    clocks = ClockRatios.rated(len(work))
    if on.clock:
        clocks = clock_ratios(work, source, target, on.target_clock_hz)
    there = replace(there, clock_hz=clocks.target * float(target.number("clock.sm_hz")))
    tops = source_maxima or maxima_of(source, on.maxima), target_maxima or maxima_of(target, on.maxima)
    here = _ceilings_of(work, source, tops[0], on)
    far = _ceilings_of(there, target, tops[1], on, here)
    before, after = _with_compute(here), _with_compute(far)
    usable = (before > 0) & (after > 0)
    overhead = [overhead_s(gpu, on) for gpu in (source, target)]
    share = np.minimum(1.0, work.seconds / overhead[0]) if overhead[0] else np.ones(len(work))
    spent_s = work.seconds - overhead[0] * share
    measured = spent_s[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        level_s = measured * (after / before)
    level_s = np.where(usable, level_s, np.nan)
    with np.errstate(invalid="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a kernel without any level
        by_level = (np.nanmin(level_s, axis=1) + np.nanmax(level_s, axis=1)) / 2
    seconds, resident = by_level, None

    def carried(there: Ceilings, ratio: Floats, latencies: bool = on.latency) -> Residency:
        return carried_by_residency(here, there, spent_s, ratio, latencies=latencies)

    if on.residency and on.parallelism:
        resident = carried(far, clocks.in_hz(source, target))
        seconds = resident.best(by_level)

    fits = far.grid.fits & here.grid.fits
    tensor = np.nan_to_num(np.maximum(work.tensor_flops, there.tensor_flops)) > 0
    runs = ~tensor | all(c.maxima.tensor_flops_per_s > 0 for c in (here, far))
    projected = usable.any(axis=1) & fits & runs
    skipped = [(i, _reason(here, far, i, bool(runs[i]))) for i in np.flatnonzero(~projected).tolist()]
    if on.parallelism:
        flags = add_flag(flags, ~here.grid.known, "grid and block are not known: no parallelism ceiling")
    flags = add_flag(
        flags,
        here.efficiency < LOW_EFFICIENCY,
        f"below {LOW_EFFICIENCY:.0%} of every ceiling of {source.name}: latency, or too little parallelism",
    )
    flags = add_flag(flags, here.exceeds, f"faster than the ceilings of {source.name} allow")
    for i in np.flatnonzero(here.exceeds).tolist():
        look = constants_behind(here, i)
        flags = add_flag(flags, np.arange(len(work)) == i, look) if look else flags
    flags = add_flag(
        flags,
        (clocks.source > 1 + TOLERANCE) & (on.target_clock_hz is None),
        f"ran above the rated clock of {source.name}: at most half of it carried",
    )
    index = np.flatnonzero(projected)
    added_s = (overhead[1] * share)[index]
    chosen, mid = level_s[index] + added_s[:, None], seconds[index] + added_s
    low, high = np.nanmin(chosen, axis=1, initial=np.inf), np.nanmax(chosen, axis=1, initial=-np.inf)
    parts = Parts.none(len(index))
    if on.interval:
        if source.constants != target.constants:
            ratio = clocks.in_hz(source, target)
            compiled = there.registers_per_thread != work.registers_per_thread  # by the target's own code
            readings = None
            if resident is not None:
                fewer, more = (
                    _ceilings_of(
                        _with_registers(there, target, np.where(compiled, 1.0, x)), target, tops[1], on, here
                    )
                    for x in (1 / REGISTERS_WITHIN, REGISTERS_WITHIN)
                )
                readings = ResidencyReadings(
                    resident, carried(fewer, ratio), carried(more, ratio), carried(far, ratio, not on.latency)
                )
            unsaid = not all(overhead_known(gpu, on) for gpu in (source, target))
            other_cache = np.isnan(there.working_set_bytes) & (
                source["l2.bytes"].value != target["l2.bytes"].value
            )
            parts = parts_of(seconds, level_s, readings, clocks, other_cache, launch=unsaid).take(index)
        low, high = parts.interval(mid)
    return Projection(
        kernel=work.kernel[index],
        launch=work.launch[index],
        source_s=work.seconds[index],
        level_s=chosen,
        low_s=low,
        mid_s=mid,
        high_s=high,
        limiter=far.limiter[index],
        parts=parts,
        flags=object_array(flags[index]),
        index=index,
        skipped=tuple(skipped),
    )


def _ceilings_of(
    work: KernelWork, gpu: Gpu, top: Maxima, on: ProjectionSwitches, source: Ceilings | None = None
) -> Ceilings:
    """The ceilings with what is switched on; ``source`` gives what was seen under way on the source."""
    switches = CeilingSwitches(on.clock, on.issue, on.requests, on.parallelism)
    return ceilings(work, gpu, top, switches, seen=None if source is None else source.seen)


REGISTERS_WITHIN: Final = 1.25
"""Assumed: a compiler gives a kernel on another architecture registers within a fourth of those on this
one."""


def _with_registers(work: KernelWork, gpu: Gpu, factor: Floats) -> KernelWork:
    """The same kernels with so many times the registers, as far as a thread can have them."""
    most = float(gpu.number("sm.max_registers_per_thread"))
    return replace(work, registers_per_thread=np.minimum(np.round(work.registers_per_thread * factor), most))


def _differ(a: Floats, b: Floats) -> NDArray[np.bool_]:
    return np.asarray(~np.isnan(a) & ~np.isnan(b) & (a != b))


def _with_compute(c: Ceilings) -> Floats:
    """Times by level; where no level was counted, the compute ceiling stands alone (at the first level)."""
    times = c.level_s.copy()
    none = np.isnan(times).all(axis=1)
    times[none, 0] = c.compute_s[none]
    return times


def overhead_s(gpu: Gpu, switches: ProjectionSwitches) -> float:
    """What a kernel with nothing to do takes on ``gpu``; 0 where it is not to count, and where nobody says,
    the middle of what it may be."""
    if not switches.launch_overhead:
        return 0.0
    if switches.overhead_s is not None:
        return switches.overhead_s
    return float(gpu.number(_OVERHEAD)) if gpu.has(_OVERHEAD) else LAUNCH_S / 2


def overhead_known(gpu: Gpu, switches: ProjectionSwitches) -> bool:
    """Whether the launch overhead is told, or not to count."""
    return not switches.launch_overhead or switches.overhead_s is not None or gpu.has(_OVERHEAD)


_OVERHEAD: Final = "launch.overhead_s"


def _reason(here: Ceilings, far: Ceilings, i: int, runs: bool) -> str:
    if not runs:
        lacking = [c.maxima.gpu.name for c in (here, far) if c.maxima.tensor_flops_per_s == 0]
        return f"tensor operations, and {' and '.join(lacking)} has no tensor cores"
    grids: tuple[tuple[GridShare, Maxima], ...] = ((here.grid, here.maxima), (far.grid, far.maxima))
    for grid, maxima in grids:
        if not grid.fits[i]:
            return f"a block of it does not fit on an SM of {maxima.gpu.name}"
    return "neither operations nor traffic that a ceiling applies to"


assert LEVELS == ("l1", "l2", "dram")

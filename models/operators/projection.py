"""An operator's time on a GPU that you don't have, from its time on one that you have, as an interval.

Van Lanker et al. 2024, equation 9: what a kernel reaches of the roof on the source it is taken to reach on
the target. The roof is here the largest of the times for DRAM, L2 and arithmetic; each mechanism that the
equation leaves out is a switch:

- ``launch``: the launch's cost is in both times and does not scale (`smlab.models.operators.calibration`);
- ``sustained``: bandwidths as published from benchmarks, not as rated;
- ``cache``: rows read again come from DRAM only where the GPU's caches do not hold them
  (`smlab.models.operators.memory`);
- ``repeats``: operators are timed again and again, and what L2 holds of one run the next finds there;
- ``power``: arithmetic is held to what the board's power allows (`smlab.models.operators.power`);
- ``parallelism``: waves and tail, for the grid of the source on both GPUs
(`smlab.models.projection.parallelism`), where
  that has `CARRIED_WAVES` blocks for each SM of both; a smaller one was chosen for the GPU that it ran on.

The prediction is the middle of two things that are not known: whether what a row falls short of its roof on
the source is misses of its caches beyond those expected there or an inefficiency that goes along, and how
much energy an operation takes on the target. The bounds of the caches (`Misses.least`, ``most``), of energy,
and of the published bandwidths are one part of the interval around it (`smlab.models.operators.interval`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.models.operators.calibration import OperatorCalibration
from smlab.models.operators.interval import FACTOR, operator_parts, width_of
from smlab.models.operators.memory import Misses, repeat_misses, reread_misses
from smlab.models.operators.power import interval_of, no_ceiling, power_ceiling
from smlab.models.operators.work import Floats, OperatorWork
from smlab.models.projection.parallelism import parallelism, resident_blocks

CARRIED_WAVES: Final = 2
"""Blocks for each SM from which on an operator's grid is taken to be the same on another GPU. A library picks
smaller tiles, or splits the sum, where the larger ones would leave SMs idle. 1 and 2 were tried on NeuSight's
six pairs of GPUs; on matrix products of fewer blocks, 173 of 6,240, the source's grid is off by 18 %, none by
11 %."""

LIMITERS: Final = ("dram", "l2", "arithmetic", "power", "launch")


@dataclass(frozen=True)
class OperatorSwitches:
    """Which mechanisms are counted; all off is equation 9 with rated peaks."""

    launch: bool = True
    sustained: bool = True
    cache: bool = True
    power: bool = True
    parallelism: bool = True
    repeats: bool = True


@dataclass(frozen=True, eq=False)
class OperatorProjection:
    """Predicted times on the target, ``(rows,)`` each: ``mid_s`` is the prediction, ``low_s`` to ``high_s``
    holds the time with the level of `smlab.models.operators.interval`.

    ``least_s`` and ``most_s`` are what the bounds of caches, energy and published bandwidths allow, ``parts``
    (rows, parts) what the interval is made of. ``limiter`` names what sets the prediction, one of `LIMITERS`.
    """

    low_s: Floats
    mid_s: Floats
    high_s: Floats
    least_s: Floats
    most_s: Floats
    parts: Floats
    limiter: NDArray[np.object_]


def project_operators(
    work: OperatorWork,
    seconds: Floats,
    source: Gpu,
    target: Gpu,
    calibration: OperatorCalibration,
    switches: OperatorSwitches | None = None,
) -> OperatorProjection:
    """Predict the time of each operator on ``target`` from ``seconds``, measured on ``source``; arrays
    ``(rows,)``.

    Raises:
        SmlabError: a time that is not above 0, or not longer than the launch alone.
    """
    on = switches or OperatorSwitches()
    launch = calibration.launch_s if on.launch else 0.0
    usable = np.isfinite(seconds) & (seconds > launch)
    if not usable.all():
        first = int(np.flatnonzero(~usable)[0])
        expected = f"more than the {launch:.3g} s of a launch"
        raise SmlabError.at(f"row {first}", "unusable time in s", float(seconds[first]), expected)
    spent = seconds - launch
    maxima = _maxima_of(source, target, calibration, on)
    grid = _usable(work, source) / _usable(work, target) if on.parallelism else np.ones(len(work))
    sms = max(gpu.integer("gpu.sms") for gpu in (source, target))
    grid = np.where(work.blocks >= CARRIED_WAVES * sms, grid, 1.0)

    first_here, first_there = (_first(work, gpu, on) for gpu in (source, target))

    def end(here: tuple[Floats, Floats], there: tuple[Floats, Floats], m: _Maxima) -> Floats:
        """Time on the target without the launch, with one choice of each thing that is not known: shares of
        what is touched first and of what is read again that miss, on both GPUs."""
        on_source = _roof(work, source, m.source_bandwidth, m.source_flops, *here).max(axis=0)
        on_target = _roof(work, target, m.bandwidth, m.flops, *there).max(axis=0)
        return np.asarray(np.maximum(spent / on_source * on_target * grid, work.flops / m.sustained_flops))

    if on.cache:
        here, there = reread_misses(work, source), reread_misses(work, target)
        seen = _misses_seen(work, spent, maxima.low.source_bandwidth, first_here.share)
    else:
        here = there = Misses(*[np.ones(len(work))] * 3)
        seen = here.share
    usual = first_there.share, there.share
    ends = [
        end((first_here.share, missed), usual, m)
        for missed in (here.share, seen)
        for m in (maxima.low, maxima.high)
    ]
    middle = (np.min(ends, axis=0) + np.max(ends, axis=0)) / 2
    # What an L2 keeps from repeat to repeat, little or much, both do.
    firsts = [
        (first_here.least, first_there.least),
        (first_here.share, first_there.share),
        (first_here.most, first_there.most),
    ]
    few = np.minimum(here.least, seen)
    low = np.min([end((a, seen), (b, there.least), maxima.most) for a, b in firsts], axis=0)
    high = np.max([end((a, few), (b, there.most), maxima.least) for a, b in firsts], axis=0)
    roof = _roof(work, target, maxima.low.bandwidth, maxima.low.flops, *usual)
    names = np.array(["dram", "l2", "arithmetic"], dtype=object)[roof.argmax(axis=0)]
    held = maxima.power_limited & (work.flops / maxima.low.sustained_flops >= np.max(ends, axis=0))
    limiter = np.where(launch > (launch + middle) / 2, "launch", np.where(held, "power", names))
    least, most = np.min([low, *ends], axis=0), np.max([high, *ends], axis=0)
    m = maxima.low
    reached = _roof(work, source, m.source_bandwidth, m.source_flops, first_here.share, here.share).max(
        axis=0
    )
    parts = operator_parts(spent, reached, least, most)
    if source.constants == target.constants:
        parts = np.zeros_like(parts)
    factor = np.exp(FACTOR * width_of(parts))
    return OperatorProjection(
        low_s=launch + middle / factor,
        mid_s=launch + middle,
        high_s=launch + middle * factor,
        least_s=launch + least,
        most_s=launch + most,
        parts=parts,
        limiter=limiter.astype(object),
    )


@dataclass(frozen=True)
class _Maxima:
    """What bounds the two GPUs, with one choice of what is not known: bytes/s of DRAM, FLOP/s of the
    pipes, FLOP/s by power."""

    source_bandwidth: float
    source_flops: float
    bandwidth: float
    flops: float
    sustained_flops: float


@dataclass(frozen=True)
class _Choices:
    """``low`` and ``high`` are the two ends that the prediction is the middle of, ``least`` and ``most``
    the bounds."""

    least: _Maxima
    low: _Maxima
    high: _Maxima
    most: _Maxima
    power_limited: bool


def _maxima_of(source: Gpu, target: Gpu, calibration: OperatorCalibration, on: OperatorSwitches) -> _Choices:
    key = "dram.sustained_bandwidth_bytes_per_s" if on.sustained else "dram.bandwidth_bytes_per_s"
    here, there = interval_of(source[key]), interval_of(target[key])
    if on.sustained and calibration.best_bytes_per_s is not None:
        # Measured here; published maxima of one card still differ by as much as they do from benchmark to
        # benchmark.
        known = source[key].kind != "assumed"
        best = calibration.best_bytes_per_s
        low, value, high = here if known else (1.0, 1.0, 1.0)
        here = (best * low / value, best, best * high / value)
    flops_here, flops_there = (float(g.number("peak.fp32_flops_per_s")) for g in (source, target))
    ceiling = no_ceiling(np.inf)
    if on.power and calibration.best_flops_per_s is not None:
        flops_here = min(flops_here, calibration.best_flops_per_s)
        ceiling = power_ceiling(source, target, flops_here, flops_there)
    if source.constants == target.constants:  # the same maxima, whatever was measured: the identity
        here = there = (here[1],) * 3
        flops_there, ceiling = flops_here, no_ceiling(np.inf)
    return _Choices(
        least=_Maxima(here[2], flops_here, there[0], flops_there, ceiling.min_flops_per_s),
        low=_Maxima(here[1], flops_here, there[1], flops_there, ceiling.low_flops_per_s),
        high=_Maxima(here[1], flops_here, there[1], flops_there, ceiling.high_flops_per_s),
        most=_Maxima(here[0], flops_here, there[2], flops_there, ceiling.max_flops_per_s),
        power_limited=ceiling.limited,
    )


def _first(work: OperatorWork, gpu: Gpu, on: OperatorSwitches) -> Misses:
    """Which of what is touched for the first time comes from DRAM: all of it, or what no repeat left."""
    return repeat_misses(work, gpu) if on.repeats else Misses(*[np.ones(len(work))] * 3)


def _roof(
    work: OperatorWork, gpu: Gpu, bandwidth: float, flops_per_s: float, first: Floats, missed: Floats
) -> Floats:
    """Least times for DRAM, L2 and arithmetic, (3, rows), where the share ``first`` of what is touched first
    and the share ``missed`` of what is read again miss."""
    l2 = gpu.number("l2.bandwidth_bytes_per_s")
    from_dram = first * work.once_bytes + missed * work.again_bytes
    through_l2 = work.once_bytes + work.again_bytes
    return np.stack([from_dram / bandwidth, through_l2 / l2, work.flops / flops_per_s])


def _misses_seen(work: OperatorWork, spent: Floats, bandwidth: float, first: Floats) -> Floats:
    """The most that can have missed: the share of what is read again that DRAM could have served in the
    time spent."""
    beyond = spent * bandwidth - first * work.once_bytes
    share = np.divide(beyond, work.again_bytes, out=np.zeros(len(work)), where=work.again_bytes > 0)
    return np.clip(share, 0.0, 1.0)


def _usable(work: OperatorWork, gpu: Gpu) -> Floats:
    """Share of the GPU that the grid uses where the SMs' arithmetic decides; 1 for what DRAM decides or
    unknown launches."""
    share = np.ones(len(work))
    use = (work.flops > 0) & (work.blocks > 0) & (work.threads_per_block > 0)
    if use.any():
        threads = work.threads_per_block[use]
        held = np.maximum(resident_blocks(gpu, threads), 1)
        share[use] = parallelism(gpu, work.blocks[use], threads, held).fraction
    return share

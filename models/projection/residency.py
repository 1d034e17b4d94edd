"""A kernel's time on another GPU from what its resident warps wait for: balanced job bounds, read backwards.

An SM with N resident warps is a closed system. With D the busy time of its busiest resource and S what one
warp alone would take for all the work (its service and its latencies, nothing in parallel), the balanced job
bounds of Zahorjan, Sevcik, Eager and Galler (CACM 25(2), 1982) give for the time of the work

    T = (N - 1) / N x D + S / N,        and T >= D.

On the source T, D and N are known, so S is. On the target D follows from its ceilings and N from what an SM
there holds of the kernel's blocks. S is the rest: the resources' own time is exchanged for the target's, and
what is left are latencies. They take as many cycles of the SM there as here, but for those that one source
gives for both GPUs: published latencies of two generations differ by less than those of one generation in two
papers. `latency_ratio` takes all of them where the descriptions are to be believed, as of simulated GPUs.

So a kernel of many warps keeps the cycles that it lost, one of few gains with every warp more that fits, and
the share of a peak that it reached on the source is nowhere carried to another limiter.

What a larger or smaller L2 does to a kernel's DRAM traffic, where its working set is known.

Van Lanker et al. take the traffic as it is on the source GPU and miss LULESH by 20 %, since an A100's L2
holds what a V100's does not. Here:

- the first touch of each byte (the working set) goes to DRAM anyway;
- of the traffic that L2 could serve beyond it, the share that misses is ``max(0, 1 - C / W)`` for a cache of
  C bytes and a working set of W that is touched without order (uniformly);
- what was written and is still in L2 when the kernel ends has not gone to DRAM: of the last C bytes touched
  the share that was written. That holds for a kernel by itself, as a profiler replays it with caches flushed
  before. Between kernels that follow each other it cancels.

A working set that the source's L2 holds and the target's does not leaves no trace of how it is touched: what
is come back to at once stays where it is, what is touched without order misses. The middle is taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.profiles.work.kernel_work import PRECISIONS, Floats, KernelWork
from smlab.models.projection.grid import REQUEST_BYTES
from smlab.models.roofline.ceilings import RESOURCES, Ceilings
from smlab.models.roofline.work import served_bytes, warp_operations

OF_SM: Final = tuple(name not in ("l2", "dram") for name in RESOURCES)
"""Which of the columns of `Ceilings.bounds_s` are resources of one SM."""
NEAR: Final = 0.5
"""A resource of the SM that is so much of the bound of L2 or DRAM counts as limiting too, where the kernel is
far from both (`LOW_EFFICIENCY`)."""

APART: Final = 1.3


@dataclass(frozen=True, eq=False)
class Residency:
    """Times on the target and what they rest on, (kernels,) each; ``applies`` where an SM limits on one side.

    ``seconds`` is the time by the bounds above, ``proportional_s`` the source's time times the ratio of the
    two GPUs' bounds (the efficiency carried over). ``here`` and ``there`` are the warps of an SM,
    ``bound_s`` the target's bound.
    """

    seconds: Floats
    proportional_s: Floats
    bound_s: Floats
    here: Floats
    there: Floats
    applies: NDArray[np.bool_]
    known: NDArray[np.bool_]

    def best(self, by_level: Floats) -> Floats:
        """These times where an SM limits, and elsewhere those by level of memory. The latter rest on
        latencies that are known of few cards, so they are held to within `APART` of the other two.
        """
        both = np.stack([self.seconds, self.proportional_s])
        held = np.clip(by_level, both.min(axis=0) / APART, both.max(axis=0) * APART)
        return np.where(
            self.applies, self.seconds, np.where(self.known & ~np.isnan(by_level), held, by_level)
        )


def carried_by_residency(
    here: Ceilings, far: Ceilings, spent_s: Floats, clock_ratio: Floats, *, latencies: bool = False
) -> Residency:
    """Times on the GPU of ``far`` of kernels that took ``spent_s`` on that of ``here``.

    ``clock_ratio`` is the SM clock of the source over that of the target, as both ran. ``latencies`` takes
    those of both descriptions, whoever measured them. Applies where the
    launch is known and fits, and an SM's resource limits on one of the two, or is `NEAR`.
    """
    known = here.grid.known & far.grid.known & here.grid.fits & far.grid.fits
    before, after = (_on_the_fullest_sm(c) for c in (here, far))
    near = [x[:, np.array(OF_SM)].max(axis=1) > NEAR * x.max(axis=1) for x in (before, after)]
    # A bound that the kernel was faster than is too strict, on the target by as much.
    with np.errstate(divide="ignore", invalid="ignore"):
        strict = np.fmin(1.0, spent_s / before.max(axis=1))[:, None]
    before, after = before * strict, after * strict
    bound_here, bound = before.max(axis=1), after.max(axis=1)
    applies = known & (near[0] | near[1]) & (bound > 0) & (bound_here > 0)
    most = np.where(known, here.grid.resident_warps, 1.0)
    seen = here.work.resident_warps
    warps = np.clip(np.where(np.isnan(seen), most, seen), 1.0, most)
    there = np.maximum(np.where(known, far.grid.resident_warps, 1.0) * warps / most, 1.0)
    alone = warps * spent_s - (warps - 1) * bound_here
    sm = np.array(OF_SM)
    own_here, own_there = (x[:, sm].sum(axis=1) for x in (before, after))
    sms = [float(c.maxima.gpu.number("gpu.sms")) * c.grid.spread for c in (here, far)]
    scale = clock_ratio * sms[0] / sms[1]
    longer = latency_ratio(here, far, every=latencies) * scale
    waiting = np.maximum(alone - own_here, 0.0) * longer
    alone_there = np.where(alone > own_here, waiting + own_there, alone * longer)
    seconds = np.maximum(bound, ((there - 1) * bound + alone_there) / there)
    with np.errstate(divide="ignore", invalid="ignore"):
        proportional = spent_s * bound / bound_here
    return Residency(
        seconds,
        proportional,
        bound,
        warps,
        there,
        applies,
        known & (bound > 0) & (bound_here > 0),
    )


_LATENCIES: Final = (
    *(f"pipe.{p}.latency_cycles" for p in PRECISIONS),
    *("pipe.int32.latency_cycles", "shared.load_latency_cycles"),
    *("l1.latency_cycles", "l2.latency_cycles", "dram.latency_cycles"),
)


def latency_ratio(here: Ceilings, far: Ceilings, *, every: bool) -> Floats:
    """Cycles that a kernel's instructions wait on the target over those on the source, (kernels,).

    Each latency counts as often as the kernel waits for it. The counts are its instructions in a pipe, its
    passes of shared memory without conflicts, and the requests that L1, L2 and DRAM serve. Latencies that
    different sources give are taken as equal, unless ``every`` counts.
    """
    work = here.work
    operations = warp_operations(work)
    shared = np.nan_to_num(work.shared_ideal_wavefronts)
    served = served_bytes(work) / REQUEST_BYTES
    requests = np.maximum(np.nan_to_num(work.memory_requests), shared + served.sum(axis=1))
    others = np.maximum(np.nan_to_num(work.instructions) - operations.sum(axis=1) - requests, 0.0)
    waits = np.column_stack([operations, others, shared, served])
    gpus = here.maxima.gpu, far.maxima.gpu
    before, after = (np.array([float(gpu.number(key)) for key in _LATENCIES]) for gpu in gpus)
    if not every:
        one_source = [gpus[0][key].source == gpus[1][key].source for key in _LATENCIES]
        after = np.where(one_source, after, before)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = (waits @ after) / (waits @ before)
    return np.where(np.isfinite(ratio) & (ratio > 0), ratio, 1.0)


def _on_the_fullest_sm(c: Ceilings) -> Floats:
    """Bounds by resource, those of an SM for the SM that ends last, (kernels, resources)."""
    bounds = c.bounds_s.copy()
    bounds[:, np.array(OF_SM)] *= (c.grid.busy_sms / c.grid.spread)[:, None]
    return bounds


def miss_share(capacity_bytes: Floats | float, working_set_bytes: Floats) -> Floats:
    """The share of repeated accesses that misses: 0 while the working set fits, then rising towards 1."""
    return np.asarray(np.maximum(0.0, 1.0 - capacity_bytes / working_set_bytes))


def target_dram_bytes(work: KernelWork, source: Gpu, target: Gpu) -> Floats:
    """DRAM bytes on ``target`` of kernels measured on ``source``, (kernels,); as measured where the
    working set is not known."""
    through_l2, dram, working_set = work.l2_bytes, work.dram_bytes, work.working_set_bytes
    known = ~np.isnan(through_l2) & ~np.isnan(dram) & (working_set > 0)
    w = np.where(known, working_set, 1.0)
    capacity = [float(gpu.number("l2.bytes")) for gpu in (source, target)]
    written = np.minimum(np.nan_to_num(work.stored_bytes), w)
    held = [written * np.minimum(1.0, c / w) for c in capacity]
    all_ = dram + held[0]
    first = np.minimum(w, all_)
    on_source, on_target = (miss_share(c, w) for c in capacity)
    most = np.maximum(np.maximum(through_l2, all_) - first, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        scaled = np.minimum((all_ - first) * on_target / on_source, most)
    again = np.where(on_source > 0, scaled, most * on_target / 2)
    again = np.where(on_target == on_source, all_ - first, again)
    return np.where(known, np.maximum(first + again - held[1], 0.0), dram)

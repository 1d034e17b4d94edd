"""The parallelism ceiling: what of each GPU a kernel's grid can use, from its launch and what it was seen to
keep under way.

`smlab.models.projection.parallelism` tells how much of a GPU a grid can use, given how many warps keep a
resource busy. That depends on how much one warp has under way at a time (Little's law: warps x under way =
rate x latency), which no counter tells. Here it is at least one request or one instruction, and at least what
the kernel must have had under way on the GPU where it was measured.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.profiles.work.kernel_work import PRECISIONS, Floats, KernelWork
from smlab.models.projection.parallelism import parallelism, resident_blocks
from smlab.models.roofline.work import warp_operations

USES: Final = ("issue", "shared", "l1", "l2", "dram")
"""What warps keep busy, in the order of the columns of `UnderWay` and `GridShare`. First come the schedulers
with their pipes (in warp-instructions), then shared memory (in passes), then the levels of memory (in
bytes)."""

_BY_ALL: Final = ("l2", "dram")
_LATENCIES: Final = {
    "shared": "shared.load_latency_cycles",
    "l1": "l1.latency_cycles",
    "l2": "l2.latency_cycles",
    "dram": "dram.latency_cycles",
}

REQUEST_BYTES: Final = 128.0
"""One 4-byte load of each lane."""

SATURATED: Final = 0.9
"""Share of a resource's maximum from which on a kernel shows nothing of how much more it could have under
way."""

ENOUGH: Final = 1e12

MOST, ROUNDS = 1e6, 20
"""Bounds of the search for how much more must have been under way: up to so many times, in so many
halvings."""


@dataclass(frozen=True, eq=False)
class UnderWay:
    """What one warp has under way at a time, (kernels, uses), in the units of `USES`."""

    per_warp: Floats


@dataclass(frozen=True, eq=False)
class GridShare:
    """What of a GPU each grid can use, above 0 to 1; all (kernels,) but ``share``. 1 where the launch is not
    ``known``.

    ``share`` (kernels, uses) is by `USES`. ``busy_sms`` are the SMs that have a block at all; ``waves`` the
    blocks over those resident at once. ``fits`` is False for a block that the GPU cannot hold. ``spread`` is
    the mean load of an SM over that of the SM that ends last, ``resident_warps`` the warps of an SM in a full
    wave.
    """

    share: Floats
    busy_sms: Floats
    waves: Floats
    spread: Floats
    resident_warps: Floats
    known: NDArray[np.bool_]
    fits: NDArray[np.bool_]

    def of(self, use: str) -> Floats:
        """The share of one of `USES`, (kernels,)."""
        return np.asarray(self.share[:, USES.index(use)])


@dataclass(frozen=True, eq=False)
class Demand:
    """What each kernel asks of each of `USES`, (kernels, uses): the amount, and the least time for it on
    the whole GPU."""

    amount: Floats
    seconds: Floats


def whole_gpu(kernels: int) -> GridShare:
    """No parallelism ceiling: every grid can use all of the GPU."""
    one, none = np.ones(kernels), np.zeros(kernels, dtype=bool)
    return GridShare(np.ones((kernels, len(USES))), one, one, one, np.full(kernels, np.nan), none, ~none)


def under_way(
    work: KernelWork, gpu: Gpu, demand: Demand, transfers: Callable[[GridShare], Floats]
) -> UnderWay:
    """What a warp of each kernel must have had under way on ``gpu``, where ``work`` was measured.

    Enough for the rate of each use by itself; and so much that all transfers one after the other (Eq. 6),
    which ``transfers`` gives (kernels,) for what the grid can use, take no longer than the kernel did. Where
    a resource is `SATURATED`, more under way would not have shown; then it is taken to be `ENOUGH`, as a
    roofline takes it of every kernel.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        passes = work.shared_wavefronts / work.shared_ideal_wavefronts
    in_flight = np.ones((len(work), len(USES)))
    in_flight[:, USES.index("shared")] = np.where(np.isfinite(passes), np.maximum(passes, 1.0), 1.0)
    in_flight[:, USES.index("l1") :] = REQUEST_BYTES
    known, fits, launch = _launches(work, gpu)
    use = known & fits
    if not use.any():
        return UnderWay(in_flight)
    grid = parallelism(gpu, *launch)
    warps = grid.resident_warps * grid.busy_sms * gpu.integer("gpu.sms")
    rate = demand.amount[use] / work.seconds[use, None] / float(gpu.number("clock.sm_hz"))
    seen = rate * _waits(work, gpu)[use] / warps[:, None]
    saturated = demand.seconds[use] >= SATURATED * work.seconds[use, None]
    in_flight[use] = np.where(saturated, ENOUGH, np.maximum(in_flight[use], seen))

    def with_more(factor: Floats) -> UnderWay:
        more = in_flight.copy()
        more[:, 1:] *= factor[:, None]
        return UnderWay(more)

    low, high = np.zeros(len(work)), np.log(np.where(use, MOST, 1.0))
    fits_as_it_is = transfers(grid_share(work, gpu, demand, UnderWay(in_flight))) <= work.seconds
    high = np.where(fits_as_it_is, 0.0, high)
    for _ in range(ROUNDS):
        middle = (low + high) / 2
        fits_now = transfers(grid_share(work, gpu, demand, with_more(np.exp(middle)))) <= work.seconds
        low, high = np.where(fits_now, low, middle), np.where(fits_now, middle, high)
    return with_more(np.exp(high))


def grid_share(work: KernelWork, gpu: Gpu, demand: Demand, seen: UnderWay) -> GridShare:
    """What of ``gpu`` each kernel's grid can use if its warps keep as much under way as ``seen``."""
    known, fits, launch = _launches(work, gpu)
    use = known & fits
    share, busy, waves = np.ones((len(work), len(USES))), np.ones(len(work)), np.ones(len(work))
    spread, resident = np.ones(len(work)), np.full(len(work), np.nan)
    if use.any():
        per_sm = float(gpu.number("gpu.sms")) * float(gpu.number("clock.sm_hz"))
        with np.errstate(divide="ignore", invalid="ignore"):
            rate = demand.amount[use] / demand.seconds[use] / per_sm
        needed = rate * _waits(work, gpu)[use] / seen.per_warp[use]
        needed = np.where(np.isfinite(needed) & (needed > 0), needed, 1.0 / ENOUGH)
        usable = partial(parallelism, gpu, *launch)
        for column, name in enumerate(USES):
            by: Literal["sm", "gpu"] = "gpu" if name in _BY_ALL else "sm"
            grid = usable(saturating_warps=needed[:, column], shared_by=by)
            share[use, column] = grid.fraction
        even = usable(latency=False)
        busy[use], waves[use], spread[use] = even.busy_sms, even.waves, even.fraction
        resident[use] = even.resident_warps
    return GridShare(share, busy, waves, spread, resident, known, fits)


def mean_latency_cycles(work: KernelWork, gpu: Gpu) -> Floats:
    """Cycles from an instruction's issue to that of one which depends on it, mean of each kernel's
    instructions, (kernels,).

    Floating-point instructions by their pipe (`smlab.models.roofline.work.warp_operations`), all others as
    integer ones.
    """
    counts = warp_operations(work)
    others = np.maximum(np.nan_to_num(work.instructions) - counts.sum(axis=1), 0.0)
    latencies = np.array([float(gpu.number(f"pipe.{p}.latency_cycles")) for p in PRECISIONS])
    integer = float(gpu.number("pipe.int32.latency_cycles"))
    total = counts.sum(axis=1) + others
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = (counts @ latencies + others * integer) / total
    return np.where(total > 0, mean, integer)


def _waits(work: KernelWork, gpu: Gpu) -> Floats:
    """Cycles from a request or an instruction to its result, (kernels, uses)."""
    waits = np.empty((len(work), len(USES)))
    waits[:, 0] = mean_latency_cycles(work, gpu)
    for column, name in enumerate(USES[1:], start=1):
        waits[:, column] = float(gpu.number(_LATENCIES[name]))
    return waits


def _launches(work: KernelWork, gpu: Gpu) -> tuple[NDArray[np.bool_], NDArray[np.bool_], list[Floats]]:
    """(launch is known, it fits, [blocks, threads, resident blocks] of those that are known and fit)."""
    known = ~np.isnan(work.blocks) & ~np.isnan(work.threads_per_block)
    threads = np.where(known, work.threads_per_block, 1.0)
    registers, shared = (np.nan_to_num(x) for x in (work.registers_per_thread, work.shared_bytes_per_block))
    resident = resident_blocks(gpu, threads, registers, shared)
    fits = ~known | (resident > 0)
    use = known & fits
    return known, fits, [work.blocks[use], threads[use], resident[use].astype(np.float64)]

"""The ceilings of each kernel on a GPU (Eq. 1 to 8), and the least time that it can take.

Two things, told apart. The *ceilings* are Van Lanker et al.'s. They say what a kernel with this mix of
instructions, these active threads and this mix of hits can reach if transfers at different levels do not
overlap (Eq. 6 to 8) and its floating-point instructions have as many active threads as all its instructions
(Eq. 3). Neither must be so: a kernel can be faster than these. The *bounds* take neither: each resource
alone, for the work that must pass it. A kernel that is faster than a bound is a wrong number somewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.profiles.work.kernel_work import PRECISIONS, Floats, KernelWork
from smlab.models.projection.grid import USES, Demand, GridShare, UnderWay, grid_share, under_way, whole_gpu
from smlab.models.projection.peak_rates import Maxima, Which, maxima_of
from smlab.models.roofline import equations as eq
from smlab.models.roofline.work import (
    active_lanes,
    flops,
    flops_by_precision,
    intensity,
    served_bytes,
    warp_operations,
)

RESOURCES: Final = (
    *("fp16", "fp32", "fp64", "tensor", "alu", "xu"),
    *("issue", "request", "shared", "l1", "l2", "dram"),
)
"""What can limit a kernel, in the order of the columns of `Ceilings.bounds_s`."""

PASS_BYTES: Final = 128.0

LOW_EFFICIENCY: Final = 0.6
"""The share of its closest roof below which no roof limits a kernel: `Ceilings.limited_by` is `LATENCY` then.

It is where Nsight Compute's rule "Speed of Light" takes a kernel for latency-bound: below 60 % of every peak.
A roof at that height leaves two fifths of the time to something else.
"""

LATENCY: Final = "latency or occupancy"
"""What limits a kernel that is far from every roof; or a unit that has no roof here (`WITHOUT_ROOF`)."""

WITHOUT_ROOF: Final = "pipes whose instructions were not counted, the shared-memory atomic unit"


@dataclass(frozen=True, eq=False)
class Ceilings:
    """One row a kernel; NaN where a quantity does not exist (no FLOPs, no bytes at the level).

    ``flops``, ``achieved_flops_per_s``: (kernels,). ``intensity`` in FLOP/byte, ``bandwidth_ceilings`` in
    bytes/s (Eq. 6 to 8) and ``rooflines`` in FLOP/s (Eq. 1 with both ceilings): (kernels, 3), for L1, L2,
    DRAM. ``mixed_peak`` (Eq. 2) and ``peak_ceiling`` (Eq. 3) in FLOP/s, of all precisions together and of the
    whole GPU. ``compute_s`` is the time for the operations at ``peak_ceiling`` (for the instructions, where
    there are no FLOPs), ``level_s`` (kernels, 3) the time that each roofline gives. ``grid`` is what the
    launch can use of the GPU, with ``seen`` under way (None without parallelism).

    ``bounds_s`` (kernels, resources) is the least time by each of `RESOURCES`; ``bound_s`` their largest,
    ``limiter`` whose it is (the closest roof), ``efficiency`` bound over measured time. ``exceeds`` marks
    kernels faster than their bound by more than 1 % (`smlab.models.roofline.violations` says what may be
    wrong).
    """

    work: KernelWork
    maxima: Maxima
    grid: GridShare
    seen: UnderWay | None
    flops: Floats
    achieved_flops_per_s: Floats
    intensity: Floats
    mixed_peak: Floats
    peak_ceiling: Floats
    bandwidth_ceilings: Floats
    rooflines: Floats
    compute_s: Floats
    level_s: Floats
    bounds_s: Floats
    bound_s: Floats
    limiter: NDArray[np.object_]
    efficiency: Floats
    exceeds: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.flops)

    @property
    def limited_by(self) -> NDArray[np.object_]:
        """What limits each kernel, (kernels,): its ``limiter``, the closest roof, or `LATENCY` below
        `LOW_EFFICIENCY` of that."""
        far = self.efficiency < LOW_EFFICIENCY
        return np.where(far, np.array(LATENCY, dtype=object), self.limiter)

    @property
    def by_instructions(self) -> NDArray[np.bool_]:
        """The kernels without floating-point operations, whose roofline is that of their instructions,
        (kernels,)."""
        return ~(np.nan_to_num(self.flops) > 0) & (np.nan_to_num(self.work.instructions) > 0)


@dataclass(frozen=True)
class CeilingSwitches:
    """What is taken into account beyond the paper, which has none of it.

    ``at_clock`` scales the SM's rates to the clock at which each kernel ran, where that is known. ``issue``
    adds the rate at which instructions are issued to the ceilings (Ding and Williams 2022). It also adds the
    rates at which the ALU and the special-function pipe take theirs, where a profile counts them.
    ``requests`` counts among the bounds how many memory instructions an SM takes, whatever their bytes.
    ``parallelism`` counts what the grid can use of the GPU, where the launch is known; of that the bounds
    take only SMs that never get a block.
    """

    at_clock: bool = False
    issue: bool = True
    requests: bool = True
    parallelism: bool = True


def ceilings(
    work: KernelWork,
    gpu: Gpu,
    maxima: Which | Maxima = "sustained",
    switches: CeilingSwitches = CeilingSwitches(),
    *,
    seen: UnderWay | None = None,
) -> Ceilings:
    """The ceilings of every kernel of ``work`` on ``gpu``.

    ``maxima`` are the published ones (``"sustained"``) or the rated ones (``"spec"``; nothing should be
    faster). ``seen`` is what each warp has under way, for the parallelism; without it, what ``work`` shows,
    as measured on ``gpu``.
    """
    top = maxima if isinstance(maxima, Maxima) else maxima_of(gpu, maxima)
    clock = np.where(np.isnan(work.clock_hz) | (not switches.at_clock), 1.0, work.clock_hz / top.clock_hz)
    done = flops(work)
    by_precision = flops_by_precision(work)
    fma, add, mul = (np.nan_to_num(x) for x in (work.fma, work.add, work.mul))
    mixed = eq.mixed_peak(fma, add, mul, top.fma_flops_per_s, top.add_mul_flops_per_s) * clock[:, None]
    scalar_s = np.where(by_precision > 0, _over(by_precision, mixed), 0.0)
    of_tensor = np.nan_to_num(work.tensor_flops) > 0
    if top.tensor_flops_per_s == 0:
        work = work.flagged(of_tensor, f"tensor operations left out: {gpu.name} has no tensor cores")
        of_tensor = np.zeros(len(work), dtype=bool)
    tensor_s = np.where(of_tensor, _over(work.tensor_flops, top.tensor_flops_per_s * clock), 0.0)
    issue_s = np.nan_to_num(work.instructions) / (top.issue_per_s * clock)
    pipe_s = [
        np.nan_to_num(count) * float(gpu.number(f"pipe.{pipe}.interval_cycles")) / (top.issue_per_s * clock)
        for pipe, count in (("int32", work.alu_instructions), ("sfu", work.xu_instructions))
    ]
    fastest_s = np.maximum(scalar_s.max(axis=1), tensor_s)
    lanes = float(gpu.number("sm.warp_lanes"))
    warp = active_lanes(work, int(lanes)) / lanes
    ceiling_s = np.maximum(scalar_s.max(axis=1) / warp, tensor_s)
    mixed_peak, peak_ceiling = _over(done, fastest_s), _over(done, ceiling_s)
    compute_s = np.where(
        np.nan_to_num(done) > 0,
        np.max([ceiling_s, *(switches.issue * x for x in (issue_s, *pipe_s))], axis=0),
        issue_s,
    )

    served = served_bytes(work)
    ones = np.ones(len(work))
    bandwidth = top.bandwidth * np.stack([clock, ones, ones], axis=1)
    wavefronts = np.nan_to_num(work.shared_wavefronts)
    shared_s = eq.shared_seconds(wavefronts, 1.0, top.shared_bytes_per_s * clock, PASS_BYTES)
    level_bytes = np.nan_to_num(work.level_bytes)
    moving_s = level_bytes / bandwidth

    def transfers(grid: GridShare) -> tuple[Floats, Floats]:
        """(time in each level, time in shared memory), with what the grid can use of them."""
        shares = grid.share[:, USES.index("l1") :]
        return eq.transfer_seconds(served, bandwidth * shares), shared_s / grid.of("shared")

    grid = whole_gpu(len(work))
    if switches.parallelism:
        # Where instructions were not counted, the floating-point ones are known.
        issued = np.where(work.instructions > 0, work.instructions, warp_operations(work).sum(axis=1))
        demand = Demand(
            np.stack([issued, wavefronts, *level_bytes.T], axis=1),
            np.stack([np.maximum(ceiling_s, issue_s), shared_s, *moving_s.T], axis=1),
        )
        if seen is None:
            seen = under_way(work, gpu, demand, lambda share: sum_of(*transfers(share)))
        grid = grid_share(work, gpu, demand, seen)
    compute_s = compute_s / grid.of("issue")
    served_s, in_shared_s = transfers(grid)
    through = np.cumsum(served_s[:, ::-1], axis=1)[:, ::-1].copy()
    through[:, 0] += in_shared_s
    counted = ~np.isnan(work.level_bytes)
    counted[:, 0] |= shared_s > 0
    per_byte = eq.bandwidth_ceilings(served, served_s, np.nan_to_num(work.shared_bytes), in_shared_s)
    level_s = np.where(counted, np.maximum(through, compute_s[:, None]), np.nan)

    request_s = np.nan_to_num(work.memory_requests) / (top.requests_per_s * clock)
    of_sms = [
        *scalar_s.T,
        tensor_s,
        *(switches.issue * x for x in pipe_s),
        np.where(switches.issue | ~(np.nan_to_num(done) > 0), issue_s, 0.0),
        request_s if switches.requests else 0 * request_s,
        shared_s,
        moving_s[:, 0],
    ]
    bounds_s = np.stack([*(x / grid.busy_sms for x in of_sms), *moving_s[:, 1:].T], axis=1)
    bound_s = bounds_s.max(axis=1)
    names = np.array(RESOURCES, dtype=object)
    return Ceilings(
        work=work,
        maxima=top,
        grid=grid,
        seen=seen,
        flops=done,
        achieved_flops_per_s=done / work.seconds,
        intensity=intensity(work),
        mixed_peak=mixed_peak,
        peak_ceiling=peak_ceiling,
        bandwidth_ceilings=np.where(counted & np.isfinite(per_byte), per_byte, np.nan),
        rooflines=_over(done[:, None], level_s),
        compute_s=compute_s,
        level_s=level_s,
        bounds_s=bounds_s,
        bound_s=bound_s,
        limiter=names[bounds_s.argmax(axis=1)],
        efficiency=bound_s / work.seconds,
        exceeds=bound_s > work.seconds * (1 + TOLERANCE),
    )


def sum_of(levels_s: Floats, shared_s: Floats) -> Floats:
    """The time of all transfers one after the other, (kernels,)."""
    return np.asarray(levels_s.sum(axis=1) + shared_s)


TOLERANCE: Final = 0.01
"""Counters of different passes of a profiler differ by so much."""


def _over(above: Floats, below: Floats) -> Floats:
    """above / below, NaN where ``below`` is 0 or nothing is above."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = above / below
    return np.where((below > 0) & (above > 0), ratio, np.nan)


assert RESOURCES[: len(PRECISIONS)] == PRECISIONS

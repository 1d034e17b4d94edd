"""What follows from a kernel's counters alone: FLOPs, active lanes, bytes served by each level, intensity.

The counters themselves are a `KernelWork`; `smlab.hw_bench.profiles.work.roofline_quantities` makes one of a
profile.
"""

from __future__ import annotations

import numpy as np

from smlab.hw_bench.profiles.work.kernel_work import LEVELS, PRECISIONS, Floats, KernelWork
from smlab.models.roofline.equations import operational_intensity

__all__ = [
    "LEVELS",
    "PRECISIONS",
    "KernelWork",
    "active_lanes",
    "flops",
    "flops_by_precision",
    "intensity",
    "served_bytes",
    "traversing_bytes",
    "warp_operations",
]


def flops_by_precision(work: KernelWork) -> Floats:
    """FLOPs of the scalar pipes, shape (kernels, 3); an fma is two. Precisions that were not counted are
    0."""
    return np.asarray(np.nan_to_num(work.add) + np.nan_to_num(work.mul) + 2.0 * np.nan_to_num(work.fma))


def flops(work: KernelWork) -> Floats:
    """All FLOPs, those of tensor cores included, shape (kernels,); NaN where no floating-point operation
    was counted at all."""
    counted = (
        ~np.isnan(work.add).all(axis=1) | ~np.isnan(work.mul).all(axis=1) | ~np.isnan(work.fma).all(axis=1)
    )
    total = flops_by_precision(work).sum(axis=1) + np.nan_to_num(work.tensor_flops)
    return np.where(counted | (work.tensor_flops > 0), total, np.nan)


def warp_operations(work: KernelWork, lanes: int = 32) -> Floats:
    """About how many warp-instructions the floating-point operations are, shape (kernels, 3), by the mean
    of active lanes."""
    operations = np.nan_to_num(work.add) + np.nan_to_num(work.mul) + np.nan_to_num(work.fma)
    packed = np.array([2.0, 1.0, 1.0])  # a half2 instruction is two operations of each lane
    return np.asarray(operations / packed / active_lanes(work, lanes)[:, None])


def active_lanes(work: KernelWork, lanes: int = 32) -> Floats:
    """Mean active threads of a warp-instruction, shape (kernels,); all ``lanes`` where it is not known."""
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = work.thread_instructions / work.instructions
    return np.where(np.isfinite(mean) & (mean > 0), np.minimum(mean, lanes), float(lanes))


def served_bytes(work: KernelWork) -> Floats:
    """Bytes that each level serves itself (its hits), shape (kernels, 3): what traverses it less what
    traverses the next one.

    Van Lanker et al.'s N_mem. A level whose next one carries more (write-backs, fills, sectors fetched for
    nothing) serves 0. A level that was not counted serves 0 as well.
    """
    through = np.nan_to_num(work.level_bytes)
    l1, l2, dram = through.T
    below_l1 = np.where(np.isnan(work.l2_bytes), dram, l2)
    return np.stack([np.maximum(l1 - below_l1, 0.0), np.maximum(l2 - dram, 0.0), dram], axis=1)


def traversing_bytes(work: KernelWork) -> Floats:
    """Bytes that pass each level, shape (kernels, 3), NaN where not counted; as in Eq. 6, shared memory's
    pass the first too."""
    through = work.level_bytes
    shared = np.nan_to_num(work.shared_bytes)
    through[:, 0] = np.where(np.isnan(through[:, 0]) & (shared > 0), shared, through[:, 0] + shared)
    return through


def intensity(work: KernelWork) -> Floats:
    """FLOPs a byte at each level, shape (kernels, 3), Eq. 10; NaN where bytes or FLOPs are not known or
    are both 0."""
    return operational_intensity(flops(work)[:, None], traversing_bytes(work))

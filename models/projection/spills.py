"""Traffic of local memory: what a compiler spills passes L1, and what L1 and L2 do not hold goes further.

Local memory is a thread's own, so the SM's resident threads together come back to as many bytes as they have
of it. Of a working set beyond a cache's capacity all accesses miss if they come round in order (least
recently used). Without any order the share ``1 - C / W`` misses (`smlab.models.projection.residency`). The
middle is taken. L1 is what the resident blocks leave of it for the cache.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.profiles.work.kernel_work import Floats, KernelWork
from smlab.models.projection.parallelism import resident_blocks, warps_of
from smlab.models.projection.residency import miss_share


def with_local_memory(
    work: KernelWork, gpu: Gpu, bytes_per_thread: Floats, moved_bytes: Floats
) -> KernelWork:
    """The kernels of ``work`` on ``gpu`` with ``moved_bytes`` more loaded from and stored to local memory, of
    which each thread has ``bytes_per_thread``; arrays (kernels,). Kernels whose launch is not known, or that
    do not fit, keep the traffic in L1.
    """
    beyond_l1, beyond_l2 = np.zeros(len(work)), np.zeros(len(work))
    known = (moved_bytes > 0) & (bytes_per_thread > 0)
    known &= ~np.isnan(work.blocks) & ~np.isnan(work.threads_per_block)
    if known.any():
        threads = work.threads_per_block[known]
        shared = np.nan_to_num(work.shared_bytes_per_block[known])
        held = resident_blocks(gpu, threads, np.nan_to_num(work.registers_per_thread[known]), shared)
        held = np.minimum(held, np.ceil(work.blocks[known] / gpu.integer("gpu.sms")))
        local_bytes = held * warps_of(gpu, threads) * gpu.integer("sm.warp_lanes") * bytes_per_thread[known]
        reserved = held * (shared + gpu.integer("sm.shared_reserved_bytes_per_block"))
        capacity = np.maximum(gpu.integer("l1.bytes") - reserved, 0.0)
        if gpu.has("l1.cache_bytes"):
            capacity = np.minimum(capacity, gpu.integer("l1.cache_bytes"))
        local_bytes = np.maximum(local_bytes, 1.0)
        beyond_l1[known] = _misses(capacity, local_bytes)
        beyond_l2[known] = _misses(float(gpu.integer("l2.bytes")), local_bytes * gpu.integer("gpu.sms"))
    through_l2 = moved_bytes * beyond_l1
    return replace(
        work,
        l1_bytes=work.l1_bytes + moved_bytes,
        l2_bytes=work.l2_bytes + through_l2,
        dram_bytes=work.dram_bytes + through_l2 * beyond_l2,
    )


def _misses(capacity_bytes: Floats | float, working_set_bytes: Floats) -> Floats:
    """The middle between a cyclic order, in which all misses that does not fit, and none at all."""
    with_none = miss_share(capacity_bytes, working_set_bytes)
    return np.where(with_none > 0, (1.0 + with_none) / 2, 0.0)

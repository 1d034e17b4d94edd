"""What a larger or smaller L2 does to a kernel's DRAM traffic, where its working set is known.

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

import numpy as np

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.profiles.kernel_work import Floats, KernelWork


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

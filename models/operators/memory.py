"""What of an operator's traffic reaches DRAM: which rows are still in a cache when they are read again.

A block reads its row, then reads it again. In between, all resident blocks bring in theirs. The second
reading hits for sure if the cache holds all that the resident blocks move in all their passes. It misses for
sure if not even the rows to be read again fit. In between it is not known how much of the other traffic lies
between two touches. Its logarithm is taken as uniform between the two bounds. So the share of misses is
``ln(p x) / ln(p)``, for rows that take the share x of the cache, and p passes. Nothing here is fitted.

The same holds of an operator that is timed again and again. The next repeat touches all of its data again. By
then L2 has seen all of it once more, and what a framework puts in between (`REPEATS`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.models.operators.work import Floats, OperatorWork
from smlab.models.projection.parallelism import resident_blocks


@dataclass(frozen=True, eq=False)
class Misses:
    """Share of what is read again that comes from DRAM, 0 to 1: the estimate and the bounds around it;
    (rows,) each."""

    least: Floats
    share: Floats
    most: Floats


def miss_share(footprint_bytes: ArrayLike, capacity_bytes: float, passes: ArrayLike) -> Misses:
    """Misses among repeated reads: 0 where ``passes`` x footprint fits, 1 where the footprint alone does
    not.

    All arguments broadcast; ``passes`` must be above 1 (a footprint that is touched once has no repeated
    reads).
    """
    p = np.asarray(passes, dtype=np.float64)
    x = np.asarray(footprint_bytes, dtype=np.float64) / capacity_bytes
    share = np.clip(np.log(np.maximum(p * x, 1e-300)) / np.log(p), 0.0, 1.0)
    return Misses(np.where(x < 1, 0.0, 1.0), np.asarray(share), np.where(p * x > 1, 1.0, 0.0))


def reread_misses(work: OperatorWork, gpu: Gpu) -> Misses:
    """Which of ``work.again_bytes`` come from DRAM on ``gpu``: those that the SM's L1 and L2 both miss;
    (rows,).

    Rows of unknown launch are taken as one block of 256 threads a row. The most does without L1: some rows
    that fit a V100's are read again from DRAM as if it kept nothing (layer norm's, and softmax's of unlike
    steps).
    """
    sms = gpu.integer("gpu.sms")
    threads = np.where(work.threads_per_block > 0, work.threads_per_block, 256)
    resident = np.maximum(resident_blocks(gpu, threads), 1).astype(np.float64)
    blocks = np.where(work.blocks > 0, work.blocks, np.inf)
    on_an_sm = np.minimum(resident, np.ceil(blocks / sms)) * work.row_bytes
    on_the_gpu = np.minimum(resident * sms, blocks) * work.row_bytes
    l1 = miss_share(on_an_sm, l1_cache_bytes(gpu), work.passes)
    l2 = miss_share(on_the_gpu, gpu.number("l2.bytes"), work.passes)
    some = (work.again_bytes > 0).astype(np.float64)
    return Misses(
        some * np.minimum(l1.least, l2.least), some * np.minimum(l1.share, l2.share), some * l2.most
    )


REPEATS: Final = 1.25
"""Assumed: between two touches of one byte an operator's repeats touch all of its bytes, and of others at
most a fourth as many."""


def repeat_misses(work: OperatorWork, gpu: Gpu) -> Misses:
    """Which of ``work.once_bytes`` come from DRAM on ``gpu`` in each repeat; (rows,)."""
    return miss_share(work.once_bytes, gpu.number("l2.bytes"), REPEATS)


def l1_cache_bytes(gpu: Gpu) -> float:
    """The most that an SM can have as L1 cache."""
    return float(gpu.number("l1.cache_bytes" if gpu.has("l1.cache_bytes") else "l1.bytes"))

"""Softmax of a block a row: how much longer it takes than DRAM's bandwidth allows, since a block's steps wait
for one another.

PyTorch's ``cunn_SoftMaxForward`` (2.1, ``aten/src/ATen/native/cuda``) loads 16 bytes a thread in a step, and
what of a row is left after whole steps value by value. Such a step moves few bytes and waits as long as a
whole one. The kernel was written anew and executed as machine code on a description of each architecture
(`smlab.validation.campaigns.projection.rows`). Nothing there was fitted to a measured time.

On two SMs that share a part of DRAM the blocks keep step, and DRAM idles while all wait. With a quarter of an
A100's SMs they smooth out some of it. How much is left on a whole GPU was not executed: the two ends are
nothing and all that two SMs lose, and the estimate is their middle in logarithms.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.models.operators.tiles import executed_as, executed_part

Floats = NDArray[np.float64]

ROWS_MADE_BY: Final = "python -m smlab.validation.campaigns.projection rows"

LONGEST_OF_A_WARP: Final = 1024
"""Values of the longest row of softmax that a warp takes; a block takes longer ones."""


def softmax_threads(values: int) -> int:
    """Threads of a block of PyTorch's softmax over a row of more than 1,024 values of 4 bytes: the least
    power of two that is not below an eighth of the values, from 32 to 512."""
    enough = min(values // 4, 1024) // 2
    threads = 32
    while threads < enough:
        threads *= 2
    return threads


@dataclass(frozen=True, eq=False)
class Longer:
    """How many times as long as DRAM's bandwidth allows, at least 1: the least, the estimate and the most;
    (rows,) each."""

    least: Floats
    share: Floats
    most: Floats


def longer_than_dram(read_in_steps: NDArray[np.bool_], values: Floats, gpu: Gpu) -> Longer:
    """Of each row of softmax that a block goes over again and again (``read_in_steps``), by its number of
    values; (rows,).

    A row counts as the next longer one that was executed, whose steps take as long. Those beyond the longest,
    and all others, take no longer.
    """
    lengths, executed = _executed(executed_as(gpu))
    own = read_in_steps & (values > LONGEST_OF_A_WARP) & (values <= lengths[-1])
    place = np.searchsorted(lengths, values[own])
    stretch = lengths[place] / values[own]
    estimate, most = np.ones(len(values)), np.ones(len(values))
    estimate[own] = np.sqrt(executed[place].mean(axis=1) * stretch)
    most[own] = executed[place].max(axis=1) * stretch
    return Longer(np.ones(len(values)), estimate, most)


@cache
def _executed(architecture: str) -> tuple[Floats, Floats]:
    """Lengths of rows, (lengths,), and how much longer they took, (lengths, runs)."""

    def read(rows: Any) -> tuple[Floats, Floats]:
        runs = [[float(x) for x in text.split()] for text in rows["longer"][architecture]]
        return np.array(rows["lengths"], dtype=np.float64), np.array(runs)

    return executed_part("rows", ROWS_MADE_BY, read)

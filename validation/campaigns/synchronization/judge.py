"""Each operation on the simulated GPU, in the form in which it was measured, beside the published figure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.sim.execution.run import run_machine_code
from smlab.sim.frontends.registry import load_kernel
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.validation.campaigns.synchronization.operations import (
    OPERATIONS,
    TYPES,
    PublishedCost,
    PublishedGridCost,
    gpu_of,
)

KERNEL: Final = Path(__file__).with_name("timed.cu")
ROUNDS: Final = {True: 10, False: 2}
"""Of few threads and of many: what is on its way at the end is to be little of all."""
FEW_THREADS: Final = 128
UNROLL: Final = 100
NO_COST_CYCLES: Final = 2.0
"""A published cost below this is no cost that a ratio could judge."""


@dataclass(frozen=True)
class Judged:
    """A published figure and the simulated one, in cycles."""

    measured: PublishedCost
    cycles: float

    @property
    def ratio(self) -> float:
        """Simulated over measured."""
        return self.cycles / self.measured.cycles


def cost(operation: str, kind: str, threads: int, gpu: Gpu) -> float:
    """What one more operation of each of a block's threads adds to the slowest one's time, in cycles."""
    return costs(operation, kind, 1, threads, gpu)[1]


def costs(operation: str, kind: str, blocks: int, threads: int, gpu: Gpu) -> tuple[float, float]:
    """What one more operation of each thread of some blocks adds to the median thread's and the slowest
    one's time, in cycles."""
    spec, (c_type, dtype) = OPERATIONS[operation], TYPES[kind]
    defines = {
        "VALUE_TYPE": c_type,
        "BEFORE": spec.before,
        "MORE": spec.more,
        "AFTER": spec.after,
        "UNROLL": str(UNROLL),
    }
    found, rounds, all_threads = [], ROUNDS[threads <= FEW_THREADS], blocks * threads
    for name in ("without", "with_one_more"):
        first, second = np.zeros(all_threads, dtype=dtype), np.zeros(all_threads, dtype=dtype)
        cycles = np.zeros(all_threads, dtype=np.int64)
        image = load_kernel(KERNEL, gpu.sm_architecture, name=name, defines=defines)
        arguments = [np.int32(rounds), first, second, cycles]
        run_machine_code(MachineLaunch(image, (blocks, 1, 1), (threads, 1, 1), arguments), gpu)
        found.append((float(np.median(cycles)), float(cycles.max())))
    median, slowest = ((more - less) / (rounds * UNROLL) for less, more in zip(*found, strict=True))
    return median, slowest


def judge(
    rows: Iterable[PublishedCost], policy: str | None = None, progress: Callable[[Judged], None] | None = None
) -> list[Judged]:
    """All rows whose published cost is more than noise, each beside the simulated one."""
    found = []
    for row in rows:
        if row.cycles < NO_COST_CYCLES:
            continue
        found.append(Judged(row, cost(row.operation, row.type, row.threads, gpu_of(row.gpu, policy))))
        if progress is not None:
            progress(found[-1])
    return found


def judge_grids(
    rows: Iterable[PublishedGridCost], policy: str | None = None
) -> list[tuple[PublishedGridCost, float, float]]:
    """Each row of many blocks beside the simulated cost of the median thread and of the slowest one."""
    return [
        (row, *costs(row.operation, row.type, row.blocks, row.threads, gpu_of(row.gpu, policy)))
        for row in rows
    ]


def summary(judged: Sequence[Judged]) -> dict[str, float]:
    """Rows, median error and share beyond a factor of 1.5 (both in percent), and the largest factor."""
    logs = np.abs(np.log([max(j.ratio, 1e-3) for j in judged]))
    return {
        "rows": len(judged),
        "median_percent": 100 * float(np.median([abs(j.ratio - 1) for j in judged])),
        "beyond_percent": 100 * float(np.mean(logs > np.log(1.5))),
        "largest_factor": float(np.exp(logs.max())),
    }

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
from smlab.validation.campaigns.synchronization.operations import OPERATIONS, TYPES, PublishedCost, gpu_of

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
    spec, (c_type, dtype) = OPERATIONS[operation], TYPES[kind]
    defines = {
        "VALUE_TYPE": c_type,
        "BEFORE": spec.before,
        "MORE": spec.more,
        "AFTER": spec.after,
        "UNROLL": str(UNROLL),
    }
    slowest, rounds = [], ROUNDS[threads <= FEW_THREADS]
    for name in ("without", "with_one_more"):
        first, second = np.zeros(threads, dtype=dtype), np.zeros(threads, dtype=dtype)
        cycles = np.zeros(threads, dtype=np.int64)
        image = load_kernel(KERNEL, gpu.sm_architecture, name=name, defines=defines)
        arguments = [np.int32(rounds), first, second, cycles]
        run_machine_code(MachineLaunch(image, (1, 1, 1), (threads, 1, 1), arguments), gpu)
        slowest.append(int(cycles.max()))
    return (slowest[1] - slowest[0]) / (rounds * UNROLL)


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


def summary(judged: Sequence[Judged]) -> dict[str, float]:
    """Rows, median error and share beyond a factor of 1.5 (both in percent), and the largest factor."""
    logs = np.abs(np.log([max(j.ratio, 1e-3) for j in judged]))
    return {
        "rows": len(judged),
        "median_percent": 100 * float(np.median([abs(j.ratio - 1) for j in judged])),
        "beyond_percent": 100 * float(np.mean(logs > np.log(1.5))),
        "largest_factor": float(np.exp(logs.max())),
    }

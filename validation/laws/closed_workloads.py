"""Closed workloads drawn at random: warps that think and do atomics, and what a profiler would see of
them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator, SeedSequence, default_rng

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.profiles.counter_table import CounterTable
from smlab.sim.counters import counter_table
from smlab.sim.lowering import lower
from smlab.sim.machine import machine_from
from smlab.sim.reference import Record
from smlab.sim.simulate import ENGINES
from smlab.sim.workload import Duration
from smlab.validation.laws.closed_system import closed_kernel

JOBS = 600
"""Atomic jobs of one workload, about."""


@dataclass(frozen=True)
class ClosedWorkload:
    """One drawn closed workload."""

    warps: int
    lanes: int
    cas_warps: int
    think_cycles: float
    distribution: str
    seed: int


@dataclass(frozen=True)
class ObservedWorkload:
    """What a profiler would have seen of a workload (``counters``), and what only the simulator knows.

    ``n_mean`` is the time average of the jobs in the unit over the kernel, ``n_busy_mean`` over the busy time
    only.
    """

    workload: ClosedWorkload
    counters: CounterTable
    max_warps: int
    utilization: float
    n_mean: float
    n_busy_mean: float


def draw_workload(rng: Generator, max_warps: int) -> ClosedWorkload:
    """Warps and think time even over their orders of magnitude, lanes over 1 to 32; a third may compare
    and swap."""
    warps = round(float(np.exp(rng.uniform(0, np.log(max_warps)))))
    return ClosedWorkload(
        warps=warps,
        cas_warps=int(rng.integers(0, warps + 1)) if rng.random() < 1 / 3 else 0,
        lanes=int(rng.integers(1, 33)),
        think_cycles=float(np.exp(rng.uniform(np.log(5), np.log(5000)))),
        distribution=str(rng.choice(["fixed", "exponential"])),
        seed=int(rng.integers(2**32)),
    )


def observe(gpu: Gpu, count: int, stream: int, engine: str) -> list[ObservedWorkload]:
    """Simulate ``count`` drawn workloads."""
    rng = default_rng(SeedSequence(stream))
    machine = machine_from(gpu)
    found = []
    for _ in range(count):
        w = draw_workload(rng, machine.max_warps)
        kernel = closed_kernel(
            w.warps,
            max(20, JOBS // w.warps),
            Duration(w.think_cycles, w.distribution),
            lanes=w.lanes,
            cas_warps=w.cas_warps,
        )
        result = ENGINES[engine](lower(kernel, machine, w.seed), Record.TOTALS, None, None)
        atomic = result.atomic
        found.append(
            ObservedWorkload(
                w,
                counter_table(result),
                result.max_warps,
                atomic.utilization,
                atomic.n_mean,
                atomic.n_busy_mean,
            )
        )
    return found

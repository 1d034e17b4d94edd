"""Closed systems for the simulator: warps that alternate between thinking and the shared-memory atomic unit.

Such a kernel is the machine repairman of queuing theory: N customers (warps), think time Z, one server. With
exponential times and no pipeline it can be solved exactly, and so it tests simulator and solver against each
other.

Closed workloads are drawn at random; a profiler would see their counters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator, SeedSequence, default_rng
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.hw_bench.profiles.counter_table import CounterTable
from smlab.sim.address_patterns import Grouped
from smlab.sim.counters import counter_table
from smlab.sim.lowering import lower
from smlab.sim.machine import machine_from
from smlab.sim.reference import Record
from smlab.sim.result import JobTrace
from smlab.sim.simulate import DEFAULT_ENGINE, ENGINES
from smlab.sim.workloads.workload import Duration, Instruction, Kernel, Loop, Program

LATENCY_CYCLES = 2
"""The shortest path there is: a cycle before the atomic unit's server and one behind it. A delay that
customers spend beside their think time."""


def closed_kernel(
    warps: int,
    iterations: int,
    think: Duration,
    service: Duration | None = None,
    lanes: int = 32,
    cas_warps: int = 0,
) -> Kernel:
    """``warps`` warps on one SM, each ``iterations`` times: think, then one atomic whose result it waits for.

    ``service`` replaces the atomic's initiation interval; without it, ``lanes`` lanes on one word take what
    the unit takes. The first ``cas_warps`` warps do compare-and-swap.
    """

    def program(op: str) -> Program:
        body = (
            Instruction("think", name="thought", after=("result",), duration=think),
            Instruction(
                op, name="result", after=("thought",), lanes=lanes, shared=Grouped(lanes), duration=service
            ),
        )
        return Program(op, (Loop(iterations, body),))

    blocks = 1 if warps <= 32 else 2
    places = -(-warps // blocks)
    numbers = [[block * places + place for place in range(places)] for block in range(blocks)]
    roles = tuple(tuple(-1 if w >= warps else int(w < cas_warps) for w in row) for row in numbers)
    return Kernel(
        "closed", (program("atomic-add"), program("atomic-cas")), roles, blocks, shared_bytes_per_block=128
    )


def theory_gpu() -> Gpu:
    """A GPU whose atomic unit is a plain single server: unbounded queues for 64 warps, the shortest path."""
    return load_gpu("v100").with_values(
        {
            "mio.queue_entries": 64,
            "mio.front_cycles": 1,
            "mio.address_interval_cycles": 1,
            "mio.request_interval_cycles": 1,
            "atomic.queue_entries": 64,
            "atomic.address_interval_cycles": 1,
            "atomic.add.latency_cycles": 1,  # rounded up to what the path takes
            "atomic.cas.latency_cycles": 1,
        },
        source="assumed: a single server for comparison with theory",
    )


@dataclass(frozen=True)
class SteadyState:
    """Averages over a window in which all customers are present and the start is forgotten; rates are per
    cycle."""

    throughput: float
    queue_length: float
    utilization: float


def run_closed(kernel: Kernel, gpu: Gpu, seed: int, engine: str = DEFAULT_ENGINE) -> JobTrace:
    """The atomic jobs of a simulated closed kernel."""
    result = ENGINES[engine](lower(kernel, machine_from(gpu), seed), Record.ATOMICS, None, None)
    assert result.jobs is not None
    return result.jobs


@dataclass(frozen=True)
class Window:
    """Cycles ``begin`` to ``end`` of a run, fixed before the run: one that ended with the first warp to
    finish would prefer runs in which some warp was fast, and overrate the throughput (by 0.5 % with 2 warps
    and 4,000 iterations)."""

    begin: int
    end: int


def steady_window(iterations: int, think: Duration, service: Duration) -> Window:
    """The middle of a closed run: the start is forgotten, and no warp is likely to have finished.

    Without queueing a warp takes ``iterations`` times think and service; the window is from 15 to 60 % of
    that.
    """
    shortest = iterations * (think.mean_cycles + service.mean_cycles)
    return Window(int(0.15 * shortest), int(0.6 * shortest))


def _check_all_present(jobs: JobTrace, window: Window) -> None:
    last_of_warp = np.zeros(int(jobs.warp.max()) + 1, dtype=np.int64)
    np.maximum.at(last_of_warp, jobs.warp, jobs.completion)
    first_finished = int(last_of_warp[np.unique(jobs.warp)].min())
    if first_finished < window.end:
        raise SmlabError.at(
            "closed system", "a warp finished within the window", first_finished, f"later than {window.end}"
        )


def steady_state(jobs: JobTrace, window: Window) -> SteadyState:
    """Throughput, n and utilization of the atomic unit within the window; `SmlabError` if a warp finished
    before its end."""
    _check_all_present(jobs, window)
    begin, end = window.begin, window.end
    length = end - begin
    issue, completion = np.clip(jobs.issue, begin, end), np.clip(jobs.completion, begin, end)
    order = np.argsort(issue, kind="stable")
    reached = np.maximum.accumulate(completion[order])
    idle = np.maximum(issue[order][1:] - reached[:-1], 0).sum() + (issue.min() - begin) + (end - reached[-1])
    return SteadyState(
        throughput=float(((jobs.completion > begin) & (jobs.completion <= end)).sum() / length),
        queue_length=float((completion - issue).sum() / length),
        utilization=float(1 - idle / length),
    )


def gaps_between_completions(jobs: JobTrace, window: Window) -> NDArray[np.float64]:
    """The times between successive completions in the window; their mean is 1 / X."""
    _check_all_present(jobs, window)
    done = np.sort(jobs.completion)
    return np.diff(done[(done >= window.begin) & (done <= window.end)]).astype(np.float64)


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

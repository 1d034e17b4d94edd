"""Closed systems for the simulator: warps that alternate between thinking and the shared-memory atomic unit.

Such a kernel is the machine repairman of queuing theory: N customers (warps), think time Z, one server. With exponential
times and no pipeline it can be solved exactly, and so it tests simulator and solver against each other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hw_bench.descriptions import Gpu, load_gpu
from sim.lowering import lower
from sim.machine import machine_from
from sim.patterns import Grouped
from sim.reference import Record
from sim.result import JobTrace
from sim.simulate import DEFAULT_ENGINE, ENGINES
from sim.workload import Duration, Instruction, Kernel, Loop, Program

LATENCY_CYCLES = 1
"""The shortest pipeline behind the atomic unit's server; a delay that customers spend beside their think time."""


def closed_kernel(
    warps: int,
    iterations: int,
    think: Duration,
    service: Duration | None = None,
    lanes: int = 32,
    cas_warps: int = 0,
) -> Kernel:
    """``warps`` warps on one SM, each ``iterations`` times: think, then one atomic whose result it waits for.

    ``service`` replaces the atomic's initiation interval; without it, ``lanes`` lanes on one word take what the unit takes.
    The first ``cas_warps`` warps do compare-and-swap.
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
    """A GPU whose atomic unit is a plain single server: an unbounded queue for 64 warps, the shortest pipeline."""
    return load_gpu("v100").with_values(
        {
            "atomic.queue_entries": 64,
            "atomic.add.latency_cycles": LATENCY_CYCLES,
            "atomic.cas.latency_cycles": LATENCY_CYCLES,
        },
        source="assumed: a single server for comparison with theory",
    )


@dataclass(frozen=True)
class SteadyState:
    """Averages over the window in which all customers are present and the start is forgotten; rates are per cycle."""

    throughput: float
    queue_length: float
    utilization: float


def run_closed(kernel: Kernel, gpu: Gpu, seed: int, engine: str = DEFAULT_ENGINE) -> JobTrace:
    """The atomic jobs of a simulated closed kernel."""
    result = ENGINES[engine](lower(kernel, machine_from(gpu), seed), Record.ATOMICS, None, None)
    assert result.jobs is not None
    return result.jobs


def window(jobs: JobTrace, forget: float) -> tuple[int, int]:
    """From the moment when ``forget`` of all jobs are done to the first moment when a warp has done its last."""
    done = np.sort(jobs.completion)
    last_of_warp = np.zeros(int(jobs.warp.max()) + 1, dtype=np.int64)
    np.maximum.at(last_of_warp, jobs.warp, jobs.completion)
    return int(done[int(forget * len(done))]), int(last_of_warp[np.unique(jobs.warp)].min())


def steady_state(jobs: JobTrace, forget: float = 0.2) -> SteadyState:
    """Throughput, n and utilization of the atomic unit within the window of a closed run."""
    begin, end = window(jobs, forget)
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


def gaps_between_completions(jobs: JobTrace, forget: float = 0.2) -> NDArray[np.float64]:
    """The times between successive completions in the window; their mean is 1 / X."""
    begin, end = window(jobs, forget)
    done = np.sort(jobs.completion)
    return np.diff(done[(done >= begin) & (done <= end)]).astype(np.float64)

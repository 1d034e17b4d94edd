"""Service tables in bulk: T(n, e, c) for arrays of points, inside one compiled loop.

Each point is a simulation of its own, by the same core that runs kernels. Only what surrounds a run is saved:
the code for all e is put together once, and a point is a row of roles.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.sim.compiled import layout
from smlab.sim.compiled.kernel_arrays import Code, Memory, assemble
from smlab.sim.compiled.sweep import sweep
from smlab.sim.compiled.threads import Stopped, in_threads, processors
from smlab.sim.lowering import LoweredKernel, lower
from smlab.sim.machine import Machine
from smlab.sim.workloads.atomics_benchmark import MEASURED_ROUNDS, WARM_UP_ROUNDS, simultaneous_atomics
from smlab.sim.workloads.workload import Kernel, blocks_per_sm

CHUNK = 2048
"""Points in one call of the compiled loop: well below a second, so that Ctrl-C is heard."""

Ints = NDArray[np.int64]


def batch_cycles(
    machine: Machine,
    op: str,
    jobs: ArrayLike,
    lanes: ArrayLike,
    cas_jobs: ArrayLike,
    *,
    threads: int | None = None,
) -> Ints:
    """`smlab.sim.service_table.batch_cycles` for arrays of points, which are broadcast against each other."""
    return _cycles(machine, op, (jobs, lanes, cas_jobs), 0, 1, threads)


def looped_cycles(
    machine: Machine,
    op: str,
    jobs: ArrayLike,
    lanes: ArrayLike,
    cas_jobs: ArrayLike,
    *,
    threads: int | None = None,
) -> NDArray[np.float64]:
    """`smlab.sim.service_table.looped_cycles` for arrays of points, which are broadcast against each
    other."""
    cycles = _cycles(machine, op, (jobs, lanes, cas_jobs), WARM_UP_ROUNDS, MEASURED_ROUNDS, threads)
    return cycles / MEASURED_ROUNDS


def _cycles(
    machine: Machine,
    op: str,
    given: tuple[ArrayLike, ArrayLike, ArrayLike],
    skipped: int,
    timed: int,
    threads: int | None,
) -> Ints:
    jobs, lanes, cas = np.broadcast_arrays(*(np.asarray(x, dtype=np.int64) for x in given))
    if not jobs.size:
        return np.zeros(jobs.shape, dtype=np.int64)
    for outside in np.argwhere((cas < 0) | (cas > jobs))[:1]:
        n, c = (int(x[tuple(outside)]) for x in (jobs, cas))
        raise SmlabError.at("cas_jobs", "out of range", c, f"0 to {n}, the jobs of its point")
    iterations = skipped + timed + 1 if skipped else timed
    code, points, largest = _points(machine, op, jobs.ravel(), lanes.ravel(), cas.ravel(), iterations)
    if threads is None:
        threads = processors() if points.size > CHUNK else 1
    max_jobs = int(points["jobs"].max()) * iterations

    def run(bounds: tuple[int, int], stopped: Stopped) -> None:
        memory = _memory(largest, code, points, max_jobs)
        for begin in range(bounds[0], bounds[1], CHUNK):
            if stopped():
                return
            status = sweep(memory.address, begin, min(bounds[1], begin + CHUNK), skipped, timed)
            assert status == layout.DONE

    # Points differ in size, so there are more parts than threads.
    bounds = np.linspace(0, points.size, 8 * threads + 1 if threads > 1 else 2).astype(int).tolist()
    in_threads(run, list(itertools.pairwise(bounds)), threads)
    cycles: Ints = points["end"] - points["begin"]
    return cycles.reshape(jobs.shape)


def _points(
    machine: Machine, op: str, jobs: Ints, lanes: Ints, cas: Ints, iterations: int
) -> tuple[Code, NDArray[np.void], LoweredKernel]:
    """The code for each e that occurs, the points, and the lowered kernel of the largest n."""
    code = Code(machine)
    points = np.zeros(jobs.size, dtype=layout.POINT)
    points["jobs"], points["cas"] = jobs, cas
    with_cas = bool(cas.any())
    for e in np.unique(lanes).tolist():
        points["code"][lanes == e] = len(code.entries)
        for program in lower(_one_job(op, e, iterations, with_cas), machine).programs:
            code.add(program)
    for n in np.unique(jobs).tolist():
        kernel, at = simultaneous_atomics(n, op, int(lanes[0]), 0, iterations), jobs == n
        points["blocks"][at], points["places"][at] = kernel.blocks, kernel.warps_per_block
        points["blocks_per_sm"][at] = min(kernel.blocks, blocks_per_sm(kernel, machine))
    return code, points, lower(kernel, machine)


@lru_cache(maxsize=1024)
def _one_job(op: str, lanes: int, iterations: int, with_cas: bool) -> Kernel:
    """The programs of every point with this many lanes; without the compare-and-swap that no job does."""
    kernel = simultaneous_atomics(1, op, lanes, 0, iterations)
    return kernel if with_cas else replace(kernel, programs=kernel.programs[:1])


def _memory(largest: LoweredKernel, code: Code, points: NDArray[np.void], max_jobs: int) -> Memory:
    """Tables for any of the points, used by one thread."""
    roles = np.zeros((largest.kernel.blocks, largest.kernel.warps_per_block), dtype=np.int64)
    memory = assemble(largest, code, roles, layout.ATOMICS, layout.NEVER - 1)
    room = max_jobs + largest.machine.schedulers
    memory.put("job_row", np.empty(room, dtype=layout.JOB_ROW))
    memory["job_rows"] = room
    memory.put("point", points)
    return memory

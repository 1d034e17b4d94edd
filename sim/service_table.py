"""Simulated service tables: T(n, e, c) of the atomic unit as the microbenchmarks of Dong & Pai would
measure it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.sim.instructions import Unit
from smlab.sim.lowering import lower
from smlab.sim.machine import Machine, machine_from
from smlab.sim.options import by_keywords
from smlab.sim.reference import Record
from smlab.sim.simulate import DEFAULT_ENGINE, ENGINES
from smlab.sim.workloads.atomics_benchmark import MEASURED_ROUNDS, WARM_UP_ROUNDS, simultaneous_atomics

MAX_LANES = 32
Ints = NDArray[np.int64]

FORMS = ("batch", "looped")


IN_BULK = 8
"""Values of n in one call of an engine that takes many points at once: each call lowers every e anew."""


def batch_cycles(
    machine: Machine, op: str, jobs: int, lanes: int, cas_jobs: int, engine: str = DEFAULT_ENGINE
) -> int:
    """T(n, e, c): from the first issue to the last completion of n jobs that are all issued at once
    (Section 3.2)."""
    result = ENGINES[engine](
        lower(simultaneous_atomics(jobs, op, lanes, cas_jobs), machine), Record.ATOMICS, None, None
    )
    trace = result.jobs
    assert trace is not None
    return int(trace.completion.max() - trace.issue.min())


def looped_cycles(
    machine: Machine, op: str, jobs: int, lanes: int, cas_jobs: int, engine: str = DEFAULT_ENGINE
) -> float:
    """n times the mean time between completions with n jobs circulating and no think time, in the steady
    state.

    It is the flow-equivalent counterpart of T: looped / n is the service time S(n) that a queuing network
    wants (Chandy, Herzog & Woo 1975), free of the filling and draining that a batch contains.
    """
    rounds = WARM_UP_ROUNDS + MEASURED_ROUNDS
    kernel = simultaneous_atomics(jobs, op, lanes, cas_jobs, iterations=rounds + 1)
    result = ENGINES[engine](lower(kernel, machine), Record.ATOMICS, None, None)
    assert result.jobs is not None
    done = np.sort(result.jobs.of_unit(Unit.ATOMIC).completion)
    first, last = WARM_UP_ROUNDS * jobs - 1, rounds * jobs - 1
    return float(done[last] - done[first]) / MEASURED_ROUNDS


@dataclass(frozen=True, kw_only=True)
class ServiceTableOptions:
    """The options of `service_table`."""

    op: str = "add"
    form: str = "batch"
    jobs: Sequence[int] | None = None
    lanes: Sequence[int] | None = None
    cas_jobs: Iterable[int] | None = None
    engine: str | None = None
    progress: Callable[[int, int], None] | None = None


@by_keywords(ServiceTableOptions)
def service_table(gpu: Gpu, options: ServiceTableOptions) -> xr.DataArray:
    """T over n, e and c: dims ``("n", "e", "c")``, values in cycles, NaN where c > n and where c was not
    asked for.

    By default n runs to the GPU's warps an SM, e to 32 and c from 0 to n. ``cas_jobs`` restricts c.
    """
    op, form, jobs, lanes = options.op, options.form, options.jobs, options.lanes
    if form not in FORMS:
        raise SmlabError.at("form", "unknown", form, "batch or looped")
    machine = machine_from(gpu)
    machine.atomic(op.replace("-", "_"))
    n_values = list(jobs) if jobs is not None else list(range(1, machine.max_warps + 1))
    e_values = list(lanes) if lanes is not None else list(range(1, MAX_LANES + 1))
    cas_jobs = range(max(n_values) + 1) if options.cas_jobs is None else options.cas_jobs
    c_values = sorted(set(cas_jobs))
    table = xr.DataArray(
        np.full((len(n_values), len(e_values), len(c_values)), np.nan),
        dims=("n", "e", "c"),
        coords={"n": n_values, "e": e_values, "c": c_values},
        name="t_cycles",
        attrs={"gpu": gpu.name, "op": op, "form": form, "kind": "simulated", "units": "cycles"},
    )
    engine = options.engine or DEFAULT_ENGINE
    batch = IN_BULK if engine == "compiled" else 1
    for begin in range(0, len(n_values), batch):
        end = min(begin + batch, len(n_values))
        rows, columns = np.nonzero(np.less_equal.outer(c_values, n_values[begin:end]).T)
        n, c = (np.array(n_values)[begin + rows, None], np.array(c_values)[columns, None])
        cycles = _cycles(machine, op, form, engine, n, np.array([e_values]), c)
        table.values[begin + rows, :, columns] = cycles
        if options.progress is not None:
            options.progress(end, len(n_values))
    return table


def _cycles(
    machine: Machine, op: str, form: str, engine: str, jobs: Ints, lanes: Ints, cas_jobs: Ints
) -> NDArray[np.float64]:
    """T at points that are broadcast against each other: in bulk where the engine can, else one after the
    other."""
    if engine == "compiled":
        from smlab.sim.compiled import service_tables as bulk

        in_bulk = bulk.batch_cycles if form == "batch" else bulk.looped_cycles
        return np.asarray(in_bulk(machine, op, jobs, lanes, cas_jobs), dtype=np.float64)
    one = batch_cycles if form == "batch" else looped_cycles
    each = np.vectorize(lambda n, e, c: one(machine, op, int(n), int(e), int(c), engine), otypes=[np.float64])
    return np.asarray(each(jobs, lanes, cas_jobs))

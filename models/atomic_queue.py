"""Utilization of the shared-memory atomic unit: one load-dependent server, fed with profiler counters.

Source: R. Dong and S. Pai, "Modeling Utilization to Identify Shared-memory Atomic Bottlenecks", Section 3.3,
Tables 1 and 2. The server's times are a `ServiceTable`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.profiles.counter_table import WHOLE_GPU, CounterTable
from smlab.models.service_table import ServiceTable

Floats = NDArray[np.float64]

OPERATIONS_COUNTERS = {
    "wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_atom.sum",
    "lanes": "smsp__thread_inst_executed_op_shared_atom.sum",
}
"""The whole-GPU counters that O can be read from, by what they count."""

_PER_SM = ("shared_atom", "shared_atom_cas", "active_cycles", "achieved_occupancy")


@dataclass(frozen=True)
class AtomicCounters:
    """The basic quantities of one kernel launch (Dong & Pai, Table 1); all arrays (sms,).

    ``sm`` indices; ``fao_jobs`` N_f and ``cas_jobs`` N_c, warp-instructions of fetch-and-op and of
    compare-and-swap; ``elapsed_cycles`` T; ``mean_active_warps`` n_hat = achieved occupancy times warps an
    SM; ``operations`` O, over all SMs. `SmlabError` naming the SM if a value is negative or not finite, or if
    an SM has jobs but no cycles or no active warps, and if there are operations but no jobs.
    """

    sm: NDArray[np.int64]
    fao_jobs: Floats
    cas_jobs: Floats
    elapsed_cycles: Floats
    mean_active_warps: Floats
    operations: float

    def __post_init__(self) -> None:
        for name in ("fao_jobs", "cas_jobs", "elapsed_cycles", "mean_active_warps"):
            values = getattr(self, name)
            if values.shape != self.sm.shape:
                raise SmlabError.at(name, "one value an SM is needed", values.shape, str(self.sm.shape))
            self._refuse(~(np.isfinite(values) & (values >= 0)), name, values, "a finite number, 0 or more")
        if not (np.isfinite(self.operations) and self.operations >= 0):
            raise SmlabError.at("operations", "unusable count", self.operations, "a finite number, 0 or more")
        for name in ("elapsed_cycles", "mean_active_warps"):
            values = getattr(self, name)
            self._refuse((self.jobs > 0) & (values == 0), name, values, "more than 0 where there are jobs")
        if self.operations > 0 and not self.jobs.any():
            raise SmlabError.at(
                "operations", "atomic operations but no atomic job on any SM", self.operations
            )

    @property
    def jobs(self) -> Floats:
        """N = N_f + N_c of each SM (Table 2)."""
        return self.fao_jobs + self.cas_jobs

    def _refuse(self, bad: NDArray[np.bool_], name: str, values: Floats, expected: str) -> None:
        if bad.any():
            place = f"SM {self.sm[bad][0]}: {name}"
            raise SmlabError.at(place, "unusable counter value", float(values[bad][0]), expected)


@dataclass(frozen=True)
class UtilizationEstimate:
    """The derived quantities of one SM (Dong & Pai, Table 2).

    ``jobs`` N and ``cas_jobs`` N_c; ``n`` the estimated queue length n_hat; ``e`` operations a job, the same
    for all SMs; ``c`` queued compare-and-swap jobs; ``service_cycles`` S(n, e, c); ``busy_cycles`` B = N S;
    ``elapsed_cycles`` T; ``utilization`` U = B / T, a ratio, not clipped at 1. On an SM without jobs B = U =
    0 and ``service_cycles`` is NaN; ``e`` is NaN where no SM has jobs.
    """

    sm: int
    jobs: float
    cas_jobs: float
    n: float
    e: float
    c: float
    service_cycles: float
    busy_cycles: float
    elapsed_cycles: float
    utilization: float


def read_atomic_counters(
    table: CounterTable,
    max_warps: int,
    kernel: str | None = None,
    launch: int = 0,
    e_from: Literal["wavefronts", "lanes"] = "wavefronts",
) -> AtomicCounters:
    """The quantities of Table 1 for one kernel launch, from the counters as nvprof and ncu name them.

    Per SM: ``shared_atom`` (N_f), ``shared_atom_cas`` (N_c), ``active_cycles``, ``achieved_occupancy`` (0 ..
    1), which times ``max_warps`` (warps an SM) gives the mean active warps. For the whole GPU, O:
    shared-memory passes (``e_from="wavefronts"``, the paper's counter) or active threads
    (``e_from="lanes"``), see `OPERATIONS_COUNTERS`. `SmlabError` if a counter is missing, on some SMs only,
    or there twice, if ``kernel`` is None and the launch has several kernels, or on unusable values.
    """
    if e_from not in OPERATIONS_COUNTERS:
        raise SmlabError.at("e_from", "unknown choice", e_from, " or ".join(OPERATIONS_COUNTERS))
    if not max_warps >= 1:
        raise SmlabError.at("max_warps", "not a number of warps an SM", max_warps, "1 or more")
    chosen = table.launch == launch
    if kernel is None and len(names := sorted(set(table.kernel[chosen].tolist()))) > 1:
        raise SmlabError.at(f"launch {launch}", "several kernels, one must be named", names)
    if kernel is not None:
        chosen = chosen & (table.kernel == kernel)
    seen: set[tuple[str, int]] = set()
    for row in zip(table.counter[chosen].tolist(), table.sm[chosen].tolist(), strict=True):
        if row in seen:
            raise SmlabError.at(f"counter {row[0]!r}", f"reported twice for SM {row[1]}, launch {launch}")
        seen.add(row)

    columns = {counter: table.values(counter, kernel=kernel, launch=launch) for counter in _PER_SM}
    sms = sorted({sm for column in columns.values() for sm in column if sm != WHOLE_GPU})
    if not sms:
        of = "" if kernel is None else f" of kernel {kernel!r}"
        raise SmlabError.at(f"launch {launch}{of}", "no counter of any SM", expected=", ".join(_PER_SM))
    for counter, column in columns.items():
        missing = [sm for sm in sms if sm not in column]
        if missing:
            what = f"missing for SM {missing[0]} and {len(missing) - 1} other SMs, launch {launch}"
            raise SmlabError.at(f"counter {counter!r}", what)
    fao, cas, cycles, occupancy = (
        np.array([column[sm] for sm in sms], dtype=np.float64) for column in columns.values()
    )
    if not (ratio := (occupancy >= 0) & (occupancy <= 1)).all():
        place = f"SM {np.array(sms)[~ratio][0]}: achieved_occupancy"
        raise SmlabError.at(place, "not a ratio", float(occupancy[~ratio][0]), "0 .. 1")
    return AtomicCounters(
        sm=np.array(sms, dtype=np.int64),
        fao_jobs=fao,
        cas_jobs=cas,
        elapsed_cycles=cycles,
        mean_active_warps=occupancy * max_warps,
        operations=table.value_of(OPERATIONS_COUNTERS[e_from], kernel=kernel, launch=launch),
    )


def estimate_utilization(counters: AtomicCounters, table: ServiceTable) -> tuple[UtilizationEstimate, ...]:
    """The atomic unit's utilization on each SM, in the order of ``sm``, as published (Dong & Pai, Table 2).

    N = N_f + N_c, n = n_hat, e = O / sum N, c = n N_c / N, B = N S(n, e, c), U = B / T. For 0 < n < 1 the
    table interpolates T from 0 at n = 0, so S is that of one job. `SmlabError` naming the SM if n exceeds the
    table's, and naming the argument if e lies outside the table, or if there are compare-and-swap jobs and
    the table has none.
    """
    jobs, n = counters.jobs, counters.mean_active_warps
    busy = jobs > 0
    over = busy & (n > table.n_max)
    if over.any():
        place = f"SM {counters.sm[over][0]}: mean_active_warps"
        raise SmlabError.at(place, "outside the service table", float(n[over][0]), f"n = 0 .. {table.n_max}")
    e = counters.operations / float(jobs.sum()) if busy.any() else float("nan")
    c, service, spent, utilization = (
        np.zeros_like(n),
        np.full_like(n, np.nan),
        np.zeros_like(n),
        np.zeros_like(n),
    )
    c[busy] = n[busy] * (counters.cas_jobs[busy] / jobs[busy])  # this order: exactly n where all jobs are CAS
    if busy.any():
        service[busy] = table.service_cycles(n[busy], e, c[busy])
    spent[busy] = jobs[busy] * service[busy]
    utilization[busy] = spent[busy] / counters.elapsed_cycles[busy]
    columns = np.stack(
        [
            jobs,
            counters.cas_jobs,
            n,
            np.full_like(n, e),
            c,
            service,
            spent,
            counters.elapsed_cycles,
            utilization,
        ],
        axis=1,
    )
    pairs = zip(counters.sm.tolist(), columns.tolist(), strict=True)
    return tuple(UtilizationEstimate(sm, *values) for sm, values in pairs)

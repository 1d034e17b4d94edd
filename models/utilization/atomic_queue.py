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
from smlab.hw_bench.profiles import Profile, as_profile, atomic_quantities
from smlab.hw_bench.profiles.counter_table import CounterTable
from smlab.models.utilization.service_table import ServiceTable

Floats = NDArray[np.float64]


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
    table: CounterTable | Profile,
    max_warps: int | None = None,
    kernel: str | None = None,
    launch: int = 0,
    e_from: Literal["wavefronts", "lanes"] = "wavefronts",
) -> AtomicCounters:
    """The quantities of Table 1 for one kernel launch, as `smlab.hw_bench.profiles.atomic_quantities` takes
    them from a simulation's counter table or from a profile.

    O is the passes over shared memory (``e_from="wavefronts"``, the paper's counter) or the active threads
    (``e_from="lanes"``). ``max_warps``, the warps that an SM can hold, is needed where the counters give
    occupancy only. Where they are of the whole GPU, its mean SM stands as SM `WHOLE_GPU`. `SmlabError` if a
    counter is missing, if ``kernel`` is None and the launch has several kernels, or on unusable values.
    """
    if e_from not in ("wavefronts", "lanes"):
        raise SmlabError.at("e_from", "unknown choice", e_from, "wavefronts or lanes")
    if max_warps is not None and not max_warps >= 1:
        raise SmlabError.at("max_warps", "not a number of warps an SM", max_warps, "1 or more")
    profile = table if isinstance(table, Profile) else as_profile(table)
    quantities = atomic_quantities(profile.of_launch(launch, kernel), max_warps=max_warps, keep_idle=True)
    operations = quantities.wavefronts if e_from == "wavefronts" else quantities.thread_operations
    if np.isnan(operations).any():
        place = f"{profile.path}: launch {launch}"
        raise SmlabError(f"{place}: no counter tells the {e_from} of shared-memory atomics")
    order, sms = np.argsort(quantities.sm, kind="stable"), quantities.sms
    return AtomicCounters(
        sm=quantities.sm[order],
        fao_jobs=((quantities.jobs - quantities.cas_jobs) / sms)[order],
        cas_jobs=(quantities.cas_jobs / sms)[order],
        elapsed_cycles=quantities.active_cycles[order],
        mean_active_warps=quantities.mean_active_warps[order],
        operations=float((operations / sms).sum()),
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

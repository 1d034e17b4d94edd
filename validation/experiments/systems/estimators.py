"""What the estimators of the atomic unit's utilization say of a simulated kernel, from what a profiler
would count."""

from __future__ import annotations

import math
from collections import OrderedDict

import numpy as np
import xarray as xr
from smlab.models.closed_estimator import estimate_closed
from smlab.models.service_table import ServiceTable
from smlab.sim.compiled import table as bulk
from smlab.sim.machine import Machine
from smlab.sim.result import SimResult

KEPT_TABLES = 64


class Tables:
    """Service tables of the GPUs of a study, as far as they are needed, the latest ones kept. Empty after
    travelling."""

    def __init__(self) -> None:
        self._kept: OrderedDict[object, ServiceTable] = OrderedDict()

    def __reduce__(self) -> tuple[type[Tables], tuple[()]]:
        return Tables, ()

    def get(
        self, machine: Machine, op: str, form: str, warps: int, lanes: int, with_cas: bool
    ) -> ServiceTable:
        """T(n, e, c) for n up to ``warps`` and the two whole e from ``lanes``, which stand at e = 1 and e
        = 2."""
        key = (repr(machine), op, form, warps, lanes, with_cas)
        found = self._kept.get(key)
        if found is None:
            found = _simulate(machine, op, form, warps, lanes, with_cas)
            if len(self._kept) >= KEPT_TABLES:
                self._kept.popitem(last=False)
            self._kept[key] = found
        return found


def _simulate(machine: Machine, op: str, form: str, warps: int, lanes: int, with_cas: bool) -> ServiceTable:
    two = sorted({lanes, min(lanes + 1, machine.warp_lanes)})
    n, e, c = (
        axis.ravel()
        for axis in np.meshgrid(
            np.arange(1, warps + 1), two, np.arange(warps + 1 if with_cas else 1), indexing="ij"
        )
    )
    there = c <= n
    in_bulk = bulk.batch_cycles if form == "batch" else bulk.looped_cycles
    cycles = np.full(n.shape, np.nan)
    cycles[there] = in_bulk(machine, op, n[there], e[there], c[there], threads=1)
    shape = (warps, len(two), -1)
    coords = {
        "n": np.arange(1, warps + 1),
        "e": np.arange(1, len(two) + 1),
        "c": np.arange(warps + 1 if with_cas else 1),
    }
    attrs = {"gpu": machine.name, "op": op, "form": form, "kind": "simulated"}
    return ServiceTable(xr.DataArray(cycles.reshape(shape), coords=coords, dims=("n", "e", "c"), attrs=attrs))


def estimates(
    result: SimResult, machine: Machine, op: str, tables: Tables, wanted: tuple[str, ...]
) -> dict[str, float]:
    """Utilization over the elapsed cycles (0 .. 1) by ``wanted``: ``occupancy`` (Dong & Pai, Table 2),
    ``closed`` (the closed network on the looped table). What they are given: jobs, cycles, resident warps,
    passes and compare-and-swap a job.
    """
    sms = len(result.sms)
    jobs = sum(s.atomic_completions for s in result.sms) / sms
    if jobs == 0:
        return dict.fromkeys(wanted, 0.0)
    active = sum(s.active_cycles for s in result.sms) / sms
    warps = sum(s.resident_warp_cycles for s in result.sms) / (sms * active)
    e = sum(s.atomic_passes for s in result.sms) / (sms * jobs)
    share = sum(s.atomic_cas_jobs for s in result.sms) / (sms * jobs)
    lanes = min(math.floor(e), machine.warp_lanes)
    within = e - lanes + 1
    most = min(machine.max_warps, math.ceil(warps))
    warps = min(warps, float(most))
    found = {}
    for name in wanted:
        form = "batch" if name == "occupancy" else "looped"
        table = tables.get(machine, op, form, most, lanes, share > 0)
        if name == "occupancy":
            service = float(table.service_cycles(warps, within, warps * share))
            found[name] = jobs * service / result.cycles
        else:
            closed = estimate_closed([jobs], [active], [warps], [within], [share], table)
            found[name] = float(closed.utilization[0]) * active / result.cycles
    return found

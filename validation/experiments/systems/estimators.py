"""What the estimators of the atomic unit's utilization say of a simulated kernel, from what a profiler
would count."""

from __future__ import annotations

import math

from smlab.models.closed_estimator import estimate_closed
from smlab.sim.machine import Machine
from smlab.sim.result import SimResult
from smlab.validation.service_tables import StudyTables


def estimates(
    result: SimResult, machine: Machine, op: str, tables: StudyTables, wanted: tuple[str, ...]
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

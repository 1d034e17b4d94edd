"""A simulation's counters, in the form and under the names that the profilers use.

Per SM, as nvprof gives them (Dong & Pai, Table 1): ``shared_atom`` (fetch-and-op jobs), ``shared_atom_cas``,
``active_cycles``, ``active_warps`` (warp-cycles), ``achieved_occupancy``. For the whole GPU, as Nsight Compute gives them:
executed atomic warp-instructions, their wavefronts (passes over the banks) and thread operations.
"""

from __future__ import annotations

from hw_bench.counters import WHOLE_GPU, CounterRow, CounterTable
from sim.result import SimResult

WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_atom.sum"
THREAD_OPERATIONS = "smsp__thread_inst_executed_op_shared_atom.sum"


def counter_table(result: SimResult, launch: int = 0) -> CounterTable:
    """The counters of one simulated kernel.

    ``active_cycles`` are those with a warp resident on the SM; ``achieved_occupancy`` is the mean number of resident warps
    over them, divided by the most that an SM can hold.
    """
    rows: list[CounterRow] = []

    def add(sm: int, counter: str, value: float, unit: str) -> None:
        rows.append(CounterRow(result.kernel, launch, sm, counter, value, unit))

    for sm in result.sms:
        fetch_and_op = sm.atomic_completions - sm.atomic_cas_jobs
        add(sm.sm, "shared_atom", fetch_and_op, "inst")
        add(sm.sm, "shared_atom_cas", sm.atomic_cas_jobs, "inst")
        add(sm.sm, "active_cycles", sm.active_cycles, "cycle")
        add(sm.sm, "active_warps", sm.resident_warp_cycles, "warp")
        mean_warps = sm.resident_warp_cycles / sm.active_cycles if sm.active_cycles else 0.0
        add(sm.sm, "achieved_occupancy", mean_warps / result.max_warps, "ratio")
    jobs = sum(s.atomic_completions for s in result.sms)
    cas = sum(s.atomic_cas_jobs for s in result.sms)
    add(WHOLE_GPU, "smsp__inst_executed_op_shared_atom.sum", jobs, "inst")
    add(WHOLE_GPU, "smsp__inst_executed_op_shared_atom_dot_alu.sum", jobs - cas, "inst")
    add(WHOLE_GPU, "smsp__inst_executed_op_shared_atom_dot_cas.sum", cas, "inst")
    add(WHOLE_GPU, WAVEFRONTS, sum(s.atomic_passes for s in result.sms), "")
    add(WHOLE_GPU, THREAD_OPERATIONS, sum(s.thread_operations for s in result.sms), "inst")
    add(WHOLE_GPU, "smsp__inst_executed.sum", result.warp_instructions, "inst")
    add(WHOLE_GPU, "sm__cycles_elapsed.max", result.cycles, "cycle")
    # The averages are over the SMs that were simulated, which may be fewer than the GPU has.
    add(WHOLE_GPU, "device__attribute_multiprocessor_count", len(result.sms), "")
    active = sum(s.active_cycles for s in result.sms)
    add(WHOLE_GPU, "sm__cycles_active.avg", active / len(result.sms), "cycle")
    warp_cycles = sum(s.resident_warp_cycles for s in result.sms)
    add(WHOLE_GPU, "sm__warps_active.avg.per_cycle_active", warp_cycles / active if active else 0.0, "warp")
    return CounterTable.from_rows(rows)

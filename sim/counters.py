"""A simulation's counters, in the form and under the names that the profilers use.

Per SM, as nvprof gives them (Dong & Pai, Table 1): ``shared_atom`` (fetch-and-op jobs), ``shared_atom_cas``,
``active_cycles``, ``active_warps`` (warp-cycles), ``achieved_occupancy``. For the whole GPU, as Nsight
Compute gives them, there are executed atomic warp-instructions, their wavefronts (passes over the banks) and
thread operations. There is also what a roofline needs: floating-point operations by kind, bytes at each level
of memory, wavefronts of shared memory, time and launch.

The *whole GPU* is the SMs that were simulated, and all counts are exact. A sample's counts are scaled to the
grid if its `WholeGrid` is given, and the SMs are those of the sample. ``l1tex__t_bytes`` counts the sectors
that global loads and stores asked L1 for, ``lts__t_bytes`` those that reached L2. ``dram__bytes`` counts
those moved to and from DRAM while the kernel ran, evictions included. What DRAM has still to write when the
kernel ends does not count, nor do dirty lines that L2 holds then. Half-precision instructions work on two
numbers a lane and count twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from smlab.hw_bench.profiles.counter_table import WHOLE_GPU, CounterRow, CounterTable
from smlab.sim.instructions import CLASSES, Unit
from smlab.sim.result import SimResult

WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_atom.sum"
THREAD_OPERATIONS = "smsp__thread_inst_executed_op_shared_atom.sum"

STATE = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
"""Warps in a state for each cycle in which a scheduler issues, which is as often as there are instructions.
Of Nsight Compute's other states this machine has none: no_instruction (an instruction cache),
branch_resolving, imc_miss, membar, sleeping, tex_throttle, misc; gmma and warpgroup_arrive of newer ones.
What a warp thinks is ``wait``, and before its first instruction it has ``dispatch_stall``, which on hardware
is rare."""

_PIPE_COUNTERS = {"fp32": "fma", "fp64": "fp64", "fp16": "fp16", "int32": "alu", "sfu": "xu"}
"""Nsight Compute's names of the arithmetic pipes. (``control`` stands for several; it has none.)"""


@dataclass(frozen=True)
class WholeGrid:
    """What a part of a grid stands for: all its blocks, on so many SMs, in so many cycles."""

    blocks: int
    sms: int
    cycles: float


def counter_table(result: SimResult, launch: int = 0, grid: WholeGrid | None = None) -> CounterTable:
    """The counters of one simulated kernel. Those of a part of a ``grid`` are scaled to it: counts by blocks,
    what is counted in cycles by the time, and ratios not at all.

    ``active_cycles`` are those with a warp resident on the SM; ``achieved_occupancy`` is the mean number of
    resident warps over them, divided by the most that an SM can hold.
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
    # Nsight Compute's is what the launch allows; here, what came to be resident, which a small grid makes
    # less.
    peak = max(result.warps.max_resident_warps(s.sm) for s in result.sms)
    add(WHOLE_GPU, "sm__maximum_warps_avg_per_active_cycle", peak, "warp")
    issued = max(result.warp_instructions, 1)
    for reason, cycles in result.stalls.items():
        add(WHOLE_GPU, STATE.format(reason), cycles / issued, "")
    for counter, value, unit in _roofline_counters(result):
        add(WHOLE_GPU, counter, value, unit)
    if grid is not None:
        rows = [replace(row, value=_scaled(row, result, grid)) for row in rows]
    return CounterTable.from_rows(rows, result.launch.gpu)


def _scaled(row: CounterRow, result: SimResult, grid: WholeGrid) -> float:
    """A counter of a part of the grid, as the whole grid would have it."""
    told = {
        "sm__cycles_elapsed.max": grid.cycles,
        "gpu__time_duration.sum": grid.cycles / result.launch.sm_hz,
        "device__attribute_multiprocessor_count": grid.sms,
        "launch__grid_size": grid.blocks,
        "launch__thread_count": grid.blocks * result.launch.threads_per_block,
    }
    if row.counter in told:
        return told[row.counter]
    if row.counter in ("sm__cycles_active.avg", "active_cycles", "active_warps"):
        return row.value * grid.cycles / result.cycles
    blocks = grid.blocks / result.launch.blocks
    if row.counter in ("shared_atom", "shared_atom_cas"):  # of one SM
        return round(row.value * blocks * len(result.sms) / grid.sms)
    return round(row.value * blocks) if row.counter.endswith(".sum") else row.value


def _roofline_counters(result: SimResult) -> Iterator[tuple[str, float, str]]:
    """Counter, value and unit of what a roofline needs."""
    launch, memory = result.launch, result.memory

    def executed(unit: Unit, operation: str) -> tuple[int, int]:
        """Warp-instructions and active lanes of the classes of a unit."""
        codes = [c.code for c in CLASSES.values() if c.unit is unit and c.operation == operation]
        return sum(launch.warp_instructions[c] for c in codes), sum(
            launch.thread_instructions[c] for c in codes
        )

    yield "gpu__time_duration.sum", result.cycles / launch.sm_hz, "second"
    yield "sm__cycles_elapsed.avg.per_second", launch.sm_hz, "cycle/second"
    yield "launch__grid_size", launch.blocks, ""
    yield "launch__block_size", launch.threads_per_block, ""
    yield "launch__thread_count", launch.blocks * launch.threads_per_block, "thread"
    yield "launch__registers_per_thread", launch.registers_per_thread, "register/thread"
    yield "launch__shared_mem_per_block", launch.shared_bytes_per_block, "byte/block"
    threads = sum(launch.thread_instructions)
    instructions = sum(launch.warp_instructions)
    yield "smsp__thread_inst_executed.sum", threads, "inst"
    yield "smsp__thread_inst_executed_per_inst_executed.ratio", threads / instructions, ""
    for operation in dict.fromkeys(c.arithmetic for c in CLASSES.values() if c.arithmetic):
        name = f"smsp__sass_thread_inst_executed_op_{operation}_pred_on.sum"
        alike = [c for c in CLASSES.values() if c.arithmetic == operation]
        yield name, sum(c.numbers * launch.thread_instructions[c.code] for c in alike), "inst"
    for pipe, counter in _PIPE_COUNTERS.items():
        count = sum(launch.warp_instructions[c.code] for c in CLASSES.values() if c.pipe == pipe)
        yield f"smsp__inst_executed_pipe_{counter}.sum", count, "inst"

    hits = sum(s.l1_sector_hits for s in result.sms)
    loads = hits + sum(s.l1_sector_misses for s in result.sms)
    stores = sum(s.l1_store_sectors for s in result.sms)
    for operation, short, sectors in (("load", "ld", loads), ("store", "st", stores)):
        instructions, _ = executed(Unit.GLOBAL, operation)
        yield f"smsp__sass_inst_executed_op_global_{short}.sum", instructions, "inst"
        yield f"l1tex__t_sectors_pipe_lsu_mem_global_op_{short}.sum", sectors, "sector"
    yield "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum", hits, "sector"
    yield "l1tex__t_bytes.sum", (loads + stores) * launch.sector_bytes, "byte"
    l2 = memory.l2_sector_hits + memory.l2_sector_misses
    yield "lts__t_sectors.sum", l2, "sector"
    yield "lts__t_sectors_lookup_hit.sum", memory.l2_sector_hits, "sector"
    yield "lts__t_bytes.sum", l2 * launch.sector_bytes, "byte"
    moved = memory.dram_sectors - memory.dram_sectors_left
    yield "dram__bytes.sum", moved * launch.sector_bytes, "byte"

    shared = {
        "ld": ("load", sum(s.shared_load_passes for s in result.sms)),
        "st": ("store", sum(s.shared_store_passes for s in result.sms)),
    }
    data_bytes = all_conflicts = 0
    for short, (operation, passes) in shared.items():
        instructions, lanes = executed(Unit.SHARED, operation)
        data_bytes += lanes * launch.bank_bytes
        yield f"smsp__sass_inst_executed_op_shared_{short}.sum", instructions, "inst"
        yield f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{short}.sum", passes, ""
        conflicts = max(passes - instructions, 0)  # what no lane takes part in makes no pass
        all_conflicts += conflicts
        yield f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{short}.sum", conflicts, ""
    atomic_passes = sum(s.atomic_passes for s in result.sms)
    all_conflicts += atomic_passes - sum(s.atomic_completions for s in result.sms)
    yield "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum", all_conflicts, ""
    atomic_lanes = sum(s.thread_operations for s in result.sms)
    wavefronts = sum(p for _, p in shared.values()) + atomic_passes
    yield "smsp__sass_data_bytes_mem_shared.sum", data_bytes + atomic_lanes * launch.bank_bytes, "byte"
    yield "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum", wavefronts, ""

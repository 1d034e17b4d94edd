"""The reference engine: the semantics of SEMANTICS.md in SimPy, written to be read.

`gpu` holds the dispatcher, `sm` an SM and its issue stage, `scheduler` the warp schedulers, `path`,
`units` and `memory` what instructions are issued to, `warp` what is resident, `clock` the phases of a cycle,
`record` what is written down.
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from smlab.sim.launch import executions_of, launch_of
from smlab.sim.lowering import LoweredKernel
from smlab.sim.reference.gpu import Progress, SimulatedGpu
from smlab.sim.reference.trace_rows import Record
from smlab.sim.result import (
    BlockTable,
    IssueTrace,
    JobTrace,
    MemoryTruth,
    SimResult,
    SmTruth,
    SpanTrace,
    WarpTable,
)

__all__ = ["Progress", "Record", "run"]


def run(
    lowered: LoweredKernel,
    keep: Record = Record.ATOMICS,
    max_cycles: int | None = None,
    progress: Progress | None = None,
) -> SimResult:
    """Simulate a lowered kernel to its end."""
    begun = time.perf_counter()
    gpu = SimulatedGpu(lowered, keep, progress)
    gpu.run(max_cycles)
    record = gpu.recorder
    everything = keep is Record.ALL
    if lowered.l2 is not None:
        lowered.l2.leave(lowered.machine, gpu.memory.left)
    return SimResult(
        kernel=lowered.kernel.name,
        gpu=lowered.machine.name,
        engine="simpy",
        policy=lowered.machine.policy,
        seed=lowered.seed,
        max_warps=lowered.machine.max_warps,
        cycles=gpu.cycles,
        warp_instructions=sum(sm.warp_instructions for sm in gpu.sms),
        wall_s=time.perf_counter() - begun,
        sms=tuple(
            SmTruth(
                sm=sm.index,
                warp_instructions=sm.warp_instructions,
                resident_warp_cycles=sm.resident.area,
                active_cycles=sm.resident.busy,
                atomic_arrivals=sm.atomics.ups,
                atomic_completions=sm.atomics.downs,
                atomic_cas_jobs=sm.atomic_cas.ups,
                atomic_job_cycles=sm.atomics.area,
                atomic_cas_job_cycles=sm.atomic_cas.area,
                atomic_busy_cycles=sm.atomics.busy,
                atomic_occupied_cycles=sm.path.atomic_occupied_cycles,
                thread_operations=sm.atomic_lanes,
                atomic_passes=sm.atomic_passes,
                stage_occupied_cycles=sm.path.stage_cycles,
                shared_load_passes=sm.shared_passes["load"],
                shared_store_passes=sm.shared_passes["store"],
                l1_sector_hits=sm.path.l1.cache.hits,
                l1_sector_misses=sm.path.l1.cache.misses,
                l1_store_sectors=sm.path.l1.store_sectors,
            )
            for sm in gpu.sms
        ),
        memory=MemoryTruth(
            gpu.memory.l2.hits,
            gpu.memory.l2.misses,
            gpu.memory.dram_sectors,
            lowered.machine.dram_sectors_left(gpu.memory.dram_free_ticks, gpu.cycles),
            sum(gpu.memory.slice_busy_ticks),
            max(gpu.memory.slice_busy_ticks, default=0),
            gpu.memory.merged_sectors,
        ),
        warps=WarpTable.from_rows(record.warps, record.stalls),
        blocks=BlockTable.from_rows(record.blocks),
        launch=launch_of(lowered),
        jobs=None if keep is Record.TOTALS else JobTrace.from_rows(record.jobs),
        issues=IssueTrace.from_rows(record.issues) if everything else None,
        spans=SpanTrace.from_rows(record.spans) if everything else None,
        instruction_stalls=_instruction_stalls(lowered, gpu),
        instruction_executions=None if lowered.source is None else executions_of(lowered.source),
    )


def _instruction_stalls(lowered: LoweredKernel, gpu: SimulatedGpu) -> NDArray[np.int64] | None:
    """Stalls by instruction, where they are counted, without those behind the end of programs."""
    if not lowered.by_instruction:
        return None
    return gpu.instruction_stalls if lowered.source is not None else gpu.instruction_stalls[:-1]

"""From a profile to what a roofline needs, with fallbacks between the names of the counters and a flag for
each.

Names are those of Nsight Compute, of nvprof, of NERSC's roofline scripts (``Time``, Yang et al. 2020), and of
the simulator, which writes Nsight Compute's. The level of a counter follows Nsight Compute's hierarchical
roofline: ``l1tex__t_bytes``, ``lts__t_bytes``, ``dram__bytes``; FLOPs are its
``sass_thread_inst_executed_op_*_pred_on``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.profiles.atomics.quantities import SkippedKernel
from smlab.hw_bench.profiles.counter_table import WHOLE_GPU
from smlab.hw_bench.profiles.ncu.pivot import Pivot, launch_groups
from smlab.hw_bench.profiles.profile import Profile
from smlab.hw_bench.profiles.work.kernel_work import KernelWork
from smlab.hw_bench.profiles.work.pipe_counters import pipe_instructions
from smlab.hw_bench.profiles.work.roofline_counters import CounterReader

NEEDED: Final = (
    "gpu__time_duration.sum,sm__cycles_elapsed.avg,sm__cycles_elapsed.avg.per_second,dram__bytes.sum,lts__t_bytes.sum,"
    "l1tex__t_bytes.sum,smsp__inst_executed.sum,smsp__inst_executed_pipe_lsu.sum,"
    "smsp__inst_executed_pipe_fma.sum,smsp__inst_executed_pipe_alu.sum,smsp__inst_executed_pipe_xu.sum,"
    "sm__warps_active.avg.pct_of_peak_sustained_active,smsp__sass_thread_inst_executed_op_integer_pred_on.sum,"
    "smsp__thread_inst_executed.sum,"
    "sm__inst_executed_pipe_tensor.sum,sm__inst_executed_pipe_tensor_op_hmma.sum,"
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum,l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum,"
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_atom.sum,l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum,"
    "launch__grid_size,launch__block_size,launch__registers_per_thread,launch__shared_mem_per_block_static,"
    "launch__shared_mem_per_block_dynamic,l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum,"
) + ",".join(
    f"smsp__sass_thread_inst_executed_op_{t}{o}_pred_on.sum" for t in "hfd" for o in ("add", "mul", "fma")
)
"""What to collect: ``ncu --csv --page raw --metrics NEEDED PROGRAM``."""


@dataclass(frozen=True, eq=False)
class RooflineQuantities:
    """The launches that can be placed on a roofline, and those that cannot, with the reason."""

    work: KernelWork
    skipped: tuple[SkippedKernel, ...] = ()
    notes: tuple[str, ...] = ()


def roofline_quantities(profile: Profile, gpu: Gpu | None = None) -> RooflineQuantities:
    """The work of every launch in ``profile``.

    ``gpu`` gives the clock where the profile holds cycles only (the simulator's table), and the compute
    capability that tells a tensor instruction's FLOPs. A launch with no time, or with neither traffic nor
    operations, is skipped. `SmlabError` if none is left, and for counters with impossible values or units.
    """
    table = profile.table
    if not len(table):
        raise SmlabError.at(profile.path, "no counter in it", expected="the counters of at least one kernel")
    pivot = Pivot(profile, launch_groups(profile), table.sm == WHOLE_GPU)
    if not len(pivot):
        raise SmlabError.at(profile.path, "no counter of a whole kernel", expected=f"ncu --metrics {NEEDED}")
    read = CounterReader(pivot, gpu)
    seconds, cycles, clock = read.time()
    clock = np.where(np.isnan(clock), read.clock_of_issue(seconds), clock)
    operations = {o: read.operations(o, cycles) for o in ("add", "mul", "fma")}
    l1, l2, dram = read.traffic(seconds)
    wavefronts, ideal = read.shared()
    instructions, thread_instructions = read.instructions()
    pipes = pipe_instructions(read, instructions, thread_instructions)
    operations["fma"] = read.within_pipe(operations["fma"], pipes.fma * thread_instructions / instructions)
    tensor = read.tensor(operations, instructions, thread_instructions)
    resident = read.resident_warps()
    counted = np.nan_to_num(np.concatenate(list(operations.values()), axis=1)).sum(axis=1)
    used = [np.nan_to_num(x) for x in (counted, tensor, l1, l2, dram, wavefronts, instructions)]
    empty = np.sum(used, axis=0) == 0
    timeless = np.isnan(seconds) | (seconds == 0)
    reasons = [
        (timeless, "no time: neither gpu__time_duration.sum nor cycles with a clock"),
        (empty & ~timeless, "neither traffic nor operations were counted"),
    ]
    skipped = tuple(
        SkippedKernel(str(pivot.kernel[i]), int(pivot.launch[i]), reason)
        for mask, reason in reasons
        for i in np.flatnonzero(mask).tolist()
    )
    keep = np.flatnonzero(~timeless & ~empty)
    if not len(keep):
        place = f"{pivot.where(0)}: kernel {skipped[0].kernel!r}"
        raise SmlabError.at(place, skipped[0].reason, expected=f"ncu --csv --page raw --metrics {NEEDED}")
    launch = read.launch()
    work = KernelWork(
        kernel=pivot.kernel,
        launch=pivot.launch,
        seconds=np.where(timeless, 1.0, seconds),
        **operations,
        tensor_flops=tensor,
        l1_bytes=l1,
        l2_bytes=l2,
        dram_bytes=dram,
        shared_bytes=read.shared_bytes(ideal),
        shared_wavefronts=wavefronts,
        shared_ideal_wavefronts=ideal,
        instructions=instructions,
        thread_instructions=thread_instructions,
        **launch,
        cycles=cycles,
        clock_hz=clock,
        working_set_bytes=pivot.nothing(),
        stored_bytes=read.stored(),
        dram_peak_bytes_per_s=read.dram_peak(dram, seconds),
        integer_operations=read.integer_operations(),
        memory_requests=read.memory_requests(instructions, thread_instructions),
        resident_warps=resident,
        alu_instructions=pipes.alu,
        xu_instructions=pipes.xu,
        flags=read.flags,
        row=profile.rows[pivot.first],
    ).take(keep)
    work.check()
    return RooflineQuantities(work, skipped, profile.notes)

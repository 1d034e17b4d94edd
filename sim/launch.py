"""What is known of a launch before it runs: its shape, and how often each instruction class is executed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from smlab.sim.instruction_source import WarpSource
from smlab.sim.instructions import CLASS_NAMES
from smlab.sim.lowering import LoweredKernel
from smlab.sim.result import Launch
from smlab.sim.workloads.workload import blocks_per_sm


def executions_of(source: WarpSource) -> NDArray[np.int64]:
    """Executions by warps and active lanes of each instruction, ``(instructions, 2)``."""
    return np.stack([source.executed, source.lanes], axis=1)


def launch_of(lowered: LoweredKernel) -> Launch:
    """The launch of a lowered kernel."""
    kernel, machine = lowered.kernel, lowered.machine
    roles = np.array(kernel.roles, dtype=np.int64)
    warps = np.bincount(roles[roles >= 0], minlength=len(kernel.programs))
    if len(roles) == 1:
        warps = warps * kernel.blocks
    by_class = [0] * len(CLASS_NAMES)
    threads = [0] * len(CLASS_NAMES)
    if lowered.source is not None:
        operations = lowered.programs[0].operations
        executed = zip(
            operations, lowered.source.executed.tolist(), lowered.source.lanes.tolist(), strict=True
        )
        for operation, times, lanes in executed:
            by_class[operation.cls.code] += times
            threads[operation.cls.code] += lanes
    else:
        for program, count in zip(kernel.programs, warps.tolist(), strict=True):
            for instruction, times in program.instructions():
                by_class[instruction.cls.code] += count * times
                threads[instruction.cls.code] += count * times * instruction.lanes
    return Launch(
        blocks=kernel.blocks,
        threads_per_block=kernel.warps_per_block * machine.warp_lanes,
        registers_per_thread=kernel.registers_per_thread,
        shared_bytes_per_block=kernel.shared_bytes_per_block,
        blocks_per_sm=blocks_per_sm(kernel, machine),
        sector_bytes=machine.sector_bytes,
        bank_bytes=machine.bank_bytes,
        sm_hz=machine.sm_hz,
        gpu=machine.gpu,
        warp_instructions=tuple(by_class),
        thread_instructions=tuple(threads),
    )

"""Executing a grid without timing: block after block, each to its end, as fast as it goes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.sim.execution.compiled_blocks import (
    BLOCK,
    BLOCK_DONE,
    BLOCK_FAULTS,
    BLOCK_RUNS,
    BLOCK_STUCK,
    RUN_WORDS,
    STEPS,
    STOPPED,
    WAITS,
    run_blocks,
)
from smlab.sim.isa import memory_layout
from smlab.sim.isa.launch.faults import fault_error, notes_of
from smlab.sim.isa.launch.launch import MachineLaunch, MachineMemory

SLICE = 1 << 22
"""Warp-instructions between two returns to Python."""


@dataclass(frozen=True)
class FunctionalRun:
    """A grid executed without timing. ``executed`` and ``lanes`` are by instruction: warps, and active
    lanes in sum; ``notes`` what looks wrong in the kernel."""

    warp_instructions: int
    wall_s: float
    executed: NDArray[np.int64]
    lanes: NDArray[np.int64]
    notes: tuple[str, ...]


def run(
    launch: MachineLaunch,
    max_instructions: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> FunctionalRun:
    """Execute the whole grid; the arrays of the launch are changed in place.

    Raises:
        SmlabError: a fault of the kernel, or more than ``max_instructions`` warp-instructions.
    """
    if launch.waits_for_itself:
        what = "a grid whose blocks wait for each other is executed with timing alone"
        raise SmlabError.at(f"{launch.where}: grid", what, launch.blocks, "a run with timing")
    begun = time.perf_counter()
    memory, cluster = MachineMemory(launch, launch.cluster_blocks), launch.cluster_blocks
    executed, lanes = memory.executed, memory.lanes
    each, done = launch.warps_per_block, 0
    warps = each * cluster
    state = np.zeros(warps + RUN_WORDS, dtype=np.int64)
    run_state = state[warps:]
    ops, words, warps_at = memory.ops.ctypes.data, memory.words.ctypes.data, memory.warp_address(0, 0)
    where = (ops, memory.length, words, memory.block_address(0), warps_at, state.ctypes.data)
    status = BLOCK_RUNS
    while status != BLOCK_DONE:
        run_state[STEPS] = SLICE
        status = run_blocks(*where, launch.blocks)
        done += SLICE - int(run_state[STEPS])
        index = int(run_state[BLOCK])
        if status == BLOCK_FAULTS:
            raise _error(launch, memory, int(run_state[STOPPED]))
        if status == BLOCK_STUCK:
            first = int(run_state[STOPPED])
            raise _stuck(launch, memory, first, state[first : first + each])
        if status == BLOCK_RUNS and max_instructions is not None and done > max_instructions:
            raise SmlabError.at(
                launch.where, "not finished after the allowed warp-instructions", max_instructions, "more"
            )
        if progress is not None:
            progress(index, launch.blocks)
    notes = notes_of(launch, executed, memory.unwritten)
    return FunctionalRun(int(executed.sum()), time.perf_counter() - begun, executed, lanes, notes)


def _error(launch: MachineLaunch, memory: MachineMemory, warp: int) -> SmlabError:
    first = warp * memory.warp_bytes // 8
    words = memory.warps[first : first + memory_layout.REGISTERS_AT]
    return fault_error(
        launch,
        int(words[memory_layout.FAULT]),
        int(words[memory_layout.PC]),
        int(words[memory_layout.INDEX]),
        int(words[memory_layout.WARP_OF_BLOCK]),
        int(words[memory_layout.FAULT_LANE]),
        int(words[memory_layout.FAULT_ADDRESS]),
    )


def _stuck(
    launch: MachineLaunch, memory: MachineMemory, first_warp: int, state: NDArray[np.int64]
) -> SmlabError:
    warp = first_warp + int(np.flatnonzero(state == WAITS)[0])
    first = warp * memory.warp_bytes // 8
    words = memory.warps[first : first + memory_layout.REGISTERS_AT].tolist()
    lane = (words[memory_layout.LIVE] & -words[memory_layout.LIVE]).bit_length() - 1
    return fault_error(
        launch,
        memory_layout.NEVER_OPENS,
        words[memory_layout.PC] - 1,
        words[memory_layout.INDEX],
        words[memory_layout.WARP_OF_BLOCK],
        lane,
        words[memory_layout.BARRIER],
    )

"""Executing a grid without timing: block after block, each to its end, as fast as it goes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from smlab.hw_bench.errors import SmlabError
from smlab.sim.machine_code import record
from smlab.sim.machine_code.execute import execute
from smlab.sim.machine_code.faults import fault_error
from smlab.sim.machine_code.jit import entry, helper
from smlab.sim.machine_code.launch import MachineLaunch, MachineMemory
from smlab.sim.machine_code.parts import open_barrier
from smlab.sim.machine_code.words import (
    at,
    ones,
    put,
    put64,
)
from smlab.sim.source import ARRIVES, FAULTS, GOES_ON

SLICE = 1 << 22
"""Warp-instructions between two returns to Python."""
_RUNS, _WAITS, _GONE = 0, 1, 2
_MORE, _DONE, _FAULT, _LIMIT = 0, 1, 2, 3


@dataclass(frozen=True)
class FunctionalRun:
    """A grid executed without timing. ``executed`` and ``lanes`` are by instruction: warps, and active
    lanes in sum."""

    warp_instructions: int
    wall_s: float
    executed: NDArray[np.int64]
    lanes: NDArray[np.int64]


@helper
def clear(address: int, size: int) -> None:
    for n in range(size // 8):
        put64(address + 8 * n, 0)


@helper
def start_block_words(launch, block_at, known_bytes, index):  # type: ignore[no-untyped-def]
    """Make a block's words those before its first instruction."""
    gx, gy = at(launch, record.GRID_X), at(launch, record.GRID_X + 1)
    put(block_at, record.BLOCK_X, index % gx)
    put(block_at, record.BLOCK_Y, index // gx % gy)
    put(block_at, record.BLOCK_Z, index // (gx * gy))
    put(block_at, record.REDUCED, 0)
    put(block_at, record.RESULT, 0)
    clear(at(block_at, record.SHARED_KNOWN), known_bytes)


@entry
def start_block(launch, block_at, warps_at, index, threads, warps):  # type: ignore[no-untyped-def]
    """The same, and all its warps."""
    start_block_words(launch, block_at, at(launch, record.KNOWN_BYTES), index)
    size = at(launch, record.REGISTER_FILE_BYTES)
    for w in range(warps):
        start_warp(warps_at + w * size, size, block_at, w, min(32, threads - 32 * w))


@helper
def start_warp(warp, size, block_at, number, lanes):  # type: ignore[no-untyped-def]
    clear(warp, size)
    mask = (1 << lanes) - 1
    put(warp, record.ACTIVE, mask)
    put(warp, record.LIVE, mask)
    put(warp, record.BLOCK, block_at)
    put(warp, record.WARP_OF_BLOCK, number)
    put(warp, record.PREDICATES + record.PT, 0xFFFFFFFF)
    put(warp, record.PREDICATES + record.UPT, 0xFFFFFFFF)


@entry
def run_block(ops, length, launch, warps_at, warps, state, executed, lanes, steps):  # type: ignore[no-untyped-def]
    """Run the warps of a block in turn, each as far as the barrier; what stopped it, the warp, and the
    steps left."""
    size = at(launch, record.REGISTER_FILE_BYTES)
    while True:
        waiting = gone = 0
        for w in range(warps):
            warp = warps_at + w * size
            while state[w] == _RUNS:
                if steps <= 0:
                    return _MORE, w, steps
                steps -= 1
                pc = at(warp, record.PC)
                if pc < 0 or pc >= length:
                    put(warp, record.FAULT, record.BAD_TARGET)
                    return _FAULT, w, steps
                state_after = execute(ops, warp, launch, length)
                executed[pc] += 1
                lanes[pc] += ones(at(warp, record.LANES))
                if state_after != GOES_ON:
                    if state_after == FAULTS:
                        put(warp, record.PC, pc)
                        return _FAULT, w, steps
                    state[w] = _WAITS if state_after == ARRIVES else _GONE
                put(warp, record.CLOCK, at(warp, record.CLOCK) + 1)
            if state[w] == _WAITS:
                waiting += 1
            else:
                gone += 1
        if waiting == 0:
            return _DONE, 0, steps
        for w in range(warps):
            if state[w] == _WAITS:
                state[w] = _RUNS
                open_barrier(warps_at + w * size)


def run(
    launch: MachineLaunch,
    max_instructions: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> FunctionalRun:
    """Execute the whole grid; the arrays of the launch are changed in place.

    Raises:
        SmlabError: a fault of the kernel, or more than ``max_instructions`` warp-instructions.
    """
    begun = time.perf_counter()
    memory = MachineMemory(launch, 1)
    executed = np.zeros(memory.length, dtype=np.int64)
    lanes = np.zeros(memory.length, dtype=np.int64)
    warps, done = launch.warps_per_block, 0
    ops, words, warps_at = memory.ops.ctypes.data, memory.words.ctypes.data, memory.warp_address(0, 0)
    for index in range(launch.blocks):
        start_block(
            words,
            memory.block_address(0),
            warps_at,
            index,
            launch.threads,
            warps,
        )
        state = np.zeros(warps, dtype=np.int64)
        while True:
            status, warp, left = run_block(
                ops, memory.length, words, warps_at, warps, state, executed, lanes, SLICE
            )
            done += SLICE - left
            if status == _FAULT:
                raise _error(launch, memory, index, warp)
            if status == _DONE:
                break
            if max_instructions is not None and done > max_instructions:
                raise SmlabError.at(
                    launch.where, "not finished after the allowed warp-instructions", max_instructions, "more"
                )
            if progress is not None:
                progress(index, launch.blocks)
        if progress is not None:
            progress(index + 1, launch.blocks)
    return FunctionalRun(int(executed.sum()), time.perf_counter() - begun, executed, lanes)


def _error(launch: MachineLaunch, memory: MachineMemory, block: int, warp: int) -> SmlabError:
    first = warp * memory.warp_bytes // 8
    words = memory.warps[first : first + record.REGISTERS_AT]
    return fault_error(
        launch,
        int(words[record.FAULT]),
        int(words[record.PC]),
        block,
        warp,
        int(words[record.FAULT_LANE]),
        int(words[record.FAULT_ADDRESS]),
    )

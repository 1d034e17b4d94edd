"""Executing a grid without timing: block after block, each to its end, as fast as it goes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.sim.compiled.jit import bits_set, clear, entry, helper
from smlab.sim.instruction_source import ARRIVES, AWAITS, BLOCK_BARRIERS, EXITS, FAULTS, GOES_ON, NOTIFIES
from smlab.sim.isa import memory_layout
from smlab.sim.isa.launch.faults import fault_error, notes_of
from smlab.sim.isa.launch.launch import MachineLaunch, MachineMemory
from smlab.sim.isa.vectors.divergent_paths import open_barrier
from smlab.sim.isa.vectors.execute import execute
from smlab.sim.isa.vectors.word_access import (
    at,
    get64,
    put,
    put64,
)

SLICE = 1 << 22
"""Warp-instructions between two returns to Python."""
RUNS, WAITS, GONE = 0, 1, 2
_MORE, _DONE, _FAULT, _STUCK = 0, 1, 2, 3
_UNIFORM_AT, _REGISTERS_AT = memory_layout.uniform_at(0), memory_layout.register_at(0)


@dataclass(frozen=True)
class FunctionalRun:
    """A grid executed without timing. ``executed`` and ``lanes`` are by instruction: warps, and active
    lanes in sum; ``notes`` what looks wrong in the kernel."""

    warp_instructions: int
    wall_s: float
    executed: NDArray[np.int64]
    lanes: NDArray[np.int64]
    notes: tuple[str, ...]


@helper
def start_block_words(launch, block_at, known_bytes, index):  # type: ignore[no-untyped-def]
    """Make a block's words those before its first instruction."""
    gx, gy = at(launch, memory_layout.GRID_X), at(launch, memory_layout.GRID_X + 1)
    put(block_at, memory_layout.BLOCK_X, index % gx)
    put(block_at, memory_layout.BLOCK_Y, index // gx % gy)
    put(block_at, memory_layout.BLOCK_Z, index // (gx * gy))
    for word in range(memory_layout.ARRIVED, memory_layout.BLOCK_WORDS):
        put(block_at, word, 0)
    clear(at(block_at, memory_layout.SHARED), at(launch, memory_layout.SHARED_BYTES))
    known = at(block_at, memory_layout.SHARED_KNOWN)
    clear(known, known_bytes)
    put(block_at, memory_layout.UNKNOWN_AT, known)
    put(
        block_at,
        memory_layout.UNKNOWN_END,
        known + min(known_bytes, (at(launch, memory_layout.SHARED_BYTES) + 3) & ~3),
    )


@entry
def start_block(launch, block_at, warps_at, index, threads, warps):  # type: ignore[no-untyped-def]
    """The same, and all its warps."""
    start_block_words(launch, block_at, at(launch, memory_layout.KNOWN_BYTES), index)
    size = at(launch, memory_layout.REGISTER_FILE_BYTES)
    for w in range(warps):
        start_warp(launch, warps_at + w * size, block_at, w, min(32, threads - 32 * w))
        put(warps_at + w * size, memory_layout.INDEX, index)


@helper
def start_warp(launch, warp, block_at, number, lanes):  # type: ignore[no-untyped-def]
    clear(warp, _UNIFORM_AT + memory_layout.ROW_BYTES * at(launch, memory_layout.UNIFORM_ROWS_USED))
    clear(warp + _REGISTERS_AT, at(launch, memory_layout.REGISTER_FILE_BYTES) - _REGISTERS_AT)
    mask = (1 << lanes) - 1
    put(warp, memory_layout.ACTIVE, mask)
    put(warp, memory_layout.LIVE, mask)
    put(warp, memory_layout.BLOCK, block_at)
    put(warp, memory_layout.WARP_OF_BLOCK, number)
    put(warp, memory_layout.PREDICATES + memory_layout.PT, 0xFFFFFFFF)
    put(warp, memory_layout.PREDICATES + memory_layout.UPT, 0xFFFFFFFF)


@helper
def come(warps_at, size, warps, state, w):  # type: ignore[no-untyped-def]
    """Warp ``w`` has come to a barrier of the block; one that is for some warps opens with the last of
    them."""
    warp = warps_at + w * size
    said = at(warp, memory_layout.BARRIER)
    expected = said // BLOCK_BARRIERS
    if expected == 0:
        return
    place = at(warp, memory_layout.BLOCK) + 8 * (memory_layout.ARRIVED + (said & (BLOCK_BARRIERS - 1)))
    arrived = get64(place) + 1
    put64(place, 0 if arrived == expected else arrived)
    if arrived == expected:
        open_barriers(warps_at, size, warps, state, said)


@helper
def open_barriers(warps_at, size, warps, state, said):  # type: ignore[no-untyped-def]
    """Let the warps go on that wait at a barrier; how many did."""
    opened, number = 0, said & (BLOCK_BARRIERS - 1)
    for w in range(warps):
        warp = warps_at + w * size
        if at(state, w) == WAITS and at(warp, memory_layout.BARRIER) & (BLOCK_BARRIERS - 1) == number:
            put(state, w, RUNS)
            open_barrier(warp)
            opened += 1
    return opened


@helper
def meet(warps_at, size, warps, state):  # type: ignore[no-untyped-def]
    """No warp runs: open the barrier that all wait at which have not exited. How many go on, or -1 when none
    waits."""
    first, waiting, together = 0, 0, True
    for w in range(warps):
        if at(state, w) == RUNS:
            return 1
        if at(state, w) == WAITS:
            said = at(warps_at + w * size, memory_layout.BARRIER)
            if waiting == 0:
                first = said
            together &= said == first
            waiting += 1
    if waiting == 0:
        return -1
    if not together or first >= BLOCK_BARRIERS:
        return 0
    return open_barriers(warps_at, size, warps, state, first)


@helper
def run_warp(ops, length, launch, warp, steps):  # type: ignore[no-untyped-def]
    """Run a warp to a barrier, its end, a fault or out of steps; what it stopped at and the steps left."""
    executed, lanes = at(launch, memory_layout.EXECUTED), at(launch, memory_layout.EXECUTED_LANES)
    clock = at(warp, memory_layout.CLOCK)
    while steps > 0:
        pc = at(warp, memory_layout.PC)
        if pc < 0 or pc >= length:
            put(warp, memory_layout.FAULT, memory_layout.BAD_TARGET)
            return FAULTS, steps
        steps -= 1
        put(warp, memory_layout.CLOCK, clock)
        clock += 1
        state = execute(ops, warp, launch, length)
        put(executed, pc, at(executed, pc) + 1)
        put(lanes, pc, at(lanes, pc) + bits_set(at(warp, memory_layout.LANES)))
        if state != GOES_ON:
            if state == FAULTS:
                put(warp, memory_layout.PC, pc)
            put(warp, memory_layout.CLOCK, clock)
            return state, steps
    put(warp, memory_layout.CLOCK, clock)
    return GOES_ON, steps


@entry
def run_block(ops, length, launch, warps_at, warps, state, steps):  # type: ignore[no-untyped-def]
    """Run the warps of a block in turn, each as far as the barrier; what stopped it, the warp, and the
    steps left. ``state`` is the address of a word a warp."""
    size = at(launch, memory_layout.REGISTER_FILE_BYTES)
    while True:
        for w in range(warps):
            while at(state, w) == RUNS:
                after, steps = run_warp(ops, length, launch, warps_at + w * size, steps)
                if after == GOES_ON:
                    return _MORE, w, steps
                if after == FAULTS:
                    return _FAULT, w, steps
                if after == AWAITS:
                    break
                if after != NOTIFIES:
                    put(state, w, WAITS if after == ARRIVES else GONE)
                if after != EXITS:
                    come(warps_at, size, warps, state, w)
        going = meet(warps_at, size, warps, state)
        if going < 0:
            return _DONE, 0, steps
        if going == 0:
            return _STUCK, 0, steps


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
    executed, lanes = memory.executed, memory.lanes
    warps, done = launch.warps_per_block, 0
    state = np.zeros(warps, dtype=np.int64)
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
        state[:] = RUNS
        while True:
            status, warp, left = run_block(
                ops, memory.length, words, warps_at, warps, state.ctypes.data, SLICE
            )
            done += SLICE - left
            if status == _FAULT:
                raise _error(launch, memory, index, warp)
            if status == _STUCK:
                raise _stuck(launch, memory, index, state)
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
    notes = notes_of(launch, executed, memory.unwritten)
    return FunctionalRun(int(executed.sum()), time.perf_counter() - begun, executed, lanes, notes)


def _error(launch: MachineLaunch, memory: MachineMemory, block: int, warp: int) -> SmlabError:
    first = warp * memory.warp_bytes // 8
    words = memory.warps[first : first + memory_layout.REGISTERS_AT]
    return fault_error(
        launch,
        int(words[memory_layout.FAULT]),
        int(words[memory_layout.PC]),
        block,
        warp,
        int(words[memory_layout.FAULT_LANE]),
        int(words[memory_layout.FAULT_ADDRESS]),
    )


def _stuck(launch: MachineLaunch, memory: MachineMemory, block: int, state: NDArray[np.int64]) -> SmlabError:
    warp = int(np.flatnonzero(state == WAITS)[0])
    first = warp * memory.warp_bytes // 8
    words = memory.warps[first : first + memory_layout.REGISTERS_AT].tolist()
    lane = (words[memory_layout.LIVE] & -words[memory_layout.LIVE]).bit_length() - 1
    return fault_error(
        launch,
        memory_layout.NEVER_OPENS,
        words[memory_layout.PC] - 1,
        block,
        warp,
        lane,
        words[memory_layout.BARRIER],
    )

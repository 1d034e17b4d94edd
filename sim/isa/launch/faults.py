"""What went wrong, or looks wrong, while machine code was executed, each in one line: what, where, who, which
address."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.sim.instruction_source import BLOCK_BARRIERS
from smlab.sim.isa import memory_layout
from smlab.sim.isa.decode.control import UNTIMED, empties_l1, is_shared_fence
from smlab.sim.isa.decode.micro import MicroOperation
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.sim.isa.operation_codes import LOAD_CONSTANT, LOCAL, SHARED
from smlab.sim.isa.vector_operation import M64

_WORDS = {
    memory_layout.OUT_OF_BOUNDS: "an address out of bounds",
    memory_layout.MISALIGNED: "a misaligned address",
    memory_layout.DIVERGED_BARRIER: "a barrier that not all threads of the warp reach",
    memory_layout.BAD_TARGET: "a jump to no instruction",
    memory_layout.DEADLOCK: "threads that wait for each other for ever",
    memory_layout.LOST: "a trap",
    memory_layout.NEVER_OPENS: "a barrier that never opens",
    memory_layout.BASE_OFFSET: "a matrix descriptor with a base offset, which is not executed here",
    memory_layout.NEVER_COMPLETES: "a phase of a barrier in shared memory that never completes",
    memory_layout.TOO_MANY_ARRIVALS: "more arrivals at a barrier in shared memory than it expects",
    memory_layout.NO_TENSOR_MAP: "a copy by no tensor map of its dimensions, or one that is not simulated",
    memory_layout.LONE_PRODUCT: "a product that not all four warps of its group issue",
    memory_layout.CLUSTER_STUCK: "a barrier of a cluster that never opens",
    memory_layout.OUTSIDE_TENSOR_MEMORY: "a place in tensor memory that the warp does not reach, or its "
    "block has not allocated",
    memory_layout.COLUMNS_NEVER_FREE: "an allocation of tensor memory that waits for ever",
    memory_layout.UNKNOWN_PRODUCT: "an instruction descriptor of a product that is not executed here",
    memory_layout.COLUMNS_KEPT: "a block that ends and has not freed its tensor memory",
    memory_layout.TOO_MANY_COPIES: f"more than {memory_layout.MAX_COPIES} copies of a block on their way",
}


def fault_error(
    launch: MachineLaunch, kind: int, number: int, block: int, warp: int, lane: int, address: int
) -> SmlabError:
    """The error for a fault at instruction ``number`` of a lane of a warp of a block (by its index in the
    grid)."""
    code = launch.code
    micro = code[min(max(number, 0), len(code) - 1)]
    what = _WORDS[kind]
    if kind in (memory_layout.OUT_OF_BOUNDS, memory_layout.MISALIGNED):
        address &= M64  # the engines hold addresses as numbers with a sign
        what += f": {address:#x}, {_place(launch, micro.fields.get('space', -1), micro.code, address, lane)}"
    if kind == memory_layout.NEVER_OPENS:
        expected, number = divmod(address, BLOCK_BARRIERS)
        many = f"{32 * expected} threads, of which some never come" if expected else "all threads"
        what += f": number {number}, for {many}"
    if kind == memory_layout.NEVER_COMPLETES:
        what += f": {_lacking(address)}"
    elif kind == memory_layout.CLUSTER_STUCK:
        what += f": warps of the block of rank {address} do not come"
    elif kind in (memory_layout.TOO_MANY_ARRIVALS, memory_layout.NO_TENSOR_MAP):
        what += f": at {address & M64:#x}"
    elif kind == memory_layout.UNKNOWN_PRODUCT:
        what += f": {address:#010x}"
    elif kind == memory_layout.OUTSIDE_TENSOR_MEMORY:
        what += f": lane {address >> 16 & 0xFFFF}, column {address & 0xFFFF}"
    elif kind == memory_layout.COLUMNS_NEVER_FREE:
        what += f": {memory_layout.TENSOR_GRANULE * address} columns"
    part = max(
        ((at, name) for name, at in launch.image.function.parts.items() if at <= micro.instruction.address),
        default=(0, launch.where),
    )[1]
    if part != launch.where:
        what += f" in {part}"
    who = f"block {block_name(launch, block)}, thread {_thread_name(launch, warp * 32 + lane)}"
    return SmlabError(f"{launch.where}: {what}; at {where_in_code(micro)}; {who}")


def _lacking(told: int) -> str:
    """What a barrier in shared memory waits for; see `asynchronous_units.told_barrier`."""
    size = told >> 41 & (1 << 21) - 1
    size -= (size >> 20) << 21
    lacking = told >> 21 & (1 << 20) - 1
    return (
        f"the one at {told & (1 << 20) - 1:#x}, phase {told >> 20 & 1}, lacks {lacking} "
        f"arrival{'s' * (lacking != 1)} and {size} bytes"
    )


def where_in_code(micro: MicroOperation) -> str:
    """An instruction with its address and its line of source."""
    instruction, line = micro.instruction, ""
    if instruction.source is not None:
        place = instruction.source.outermost
        line = f", {place.file.rsplit('/', 1)[-1]} line {place.line}"
    return f"{instruction.address:#x} {instruction}{line}"


def block_name(launch: MachineLaunch, block: int) -> str:
    """A block's index in the grid as CUDA has it."""
    x, y, _ = launch.grid
    return f"({block % x}, {block // x % y}, {block // (x * y)})"


def _thread_name(launch: MachineLaunch, thread: int) -> str:
    x, y, z = launch.block
    return f"({thread % x}, {thread // x % y}, {thread // (x * y) % z})"


def notes_of(
    launch: MachineLaunch, executed: NDArray[np.int64], unwritten: NDArray[np.int64]
) -> tuple[str, ...]:
    """What a user is to know of a run that came to its end, a line each.

    ``executed`` counts by instruction, ``(instructions,)``; ``unwritten`` is what each read of shared memory
    before anything wrote it, ``(instructions, record.UNWRITTEN_WORDS)``.
    """
    ran = [m.instruction for m, count in zip(launch.code, executed, strict=True) if count]
    untimed = untimed_note([i.opcode for i in ran if not (empties_l1(i) or is_shared_fence(i))])
    return (*_unwritten_note(launch, unwritten), *untimed)


def _unwritten_note(launch: MachineLaunch, unwritten: NDArray[np.int64]) -> tuple[str, ...]:
    reading = np.flatnonzero(unwritten[:, 0])
    if not len(reading):
        return ()
    first = int(reading[0])
    words, block, thread, address = (int(n) for n in unwritten[first])
    who = f"block {block_name(launch, block)}, thread {_thread_name(launch, thread)}"
    more = f"; so do {len(reading) - 1} more instructions" if len(reading) > 1 else ""
    return (
        f"shared memory is read before anything has written it, and taken as 0: {words:,} words, the first "
        f"at {address:#x} of the block's {launch.shared_bytes} bytes, at "
        f"{where_in_code(launch.code[first])}; {who}{more}",
    )


def untimed_note(executed: Sequence[str], untimed: Sequence[str] = UNTIMED) -> tuple[str, ...]:
    """Which of these instructions, by their opcodes, take no time here but that of their issue."""
    places = Counter(opcode for opcode in executed if opcode in untimed)
    if not places:
        return ()
    told = (f"{name} ({n} place{'s' if n > 1 else ''})" for name, n in sorted(places.items()))
    return (f"has no effect on time here but its issue: {', '.join(told)}",)


def _place(launch: MachineLaunch, space: int, code: int, address: int, lane: int) -> str:
    if code == LOAD_CONSTANT:
        return "of a constant bank"
    if space == SHARED:
        return f"of the block's {launch.shared_bytes} bytes of shared memory"
    if space == LOCAL:
        return f"of the thread's {launch.local_bytes} bytes of local memory"
    return launch.place(address)

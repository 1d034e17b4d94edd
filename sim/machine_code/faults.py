"""What went wrong while machine code was executed, in one line: what, where, who, which address."""

from __future__ import annotations

from smlab.hw_bench.errors import SmlabError
from smlab.sim.machine_code import record
from smlab.sim.machine_code.codes import LOAD_CONSTANT, LOCAL, SHARED
from smlab.sim.machine_code.launch import MachineLaunch
from smlab.sim.source import BLOCK_BARRIERS

_WORDS = {
    record.OUT_OF_BOUNDS: "an address out of bounds",
    record.MISALIGNED: "a misaligned address",
    record.UNINITIALISED: "a word of shared memory that nobody has written",
    record.DIVERGED_BARRIER: "a barrier that not all threads of the warp reach",
    record.BAD_TARGET: "a jump to no instruction",
    record.DEADLOCK: "threads that wait for each other for ever",
    record.LOST: "a trap",
    record.NEVER_OPENS: "a barrier that never opens",
}


def fault_error(
    launch: MachineLaunch, kind: int, number: int, block: int, warp: int, lane: int, address: int
) -> SmlabError:
    """The error for a fault at instruction ``number`` of a lane of a warp of a block (by its index in the
    grid)."""
    code = launch.code
    micro = code[min(max(number, 0), len(code) - 1)]
    instruction = micro.instruction
    line = ""
    if instruction.source is not None:
        place = instruction.source.outermost
        line = f", {place.file.rsplit('/', 1)[-1]} line {place.line}"
    x, y, z = launch.block
    thread = warp * 32 + lane
    bx, by, _ = launch.grid
    who = (
        f"block ({block % bx}, {block // bx % by}, {block // (bx * by)}), "
        f"thread ({thread % x}, {thread // x % y}, {thread // (x * y) % z})"
    )
    what = _WORDS[kind]
    if kind in (record.OUT_OF_BOUNDS, record.MISALIGNED, record.UNINITIALISED):
        what += f": {address:#x}, {_place(launch, micro.fields.get('k', -1), micro.code, address, lane)}"
    if kind == record.NEVER_OPENS:
        expected, number = divmod(address, BLOCK_BARRIERS)
        many = f"{32 * expected} threads, of which some never come" if expected else "all threads"
        what += f": number {number}, for {many}"
    part = max(
        ((at, name) for name, at in launch.image.function.parts.items() if at <= instruction.address),
        default=(0, launch.where),
    )[1]
    if part != launch.where:
        what += f" in {part}"
    return SmlabError(f"{launch.where}: {what}; at {instruction.address:#x} {instruction}{line}; {who}")


def _place(launch: MachineLaunch, space: int, code: int, address: int, lane: int) -> str:
    if code == LOAD_CONSTANT:
        return "of a constant bank"
    if space == SHARED:
        return f"of the block's {launch.shared_bytes} bytes of shared memory"
    if space == LOCAL:
        return f"of the thread's {launch.local_bytes} bytes of local memory"
    return launch.place(address)

"""Which sectors of global memory the blocks outside of a sample fetch: those that a sample finds in L2.

A sample runs some blocks of a grid. On the whole GPU their neighbours run at the same time or just before, on
other SMs, and what several of them need comes from DRAM once. So the blocks of the grid between the first and
the last of the sample, and some before the first, are executed without timing (functional warming, Wunderlich
et al. 2003, SMARTS), in the order in which they are launched: a sector belongs to the first block that asks
for it, and only the sample's own ones go to DRAM.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from smlab.sim.machine_code import codes, record
from smlab.sim.machine_code.execute import execute
from smlab.sim.machine_code.functional import start_block
from smlab.sim.machine_code.jit import entry
from smlab.sim.machine_code.launch import FIRST_ADDRESS, MachineLaunch, MachineMemory
from smlab.sim.machine_code.parts import open_barrier
from smlab.sim.machine_code.words import I_CODE, I_K, I_WIDTH, at, get8, get64, lowest, put8
from smlab.sim.source import ADDRESSES, ARRIVES, FAULTS, GOES_ON

MAX_INSTRUCTIONS: Final = 60_000_000
"""Warp-instructions executed for this at most; what is left then counts as fetched by the sample."""
MAX_BYTES: Final = 1 << 34
_RUNS, _WAITS, _GONE = 0, 1, 2
_OWN, _OTHER, _WRITTEN = 1, 2, 4
"""Who touches a sector first, and whether to write it."""


@dataclass(frozen=True)
class ForeignSectors:
    """Sectors from ``first`` on, a bit each (little-endian words): fetched by a block outside of the
    sample. ``read_each`` are the distinct sectors that blocks read before any wrote them, a block."""

    first: int
    sectors: int
    bits: NDArray[np.int64]
    read_each: float

    def __contains__(self, sector: object) -> bool:
        n = sector - self.first if isinstance(sector, int) else -1
        return 0 <= n < self.sectors and bool(int(self.bits[n >> 6]) >> (n & 63) & 1)


@entry
def touch_block(ops, length, launch, warps_at, warps, state, seen, count, sector, mark, steps):  # type: ignore[no-untyped-def]
    """Run a block to its end, marking in ``seen`` what nobody has touched before; the steps left, or -1."""
    size = at(launch, record.REGISTER_FILE_BYTES)
    while True:
        waiting = 0
        for w in range(warps):
            warp = warps_at + w * size
            while state[w] == _RUNS:
                pc = at(warp, record.PC)
                if steps <= 0 or pc < 0 or pc >= length:
                    return -1
                steps -= 1
                after = execute(ops, warp, launch, length)
                if after == FAULTS:
                    return -1
                op = ops + pc * (8 * record.WORDS)
                code = at(op, I_CODE)
                if (code == codes.LOAD or code == codes.STORE or code == codes.ATOMIC) and (
                    at(op, I_K) == codes.GLOBAL or at(op, I_K) == codes.GENERIC
                ):
                    rest, width, last = at(warp, record.LANES), at(op, I_WIDTH), -1
                    while rest != 0:
                        lane = lowest(rest)
                        rest &= rest - 1
                        inside = get64(warp + 8 * (ADDRESSES + lane)) - FIRST_ADDRESS
                        for n in range(inside // sector, (inside + width - 1) // sector + 1):
                            if n != last and n >= 0 and n < count:
                                last = n
                                if get8(seen + n) == 0:
                                    put8(seen + n, mark + _WRITTEN * (code == codes.STORE))
                if after != GOES_ON:
                    state[w] = _WAITS if after == ARRIVES else _GONE
            if state[w] == _WAITS:
                waiting += 1
        if waiting == 0:
            return steps
        for w in range(warps):
            if state[w] == _WAITS:
                state[w] = _RUNS
                open_barrier(warps_at + w * size)


class _Blocks:
    """Blocks of a launch executed without timing, their memory put back afterwards."""

    def __init__(self, launch: MachineLaunch, sector_bytes: int) -> None:
        self.launch, self.sector_bytes = launch, sector_bytes
        size = max((a.end for a in launch.allocations), default=FIRST_ADDRESS + 1) - FIRST_ADDRESS
        self.count = -(-min(size, MAX_BYTES) // sector_bytes)
        self.seen = np.zeros(self.count, dtype=np.uint8)
        self.left = MAX_INSTRUCTIONS
        self.memory = MachineMemory(launch, 1)

    def __enter__(self) -> _Blocks:
        self._kept = [a.content.copy() for a in self.launch.allocations]
        return self

    def __exit__(self, *_: object) -> None:
        for allocation, content in zip(self.launch.allocations, self._kept, strict=True):
            allocation.content[:] = content

    def touch(self, index: int, mark: int) -> bool:
        """Run block ``index``; whether it came to its end."""
        memory, warps = self.memory, self.launch.warps_per_block
        words, first = memory.words.ctypes.data, memory.warp_address(0, 0)
        start_block(words, memory.block_address(0), first, index, self.launch.threads, warps)
        left = touch_block(
            memory.ops.ctypes.data,
            memory.length,
            words,
            first,
            warps,
            np.zeros(warps, dtype=np.int64),
            self.seen.ctypes.data,
            self.count,
            self.sector_bytes,
            mark,
            self.left,
        )
        self.left = max(0, left)
        return bool(left >= 0)


def block_instructions(launch: MachineLaunch) -> int:
    """Warp-instructions of the grid's middle block; more than are ever executed where it does not end."""
    with _Blocks(launch, 32) as blocks:
        ended = blocks.touch(launch.blocks // 2, _OWN)
        return MAX_INSTRUCTIONS - blocks.left if ended else MAX_INSTRUCTIONS


def fetched_elsewhere(
    launch: MachineLaunch, chosen: NDArray[np.int64], before: int, sector_bytes: int
) -> ForeignSectors:
    """What blocks of the grid fetch that are not ``chosen`` (grid indices), from ``before`` blocks ahead of
    the first one to the last one, or to the first that does not end without others. The arrays of the launch
    are left as they were."""
    own, ended = set(chosen.tolist()), 0
    with _Blocks(launch, sector_bytes) as blocks:
        begin = max(0, min(own) - before)
        for index in range(begin, max(own) + 1):
            if not blocks.touch(index, _OWN if index in own else _OTHER):
                break
            ended = index + 1 - begin
        seen = blocks.seen
    read = int(np.count_nonzero((seen == _OWN) | (seen == _OTHER)))
    bits = np.zeros(-(-len(seen) // 64) * 8, dtype=np.uint8)
    packed = np.packbits(seen & _OTHER != 0, bitorder="little")
    bits[: len(packed)] = packed
    return ForeignSectors(FIRST_ADDRESS // sector_bytes, len(seen), bits.view(np.int64), read / max(ended, 1))

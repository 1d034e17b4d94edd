"""Which sectors of global memory the blocks outside of a sample fetch: those that a sample finds in L2.

A sample runs some blocks of a grid. On the whole GPU their neighbours run at the same time or just before, on
other SMs, and what several of them need comes from DRAM once. So the blocks of the grid between the first and
the last of the sample, and some before the first, are executed without timing (functional warming, Wunderlich
et al. 2003, SMARTS), in the order in which they are launched: a sector belongs to the first block that asks
for it, and only the sample's own ones go to DRAM. What a block touches is kept for the samples
after the first one, whose neighbours are often the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from smlab.sim.machine_code import codes, record
from smlab.sim.machine_code.execute import execute
from smlab.sim.machine_code.functional import GONE, RUNS, WAITS, come, meet, start_block
from smlab.sim.machine_code.global_memory import FIRST_ADDRESS
from smlab.sim.machine_code.jit import entry, helper
from smlab.sim.machine_code.launch import MachineLaunch, MachineMemory
from smlab.sim.machine_code.words import I_CODE, I_K, I_WIDTH, at, get8, get64, lowest, ones, put, put8, put32
from smlab.sim.source import ADDRESSES, ARRIVES, EXITS, FAULTS, NOTIFIES

MAX_INSTRUCTIONS: Final = 60_000_000
"""Warp-instructions executed for this at most; what is left then counts as fetched by the sample."""
MAX_BYTES: Final = 1 << 34
MAX_KEPT: Final = 1 << 25
"""Sectors touched that are kept for further samples, in sum over blocks."""
_OWN, _OTHER, _WRITTEN = 1, 2, 4
"""Who touches a sector first, and whether to write it."""
_ACCESSES: Final = (codes.LOAD, codes.STORE, codes.ATOMIC, codes.COPY)
_GLOBAL_SPACES: Final = (codes.GLOBAL, codes.GENERIC)


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


@helper
def sector_of(inside, sector_bytes):  # type: ignore[no-untyped-def]
    return inside >> 5 if sector_bytes == 32 else inside // sector_bytes


@helper
def touch(sectors, seen, count, first, last, written):  # type: ignore[no-untyped-def]
    """Write down the sectors from ``first`` to ``last`` that the block has not touched before, twice their
    number and one more if it is to write."""
    for n in range(max(first, 0), min(last, count - 1) + 1):
        if get8(seen + n) == 0:
            put8(seen + n, 1)
            put32(sectors[0] + 4 * sectors[1], 2 * n + written)
            sectors[1] += 1


@entry
def touch_block(ops, length, launch, warps_at, warps, state, seen, count, sector, sectors, steps):  # type: ignore[no-untyped-def]
    """Run a block to its end, writing down the sectors that it touches, in order: ``sectors`` are the address
    of the list and its length. The steps left, or -1 if it does not end."""
    size = at(launch, record.REGISTER_FILE_BYTES)
    while True:
        for w in range(warps):
            warp = warps_at + w * size
            while at(state, w) == RUNS:
                pc = at(warp, record.PC)
                if steps <= 0 or pc < 0 or pc >= length:
                    return -1
                steps -= 1
                after = execute(ops, warp, launch, length)
                if after == FAULTS:
                    return -1
                op = ops + pc * (8 * record.WORDS)
                code = at(op, I_CODE)
                rest = at(warp, record.LANES)
                if code in _ACCESSES and rest != 0 and at(op, I_K) in _GLOBAL_SPACES:
                    width, written = at(op, I_WIDTH), int(code == codes.STORE)
                    lane = lowest(rest)
                    whole = rest >> lane
                    inside = get64(warp + 8 * (ADDRESSES + lane)) - FIRST_ADDRESS
                    if at(warp, record.CONSECUTIVE) != 0 and whole & (whole + 1) == 0:
                        end = inside + width * ones(whole) - 1
                        touch(
                            sectors, seen, count, sector_of(inside, sector), sector_of(end, sector), written
                        )
                        rest = 0
                    while rest != 0:
                        lane = lowest(rest)
                        rest &= rest - 1
                        inside = get64(warp + 8 * (ADDRESSES + lane)) - FIRST_ADDRESS
                        end = inside + width - 1
                        touch(
                            sectors, seen, count, sector_of(inside, sector), sector_of(end, sector), written
                        )
                if after in (ARRIVES, EXITS):
                    put(state, w, WAITS if after == ARRIVES else GONE)
                if after in (ARRIVES, NOTIFIES):
                    come(warps_at, size, warps, state, w)
        going = meet(warps_at, size, warps, state)
        if going <= 0:
            return steps if going < 0 else -1


class Neighbours:
    """Blocks of a launch executed without timing, one by one as they are asked for, on arrays of their own,
    which are the launch's again at the next call."""

    def __init__(self, launch: MachineLaunch, sector_bytes: int) -> None:
        self.launch, self.sector_bytes = launch, sector_bytes
        size = max((a.end for a in launch.allocations), default=FIRST_ADDRESS + 1) - FIRST_ADDRESS
        self.count = -(-min(size, MAX_BYTES) // sector_bytes)
        self.seen = np.zeros(self.count, dtype=np.uint8)
        self.sectors = np.empty(self.count, dtype=np.int32)
        self.asks = any(m.code in _ACCESSES and m.fields.get("k") in _GLOBAL_SPACES for m in launch.code)
        self.left = MAX_INSTRUCTIONS
        self.memory = MachineMemory(launch, 1)
        self.contents = [a.content.copy() for a in launch.allocations]
        for row, content in zip(self.memory.allocations, self.contents, strict=False):
            row[2] = content.ctypes.data
        self.changed = False
        self.kept: dict[int, NDArray[np.int32]] = {}
        self.room = MAX_KEPT

    def _start(self) -> None:
        """What runs next finds the launch's arrays, and has its own instructions left."""
        self.left = MAX_INSTRUCTIONS
        if self.changed:
            for own, allocation in zip(self.contents, self.launch.allocations, strict=True):
                own[:] = allocation.content
        self.changed = False

    def _touched(self, index: int) -> tuple[NDArray[np.int32], bool]:
        """The sectors that block ``index`` touches, as `touch` writes them; whether it came to its end."""
        if (found := self.kept.get(index)) is not None:
            return found, True
        self.changed = True
        memory, warps = self.memory, self.launch.warps_per_block
        words, first = memory.words.ctypes.data, memory.warp_address(0, 0)
        start_block(words, memory.block_address(0), first, index, self.launch.threads, warps)
        state = np.zeros(warps, dtype=np.int64)
        sectors = np.array([self.sectors.ctypes.data, 0], dtype=np.int64)
        left = touch_block(
            memory.ops.ctypes.data,
            memory.length,
            words,
            first,
            warps,
            state.ctypes.data,
            self.seen.ctypes.data,
            self.count,
            self.sector_bytes,
            sectors,
            self.left,
        )
        self.left = max(0, left)
        touched = self.sectors[: sectors[1]].copy()
        self.seen[touched >> 1] = 0
        if left >= 0 and len(touched) <= self.room:
            self.kept[index] = touched
            self.room -= len(touched)
        return touched, bool(left >= 0)

    def block_instructions(self) -> int:
        """Warp-instructions of the grid's middle block; more than are ever executed where it does not end."""
        self._start()
        _, ended = self._touched(self.launch.blocks // 2)
        return MAX_INSTRUCTIONS - self.left if ended else MAX_INSTRUCTIONS

    def fetched(self, chosen: NDArray[np.int64], before: int) -> ForeignSectors:
        """What blocks of the grid fetch that are not ``chosen`` (grid indices), from ``before`` blocks ahead
        of the first one to the last one, or to the first that does not end without others."""
        own, seen = set(chosen.tolist()), np.zeros(self.count, dtype=np.uint8)
        lists: list[NDArray[np.int32]] = []
        marks: list[int] = []
        ended = True
        if self.asks:
            self._start()
            for index in range(max(0, min(own) - before), max(own) + 1):
                touched, ended = self._touched(index)
                lists.append(touched)
                marks.append(_OWN if index in own else _OTHER)
                if not ended:
                    break
            every = np.concatenate(lists)
            mark = np.repeat(np.array(marks, dtype=np.uint8), [len(found) for found in lists])
            mark |= np.where(every & 1, _WRITTEN, 0).astype(np.uint8)
            seen[every[::-1] >> 1] = mark[::-1]  # of several values for one place the last one stays
        read = int(np.count_nonzero((seen == _OWN) | (seen == _OTHER)))
        bits = np.zeros(-(-len(seen) // 64) * 8, dtype=np.uint8)
        packed = np.packbits(seen & _OTHER != 0, bitorder="little")
        bits[: len(packed)] = packed
        sectors = FIRST_ADDRESS // self.sector_bytes
        return ForeignSectors(
            sectors, len(seen), bits.view(np.int64), read / max(len(lists) - (not ended), 1)
        )

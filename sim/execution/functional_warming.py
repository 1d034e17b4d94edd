"""Which sectors of global memory the blocks outside of a sample fetch: those that a sample finds in L2.

A sample runs some blocks of a grid. On the whole GPU their neighbours run at the same time or just before,
on other SMs, and what several of them need comes from DRAM once. So the blocks of the grid between the
first and the last of the sample, and some before the first, are executed without timing (functional
warming, Wunderlich et al. 2003, SMARTS), in the order in which they are launched. A sector belongs to the
wave of blocks that asks for it first, and there to one of the blocks that ask, drawn by chance. Only the
sample's own sectors go to DRAM. So a block has its fair share of what a wave fetches, also the first block
of a row. The blocks of the grid's first wave begin together. There a sector belongs to the block that comes
to it first, by the instructions and the waits for loads behind it, and one that asks at the same time waits
for DRAM too. What a block touches is kept for the samples after the first one, whose neighbours are often the
same.

Only what tells addresses is executed (`smlab.sim.execution.address_slice`): of a product of matrices neither
the products nor what lies in shared memory.

While blocks run here, one after the other, they are watched: where one reads a word that another one wrote,
blocks depend on each other, and a sample of them is not what they are together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from smlab.sim.execution.address_slice import ADDRESSED, LEFT_OUT, slice_for_addresses
from smlab.sim.execution.compiled_blocks import (
    ACCESSES,
    COVERED,
    FOUND_PC,
    FOUND_WORD,
    FOUND_WRITER,
    GLOBAL_SPACES,
    MAX_TAG,
    TAG,
    TOUCHED,
    start_block,
    touch_block,
)
from smlab.sim.isa import memory_layout, operation_codes
from smlab.sim.isa.decode.micro import MicroOperation
from smlab.sim.isa.launch.faults import block_name, where_in_code
from smlab.sim.isa.launch.launch import MachineLaunch, MachineMemory
from smlab.sim.isa.memory.global_memory import ContentsBefore
from smlab.sim.isa.operation_codes import FIRST_ADDRESS

MAX_INSTRUCTIONS: Final = 60_000_000
"""Warp-instructions executed for a sample, or for one wave of the grid if that has more. Those that are left
out do not count."""
MAX_OF_A_WAVE: Final = 300_000_000
"""Warp-instructions of a wave that are executed at most; what is left counts as fetched by the sample."""
MAX_BYTES: Final = 1 << 34
MAX_KEPT: Final = 1 << 24
"""Runs of sectors touched that are kept for further samples, in sum over blocks."""
MAX_ASKERS: Final = 0xFFFF
ANSWER: Final = 32
"""Instructions that a warp executes while DRAM answers (assumed: on an SM that is half full). Blocks that
begin together ask for a sector at the same time if they are no further apart."""
_NEVER: Final = 1 << 30
_NO_STEPS: Final = np.zeros(0, dtype=np.int32)
_OWN, _OTHER, _WRITTEN = 1, 2, 4
"""Who fetches a sector, and whether it was written first."""


@dataclass(frozen=True)
class ForeignSectors:
    """Sectors from ``first`` on, a bit each (little-endian words): fetched by a block outside of the
    sample. Those in ``arriving``, bits as well, are on their way when the sample asks for them.
    ``read_each`` are the distinct sectors that blocks read before any wrote them, a block, and
    ``written_each`` those that they wrote first. ``writes_back``: what the grid touches is more than L2, so
    what its blocks write goes on to DRAM meanwhile.
    ``other_atomics`` has a byte a sector where the kernel has atomics, else nothing: how many atomics of
    blocks outside come to it for one of the sample."""

    first: int
    sectors: int
    bits: NDArray[np.int64]
    arriving: NDArray[np.int64]
    read_each: float
    written_each: float
    other_atomics: NDArray[np.int64]

    writes_back: bool = False

    def atomics_of_others(self, sector: int) -> int:
        n = sector - self.first
        return (
            int(self.other_atomics[n >> 3]) >> 8 * (n & 7) & 255
            if 0 <= n < 8 * len(self.other_atomics)
            else 0
        )

    def __contains__(self, sector: object) -> bool:
        return isinstance(sector, int) and self._has(self.bits, sector)

    def arrives(self, sector: int) -> bool:
        return self._has(self.arriving, sector)

    def _has(self, bits: NDArray[np.int64], sector: int) -> bool:
        n = sector - self.first
        return 0 <= n < self.sectors and bool(int(bits[n >> 6]) >> (n & 63) & 1)


def _packed(sectors: NDArray[np.bool_]) -> NDArray[np.int64]:
    """A bit a sector, in little-endian words."""
    bits = np.zeros(-(-len(sectors) // 64) * 8, dtype=np.uint8)
    packed = np.packbits(sectors, bitorder="little")
    bits[: len(packed)] = packed
    return bits.view(np.int64)


def _path(actions: NDArray[np.int8]) -> NDArray[np.int32]:
    """For each instruction the next one, itself among them, that is not left out, times two; and one more
    where its addresses alone are wanted."""
    path = np.empty(len(actions), dtype=np.int32)
    following = 2 * len(actions)
    for n in range(len(actions) - 1, -1, -1):
        if actions[n] != LEFT_OUT:
            following = 2 * n + int(actions[n] == ADDRESSED)
        path[n] = following
    return path


def _ages(code: Sequence[MicroOperation]) -> NDArray[np.int32]:
    """How far each instruction is from the first one, and the end: instructions, and `ANSWER` more for one
    that waits for loads."""
    waits = np.zeros(len(code), dtype=np.int64)
    pending = 0
    for n, micro in enumerate(code):
        control = micro.instruction.control
        if control is None:
            continue
        waits[n] = control.wait_mask & pending != 0
        pending &= ~control.wait_mask
        if micro.returns and micro.fields.get("space") in GLOBAL_SPACES and control.write_barrier is not None:
            pending |= 1 << control.write_barrier
    return np.concatenate([[0], np.cumsum(1 + ANSWER * waits)]).astype(np.int32)


@dataclass(frozen=True)
class _Touched:
    """The sectors that a cluster touches, twice their number and one more where it wrote first; how far a
    warp had come then (`_ages`), if that is known; and whether the cluster ends."""

    sectors: NDArray[np.int32]
    steps: NDArray[np.int32]
    ended: bool

    def __len__(self) -> int:
        return len(self.sectors)


def _runs(touched: NDArray[np.int32]) -> NDArray[np.int32]:
    """Sectors as `touch` writes them, as runs: (runs, first and number)."""
    ordered = np.sort(touched)
    begins = np.flatnonzero(np.diff(ordered, prepend=-4) != 2)
    lengths = np.diff(begins, append=len(ordered))
    return np.stack([ordered[begins], lengths], axis=1).astype(np.int32)


def _of_runs(runs: NDArray[np.int32]) -> NDArray[np.int32]:
    """The sectors of runs, in ascending order."""
    first, lengths = runs[:, 0], runs[:, 1]
    before = np.cumsum(lengths) - lengths
    total = int(lengths.sum())
    found = np.repeat(first - 2 * before, lengths) + 2 * np.arange(total)
    return found.astype(np.int32)


class _Askers:
    """How many clusters of the sample and of the others ask for each sector."""

    def __init__(self, sectors: int) -> None:
        self.asked = np.zeros((2, sectors), dtype=np.uint32)
        self._clusters = [0, 0]
        self._own: list[NDArray[np.int32]] = []

    def ask(self, touched: NDArray[np.int32], own: bool) -> None:
        sectors = touched >> 1
        self.asked[int(own), sectors] += 1
        self._clusters[own] += 1
        if own:
            self._own.append(sectors)

    def other_atomics(self, others: float) -> NDArray[np.int64]:
        """A byte a sector: ``others`` (SMs outside for one of the sample) where as many of their blocks ask
        for it as of the sample's, and a part of it where fewer do."""
        found = np.zeros(-(-self.asked.shape[1] // 8) * 8, dtype=np.uint8)
        if min(self._clusters) > 0:
            sectors = np.unique(np.concatenate(self._own))
            outside, inside = (self.asked[k, sectors] / self._clusters[k] for k in (0, 1))
            found[sectors] = np.minimum(np.rint(others * outside / inside), 255)
        return found.view(np.int64)


class _Owners:
    """Which sectors are fetched by the sample (``_OWN``) and which by others, as blocks come wave by wave."""

    def __init__(self, sectors: int) -> None:
        self.seen = np.zeros(sectors, dtype=np.uint8)
        self._askers = np.zeros(sectors, dtype=np.uint16)  # of this wave; 0 where an earlier one has asked
        self._fresh: list[NDArray[np.int32]] = []
        # How long before `_NEVER` a block of the first wave asks, and one of the sample: most stay 0.
        self._earliness = np.zeros((2, sectors), dtype=np.int32)
        self._own: list[NDArray[np.int32]] = []

    def next_wave(self) -> None:
        """What blocks have asked for until now is in L2 from now on."""
        for sectors in self._fresh:
            self._askers[sectors] = 0
        self._fresh = []

    def ask(self, index: int, touched: NDArray[np.int32], own: bool) -> None:
        """Block ``index`` asks: of sectors that blocks of its wave ask for too, each is as likely the owner
        of one as any other (a reservoir of one)."""
        sectors, who = touched >> 1, np.uint8(_OWN if own else _OTHER)
        new = self.seen[sectors] == 0
        first = touched[new]
        self.seen[first >> 1] = who | (first & 1).astype(np.uint8) * np.uint8(_WRITTEN)
        self._askers[first >> 1] = 1
        self._fresh.append(first >> 1)
        shared = sectors[~new]
        shared = shared[self._askers[shared] > 0]
        count = self._askers[shared].astype(np.uint64) + np.uint64(1)
        self._askers[shared] = np.minimum(count, MAX_ASKERS)
        mixed = shared.astype(np.uint64) * np.uint64(0x9E3779B1) + np.uint64(index) * np.uint64(0x85EBCA77)
        drawn = (mixed ^ mixed >> np.uint64(15)) * np.uint64(0xC2B2AE3D) >> np.uint64(16) & np.uint64(0xFFFF)
        taken = shared[drawn * count >> np.uint64(16) == 0]
        self.seen[taken] = self.seen[taken] & np.uint8(_WRITTEN) | who

    def ask_in_first_wave(self, index: int, touched: _Touched, own: bool) -> None:
        """Block ``index`` of the grid's first wave asks. These blocks begin together, so a sector's owner is
        the one that comes to it first; of several at nearly the same time one by chance."""
        sectors, when = touched.sectors >> 1, touched.steps
        first = _NEVER - self._earliness[0, sectors]
        self.seen[sectors[when // ANSWER < first // ANSWER]] = 0
        self.ask(index, touched.sectors[when // ANSWER <= first // ANSWER], own)
        self._earliness[0, sectors] = np.maximum(self._earliness[0, sectors], _NEVER - when)
        if own:
            self._earliness[1, sectors] = np.maximum(self._earliness[1, sectors], _NEVER - when)
            self._own.append(sectors)

    def arriving(self) -> NDArray[np.bool_]:
        """Which sectors DRAM still sends to another block when the sample asks for them."""
        found = np.zeros(len(self.seen), dtype=bool)
        for sectors in self._own:
            found[sectors] = self._earliness[0, sectors] < self._earliness[1, sectors] + ANSWER
        return found


class Neighbours:
    """Blocks of a launch executed without timing, cluster by cluster as they are asked for (without clusters
    one by one); after each call the launch's arrays are again what they were at first, which ``before``
    holds. Blocks and clusters are numbered in the order in which they are launched."""

    def __init__(
        self, launch: MachineLaunch, sector_bytes: int, before: ContentsBefore | None = None
    ) -> None:
        self.launch, self.sector_bytes = launch, sector_bytes
        size = max((a.end for a in launch.allocations), default=FIRST_ADDRESS + 1) - FIRST_ADDRESS
        self.count = -(-min(size, MAX_BYTES) // sector_bytes)
        self.seen = np.zeros(self.count, dtype=np.uint8)
        self.sectors = np.empty(self.count, dtype=np.int32)
        self.steps = np.empty(self.count, dtype=np.int32)
        self.adds = any(
            m.code == operation_codes.ATOMIC and m.fields.get("space") in GLOBAL_SPACES for m in launch.code
        )
        self.asks = any(
            m.code == operation_codes.BULK_COPY
            or (m.code in ACCESSES and m.fields.get("space") in GLOBAL_SPACES)
            for m in launch.code
        )
        self.left = self.budget = MAX_INSTRUCTIONS
        self.covered = 0
        self.ends = self.cut_short = False
        self.size = launch.cluster_blocks
        self.memory = MachineMemory(launch, self.size)
        self.before = ContentsBefore(launch.allocations, before)
        words = self.count * sector_bytes // 4
        self.writers = np.zeros(words, dtype=np.uint32)  # only what is written to takes memory
        nowhere = (words, -1)
        self.watched = np.array([self.writers.ctypes.data, words, 0, -1, 0, 0, *nowhere], dtype=np.int64)
        self.path = _path(slice_for_addresses(launch.code))
        self.ages = _ages(launch.code)
        self.reader = 0
        self.ran = False
        self.all_watched = True
        self.kept: dict[int, NDArray[np.int32] | _Touched] = {}
        self.wave = 0
        self.room = MAX_KEPT

    def _touched(self, index: int) -> _Touched:
        """What cluster ``index`` touches."""
        kept = self.kept.get(index)
        if isinstance(kept, _Touched):
            return kept
        if kept is not None and index >= self.wave:
            return _Touched(_of_runs(kept), _NO_STEPS, True)
        self.ran = True
        memory, warps = self.memory, self.launch.warps_per_block
        words, first = memory.words.ctypes.data, memory.warp_address(0, 0)
        for n in range(self.size):
            start_block(words, memory.block_address(n), memory.warp_address(n, 0), index * self.size + n)
        state = np.zeros(2 * warps * self.size, dtype=np.int64)
        block = np.array(
            [
                *(memory.ops.ctypes.data, memory.length, words, first, warps, state.ctypes.data),
                *(self.path.ctypes.data, self.ages.ctypes.data),
            ],
            dtype=np.int64,
        )
        sectors = np.array(
            [
                *(self.seen.ctypes.data, self.count, self.sector_bytes, self.sectors.ctypes.data, 0, 0),
                self.steps.ctypes.data,
            ],
            dtype=np.int64,
        )
        self.watched[TAG] = index % MAX_TAG + 1
        nothing_yet = self.watched[FOUND_PC] < 0
        left = touch_block(block.ctypes.data, sectors.ctypes.data, self.watched.ctypes.data, self.left)
        if nothing_yet:
            self.reader = index
        self.all_watched &= bool(left >= 0)
        self.left = max(0, left)
        self.covered = int(sectors[COVERED])
        touched = self.sectors[: sectors[TOUCHED]].copy()
        steps = self.steps[touched >> 1]
        self.seen[touched >> 1] = 0
        found = _Touched(touched, steps, bool(left >= 0))
        if found.ended and self.room:
            # Only of the first wave it matters when a block asks.
            keep = found if index < self.wave else _runs(touched)
            if len(keep) <= self.room:
                self.kept[index] = keep
                self.room -= len(keep)
        return found

    def block_instructions(self, wave: int) -> int:
        """Warp-instructions of the grid's middle block; more than are ever executed where it does not end.
        From then on a ``wave`` of blocks may be executed for a sample."""
        self.left = MAX_INSTRUCTIONS
        self.wave = max(1, wave // self.size)
        ended = self.ends = self._touched(self.launch.blocks // self.size // 2).ended
        self._go_back()
        executed = (MAX_INSTRUCTIONS - self.left) // self.size
        self.budget = max(MAX_INSTRUCTIONS, min(2 * executed * wave, MAX_OF_A_WAVE))
        return self.covered // self.size if ended else MAX_INSTRUCTIONS

    def dependence(self) -> str | None:
        """How blocks depend on each other, as far as it was seen."""
        launch, pc = self.launch, int(self.watched[FOUND_PC])
        if pc >= 0:
            word, tag = int(self.watched[FOUND_WORD]), int(self.watched[FOUND_WRITER])
            what = launch.place(FIRST_ADDRESS + 4 * word)
            return (
                f"block {self._name(self.reader)} reads what block {self._name(tag - 1)} "
                f"wrote ({what}), at {where_in_code(launch.code[pc])}"
            )
        if self.all_watched:
            return None
        for micro in launch.code:
            if (
                micro.code == operation_codes.ATOMIC
                and micro.fields.get("dst") != memory_layout.dump_at()
                and micro.fields.get("space") in GLOBAL_SPACES
            ):
                return f"as an atomic may tell one what others did, at {where_in_code(micro)}"
        return None

    def _name(self, cluster: int) -> str:
        """A cluster by its first block."""
        order, first = self.launch.launch_order, cluster * self.size
        return block_name(self.launch, first if order is None else int(order[first]))

    def _go_back(self) -> None:
        if self.ran:
            self.before.go_back()
        self.ran = False

    def fetched(self, chosen: NDArray[np.int64], wave: int, others: float = 0) -> ForeignSectors:
        """What blocks of the grid fetch that are not ``chosen`` (numbers), from a ``wave`` of blocks ahead of
        the first one to the last one (of the grid's first wave: all), or to the first that does not end
        without others. ``others`` SMs are outside of the sample for each one in it."""
        own, owners = set((chosen // self.size).tolist()), _Owners(self.count)
        askers = _Askers(self.count if self.adds else 0)
        clusters, ended = 0, True
        wave = self.wave = max(1, wave // self.size)
        if self.asks:
            self.left = self.budget
            # All of the first wave begin together, those behind the sample as well.
            first_wave = min(wave, self.launch.blocks // self.size) if min(own) < wave else 0
            for index in range(max(0, min(own) - wave), max(max(own) + 1, first_wave)):
                touched = self._touched(index)
                clusters += 1
                if index % wave == 0:
                    owners.next_wave()
                if index < wave:
                    owners.ask_in_first_wave(index, touched, index in own)
                else:
                    owners.ask(index, touched.sectors, index in own)
                if self.adds:
                    askers.ask(touched.sectors, index in own)
                if not (ended := touched.ended):
                    self.cut_short |= self.ends
                    break
            self._go_back()
        seen = owners.seen
        read = int(np.count_nonzero((seen == _OWN) | (seen == _OTHER)))
        written = int(np.count_nonzero(seen & _WRITTEN))
        ran = max(clusters - (not ended), 1) * self.size
        foreign = seen & _OTHER != 0
        sectors = FIRST_ADDRESS // self.sector_bytes
        return ForeignSectors(
            sectors,
            len(seen),
            _packed(foreign),
            _packed(foreign & owners.arriving()),
            read / ran,
            written / ran,
            askers.other_atomics(others),
        )

"""Memory and atomics in plain Python; see `access` for the same in machine code."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import partial

from smlab.sim.isa import memory_layout
from smlab.sim.isa import operation_codes as d
from smlab.sim.isa.decode.micro import MicroOperation
from smlab.sim.isa.meanings.halves import bfloat16_sum, chosen_short, half_sum
from smlab.sim.isa.meanings.operands import WarpOperands
from smlab.sim.isa.meanings.rounding import bf16, bits32, bits64, f16, f32, f64
from smlab.sim.isa.meanings.warp_state import (
    LANES,
    BlockState,
    Fault,
    WarpState,
    members,
)
from smlab.sim.isa.operation_codes import LOCAL_WINDOW, SHARED_WINDOW
from smlab.sim.isa.vector_operation import M32, M64, signed

BLOCK_ADDRESS = (1 << 24) - 1
_WINDOWS = {SHARED_WINDOW: d.SHARED, LOCAL_WINDOW: d.LOCAL}


class WarpMemory(WarpOperands):
    """Loads, stores and atomics, lane by lane in order. ``blocks`` are those that are resident, by room,
    ``rooms`` all that were, by their number in the order of launch."""

    blocks: dict[int, BlockState]
    rooms: dict[int, BlockState]

    def _addresses(self, w: WarpState, micro: MicroOperation) -> list[int]:
        """The lanes' addresses; the spaces that they lie in."""
        f = micro.fields
        form, space = f["address_form"], f["space"]
        uniform = self.row(w, micro, "b")[0] | self.row(w, micro, "b", 1)[0] << 32
        first, second, offset = self.row(w, micro, "a"), self.row(w, micro, "b"), f["offset_bytes"]
        high = self.row(w, micro, "a", 1) if form == d.WIDE else first
        for lane in LANES:
            low = first[lane]
            if form == d.NARROW:
                address = ((low << f["index_shift"]) + second[lane] + offset) & M32
            elif form == d.WIDE:
                address = (low | high[lane] << 32) + uniform + offset
            else:
                address = low + uniform + offset
            w.addresses[lane] = signed(address & M64, 64)
        if space != d.GENERIC:
            return [int(space)] * 32
        spaces = [_WINDOWS.get(a >> 32, d.GLOBAL) for a in w.addresses]
        w.addresses = [a if s == d.GLOBAL else a & M32 for a, s in zip(w.addresses, spaces, strict=True)]
        return spaces

    def _place(self, w: WarpState, space: int, lane: int, address: int, size: int) -> tuple[memoryview, int]:
        """The memory that an address lies in, and where in it."""
        if address & (size - 1):
            raise Fault(memory_layout.MISALIGNED, lane, address)
        if space == d.SHARED:
            block, at = self.owner_of(w, address), (address & BLOCK_ADDRESS) - self.launch.shared_first
            if block is None or at < 0 or at + size > self.launch.shared_room:
                raise Fault(memory_layout.OUT_OF_BOUNDS, lane, address)
            return memoryview(block.shared), at
        if space == d.LOCAL:
            if address < 0 or address + size > self.launch.local_bytes:
                raise Fault(memory_layout.OUT_OF_BOUNDS, lane, address)
            thread = w.number * 32 + lane
            return memoryview(w.block.local.setdefault(thread, bytearray(self.launch.local_bytes))), address
        for allocation in self.launch.allocations:
            if allocation.address <= address and address + size <= allocation.end:
                return memoryview(allocation.content.data), address - allocation.address
        raise Fault(memory_layout.OUT_OF_BOUNDS, lane, address)

    def _settle_copies(self, w: WarpState) -> None:
        """The copies of the block that are done by now tell their barriers."""
        raise NotImplementedError

    def block_of_rank(self, w: WarpState, rank: int) -> BlockState | None:
        """The block of this rank in a warp's cluster; None where it has retired, or there is none."""
        if not 0 <= rank < self.launch.cluster_blocks:
            return None
        number = w.block.number - w.block.rank + rank
        block = self.rooms.get(number)
        return block if block is not None and self.blocks[block.room] is block else None

    def owner_of(self, w: WarpState, address: int) -> BlockState | None:
        """The block whose shared memory an address lies in."""
        return w.block if address >> 24 == w.block.rank else self.block_of_rank(w, address >> 24)

    def _words(self, address: int, size: int) -> range:
        first = ((address & BLOCK_ADDRESS) - self.launch.shared_first) >> 2
        return range(first, first + (size + 3) // 4)

    def _write_known(self, w: WarpState, address: int, size: int) -> None:
        if (block := self.owner_of(w, address)) is not None:
            block.known.update(self._words(address, size))

    def _read_known(self, w: WarpState, lanes: Iterable[int], size: int) -> None:
        """Write down what lanes read that nobody has written; see `access.note_unwritten`."""
        if not self.launch.check_shared:
            return
        row = self.unwritten[w.last_pc]
        for lane in lanes:
            for word in self._words(w.addresses[lane], size):
                if word not in w.block.known:
                    place = (w.block.index, 32 * w.number + lane, self.launch.shared_first + 4 * word)
                    if row[0] == 0 or place < tuple(row[1:].tolist()):
                        row[1:] = place
                    row[0] += 1

    def _access(self, w: WarpState, micro: MicroOperation, lanes: int) -> None:
        f, width = micro.fields, micro.fields["width_bytes"]
        if any(copy.in_halves for copy in w.block.copies):
            self._settle_copies(w)
        spaces = self._addresses(w, micro)
        if micro.code == d.ATOMIC:
            done = lanes
            if f["number_type"] >= d.HALF_PAIR:
                done = sum(1 << lane for lane in members(lanes) if spaces[lane] == d.GLOBAL)
            self.set_predicate(w, micro, "done_predicate", done, lanes)
            lanes = done
        if micro.code != d.STORE:
            self._read_known(w, [lane for lane in members(lanes) if spaces[lane] == d.SHARED], width)
        order = {d.GLOBAL: 0, d.SHARED: 1, d.LOCAL: 2}
        for lane in sorted(members(lanes), key=lambda lane: order[spaces[lane]]):
            address, space = w.addresses[lane], spaces[lane]
            memory, at = self._place(w, space, lane, address, width)
            if space == d.SHARED and micro.code != d.LOAD:
                self._write_known(w, address, width)
            if micro.code == d.LOAD:
                content = bytes(memory[at : at + width])
                if width < 4:
                    self.put(
                        w, f["dst"], lane, int.from_bytes(content, "little", signed=bool(f["is_signed"]))
                    )
                for k, row in self._loaded_rows(f, width):
                    self.put(w, row, lane, struct.unpack_from("<I", content, 4 * k)[0])
            elif micro.code == d.STORE:
                words = [self.row(w, micro, "c", k)[lane] for k in range(max(1, min(width, 16) // 4))]
                if width == 32:
                    words += [w.rows[f["second_c"] + k * memory_layout.ROW_BYTES][lane] for k in range(4)]
                content = b"".join(struct.pack("<I", word) for word in words)
                memory[at : at + width] = content[:width]
            else:
                self._update(w, micro, lane, memory, at)

    def _loaded_rows(self, f: Mapping[str, int], width: int) -> list[tuple[int, int]]:
        """The words of a load that registers take, and where those lie."""
        if width < 32:
            return [(k, f["dst"] + k * memory_layout.ROW_BYTES) for k in range(width // 4)]
        groups = (f["dst"], f["second_dst"])
        kept = [[k for k in range(4 * n, 4 * n + 4) if f["words_kept"] >> k & 1] for n in range(2)]
        return [
            (k, first + place * memory_layout.ROW_BYTES)
            for first, words in zip(groups, kept, strict=True)
            for place, k in enumerate(words)
        ]

    def _copy(self, w: WarpState, micro: MicroOperation, lanes: int) -> None:
        """An asynchronous copy from global to shared memory, done at once. Lanes without its predicate write
        zeros, and read nothing."""
        f, width = micro.fields, micro.fields["width_bytes"]
        self._addresses(w, micro)
        copied = lanes & self.predicate(w, micro, "predicate_a")
        place = f["shared_base"]
        base = w.rows[place] if f["shared_base_reg"] else self.constants[place]
        rows: set[tuple[int, int]] = set()
        for lane in members(lanes):
            content = bytes(width)
            if copied >> lane & 1:
                memory, at = self._place(w, d.GLOBAL, lane, w.addresses[lane], width)
                content = bytes(memory[at : at + width])
            address = (self.row(w, micro, "c")[lane] + base[lane] + f["shared_offset_bytes"]) & M32
            shared, inside = self._place(w, d.SHARED, lane, address, width)
            self._write_known(w, address, width)
            shared[inside : inside + width] = content
            if copied >> lane & 1 and f["bypasses_l1"]:
                rows.add((w.addresses[lane] >> 7, address >> 7))
        w.lanes, w.passes = copied, max(1, len(rows))

    def _load_matrices(self, w: WarpState, micro: MicroOperation, lanes: int) -> None:
        """Matrices of 8 x 8 halves from shared memory; see `tensor_steps.load_matrices`."""
        f, count, turned = micro.fields, micro.fields["matrices"], micro.fields["transposed"]
        self._addresses(w, micro)
        rows = []
        for lane in range(8 * count):
            memory, at = self._place(w, d.SHARED, lane, w.addresses[lane], 16)
            rows.append(struct.unpack("<8H", bytes(memory[at : at + 16])))
        self._read_known(w, range(8 * count), 16)
        for n in range(count):
            for lane in members(lanes):
                g, t = lane >> 2, lane & 3
                if turned:
                    low, high = rows[8 * n + 2 * t][g], rows[8 * n + 2 * t + 1][g]
                else:
                    low, high = rows[8 * n + g][2 * t : 2 * t + 2]
                self.put(w, f["dst"] + n * memory_layout.ROW_BYTES, lane, low | high << 16)

    def _store_matrices(self, w: WarpState, micro: MicroOperation, lanes: int) -> None:
        """The same way back: lane 8 n + r has the address of row r of matrix n."""
        count, turned = micro.fields["matrices"], micro.fields["transposed"]
        self._addresses(w, micro)
        for lane in range(8 * count):
            n, row = lane >> 3, lane & 7
            words = self.row(w, micro, "c", n)
            if turned:
                halves = [words[4 * k + (row >> 1)] >> 16 * (row & 1) & 0xFFFF for k in range(8)]
            else:
                halves = [words[4 * row + (k >> 1)] >> 16 * (k & 1) & 0xFFFF for k in range(8)]
            memory, at = self._place(w, d.SHARED, lane, w.addresses[lane], 16)
            self._write_known(w, w.addresses[lane], 16)
            memory[at : at + 16] = struct.pack("<8H", *halves)

    def _update(self, w: WarpState, micro: MicroOperation, lane: int, memory: memoryview, at: int) -> None:
        """An atomic of one lane."""
        f, width, operation = micro.fields, micro.fields["width_bytes"], micro.fields["operation"]
        if width == 16 or (width == 8 and f["number_type"] in (d.FLOAT32, d.HALF_PAIR, d.BFLOAT16_PAIR)):
            for k in range(width // 4):  # words side by side
                old, value = struct.unpack_from("<I", memory, at + 4 * k)[0], self.row(w, micro, "c", k)[lane]
                new = combined(operation, f["number_type"], old, value, 0)
                struct.pack_into("<I", memory, at + 4 * k, new & M32)
                self.put(w, f["dst"] + k * memory_layout.ROW_BYTES, lane, old)
            return
        old = int.from_bytes(memory[at : at + width], "little")

        def value_of(offset: int, register: int) -> int:
            rows = [
                w.rows[offset + k * 128] if register else self.constants[offset + k]
                for k in range(width // 4)
            ]
            return sum(row[lane] << 32 * k for k, row in enumerate(rows))

        value = value_of(f["c"], f["c_reg"]) if "c" in f else 0
        compared = value
        if operation in (d.SWAP, d.SPIN):
            value = value_of(f["swap_value"], f["swap_value_reg"])
        new = old + 1 if operation == d.COUNT else combined(operation, f["number_type"], old, value, compared)
        memory[at : at + width] = (new & ((1 << 8 * width) - 1)).to_bytes(width, "little")
        if operation == d.SPIN:
            old = int(old == compared)
            self.set_predicate(w, micro, "done_predicate", old << lane, 1 << lane)
        for k in range(width // 4):
            self.put(w, f["dst"] + k * memory_layout.ROW_BYTES, lane, old >> 32 * k)


def arrived(barrier: int) -> int:
    """A barrier of sm_80 after one more arrival: in its low word 2^30 less the arrivals of a phase; in its
    high one the phase, and 2^31 less the arrivals that lack, which begin anew when none does."""
    expected, counted = barrier & M32, (barrier >> 32) + 1
    if counted & 0x7FFFFFFF == 0:
        counted = (counted & M32) | (expected + (1 << 30)) & 0x7FFFFFFF
    return counted << 32 | expected


def combined(operation: int, kind: int, old: int, value: int, compared: int) -> int:
    """What an atomic leaves in memory."""
    if operation == d.ADD and kind == d.FLOAT32:
        return bits32(f32(old) + f32(value))
    if operation == d.ADD and kind == d.FLOAT64:
        return bits64(f64(old) + f64(value))
    if kind >= d.HALF_PAIR and operation in (d.ADD, d.MIN, d.MAX):
        is_half = kind == d.HALF_PAIR
        if operation == d.ADD:
            both = half_sum if is_half else bfloat16_sum
        else:
            both = partial(chosen_short, takes_lesser=operation == d.MIN, number=f16 if is_half else bf16)
        return both(old & 0xFFFF, value & 0xFFFF) | both(old >> 16, value >> 16) << 16

    def ordered(x: int) -> int:
        return signed(x) if kind == d.S32 else signed(x, 64) if kind == d.S64 else x

    if operation == d.ARRIVE:
        return arrived(old)
    less = ordered(value) < ordered(old)
    results = {
        d.ADD: old + value,
        d.MIN: value if less else old,
        d.MAX: value if ordered(old) < ordered(value) else old,
        d.AND: old & value,
        d.OR: old | value,
        d.XOR: old ^ value,
        d.INC: old + 1 if old < value else 0,
        d.DEC: value if old == 0 or value < old else old - 1,
        d.EXCHANGE: value,
        d.SWAP: value if old == compared else old,
        d.SPIN: value if old == compared else old,
    }
    return results[operation]


def _pairs_agree(w: WarpState, lanes: int) -> bool:
    """Whether all lanes ask for the place of lane xor 1, or all for that of lane xor 2, as far as it is
    active."""
    taking = members(lanes)
    return any(
        all(w.addresses[lane] == w.addresses[lane ^ by] for lane in taking if lanes >> (lane ^ by) & 1)
        for by in (1, 2)
    )


def bank_wavefronts(micro: MicroOperation, w: WarpState) -> int:
    """Passes over the banks; see `execute.bank_wavefronts`."""
    if not w.lanes:
        return 1
    merges = micro.code != d.ATOMIC or micro.fields["operation"] == d.COUNT
    lanes = w.lanes
    if micro.code in (d.LOAD_MATRIX, d.STORE_MATRIX):
        lanes &= M32 >> 32 - 8 * micro.fields["matrices"]
    words = max(1, micro.fields["width_bytes"] // 4)
    share, total = 32 // words, 0
    if words > 1 and micro.code == d.LOAD and _pairs_agree(w, lanes):
        share *= 2
    for part in range(32 // share):
        asked: dict[int, list[int]] = defaultdict(list)
        for lane in members(lanes & (M32 >> (32 - share)) << part * share):
            first = w.addresses[lane] >> 2
            for word in range(first, first + words):
                asked[word & 31].append(word)
        total += max((len(set(a)) if merges else len(a) for a in asked.values()), default=0)
    return max(1, total)

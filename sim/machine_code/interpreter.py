"""Machine code in plain Python, lane by lane: the reference meaning of everything that `execute` does.

A warp that has diverged is a list of parts, each with its own place in the code; one runs at a time. Registers are lists of
32 words, by the byte offset that the micro-operations name them with.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from smlab.hw_bench.errors import SmlabError
from smlab.sim.machine_code import decode as d
from smlab.sim.machine_code import record
from smlab.sim.machine_code.decode import MicroOperation
from smlab.sim.machine_code.faults import fault_error
from smlab.sim.machine_code.launch import MachineLaunch
from smlab.sim.machine_code.limits import LOCAL_AT, SHARED_WINDOW, TURNS
from smlab.sim.machine_code.meanings import M32, M64, OPERATIONS, bits32, bits64, f32, f64, signed
from smlab.sim.source import ARRIVES, EXITS, FAULTS, GOES_ON

LANES = range(32)
READY, AT_BARRIER = -1, record.AT_BLOCK_BARRIER


class Fault(Exception):
    """Something that stops the kernel: what, in which lane, at which address."""

    def __init__(self, kind: int, lane: int, address: int = 0) -> None:
        super().__init__(kind, lane, address)
        self.kind, self.lane, self.address = kind, lane, address


@dataclass
class BlockState:
    """A resident block: its index in the grid, shared and local memory."""

    index: int
    place: tuple[int, int, int]
    shared: bytearray
    local: dict[int, bytearray]
    known: set[int] = field(default_factory=set)
    reduced: int = 0
    result: int = 0


@dataclass
class Part:
    """Some lanes of a warp that are not running now: where they go on, and what for they wait."""

    pc: int
    mask: int
    wait: int


@dataclass
class WarpState:
    """A resident warp."""

    block: BlockState
    number: int
    sm: int
    active: int
    live: int
    pc: int = 0
    last_pc: int = 0
    clock: int = 0
    patience: int = 0
    lanes: int = 0
    parts: list[Part] = field(default_factory=list)
    rows: dict[int, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0] * 32))
    predicates: list[int] = field(default_factory=lambda: [M32 if n in (record.PT, record.UPT) else 0 for n in range(17)])
    barriers: dict[tuple[int, int], int] = field(default_factory=dict)
    addresses: list[int] = field(default_factory=lambda: [0] * 32)
    fault: Fault | None = None


def members(mask: int) -> list[int]:
    """The lanes of a mask, in order."""
    return [lane for lane in LANES if mask >> lane & 1]


class Interpreter:
    """The reference's source of machine code; see `smlab.sim.source.ReferenceSource`."""

    def __init__(self, launch: MachineLaunch, blocks: np.ndarray | None = None) -> None:
        self.launch = launch
        self.code = launch.code
        self.grid_index = blocks
        self.executed = np.zeros(len(self.code), dtype=np.int64)
        self.lanes = np.zeros(len(self.code), dtype=np.int64)
        self.warps: dict[tuple[int, int], WarpState] = {}
        self.blocks: dict[int, BlockState] = {}
        self.constants = [[word] * 32 for word in launch.rows.words]

    # What the engine asks

    def start(self, sm: int, slot: int, block: int, place: int, room: int) -> None:
        if place == 0:
            index = block if self.grid_index is None else int(self.grid_index[block])
            x, y, _ = self.launch.grid
            where = index % x, index // x % y, index // (x * y)
            shared = bytearray(max(self.launch.shared_bytes, 8))
            self.blocks[room] = BlockState(index, where, shared, {})
        count = min(32, self.launch.threads - 32 * place)
        mask = (1 << count) - 1
        self.warps[sm, slot] = WarpState(self.blocks[room], place, sm, mask, mask)

    def next(self, sm: int, slot: int, now: int) -> tuple[int, int, int, list[int]]:
        w = self.warps[sm, slot]
        w.clock, w.last_pc = now, w.pc
        try:
            if not 0 <= w.pc < len(self.code):
                raise Fault(record.BAD_TARGET, 0, w.pc * 16)
            micro = self.code[w.pc]
            state = self.execute(w, micro)
        except Fault as fault:
            w.fault = fault
            return FAULTS, w.lanes, 1, []
        self.executed[w.last_pc] += 1
        self.lanes[w.last_pc] += w.lanes.bit_count()
        passes, addresses = 1, []
        if micro.code in (d.LOAD, d.STORE, d.ATOMIC):
            space = micro.fields.get("k", 0)
            addresses = [w.addresses[lane] for lane in members(w.lanes)]
            if space == d.SHARED:
                passes = bank_passes(micro, w)
            elif space == d.LOCAL:
                addresses = self._placed_local(micro, w)
        return state, w.lanes, passes, addresses

    def opened(self, sm: int, slot: int) -> None:
        self.open_barrier(self.warps[sm, slot])

    def pc(self, sm: int, slot: int) -> int:
        return self.warps[sm, slot].pc

    def fault(self, sm: int, slot: int) -> SmlabError:
        w = self.warps[sm, slot]
        assert w.fault is not None
        return fault_error(
            self.launch, w.fault.kind, w.last_pc, w.block.index, w.number, w.fault.lane, w.fault.address
        )

    def _placed_local(self, micro: MicroOperation, w: WarpState) -> list[int]:
        width = micro.fields["width"]
        number = w.block.index * self.launch.warps_per_block + w.number
        base = LOCAL_AT + number * self.launch.local_bytes * 32
        return [
            base + (w.addresses[lane] & ~(width - 1)) * 32 + lane * max(width, 4) for lane in members(w.lanes)
        ]

    # Operands

    def row(self, w: WarpState, micro: MicroOperation, name: str, more: int = 0) -> list[int]:
        f = micro.fields
        if f.get(f"{name}_reg"):
            return w.rows[f[name] + more * record.ROW_BYTES]
        if not f.get(f"{name}_and"):
            return [0] * 32
        return self.constants[f[name] + more]

    def word(self, w: WarpState, micro: MicroOperation, name: str, lane: int) -> int:
        f = micro.fields
        value = self.row(w, micro, name)[lane]
        return (((value & f.get(f"{name}_and", 0)) ^ f.get(f"{name}_xor", 0)) + f.get(f"{name}_add", 0)) & M32

    def long(self, w: WarpState, micro: MicroOperation, name: str, lane: int) -> int:
        f = micro.fields
        high = self.row(w, micro, name, 1)[lane]
        high = (high & f.get(f"{name}_and", 0)) ^ f.get(f"{name}_xor", 0)
        return self.row(w, micro, name)[lane] | high << 32

    def predicate(self, w: WarpState, micro: MicroOperation, name: str) -> int:
        return w.predicates[micro.fields.get(name, record.PT)] ^ micro.fields.get(f"{name}_xor", 0)

    def set_predicate(self, w: WarpState, micro: MicroOperation, name: str, value: int, lanes: int) -> None:
        place = micro.fields.get(name, record.NO_PREDICATE)
        w.predicates[place] = w.predicates[place] & ~lanes | value & lanes

    def put(self, w: WarpState, offset: int, lane: int, value: int) -> None:
        w.rows[offset][lane] = value & M32

    # Execution

    def execute(self, w: WarpState, micro: MicroOperation) -> int:
        """Execute an instruction; what it leaves its warp with."""
        guard = self.predicate(w, micro, "guard")
        lanes = w.active & guard
        if micro.fields.get("uniform"):
            lanes = M32 if lanes else 0
        w.lanes = lanes
        w.pc += 1
        if micro.code < len(OPERATIONS):
            self._vector(w, micro, lanes)
            return GOES_ON
        return self._other(w, micro, lanes)

    def _vector(self, w: WarpState, micro: MicroOperation, lanes: int) -> None:
        operation = OPERATIONS[micro.code]
        i, j = micro.fields.get("i", 0), micro.fields.get("j", 0)
        p, q = self.predicate(w, micro, "p"), self.predicate(w, micro, "q")
        results, first, second = {}, 0, 0
        for lane in members(lanes):
            sources = [0, 0, 0]
            for n, (name, kind) in enumerate(zip("abc", operation.sources, strict=False)):
                sources[n] = (self.word if kind == "i" else self.long)(w, micro, name, lane)
            value, x, y = operation.meaning(*sources, bool(p >> lane & 1), bool(q >> lane & 1), i, j)
            results[lane] = value
            first |= int(x) << lane
            second |= int(y) << lane
        if operation.result in "id":
            for lane, value in results.items():
                self.put(w, micro.fields["dst"], lane, value)
                if operation.result == "d":
                    self.put(w, micro.fields["dst"] + record.ROW_BYTES, lane, value >> 32)
        self.set_predicate(w, micro, "pd", first, lanes)
        self.set_predicate(w, micro, "qd", second, lanes)

    def _other(self, w: WarpState, micro: MicroOperation, lanes: int) -> int:
        f, code = micro.fields, micro.code
        taken = lanes & self.predicate(w, micro, "p")
        if code == d.BRANCH:
            return self.branch(w, taken, f["i"])
        if code == d.EXIT:
            return self.leave(w, taken) if taken else GOES_ON
        if code == d.BARRIER and lanes:
            return self._arrive(w, micro, lanes)
        if code == d.BSSY:
            for lane in members(lanes):
                w.barriers[f["j"], lane] = lanes
        elif code == d.BSYNC and taken:
            return self._converge(w, f["j"], taken)
        elif code == d.BREAK and taken:
            wanted = w.barriers.get((f["j"], members(taken)[0]), 0)
            for lane in members(wanted):
                w.barriers[f["j"], lane] = wanted & ~taken
            self.settle(w)
        elif code == d.WARPSYNC and lanes:
            return self._synchronise(w, self.word(w, micro, "a", members(lanes)[0]) | lanes, lanes)
        elif code == d.YIELD:
            return self.rotate(w)
        elif code == d.BRANCH_SPLIT:
            counted = self.word(w, micro, "a", members(lanes)[0] if lanes else 0) & w.live
            together = w.active & counted == counted
            if lanes and together != bool(f.get("j")):
                w.pc = f["i"]
        elif code == d.JUMP and lanes:
            self._jump(w, micro, lanes)
        elif code in (d.LOAD, d.STORE, d.ATOMIC) and lanes:
            self._access(w, micro, lanes)
        elif code == d.KILL:
            raise Fault(record.LOST, 0)
        else:
            self._between_lanes(w, micro, lanes)
        return GOES_ON

    # Parts

    def resume(self, w: WarpState) -> int:
        for part in w.parts:
            if part.wait == READY:
                w.parts.remove(part)
                w.pc, w.active, w.patience = part.pc, part.mask, TURNS
                return GOES_ON
        w.active = 0
        if not w.parts:
            return EXITS
        waiting = 0
        for part in w.parts:
            waiting |= part.mask if part.wait == AT_BARRIER else 0
        if waiting == w.live:
            return ARRIVES
        stuck = members(w.live & ~waiting)[0]
        raise Fault(record.DIVERGED_BARRIER if waiting else record.DEADLOCK, stuck)

    def branch(self, w: WarpState, taken: int, target: int) -> int:
        here = w.pc - 1
        if taken == w.active:
            w.pc = target
        elif taken:
            w.parts.append(Part(target, taken, READY))
            w.active &= ~taken
        if taken and target <= here and w.parts:
            w.patience -= 1
            if w.patience <= 0 and any(p.wait == READY for p in w.parts):
                return self.rotate(w)
        return GOES_ON

    def rotate(self, w: WarpState) -> int:
        if not any(p.wait == READY for p in w.parts):
            return GOES_ON
        w.parts.append(Part(w.pc, w.active, READY))
        return self.resume(w)

    def leave(self, w: WarpState, lanes: int) -> int:
        w.live &= ~lanes
        w.active &= ~lanes
        self.settle(w)
        return GOES_ON if w.active else self.resume(w)

    def gather(self, w: WarpState, wait: int, wanted: int, here: int) -> bool:
        mine = [p for p in w.parts if p.wait == wait and p.mask & ~wanted == 0]
        arrived = here
        for part in mine:
            arrived |= part.mask
        if wanted & w.live & ~arrived:
            return False
        w.parts = [p for p in w.parts if p not in mine]
        return True

    def settle(self, w: WarpState) -> None:
        again = True
        while again:
            again = False
            for part in w.parts:
                if 0 <= part.wait < record.BARRIERS:
                    wanted = w.barriers.get((part.wait, members(part.mask)[0]), 0) & w.live
                elif part.wait >= record.AT_WARP_SYNC:
                    wanted = part.wait - record.AT_WARP_SYNC
                else:
                    continue
                if self.gather(w, part.wait, wanted, 0):
                    w.parts.append(Part(part.pc, wanted & w.live, READY))
                    again = True
                    break

    def _converge(self, w: WarpState, barrier: int, here: int) -> int:
        if here != w.active:
            w.parts.append(Part(w.pc, w.active & ~here, READY))
            w.active = here
        wanted = w.barriers.get((barrier, members(here)[0]), 0) & w.live | here
        if self.gather(w, barrier, wanted, here):
            w.active = wanted
            return GOES_ON
        w.parts.append(Part(w.pc, here, barrier))
        return self.resume(w)

    def _synchronise(self, w: WarpState, wanted: int, lanes: int) -> int:
        if self.gather(w, record.AT_WARP_SYNC + wanted, wanted, lanes):
            w.active = wanted & w.live
            return GOES_ON
        w.parts.append(Part(w.pc, lanes, record.AT_WARP_SYNC + wanted))
        return self.resume(w)

    def _arrive(self, w: WarpState, micro: MicroOperation, lanes: int) -> int:
        if micro.fields.get("i"):
            p = self.predicate(w, micro, "p")
            gathered = w.block.reduced + (p & lanes).bit_count()
            gathered |= (1 << 16 if p & lanes else 0) | (1 << 17 if lanes & ~p else 0)
            w.block.reduced = gathered & ~(3 << 20) | micro.fields["j"] << 20
        if lanes != w.active:
            w.parts.append(Part(w.pc, w.active & ~lanes, READY))
        w.parts.append(Part(w.pc, lanes, AT_BARRIER))
        return self.resume(w)

    def open_barrier(self, w: WarpState) -> None:
        if w.block.reduced:
            w.block.result, w.block.reduced = w.block.reduced, 0
        opened: dict[int, Part] = {}
        parts = []
        for part in w.parts:
            if part.wait == AT_BARRIER:
                if part.pc in opened:
                    opened[part.pc].mask |= part.mask
                    continue
                opened[part.pc] = part
                part.wait = READY
            parts.append(part)
        w.parts = parts
        self.resume(w)

    def _jump(self, w: WarpState, micro: MicroOperation, lanes: int) -> None:
        if lanes != w.active:
            w.parts.append(Part(w.pc, w.active & ~lanes, READY))
        groups: dict[int, int] = {}
        for lane in members(lanes):
            address = signed(self.row(w, micro, "a")[lane]) + micro.fields.get("offset", 0)
            target = (address >> 4) + micro.fields.get("i", 0)
            if address & 15 or not 0 <= target < len(self.code):
                raise Fault(record.BAD_TARGET, lane, address)
            groups[target] = groups.get(target, 0) | 1 << lane
        (w.pc, w.active), *others = groups.items()
        w.parts.extend(Part(pc, mask, READY) for pc, mask in others)

    # Memory

    def _addresses(self, w: WarpState, micro: MicroOperation) -> int:
        """The lanes' addresses; the space that they lie in."""
        f = micro.fields
        kind, space = f.get("j", 0), f["k"]
        uniform = self.row(w, micro, "b")[0] | self.row(w, micro, "b", 1)[0] << 32
        for lane in LANES:
            low, offset = self.row(w, micro, "a")[lane], f.get("offset", 0)
            if kind == 0:
                address = ((low << f.get("pd", 0)) + self.row(w, micro, "b")[lane] + offset) & M32
            elif kind == 1:
                address = (low | self.row(w, micro, "a", 1)[lane] << 32) + uniform + offset
            else:
                address = low + uniform + offset
            w.addresses[lane] = signed(address & M64, 64)
        if space != d.GENERIC:
            return int(space)
        if w.addresses[members(w.lanes)[0]] >> 32 != SHARED_WINDOW:
            return d.GLOBAL
        w.addresses = [a & M32 for a in w.addresses]
        return d.SHARED

    def _place(self, w: WarpState, space: int, lane: int, address: int, size: int) -> tuple[memoryview, int]:
        """The memory that an address lies in, and where in it."""
        if address & (size - 1):
            raise Fault(record.MISALIGNED, lane, address)
        if space == d.SHARED:
            at = address - self.launch.shared_first
            if at < 0 or at + size > self.launch.shared_bytes:
                raise Fault(record.OUT_OF_BOUNDS, lane, address)
            return memoryview(w.block.shared), at
        if space == d.LOCAL:
            if address < 0 or address + size > self.launch.local_bytes:
                raise Fault(record.OUT_OF_BOUNDS, lane, address)
            thread = w.number * 32 + lane
            return memoryview(w.block.local.setdefault(thread, bytearray(self.launch.local_bytes))), address
        for allocation in self.launch.allocations:
            if allocation.address <= address and address + size <= allocation.end:
                return memoryview(allocation.content), address - allocation.address
        raise Fault(record.OUT_OF_BOUNDS, lane, address)

    def _known(self, w: WarpState, lane: int, address: int, size: int, write: bool) -> None:
        if not self.launch.check_shared:
            return
        first = (address - self.launch.shared_first) >> 2
        words = range(first, first + (size + 3) // 4)
        if write:
            w.block.known.update(words)
        elif any(word not in w.block.known for word in words):
            raise Fault(record.UNINITIALISED, lane, address)

    def _access(self, w: WarpState, micro: MicroOperation, lanes: int) -> None:
        f, width = micro.fields, micro.fields["width"]
        space = self._addresses(w, micro)
        for lane in members(lanes):
            address = w.addresses[lane]
            memory, at = self._place(w, space, lane, address, width)
            if space == d.SHARED and micro.code != d.STORE:
                self._known(w, lane, address, width, False)
            if space == d.SHARED and micro.code != d.LOAD:
                self._known(w, lane, address, width, True)
            if micro.code == d.LOAD:
                content = bytes(memory[at : at + width])
                if width < 4:
                    self.put(w, f["dst"], lane, int.from_bytes(content, "little", signed=bool(f.get("i"))))
                for k in range(width // 4):
                    self.put(w, f["dst"] + k * record.ROW_BYTES, lane, struct.unpack_from("<I", content, 4 * k)[0])
            elif micro.code == d.STORE:
                words = [self.row(w, micro, "c", k)[lane] for k in range(max(1, width // 4))]
                content = b"".join(struct.pack("<I", word) for word in words)
                memory[at : at + width] = content[:width]
            else:
                self._update(w, micro, lane, memory, at)

    def _update(self, w: WarpState, micro: MicroOperation, lane: int, memory: memoryview, at: int) -> None:
        """An atomic of one lane."""
        f, width, operation = micro.fields, micro.fields["width"], micro.fields["i"]
        old = int.from_bytes(memory[at : at + width], "little")

        def value_of(offset: int, register: int) -> int:
            rows = [w.rows[offset + k * 128] if register else self.constants[offset + k] for k in range(width // 4)]
            return sum(row[lane] << 32 * k for k, row in enumerate(rows))

        value = value_of(f["c"], f["c_reg"]) if "c" in f else 0
        compared = value
        if operation in (d.SWAP, d.SPIN):
            value = value_of(f["q"], f["q_xor"])
        new = old + 1 if operation == d.COUNT else combined(operation, f["p"], old, value, compared)
        memory[at : at + width] = (new & ((1 << 8 * width) - 1)).to_bytes(width, "little")
        if operation == d.SPIN:
            self.put(w, f["dst"], lane, int(old == compared))
            return
        for k in range(width // 4):
            self.put(w, f["dst"] + k * record.ROW_BYTES, lane, old >> 32 * k)

    # Between lanes, and special registers

    def _between_lanes(self, w: WarpState, micro: MicroOperation, lanes: int) -> None:
        f, code = micro.fields, micro.code
        if code == d.SPECIAL:
            for lane in members(lanes):
                value = special(w, self.launch, f["i"], lane)
                self.put(w, f["dst"], lane, value)
                if f["width"] == 8:
                    self.put(w, f["dst"] + record.ROW_BYTES, lane, w.clock >> 32 if f["i"] == 7 else 0)
        elif code == d.SHUFFLE:
            self._shuffle(w, micro, lanes)
        elif code == d.VOTE:
            here = w.active if f.get("uniform") else lanes
            holds = self.predicate(w, micro, "p") & here
            truth = (holds != 0, holds == here, holds in (0, here))[f["i"]]
            for lane in members(lanes):
                self.put(w, f["dst"], lane, holds)
            self.set_predicate(w, micro, "pd", M32 if truth else 0, lanes)
        elif code == d.MATCH:
            self._match(w, micro, lanes)
        elif code == d.REDUCE:
            first, *rest = members(w.active)
            total = self.word(w, micro, "a", first)
            for lane in rest:
                total = combined(f["i"], f["j"], total, self.word(w, micro, "a", lane), 0) & M32
            for lane in LANES:
                self.put(w, f["dst"], lane, total)
        elif code == d.LOAD_CONSTANT:
            self._load_constant(w, micro, lanes)
        elif code == d.PLOP3:
            p, q = self.predicate(w, micro, "p"), self.predicate(w, micro, "q")
            r = w.predicates[f["width"]] ^ f["offset"]
            for name, table in (("pd", f["i"]), ("qd", f["j"])):
                value = 0
                for lane in LANES:
                    k = (p >> lane & 1) << 2 | (q >> lane & 1) << 1 | r >> lane & 1
                    value |= (table >> k & 1) << lane
                self.set_predicate(w, micro, name, value, lanes)
        elif code in (d.R2P, d.P2R):
            self._packed_predicates(w, micro, lanes)
        elif code == d.BARRIER_RESULT:
            gathered = w.block.result
            kind, truth = gathered >> 20 & 3, gathered & 0xFFFF
            if kind:
                truth = M32 if (gathered >> 16 & 1 if kind == 2 else not gathered >> 17 & 1) else 0
            for lane in members(lanes):
                self.put(w, f["dst"], lane, truth)
            self.set_predicate(w, micro, "pd", M32 if truth else 0, lanes)
        elif code == d.BMOV_OUT:
            for lane in members(lanes):
                self.put(w, f["dst"], lane, w.barriers.get((f["j"], lane), 0))
                if f.get("i"):
                    w.barriers[f["j"], lane] = 0
        elif code == d.BMOV_IN:
            for lane in members(lanes):
                w.barriers[f["j"], lane] = self.word(w, micro, "a", lane)

    def _shuffle(self, w: WarpState, micro: MicroOperation, lanes: int) -> None:
        held, inside = list(self.row(w, micro, "a")), 0
        for lane in members(lanes):
            b, c = self.word(w, micro, "b", lane) & 31, self.word(w, micro, "c", lane)
            segment, clamp = c >> 8 & 31, c & 31
            low = lane & segment
            high = low | clamp & ~segment
            j = (low | b & ~segment, lane - b, lane + b, lane ^ b)[micro.fields["i"]]
            fine = j >= high if micro.fields["i"] == 1 else j <= high
            inside |= int(fine) << lane
            self.put(w, micro.fields["dst"], lane, held[(j if fine else lane) & 31])
        self.set_predicate(w, micro, "pd", inside, lanes)

    def _match(self, w: WarpState, micro: MicroOperation, lanes: int) -> None:
        f = micro.fields
        held = [
            self.row(w, micro, "a")[lane] | (self.row(w, micro, "a", 1)[lane] << 32 if f["j"] else 0) for lane in LANES
        ]
        same = {
            lane: sum(1 << o for o in members(lanes) if held[o] == held[lane]) for lane in members(lanes)
        }
        everyone = all(mask == lanes for mask in same.values())
        for lane, mask in same.items():
            self.put(w, f["dst"], lane, (lanes if everyone else 0) if f["i"] else mask)
        if f["i"]:
            self.set_predicate(w, micro, "pd", M32 if everyone else 0, lanes)

    def _load_constant(self, w: WarpState, micro: MicroOperation, lanes: int) -> None:
        f, width = micro.fields, micro.fields["width"]
        bank = self.launch.banks.get(f["i"], b"")
        for lane in members(lanes):
            address = (self.row(w, micro, "a")[lane] + f["offset"]) & M32
            if address & (min(width, 4) - 1):
                raise Fault(record.MISALIGNED, lane, address)
            if address + width > len(bank):
                raise Fault(record.OUT_OF_BOUNDS, lane, address)
            value = int.from_bytes(bank[address : address + width], "little", signed=width < 4 and bool(f["j"]))
            for k in range(max(1, width // 4)):
                self.put(w, f["dst"] + k * record.ROW_BYTES, lane, value >> 32 * k)

    def _packed_predicates(self, w: WarpState, micro: MicroOperation, lanes: int) -> None:
        for lane in members(lanes):
            which = self.word(w, micro, "b", lane)
            if micro.code == d.R2P:
                value = self.word(w, micro, "a", lane)
                for p in range(7):
                    if which >> p & 1:
                        w.predicates[p] = w.predicates[p] & ~(1 << lane) | (value >> p & 1) << lane
            else:
                value = sum((w.predicates[p] >> lane & 1) << p for p in range(7))
                kept = self.word(w, micro, "a", lane) & ~which
                self.put(w, micro.fields["dst"], lane, kept | value & which)


def combined(operation: int, kind: int, old: int, value: int, compared: int) -> int:
    """What an atomic leaves in memory."""
    if operation == d.ADD and kind == d.FLOAT32:
        return bits32(f32(old) + f32(value))
    if operation == d.ADD and kind == d.FLOAT64:
        return bits64(f64(old) + f64(value))

    def ordered(x: int) -> int:
        return signed(x) if kind == d.S32 else signed(x, 64) if kind == d.S64 else x

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


def special(w: WarpState, launch: MachineLaunch, number: int, lane: int) -> int:
    """A special register, by its number in `decode.SPECIALS`."""
    thread, (x, y, _) = w.number * 32 + lane, launch.block
    values = {
        0: thread % x, 1: thread // x % y, 2: thread // (x * y),
        3: w.block.place[0], 4: w.block.place[1], 5: w.block.place[2], 6: lane,
        7: w.clock, 8: w.clock >> 32, 9: w.sm,
        10: (1 << lane) - 1, 11: (2 << lane) - 1, 12: M32 & ~((2 << lane) - 1), 13: M32 & ~((1 << lane) - 1),
        14: 1 << lane, 17: x, 18: w.number, 19: w.clock, 22: launch.shared_bytes, 23: w.number, 24: SHARED_WINDOW,
    }  # fmt: skip
    return values.get(number, 0)


def bank_passes(micro: MicroOperation, w: WarpState) -> int:
    """Passes over the banks; see `execute.bank_passes`."""
    if not w.lanes:
        return 1
    merges = micro.code != d.ATOMIC or micro.fields["i"] == d.COUNT
    words = max(1, micro.fields["width"] // 4)
    share, total = 32 // words, 0
    for part in range(words):
        asked: dict[int, list[int]] = defaultdict(list)
        for lane in members(w.lanes & (M32 >> (32 - share)) << part * share):
            first = w.addresses[lane] >> 2
            for word in range(first, first + words):
                asked[word & 31].append(word)
        total += max((len(set(a)) if merges else len(a) for a in asked.values()), default=0)
    return max(1, total)

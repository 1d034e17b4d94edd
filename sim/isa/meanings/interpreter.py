"""Machine code in plain Python, lane by lane: the reference meaning of everything that `execute` does.

A warp that has diverged is a list of parts, each with its own place in the code; one runs at a time.
Registers are lists of 32 words, by the byte offset that the micro-operations name them with.
"""

from __future__ import annotations

import numpy as np

from smlab.hw_bench.errors import SmlabError
from smlab.sim.execution.recording import Recording
from smlab.sim.instruction_source import BLOCK_BARRIERS, EXITS, FAULTS, GOES_ON, BulkRequest
from smlab.sim.isa import memory_layout
from smlab.sim.isa import operation_codes as d
from smlab.sim.isa.decode.micro import MicroOperation
from smlab.sim.isa.launch.faults import fault_error
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.sim.isa.meanings.divergent_paths import DivergentPaths
from smlab.sim.isa.meanings.lane_exchange import WarpExchange
from smlab.sim.isa.meanings.memory import bank_wavefronts
from smlab.sim.isa.meanings.products.tensor_memory import WarpTensorMemory
from smlab.sim.isa.meanings.vector_meanings import OPERATIONS
from smlab.sim.isa.meanings.warp_state import (
    BlockState,
    Fault,
    WarpState,
    members,
)
from smlab.sim.isa.operation_codes import LOCAL_AT, LOCAL_PAD
from smlab.sim.isa.vector_operation import M32


class Interpreter(DivergentPaths, WarpExchange, WarpTensorMemory):
    """The reference's source of machine code; see `smlab.sim.instruction_source.ReferenceSource`."""

    def __init__(
        self,
        launch: MachineLaunch,
        blocks: np.ndarray | None = None,
        recording: Recording | None = None,
    ) -> None:
        super().__init__(launch)
        self.recording = recording
        self.grid_index = blocks
        self.executed = np.zeros(len(self.code), dtype=np.int64)
        self.lanes = np.zeros(len(self.code), dtype=np.int64)
        self.warps: dict[tuple[int, int], WarpState] = {}
        self.blocks: dict[int, BlockState] = {}
        self.rooms: dict[int, BlockState] = {}

    # What the engine asks

    def start(self, sm: int, slot: int, block: int, place: int, room: int) -> None:
        if place == 0:
            index = block if self.grid_index is None else int(self.grid_index[block])
            x, y, _ = self.launch.grid
            where = index % x, index // x % y, index // (x * y)
            shared = bytearray(max(self.launch.shared_room, 8))
            rank = block % self.launch.cluster_blocks
            state = BlockState(index, where, shared, {}, room=room, number=block, rank=rank)
            state.known.update(range(self.launch.system_shared_bytes // 4))
            self.blocks[room] = self.rooms[block] = state
        count = min(32, self.launch.threads - 32 * place)
        mask = (1 << count) - 1
        self.warps[sm, slot] = WarpState(self.blocks[room], place, sm, mask, mask)

    def next(self, sm: int, slot: int, now: int) -> tuple[int, int, int, list[int]]:
        w = self.warps[sm, slot]
        w.clock, w.last_pc = now, w.pc
        try:
            micro = self._fetched(w)
            state = self.execute(w, micro)
        except Fault as fault:
            w.fault = fault
            return FAULTS, w.lanes, 1, []
        self.executed[w.last_pc] += 1
        self.lanes[w.last_pc] += w.lanes.bit_count()
        passes, addresses = 1, []
        asked: list[int] | None = None
        if micro.code in (d.LOAD, d.STORE, d.ATOMIC, d.COPY, d.LOAD_MATRIX, d.STORE_MATRIX):
            space = micro.fields.get("space", 0)
            addresses = [w.addresses[lane] for lane in members(w.lanes)]
            asked = (
                list(w.addresses) if w.lanes and micro.code not in (d.LOAD_MATRIX, d.STORE_MATRIX) else None
            )
            if space == d.SHARED:
                passes = bank_wavefronts(micro, w)
            elif micro.code == d.COPY:
                passes = w.passes
            elif space == d.LOCAL:
                addresses = self._placed_local(micro, w)
        elif micro.code in (d.MATCH, d.LOAD_CONSTANT, d.TENSOR_PRODUCT, d.TENSOR_COPY):
            passes = w.passes
            if micro.code == d.LOAD_CONSTANT:
                addresses = [w.addresses[lane] for lane in members(w.lanes)]
        if self.recording is not None:
            number = w.block.index * self.launch.warps_per_block + w.number
            self.recording.add(number, w.last_pc, w.lanes, asked)
        return state, w.lanes, passes, addresses

    def _fetched(self, w: WarpState) -> MicroOperation:
        if not 0 <= w.pc < len(self.code):
            raise Fault(memory_layout.BAD_TARGET, 0, w.pc * 16)
        return self.code[w.pc]

    def opened(self, sm: int, slot: int) -> None:
        self.open_barrier(self.warps[sm, slot])

    def barrier(self, sm: int, slot: int) -> tuple[int, int]:
        expected, number = divmod(self.warps[sm, slot].barrier, BLOCK_BARRIERS)
        return number, expected

    def pc(self, sm: int, slot: int) -> int:
        return self.warps[sm, slot].pc

    def complete_at(self, sm: int, slot: int) -> int:
        return self.warps[sm, slot].complete_at

    def bulk_request(self, sm: int, slot: int) -> BulkRequest:
        return self.warps[sm, slot].bulk_request

    def stuck_at(self, sm: int, slot: int) -> SmlabError:
        w = self.warps[sm, slot]
        return fault_error(
            self.launch,
            memory_layout.NEVER_OPENS,
            w.last_pc,
            w.block.index,
            w.number,
            members(w.live)[0],
            w.barrier,
        )

    def fault(self, sm: int, slot: int) -> SmlabError:
        w = self.warps[sm, slot]
        assert w.fault is not None
        return fault_error(
            self.launch, w.fault.kind, w.last_pc, w.block.index, w.number, w.fault.lane, w.fault.address
        )

    def _placed_local(self, micro: MicroOperation, w: WarpState) -> list[int]:
        width = micro.fields["width_bytes"]
        number = w.block.room * self.launch.warps_per_block + w.number
        base = LOCAL_AT + number * (self.launch.local_bytes * 32 + LOCAL_PAD)
        return [
            base + (w.addresses[lane] & ~(width - 1)) * 32 + lane * max(width, 4) for lane in members(w.lanes)
        ]

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
        operation, f = OPERATIONS[micro.code], micro.fields
        places = members(lanes)
        columns = [self._column(w, micro, name, operation.sources, places) for name in operation.reads]
        results, first, second = [], 0, 0
        for lane, (value, x, y) in zip(places, map(operation.meaning, *columns), strict=True):
            results.append(value)
            first |= x << lane
            second |= y << lane
        if operation.result in "id":
            low = w.rows[f["dst"]]
            for lane, value in zip(places, results, strict=True):
                low[lane] = value & M32
        if operation.result == "d":
            high = w.rows[f["dst"] + memory_layout.ROW_BYTES]
            for lane, value in zip(places, results, strict=True):
                high[lane] = value >> 32 & M32
        self.set_predicate(w, micro, "predicate_dst", first, lanes)
        self.set_predicate(w, micro, "predicate_dst_b", second, lanes)

    def _column(
        self, w: WarpState, micro: MicroOperation, name: str, sources: str, places: list[int]
    ) -> list[int] | list[bool]:
        """A field that a meaning reads, for each of these lanes."""
        if name in ("a", "b", "c"):
            kind = sources["abc".index(name)]
            return (self.words if kind == "i" else self.longs)(w, micro, name, places)
        if name in ("predicate_a", "predicate_b"):
            mask = self.predicate(w, micro, name)
            return [bool(mask >> lane & 1) for lane in places]
        return [micro.fields.get(name, 0)] * len(places)

    def _other(self, w: WarpState, micro: MicroOperation, lanes: int) -> int:
        f, code = micro.fields, micro.code
        taken = lanes & self.predicate(w, micro, "predicate_a")
        if code == d.BRANCH:
            agreed = taken == w.active or not f["unanimous"]
            return self.branch(w, taken if agreed else 0, f["target"])
        if code == d.EXIT:
            state = self.leave(w, taken) if taken else GOES_ON
            if state == EXITS:
                self.exit_in_cluster(w)
                if self.keeps_columns(w.block):
                    raise Fault(memory_layout.COLUMNS_KEPT, 0)
            return state
        if code == d.BARRIER and lanes:
            return self._arrive(w, micro, lanes)
        if code == d.BSSY:
            for lane in members(lanes):
                w.barriers[f["barrier"], lane] = lanes
        elif code == d.BSYNC and taken:
            return self._converge(w, f["barrier"], taken)
        elif code == d.BREAK and taken:
            wanted = w.barriers.get((f["barrier"], members(taken)[0]), 0)
            for lane in members(wanted):
                w.barriers[f["barrier"], lane] = wanted & ~taken
            self.settle(w)
        elif code == d.WARPSYNC and lanes:
            masks = [self.word(w, micro, "a", lane) for lane in range(32)]
            return self._synchronise(w, masks, f.get("exclusive", 0), lanes)
        elif code == d.YIELD:
            return self.rotate(w)
        elif code == d.BRANCH_SPLIT:
            counted = self.word(w, micro, "a", members(w.active)[0]) & w.live
            complete = lanes & counted == counted
            if complete != bool(f["when_split"]):
                w.pc = f["target"]
        elif code == d.JUMP and taken:
            self._jump(w, micro, taken)
        elif code == d.COPY and lanes:
            self._copy(w, micro, lanes)
        elif code in (d.LOAD, d.STORE, d.ATOMIC) and lanes:
            self._access(w, micro, lanes)
        elif code == d.MMA:
            self._multiply(w, micro, lanes)
        elif code == d.MMA_SCALED:
            self._multiply_scaled(w, micro, lanes)
        elif code == d.MMA_QUADS:
            self._multiply_quads(w, micro, lanes)
        elif code in (d.MMA_GROUP, d.EMPTY_GROUP) and lanes:
            if code == d.MMA_GROUP:
                self._multiply_in_group(w, micro)
            w.block.products_closed[w.number] += f["closes_products"]
            w.block.failed_checks = 0
        elif code == d.AWAIT_PRODUCTS and lanes:
            return self._await_products(w)
        elif code == d.MEMORY_BARRIER and lanes:
            return self._use_barrier(w, micro, lanes)
        elif code == d.CLUSTER_ARRIVE and lanes:
            self.arrive_in_cluster(w)
        elif code == d.CLUSTER_WAIT and lanes:
            return self.await_cluster(w)
        elif code == d.BULK_COPY and lanes:
            self._copy_in_bulk(w, micro)
        elif code == d.ELECT and lanes:
            self._elect(w, micro, lanes)
        elif code == d.READ_CHOSEN and lanes:
            self._read_chosen(w, micro)
        elif code == d.BRANCH_ANY and lanes:
            w.pc = f["target"]
        elif code == d.TRANSPOSE:
            self._transpose(w, micro, lanes)
        elif code == d.LOAD_MATRIX and lanes:
            self._load_matrices(w, micro, lanes)
        elif code == d.STORE_MATRIX and lanes:
            self._store_matrices(w, micro, lanes)
        elif code == d.TENSOR_PRODUCT and lanes:
            self._multiply_in_memory(w, micro)
        elif code == d.TENSOR_COPY and lanes:
            self._copy_to_memory(w, micro)
        elif code == d.TENSOR_COMMIT and lanes:
            self._commit(w, micro)
        elif code in (d.TENSOR_LOAD, d.TENSOR_STORE) and lanes:
            self._move(w, micro, lanes)
        elif code == d.TENSOR_ALLOCATE and lanes:
            self._allocate(w, micro, lanes)
        elif code == d.KILL:
            raise Fault(memory_layout.LOST, 0)
        else:
            self._between_lanes(w, micro, lanes)
        return GOES_ON

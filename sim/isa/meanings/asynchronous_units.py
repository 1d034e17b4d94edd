"""Barriers in shared memory and copies of the copy engine, in plain Python; the modules `memory_barriers` and
`bulk_copies` of `smlab.sim.isa.asynchronous` are the same in machine code.

A barrier is a word of 64 bits, as compiled code sets it: from bit 1 on 20 bits with the arrivals of a phase,
counted down from 2^20; from bit 22 on 21 bits with the bytes that are to come, less those that came; from bit
43 on 20 bits with the arrivals that lack, counted as the first; in bit 63 the phase. A phase is complete when
no arrival and no byte lacks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from smlab.sim.instruction_source import AWAITS, GOES_ON, BulkRequest, CopyOnItsWay
from smlab.sim.isa import memory_layout
from smlab.sim.isa import operation_codes as d
from smlab.sim.isa.decode.micro import MicroOperation
from smlab.sim.isa.launch.tensor_map import (
    MAP_BYTES,
    NOT_REDUCED,
    NUMBER_TYPES,
    TensorMapWords,
    unpack_map,
)
from smlab.sim.isa.meanings.memory import BLOCK_ADDRESS, WarpMemory, arrived, combined
from smlab.sim.isa.meanings.warp_state import Fault, WarpState, members
from smlab.sim.isa.vector_operation import signed

_M20, _M21 = (1 << 20) - 1, (1 << 21) - 1
PIECE_BYTES = 16
_ELEMENT_BYTES = {
    **dict.fromkeys((d.U32, d.S32, d.FLOAT32), 4),
    **dict.fromkeys((d.U64, d.S64, d.FLOAT64), 8),
    **dict.fromkeys((d.HALF_PAIR, d.BFLOAT16_PAIR), 2),
}


@dataclass
class MemoryBarrier:
    """A barrier's word, taken apart."""

    phase: int
    lacking: int
    awaited_bytes: int
    expected: int

    @classmethod
    def of(cls, word: int) -> MemoryBarrier:
        awaited_bytes = word >> 22 & _M21
        awaited_bytes -= (awaited_bytes >> 20) << 21
        return cls(word >> 63, -(word >> 43) & _M20, awaited_bytes, -(word >> 1) & _M20)

    def word(self) -> int:
        return (
            self.phase << 63
            | (-self.lacking & _M20) << 43
            | (self.awaited_bytes & _M21) << 22
            | (-self.expected & _M20) << 1
        )

    def change(self, arrivals: int, awaited_bytes: int, drops: int) -> bool:
        """Arrivals and bytes; False if more have come than the barrier expects."""
        self.awaited_bytes += awaited_bytes
        self.lacking -= arrivals
        self.expected -= drops
        if self.lacking < 0 or self.expected < 0:
            return False
        if self.lacking == 0 and self.awaited_bytes == 0:
            self.phase ^= 1
            self.lacking = self.expected
        return True


class AsynchronousUnits(WarpMemory):
    """Barriers in memory and copies, for the warps of a launch."""

    def _barrier_word(self, w: WarpState, address: int, lane: int) -> tuple[memoryview, int, int]:
        memory, at = self._place(w, d.SHARED, lane, address, 8)
        return memory, at, int.from_bytes(memory[at : at + 8], "little")

    def _change_barrier(self, w: WarpState, address: int, lane: int, counts: tuple[int, int, int]) -> int:
        """Arrivals, bytes and drops at a barrier; its word before."""
        memory, at, before = self._barrier_word(w, address, lane)
        barrier = MemoryBarrier.of(before)
        if not barrier.change(*counts):
            raise Fault(memory_layout.TOO_MANY_ARRIVALS, lane, address)
        memory[at : at + 8] = barrier.word().to_bytes(8, "little")
        w.block.failed_checks = 0
        return before

    def _settle_copies(self, w: WarpState) -> None:
        """The copies of the block that are done by now tell their barriers."""
        copies = w.block.copies
        w.block.copies = [copy for copy in copies if copy.done is None or copy.done > w.clock]
        for copy in copies:
            if copy.done is not None and copy.done <= w.clock:
                if copy.in_halves:
                    memory, at, word = self._barrier_word(w, copy.barrier, 0)
                    for _ in range(copy.arrivals):
                        word = arrived(word)
                    memory[at : at + 8] = word.to_bytes(8, "little")
                else:
                    self._change_barrier(w, copy.barrier, 0, (copy.arrivals, -copy.size, 0))

    def _use_barrier(self, w: WarpState, micro: MicroOperation, lanes: int) -> int:
        f, which = micro.fields, members(lanes)
        self._settle_copies(w)
        if f["action"] == d.GIVE_BARRIER_UP:
            return GOES_ON
        self._addresses(w, micro)
        if f["action"] == d.ARRIVE_AFTER_COPIES:
            self._arrive_after_copies(w, micro, which)
            return GOES_ON
        values = self.row(w, micro, "c")
        if f["action"] == d.SET_BARRIER:
            lane = which[0]
            memory, at, _ = self._barrier_word(w, w.addresses[lane], lane)
            word = values[lane] | self.row(w, micro, "c", 1)[lane] << 32
            memory[at : at + 8] = word.to_bytes(8, "little")
            self._write_known(w, w.addresses[lane], 8)
            w.block.failed_checks = 0
            return GOES_ON
        if f["action"] == d.ARRIVE_AT_BARRIER:
            for lane in which:
                arrivals = (0, 1, values[lane] & _M20)[f["arrivals"]]
                size = (0, 1, values[lane] & _M20, -(values[lane] & _M20))[f["transactions"]]
                if f.get("remote") and self.owner_of(w, w.addresses[lane]) is not w.block:
                    self._arrive_remote(w, lane, arrivals, size)
                    continue
                counts = (arrivals, size, f["drops"])
                token = self._change_barrier(w, w.addresses[lane], lane, counts)
                self.put(w, f["dst"], lane, token)
                self.put(w, f["dst"] + memory_layout.ROW_BYTES, lane, token >> 32)
            return GOES_ON
        complete, w.complete_at = 0, 0
        for lane in which:
            word = self._barrier_word(w, w.addresses[lane], lane)[2]
            done = word >> 63 ^ values[lane] >> 31 & 1
            if not done and complete == lanes & (1 << lane) - 1:  # the first that is not
                w.complete_at = self._complete_at(w, w.addresses[lane], MemoryBarrier.of(word))
            complete |= done << lane
        self.set_predicate(w, micro, "phase_predicate", complete, lanes)
        if complete == lanes:
            return GOES_ON
        w.block.failed_checks += 1
        if w.block.failed_checks > self.launch.most_checks:
            lane = members(lanes & ~complete)[0]
            word = self._barrier_word(w, w.addresses[lane], lane)[2]
            raise Fault(memory_layout.NEVER_COMPLETES, lane, told_barrier(w.addresses[lane], word))
        return AWAITS

    def _complete_at(self, w: WarpState, address: int, barrier: MemoryBarrier) -> int:
        """When the phase of a barrier will be complete: where what is on its way to it, and when each of that
        is there, is known, and is all that it lacks; else 0."""
        block = self.owner_of(w, address)
        copies = [c for c in block.copies if c.barrier == address] if block is not None else []
        known = [copy for copy in copies if copy.done is not None]
        arrivals, size = sum(copy.arrivals for copy in known), sum(copy.size for copy in known)
        if (arrivals, size) != (barrier.lacking, barrier.awaited_bytes):
            return 0
        return max((copy.done for copy in known if copy.done is not None), default=0)

    def _arrive_after_copies(self, w: WarpState, micro: MicroOperation, which: list[int]) -> None:
        """Lanes arrive when the warp's copies are back, which the engine says."""
        w.bulk_request = BulkRequest()
        told: dict[int, CopyOnItsWay] = {}
        for lane in which:
            address = w.addresses[lane]
            self._barrier_word(w, address, lane)
            if address not in told:
                told[address] = CopyOnItsWay(address, 0, in_halves=bool(micro.fields.get("in_halves")))
                self._note_copy(w, told[address])
            told[address].arrivals += micro.fields.get("arrivals", 0)
            told[address].size += micro.fields.get("transactions", 0)
        w.bulk_request.copies.extend(told.values())

    def _arrive_remote(self, w: WarpState, lane: int, arrivals: int, size: int) -> None:
        """A lane arrives at a barrier of another block of the cluster, or tells it of bytes that are to come,
        where that is known later; one whose block has retired is nobody's any more."""
        address = w.addresses[lane]
        block = self.owner_of(w, address)
        if block is None and address >> 24 < self.launch.cluster_blocks:
            return
        self._place(w, d.SHARED, lane, address, 8)
        there = w.clock + self.launch.network_cycles
        for copy in block.copies if block is not None else ():  # those that arrive together are one message
            if copy.arrivals and (copy.barrier, copy.done) == (address, there):
                copy.arrivals += arrivals
                copy.size -= size
                return
        if arrivals or size:
            self._note_copy(w, CopyOnItsWay(address, -size, there, arrivals))

    def _note_copy(self, w: WarpState, copy: CopyOnItsWay) -> None:
        block = self.owner_of(w, copy.barrier)
        assert block is not None
        if len(block.copies) == memory_layout.MAX_COPIES:
            raise Fault(memory_layout.TOO_MANY_COPIES, 0)
        block.copies.append(copy)

    def _copy_in_bulk(self, w: WarpState, micro: MicroOperation) -> None:
        """A copy between global and shared memory; to shared memory, its barrier is told when it is done. To
        several blocks of a cluster it goes to the same places of each, and tells each one's barrier."""
        shared, barrier = (self.row(w, micro, "a", number)[0] for number in (0, 1))
        w.bulk_request = BulkRequest()
        if not micro.fields.get("multicast"):
            self._copy_to_or_from(w, micro, shared, barrier)
            return
        mask = self.row(w, micro, "c")[0] >> 16
        for rank in range(16):
            if mask >> rank & 1:
                w.bulk_request.runs.clear()
                to, told = (place & BLOCK_ADDRESS | rank << 24 for place in (shared, barrier))
                self._copy_to_or_from(w, micro, to, told)

    def _copy_to_or_from(self, w: WarpState, micro: MicroOperation, shared: int, barrier: int) -> None:
        """A copy between global memory and one block's shared memory."""
        f = micro.fields
        to_global = bool(f["to_global"])
        far = self.row(w, micro, "b")[0] | self.row(w, micro, "b", 1)[0] << 32
        if f["dimensions"] == 0:
            size = (self.row(w, micro, "c")[0] & 0xFFFF) * PIECE_BYTES
            each = _ELEMENT_BYTES[f["number_type"]] if f.get("is_reduction") else PIECE_BYTES
            if f.get("to_l2") and size:
                w.bulk_request.add_run(far, far + size)
                return
            for at in range(0, size, PIECE_BYTES):
                elements = list(range(far + at, far + at + PIECE_BYTES, each))
                self._copy_piece(w, micro, shared + at, elements, each, f.get("number_type", 0))
        else:
            memory, at = self._place(w, d.GLOBAL, 0, far, MAP_BYTES // 2)
            self._place(w, d.GLOBAL, 0, far + MAP_BYTES // 2, MAP_BYTES // 2)
            shape = unpack_map(bytes(memory[at : at + MAP_BYTES]))
            if shape is None or shape.dimensions != f["dimensions"]:
                raise Fault(memory_layout.NO_TENSOR_MAP, 0, far)
            if f.get("is_reduction") and NUMBER_TYPES[shape.element_type] == NOT_REDUCED:
                raise Fault(memory_layout.NO_TENSOR_MAP, 0, far)
            first = 0 if f.get("to_l2") else 1 if to_global else 2
            count = 1 + f["named_rows"] if f.get("named_rows") else shape.dimensions
            begin = [signed(self.row(w, micro, "a", first + n)[0]) for n in range(count)]
            size = self._copy_box(w, micro, shape, begin, None if f.get("to_l2") else shared)
        if not to_global and not f.get("to_l2"):
            self._end_copy(w, barrier, 0, size)

    def _copy_box(
        self,
        w: WarpState,
        micro: MicroOperation,
        shape: TensorMapWords,
        begin: list[int],
        shared: int | None,
    ) -> int:
        """A box of a tensor; its bytes, with those outside of the tensor, which are zeros. Without a place in
        shared memory it is asked for only."""
        each = PIECE_BYTES // shape.element_bytes
        at = 0
        lines = [[row] for row in begin[1:]]
        if not micro.fields.get("named_rows"):
            boxed = product(*(range(n) for n in reversed(shape.box[1:])))
            lines = [[b + n for b, n in zip(begin[1:], reversed(one), strict=True)] for one in boxed]
        for places in lines:
            inside = all(0 <= p < size for p, size in zip(places, shape.shape[1:], strict=True))
            row = shape.base + sum(p * stride for p, stride in zip(places, shape.strides, strict=True))
            for n in range(0, shape.box[0], each):
                columns = range(begin[0] + n, begin[0] + n + each)
                far = [
                    row + column * shape.element_bytes if inside and 0 <= column < shape.shape[0] else None
                    for column in columns
                ]
                if shared is None:
                    for address in far:
                        if address is not None:
                            w.bulk_request.add_run(address, address + shape.element_bytes)
                else:
                    place = shared + at
                    place ^= place >> 3 & shape.span_bytes - PIECE_BYTES
                    kind = NUMBER_TYPES[shape.element_type]
                    self._copy_piece(w, micro, place, far, shape.element_bytes, kind)
                at += PIECE_BYTES
        return at

    def _copy_piece(
        self,
        w: WarpState,
        micro: MicroOperation,
        shared: int,
        far: Sequence[int | None],
        each: int,
        kind: int,
    ) -> None:
        """16 bytes of shared memory, and where their elements lie in global memory, if anywhere; ``kind`` is
        their type in a reduction."""
        to_global, reduces = micro.fields["to_global"], micro.fields.get("is_reduction")
        memory, at = self._place(w, d.SHARED, 0, shared, PIECE_BYTES)
        if not to_global:
            self._write_known(w, shared, PIECE_BYTES)
        for n, address in enumerate(far):
            here = at + n * each
            if address is None:
                if not to_global:
                    memory[here : here + each] = bytes(each)
                continue
            w.bulk_request.add_run(address, address + each)
            other, there = self._place(w, d.GLOBAL, 0, address, each)
            if reduces:
                old, value = (
                    int.from_bytes(m[p : p + each], "little") for m, p in ((other, there), (memory, here))
                )
                new = combined(micro.fields["operation"], kind, old, value, 0)
                other[there : there + each] = (new & (1 << 8 * each) - 1).to_bytes(each, "little")
            elif to_global:
                other[there : there + each] = memory[here : here + each]
            else:
                memory[here : here + each] = other[there : there + each]

    def _end_copy(self, w: WarpState, barrier: int, arrivals: int, size: int) -> None:
        """The barrier is told of so many arrivals and bytes when they are there, which the engine says."""
        self._barrier_word(w, barrier, 0)
        copy = CopyOnItsWay(barrier, size, arrivals=arrivals)
        self._note_copy(w, copy)
        w.bulk_request.copies.append(copy)

    def _complete_cluster_phase(self, w: WarpState) -> None:
        """All warps of the block have come to the cluster's barrier, if they have."""
        block = w.block
        if block.cluster_arrived + block.cluster_exited == self.launch.warps_per_block:
            block.cluster_arrived = block.failed_checks = 0
            block.cluster_phase += 1
            block.cluster_time = w.clock

    def arrive_in_cluster(self, w: WarpState) -> None:
        """A warp comes to the barrier of its cluster."""
        if w.active != w.live:
            raise Fault(memory_layout.DIVERGED_BARRIER, members(w.active)[0])
        w.cluster_count += 1
        w.block.cluster_arrived += 1
        self._complete_cluster_phase(w)

    def exit_in_cluster(self, w: WarpState) -> None:
        """A warp has exited: nobody waits for it at the barrier of its cluster."""
        w.block.cluster_exited += 1
        if w.block.cluster_arrived:
            self._complete_cluster_phase(w)

    def await_cluster(self, w: WarpState) -> int:
        """Whether all warps of the cluster have come as often as this one, and this block knows it."""
        for rank in range(self.launch.cluster_blocks):
            block = self.block_of_rank(w, rank)
            if block is None or block.cluster_exited == self.launch.warps_per_block:
                continue
            if block.cluster_phase > w.cluster_count:
                continue
            known = block.cluster_time + self.launch.cluster_barrier_cycles
            if block.cluster_phase == w.cluster_count and known <= w.clock:
                continue
            w.pc -= 1
            w.block.failed_checks += 1
            if w.block.failed_checks > memory_layout.CLUSTER_PATIENCE * self.launch.most_checks:
                raise Fault(memory_layout.CLUSTER_STUCK, members(w.live)[0], rank)
            return AWAITS
        return GOES_ON

    def _elect(self, w: WarpState, micro: MicroOperation, lanes: int) -> None:
        """The lowest lane of those that take part."""
        mine = lanes & self.predicate(w, micro, "predicate_a")
        chosen = mine & -mine
        for lane in range(32):
            self.put(w, micro.fields["dst"], lane, chosen.bit_length() - 1 if chosen else 0)
        self.set_predicate(w, micro, "predicate_dst", chosen, lanes)

    def _read_chosen(self, w: WarpState, micro: MicroOperation) -> None:
        """The lowest lane's value under the guard, for all lanes."""
        chosen = members(w.active & self.predicate(w, micro, "guard"))[0]
        value = self.word(w, micro, "a", chosen)
        for lane in range(32):
            self.put(w, micro.fields["dst"], lane, value)


def told_barrier(address: int, word: int) -> int:
    """What a message tells of a barrier, in one number: its address, the phase that is not complete, arrivals
    and bytes that lack."""
    barrier = MemoryBarrier.of(word)
    return address & _M20 | barrier.phase << 20 | barrier.lacking << 21 | (barrier.awaited_bytes & _M21) << 41

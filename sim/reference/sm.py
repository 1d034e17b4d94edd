"""A streaming multiprocessor: residency, the issue stage, what becomes of an issued instruction, barriers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from smlab.sim.instruction_source import (
    ARRIVES,
    AWAITS,
    COPY_GROUPS,
    EXITS,
    FAULTS,
    GOES_ON,
    GROUP_SLOT,
    NOTIFIES,
    PRODUCT_GROUPS,
    PRODUCT_SLOT,
    RETRY_CYCLES,
    STALL_SLOT,
    TOLD,
    ReferenceSource,
)
from smlab.sim.instructions import Reason, Unit
from smlab.sim.lowering import INDEXED_CONSTANT, NO_CONSTANT, LoweredKernel, Operation
from smlab.sim.machine import TICK_BITS
from smlab.sim.reference.clock import Clock, Phase
from smlab.sim.reference.constants import ConstantCaches
from smlab.sim.reference.fetch import FrontEnd
from smlab.sim.reference.machine_code_warp import MachineCodeWarp, RecordedWarp
from smlab.sim.reference.memory import MemorySystem, parts_of, passes_needed
from smlab.sim.reference.path import MemoryPath
from smlab.sim.reference.profiled_warp import CountedWarp
from smlab.sim.reference.scheduler import Scheduler
from smlab.sim.reference.trace_rows import Meter, Recorder
from smlab.sim.reference.warp import Block, BlockBarrier, Job, Warp, WarpPlace
from smlab.sim.workloads.workload import NO_WARP, blocks_per_sm


@dataclass(frozen=True)
class SharedByAll:
    """What the SMs of a GPU have in common. ``retired`` is called when a block's last warp has finished."""

    clock: Clock
    lowered: LoweredKernel
    memory: MemorySystem
    recorder: Recorder
    retired: Callable[[StreamingMultiprocessor, Block], None]
    source: ReferenceSource | None
    instruction_stalls: NDArray[np.int64]


class StreamingMultiprocessor:
    """One SM."""

    def __init__(self, index: int, shared: SharedByAll) -> None:
        self.index = index
        self.clock = shared.clock
        self.lowered = lowered = shared.lowered
        self.machine = machine = lowered.machine
        self.recorder = shared.recorder
        self.retired = shared.retired
        self.path = MemoryPath(shared.clock, self, machine, shared.memory)
        self.path.l1.cluster_blocks = lowered.cluster_blocks
        self.path.l1.has_local_memory = shared.source is not None
        self.schedulers = [Scheduler(self, i) for i in range(machine.schedulers)]
        self.pipe_free = dict.fromkeys(machine.pipes, 0)
        self.first_scheduler = 0  # who looks first: the one after the last that took a pipe of the SM
        self.barrier_free = 0  # when the barrier unit can take an arrival
        self.looks: set[int] = set()
        self.free_slots = list(range(machine.max_warps))
        self.next_scheduler = 0  # for the next warp, modulo their number
        self.max_blocks = blocks_per_sm(lowered.kernel, machine)
        self.source = shared.source
        self.instruction_stalls = shared.instruction_stalls
        self.front_end = FrontEnd(machine, len(shared.instruction_stalls))
        self.constants: ConstantCaches | None = None
        if machine.constants is not None:
            brought = lowered.brought_constants
            self.constants = ConstantCaches(machine.constants, machine.schedulers, brought)
        self.rooms: set[int] = set()
        self.left: dict[int, int] = {}  # when the last block of each room exited
        self.resident_blocks = 0
        self.launched_warps = 0
        self.jobs = 0
        self.warp_instructions = 0
        self.resident = Meter()
        self.atomics = Meter()
        self.atomic_cas = Meter()
        self.atomic_lanes = 0
        self.atomic_passes = 0
        self.shared_passes = {"load": 0, "store": 0}

    # Residency

    def has_room(self) -> bool:
        return self.resident_blocks < self.max_blocks

    def launch(self, index: int, begin: int) -> Block:
        """Make a block resident now; its warps may issue the launch latency after ``begin``, when the
        dispatcher has come to it."""
        kernel, now = self.lowered.kernel, self.clock.now
        block = Block(index, now)
        self.resident_blocks += 1
        block.room = min(set(range(self.max_blocks)) - self.rooms)
        self.rooms.add(block.room)
        ready = begin + self.machine.block_launch_cycles
        if block.room in self.left:
            ready = max(ready, self.left[block.room] + self.machine.block_turnover_cycles)
        for place in range(kernel.warps_per_block):
            role = kernel.role(index, place)
            if role == NO_WARP:
                continue
            slot = self._take_slot()
            warp = self._new_warp(block, place, role, slot)
            warp.ready = ready + (len(block.warps) * self.machine.warp_launch_ticks >> TICK_BITS)
            self.launched_warps += 1
            block.warps.append(warp)
            scheduler = self.scheduler_of(warp)
            scheduler.add(warp)
            self.wake(scheduler, now)
        if self.machine.block_turn is not None and len(block.warps) % self.machine.schedulers == 0:
            self.next_scheduler += self.machine.block_turn
        block.unfinished = block.executing = len(block.warps)
        self.resident.change(now, len(block.warps))
        return block

    def _take_slot(self) -> int:
        """The lowest free slot; where blocks take turns, of the scheduler that is next, or behind it."""
        many, slot = self.machine.schedulers, self.free_slots[0]
        if self.machine.block_turn is not None:
            slot = min(self.free_slots, key=lambda s: ((s - self.next_scheduler) % many, s))
            self.next_scheduler = slot + 1
        self.free_slots.remove(slot)
        return slot

    def _new_warp(self, block: Block, place: int, role: int, slot: int) -> Warp:
        program, now = self.lowered.programs[role], self.clock.now
        index = block.index * self.lowered.kernel.warps_per_block + place
        at, stalls = WarpPlace(index, program, slot, self.launched_warps, now), self.instruction_stalls
        if self.source is None:
            if not self.lowered.by_instruction:
                return Warp(block, at)
            first = sum(p.slots for p in self.lowered.programs[:role])
            return CountedWarp(block, at, first, stalls)
        rooms = min(self.max_blocks, -(-self.lowered.kernel.blocks // self.lowered.kernel.sms))
        self.source.start(self.index, slot, block.index, place, self.index * rooms + block.room)
        kind = RecordedWarp if program.recorded else MachineCodeWarp
        warp = kind(block, at, self.index, self.source, stalls)
        warp.go_on()
        self._fetch(warp, warp.at)
        return warp

    def retire(self, block: Block) -> None:
        """Give the block's room back."""
        self.rooms.discard(block.room)
        self.left[block.room] = block.left
        self.resident_blocks -= 1
        self.free_slots = sorted([*self.free_slots, *(w.slot for w in block.warps)])

    def scheduler_of(self, warp: Warp) -> Scheduler:
        return self.schedulers[warp.slot % self.machine.schedulers]

    # The issue stage

    def wake(self, scheduler: Scheduler, cycle: int) -> None:
        """See that a scheduler looks at its warps in a cycle (now or later)."""
        scheduler.next_look = min(scheduler.next_look, cycle)
        if cycle not in self.looks:
            self.looks.add(cycle)
            self.clock.call(cycle - self.clock.now, Phase.ISSUE, self._issue_stage, self.index)

    def _issue_stage(self) -> None:
        now = self.clock.now
        self.looks.discard(now)
        first, count = self.first_scheduler, len(self.schedulers)
        for offset in range(count):
            scheduler = self.schedulers[(first + offset) % count]
            if scheduler.next_look <= now:
                scheduler.look(now)

    def charge(self, warp: Warp, now: int, reason: Reason) -> None:
        self.recorder.span(warp, self.index, now)
        warp.charge(now, reason)

    def issue(self, warp: Warp, scheduler: Scheduler, now: int) -> None:
        """A scheduler has selected this warp: send its next instruction to where it belongs."""
        operation = warp.next
        assert operation is not None
        self.warp_instructions += 1
        self.recorder.issue(now, self.index, scheduler.index, warp, operation)
        unit = operation.cls.unit
        if isinstance(warp, MachineCodeWarp):
            self._issue_from_source(warp, operation, scheduler, now)
            return
        if isinstance(warp, CountedWarp):
            warp.book_issue(now)
        if unit is Unit.BARRIER:
            self._arrive(warp, now, 0, 0)
            return
        if unit is Unit.PIPE:
            timing = operation.pipe or self.machine.pipes[operation.cls.timing]
            free = now + scheduler.interval_of(timing)
            scheduler.pipes_of(operation.cls.pipe)[operation.cls.pipe] = free
            if self.machine.pipes[operation.cls.pipe].per_sm:
                self.first_scheduler = (scheduler.index + 1) % len(self.schedulers)
            self._result_at(warp, operation, now + timing.latency_cycles)
        elif unit is Unit.THINK:
            self._result_at(warp, operation, now + warp.value(operation, "work"))
        else:
            self._enqueue(warp, operation, scheduler.index, now)
        warp.advance()
        if warp.exited:
            self.clock.call(1, Phase.RETURN, lambda: self._exit(warp), self.index)

    def _issue_from_source(
        self, warp: MachineCodeWarp, operation: Operation, scheduler: Scheduler, now: int
    ) -> None:
        """Execute the selected instruction of a warp that a source leads, and send it where it belongs.

        An instruction without a lane takes no place in a queue, unless it makes a pass. Its control code says
        when the warp may issue again, and which scoreboards wait for its operands and its result.
        """
        assert self.source is not None
        state, mask, warp.passes, warp.addresses = self.source.next(self.index, warp.slot, now)
        if state == FAULTS:
            raise self.source.fault(self.index, warp.slot)
        warp.lanes = mask.bit_count()
        target, read_target, read_at = warp.target_of(operation), warp.read_target_of(operation), now + 1
        if operation.cls.unit in (Unit.PIPE, Unit.BARRIER):
            interval, latency = 0, 0
            if operation.cls.unit is Unit.PIPE:
                timing = operation.pipe or self.machine.pipes[operation.cls.timing]
                if operation.in_tensor_memory and warp.lanes:
                    timing = self.machine.memory_product_timing(warp.passes)
                interval, latency = timing.interval_cycles, timing.latency_cycles
                free = now + scheduler.interval_of(timing)
                if operation.joins_products and (warp.lanes or not operation.in_tensor_memory):
                    unit = self.schedulers[0] if operation.in_tensor_memory else scheduler
                    begin, working = unit.take_product(timing, now)
                    latency += begin + working - interval - now
                    free = max(now + 1, begin + working - timing.backlog_cycles)
                scheduler.pipes_of(operation.cls.pipe)[operation.cls.pipe] = free
                if self.machine.pipes[operation.cls.pipe].per_sm:
                    self.first_scheduler = (scheduler.index + 1) % len(self.schedulers)
                if operation.in_tensor_memory:  # it has read its registers as soon as another instruction has
                    interval = self.machine.pipes[operation.cls.timing].interval_cycles
                interval = min(interval, timing.latency_cycles)
            read_at = max(read_at, now + interval)
            if target >= 0:
                warp.result_at[target] = max(warp.result_at[target], now + latency)
        elif warp.lanes or operation.passes_inactive:
            warp.passes = warp.passes if warp.lanes else 1
            self._enqueue(warp, operation, scheduler.index, now)
            read_target = -1
        if read_target >= 0:
            warp.result_at[read_target] = max(warp.result_at[read_target], read_at)
        if scheduler.products_end > now:
            scheduler.held = now + operation.crowded_cycles
        fence_end = warp.result_at[STALL_SLOT] + operation.fence_cycles if operation.fence_cycles else 0
        stalled = now + warp.issue_stall + (RETRY_CYCLES if state == AWAITS else 0)
        if state == AWAITS and self.machine.wakes_waiting_warps and operation.asks_phase:
            stalled = max(stalled, self.source.complete_at(self.index, warp.slot))
        if operation.constant_line == INDEXED_CONSTANT and operation.cls.unit is Unit.PIPE and warp.lanes:
            stalled = max(stalled, self._constant_there(warp, operation, now))
        warp.result_at[STALL_SLOT] = max(stalled, fence_end)
        if state == GOES_ON and self.source.pc(self.index, warp.slot) != operation.slot + 1:
            arrived = now + self.machine.taken_branch_cycles
            warp.result_at[STALL_SLOT] = max(warp.result_at[STALL_SLOT], arrived)
        warp.groups += operation.closes_group
        warp.products += operation.closes_products
        if operation.bulk_copy and warp.lanes:
            self._copy_in_bulk(warp, operation, now)
        if operation.follows_copies and warp.lanes:
            warp.arrive_after_copies(self.source.bulk_request(self.index, warp.slot).copies, now)
        if operation.follows_products and warp.lanes:
            done = warp.result_at[PRODUCT_SLOT + warp.products % PRODUCT_GROUPS]
            for arrival in self.source.bulk_request(self.index, warp.slot).copies:
                arrival.done = max(done, now + 1)
        if operation.empties_l1:
            self.path.l1.empty()
        warp.book_issue(now)
        if state == EXITS:
            warp.next = None
            self.clock.call(1, Phase.RETURN, lambda: self._exit(warp), self.index)
        elif state == ARRIVES:
            self._fetch(warp, min(operation.slot + 1, len(self.instruction_stalls) - 1))
            self._arrive(warp, now, *self.source.barrier(self.index, warp.slot))
        else:
            if state == NOTIFIES:
                self._arrive(warp, now, *self.source.barrier(self.index, warp.slot), waits=False)
            warp.go_on()
            self._fetch(warp, warp.at)

    def _copy_in_bulk(self, warp: MachineCodeWarp, operation: Operation, now: int) -> None:
        """The copy engine takes the bulk copy that a warp has just issued; the warp stays until then."""
        assert self.source is not None
        request = self.source.bulk_request(self.index, warp.slot)
        parts = parts_of(request.runs, self.machine)
        size = sum(len(part.sectors) for part in parts) * self.machine.sector_bytes
        blocks = 1 if operation.bulk_copy == "store" else len(request.copies)
        for scheduler in self.schedulers:
            scheduler.banks_awaited += blocks * -(-size // (self.machine.banks * self.machine.bank_bytes))
        target = GROUP_SLOT + warp.groups % COPY_GROUPS if operation.joins_group else -1
        writes = self.machine.bulk_writes.get(operation.bulk_copy or "")
        read_cycles = writes.read_cycles if writes else 0
        awaited = -1 if read_cycles else target
        for copy in request.copies if not parts else ():
            copy.done = now + max(1, self.machine.bulk_extra_cycles)
        returns: list[int] = []

        def back() -> None:
            warp.in_flight -= 1
            if awaited >= 0:
                warp.pending[awaited] -= 1
            self.wake(self.scheduler_of(warp), self.clock.now)
            if warp.left and not warp.in_flight:
                self._finish(warp)

        def known(cycle: int) -> None:
            returns.append(cycle)
            for copy in request.copies if len(returns) == len(parts) else ():
                copy.done = max(returns)
            self.clock.call(cycle - self.clock.now, Phase.RETURN, back, self.index)

        for part in parts:
            warp.in_flight += 1
            if awaited >= 0:
                warp.pending[awaited] += 1
            taken = self.path.l1.ask_in_bulk(part, operation, self.jobs, known)
            if target >= 0 and awaited < 0:
                warp.result_at[target] = max(warp.result_at[target], taken + read_cycles)
            self.jobs += 1

    def _fetch(self, warp: MachineCodeWarp, place: int) -> None:
        """A warp goes on to the instruction at ``place``, which must come if it is in another line of
        code; so must its operand in constant memory."""
        line = self.front_end.line_of(place)
        if line != warp.line:
            warp.line = line
            warp.fetched = self.front_end.fetch(self.scheduler_of(warp).index, line, self.clock.now)
        operation = warp.program.operations[place]
        if operation.constant_line >= 0 and operation.cls.operation != "constant":
            ready = self._constant_there(warp, operation, self.clock.now)
            warp.fetched = max(warp.fetched, ready)

    def _constant_there(self, warp: MachineCodeWarp, operation: Operation, now: int) -> int:
        """When the constants are there that an instruction reads; 0 where it reads none."""
        if self.constants is None or operation.constant_line == NO_CONSTANT:
            return 0
        lines = [operation.constant_line]
        if operation.constant_line == INDEXED_CONSTANT:
            lines = self.constants.lines_at(warp.addresses)
        if operation.cls.operation == "constant":
            return self.constants.load(lines, now + self.machine.front_cycles)
        return self.constants.operand(self.scheduler_of(warp).index, lines, now)

    def _result_at(self, warp: Warp, operation: Operation, cycle: int) -> None:
        warp.result_at[operation.slot] = max(warp.result_at[operation.slot], cycle)

    def _enqueue(self, warp: Warp, operation: Operation, subcore: int, now: int) -> None:
        job = Job(
            warp, operation, self.jobs, now, warp.value(operation, "passes"), warp.value(operation, "work")
        )
        self.jobs += 1
        warp.in_flight += 1
        if job.target >= 0:
            warp.pending[job.target] += 1
        if job.read_target >= 0:
            warp.pending[job.read_target] += 1
        if operation.joins_group and isinstance(warp, MachineCodeWarp):
            warp.copies.add(job.sequence)
        if operation.cls.unit is Unit.GLOBAL:
            job.addresses = warp.byte_addresses(operation)
            told = operation.passes == TOLD
            needed = passes_needed(job.addresses, operation.request.bytes // 4, self.machine)
            job.passes = max(needed, job.passes) if needed or told else 0
        elif operation.cls.unit is Unit.ATOMIC:
            self.atomics.change(now, +1)
            self.atomic_cas.change(now, operation.cls.operation == "cas")
            self.atomic_lanes += job.lanes
            self.atomic_passes += job.passes
        elif operation.cls.operation == "constant" and isinstance(warp, MachineCodeWarp):
            job.due = self._constant_there(warp, operation, now)
        elif operation.cls.unit is Unit.SHARED:
            self.shared_passes[operation.cls.operation] += job.passes if job.lanes else 0
        self.path.accept(job, subcore)

    # What comes back

    def room_in(self, subcore: int) -> None:
        """A place in a sub-core's queue is free: its scheduler looks again."""
        self.wake(self.schedulers[subcore], self.clock.now)

    def operands_read(self, job: Job) -> None:
        """A job's operands have been read; their registers may be written."""
        if job.read_target >= 0:
            job.warp.pending[job.read_target] -= 1
            self.wake(self.scheduler_of(job.warp), self.clock.now)

    def completed(self, job: Job) -> None:
        """A job's result or acknowledgement is back."""
        warp, now = job.warp, job.completion
        unit = job.operation.cls.unit
        if unit is Unit.ATOMIC:
            self.atomics.change(now, -1)
            self.atomic_cas.change(now, -(job.operation.cls.operation == "cas"))
        self.recorder.job(job, self.index)
        warp.in_flight -= 1
        if job.target >= 0:
            warp.pending[job.target] -= 1
        if job.operation.joins_group and isinstance(warp, MachineCodeWarp):
            warp.copy_is_back(job.sequence, now)
        self.wake(self.scheduler_of(warp), now)
        if warp.left and not warp.in_flight:
            self._finish(warp)

    def _exit(self, warp: Warp) -> None:
        """The warp has issued its last instruction."""
        warp.left = True
        warp.block.left = self.clock.now
        warp.block.executing -= 1
        for number in list(warp.block.barriers):
            self._open_barrier_if_complete(warp.block, number)
        if not warp.in_flight:
            self._finish(warp)

    def _finish(self, warp: Warp) -> None:
        """The warp has left and nothing of it is in flight: it is no longer resident."""
        now = self.clock.now
        self.charge(warp, now, Reason.DRAIN)
        warp.finish = now
        scheduler = self.scheduler_of(warp)
        scheduler.warps.remove(warp)
        self.resident.change(now, -1)
        self.recorder.warp(warp, self.index)
        warp.block.unfinished -= 1
        if not warp.block.unfinished:
            self.retired(self, warp.block)

    def banks_taken(self, cycles: int) -> None:
        """An access takes the banks of shared memory, for which products by groups of warps then wait."""
        for scheduler in self.schedulers:
            if scheduler.products_end > self.clock.now:
                scheduler.banks_owed += cycles

    # Barriers

    def _arrive(self, warp: Warp, now: int, number: int, expected: int, waits: bool = True) -> None:
        barrier = warp.block.barriers.setdefault(number, BlockBarrier())
        if waits:
            warp.at_barrier = True
            barrier.waiting.append(warp)
        barrier.arrived += 1
        barrier.expected = expected
        self.barrier_free = max(now, self.barrier_free) + self.machine.barrier_interval_cycles
        barrier.served = self.barrier_free
        self._open_barrier_if_complete(warp.block, number)

    def _open_barrier_if_complete(self, block: Block, number: int) -> None:
        barrier = block.barriers[number]
        if barrier.arrived == (barrier.expected or block.executing):
            del block.barriers[number]
            now = self.clock.now
            self.clock.call(
                max(now, barrier.served) - now + self.machine.barrier_latency_cycles,
                Phase.RETURN,
                lambda: self._open_barrier(barrier),
                self.index,
            )

    def _open_barrier(self, barrier: BlockBarrier) -> None:
        for warp in sorted(barrier.waiting, key=lambda w: w.slot):
            warp.at_barrier = False
            if isinstance(warp, CountedWarp):
                warp.book(self.clock.now)
            warp.advance()
            self.wake(self.scheduler_of(warp), self.clock.now)
            if warp.exited:
                self._exit(warp)

"""The whole simulated GPU: SMs, memory, and the dispatcher that hands out blocks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from smlab.hw_bench.errors import SmlabError
from smlab.sim.instructions import Reason
from smlab.sim.lowering import LoweredKernel
from smlab.sim.machine import TICK_BITS, ceil_cycles, groups_of_sms
from smlab.sim.reference.clock import Clock, Phase
from smlab.sim.reference.memory import MemorySystem
from smlab.sim.reference.sm import SharedByAll, StreamingMultiprocessor
from smlab.sim.reference.trace_rows import Record, Recorder
from smlab.sim.reference.warp import Block

Progress = Callable[[int, int], None]
"""Told, now and then, how many blocks have retired and how many there are."""


class SimulatedGpu:
    """Runs one lowered kernel from its launch in cycle 0 to the retirement of its last block."""

    def __init__(self, lowered: LoweredKernel, keep: Record, progress: Progress | None = None) -> None:
        self.lowered = lowered
        self.clock = Clock()
        self.recorder = Recorder(keep)
        self.progress = progress
        unsampled = None if lowered.source is None else lowered.source.unsampled
        self.memory = MemorySystem(lowered.machine, lowered.kernel.sms, unsampled)
        if lowered.l2 is not None:
            self.memory.begin(lowered.l2.of(lowered.machine))
        self.memory.hold(*lowered.kernel.in_l2)
        instructions = sum(p.slots for p in lowered.programs) if lowered.by_instruction else 0
        behind = lowered.source is None  # a row more for what warps do behind the end of their programs
        self.instruction_stalls = np.zeros((instructions + behind, len(Reason)), dtype=np.int64)
        source = None if lowered.source is None else lowered.source.reference()
        shared = SharedByAll(
            self.clock,
            lowered,
            self.memory,
            self.recorder,
            self._retired,
            source,
            self.instruction_stalls,
        )
        self.sms = [StreamingMultiprocessor(i, shared) for i in range(lowered.kernel.sms)]
        self.next_block = 0
        self.dispatcher_free_ticks = 0
        self.retired_blocks = 0
        self.cycles = 0
        self._retiring: list[tuple[StreamingMultiprocessor, Block]] = []
        self.clock.call(0, Phase.DISPATCH, self._dispatch)

    def run(self, max_cycles: int | None = None) -> None:
        """Run to the end of the kernel; `SmlabError` when ``max_cycles`` pass first or when nothing can
        happen any more."""
        env = self.clock.env
        if max_cycles is None:
            env.run()
        else:
            env.run(until=max_cycles + 1)
        if self.retired_blocks < self.lowered.kernel.blocks:
            where = f"{self.lowered.kernel.name} on {self.lowered.machine.name}"
            if max_cycles is not None and env.peek() < float("inf"):
                raise SmlabError.at(
                    where, "not finished after the allowed cycles", max_cycles, "a larger max_cycles"
                )
            warps = [(sm.index, w) for sm in self.sms for s in sm.schedulers for w in s.warps]
            waiting = [(sm, w.slot) for sm, w in warps if w.at_barrier]
            if self.lowered.source is not None and waiting:
                raise self.lowered.source.stuck_at(*min(waiting))
            raise SmlabError.at(where, "the simulation came to a stop with blocks unfinished", self.clock.now)

    def _retired(self, sm: StreamingMultiprocessor, block: Block) -> None:
        if not self._retiring:
            self.clock.call(0, Phase.DISPATCH, self._dispatch)
        self._retiring.append((sm, block))

    def _dispatch(self) -> None:
        """Retire the blocks that finished in this cycle, then hand out blocks while an SM has room.

        The next block goes to the SM with the fewest resident blocks; among equals, to the one with the
        lowest index.
        """
        now = self.clock.now
        for sm, block in self._retiring:
            block.retire = now
            sm.retire(block)
            self.recorder.block(block, sm.index)
            self.retired_blocks += 1
        self._retiring.clear()
        size = self.lowered.cluster_blocks
        while size > 1 and self.next_block < self.lowered.kernel.blocks:
            if not (chosen := self._group_for(size)):
                break
            for sm in chosen:
                self._launch(sm)
        while size == 1 and self.next_block < self.lowered.kernel.blocks:
            open_sms = [sm for sm in self.sms if sm.has_room()]
            if not open_sms:
                break
            self._launch(min(open_sms, key=lambda sm: (sm.resident_blocks, sm.index)))
        if self.progress is not None:
            self.progress(self.retired_blocks, self.lowered.kernel.blocks)
        if self.retired_blocks == self.lowered.kernel.blocks:
            self.cycles = now

    def _launch(self, sm: StreamingMultiprocessor) -> None:
        """The next block goes to an SM."""
        m = self.lowered.machine
        begin = max(self.clock.now << TICK_BITS, self.dispatcher_free_ticks)
        block = sm.launch(self.next_block, ceil_cycles(begin))
        one, more = m.block_refill_ticks, m.warp_refill_ticks
        if self.clock.now == 0:
            one, more = m.block_dispatch_ticks, m.warp_dispatch_ticks
        self.dispatcher_free_ticks = begin + one + len(block.warps) * more
        self.next_block += 1

    def _group_for(self, size: int) -> list[StreamingMultiprocessor]:
        """The SMs for the blocks of the next cluster: ``size`` with room and the fewest blocks, in the
        group that has the fewest; none where no group has so many."""
        choices = []
        for group in groups_of_sms(len(self.sms), self.lowered.machine.group_sms):
            with_room = [self.sms[index] for index in group if self.sms[index].has_room()]
            with_room.sort(key=lambda sm: (sm.resident_blocks, sm.index))
            if len(with_room) >= size:
                blocks = sum(self.sms[index].resident_blocks for index in group)
                choices.append((blocks, group.start, with_room[:size]))
        return min(choices)[2] if choices else []

"""The front end of an SM: where its warps' instructions come from (SEMANTICS.md, section 9).

Every sub-core, or several together, have an L0 cache of lines of code. It asks the SM's L1 for lines, those
that follow included; a launch brings the first of them there. What L1 does not have comes from the cache of
its group of SMs, and from L2 if that does not have it either.
"""

from __future__ import annotations

from smlab.sim.machine import Machine
from smlab.sim.reference.memory import Cache


class FrontEnd:
    """Of one SM that runs code of ``instructions``.

    A line's ``ready_ticks`` are cycles here, and it is ``dirty`` until a warp uses it.
    """

    def __init__(self, machine: Machine, instructions: int) -> None:
        self.timing = machine.fetch
        self.l2_cycles = machine.l2_latency_cycles
        self.lines = -(-instructions // self.timing.line_instructions)
        self.l0 = [
            Cache(machine.fetch.l0, 1) for _ in range(-(-machine.schedulers // self.timing.l0_sub_cores))
        ]
        self.l1 = Cache(self.timing.l1, 1)
        self.free_cycle = 0  # when the next line can be asked for
        preloaded = self.lines if self.timing.warm > 0 else min(self.lines, self.timing.preloaded_lines)
        for line in range(preloaded):
            self.l1.allocate(line)
        for cache in self.l0 if self.timing.warm > 1 else []:
            for line in range(self.lines):
                cache.allocate(line)

    def line_of(self, place: int) -> int:
        return place // self.timing.line_instructions

    def fetch(self, sub_core: int, line: int, now: int) -> int:
        """A warp goes on to an instruction of this line: the cycle in which it is there."""
        cache, prefetch_lines = self.l0[sub_core // self.timing.l0_sub_cores], self.timing.prefetch_lines
        entry, _ = cache.touch(line)
        if entry is not None:
            if entry.dirty:
                entry.dirty = 0
                self._prefetch(cache, line + prefetch_lines, now)
            return entry.ready_ticks[0]
        ready_cycle = self._request(line, now)
        cache.allocate(line)[0].ready_ticks[0] = ready_cycle
        for following in range(line + 1, line + prefetch_lines + 1):
            self._prefetch(cache, following, now)
        return ready_cycle

    def _prefetch(self, cache: Cache, line: int, now: int) -> None:
        """Ask for a line before a warp needs it, if the code has that line and the sub-core does not."""
        if line < self.lines and cache.touch(line)[0] is None:
            ready_cycle = self._request(line, now)
            entry, _ = cache.allocate(line)
            entry.ready_ticks[0], entry.dirty = ready_cycle, 1

    def _request(self, line: int, now: int) -> int:
        """Ask the SM's L1 for a line: the cycle in which the sub-core has it."""
        request_cycle = max(now, self.free_cycle)
        self.free_cycle = request_cycle + self.timing.request_interval_cycles
        ready_cycle = request_cycle + self.timing.l0_miss_cycles
        entry, _ = self.l1.touch(line)
        if entry is not None:
            return max(ready_cycle, entry.ready_ticks[0])
        ready_cycle += self.timing.l1_miss_cycles
        if line >= self.timing.preloaded_lines:
            ready_cycle += self.l2_cycles
        self.l1.allocate(line)[0].ready_ticks[0] = ready_cycle
        return ready_cycle

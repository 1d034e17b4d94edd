"""The front end of an SM: where its warps' instructions come from (SEMANTICS.md, section 9).

Every sub-core has an L0 cache of lines of code, which asks the SM's L1 for lines, those that follow included;
what that does not have comes from L2.
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
        self.l0 = [Cache(machine.fetch.l0, 1) for _ in range(machine.schedulers)]
        self.l1 = Cache(self.timing.l1, 1)
        self.free = 0  # when the next line can be asked for
        for line in range(self.lines if self.timing.warm else 0):
            self.l1.allocate(line)

    def line_of(self, place: int) -> int:
        return place // self.timing.line_instructions

    def fetch(self, sub_core: int, line: int, now: int) -> int:
        """A warp goes on to an instruction of this line: the cycle in which it is there."""
        cache, ahead = self.l0[sub_core], self.timing.prefetch_lines
        found, _ = cache.touch(line)
        if found is not None:
            if found.dirty:
                found.dirty = 0
                self._prefetch(cache, line + ahead, now)
            return found.ready_ticks[0]
        there = self._ask(line, now)
        cache.allocate(line)[0].ready_ticks[0] = there
        for other in range(line + 1, line + ahead + 1):
            self._prefetch(cache, other, now)
        return there

    def _prefetch(self, cache: Cache, line: int, now: int) -> None:
        """Ask for a line before a warp needs it, if there is one and the sub-core does not have it."""
        if line < self.lines and cache.touch(line)[0] is None:
            there = self._ask(line, now)
            made, _ = cache.allocate(line)
            made.ready_ticks[0], made.dirty = there, 1

    def _ask(self, line: int, now: int) -> int:
        """Ask the SM's L1 for a line; when the sub-core has it."""
        asked = max(now, self.free)
        self.free = asked + self.timing.request_interval_cycles
        there = asked + self.timing.l0_miss_cycles
        found, _ = self.l1.touch(line)
        if found is not None:
            return max(there, found.ready_ticks[0])
        there += self.l2_cycles
        self.l1.allocate(line)[0].ready_ticks[0] = there
        return there

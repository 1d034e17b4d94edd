"""The caches of constants of an SM (SEMANTICS.md, section 6): one for its constant loads, one in each
sub-core for operands of other instructions, and one behind them all.
"""

from __future__ import annotations

from collections.abc import Iterable

from smlab.sim.machine import ConstantTiming
from smlab.sim.reference.memory import Cache


class ConstantCaches:
    """Of one SM, from a launch that brings the first ``brought`` bytes of bank 0 to all of them.

    A line's ``ready_ticks`` are cycles here. The cache behind keeps every line: it is the cycle in which each
    of those asked for is there.
    """

    def __init__(self, timing: ConstantTiming, sub_cores: int, brought: int) -> None:
        self.timing = timing
        self.loads = Cache(timing.first, 1)
        self.operands = [Cache(timing.first, 1) for _ in range(sub_cores)]
        self.second: dict[int, int] = {}
        for line in range(timing.lines_of(brought)):
            self.second[line // timing.second_lines] = 0
            for cache in (self.loads, *self.operands):
                cache.allocate(line)

    def load(self, lines: Iterable[int], now: int) -> int:
        """A constant load asks for these lines: when the last of them is there."""
        return max(self._look_up(self.loads, line, now, self.timing.load_miss_cycles) for line in lines)

    def operand(self, sub_core: int, lines: Iterable[int], now: int) -> int:
        """The same for an operand of an instruction."""
        cache, miss = self.operands[sub_core], self.timing.operand_miss_cycles
        return max(self._look_up(cache, line, now, miss) for line in lines)

    def lines_at(self, addresses: Iterable[int]) -> list[int]:
        """Those that addresses lie in, in ascending order."""
        return sorted({address // self.timing.line_bytes for address in addresses})

    def _look_up(self, cache: Cache, line: int, now: int, miss: int) -> int:
        entry, _ = cache.touch(line)
        if entry is None:
            entry, _ = cache.allocate(line)
            far = now + self.timing.second_miss_cycles
            behind = self.second.setdefault(line // self.timing.second_lines, far)
            entry.ready_ticks[0] = max(now, behind) + miss
        return entry.ready_ticks[0]

"""Run a lowered kernel with the compiled core: slices, threads, growing tables, and the result."""

from __future__ import annotations

import itertools
import time

import numpy as np

from smlab.hw_bench.errors import SmlabError
from smlab.sim.compiled import layout
from smlab.sim.compiled.collect import collect
from smlab.sim.compiled.gpu import advance, begin
from smlab.sim.compiled.prepare import Memory, make_rows, prepare
from smlab.sim.compiled.threads import Stopped, in_threads, processors
from smlab.sim.lowering import LoweredKernel
from smlab.sim.reference.gpu import Progress
from smlab.sim.reference.record import Record
from smlab.sim.result import SimResult

SLICE = 1 << 19
"""Steps (cycles of an SM in which something happens) between two returns to Python; well below a second."""

FEW_INSTRUCTIONS = 1 << 20
"""A kernel with fewer warp-instructions is not worth a second thread."""


def run(
    lowered: LoweredKernel,
    keep: Record = Record.ATOMICS,
    max_cycles: int | None = None,
    progress: Progress | None = None,
    *,
    threads: int | None = None,
) -> SimResult:
    """Simulate a lowered kernel to its end; the result is that of `smlab.sim.reference.run`.

    SMs that share nothing run on several ``threads`` (as many as there are processors), with the same result
    as on one.
    """
    begun = time.perf_counter()
    kernel = lowered.kernel
    limit = layout.NEVER - 1 if max_cycles is None else max_cycles
    memory = prepare(lowered, int(keep), limit)
    begin(memory.address)
    parts = [SmRange(memory, 0, kernel.sms)]
    if threads is None:
        many = not lowered.by_instruction and kernel.warp_instructions > FEW_INSTRUCTIONS
        threads = processors() if many else 1
    blocks_fit = kernel.blocks <= kernel.sms * memory["blocks_per_sm"]
    if threads > 1 and kernel.sms > 1 and blocks_fit and not memory["uses_memory"]:
        parts = parts[0].split(min(kernel.sms, 4 * threads))
        in_threads(lambda part, stopped: part.run(None, stopped), parts, threads)
    else:
        parts[0].run(progress)
    retired = sum(part.memory["retired_blocks"] for part in parts)
    if memory["fault"] and lowered.source is not None:
        raise lowered.source.fault_of(*divmod(memory["fault"] - 1, memory["max_warps"]))
    if retired < kernel.blocks:
        where = f"{kernel.name} on {lowered.machine.name}"
        if max_cycles is not None:
            raise SmlabError.at(
                where, "not finished after the allowed cycles", max_cycles, "a larger max_cycles"
            )
        warps = memory.tables["warp"]
        waiting = np.flatnonzero((warps["block"] > 0) & (warps["state"] == layout.AT_BARRIER))
        if lowered.source is not None and len(waiting):
            raise lowered.source.stuck_at(*divmod(int(waiting[0]), memory["max_warps"]))
        raise SmlabError.at(where, "the simulation came to a stop with blocks unfinished", 0)
    if progress is not None:
        progress(retired, kernel.blocks)
    return collect(lowered, keep, [part.memory for part in parts], begun)


class SmRange:
    """Some SMs of a run, which share nothing with the others."""

    def __init__(self, memory: Memory, low: int, high: int) -> None:
        self.memory = memory
        self.low = low
        self.high = high

    def split(self, count: int) -> list[SmRange]:
        """Hand out the blocks and divide the SMs, so that each part has its own counters and tables for
        records."""
        while advance(self.memory.address, self.low, self.high, 0) == layout.CROWDED:
            grow(self.memory)
        bounds = [self.low + (self.high - self.low) * n // count for n in range(count + 1)]
        parts = [self]
        for low, high in itertools.pairwise(bounds[1:]):
            own = self.memory.copy()
            own["retired_blocks"] = 0
            make_rows(own)
            parts.append(SmRange(own, low, high))
        self.memory.tables["warp"]["span"] = 0  # the spans of the launch are in this part's table
        self.high = bounds[1]
        return parts

    def run(self, progress: Progress | None = None, stopped: Stopped = lambda: False) -> None:
        """Run to the end, or as far as it goes. Python gets its turn now and then, so that Ctrl-C is
        heard."""
        memory = self.memory
        while True:
            status = int(advance(memory.address, self.low, self.high, SLICE))
            if status == layout.CROWDED:
                grow(memory)
            elif status != layout.PAUSED or stopped():
                return
            elif progress is not None:
                progress(memory["retired_blocks"], memory["blocks"])


def grow(memory: Memory) -> None:
    """Double the tables that are more than half full."""
    for kind, spare in (("job", 0), ("issue", 0), ("span", layout.SPARE_SPANS)):
        table, used = memory.tables[f"{kind}_row"], memory[f"{kind}s_kept"]
        if 2 * (used + spare) > len(table):
            larger = np.empty(2 * len(table), dtype=table.dtype)
            larger[:used] = table[:used]
            memory.put(f"{kind}_row", larger)
            memory[f"{kind}_rows"] = len(larger)
    old = memory["accesses"]
    if 2 * memory["free_accesses"] < old:
        for name in ("access", "sector", "crowd", "heap"):
            table = memory.tables[name]
            memory.put(name, np.concatenate([table, np.zeros_like(table)]))
        memory.tables["access"]["next"][old:] = [memory["free_access"], *range(old + 1, 2 * old)]
        memory["free_access"] = memory["accesses"] = 2 * old
        memory["free_accesses"] += old

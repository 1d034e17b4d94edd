"""Run a lowered kernel with the compiled core: slices, threads, growing tables, and the result.

From the arrays of a finished run to its result.
"""

from __future__ import annotations

import dataclasses
import itertools
import logging
import multiprocessing
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.sim.aligned_arrays import aligned
from smlab.sim.compiled import layout
from smlab.sim.compiled.gpu import advance, begin
from smlab.sim.compiled.kernel_arrays import Memory, make_rows, prepare, share
from smlab.sim.compiled.threads import Stopped, in_threads, processors
from smlab.sim.instruction_source import SharedExecution
from smlab.sim.l2_contents import no_lines
from smlab.sim.launch import executions_of, launch_of
from smlab.sim.lowering import LoweredKernel
from smlab.sim.reference.gpu import Progress
from smlab.sim.reference.trace_rows import Record
from smlab.sim.result import (
    BlockTable,
    IssueTrace,
    JobTrace,
    MemoryTruth,
    SimResult,
    SmTruth,
    SpanTrace,
    WarpTable,
)

SLICE = 1 << 19
"""Steps (cycles of an SM in which something happens) between two returns to Python; well below a second."""

FEW_INSTRUCTIONS = 1 << 20
"""A kernel with fewer warp-instructions is not worth a second thread."""
FEW_OF_CODE = 1 << 17
"""Nor is machine code with fewer, each of its instructions counted once a warp."""
_LOG = logging.getLogger("smlab.engine")


def run(
    lowered: LoweredKernel,
    keep: Record = Record.ATOMICS,
    max_cycles: int | None = None,
    progress: Progress | None = None,
    *,
    threads: int | None = None,
) -> SimResult:
    """Simulate a lowered kernel to its end; the result is that of `smlab.sim.reference.run`.

    SMs run on several ``threads`` (as many as there are processors, where that is worth it), with the same
    result as on one.
    """
    begun = time.perf_counter()
    kernel = lowered.kernel
    limit = layout.NEVER - 1 if max_cycles is None else max_cycles
    memory = prepare(lowered, int(keep), limit)
    parts = [SmRange(memory, 0, kernel.sms)]
    threads = threads_for(lowered, threads)
    reason = serial_reason(lowered, keep, threads) if threads > 1 else None
    if threads > 1 and share_nothing(lowered, memory):
        begin(memory.address)
        parts = parts[0].split(min(kernel.sms, 4 * threads))
        in_threads(lambda part, stopped: part.run(None, stopped), parts, threads)
    elif threads > 1 and reason is None:
        execution = None if memory.source is None else memory.source.watch_threads()
        parts = parts[0].share(threads, execution)
        reason = run_threads(parts, execution, progress)
        if reason is not None:
            assert execution is not None
            execution.undo()
            _LOG.info("%s: %s; once more on one thread", kernel.name, reason)
            alone = run(lowered, keep, max_cycles, progress, threads=1)
            return dataclasses.replace(alone, runs_serially=True)
    else:
        if reason is not None:
            _LOG.info("%s runs on one thread: %s", kernel.name, reason)
        begin(memory.address)
        parts[0].run(progress)
    retired = sum(part.memory["retired_blocks"] for part in parts)
    fault = int(memory.common["fault"])
    if fault and lowered.source is not None:
        raise lowered.source.fault_of(*divmod(fault - 1, memory["max_warps"]))
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
    found = collect(lowered, keep, [part.memory for part in parts], begun)
    return found if reason is None else dataclasses.replace(found, runs_serially=True)


def threads_for(lowered: LoweredKernel, threads: int | None) -> int:
    """The threads that a run is made on: as asked for, else all processors, where the kernel is long."""
    kernel = lowered.kernel
    if threads is not None and threads < 1:
        raise SmlabError.at("threads", "out of range", threads, "at least 1")
    if threads is None:
        # Of machine code, loops are not known: each instruction counts once.
        few = FEW_OF_CODE if lowered.source is not None else FEW_INSTRUCTIONS
        # A worker process leaves the other processors to those beside it.
        alone = multiprocessing.parent_process() is None
        threads = processors() if alone and kernel.warp_instructions > few else 1
    return max(1, min(threads, kernel.sms))


def share_nothing(lowered: LoweredKernel, memory: Memory) -> bool:
    """Whether SMs share nothing, not even blocks that wait: then each thread has some of its own."""
    kernel = lowered.kernel
    fit = kernel.blocks <= kernel.sms * memory["blocks_per_sm"]
    return fit and lowered.source is None and not memory["uses_memory"]


def serial_reason(lowered: LoweredKernel, keep: Record, threads: int) -> str | None:
    """Why SMs cannot take turns on several threads; None where they can."""
    source, sms = lowered.source, lowered.kernel.sms
    if source is not None and (reason := source.serial_reason(sms, threads)) is not None:
        return reason
    return None if keep is Record.TOTALS else "more than totals is recorded"


class SmRange:
    """Some SMs of a run."""

    def __init__(self, memory: Memory, low: int, high: int) -> None:
        self.memory = memory
        self.low = low
        self.high = high

    def split(self, count: int) -> list[SmRange]:
        """Hand out the blocks and divide the SMs, so that each part has its own counters and tables for
        records."""
        while self.advance(0) == layout.CROWDED:
            grow(self.memory)
            self.memory.common["stopping"] = 0
        self.memory.common["stopping"] = 0
        bounds = [self.low + (self.high - self.low) * n // count for n in range(count + 1)]
        parts = [self]
        for low, high in itertools.pairwise(bounds[1:]):
            own = self.memory.copy()
            own["retired_blocks"] = 0
            own.put("common", self.memory.tables["common"].copy())
            own.put("thread", np.zeros_like(self.memory.tables["thread"]))
            make_rows(own)
            parts.append(SmRange(own, low, high))
        self.high = bounds[1]
        return parts

    def share(self, threads: int, execution: SharedExecution | None) -> list[SmRange]:
        """Make the state the one before the launch; the same SMs for each of several threads, which take them
        in turn."""
        share(self.memory, threads)
        begin(self.memory.address)
        parts = [self]
        for number in range(1, threads):
            own = self.memory.copy()
            own["thread"] = number
            if own["instructions"]:
                own.put("stall_of", aligned(len(own.tables["stall_of"]), layout.CELL))
            if execution is not None:
                own["context"] = execution.another_context()
            parts.append(SmRange(own, self.low, self.high))
        return parts

    def run(self, progress: Progress | None = None, stopped: Stopped = lambda: False) -> None:
        """Run to the end, or as far as it goes. Python gets its turn now and then, so that Ctrl-C is
        heard."""
        memory = self.memory
        while True:
            memory.common["stopping"] = 0
            status = self.advance(SLICE)
            if status == layout.CROWDED:
                grow(memory)
            elif status != layout.PAUSED or stopped():
                return
            elif progress is not None:
                progress(memory["retired_blocks"], memory["blocks"])

    def advance(self, steps: int) -> int:
        return int(advance(self.memory.address, self.low, self.high, steps))


def run_threads(
    parts: Sequence[SmRange], execution: SharedExecution | None, progress: Progress | None
) -> str | None:
    """Run the SMs that all ``parts`` share to the end, a thread each. All come back to Python when one has
    to. Where threads met so that the run is void, it says where."""
    memory, blocks = parts[0].memory, parts[0].memory["blocks"]
    states, calls, next_check = [part.memory for part in parts], 0, 1
    while True:
        memory.common["stopping"] = 0
        try:
            found = in_threads(lambda part, stopped: part.advance(SLICE), parts, len(parts))
        except BaseException:
            memory.common["stopping"] = 1
            raise
        calls += 1
        # A run that is void is so from then on. Each look costs milliseconds, so half of it may be in vain.
        ends = any(status not in (layout.PAUSED, layout.CROWDED) for status in found)
        if execution is not None and (calls == next_check or ends):
            next_check = 2 * calls
            if (met := execution.conflict()) is not None:
                return met
        if layout.CROWDED in found:
            grow(memory, states[1:])
        elif any(status != layout.PAUSED for status in found):
            break
        elif progress is not None:
            progress(sum(state["retired_blocks"] for state in states), blocks)
    memory["cycles"] = max(state["cycles"] for state in states)
    for state in states[1:]:
        if memory["instructions"]:
            memory.tables["stall_of"]["value"] += state.tables["stall_of"]["value"]
    if execution is not None:
        execution.add_contexts()
    return None


def grow(memory: Memory, others: Sequence[Memory] = ()) -> None:
    """Double the tables that are more than half full, for all threads."""
    step = memory["schedulers"]  # rows that one step of an SM may add, for which there was no room
    for kind, spare in (("job", step), ("issue", step), ("span", layout.SPARE_SPANS)):
        table, used = memory.tables[f"{kind}_row"], memory[f"{kind}s_kept"]
        if 2 * (used + spare) > len(table):
            larger = np.empty(2 * len(table), dtype=table.dtype)
            larger[:used] = table[:used]
            memory.put(f"{kind}_row", larger)
            memory[f"{kind}_rows"] = len(larger)
    old = memory["accesses"]
    if 2 * int(memory.common["next_access"]) > old:
        for name in ("access", "answer", "sector", "request"):
            table = memory.tables[name]
            larger = aligned(2 * len(table), table.dtype)
            larger[: len(table)] = table
            for each in (memory, *others):
                each.put(name, larger)
        for each in (memory, *others):
            each["accesses"] = 2 * old


Table = NDArray[np.int64]


def l2_lines(memory: Memory) -> Callable[[], NDArray[np.int64]]:
    """What tells the lines that L2 holds, (lines, 3), by set, the least recently used one first."""
    l2 = memory.tables["cache"][memory["sms"]]
    first = int(l2["first_set"])
    heads = memory.tables["cache_set"][first : first + int(l2["sets"])]
    return partial(_l2_lines, heads, memory.tables["line"])


def _l2_lines(heads: NDArray[Any], line: NDArray[Any]) -> NDArray[np.int64]:
    sets = np.flatnonzero(heads["oldest"])
    at, found, owner = heads["oldest"][sets] - 1, [], []
    while len(at):  # a step for each way: the next line of every set that has one
        found.append(at)
        owner.append(sets)
        newer = line["newer"][at]
        sets, at = sets[newer > 0], newer[newer > 0].astype(np.int64) - 1
    if not found:
        return no_lines()
    order = np.argsort(np.concatenate(owner), kind="stable")
    rows = line[np.concatenate(found)[order]]
    return np.column_stack([rows["tag"], rows["valid"], rows["dirty"]]).astype(np.int64)


def collect(lowered: LoweredKernel, keep: Record, parts: Sequence[Memory], begun: float) -> SimResult:
    """The result of a run that was made in one part or several."""
    memory = parts[0]
    if lowered.l2 is not None and memory["uses_memory"]:
        lowered.l2.leave(lowered.machine, l2_lines(memory))
    table = memory.tables["sm"]
    caches = memory.tables["cache"].tolist() if memory["uses_memory"] else [(0,) * 8] * (len(table) + 1)
    sms = tuple(
        SmTruth(
            sm=i,
            warp_instructions=sm["instructions"],
            resident_warp_cycles=sm["resident_area"],
            active_cycles=sm["active_cycles"],
            atomic_arrivals=sm["atomic_jobs"],
            atomic_completions=sm["atomic_jobs"],
            atomic_cas_jobs=sm["cas_jobs"],
            atomic_job_cycles=sm["atomic_area"],
            atomic_cas_job_cycles=sm["cas_area"],
            atomic_busy_cycles=sm["atomic_busy"] + sm["atomic_until"] - sm["busy_since"],
            atomic_occupied_cycles=sm["atomic_occupied"],
            thread_operations=sm["lanes"],
            atomic_passes=sm["passes"],
            stage_occupied_cycles=sm["stage_occupied"],
            shared_load_passes=sm["load_passes"],
            shared_store_passes=sm["store_passes"],
            l1_sector_hits=caches[i][-2],
            l1_sector_misses=caches[i][-1],
            l1_store_sectors=sm["store_sectors"],
        )
        for i, row in enumerate(table.tolist())
        for sm in (dict(zip(layout.SM.names or (), row, strict=True)),)
    )
    blocks = memory.tables["block"]
    cycles = max(part["cycles"] for part in parts)
    everything = keep is Record.ALL
    return SimResult(
        kernel=lowered.kernel.name,
        gpu=lowered.machine.name,
        engine="compiled",
        policy=lowered.machine.policy,
        seed=lowered.seed,
        max_warps=lowered.machine.max_warps,
        cycles=cycles,
        warp_instructions=sum(sm.warp_instructions for sm in sms),
        wall_s=time.perf_counter() - begun,
        sms=sms,
        memory=MemoryTruth(
            caches[len(table)][-2],
            caches[len(table)][-1],
            int(memory.common["dram_sectors"]),
            lowered.machine.dram_sectors_left(int(memory.common["dram_free"]), cycles),
            int(memory.tables["slice"]["busy"].sum()),
            int(memory.tables["slice"]["busy"].max(initial=0)),
            int(memory.common["merged_sectors"]),
        ),
        warps=_warps(memory),
        blocks=BlockTable(
            np.arange(len(blocks)), blocks["sm"].copy(), blocks["launch"].copy(), blocks["retire"].copy()
        ),
        launch=launch_of(lowered),
        jobs=None if keep is Record.TOTALS else _jobs(_rows(parts, "job")),
        issues=_issues(_rows(parts, "issue")) if everything else None,
        spans=_spans(_rows(parts, "span")) if everything else None,
        instruction_stalls=_by_instruction(memory) if lowered.by_instruction else None,
        instruction_executions=None if lowered.source is None else executions_of(lowered.source),
    )


def _rows(parts: Sequence[Memory], kind: str) -> Table:
    """What was written down of one kind, as a table of numbers."""
    tables = [part.rows(kind) for part in parts]
    width = tables[0].dtype.itemsize // 8
    plain: list[Table] = [table.view(np.int64).reshape(-1, width) for table in tables]
    return plain[0] if len(plain) == 1 else np.concatenate(plain)


def _by_instruction(memory: Memory) -> Table:
    table: Table = memory.tables["stall_of"].view(np.int64).reshape(-1, layout.REASON_WORDS)
    kinds = memory.tables["op"].view(layout.OP)["kind"].reshape(-1)
    found: Table = table[kinds == layout.OPERATION, : layout.REASONS]  # neither loops nor programs' ends
    return found


def _warps(memory: Memory) -> WarpTable:
    """The warps of the grid, without the places that are empty."""
    roles = memory.tables["role"]
    runs = np.broadcast_to(roles, (memory["blocks"], memory["places"])).reshape(-1) >= 0
    rows = memory.tables["warp_row"].view(np.int64).reshape(len(runs), -1)
    stalls = memory.tables["stall_row"].view(np.int64).reshape(len(runs), -1)[:, : layout.REASONS]
    index = np.nonzero(runs)[0]
    if len(index) < len(runs):
        rows, stalls = rows[index], stalls[index]
    sm, slot, block, launch, finish = rows.T
    return WarpTable(index, sm, slot, block, launch, finish, stalls)


def _jobs(table: Table) -> JobTrace:
    """The jobs in the order of SM and sequence. Each SM's are in order already."""
    if len(table) and np.any(table[1:, 0] < table[:-1, 0]):
        table = table[np.argsort(table[:, 0], kind="stable")]
    return JobTrace(*np.ascontiguousarray(table.T))


def _issues(table: Table) -> IssueTrace:
    """The issues in the order of cycle, SM and scheduler; they are nearly so already."""
    key = (table[:, 0] << 20) + (table[:, 1] << 8) + table[:, 2]
    order = np.argsort(key, kind="stable")
    return IssueTrace(*(column[order] for column in table.T))


def _spans(table: Table) -> SpanTrace:
    """The spans by warp. Each warp's are in order already, so this is one stable sort, fast for small
    numbers."""
    warps = table[:, 1]
    few = len(warps) and int(warps.max()) < 1 << 16
    order = np.argsort(warps.astype(np.uint16) if few else warps, kind="stable")
    return SpanTrace(*(column[order] for column in table.T))

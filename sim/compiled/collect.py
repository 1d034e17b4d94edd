"""From the arrays of a finished run to its result."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from smlab.sim.compiled import layout
from smlab.sim.compiled.prepare import Memory
from smlab.sim.launch import executions_of, launch_of
from smlab.sim.level_two import no_lines
from smlab.sim.lowering import LoweredKernel
from smlab.sim.reference.record import Record
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

Table = NDArray[np.int64]


def l2_lines(memory: Memory) -> NDArray[np.int64]:
    """The lines that L2 holds, (lines, 3), by set, the least recently used one first."""
    l2, line = memory.tables["cache"][memory["sms"]], memory.tables["line"]
    first = int(l2["first_set"])
    heads = memory.tables["cache_set"][first : first + int(l2["sets"])]
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
            memory["dram_sectors"],
            lowered.machine.dram_sectors_left(memory["dram_free"], cycles),
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
    stalls = memory.tables["stall"].view(np.int64).reshape(len(runs), -1)[:, : layout.REASONS]
    index = np.nonzero(runs)[0]
    sm, slot, block, launch, finish = np.ascontiguousarray(rows[index].T)
    return WarpTable(index, sm, slot, block, launch, finish, stalls[index])


def _jobs(table: Table) -> JobTrace:
    """The jobs in the order of SM and sequence. Each SM's are in order already."""
    if len(table) and np.any(table[1:, 0] < table[:-1, 0]):
        table = table[np.argsort(table[:, 0], kind="stable")]
    return JobTrace(*np.ascontiguousarray(table.T))


def _issues(table: Table) -> IssueTrace:
    """The issues in the order of cycle, SM and scheduler; they are nearly so already."""
    key = (table[:, 0] << 20) + (table[:, 1] << 8) + table[:, 2]
    return IssueTrace(*np.ascontiguousarray(table[np.argsort(key, kind="stable")].T))


def _spans(table: Table) -> SpanTrace:
    """The spans by warp. Each warp's are in order already, so this is one stable sort, fast for small
    numbers."""
    warps = table[:, 1]
    few = len(warps) and int(warps.max()) < 1 << 16
    order = np.argsort(warps.astype(np.uint16) if few else warps, kind="stable")
    return SpanTrace(*np.ascontiguousarray(table[order].T))

"""Traces that open in Perfetto (or chrome://tracing): the Trace Event Format, one microsecond standing for
one cycle."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from smlab.hw_bench.files import write_atomic
from smlab.sim.instructions import CLASS_NAMES, Reason, Unit
from smlab.sim.result import JobTrace, SimResult

UNIT_NAMES = {Unit.SHARED: "shared-memory pipe", Unit.ATOMIC: "atomic unit", Unit.GLOBAL: "global memory"}
_UNIT_TRACK = 10_000  # thread ids of the units, above those of the warps


@dataclass(frozen=True)
class InstructionName:
    """An instruction of machine code as a trace shows it: its text, address, and line of the source."""

    text: str
    address: int
    line: int | None

    @property
    def arguments(self) -> dict[str, Any]:
        place = {} if self.line is None else {"line": self.line}
        return {"instruction": self.text, "address": f"{self.address:#06x}", **place}


def trace_events(result: SimResult, instructions: Sequence[InstructionName] = ()) -> list[dict[str, Any]]:
    """Complete events for warp states and jobs, and a counter for n, the atomic jobs in the unit.

    Each SM is a process; its warps' slots are threads, and each unit has a track with its server's jobs.
    Arguments of a job give its warp and its issue and completion. With the ``instructions`` of machine code,
    each issue is an event with the instruction's text, and a state says at which one the warp was.
    """
    events: list[dict[str, Any]] = []
    for sm in result.sms:
        events.append(_named("process_name", sm.sm, 0, f"SM {sm.sm} of {result.gpu}"))
        for slot in sorted(set(result.warps.slot[result.warps.sm == sm.sm].tolist())):
            events.append(_named("thread_name", sm.sm, slot, f"warp slot {slot}"))
        for unit, name in UNIT_NAMES.items():
            events.append(_named("thread_name", sm.sm, _UNIT_TRACK + unit, name))
    slot_of = dict(zip(result.warps.warp.tolist(), result.warps.slot.tolist(), strict=True))
    if result.spans is not None:
        spans = result.spans
        at = _instruction_at(result, instructions)
        for sm_index, warp, reason, begin, end in zip(
            spans.sm, spans.warp, spans.reason, spans.begin, spans.end, strict=True
        ):
            state = _complete(Reason(reason).label, int(sm_index), slot_of[warp], int(begin), int(end))
            state["args"] = at(int(warp), int(begin), int(reason))
            events.append(state)
    if result.issues is not None and instructions:
        issues = result.issues
        for cycle, sm_index, warp, number in zip(
            *(x.tolist() for x in (issues.cycle, issues.sm, issues.warp, issues.slot)), strict=True
        ):
            name = instructions[number]
            issued = _complete(name.text, sm_index, slot_of[warp], cycle, cycle + 1)
            issued["args"] = name.arguments
            events.append(issued)
    if result.jobs is not None:
        events.extend(_job_events(result.jobs))
        for sm in result.sms:
            events.extend(_queue_length(result.jobs.of_unit(Unit.ATOMIC, sm.sm), sm.sm))
    return events


def _instruction_at(
    result: SimResult, instructions: Sequence[InstructionName]
) -> Callable[[int, int, int], dict[str, Any]]:
    """Tells the instruction that a warp was at in a cycle: the next one that it issued. At a barrier, and
    when only jobs are in flight, it is the one before (SEMANTICS 9)."""
    if result.issues is None or not instructions:
        return lambda warp, cycle, reason: {}
    order = np.lexsort((result.issues.cycle, result.issues.warp))
    warps, cycles = result.issues.warp[order], result.issues.cycle[order]
    numbers = result.issues.slot[order]
    first = {int(w): int(np.searchsorted(warps, w)) for w in np.unique(warps)}
    behind = {int(w): int(np.searchsorted(warps, w, side="right")) for w in np.unique(warps)}

    def told(warp: int, cycle: int, reason: int) -> dict[str, Any]:
        if warp not in first:
            return {}
        begin, end = first[warp], behind[warp]
        place = begin + int(np.searchsorted(cycles[begin:end], cycle))
        place = min(max(begin, place - (reason in (Reason.BARRIER, Reason.DRAIN))), end - 1)
        return instructions[int(numbers[place])].arguments

    return told


def write_chrome_trace(result: SimResult, path: Path, instructions: Sequence[InstructionName] = ()) -> None:
    """Write the trace as JSON; of machine code, with its instructions."""
    document = {
        "traceEvents": trace_events(result, instructions),
        "displayTimeUnit": "ns",
        "otherData": {
            "kernel": result.kernel,
            "gpu": result.gpu,
            "time unit": "1 us in the viewer is 1 SM cycle",
        },
    }
    write_atomic(path, json.dumps(document, separators=(",", ":")))


def _named(what: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": name}}


def _complete(name: str, process: int, thread: int, begin: int, end: int, **args: int) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": name,
        "pid": process,
        "tid": thread,
        "ts": begin,
        "dur": end - begin,
        "args": args,
    }


def _job_events(jobs: JobTrace) -> list[dict[str, Any]]:
    return [
        _complete(
            CLASS_NAMES[jobs.op[i]],
            int(jobs.sm[i]),
            _UNIT_TRACK + int(jobs.unit[i]),
            int(jobs.start[i]),
            int(jobs.end[i]),
            warp=int(jobs.warp[i]),
            passes=int(jobs.passes[i]),
            lanes=int(jobs.lanes[i]),
            issue=int(jobs.issue[i]),
            completion=int(jobs.completion[i]),
        )
        for i in range(len(jobs))
    ]


def _queue_length(jobs: JobTrace, sm: int) -> list[dict[str, Any]]:
    """The level n(t) at each cycle in which it changes."""
    moments = np.concatenate([jobs.issue, jobs.completion])
    steps = np.concatenate([np.ones(len(jobs), dtype=np.int64), -np.ones(len(jobs), dtype=np.int64)])
    times, inverse = np.unique(moments, return_inverse=True)
    levels = np.cumsum(np.bincount(inverse, weights=steps, minlength=len(times))).astype(np.int64)
    return [
        {"ph": "C", "name": "atomic jobs n", "pid": sm, "tid": 0, "ts": int(t), "args": {"n": int(level)}}
        for t, level in zip(times, levels, strict=True)
    ]

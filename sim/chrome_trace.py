"""Traces that open in Perfetto (or chrome://tracing): the Trace Event Format, one microsecond standing for
one cycle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from smlab.hw_bench.files import write_atomic
from smlab.sim.instructions import CLASS_NAMES, Reason, Unit
from smlab.sim.result import JobTrace, SimResult

UNIT_NAMES = {Unit.SHARED: "shared-memory pipe", Unit.ATOMIC: "atomic unit", Unit.GLOBAL: "global memory"}
_UNIT_TRACK = 10_000  # thread ids of the units, above those of the warps


def trace_events(result: SimResult) -> list[dict[str, Any]]:
    """Complete events for warp states and jobs, and a counter for n, the atomic jobs in the unit.

    Each SM is a process; its warps' slots are threads, and each unit has a track with its server's jobs.
    Arguments of a job give its warp and its issue and completion.
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
        for sm_index, warp, reason, begin, end in zip(
            spans.sm, spans.warp, spans.reason, spans.begin, spans.end, strict=True
        ):
            events.append(_complete(Reason(reason).label, int(sm_index), slot_of[warp], int(begin), int(end)))
    if result.jobs is not None:
        events.extend(_job_events(result.jobs))
        for sm in result.sms:
            events.extend(_queue_length(result.jobs.of_unit(Unit.ATOMIC, sm.sm), sm.sm))
    return events


def write_chrome_trace(result: SimResult, path: Path) -> None:
    """Write the trace as JSON."""
    document = {
        "traceEvents": trace_events(result),
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

"""A run as ``smlab run --json`` prints it, and ``smlab compare`` reads it."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from smlab.commands.kernel_page.source_text import source_of
from smlab.commands.run.rates import rates
from smlab.commands.run.real_time import RealTime
from smlab.commands.run.steady import SteadyRun
from smlab.sim.execution.run import MachineRun, TimedRun
from smlab.sim.workloads.workload import blocks_per_sm
from smlab.validation.grid_counters import whole_gpu


def run_document(
    done: TimedRun, real_time: RealTime, wall: float, checks: Sequence[Mapping[str, object]] = ()
) -> dict[str, Any]:
    """The run as one JSON document."""
    return {
        "kernel": done.result.kernel,
        "gpu": done.result.gpu,
        "engine": done.result.engine,
        "cycles": done.cycles,
        "seconds": real_time.seconds,
        "profiled_seconds": real_time.profiled,
        "events_seconds": real_time.by_events,
        "seconds_low": real_time.low,
        "seconds_high": real_time.high,
        "clock_hz": real_time.clock_hz,
        "alternative": real_time.alternative,
        "alternatives": [{"name": name, "seconds": seconds} for name, seconds in real_time.alternatives],
        "anchor_factor": real_time.anchor_factor,
        **_resources(done),
        "cycles_low": done.cycles_low,
        "cycles_high": done.cycles_high,
        "rates": rates(done, real_time.seconds),
        "warp_instructions": done.result.warp_instructions,
        "wall_s": wall,
        "sms": done.sms,
        **_attempts(done),
        "blocks": done.blocks,
        "blocks_simulated": done.blocks_simulated,
        **_launch(done),
        "counters": whole_gpu(done),
        "atomic": dataclasses.asdict(done.result.atomic),
        "stalls": done.result.stalls,
        "instructions": [dataclasses.asdict(i) for i in done.instructions],
        "notes": list(done.notes),
        "printed": done.printed if isinstance(done, MachineRun) else "",
        "checks": list(checks),
        "ok": not any(check["verdict"] == "fell short" for check in checks),
    }


def _attempts(done: TimedRun) -> dict[str, object]:
    """What ``--sms auto`` tried, the last of which is the run, and why it ended there."""
    if not isinstance(done, SteadyRun):
        return {}
    return {"sms_tried": [dataclasses.asdict(a) for a in done.attempts], "sms_why": done.why}


def _resources(done: TimedRun) -> dict[str, object]:
    """What the compiler and the launch ask of an SM; nothing for a trace, which does not tell."""
    if not isinstance(done, MachineRun):
        return {}
    blocks = blocks_per_sm(done.lowered.kernel, done.lowered.machine)
    return {
        "registers": done.launch.image.registers,
        "spilled_bytes": done.launch.image.local_bytes,
        "shared_bytes": done.launch.shared_bytes,
        "resident_warps": blocks * done.launch.warps_per_block,
    }


def _launch(done: TimedRun) -> dict[str, object]:
    """The launch's shape; nothing for a trace, which has its number of blocks alone."""
    if not isinstance(done, MachineRun):
        return {}
    return {"grid": list(done.launch.grid), "block": list(done.launch.block)}


def results_document(done: MachineRun, kernel: str, arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """What a later comparison needs besides: digests of the arrays that came back, of a whole grid, and the
    text of the source lines that have machine code."""
    used = {i.line for i in done.instructions if i.line is not None}
    source = {str(line): text for line, text in source_of(done.launch, kernel).items() if line in used}
    digests = {name: digest_of(array) for name, array in arrays.items()} if done.whole else {}
    return {"returned": digests, "source_lines": source}


def digest_of(array: np.ndarray) -> str:
    """An array's type, shape and content in a word."""
    content = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
    return f"{array.dtype.name}:{array.size}:{content}"

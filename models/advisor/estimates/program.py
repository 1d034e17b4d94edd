"""What the warps of a block execute, as a replay takes it: paths with what each step waits for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from smlab.models.advisor.code import AdvisedCode
from smlab.models.advisor.estimates.replay import OPERANDS, RESULT, Ints, Steps
from smlab.models.advisor.estimates.service_demands import Costs
from smlab.models.advisor.stall_causes.warp_paths import WarpPath


@dataclass(frozen=True)
class Track:
    """One path with what each step waits for, ``(earlier step, RESULT or OPERANDS)``, its stall count and the
    line of code that it lies in."""

    steps: tuple[int, ...]
    waits: tuple[tuple[tuple[int, int], ...], ...]
    stalls: tuple[int, ...]
    lines: tuple[int, ...]


@dataclass(frozen=True)
class WarpProgram:
    """What the warps of a block execute, in turn."""

    tracks: tuple[Track, ...]


def program_of(
    code: AdvisedCode, paths: Iterable[WarpPath], stall: Ints, instructions_a_line: int
) -> WarpProgram:
    """Paths as tracks, with the stall counts of the code."""
    return WarpProgram(
        tuple(
            Track(
                p.steps,
                waits_of(code, p.steps),
                tuple(stall[list(p.steps)].tolist()),
                tuple(s // instructions_a_line for s in p.steps),
            )
            for p in paths
        )
    )


def waits_of(code: AdvisedCode, steps: Sequence[int]) -> tuple[tuple[tuple[int, int], ...], ...]:
    """What each step of a path waits for: what was put on the scoreboards in its wait mask since they were
    last waited for, or without control codes the last writers of what it reads."""
    if not code.has_control_codes:
        return _by_registers(code, steps)
    out: dict[str, list[tuple[int, int]]] = {}
    waits = []
    for s, i in enumerate(steps):
        effects = code.effects[i]
        mine: list[tuple[int, int]] = []
        for name in effects.waits:
            mine += out.pop(name, ())
        waits.append(tuple(sorted(mine)))  # an order that no hash decides
        if effects.result_on is not None:
            out.setdefault(effects.result_on, []).append((s, RESULT))
        if effects.operands_on is not None:
            out.setdefault(effects.operands_on, []).append((s, OPERANDS))
    return tuple(waits)


def _by_registers(code: AdvisedCode, steps: Sequence[int]) -> tuple[tuple[tuple[int, int], ...], ...]:
    writer: dict[str, int] = {}
    waits = []
    for s, i in enumerate(steps):
        effects = code.effects[i]
        waits.append(tuple(sorted({(writer[name], RESULT) for name in effects.reads if name in writer})))
        for name in effects.writes:
            writer[name] = s
    return tuple(waits)


def steps_of(program: WarpProgram, costs: Costs) -> Steps:
    """All tracks one behind the other, with what each step takes."""
    tracks = program.tracks
    numbers = np.array([i for t in tracks for i in t.steps], dtype=np.int64)
    first = np.cumsum([0, *(len(t.steps) for t in tracks)]).astype(np.int64)
    counts = [len(w) for t in tracks for w in t.waits]
    begins = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    flat = [pair for t in tracks for w in t.waits for pair in w]
    stalls = np.array([x for t in tracks for x in t.stalls], dtype=np.int64)
    lines = np.array([x for t in tracks for x in t.lines], dtype=np.int64)
    pairs = np.array(flat, dtype=np.int64).reshape(-1, 2)
    waited, what = (np.ascontiguousarray(pairs[:, n]) for n in (0, 1))
    return Steps(
        numbers, lines, stalls, **taken(costs, numbers), first=first, begins=begins, waited=waited, what=what
    )


def taken(costs: Costs, numbers: Ints) -> dict[str, Any]:
    """What the steps of some instructions take, as `Steps` has it."""
    names = ("unit", "pipe", "interval", "latency", "reading", "tail", "near", "miss", "work")
    return {name: getattr(costs, name)[numbers] for name in names}

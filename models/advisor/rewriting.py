"""Changes to a kernel as its replay sees them: steps that go, take less, or come in another order.

What a compiler makes of a change is guessed by simple rules, stated with each. `Rewrite` says what changes,
`rewritten` replays it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.sass.opcodes import is_load
from smlab.models.advisor.caching import leader
from smlab.models.advisor.costs import PIPES, Costs, atomic_work
from smlab.models.advisor.path import Lap
from smlab.models.advisor.program import Track, WarpProgram
from smlab.models.advisor.replay import ATOMIC, EXCHANGE, FREE, GLOBAL, PIPE, RESULT, WORK
from smlab.models.advisor.rewrite import Edit, Rewrite
from smlab.models.advisor.rounds import BRANCH_CYCLES, WORDS_TOGETHER, reordered
from smlab.models.advisor.sm_model import KernelModel

SHARED_BY_SMS: Final = ("l2", "dram", "words")
RETRY_INSTRUCTIONS: Final = 10
"""Issued in a round of compare-and-swap beside the accesses, with their stall counts."""


def rewritten(model: KernelModel, change: Rewrite, costs_before: Costs | None = None) -> int:
    """Cycles of the changed kernel's replay; ``costs_before`` are others than the model's."""
    before = model.costs if costs_before is None else costs_before
    program = model.evened if change.even else model.regrouped if change.regrouped else model.program
    tracks: Sequence[Track] = program.tracks
    if change.order != "as is" and change.loops:
        laps = [path.laps for path in model.paths]
        tracks = [reordered(model, *both, change) for both in zip(tracks, laps, strict=True)]
    if change.repeated:
        far = frozenset(n for n, kind in enumerate(model.context.code.kinds) if kind == "global")
        laps = [path.laps for path in model.paths]
        tracks = [_repeated(*both, change, far) for both in zip(tracks, laps, strict=True)]
    costs = _edited(model, change, before)
    tracks = [_replaced(track, change, before) for track in tracks]
    frame = model.frame if change.merged == 1 else model.merged(change.merged)
    if change.regrouped:
        frame = dataclasses.replace(frame, turning=False)
    if change.spread > 1:  # each SM has fewer warps, and a smaller share of what all SMs share
        fewer = max(1, round(frame.warps_of_block / change.spread))
        costs.work[:, [WORK.index(name) for name in SHARED_BY_SMS]] *= frame.warps_of_block / fewer
        frame = dataclasses.replace(frame, warps_of_block=fewer)
    return model.cycles(costs, WarpProgram(tuple(tracks)), frame)


def _edited(model: KernelModel, change: Rewrite, before: Costs) -> Costs:
    costs, gpu = before.copy(), model.context.gpu
    front = gpu.number("mio.front_cycles")
    if change.flushed is not None:
        costs.take(costs.extra("flush"), change.flushed)
        costs.work[costs.extra("flush"), WORK.index("words")] = 0  # its lanes are on words of their own
    for n in change.widened:  # as many passes as before, but one for each word at least
        costs.work[n, 0] *= max(model.passes(n), WORDS_TOGETHER) / max(model.passes(n), 1.0)
    for n, edit in change.edits.items():
        instruction = model.context.code.instructions[n]
        if edit.free:
            _followed(model, costs, n)
            costs.unit[n], costs.pipe[n], costs.work[n] = FREE, -1, 0
        elif edit.pipe is not None:
            costs.unit[n], costs.pipe[n] = PIPE, PIPES.index(edit.pipe)
            costs.interval[n] = round(gpu.number(f"pipe.{edit.pipe}.interval_cycles"))
            costs.latency[n] = round(gpu.number(f"pipe.{edit.pipe}.latency_cycles"))
        elif edit.constant:
            costs.take(n, costs.extra("constant"))
        elif edit.exchanged:
            costs.take(n, costs.extra("shuffle"))
        elif edit.staged:
            costs.miss[n] = 1.0
        elif edit.retried:
            _retried(costs, n, edit, gpu)
        elif edit.shared and edit.passes is not None:
            costs.unit[n], costs.work[n] = ATOMIC, 0
            costs.work[n, :2] = atomic_work(gpu, instruction, edit.passes)
            costs.tail[n] = (
                gpu.number("atomic.add.latency_cycles") - front - atomic_work(gpu, instruction, 1)[1]
            )
        elif edit.shared:
            # What others fetch into shared memory comes the same way, but is fetched ahead.
            costs.work[n, 0] = gpu.number("shared.interval_cycles_per_pass")
            costs.work[n, 2:] *= costs.miss[n]
            costs.unit[n], costs.miss[n] = EXCHANGE, 1.0
            costs.tail[n] = gpu.number("shared.load_latency_cycles") - front - 1
        elif edit.passes is not None:
            if costs.work[n, 1]:
                costs.work[n, :2] = atomic_work(gpu, instruction, edit.passes)
            else:
                costs.work[n, 0] *= edit.passes / max(model.passes(n), 1.0)
        costs.work[n, 2:4] *= edit.traffic
        costs.work[n, 4] *= edit.dram
    return costs


def _followed(model: KernelModel, costs: Costs, n: int) -> None:
    """What a load brought into L1 is brought by the next one that asks for the same sector."""
    code, executed = model.context.code, model.context.executed
    if costs.unit[n] != GLOBAL or not is_load(code.instructions[n]):
        return
    block = code.flow.blocks[code.block_of[n]]
    after = range(n + 1, code.number[block.instructions[-1].address] + 1)
    loads = (m for m in after if code.kinds[m] == "global" and is_load(code.instructions[m]))
    first = leader(code, n)
    nearest = next((m for m in loads if executed.get(m) and leader(code, m) == first), None)
    if nearest is not None and costs.miss[n] > costs.miss[nearest]:
        costs.miss[nearest] = costs.miss[n]
        costs.tail[nearest] = max(costs.tail[nearest], costs.tail[n])
        costs.work[nearest, 2:] = np.maximum(costs.work[nearest, 2:], costs.work[n, 2:])


def _retried(costs: Costs, n: int, edit: Edit, gpu: Gpu) -> None:
    """A loop of load, operation and compare-and-swap in shared memory, as one step that takes all rounds."""
    front = gpu.number("mio.front_cycles")
    base, each = (gpu.number(f"atomic.cas.{k}_interval_cycles") for k in ("base", "pass"))
    swap = gpu.number("atomic.cas.latency_cycles") - front
    again = gpu.number("shared.load_latency_cycles") + front + BRANCH_CYCLES + RETRY_INSTRUCTIONS
    costs.unit[n], costs.work[n] = ATOMIC, 0
    costs.work[n, 0] = edit.retried * gpu.number("shared.interval_cycles_per_pass")
    costs.work[n, 1] = edit.retried * (base + each * (edit.passes or 1.0))
    costs.tail[n] = edit.retried * (swap + again)


def _expanded(n: int, edit: Edit | None, row: Callable[[str], int]) -> tuple[tuple[int, bool], ...]:
    """The steps that come in the place of one, each with whether it waits for the one before; the last has
    the result."""
    plain = ((n, False),)
    if edit is None:
        return plain
    arithmetic = row("arithmetic")
    if edit.chain:
        return ((arithmetic, False),) * edit.chain
    if edit.exchanged:
        return (*plain, (arithmetic, True))
    if edit.staged:
        barrier = (row("barrier"), False)
        return (barrier, *plain, (row("store"), True), barrier, (row("load"), False))
    if edit.retried:
        return (*plain, (arithmetic, True))
    return ((arithmetic, False),) * edit.added + plain


def _replaced(track: Track, change: Rewrite, costs: Costs) -> Track:
    """Without some instructions, and with others in the place of some or around them."""
    place: dict[int, int] = {}
    steps: list[int] = []
    waits: list[tuple[tuple[int, int], ...]] = []
    stalls: list[int] = []
    lines: list[int] = []
    left: tuple[tuple[int, int], ...] = ()

    def put(rows: Iterable[tuple[int, bool]], line: int, first: tuple[tuple[int, int], ...] = ()) -> None:
        for number, after in rows:
            waits.append((*first, (len(steps) - 1, RESULT)) if after else first)
            first = ()
            steps.append(number)
            stalls.append(int(costs.stall[number]))
            lines.append(line)

    flushed = change.flushed is not None
    if flushed:
        put([(costs.extra("store"), False), (costs.extra("barrier"), False)], track.lines[0])
    for s, n in enumerate(track.steps):
        if flushed and s == len(track.steps) - 1:
            rows = [(costs.extra("barrier"), False), (costs.extra("load"), False)]
            put([*rows, (costs.extra("flush"), True)], track.lines[s])
        kept = (*left, *((place[at], what) for at, what in track.waits[s] if at in place))
        left = ()
        if n in change.removed:
            left = kept if change.condensed else ()
            continue
        edit = change.edits.get(n)
        put(_expanded(n, edit, costs.extra), track.lines[s], kept)
        if edit is not None and edit.chain:
            continue
        place[s] = len(steps) - 1
        stalls[-1] = track.stalls[s] if edit is None or edit.stall is None else edit.stall
    return Track(tuple(steps), tuple(waits), tuple(stalls), tuple(lines))


def _repeated(track: Track, laps: Sequence[Lap], change: Rewrite, far: frozenset[int]) -> Track:
    """Rounds of some loops so many times; what goes ``far`` once."""
    again = {lap.begin: lap.end for lap in laps if lap.header in change.repeated}
    place: dict[int, int] = {}
    steps: list[int] = []
    waits: list[tuple[tuple[int, int], ...]] = []
    stalls: list[int] = []
    lines: list[int] = []
    s, end, left = 0, 0, 0
    while s < len(track.steps):
        if s in again and left == 0:
            end, left = again[s], change.times
        if not (left > 1 and track.steps[s] in far):
            waits.append(tuple((place[p], what) for p, what in track.waits[s] if p in place))
            place[s] = len(steps)
            steps.append(track.steps[s])
            stalls.append(track.stalls[s])
            lines.append(track.lines[s])
        s += 1
        if left and s == end:
            left -= 1
            s = s if left == 0 else next(b for b, e in again.items() if e == end)
    return Track(tuple(steps), tuple(waits), tuple(stalls), tuple(lines))

"""Changes to a kernel as its replay sees them: steps that go, take less, or come in another order.

What a compiler makes of a change is guessed by simple rules, stated with each. `Rewrite` says what changes,
`rewritten` replays it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.sass.opcodes import VARIABLE_LATENCY, is_load
from smlab.models.advisor.code import AdvisedCode
from smlab.models.advisor.costs import PIPES, Costs, atomic_work, instructions_a_line
from smlab.models.advisor.path import Lap
from smlab.models.advisor.program import Track, WarpProgram
from smlab.models.advisor.replay import ATOMIC, EXCHANGE, FREE, PIPE, RESULT, WORK
from smlab.models.advisor.rewrite import Edit, Rewrite
from smlab.models.advisor.sm_model import KernelModel

BRANCH_CYCLES: Final = 12
"""From the comparison to the branch that it decides."""
SHARED_BY_SMS: Final = ("l2", "dram", "words")
RETRY_INSTRUCTIONS: Final = 10
"""Issued in a round of compare-and-swap beside the accesses, with their stall counts."""
LINES_OF_A_LOOP: Final = 512
"""Room for each unrolled loop behind the code, in lines of the instruction cache."""
_MEMORY: Final = frozenset(("global", "local", "shared", "shared-atomic"))


def rewritten(model: KernelModel, change: Rewrite) -> int:
    """Cycles of the changed kernel's replay."""
    program = model.evened if change.even else model.regrouped if change.regrouped else model.program
    tracks: Sequence[Track] = program.tracks
    if change.order != "as is" and change.loops:
        laps = [path.laps for path in model.paths]
        tracks = [_reordered(model, *both, change) for both in zip(tracks, laps, strict=True)]
    if change.repeated:
        far = frozenset(n for n, kind in enumerate(model.context.code.kinds) if kind == "global")
        laps = [path.laps for path in model.paths]
        tracks = [_repeated(*both, change, far) for both in zip(tracks, laps, strict=True)]
    costs = _edited(model, change)
    tracks = [_replaced(track, change, model.costs) for track in tracks]
    frame = model.frame if change.merged == 1 else model.merged(change.merged)
    if change.regrouped:
        frame = dataclasses.replace(frame, turning=False)
    if change.spread > 1:  # each SM has fewer warps, and a smaller share of what all SMs share
        fewer = max(1, round(frame.warps_of_block / change.spread))
        costs.work[:, [WORK.index(name) for name in SHARED_BY_SMS]] *= frame.warps_of_block / fewer
        frame = dataclasses.replace(frame, warps_of_block=fewer)
    return model.cycles(costs, WarpProgram(tuple(tracks)), frame)


def _edited(model: KernelModel, change: Rewrite) -> Costs:
    costs, gpu = model.costs.copy(), model.context.gpu
    front = gpu.number("mio.front_cycles")
    if change.flushed is not None:
        costs.take(costs.extra("flush"), change.flushed)
        costs.work[costs.extra("flush"), WORK.index("words")] = 0  # its lanes are on words of their own
    for n, edit in change.edits.items():
        instruction = model.context.code.instructions[n]
        if edit.free:
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


def _reordered(model: KernelModel, track: Track, laps: Sequence[Lap], change: Rewrite) -> Track:
    """The rounds of innermost loops in another order."""
    code = model.context.code
    inner = {loop.header for loop in code.loops} - {loop.parent for loop in code.loops}
    chosen = [lap for lap in laps if lap.header in change.loops & inner]
    order: list[int] = []
    stalls = dict(enumerate(track.stalls))
    lines = dict(enumerate(track.lines))
    a_line = instructions_a_line(model.context.gpu)
    behind = len(code) // a_line + 1  # unrolled loops lie behind all other code
    fresh: set[int] = set()
    held: dict[int, int] = {}
    at = 0
    for group in _grouped(chosen, change.factor if change.order == "unrolled" else 1 << 30):
        order.extend(range(at, group[0].begin))
        at = group[-1].end
        if change.order == "ahead":
            made, after = _ahead(code, track, group, change.overhead)
            order.extend(made)
            held |= after
        elif len(group) < change.factor:
            order.extend(range(group[0].begin, at))
        else:
            made = _unrolled(code, track, group, change.overhead)
            order.extend(made)
            fresh.update(made)
            stalls |= _stalls(model, track, group, made)
            home = behind + sorted(change.loops).index(group[0].header) * LINES_OF_A_LOOP
            lines |= {s: home + k // a_line for k, s in enumerate(made)}
    order.extend(range(at, len(track.steps)))
    place = {s: n for n, s in enumerate(order)}
    waits = []
    for n, s in enumerate(order):
        kept = [(place[p], what) for p, what in track.waits[s] if place.get(p, n) < n]
        if s in held:
            kept.append((place[held[s]], RESULT))
        waits.append(tuple(k for k in kept if k[1] == RESULT or s not in fresh))
    return Track(
        tuple(track.steps[s] for s in order),
        tuple(waits),
        tuple(stalls[s] for s in order),
        tuple(lines[s] for s in order),
    )


def _grouped(laps: Iterable[Lap], factor: int) -> list[list[Lap]]:
    """Rounds that follow each other, up to ``factor`` together."""
    groups: list[list[Lap]] = []
    for lap in laps:
        last = groups[-1] if groups else None
        if last and lap.number > 0 and last[-1].end == lap.begin and len(last) < factor:
            last.append(lap)
        else:
            groups.append([lap])
    return groups


def _producers(code: AdvisedCode, track: Track, group: Sequence[Lap]) -> dict[int, list[int]]:
    """The steps of some rounds that each of their steps reads registers of, as they were executed."""
    writer: dict[str, int] = {}
    found: dict[int, list[int]] = {}
    for s in range(group[0].begin, group[-1].end):
        effects = code.effects[track.steps[s]]
        found[s] = [writer[name] for name in effects.reads if name in writer]
        writer |= dict.fromkeys(effects.writes, s)
    return found


def _depths(
    code: AdvisedCode, track: Track, group: Sequence[Lap], overhead: frozenset[int]
) -> dict[int, tuple[int, int]]:
    """For each step of some rounds how many results of variable latency, and after the last of these how many
    of fixed latency, must be there before; what only counts rounds hangs on nothing."""
    depth: dict[int, tuple[int, int]] = {}
    producers = _producers(code, track, group)
    steps = [s for s in producers if track.steps[s] not in overhead]
    changed = {k for s in steps if (k := _writes_memory(code, track.steps[s])) is not None}
    barrier = 0
    for s in steps:
        here = (0, 0)
        for p in producers[s]:
            if p in depth:
                slow = code.kinds[track.steps[p]] in VARIABLE_LATENCY
                first, after = depth[p]
                here = max(here, (first + 1, 0) if slow else (first, after + 1))
        n = track.steps[s]
        if code.kinds[n] in _MEMORY and not _movable(code, n, changed):
            here = max(here, (barrier, 0))
            barrier = here[0]
        depth[s] = here
    return depth


def _writes_memory(code: AdvisedCode, n: int) -> str | None:
    kind = code.kinds[n]
    return kind if kind in _MEMORY and not is_load(code.instructions[n]) else None


def _movable(code: AdvisedCode, n: int, changed: set[str]) -> bool:
    """Whether a load may come before stores that are ahead of it: what it reads is constant, or nothing in
    the loop writes that memory."""
    instruction = code.instructions[n]
    return is_load(instruction) and ("CONSTANT" in instruction.modifiers or code.kinds[n] not in changed)


def _unrolled(code: AdvisedCode, track: Track, group: Sequence[Lap], overhead: frozenset[int]) -> list[int]:
    """Rounds as one, as a compiler orders them: loads first, then what counts the last round, then what hangs
    on loads, copies of one instruction side by side where they do not hang on each other; the branch at the
    end. A body with branches of its own keeps its order, and counts at the end."""
    body = [s for lap in group for s in range(lap.begin, lap.end) if track.steps[s] not in overhead]
    last = group[-1]
    counting = [s for s in range(last.begin, last.end) if track.steps[s] in overhead]
    if any(code.kinds[track.steps[s]] in ("control", "barrier") for s in body):
        return body + counting
    depth = _depths(code, track, group, overhead)
    early = [s for s in counting if code.kinds[track.steps[s]] != "control"]
    depth |= dict.fromkeys(early, (0, len(track.steps)))
    order = sorted(body + early, key=lambda s: (depth[s], s))
    return order + [s for s in counting if s not in depth]


def _ahead(
    code: AdvisedCode, track: Track, group: Sequence[Lap], overhead: frozenset[int]
) -> tuple[list[int], dict[int, int]]:
    """Each round's first loads before the rest of the round before it; and which load of the round before
    each of them has to wait for, since it takes that one's register."""
    first: list[list[int]] = []
    rest: list[list[int]] = []
    held: dict[int, int] = {}
    for lap in group:
        depth = _depths(code, track, [lap], overhead)
        early = {s for s, (first_loads, _) in depth.items() if first_loads == 0}
        steps = range(lap.begin, lap.end)
        loads = {track.steps[s]: s for s in early if is_load(code.instructions[track.steps[s]])}
        if first:
            before = {track.steps[s]: s for s in first[-1]}
            held |= {s: before[n] for n, s in loads.items() if n in before}
        first.append([s for s in steps if s in early])
        rest.append([s for s in steps if s not in early])
    order = list(first[0])
    for n in range(len(group)):
        order += (first[n + 1] if n + 1 < len(group) else []) + rest[n]
    return order, held


def _stalls(model: KernelModel, track: Track, group: Sequence[Lap], order: Sequence[int]) -> dict[int, int]:
    """Stall counts of steps in a new order: until what the next one needs of fixed latency is there."""
    code, latency = model.context.code, model.costs.latency
    producers = _producers(code, track, group)
    found: dict[int, int] = {}
    when: dict[int, int] = {}
    now, before = 0, -1
    for s in order:
        earliest = now + 1 if before >= 0 else 0
        for p in producers[s]:
            if p in when and code.kinds[track.steps[p]] not in VARIABLE_LATENCY:
                control = code.kinds[track.steps[s]] == "control"
                need = BRANCH_CYCLES if control else max(int(latency[track.steps[p]]), 1)
                earliest = max(earliest, when[p] + need)
        if before >= 0:
            found[before] = earliest - now
        now = when[s] = earliest
        before = s
    if before >= 0:
        found[before] = track.stalls[before]
    return found


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

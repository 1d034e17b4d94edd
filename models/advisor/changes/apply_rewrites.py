"""Changes to a kernel as its replay sees them: steps that go, take less, or come in another order.

What a compiler makes of a change is guessed by simple rules, stated with each. `Rewrite` says what changes,
`rewritten` replays it.

The rounds of loops in another order: unrolled, or with loads ahead, as a compiler makes them.

*Unrolled*: rounds of an innermost loop as one, loads first, and words that lie side by side in shared memory
loaded together. *Ahead*: loads of a round before the rest of the round before. What is written ahead in the
source, the compiler moves back as far as it can, and only a barrier is in its way; and what was loaded ahead
is waited for at the end of its round, where it takes the place of the value before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from smlab.hw_bench.sass.opcodes import VARIABLE_LATENCY, is_load
from smlab.models.advisor.changes.rewrites import Edit, Rewrite
from smlab.models.advisor.code import AdvisedCode
from smlab.models.advisor.estimates.program import Track, WarpProgram
from smlab.models.advisor.estimates.replay import ATOMIC, EXCHANGE, FREE, PIPE, RESULT, WORK
from smlab.models.advisor.estimates.service_demands import PIPES, Costs, atomic_work, instructions_a_line
from smlab.models.advisor.estimates.sm_model import KernelModel
from smlab.models.advisor.stall_causes.warp_paths import Lap

SHARED_BY_SMS: Final = ("l2", "dram", "words")


def rewritten(model: KernelModel, change: Rewrite, costs_before: Costs | None = None) -> int:
    """Cycles of the changed kernel's replay; ``costs_before`` are others than the model's."""
    before = model.costs if costs_before is None else costs_before
    program = model.balanced if change.even else model.regrouped if change.regrouped else model.program
    tracks: Sequence[Track] = program.tracks
    if change.order != "as is" and change.loops:
        laps = [path.laps for path in model.paths]
        tracks = [reordered(model, *both, change) for both in zip(tracks, laps, strict=True)]
    if change.repeated:
        far = frozenset(n for n, kind in enumerate(model.context.code.kinds) if kind == "global")
        laps = [path.laps for path in model.paths]
        tracks = [_repeated(*both, change, far) for both in zip(tracks, laps, strict=True)]
    costs = _edited(model, change, before)
    tracks = [_replaced(track, change, before, model.context.code) for track in tracks]
    frame = model.frame if change.merged == 1 else model.merged(change.merged)
    if change.regrouped:
        frame = frame._replace(turning=False)
    if change.spread > 1:  # each SM has fewer warps, and a smaller share of what all SMs share
        fewer = max(1, round(frame.warps_of_block / change.spread))
        costs.work[:, [WORK.index(name) for name in SHARED_BY_SMS]] *= frame.warps_of_block / fewer
        frame = frame._replace(warps_of_block=fewer)
    return model.cycles(costs, WarpProgram(tuple(tracks)), frame)


def _edited(model: KernelModel, change: Rewrite, before: Costs) -> Costs:
    costs, gpu = before.copy(), model.context.gpu
    front = gpu.number("mio.front_cycles")
    if change.flushed is not None:
        costs.take(costs.extra("flush"), change.flushed)
        costs.work[costs.extra("flush"), WORK.index("words")] = 0  # its lanes are on words of their own
    for n, words in change.widened.items():  # as many passes as before, but one for each word at least
        costs.work[n, 0] *= max(model.passes(n), words) / max(model.passes(n), 1.0)
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
        elif edit.staged and not edit.tiled:
            costs.miss[n] = 1.0
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
        if edit.tiled:
            interval = gpu.number("shared.interval_cycles_per_pass")
            costs.work[costs.extra("load"), 0] = edit.tiled * interval
        costs.work[n, 2:4] *= edit.traffic
        costs.work[n, 4] *= edit.dram
    return costs


def _expanded(
    n: int, edit: Edit | None, row: Callable[[str], int], loads: bool
) -> tuple[tuple[int, bool], ...]:
    """The steps that come in the place of one that ``loads`` or does not, each with whether it waits for the
    one before; the last has the result."""
    plain = ((n, False),)
    if edit is None:
        return plain
    arithmetic = row("arithmetic")
    if edit.chain:
        return ((arithmetic, False),) * edit.chain
    if edit.exchanged:
        return (*plain, (arithmetic, True))
    if edit.tiled:
        barriers = ((row("barrier"), False),) * edit.staged
        if loads:
            return (*plain, (row("store"), True), *barriers, (row("load"), False))
        return ((row("store"), False), *barriers, (row("load"), False), (n, True))
    if edit.staged:
        barrier = (row("barrier"), False)
        return (barrier, *plain, (row("store"), True), barrier, (row("load"), False))
    return ((arithmetic, False),) * edit.added + plain


def _replaced(track: Track, change: Rewrite, costs: Costs, code: AdvisedCode) -> Track:
    """Without some instructions, and with others in the place of some or around them."""
    loads = {n for n in change.edits if is_load(code.instructions[n])}
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
        put(_expanded(n, edit, costs.extra, n in loads), track.lines[s], kept)
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


BRANCH_CYCLES: Final = 12
"""From the comparison to the branch that it decides."""
LINES_OF_A_LOOP: Final = 512
"""Room for each unrolled loop behind the code, in lines of the instruction cache."""
VECTOR_WORDS: Final = (4, 2)
"""Words that a widened load may bring."""
LEAST_WIDENED: Final = 4
"""Unrolled rounds from which on compilers load words together."""
_MEMORY: Final = frozenset(("global", "local", "shared", "shared-atomic"))


@dataclass(frozen=True)
class _Reordering:
    """Some rounds in their new order: steps, those that wait for others beyond what they waited for, and
    those that came together with another (which has their place)."""

    order: list[int]
    held: dict[int, list[int]] = field(default_factory=dict)
    joined: dict[int, int] = field(default_factory=dict)


def reordered(model: KernelModel, track: Track, laps: Sequence[Lap], change: Rewrite) -> Track:
    """A track with the rounds of some loops in another order."""
    code = model.context.code
    inner = {loop.header for loop in code.loops} - {loop.parent for loop in code.loops}
    chosen = [lap for lap in laps if lap.header in change.loops & inner]
    order: list[int] = []
    stalls = dict(enumerate(track.stalls))
    lines = dict(enumerate(track.lines))
    a_line = instructions_a_line(model.context.gpu)
    behind = len(code) // a_line + 1  # unrolled loops lie behind all other code
    fresh: set[int] = set()
    held: dict[int, list[int]] = {}
    joined: dict[int, int] = {}
    at = 0
    for group in _grouped(chosen, 1 << 30 if change.order == "prefetched" else change.factor):
        order.extend(range(at, group[0].begin))
        at = group[-1].end
        if change.order == "prefetched":
            new_order = _prefetched(code, track, group, change.overhead)
        elif len(group) < change.factor:
            new_order = _Reordering(list(range(group[0].begin, at)))
        else:
            new_order = _unrolled(code, track, group, change)
            fresh.update(new_order.order)
            stalls |= _stalls(model, track, group, new_order.order)
            home = behind + sorted(change.loops).index(group[0].header) * LINES_OF_A_LOOP
            lines |= {s: home + k // a_line for k, s in enumerate(new_order.order)}
        order.extend(new_order.order)
        held |= new_order.held
        joined |= new_order.joined
    order.extend(range(at, len(track.steps)))
    place = {s: n for n, s in enumerate(order)}
    place |= {s: place[first] for s, first in joined.items()}
    waits = []
    for n, s in enumerate(order):
        kept = [(place[p], what) for p, what in track.waits[s] if place.get(p, n) < n]
        kept += [(place[p], RESULT) for p in held.get(s, ())]
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
    producers: dict[int, list[int]] = {}
    for s in range(group[0].begin, group[-1].end):
        effects = code.effects[track.steps[s]]
        producers[s] = [writer[name] for name in effects.reads if name in writer]
        writer |= dict.fromkeys(effects.writes, s)
    return producers


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


def _unrolled(code: AdvisedCode, track: Track, group: Sequence[Lap], change: Rewrite) -> _Reordering:
    """Rounds as one, as a compiler orders them: loads first, then what counts the last round, then what hangs
    on loads, copies of one instruction side by side where they do not hang on each other; the branch at the
    end. A body with branches of its own keeps its order, and counts at the end."""
    overhead = change.overhead
    joined = _joined(track, group, change.widened) if change.factor >= LEAST_WIDENED else {}
    body = [s for lap in group for s in range(lap.begin, lap.end) if track.steps[s] not in overhead]
    last = group[-1]
    counting = [s for s in range(last.begin, last.end) if track.steps[s] in overhead]
    if any(code.kinds[track.steps[s]] in ("control", "barrier") for s in body):
        return _Reordering(body + counting)
    depth = _depths(code, track, group, overhead)
    early = [s for s in counting if code.kinds[track.steps[s]] != "control"]
    depth |= dict.fromkeys(early, (0, len(track.steps)))
    order = sorted((s for s in body + early if s not in joined), key=lambda s: (depth[s], s))
    return _Reordering(order + [s for s in counting if s not in depth], joined=joined)


def _joined(track: Track, group: Sequence[Lap], widened: Mapping[int, int]) -> dict[int, int]:
    """Loads of rounds that come with the one of a round before."""
    joined: dict[int, int] = {}
    first: dict[int, int] = {}
    for number, lap in enumerate(group):
        for s in range(lap.begin, lap.end):
            n = track.steps[s]
            if n not in widened:
                continue
            if number % widened[n] == 0:
                first[n] = s
            elif n in first:
                joined[s] = first[n]
    return joined


def _prefetched(
    code: AdvisedCode, track: Track, group: Sequence[Lap], overhead: frozenset[int]
) -> _Reordering:
    """Each round's first loads, with what they read of, behind the last access to memory of the round before
    it, whose last step waits for them: only arithmetic passes a barrier with them."""
    order: list[int] = []
    held: dict[int, list[int]] = {}
    rest: list[int] = []
    for lap in group:
        steps = range(lap.begin, lap.end)
        depth = _depths(code, track, [lap], overhead)
        loads = [
            s
            for s, (first_loads, _) in depth.items()
            if first_loads == 0
            and code.kinds[track.steps[s]] == "global"
            and is_load(code.instructions[track.steps[s]])
        ]
        early = _needed(_producers(code, track, [lap]), loads)
        behind = _last_memory(code, [track.steps[s] for s in rest])
        order += rest[:behind]
        order += [s for s in steps if s in early]
        order += rest[behind:]
        if rest:
            held[rest[-1]] = loads
        rest = [s for s in steps if s not in early]
    return _Reordering(order + rest, held)


def _last_memory(code: AdvisedCode, numbers: Sequence[int]) -> int:
    """How many of some instructions come up to the last that accesses memory."""
    return max((n + 1 for n, number in enumerate(numbers) if code.kinds[number] in _MEMORY), default=0)


def _needed(producers: Mapping[int, Sequence[int]], steps: Iterable[int]) -> set[int]:
    """Some steps and all that they read of, one through the other."""
    needed: set[int] = set()
    waiting = list(steps)
    while waiting:
        s = waiting.pop()
        if s not in needed:
            needed.add(s)
            waiting += producers[s]
    return needed


def _stalls(model: KernelModel, track: Track, group: Sequence[Lap], order: Sequence[int]) -> dict[int, int]:
    """Stall counts of steps in a new order: until what the next one needs of fixed latency is there."""
    code, latency = model.context.code, model.costs.latency
    producers = _producers(code, track, group)
    stalls: dict[int, int] = {}
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
            stalls[before] = earliest - now
        now = when[s] = earliest
        before = s
    if before >= 0:
        stalls[before] = track.stalls[before]
    return stalls

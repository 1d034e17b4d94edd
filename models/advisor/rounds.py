"""The rounds of loops in another order: unrolled, jammed, or with loads ahead, as a compiler makes them.

*Unrolled*: rounds of an innermost loop as one, loads first, and words that lie side by side in shared memory
loaded together. *Jammed*: rounds of the loop around it side by side, instruction by instruction. *Ahead*:
loads of a round before the rest of the round before. What is written ahead in the source, the compiler moves
back as far as it can, and only a barrier is in its way; and what was loaded ahead is waited for at the end of
its round, where it takes the place of the value before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from smlab.hw_bench.sass.opcodes import VARIABLE_LATENCY, is_load
from smlab.models.advisor.code import AdvisedCode
from smlab.models.advisor.costs import instructions_a_line
from smlab.models.advisor.path import Lap
from smlab.models.advisor.program import Track
from smlab.models.advisor.replay import RESULT
from smlab.models.advisor.rewrite import Rewrite
from smlab.models.advisor.sm_model import KernelModel

BRANCH_CYCLES: Final = 12
"""From the comparison to the branch that it decides."""
LINES_OF_A_LOOP: Final = 512
"""Room for each unrolled loop behind the code, in lines of the instruction cache."""
WORDS_TOGETHER: Final = 2
"""Words that a widened load brings."""
LEAST_WIDENED: Final = 4
"""Unrolled rounds from which on compilers load words together."""
_MEMORY: Final = frozenset(("global", "local", "shared", "shared-atomic"))


@dataclass(frozen=True)
class _Made:
    """Some rounds in their new order: steps, those that wait for others beyond what they waited for, and
    those that came together with another (which has their place)."""

    order: list[int]
    held: dict[int, list[int]] = field(default_factory=dict)
    joined: dict[int, int] = field(default_factory=dict)


def reordered(model: KernelModel, track: Track, laps: Sequence[Lap], change: Rewrite) -> Track:
    """A track with the rounds of some loops in another order."""
    code = model.context.code
    inner = {loop.header for loop in code.loops} - {loop.parent for loop in code.loops}
    wanted = change.loops if change.order == "jammed" else change.loops & inner
    chosen = [lap for lap in laps if lap.header in wanted]
    beside = [lap for lap in laps if lap.header in inner]
    order: list[int] = []
    stalls = dict(enumerate(track.stalls))
    lines = dict(enumerate(track.lines))
    a_line = instructions_a_line(model.context.gpu)
    behind = len(code) // a_line + 1  # unrolled loops lie behind all other code
    fresh: set[int] = set()
    held: dict[int, list[int]] = {}
    joined: dict[int, int] = {}
    at = 0
    for group in _grouped(chosen, 1 << 30 if change.order == "ahead" else change.factor):
        order.extend(range(at, group[0].begin))
        at = group[-1].end
        if change.order == "ahead":
            made = _ahead(code, track, group, change.overhead)
        elif (found := _side_by_side(code, track, group, beside, change)) is None:
            made = _Made(list(range(group[0].begin, at)))
        else:
            made = found
            fresh.update(made.order)
            stalls |= _stalls(model, track, group, made.order)
            home = behind + sorted(change.loops).index(group[0].header) * LINES_OF_A_LOOP
            lines |= {s: home + k // a_line for k, s in enumerate(made.order)}
        order.extend(made.order)
        held |= made.held
        joined |= made.joined
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


def _side_by_side(
    code: AdvisedCode, track: Track, group: Sequence[Lap], inner: Sequence[Lap], change: Rewrite
) -> _Made | None:
    """Rounds unrolled or jammed; None where they are too few, or need each other's results."""
    if len(group) < change.factor:
        return None
    if change.order == "jammed":
        return _jammed(code, track, group, inner, change)
    return _unrolled(code, track, group, change)


def _unrolled(code: AdvisedCode, track: Track, group: Sequence[Lap], change: Rewrite) -> _Made:
    """Rounds as one, as a compiler orders them: loads first, then what counts the last round, then what hangs
    on loads, copies of one instruction side by side where they do not hang on each other; the branch at the
    end. A body with branches of its own keeps its order, and counts at the end."""
    overhead = change.overhead
    joined = _joined(track, group, change.widened) if change.factor >= LEAST_WIDENED else {}
    body = [s for lap in group for s in range(lap.begin, lap.end) if track.steps[s] not in overhead]
    last = group[-1]
    counting = [s for s in range(last.begin, last.end) if track.steps[s] in overhead]
    if any(code.kinds[track.steps[s]] in ("control", "barrier") for s in body):
        return _Made(body + counting)
    depth = _depths(code, track, group, overhead)
    early = [s for s in counting if code.kinds[track.steps[s]] != "control"]
    depth |= dict.fromkeys(early, (0, len(track.steps)))
    order = sorted((s for s in body + early if s not in joined), key=lambda s: (depth[s], s))
    return _Made(order + [s for s in counting if s not in depth], joined=joined)


def _joined(track: Track, group: Sequence[Lap], widened: frozenset[int]) -> dict[int, int]:
    """Loads of every second round that come with the one of the round before."""
    found: dict[int, int] = {}
    for first, second in zip(group[::WORDS_TOGETHER], group[1::WORDS_TOGETHER], strict=False):
        steps = {n: s for s in range(first.begin, first.end) if (n := track.steps[s]) in widened}
        mine = {s: n for s in range(second.begin, second.end) if (n := track.steps[s]) in steps}
        found |= {s: steps[n] for s, n in mine.items()}
    return found


def _jammed(
    code: AdvisedCode, track: Track, group: Sequence[Lap], inner: Sequence[Lap], change: Rewrite
) -> _Made | None:
    """Rounds of a loop around others side by side: in each of their rounds an instruction of one, then the
    same of the next. None where one needs more of the one before than its sums."""
    keys: dict[int, tuple[int, int, int, int]] = {}
    summed: set[int] = set()
    for copy, lap in enumerate(group):
        inside = [own for own in inner if lap.begin <= own.begin and own.end <= lap.end]
        segment, at = 0, lap.begin
        for own in inside:
            if own.begin > at or own.number == 0:
                keys |= {s: (segment, 0, s - at, copy) for s in range(at, own.begin)}
                segment += 1
            keys |= {s: (segment, own.number, s - own.begin, copy) for s in range(own.begin, own.end)}
            at = own.end
        keys |= {s: (segment + 1, 0, s - at, copy) for s in range(at, lap.end)}
        summed.update(range(at, lap.end))
    for s, sources in _producers(code, track, group).items():
        free = s in summed or track.steps[s] in change.overhead
        if not free and any(
            keys[p][3] != keys[s][3] and track.steps[p] not in change.overhead for p in sources
        ):
            return None
    last = len(group) - 1
    kept = [s for s, key in keys.items() if key[3] == last or track.steps[s] not in change.overhead]
    return _Made(sorted(kept, key=lambda s: keys[s]))


def _ahead(code: AdvisedCode, track: Track, group: Sequence[Lap], overhead: frozenset[int]) -> _Made:
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
    return _Made(order + rest, held)


def _last_memory(code: AdvisedCode, numbers: Sequence[int]) -> int:
    """How many of some instructions come up to the last that accesses memory."""
    return max((n + 1 for n, number in enumerate(numbers) if code.kinds[number] in _MEMORY), default=0)


def _needed(producers: Mapping[int, Sequence[int]], steps: Iterable[int]) -> set[int]:
    """Some steps and all that they read of, one through the other."""
    found: set[int] = set()
    waiting = list(steps)
    while waiting:
        s = waiting.pop()
        if s not in found:
            found.add(s)
            waiting += producers[s]
    return found


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

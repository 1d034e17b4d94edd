"""Our blame of scoreboard stalls: the instructions that raised a scoreboard which the stalled one waits for.

A scoreboard counts what is on its way and is free when all of it is back, so on each path back to the last
wait for it every setter may be the one that the warp waits for. Two readings of blame: ``last`` gives a stall
to the setter that finishes last, ``shared`` divides each of its cycles among those that are not back yet.
What went through one queue comes back in the order of its issue; between queues the cycles on the path and
the expected latencies decide. Paths share by how often they are taken. For ``shared`` it matters whether
warps come in turns or in bursts, which is read from what requests wait for their places (`turns`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from smlab.hw_bench.sass.opcodes import is_load, is_store
from smlab.models.advisor.code import AdvisedCode
from smlab.models.advisor.stall_causes.arrivals import SCATTER, MissCase, cases_of
from smlab.models.advisor.stall_causes.issue_rates import ExecutionTiming, Outstanding
from smlab.models.advisor.stall_causes.l1_hits import leader
from smlab.models.advisor.stall_causes.latencies import Latencies
from smlab.models.advisor.stall_causes.slicing import definitions

Reading = Literal["last", "shared"]

LONG_KINDS: Final = frozenset(("global", "local"))
QUEUES: Final[Mapping[str, str]] = {
    "global": "memory",
    "local": "memory",
    "shared": "shared",
    "shared-atomic": "shared",
    "exchange": "exchange",
    "special": "special",
    "conversion": "special",
}
SPREAD: Final = 0.15
"""How far a latency scatters about its mean, as a share of it: decides between setters that finish nearly
together."""
CACHED: Final = "cached"
"""The queue of what L1 has: it overtakes what comes from beyond."""
BROUGHT: Final = "brought"
"""That of what L1 mostly has, but not this time."""
WAIT_HORIZON: Final = 40
"""Cycles back from a use beyond which no fixed latency is waited for."""
MAX_PATHS: Final = 48
LEAST_OVERTAKEN: Final = 0.02
"""The share of a path's executions below which it is not told apart where its warp was overtaken."""
LEAST_CHANCE: Final = 1e-3
"""A path that is taken less often than this is not followed further."""

Shares = dict[int, tuple[float, int]]


@dataclass(frozen=True)
class _Step:
    """A block that a search back comes to: chance, cycles to the use, what is still open and found."""

    block: int
    chance: float
    cycles: float
    still_open: frozenset[str]
    outstanding: tuple[Outstanding, ...]
    passed: frozenset[int]
    events: tuple[int, ...]


def blame_scoreboards(
    code: AdvisedCode,
    use: int,
    reason: str,
    latencies: Latencies,
    timing: ExecutionTiming,
    reading: Reading = "last",
) -> Shares:
    """Weights of the setters of the scoreboards that ``use`` waits for, for ``long_scoreboard`` or
    ``short_scoreboard``; empty where the code has no control codes."""
    shares: dict[int, float] = {}
    distances: dict[int, int] = {}
    every = _fitting(code, use, reason, timing)
    if reading == "shared" and any(
        _soon(code, o, timing) for _, way_outstanding in every for o in way_outstanding
    ):
        every, timing = _fitting(code, use, reason, timing.uninterrupted), timing.uninterrupted
        if reason == "short_scoreboard":
            every = [
                way
                for chance, way_outstanding in every
                for way in _by_overtaking(chance, way_outstanding, timing)
            ]
    paths = [(chance, fitting) for chance, fitting in every if fitting]
    waited = timing.waited[use] * sum(chance for chance, _ in every)
    divide = _last_finisher if reading == "last" else _divided
    rounds_differ = reading == "shared"
    for chance, case, length in cases_of(code, paths, latencies, timing, waited, rounds_differ):
        for outstanding, part in divide(code, case, latencies, length):
            source = outstanding.source
            shares[source] = shares.get(source, 0.0) + chance * length * part
            distances[source] = min(distances.get(source, 1 << 30), abs(use - source))
    return {s: (weight, distances[s]) for s, weight in shares.items() if weight > 0}


def _fitting(
    code: AdvisedCode, use: int, reason: str, timing: ExecutionTiming
) -> list[tuple[float, list[Outstanding]]]:
    """Paths back with those setters on them that can be waited for with a reason."""
    paths = paths_back(code, use, timing)
    return [(chance, [o for o in outstanding if fits(code, o, reason)]) for chance, outstanding in paths]


def _by_overtaking(
    chance: float, outstanding_all: list[Outstanding], timing: ExecutionTiming
) -> Iterator[tuple[float, list[Outstanding]]]:
    """A path by where its warp was last overtaken: what was issued before is that much older."""
    left = chance
    for n, outstanding in enumerate(outstanding_all[:-1]):
        part, cycles = timing.overtaken.get(outstanding.source, (0.0, 0.0))
        if part * left < LEAST_OVERTAKEN * chance:
            continue
        older = [Outstanding(o.source, o.cycles + cycles, o.result) for o in outstanding_all[n + 1 :]]
        yield left * part, [*outstanding_all[: n + 1], *older]
        left *= 1 - part
    yield left, outstanding_all


def _soon(code: AdvisedCode, outstanding: Outstanding, timing: ExecutionTiming) -> bool:
    """Whether a setter does not go beyond L1 each time, so that it is done when its warp was overtaken."""
    source = outstanding.source
    if code.kinds[source] != "global" or not is_load(code.instructions[source]):
        return True
    return leader(code, source) != source or timing.miss_chance(code, source) is not None


def fits(code: AdvisedCode, outstanding: Outstanding, reason: str) -> bool:
    """Whether a setter can be waited for with this reason: results of global and local memory are long,
    all others and operands that must have been read are short."""
    source = outstanding.source
    stores = is_store(code.instructions[source])
    long = code.kinds[source] in LONG_KINDS and outstanding.result and not stores
    return long == (reason == "long_scoreboard")


def paths_back(
    code: AdvisedCode, use: int, timing: ExecutionTiming
) -> Iterator[tuple[float, tuple[Outstanding, ...]]]:
    """Paths from a use back to where nothing it waits for can still be out: the chance of each, and the
    setters on it, the nearest first. A path passes a block once."""
    waits = code.effects[use].waits
    if not waits:
        return
    home = code.block_of[use]
    first = [n for n in code.scoreboard_events[home] if n < use]
    begun = timing.begins[use] - timing.waited[use]
    stack = [_Step(home, 1.0, begun, waits, (), frozenset(), tuple(first))]
    path_count = steps = 0
    while stack and path_count < MAX_PATHS and steps < 8 * MAX_PATHS:
        steps += 1
        step = stack.pop()
        block, chance, cycles, passed = step.block, step.chance, step.cycles, step.passed
        still_open, outstanding = step.still_open, step.outstanding
        for number in step.events:
            effects = code.effects[number]
            between = cycles - timing.begins[number]
            for name, result in ((effects.operands_on, False), (effects.result_on, True)):
                if name is not None and name in still_open:
                    outstanding = (*outstanding, Outstanding(number, between, result))
            still_open = still_open - effects.waits
            if not still_open:
                break
        before = code.flow.blocks[block].predecessors
        onward = [p for p in before if p not in passed]
        if not still_open or not onward:
            path_count += bool(outstanding)
            yield chance, outstanding
            continue
        counts = [max(timing.executed.get(code.last_of(p), 0.0), 1e-9) for p in onward]
        for previous, count in zip(onward, counts, strict=True):
            part = chance * count / sum(counts)
            if part < LEAST_CHANCE:
                continue
            last = code.last_of(previous)
            length = timing.begins[last] + code.stalls[last]
            events = code.scoreboard_events[previous]
            if previous == home:
                events = tuple(n for n in events if n >= use)  # the rest has been looked at
            beyond = passed | {previous}
            stack.append(_Step(previous, part, cycles + length, still_open, outstanding, beyond, events))


def _last_finisher(
    code: AdvisedCode, case: MissCase, latencies: Latencies, length: float
) -> Iterator[tuple[Outstanding, float]]:
    """The chance of each setter to be the last to finish: of each queue the latest counts, of several the one
    issued last, and these are compared by when they are expected to be done."""
    heads: dict[str, tuple[float, Outstanding]] = {}
    ends = case.delayed(length)
    columns = zip(case.outstanding, ends, case.prompt, case.brought, strict=True)
    for outstanding, end, prompt, brought in columns:
        kind = code.kinds[outstanding.source]
        queue = QUEUES.get(kind, kind) if outstanding.result else f"reading of {QUEUES.get(kind, kind)}"
        if queue == "memory" and (prompt or brought):
            queue = CACHED if prompt else BROUGHT
        if queue not in heads or end > heads[queue][0]:
            heads[queue] = end, outstanding
    last = list(heads.values())
    scatter = [SPREAD * max(end + o.cycles, 0.0) for end, o in last]
    chances = []
    for n, (end, mine) in enumerate(last):
        chance = 1.0
        for m, (other, its) in enumerate(last):
            if m != n:
                width = scatter[n] + scatter[m] + SCATTER * abs(mine.cycles - its.cycles) + 1.0
                chance *= 0.5 * (1 + math.erf((end - other) / width))
        chances.append(max(chance, 1e-6))
    total = math.fsum(chances)
    for (_, outstanding), chance in zip(last, chances, strict=True):
        yield outstanding, chance / total


def _divided(
    code: AdvisedCode, case: MissCase, latencies: Latencies, length: float
) -> Iterator[tuple[Outstanding, float]]:
    """The part of each setter when the stall's cycles are divided among those still out.

    The last is back when the stall ends, ``length`` cycles after its begin; the others before it by as much
    as they were issued earlier or are expected to be quicker.
    """
    once: dict[int, float] = {}
    owner: dict[int, Outstanding] = {}
    for outstanding, finish in zip(case.outstanding, case.delayed_by_sector(length), strict=True):
        if finish > once.get(outstanding.source, -math.inf):
            once[outstanding.source], owner[outstanding.source] = finish, outstanding
    length = max(length, 1.0)
    latest = max(once.values())
    ends = {source: max(finish - latest + length, 0.0) for source, finish in once.items()}
    order = sorted(ends, key=lambda source: ends[source])
    parts = dict.fromkeys(order, 0.0)
    at = 0.0
    for n, source in enumerate(order):
        for later in order[n:]:
            parts[later] += (ends[source] - at) / (len(order) - n)
        at = ends[source]
    for source, part in parts.items():
        yield owner[source], part / length


def blame_wait(code: AdvisedCode, use: int, latencies: Latencies) -> Shares:
    """A fixed latency: the definition among the operands that is near enough to be still on its way, else
    the instruction before, whose stall count the warp waits for."""
    near: Shares = {}
    for name in sorted(code.effects[use].reads):
        for source, path in definitions(code, use, name, WAIT_HORIZON).paths.items():
            if code.effects[source].result_on is not None:
                continue
            if min(path.cycles) <= latencies.expected(code.instructions[source]) + 2:
                near[source] = (1.0 / path.shortest, path.shortest)
    if near:
        closest = min(distance for _, distance in near.values())
        return {s: w for s, w in near.items() if w[1] == closest}
    return dict.fromkeys(code.before[use], (1.0, 1)) or {use: (1.0, 0)}

"""Our blame of scoreboard stalls: the instructions that raised a scoreboard which the stalled one waits for.

A scoreboard counts what is on its way and is free when all of it is back, so on each path back to the last
wait for it every setter may be the one that the warp waits for. Two readings of blame: ``last`` gives a stall
to the setter that finishes last, ``shared`` divides each of its cycles among those that are not back yet.
What went through one queue comes back in the order of its issue; between queues the cycles on the path and
the expected latencies decide. Paths share by how often they are taken.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from smlab.hw_bench.sass.opcodes import is_load, is_store
from smlab.models.advisor.code import AdvisedCode
from smlab.models.advisor.latencies import Latencies
from smlab.models.advisor.slicing import definitions, same_for_all, stays_near

Reading = Literal["last", "shared"]

LINE_BYTES: Final = 128
_OFFSET: Final = re.compile(r"\+(-?0x[0-9a-f]+)\]")
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
READING_CYCLES: Final = 12.0
"""From issue until a memory instruction has read its operands, without a queue."""
CACHED: Final = "cached"
HIT_CYCLES: Final = 40.0
"""What all threads load, the first warp brings into L1, and what the round before loaded is there: such loads
overtake those of a thread's own data, and take about so many cycles."""
HITS_LATER: Final = 3.0
"""How many times as long as expected what L1 has may be waited for: it queues for the data stage only."""
WAIT_HORIZON: Final = 40
"""Cycles back from a use beyond which no fixed latency is waited for."""
SHORTEST_STALL: Final = 10.0
"""Cycles by which a path counts at least: paths share a stall by how often they are taken and by how long it
is expected to last there, which is known only so well."""
MAX_PATHS: Final = 48
LEAST_CHANCE: Final = 1e-3
"""A path that is taken less often than this is not followed further."""

Shares = dict[int, tuple[float, int]]


@dataclass(frozen=True)
class Pace:
    """How fast the code is executed, from its samples: executions of each instruction, its mean cycles of
    waiting at each, and what follows from them and the stall counts."""

    executed: Mapping[int, float]
    waited: Sequence[float]
    begins: Sequence[float]

    @classmethod
    def measured(cls, code: AdvisedCode, executed: Mapping[int, float], waited: Mapping[int, float]) -> Pace:
        cycles = [waited.get(n, 0.0) for n in range(len(code))]
        return cls(executed, cycles, code.begins(cycles))


@dataclass(frozen=True)
class Outstanding:
    """A setter on a path to the use: cycles from its issue to the use's, whether the use waits for its result
    (else for its operands to have been read), and how many setters lie between."""

    source: int
    cycles: float
    result: bool


@dataclass(frozen=True)
class _Step:
    """A block that a search back comes to: chance, cycles to the use, what is still open and found."""

    block: int
    chance: float
    cycles: float
    still_open: frozenset[str]
    found: tuple[Outstanding, ...]
    passed: frozenset[int]
    events: tuple[int, ...]


def blame_scoreboards(
    code: AdvisedCode,
    use: int,
    reason: str,
    latencies: Latencies,
    pace: Pace,
    reading: Reading = "last",
) -> Shares:
    """Weights of the setters of the scoreboards that ``use`` waits for, for ``long_scoreboard`` or
    ``short_scoreboard``; empty where the code has no control codes."""
    shares: dict[int, float] = {}
    distances: dict[int, int] = {}
    paths = [
        (chance, fitting)
        for chance, found in paths_back(code, use, pace)
        if (fitting := [o for o in found if fits(code, o, reason)])
    ]
    lengths = _lengths(code, paths, latencies, pace.waited[use])
    for (chance, fitting), length in zip(paths, lengths, strict=True):
        if reading == "last":
            parts = _last_finisher(code, fitting, latencies, length)
        else:
            parts = _divided(code, fitting, latencies, length)
        for outstanding, part in parts:
            source = outstanding.source
            shares[source] = shares.get(source, 0.0) + chance * length * part
            distances[source] = min(distances.get(source, 1 << 30), abs(use - source))
    return {s: (weight, distances[s]) for s, weight in shares.items() if weight > 0}


def _lengths(
    code: AdvisedCode,
    paths: Sequence[tuple[float, Sequence[Outstanding]]],
    latencies: Latencies,
    waited: float,
) -> list[float]:
    """How long the use is expected to be stalled after each path. What L1 has comes when it is expected, and
    so bounds the stall of a path with nothing else; what is waited for beyond that, in the mean of all
    paths, is owed to the others, where it may stand in a queue."""
    expected = [max(*_finishes(code, found, latencies), SHORTEST_STALL) for _, found in paths]
    bounded = [all(_hits(code, o.source) for o in found) for _, found in paths]
    if not waited:
        return expected
    total = sum(chance for chance, _ in paths)
    near = sum(c * e for (c, _), e, b in zip(paths, expected, bounded, strict=True) if b)
    far = sum(c * e for (c, _), e, b in zip(paths, expected, bounded, strict=True) if not b)
    alike = waited * total / (near + far) if paths else 1.0
    hits = min(alike, HITS_LATER) if far else alike
    left = (waited * total - near * hits) / far if far else alike
    return [e * (hits if b else left) for e, b in zip(expected, bounded, strict=True)]


def fits(code: AdvisedCode, outstanding: Outstanding, reason: str) -> bool:
    """Whether a setter can be waited for with this reason: results of global and local memory are long,
    all others and operands that must have been read are short."""
    source = outstanding.source
    stores = is_store(code.instructions[source])
    long = code.kinds[source] in LONG_KINDS and outstanding.result and not stores
    return long == (reason == "long_scoreboard")


def paths_back(code: AdvisedCode, use: int, pace: Pace) -> Iterator[tuple[float, tuple[Outstanding, ...]]]:
    """Paths from a use back to where nothing it waits for can still be out: the chance of each, and the
    setters on it, the nearest first. A path passes a block once."""
    waits = code.effects[use].waits
    if not waits:
        return
    home = code.block_of[use]
    first = [n for n in code.scoreboard_events[home] if n < use]
    begun = pace.begins[use] - pace.waited[use]
    stack = [_Step(home, 1.0, begun, waits, (), frozenset(), tuple(first))]
    told = steps = 0
    while stack and told < MAX_PATHS and steps < 8 * MAX_PATHS:
        steps += 1
        step = stack.pop()
        block, chance, cycles, passed = step.block, step.chance, step.cycles, step.passed
        still_open, found = step.still_open, step.found
        for number in step.events:
            effects = code.effects[number]
            between = cycles - pace.begins[number]
            for name, result in ((effects.operands_on, False), (effects.result_on, True)):
                if name is not None and name in still_open:
                    found = (*found, Outstanding(number, between, result))
            still_open = still_open - effects.waits
            if not still_open:
                break
        before = code.flow.blocks[block].predecessors
        onward = [p for p in before if p not in passed]
        if not still_open or not onward:
            if found:
                told += 1
                yield chance, found
            continue
        counts = [max(pace.executed.get(code.last_of(p), 0.0), 1e-9) for p in onward]
        for previous, count in zip(onward, counts, strict=True):
            part = chance * count / sum(counts)
            if part < LEAST_CHANCE:
                continue
            last = code.last_of(previous)
            length = pace.begins[last] + code.stalls[last]
            events = code.scoreboard_events[previous]
            if previous == home:
                events = tuple(n for n in events if n >= use)  # the rest has been looked at
            beyond = passed | {previous}
            stack.append(_Step(previous, part, cycles + length, still_open, found, beyond, events))


def _last_finisher(
    code: AdvisedCode, found: list[Outstanding], latencies: Latencies, length: float
) -> Iterator[tuple[Outstanding, float]]:
    """The chance of each setter of one path to be the last to finish: of each queue the one issued last
    counts, and these are compared by when they are expected to be done."""
    heads: dict[str, Outstanding] = {}
    for outstanding in found:
        kind = code.kinds[outstanding.source]
        queue = QUEUES.get(kind, kind) if outstanding.result else f"reading of {QUEUES.get(kind, kind)}"
        if outstanding.result and _hits(code, outstanding.source):
            queue = CACHED
        heads.setdefault(queue, outstanding)
    last = list(heads.values())
    ends = _delayed(code, last, _finishes(code, last, latencies), length)
    scatter = [SPREAD * _latency(code, o, latencies) for o in last]
    chances = []
    for n in range(len(last)):
        chance = 1.0
        for m in range(len(last)):
            if m != n:
                chance *= 0.5 * (1 + math.erf((ends[n] - ends[m]) / (scatter[n] + scatter[m] + 1.0)))
        chances.append(max(chance, 1e-6))
    total = math.fsum(chances)
    for outstanding, chance in zip(last, chances, strict=True):
        yield outstanding, chance / total


def _hits(code: AdvisedCode, source: int) -> bool:
    """Whether L1 is expected to have what a load asks for."""
    load = code.kinds[source] == "global" and is_load(code.instructions[source])
    return load and (same_for_all(code, source) or stays_near(code, source))


def _latency(code: AdvisedCode, outstanding: Outstanding, latencies: Latencies) -> float:
    if not outstanding.result:
        return READING_CYCLES
    if _hits(code, outstanding.source):
        return HIT_CYCLES
    return latencies.expected(code.instructions[outstanding.source])


def _finishes(code: AdvisedCode, found: Sequence[Outstanding], latencies: Latencies) -> list[float]:
    """When each is expected to be done, in cycles after the use could have issued. Loads of one line, by the
    same register and a near offset, come with the first of them."""
    first: dict[tuple[str, int], float] = {}
    ends = []
    for outstanding in reversed(found):  # the first issued first
        own = _latency(code, outstanding, latencies) - outstanding.cycles
        line = _line(code, outstanding)
        if line is not None:
            if line in first:
                own = max(HIT_CYCLES - outstanding.cycles, first[line])
            first.setdefault(
                line, latencies.expected(code.instructions[outstanding.source]) - outstanding.cycles
            )
        ends.append(own)
    return ends[::-1]


def _delayed(
    code: AdvisedCode, found: Sequence[Outstanding], finishes: list[float], length: float
) -> list[float]:
    """When each is done if the stall lasts longer than expected: what L1 does not have stood in a queue."""
    beyond = max(length - max(finishes), 0.0)
    if all(_hits(code, o.source) for o in found):
        return finishes
    return [f if _hits(code, o.source) else f + beyond for o, f in zip(found, finishes, strict=True)]


def _line(code: AdvisedCode, outstanding: Outstanding) -> tuple[str, int] | None:
    """Base register and line of a load from global memory."""
    instruction = code.instructions[outstanding.source]
    if not (outstanding.result and code.kinds[outstanding.source] == "global" and is_load(instruction)):
        return None
    operand = next((o for o in instruction.operands if o.kind == "memory"), None)
    match = None if operand is None else _OFFSET.search(operand.text)
    if operand is None or not operand.registers:
        return None
    return operand.registers[0], (int(match[1], 16) if match else 0) // LINE_BYTES


def _divided(
    code: AdvisedCode, found: list[Outstanding], latencies: Latencies, length: float
) -> Iterator[tuple[Outstanding, float]]:
    """The part of each setter of one path when the stall's cycles are divided among those still out.

    The last is back when the stall ends, ``length`` cycles after its begin; the others before it by as much
    as they were issued earlier or are expected to be quicker.
    """
    once: dict[int, float] = {}
    owner: dict[int, Outstanding] = {}
    finishes = _delayed(code, found, _finishes(code, found, latencies), length)
    for outstanding, finish in zip(found, finishes, strict=True):
        if finish > once.get(outstanding.source, -math.inf):
            once[outstanding.source], owner[outstanding.source] = finish, outstanding
    if not once:
        return
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

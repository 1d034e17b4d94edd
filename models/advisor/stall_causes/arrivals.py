"""When the setters that a use waits for are done, and how long it then waits: by path and by what L1 has.

Each path back from a use has setters that may still be out. Of the loads among them some find their words in
L1 mostly (`caching`); so a path falls into *cases*: none of them misses, one alone does, several do. A case
has an end for each setter, and with it an expected length of the stall. What the samples say of the mean wait
decides between the cases: where it is less than expected, misses are fewer and stalls shorter, and where all
of them explain too little, what stands in a queue is later.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from smlab.hw_bench.sass.opcodes import is_load
from smlab.models.advisor.code import AdvisedCode
from smlab.models.advisor.stall_causes.addresses import address_of
from smlab.models.advisor.stall_causes.issue_rates import ExecutionTiming, Outstanding
from smlab.models.advisor.stall_causes.l1_hits import leader
from smlab.models.advisor.stall_causes.latencies import Latencies
from smlab.models.advisor.stall_causes.slicing import same_for_all

READING_CYCLES: Final = 12.0
"""From issue until a memory instruction has read its operands, without a queue."""
HITS_LATER: Final = 3.0
"""How many times as long as expected what L1 has may be waited for: it queues for the data stage only."""
SHORTEST_STALL: Final = 10.0
"""Cycles by which a path counts at least: paths share a stall by how often they are taken and by how long it
is expected to last there, which is known only so well."""
STEADY: Final = frozenset(("special", "conversion"))
"""Results of pipes without a queue."""
BEYOND: Final = frozenset(("global", "local"))
"""Kinds that go beyond L1."""
LENGTHS: Final = 0.5
"""Where less is waited for than expected, the part of it (as an exponent) that is owed to shorter stalls; the
rest is owed to fewer misses."""
HALVINGS: Final = 20
LEAST: Final = 1e-9
SCATTER: Final = 0.3
"""How much the time since an issue differs from execution to execution, as a share of it."""
_ROOT: Final = math.sqrt(2 * math.pi)
DIGITS: Final = 6
"""Of an end, in cycles: what comes together is equal."""


@dataclass(frozen=True)
class MissCase:
    """A path with some of its loads missing L1: when each setter is done, in cycles after the use could have
    issued, and which of them do not stand in a queue. Of those that do, how many ``rounds_before_last`` each
    comes before the last one, a round being a request of each other warp, and ``round_cycles`` what it takes
    at most. ``brought`` are those that L1 mostly has, but not in this case; ``followed`` says of a load in a
    sector that another of them asked for before which that is, and from when on L1 could give it."""

    outstanding: tuple[Outstanding, ...]
    ends: tuple[float, ...]
    prompt: tuple[bool, ...]
    rounds_before_last: tuple[float, ...]
    round_cycles: float
    brought: tuple[bool, ...]
    followed: tuple[tuple[int, float] | None, ...]

    @cached_property
    def raw(self) -> float:
        """When the last is done; negative where nothing has to be waited for."""
        return max(self.ends)

    @cached_property
    def length(self) -> float:
        """How long the use is expected to be stalled."""
        return max(self.raw, SHORTEST_STALL)

    def stalled(self, later: float) -> float:
        """How long the use is stalled in the mean if the last is so much later: what was issued long before
        comes earlier or later than it, and only the latter is waited for."""
        latest = max(range(len(self.ends)), key=lambda n: self.ends[n])
        scatter = max(SCATTER * self.outstanding[latest].cycles, 1.0)
        at = (self.raw + later) / scatter
        return scatter * (at * 0.5 * math.erfc(-at / math.sqrt(2)) + math.exp(-at * at / 2) / _ROOT)

    @property
    def is_prompt(self) -> bool:
        """Whether none of them stands in a queue."""
        return all(self.prompt)

    def delayed(self, length: float) -> list[float]:
        """When each is done if the stall lasts so long: what stands in a queue is later by what is missing,
        the first in it by less than the last."""
        if self.is_prompt:
            return list(self.ends)
        beyond = max(length - self.raw, 0.0)
        queued = self.prompt.count(False)
        gap = min(min(beyond, length) / queued, self.round_cycles)
        return [
            end if prompt else end + beyond - gap * rounds
            for end, prompt, rounds in zip(self.ends, self.prompt, self.rounds_before_last, strict=True)
        ]

    def delayed_by_sector(self, length: float) -> list[float]:
        """The same, but what follows in a sector comes with it, and asks for no turn of its own."""
        ends = self.delayed(length)
        pairs = zip(ends, self.followed, strict=True)
        return [end if f is None else max(ends[f[0]], f[1]) for end, f in pairs]


class _PathCases:
    """A path's cases, and how likely each is when chances to miss are a part of what is expected. Sectors
    that are a number apart are new together. Where ``rounds_differ``, what all threads load is new in the
    first round of a loop, whatever part is expected."""

    def __init__(
        self,
        chance: float,
        outstanding: Sequence[Outstanding],
        code: AdvisedCode,
        latencies: Latencies,
        timing: ExecutionTiming,
        rounds_differ: bool,
    ) -> None:
        self.chance, self._rounds_differ = chance, rounds_differ
        self._outstanding, self._code = tuple(outstanding), code
        self._latencies, self._timing = latencies, timing
        loads = (o.source for o in outstanding if o.result and _loads(code, o.source))
        self._chances: dict[int, float] = {}
        self._private_loads: set[int] = set()
        rows: dict[object, set[int]] = {}
        for load in loads:
            first = leader(code, load)
            if (expected := timing.miss_chance(code, first)) is not None:
                self._chances[first] = expected
                address = address_of(code, first)
                rows.setdefault(first if address is None else address.terms, set()).add(first)
            elif first == load:
                self._private_loads.add(load)
        self._all_alike = not self._private_loads and all(same_for_all(code, n) for n in self._chances)
        self._is_first_round = rounds_differ and self._begin_loops()
        self._rows = [frozenset(row) for row in rows.values()]
        sets = [frozenset(), *self._rows]
        if len(self._rows) > 1:
            sets.append(frozenset(self._chances))
        self.cases = [self._case(missing) for missing in sets]

    def likely(self, part: float) -> list[float]:
        """The chance of each case, the path's own included."""
        if self._is_first_round:
            part = 1.0
        chances = [min(part * max(self._chances[n] for n in row), 1.0 - LEAST) for row in self._rows]
        none = math.prod(1 - c for c in chances)
        alone = [none * c / (1 - c) for c in chances]
        several = [max(1 - none - sum(alone), 0.0)] if len(chances) > 1 else []
        return [self.chance * p for p in (none, *alone, *several)]

    def _begin_loops(self) -> bool:
        """Whether the path comes from before the loop of a load that all threads ask for alike; that load's
        chance to miss is then the first round's."""
        code, sources, begun = self._code, {o.source for o in self._outstanding}, False
        for load in self._chances:
            loop = code.innermost_loop(load)
            if loop is not None and not sources <= loop.members and same_for_all(code, load):
                first = self._timing.first_miss_chance(code, load)
                self._chances[load], begun = max(first, self._chances[load]), True
        return begun

    def _case(self, missing: frozenset[int]) -> MissCase:
        ends, prompt = [], []
        for outstanding in self._outstanding:
            source, waiting = (
                outstanding.source,
                READING_CYCLES + self._timing.queue_cycles - outstanding.cycles,
            )
            quick = False
            if outstanding.result:
                waiting = self._timing.expected(source) - outstanding.cycles
                quick = self._code.kinds[source] in STEADY
                if _loads(self._code, source):
                    waiting, quick = self._loaded(outstanding, waiting, missing)
            ends.append(round(waiting, DIGITS))
            prompt.append(quick)
        self._in_order(ends, prompt)
        rounds, beyond = self._rounds_before_last(prompt, ends), self._timing.far_round_cycles
        brought = tuple(o.result and leader(self._code, o.source) in missing for o in self._outstanding)
        followed = tuple(None if quick else self._followed(n) for n, quick in enumerate(prompt))
        return MissCase(self._outstanding, tuple(ends), tuple(prompt), rounds, beyond, brought, followed)

    def _followed(self, number: int) -> tuple[int, float] | None:
        """Which load on the path asked for a load's sector before, and when L1 could give it then."""
        mine = self._outstanding[number]
        if not mine.result or not _loads(self._code, mine.source):
            return None
        first = leader(self._code, mine.source)
        earlier = range(number + 1, len(self._outstanding))
        before = (n for n in earlier if self._outstanding[n].source == first)
        first_of_line = first == mine.source or leader(self._code, first) != first  # or brings a sector more
        place = None if first_of_line else next(before, None)
        return None if place is None else (place, round(self._hit(mine), DIGITS))

    def _hit(self, outstanding: Outstanding) -> float:
        """When a load that L1 has the words of is done."""
        return self._latencies.hit_cycles + self._timing.staged(outstanding.source) - outstanding.cycles

    def _in_order(self, ends: list[float], prompt: Sequence[bool]) -> None:
        """What each thread loads of its own beyond L1 comes in the order of issue; where the first of it is
        what warps begin with (or, where rounds differ, a round of an outer loop), all warps ask at once, and
        all loads beyond L1 are later."""
        mine = [n for n, o in enumerate(self._outstanding) if o.source in self._private_loads]
        if any(self._begins_warps(self._outstanding[n].source) for n in mine):
            for n, outstanding in enumerate(self._outstanding):
                if outstanding.result and _loads(self._code, outstanding.source) and not prompt[n]:
                    ends[n] += round(self._timing.far_round_cycles / 2, DIGITS)
        for before, n in itertools.pairwise(reversed(mine)):
            ends[n] = max(ends[n], ends[before])

    def _begins_warps(self, load: int) -> bool:
        loop = self._code.innermost_loop(load)
        return loop is None or (
            self._rounds_differ and any(inner.parent == loop.header for inner in self._code.loops)
        )

    def _rounds_before_last(self, prompt: Sequence[bool], ends: Sequence[float]) -> tuple[float, ...]:
        """How many requests of each other warp stand between each in a queue and the last: as many as were
        issued between the two, and between two that follow each other not more than one."""
        outstanding, rounds, sofar, later = self._outstanding, [0.0] * len(ends), 0.0, None
        for n in range(len(ends)):  # the last issued first
            if prompt[n] or not (outstanding[n].result and self._code.kinds[outstanding[n].source] in BEYOND):
                continue
            if later is not None and ends[n] != ends[later]:
                distance = max(outstanding[n].cycles - outstanding[later].cycles, 0.0)
                sofar += min(distance / self._timing.round_cycles, 1.0)
            rounds[n], later = sofar, n
        return tuple(rounds)

    def _loaded(self, outstanding: Outstanding, far: float, missing: frozenset[int]) -> tuple[float, bool]:
        """When a load from global memory is done, ``far`` if beyond L1; and whether L1 has it."""
        source, begins = outstanding.source, self._timing.begins
        hit, first = self._hit(outstanding), leader(self._code, source)
        if self._rounds_differ and self._all_alike:
            far += self._timing.first_sm_cycles
        if first in self._chances and first not in missing:
            return hit, True
        if first == source:
            return far, False
        later = self._timing.staged(first) - self._timing.staged(source) - (begins[source] - begins[first])
        return max(far + later, hit), False


def _loads(code: AdvisedCode, source: int) -> bool:
    return code.kinds[source] == "global" and is_load(code.instructions[source])


def cases_of(
    code: AdvisedCode,
    paths: Sequence[tuple[float, Sequence[Outstanding]]],
    latencies: Latencies,
    timing: ExecutionTiming,
    waited: float,
    rounds_differ: bool = False,
) -> Iterator[tuple[float, MissCase, float]]:
    """All cases of some paths: how likely each is, and how long the use is stalled then, so that it waits
    ``waited`` cycles in the mean (0: not known). ``rounds_differ``: a loop's first round misses L1 more often
    than later ones."""
    held = [_PathCases(chance, each, code, latencies, timing, rounds_differ) for chance, each in paths]
    cases = [case for path in held for case in path.cases]

    def likely(part: float) -> list[float]:
        return [p for path in held for p in path.likely(part)]

    def expected(part: float) -> float:
        return math.fsum(p * c.length for p, c in zip(likely(part), cases, strict=True))

    part = 1.0
    if waited and expected(1.0) > waited:
        low, high = 0.0, 1.0
        aim = waited * (expected(1.0) / waited) ** LENGTHS
        for _ in range(HALVINGS):
            part = (low + high) / 2
            low, high = (part, high) if expected(part) < aim else (low, part)
    chances = likely(part)
    yield from zip(chances, cases, _lengths(chances, cases, waited), strict=True)


def _lengths(chances: Sequence[float], cases: Sequence[MissCase], waited: float) -> list[float]:
    """What does not stand in a queue comes when it is expected, and so bounds the stall of a case with
    nothing else; what is waited for beyond that, in the mean of all, is owed to the others, which are later
    by as much as it takes."""
    if not waited:
        return [case.length for case in cases]
    near = math.fsum(p * c.length for p, c in zip(chances, cases, strict=True) if c.is_prompt)
    far = math.fsum(p * c.length for p, c in zip(chances, cases, strict=True) if not c.is_prompt)
    alike = waited / (near + far) if near + far else 1.0
    if alike <= 1 or not far:
        return [case.length * alike for case in cases]
    hits = min(alike, HITS_LATER)
    queued = [(p, c) for p, c in zip(chances, cases, strict=True) if not c.is_prompt]
    later = _later(queued, waited - near * hits)
    return [c.length * hits if c.is_prompt else c.stalled(later) for c in cases]


def _later(cases: Sequence[tuple[float, MissCase]], waited: float) -> float:
    """By how much all of some cases are later than expected if they wait so long in the mean."""
    low, high = 0.0, waited / max(math.fsum(p for p, _ in cases), LEAST) + max(-c.raw for _, c in cases)
    for _ in range(HALVINGS):
        later = (low + high) / 2
        enough = math.fsum(p * c.stalled(later) for p, c in cases) > waited
        low, high = (low, later) if enough else (later, high)
    return (low + high) / 2

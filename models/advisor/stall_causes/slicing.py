"""Backward slices: which instructions may have produced what a stalled instruction waited for.

Zhou et al. (GPA), Section IV: the search goes backward along every path from the use and stops at a
definition, unless that is executed under a predicate that does not cover the use's (``covered``). A
scoreboard is a register like any other, written by the instruction that raises it and read by the one that
waits for it.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from smlab.hw_bench.sass.opcodes import is_load
from smlab.models.advisor.code import AdvisedCode

MAX_VISITS: Final = 3
"""How often a search passes through one instruction, by paths of different lengths."""
MAX_STEPS: Final = 1_500
"""Blocks and definitions that one search comes to; a longer one is cut off, and says so."""

MAX_SOURCES: Final = 60
"""Instructions that an address is followed back through."""

ALWAYS: Final = "_"


@dataclass
class Path:
    """What is known of the paths from a definition to its use: instructions in between and cycles by their
    stall counts, over all paths found; ``later`` counts the other definitions on the path between, and
    ``users`` are the unpredicated readers that every path passes."""

    lengths: list[int] = field(default_factory=list)
    cycles: list[int] = field(default_factory=list)
    later: list[int] = field(default_factory=list)
    users: frozenset[int] | None = None

    def add(self, length: int, cycles: int, users: frozenset[int], later: int) -> None:
        self.lengths.append(length)
        self.cycles.append(cycles)
        self.later.append(later)
        self.users = users if self.users is None else self.users & users

    @property
    def longest(self) -> int:
        return max(self.lengths)

    @property
    def shortest(self) -> int:
        return min(self.lengths)

    @property
    def mean(self) -> float:
        return sum(self.lengths) / len(self.lengths)


@dataclass
class Slice:
    """The definitions that one search found, with the paths from each."""

    paths: dict[int, Path]
    cut_off: bool = False


def predicate_of(code: AdvisedCode, number: int) -> str:
    """``P0``, ``!P0``, or `ALWAYS`."""
    guard = code.instructions[number].predicate
    if guard is None or guard.always:
        return ALWAYS
    return f"{'!' if guard.negated else ''}{guard.register}"


def covered(seen: frozenset[str], wanted: str) -> bool:
    """Whether definitions under these predicates cover a use under ``wanted`` (the paper's union P)."""
    if ALWAYS in seen or wanted in seen:
        return True
    return any(f"!{p}" in seen for p in seen)


def slice_back(code: AdvisedCode, use: int, name: str, horizon_cycles: int | None = None) -> Slice:
    """Search backward from ``use`` for instructions that define a register, predicate or scoreboard.

    A path ends where the definitions on it cover the use's predicate; ``horizon_cycles`` is how far back it
    goes. A search steps from definition to definition and from block to block, so a long block costs no more.
    """
    result, wanted = Slice({}), predicate_of(code, use)
    defining, readers = code.defining.get(name, ()), code.readers.get(name, ())
    before, total, stalls = code.before, code.cycles_before, code.stalls
    horizon = math.inf if horizon_cycles is None else horizon_cycles
    visits: dict[int, int] = {}
    nothing: frozenset[int] = frozenset()
    unseen: frozenset[str] = frozenset()
    stack = [(p, 1, stalls[p], nothing, unseen, 0) for p in before[use]]
    for _ in range(MAX_STEPS):
        if not stack:
            return result
        number, length, cycles, users, seen, later = stack.pop()
        block = code.block_of[number]
        begin = code.first_of(block)
        place = bisect_right(defining, number) - 1
        stop = max(defining[place] if place >= 0 else -1, use if use <= number else -1)
        if stop < number and number == code.last_of(block):
            if visits.get(number, 0) >= MAX_VISITS:
                continue
            visits[number] = visits.get(number, 0) + 1
        to = max(stop, begin)
        between = bisect_right(readers, max(stop, begin - 1)), bisect_right(readers, number)
        users = users.union(readers[slice(*between)])
        length, cycles = length + number - to, cycles + total[number] - total[to]
        if stop >= begin:
            if stop < number and cycles - stalls[stop] > horizon:
                continue
            if name in code.effects[stop].writes or name in code.effects[stop].sets:
                result.paths.setdefault(stop, Path()).add(length, cycles, users, later)
                later, seen = later + 1, seen | {predicate_of(code, stop)}
                if covered(seen, wanted):
                    continue
            if stop == use or visits.get(stop, 0) >= MAX_VISITS:
                continue
            visits[stop] = visits.get(stop, 0) + 1
            if _has(readers, stop):
                users = users | {stop}
        if cycles <= horizon:
            stack += [(p, length + 1, cycles + stalls[p], users, seen, later) for p in before[to]]
    result.cut_off = bool(stack)
    return result


def _has(numbers: Sequence[int], number: int) -> bool:
    """Whether sorted numbers have one."""
    place = bisect_right(numbers, number)
    return place > 0 and numbers[place - 1] == number


def definitions(code: AdvisedCode, use: int, name: str, horizon_cycles: int | None = None) -> Slice:
    """The instructions that may have defined a register, predicate or scoreboard that ``use`` reads; each
    search is made once."""
    key = (use, name, horizon_cycles)
    return code.once(key, lambda: slice_back(code, use, name, horizon_cycles))


def address_sources(code: AdvisedCode, number: int) -> frozenset[int]:
    """The instructions that the address of a memory access hangs on, through any number of definitions (up to
    `MAX_SOURCES`); each search is made once."""
    return code.once((number, "address", None), lambda: _address_sources(code, number))


def hangs_on_thread(code: AdvisedCode, number: int) -> bool:
    """Whether the address of a memory access is computed from its thread's number, not only from loaded
    data."""
    sources = _address_sources(code, number, through_loads=False)
    return any(o.text.startswith(_THREAD) for n in sources for o in code.instructions[n].operands)


def _address_sources(code: AdvisedCode, number: int, through_loads: bool = True) -> frozenset[int]:
    instruction = code.instructions[number]
    registers = {r for o in instruction.operands if o.kind == "memory" for r in o.registers}
    names = {n for n in code.effects[number].reads if n in registers or n.startswith(("R", "UR"))}
    sources: set[int] = set()
    waiting = [(number, name) for name in names if is_load(instruction) or name in registers]
    seen = set(waiting)
    while waiting and len(sources) < MAX_SOURCES:
        use, name = waiting.pop()
        for source in definitions(code, use, name).paths:
            sources.add(source)
            if code.kinds[source] in DIFFERS and not through_loads:
                continue
            for read in code.effects[source].reads:
                if (source, read) not in seen:
                    seen.add((source, read))
                    waiting.append((source, read))
    return frozenset(sources)


_THREAD: Final = ("SR_TID", "SR_LANEID")
DIFFERS: Final = frozenset(("global", "local", "shared", "shared-atomic", "exchange"))


def same_for_all(code: AdvisedCode, number: int) -> bool:
    """Whether a load's address is the same for all threads: it hangs on no thread's number and no data."""

    def differs(n: int) -> bool:
        instruction = code.instructions[n]
        special = any(o.text.startswith(_THREAD) for o in instruction.operands)
        return special or code.kinds[n] in DIFFERS

    return not any(differs(n) for n in address_sources(code, number))

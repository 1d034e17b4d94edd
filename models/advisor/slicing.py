"""Backward slices: which instructions may have produced what a stalled instruction waited for.

Zhou et al. (GPA), Section IV: the search goes backward along every path from the use and stops at a
definition, unless that is executed under a predicate that does not cover the use's (``covered``). A
scoreboard is a register like any other, written by the instruction that raises it and read by the one that
waits for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from smlab.hw_bench.sass.opcodes import is_load
from smlab.models.advisor.code import AdvisedCode

MAX_VISITS: Final = 3
"""How often a search passes through one instruction, by paths of different lengths."""
MAX_STEPS: Final = 1_500
"""Steps of one search; a longer one is cut off, and says so."""

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


def slice_back(
    code: AdvisedCode,
    use: int,
    defines: Callable[[int], bool],
    reads: Callable[[int], bool] = lambda number: False,
    horizon_cycles: int | None = None,
) -> Slice:
    """Search backward from ``use`` for instructions that ``defines`` holds of.

    A path ends where the definitions on it cover the use's predicate. ``reads`` marks other users;
    ``horizon_cycles`` is how far back a path goes.
    """
    found = Slice({})
    wanted = predicate_of(code, use)
    visits: dict[int, int] = {}
    steps = 0
    nothing: frozenset[int] = frozenset()
    seen_none: frozenset[str] = frozenset()
    stack = [(p, 1, code.stalls[p], nothing, seen_none, 0) for p in code.before[use]]
    while stack:
        number, length, cycles, users, seen, later = stack.pop()
        steps += 1
        if steps > MAX_STEPS:
            found.cut_off = True
            break
        if defines(number):
            found.paths.setdefault(number, Path()).add(length, cycles, users, later)
            later += 1
            seen = seen | {predicate_of(code, number)}
            if covered(seen, wanted):
                continue
        if number == use or (horizon_cycles is not None and cycles > horizon_cycles):
            continue
        if visits.get(number, 0) >= MAX_VISITS:
            continue
        visits[number] = visits.get(number, 0) + 1
        if reads(number) and code.unconditional(number):
            users = users | {number}
        for previous in code.before[number]:
            stack.append((previous, length + 1, cycles + code.stalls[previous], users, seen, later))
    return found


def definitions(code: AdvisedCode, use: int, name: str, horizon_cycles: int | None = None) -> Slice:
    """The instructions that may have defined a register, predicate or scoreboard that ``use`` reads; each
    search is made once."""
    key = (use, name, horizon_cycles)
    if key in code.searched:
        known: Slice = code.searched[key]
        return known
    effects = code.effects

    def writes(number: int) -> bool:
        return name in effects[number].writes or name in effects[number].sets

    def reads(number: int) -> bool:
        return name in effects[number].reads or name in effects[number].waits

    found = slice_back(code, use, writes, reads, horizon_cycles)
    code.searched[key] = found
    return found


def address_sources(code: AdvisedCode, number: int) -> frozenset[int]:
    """The instructions that the address of a memory access hangs on, through any number of definitions (up to
    `MAX_SOURCES`); each search is made once."""
    key = (number, "address", None)
    if key not in code.searched:
        code.searched[key] = _address_sources(code, number)
    found: frozenset[int] = code.searched[key]
    return found


def hangs_on_thread(code: AdvisedCode, number: int) -> bool:
    """Whether the address of a memory access is computed from its thread's number, not only from loaded
    data."""
    sources = _address_sources(code, number, through_loads=False)
    return any(o.text.startswith(_THREAD) for n in sources for o in code.instructions[n].operands)


def _address_sources(code: AdvisedCode, number: int, through_loads: bool = True) -> frozenset[int]:
    instruction = code.instructions[number]
    registers = {r for o in instruction.operands if o.kind == "memory" for r in o.registers}
    names = {n for n in code.effects[number].reads if n in registers or n.startswith(("R", "UR"))}
    found: set[int] = set()
    waiting = [(number, name) for name in names if is_load(instruction) or name in registers]
    seen = set(waiting)
    while waiting and len(found) < MAX_SOURCES:
        use, name = waiting.pop()
        for source in definitions(code, use, name).paths:
            found.add(source)
            if code.kinds[source] in DIFFERS and not through_loads:
                continue
            for read in code.effects[source].reads:
                if (source, read) not in seen:
                    seen.add((source, read))
                    waiting.append((source, read))
    return frozenset(found)


_THREAD: Final = ("SR_TID", "SR_LANEID")
DIFFERS: Final = frozenset(("global", "local", "shared", "shared-atomic", "exchange"))


def same_for_all(code: AdvisedCode, number: int) -> bool:
    """Whether a load's address is the same for all threads: it hangs on no thread's number and no data."""

    def differs(n: int) -> bool:
        instruction = code.instructions[n]
        special = any(o.text.startswith(_THREAD) for o in instruction.operands)
        return special or code.kinds[n] in DIFFERS

    return not any(differs(n) for n in address_sources(code, number))

"""The paths that warps take through the code, from how often each instruction was executed.

A profile counts executions; it does not record who branched where. So a warp's path is made up: the blocks
of a loop in the order of their addresses, each as often as its count says, spread evenly (Bresenham's way),
inner loops as often as their headers were passed. Both sides of a branch that a warp divided at are executed,
one after the other, as hardware does. Blocks that only some warps execute are on the paths of some.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from smlab.models.advisor.code import AdvisedCode, LoopOf

MAX_STEPS: Final = 3_000
"""Steps of a path; the loops of a longer one are cut to fewer iterations."""


@dataclass
class Level:
    """A loop (or, with ``loop`` None, the whole code): its own blocks and the loops in it, the header first,
    the others by address."""

    loop: LoopOf | None
    items: list[tuple[int, int | Level]] = field(default_factory=list)

    @property
    def key(self) -> int:
        """Its loop's header, or -1."""
        return -1 if self.loop is None else self.loop.header

    @property
    def header(self) -> int:
        """The first block."""
        block = self.items[0][1]
        assert isinstance(block, int)
        return block


@dataclass(frozen=True)
class Lap:
    """One round of a loop on a path: the loop's header, its round's number since the loop was entered, and
    the steps ``begin`` to ``end`` that it takes."""

    header: int
    number: int
    begin: int
    end: int


@dataclass(frozen=True)
class WarpPath:
    """Instructions by number in the order of execution, with the rounds of the loops among them."""

    steps: tuple[int, ...]
    laps: tuple[Lap, ...]


@dataclass(frozen=True)
class PathReading:
    """How executions are laid on the warps of a block; by default spread evenly.

    A block executed 3 times by 8 warps in a round is executed by all in 3 of 8 rounds; ``gathered``, by three
    warps in each (as ``if (threadIdx.x < 96)`` has it). With a ``skew`` the rounds of warps through
    ``uneven`` loops (without any, `uneven_loops`) grow with their number to that power, with the same mean.
    ``regrouped``, what only a part of them executes is laid on warps way by way.
    """

    gathered: bool = False
    skew: float = 0.0
    uneven: frozenset[int] | None = None
    regrouped: bool = False


def paths_of(
    code: AdvisedCode,
    executed: Mapping[int, float],
    warps: float,
    variants: int,
    reading: PathReading = PathReading(),
) -> tuple[WarpPath, ...]:
    """Paths of ``variants`` warps that differ in what only part of them execute; equal ones are given once
    unless the reading tells warps apart. None where the counts make no path, as those of a profile that lacks
    an instruction of the first block."""
    gathered, skew, uneven = reading.gathered, reading.skew, reading.uneven
    times = [
        # The least, since parts of a warp may meet at a block's first instruction (BSYNC) more than once.
        min(executed.get(code.number[i.address], 0.0) for i in block.instructions) / warps
        for block in code.flow.blocks
    ]
    cut = min(1.0, MAX_STEPS * warps / max(sum(executed.values()), 1.0))
    top, calls = levels(code), _calls(code, executed)
    if uneven is None or not skew:
        uneven = uneven_loops(code) if skew else frozenset()
    paths: list[WarpPath] = []
    ways = _ways(code, top, times) if reading.regrouped else {}
    shares = [((variant + 0.5) / variants) ** skew for variant in range(variants)]
    for variant in range(variants):
        more = shares[variant] * variants / sum(shares)
        walk = _Walk(code, times, cut, calls, variant, variants, gathered, uneven, more, ways)
        walk.rounds(top, 1, 1.0)
        if walk.steps:  # no warp executes nothing: the counts are not whole
            paths.append(WarpPath(tuple(walk.steps), tuple(walk.laps)))
    return (
        tuple(paths) if gathered or skew or reading.regrouped else tuple({p.steps: p for p in paths}.values())
    )


def _ways(
    code: AdvisedCode, top: Level, times: Sequence[float]
) -> dict[tuple[int, int], tuple[float, float]]:
    """For each block and loop (by the level that it is in, and its first instruction) that only a part of the
    warps get to: from which share of them on they do, and up to which. What is got to by one of these alone
    has its place."""
    ways: dict[tuple[int, int], tuple[float, float]] = {}

    def place(level: Level, passes: float) -> None:
        begin = 0.0
        here = {item: at for at, item in level.items if isinstance(item, int)}
        for at, item in level.items:
            block = item if isinstance(item, int) else item.header
            share = min(times[block] / passes, 1.0) if passes else 1.0
            before = code.flow.immediate_dominator(block) if block in code.flow.reachable else None
            while before is not None and before not in here:
                before = code.flow.immediate_dominator(before)
            way = None if before is None else ways.get((level.key, here[before]))
            if way is not None:
                narrow = isinstance(item, int) and share < way[1] - way[0]
                ways[level.key, at] = (way[0], way[0] + share if narrow else way[1])
            elif share < 1 - 1e-6 and isinstance(item, int):
                ways[level.key, at] = (begin % 1.0, begin % 1.0 + share)
                begin += share
            if not isinstance(item, int):
                place(item, times[block])

    place(top, 1.0)
    return ways


def uneven_loops(code: AdvisedCode) -> frozenset[int]:
    """Headers of the outermost loops that warps may go through more or less often and miss no barrier."""
    bars = {n for n, i in enumerate(code.instructions) if i.opcode == "BAR"}
    free = {loop.header for loop in code.loops if not bars & loop.members}
    return frozenset(loop.header for loop in code.loops if loop.header in free and loop.parent not in free)


def _calls(code: AdvisedCode, executed: Mapping[int, float]) -> dict[int, tuple[int, ...]]:
    """For each executed call of a function inside the code the executed instructions of that function."""
    bodies = {}
    for n, instruction in enumerate(code.instructions):
        label = instruction.operands[-1].label if instruction.operands else None
        address = code.function.labels.get(label) if label is not None else None
        if instruction.opcode != "CALL" or not executed.get(n) or address not in code.number:
            continue
        body = []
        for at in range(code.number[address], len(code)):
            if executed.get(at):
                body.append(at)
            if code.instructions[at].opcode == "RET":
                break
        if n not in body:
            bodies[n] = tuple(body)
    return bodies


def levels(code: AdvisedCode) -> Level:
    """The nest of loops, with the whole code around it."""
    top = Level(None)
    nest = {loop.header: Level(loop) for loop in code.loops}
    for loop in code.loops:
        home = top if loop.parent is None else nest[loop.parent]
        home.items.append((loop.header, nest[loop.header]))
    for block in code.flow.blocks:
        first = code.number[block.instructions[0].address]
        loop_of = code.innermost_loop(first)
        (top if loop_of is None else nest[loop_of.header]).items.append((first, block.index))
    top.items.sort(key=lambda item: item[0])
    for header, level in nest.items():
        level.items.sort(key=lambda item: (item[0] != header, item[0]))
    return top


@dataclass
class _Walk:
    """One warp's walk: what each block and loop is still owed, and the steps made."""

    code: AdvisedCode
    times: Sequence[float]
    cut: float
    calls: Mapping[int, tuple[int, ...]]
    variant: int
    variants: int
    gathered: bool
    uneven: frozenset[int] = frozenset()
    more: float = 1.0
    ways: Mapping[tuple[int, int], tuple[float, float]] = field(default_factory=dict)
    owed: dict[int, float] = field(default_factory=dict)
    steps: list[int] = field(default_factory=list)
    laps: list[Lap] = field(default_factory=list)

    def rounds(self, level: Level, count: int, passes: float) -> None:
        """Go ``count`` rounds through a level that the warp passes ``passes`` times in all."""
        called = {n for body in self.calls.values() for n in body} if level.loop is None else set()
        for number in range(count):
            begin = len(self.steps)
            for at, item in level.items:
                if at in called:
                    continue
                if isinstance(item, int):
                    for _ in range(
                        self._due(item, self._visits_of_warp((level.key, at), self.times[item] / passes))
                    ):
                        for instruction in self.code.flow.blocks[item].instructions:
                            self._step(self.code.number[instruction.address])
                else:
                    total = self.times[item.header]
                    share = total / passes * (self.cut if level.loop is None else 1.0)
                    if item.loop is not None and item.loop.header in self.uneven:
                        share *= self.more
                    self.rounds(item, self._due(-1 - at, self._visits_of_warp((level.key, at), share)), total)
            if level.loop is not None:
                self.laps.append(Lap(level.loop.header, number, begin, len(self.steps)))

    def _step(self, number: int) -> None:
        self.steps.append(number)
        for inside in self.calls.get(number, ()):
            self._step(inside)

    def _visits_of_warp(self, at: tuple[int, int], share: float) -> float:
        """How often this warp goes where a part of all warps goes."""
        if at not in self.ways:
            return share
        begin, end = self.ways[at]
        place = (self.variant + 0.5) / self.variants
        inside = begin <= place < end or begin <= place + 1 < end
        return share / (end - begin) if inside else 0.0

    def _due(self, key: int, share: float) -> int:
        if self.gathered and share < 1 - 1e-6:
            share = min(max(self.variants * share - self.variant, 0.0), 1.0)
        owed = self.owed.get(key, (self.variant + 0.5) / self.variants) + share
        whole = int(owed + 1e-9)
        self.owed[key] = owed - whole
        return whole

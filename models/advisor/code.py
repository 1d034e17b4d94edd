"""A kernel's code as the advisor walks it: instructions by number, who may come before whom, loops, lines."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeVar

from smlab.hw_bench.sass import ControlFlow, Function, NaturalLoop, SassInstruction
from smlab.hw_bench.sass.effects import InstructionEffects, effects_of
from smlab.hw_bench.sass.opcodes import Kind, kind_of_opcode

R = TypeVar("R")

FIXED_STALL: Final = 1
"""Cycles between two instructions where the listing has no control codes."""


@dataclass(frozen=True)
class LoopOf:
    """A natural loop by instructions: header's number, all its instructions, and the loop around it."""

    header: int
    members: frozenset[int]
    depth: int
    parent: int | None


class AdvisedCode:
    """The static side of a kernel; instructions are known by their number in the function.

    Raises:
        SmlabError: a function without instructions.
    """

    def __init__(self, function: Function) -> None:
        self.function = function
        self.flow = ControlFlow(function)
        self.instructions: tuple[SassInstruction, ...] = function.instructions
        self.number = {i.address: n for n, i in enumerate(self.instructions)}
        self.effects: tuple[InstructionEffects, ...] = tuple(effects_of(i) for i in self.instructions)
        self.kinds: tuple[Kind, ...] = tuple(kind_of_opcode(i) for i in self.instructions)
        self.stalls: tuple[int, ...] = tuple(
            FIXED_STALL if i.control is None else max(1, i.control.stall_cycles) for i in self.instructions
        )
        self.searched: dict[tuple[int, str, int | None], Any] = {}
        self.has_control_codes = any(i.control is not None for i in self.instructions)

    def once(self, key: tuple[int, str, int | None], make: Callable[[], R]) -> R:
        """What ``make`` finds, kept by key: each search of the code is made once."""
        if key not in self.searched:
            self.searched[key] = make()
        known: R = self.searched[key]
        return known

    def __len__(self) -> int:
        return len(self.instructions)

    @cached_property
    def before(self) -> tuple[tuple[int, ...], ...]:
        """For each instruction those that may have been executed just before it."""
        predecessors: list[list[int]] = [[] for _ in self.instructions]
        for block in self.flow.blocks:
            numbers = [self.number[i.address] for i in block.instructions]
            for first, second in itertools.pairwise(numbers):
                predecessors[second].append(first)
            for successor in block.successors:
                head = self.number[self.flow.blocks[successor].instructions[0].address]
                predecessors[head].append(numbers[-1])
        return tuple(tuple(row) for row in predecessors)

    @cached_property
    def block_of(self) -> tuple[int, ...]:
        """The basic block of each instruction."""
        blocks = [0] * len(self)
        for block in self.flow.blocks:
            for instruction in block.instructions:
                blocks[self.number[instruction.address]] = block.index
        return tuple(blocks)

    @cached_property
    def defining(self) -> dict[str, list[int]]:
        """For each register, predicate and scoreboard the instructions that define it, in order."""
        definers: dict[str, list[int]] = {}
        for number, e in enumerate(self.effects):
            for name in {*e.writes, *e.sets}:
                definers.setdefault(name, []).append(number)
        return definers

    @cached_property
    def readers(self) -> dict[str, list[int]]:
        """The same of those that read it or wait for it, without a predicate."""
        readers: dict[str, list[int]] = {}
        for number, e in enumerate(self.effects):
            if self.unconditional(number):
                for name in {*e.reads, *e.waits}:
                    readers.setdefault(name, []).append(number)
        return readers

    @cached_property
    def cycles_before(self) -> tuple[int, ...]:
        """The stall counts of all instructions before each."""
        return (0, *itertools.accumulate(self.stalls))

    @cached_property
    def scoreboard_events(self) -> tuple[tuple[int, ...], ...]:
        """For each block its instructions that raise a scoreboard or wait for one, the last first."""
        events: list[list[int]] = [[] for _ in self.flow.blocks]
        for number, effects in enumerate(self.effects):
            if effects.waits or effects.result_on or effects.operands_on:
                events[self.block_of[number]].append(number)
        return tuple(tuple(reversed(row)) for row in events)

    def begins(self, stalled: Sequence[float]) -> list[float]:
        """Cycles from the begin of its block to each instruction's issue, by stall counts and by what each
        instruction is known to wait besides (``stalled``)."""
        cycles_before = [0.0] * len(self)
        for block in self.flow.blocks:
            cycles = 0.0
            for instruction in block.instructions:
                number = self.number[instruction.address]
                cycles += stalled[number]
                cycles_before[number] = cycles
                cycles += self.stalls[number]
        return cycles_before

    def first_of(self, block: int) -> int:
        """The first instruction of a block."""
        return self._first(block)

    def last_of(self, block: int) -> int:
        """The last instruction of a block."""
        return self.number[self.flow.blocks[block].instructions[-1].address]

    @cached_property
    def loops(self) -> tuple[LoopOf, ...]:
        """All loops, the innermost last."""
        loops = []
        for loop in self.flow.loops:
            members = frozenset(self.number[i.address] for i in self.flow.loop_instructions(loop))
            loops.append(LoopOf(self._first(loop.header), members, loop.depth, self._parent(loop)))
        return tuple(sorted(loops, key=lambda loop: loop.depth))

    def _parent(self, loop: NaturalLoop) -> int | None:
        return None if loop.parent is None else self._first(loop.parent)

    def _first(self, block: int) -> int:
        return self.number[self.flow.blocks[block].instructions[0].address]

    @cached_property
    def _innermost(self) -> tuple[LoopOf | None, ...]:
        innermost: list[LoopOf | None] = [None] * len(self)
        for loop in self.loops:
            for member in loop.members:
                innermost[member] = loop
        return tuple(innermost)

    def innermost_loop(self, number: int) -> LoopOf | None:
        return self._innermost[number]

    def common_loop(self, first: int, second: int) -> LoopOf | None:
        """The innermost loop that holds both."""
        for loop in reversed(self.loops):
            if first in loop.members and second in loop.members:
                return loop
        return None

    def line(self, number: int) -> int | None:
        """The line of the kernel's own source; of an inlined call, where that call stands."""
        source = self.instructions[number].source
        return None if source is None else source.outermost.line

    def function_of(self, number: int) -> str | None:
        """The file and line inside an inlined function, or None in the kernel's own text."""
        source = self.instructions[number].source
        if source is None or source.inlined_at is None:
            return None
        return f"{source.file}:{source.line}"

    def unconditional(self, number: int) -> bool:
        """Whether all active lanes execute it."""
        guard = self.instructions[number].predicate
        return guard is None or guard.always

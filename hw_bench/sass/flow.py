"""Control flow of a function: basic blocks, dominators and natural loops."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.sass.instruction import Function, SassInstruction

_BRANCHES: Final = frozenset({"BRA", "JMP"})
_LOCAL_LABEL: Final = ".L_x_"
"""How the disassembler names places inside a function; functions that are called have names of their own."""
_INDIRECT: Final = frozenset({"BRX", "BRXU", "JMX", "JMXU"})
_LISTED: Final = re.compile(r'BRANCH_TARGETS ([^"]+)"')
"""Where a jump of a table may go, as nvdisasm notes it behind the operands."""
_ENDS: Final = frozenset({"EXIT", "RET", "KILL"})
_CONDITIONAL_FORMS: Final = frozenset({"DIV", "CONV", "U"})


@dataclass(frozen=True)
class BasicBlock:
    """A run of instructions entered only at its first and left only at its last."""

    index: int
    instructions: tuple[SassInstruction, ...]
    successors: tuple[int, ...]
    predecessors: tuple[int, ...]

    @property
    def start(self) -> int:
        return self.instructions[0].address


@dataclass(frozen=True)
class NaturalLoop:
    """A natural loop: ``header`` dominates all its ``blocks``; ``latches`` jump back to it. Indices of
    blocks.

    ``depth`` is 1 for an outermost loop; ``parent`` is the header of the loop around it.
    """

    header: int
    blocks: frozenset[int]
    latches: tuple[int, ...]
    depth: int
    parent: int | None


class ControlFlow:
    """Basic blocks, dominators and loops of one function.

    Blocks are numbered by address, block 0 being the entry. ``calls`` holds the calls of other functions,
    which are taken to come back; a ``CALL`` of a place inside the function is a plain jump, and the assembler
    does make such. ``indirect`` holds the jumps whose targets the listing does not give: past them the graph
    is incomplete.
    """

    def __init__(self, function: Function) -> None:
        if not function.instructions:
            raise SmlabError.at(function.name, "has no instructions")
        self.function = function
        self.indirect = tuple(
            i for i in function.instructions if i.opcode in _INDIRECT and not [*_targets(function, i)]
        )
        self.calls = tuple(i for i in function.find("CALL") if not _jumps(i))
        self.blocks = _blocks(function)
        self._home = {i.address: block.index for block in self.blocks for i in block.instructions}
        self._order = self._reverse_postorder()
        self._dominator = self._immediate_dominators()
        self.loops = self._natural_loops()

    @property
    def reachable(self) -> frozenset[int]:
        """Blocks that the entry leads to; the assembler pads functions with others."""
        return frozenset(self._order)

    def block_of(self, address: int) -> BasicBlock:
        if address not in self._home:
            raise SmlabError.at(self.function.name, "no instruction at this address", f"{address:#x}")
        return self.blocks[self._home[address]]

    def immediate_dominator(self, block: int) -> int | None:
        """The last block that every path to this one passes; None for the entry."""
        return None if block == 0 else self._dominator[block]

    def dominates(self, first: int, second: int) -> bool:
        """Whether every path from the entry to ``second`` passes ``first``. Both must be reachable."""
        block: int | None = second
        while block is not None:
            if block == first:
                return True
            block = self.immediate_dominator(block)
        return False

    def innermost_loop(self, block: int) -> NaturalLoop | None:
        inside = [loop for loop in self.loops if block in loop.blocks]
        return max(inside, key=lambda loop: loop.depth, default=None)

    def loop_instructions(self, loop: NaturalLoop) -> tuple[SassInstruction, ...]:
        """All instructions of the loop, those of inner loops included, by address."""
        return tuple(i for block in sorted(loop.blocks) for i in self.blocks[block].instructions)

    def following(self, instruction: SassInstruction) -> Iterator[SassInstruction]:
        """The instructions that may be executed next."""
        block = self.block_of(instruction.address)
        at = block.instructions.index(instruction)
        if at + 1 < len(block.instructions):
            yield block.instructions[at + 1]
        else:
            for successor in block.successors:
                yield self.blocks[successor].instructions[0]

    @cached_property
    def preceding(self) -> dict[int, tuple[SassInstruction, ...]]:
        """By address, the instructions that may have been executed just before, in reachable code."""
        before: dict[int, list[SassInstruction]] = {}
        for at in self.reachable:
            code = self.blocks[at].instructions
            for first, second in pairwise(code):
                before.setdefault(second.address, []).append(first)
            for successor in self.blocks[at].successors:
                before.setdefault(self.blocks[successor].start, []).append(code[-1])
        return {address: tuple(instructions) for address, instructions in before.items()}

    def _reverse_postorder(self) -> tuple[int, ...]:
        order: list[int] = []
        seen = {0}
        stack: list[tuple[int, Iterator[int]]] = [(0, iter(self.blocks[0].successors))]
        while stack:
            block, successors = stack[-1]
            for successor in successors:
                if successor not in seen:
                    seen.add(successor)
                    stack.append((successor, iter(self.blocks[successor].successors)))
                    break
            else:
                order.append(block)
                stack.pop()
        return tuple(reversed(order))

    def _immediate_dominators(self) -> dict[int, int]:
        """Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm" (2001), Figure 3."""
        position = {block: at for at, block in enumerate(self._order)}
        dominator = {0: 0}

        def intersect(first: int, second: int) -> int:
            while first != second:
                while position[first] > position[second]:
                    first = dominator[first]
                while position[second] > position[first]:
                    second = dominator[second]
            return first

        changed = True
        while changed:
            changed = False
            for block in self._order[1:]:
                known = [p for p in self.blocks[block].predecessors if p in dominator]
                new = known[0]
                for other in known[1:]:
                    new = intersect(new, other)
                if dominator.get(block) != new:
                    dominator[block] = new
                    changed = True
        return dominator

    def _natural_loops(self) -> tuple[NaturalLoop, ...]:
        latches: dict[int, list[int]] = {}
        for block in self._order:
            for successor in self.blocks[block].successors:
                if self.dominates(successor, block):
                    latches.setdefault(successor, []).append(block)
        bodies = {header: self._body(header, tails) for header, tails in latches.items()}
        loops = []
        for header in sorted(bodies):
            around = [h for h, body in bodies.items() if h != header and bodies[header] < body]
            parent = min(around, key=lambda h: len(bodies[h]), default=None)
            loops.append(
                NaturalLoop(header, bodies[header], tuple(sorted(latches[header])), len(around) + 1, parent)
            )
        return tuple(loops)

    def _body(self, header: int, tails: Iterable[int]) -> frozenset[int]:
        body = {header}
        waiting = [tail for tail in tails if tail != header]
        while waiting:
            block = waiting.pop()
            if block not in body:
                body.add(block)
                waiting.extend(p for p in self.blocks[block].predecessors if p in self._dominator)
        return frozenset(body)


def _blocks(function: Function) -> tuple[BasicBlock, ...]:
    code = function.instructions
    at = {instruction.address: index for index, instruction in enumerate(code)}
    leaders = {0}
    targets: dict[int, tuple[int, ...]] = {}
    for index, instruction in enumerate(code):
        if _transfers(instruction):
            targets[index] = tuple(at[address] for address in _targets(function, instruction))
            leaders.update(targets[index])
            leaders.add(index + 1)
    starts = sorted(leader for leader in leaders if leader < len(code))
    number = {start: block for block, start in enumerate(starts)}
    successors: list[tuple[int, ...]] = []
    ends = [*starts[1:], len(code)]
    for end in ends:
        last = end - 1
        onward = list(targets.get(last, ()))
        if end < len(code) and _falls_through(code[last]):
            onward.append(end)
        successors.append(tuple(dict.fromkeys(number[index] for index in onward)))
    predecessors: list[list[int]] = [[] for _ in starts]
    for block, following in enumerate(successors):
        for successor in following:
            predecessors[successor].append(block)
    return tuple(
        BasicBlock(block, code[start:end], successors[block], tuple(predecessors[block]))
        for block, (start, end) in enumerate(zip(starts, ends, strict=True))
    )


def _jumps(instruction: SassInstruction) -> bool:
    """Whether this goes to a place that its last operand names."""
    if instruction.opcode == "CALL":
        label = instruction.operands[-1].label if instruction.operands else None
        return label is not None and label.startswith(_LOCAL_LABEL)
    return instruction.opcode in _BRANCHES


def _transfers(instruction: SassInstruction) -> bool:
    if instruction.never_executed:
        return False
    return _jumps(instruction) or instruction.opcode in _INDIRECT | _ENDS


def _targets(function: Function, instruction: SassInstruction) -> Iterator[int]:
    """The target of a branch: its label or, where the listing has none, its address; of a jump by a table
    all that are listed."""
    if not _jumps(instruction):
        listed = _LISTED.search(str(instruction))
        names = listed[1].split(",") if listed else []
        yield from (function.labels[name.strip()] for name in names if name.strip() in function.labels)
        return
    operand = instruction.operands[-1]
    if operand.label is not None and operand.label in function.labels:
        yield function.labels[operand.label]
    elif operand.value is not None and function.instructions[0].address <= operand.value:
        yield operand.value
    else:
        raise SmlabError.at(
            f"{function.name}, {instruction.address:#x}",
            "branches to an unknown place",
            operand.text,
            "a label of the listing",
        )


def _falls_through(instruction: SassInstruction) -> bool:
    if not _transfers(instruction):
        return True
    if instruction.predicate is not None and not instruction.predicate.always:
        return True
    if _jumps(instruction):
        # A branch on divergence, or on a predicate operand, may also not be taken.
        return len(instruction.operands) > 1 or bool(_CONDITIONAL_FORMS & set(instruction.modifiers))
    return False

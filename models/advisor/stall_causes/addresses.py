"""Addresses as sums: what a register holds, followed back through additions, multiplications and shifts.

Two accesses whose sums have the same terms are a constant apart, whatever registers they go by; and what a
loop adds to a term is by how much an address moves on in a round.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from smlab.hw_bench.sass import Operand
from smlab.models.advisor.code import AdvisedCode, LoopOf
from smlab.models.advisor.stall_causes.slicing import definitions

DEEPEST: Final = 24
"""Definitions that a value is followed back through, one behind the other."""
AND: Final = 0xC0
"""The truth table of AND of the first two operands."""
_WRAPS: Final = 1 << 32

Term = tuple[str, frozenset[int]]
"""A value that is not followed further: a constant's name, or the instructions one of which made it."""


@dataclass(frozen=True)
class Sum:
    """``offset`` plus each term times its factor."""

    terms: frozenset[tuple[Term, int]]
    offset: int = 0

    @classmethod
    def of(cls, terms: Mapping[Term, int], offset: int) -> Sum:
        return cls(frozenset((t, f) for t, f in terms.items() if f), offset)

    @property
    def is_known(self) -> bool:
        """Whether all its terms are constants or made by instructions of the code."""
        return all(producers or name.startswith("c") for (name, producers), _ in self.terms)

    def plus(self, other: Sum) -> Sum:
        terms = dict(self.terms)
        for term, factor in other.terms:
            terms[term] = terms.get(term, 0) + factor
        return Sum.of(terms, self.offset + other.offset)

    def times(self, factor: int) -> Sum:
        return Sum.of({t: f * factor for t, f in self.terms}, self.offset * factor)


def address_of(code: AdvisedCode, number: int) -> Sum | None:
    """The address of a memory access, its low word; None where it has no register."""
    return code.once((number, "sum", None), lambda: _address_of(code, number))


def _address_of(code: AdvisedCode, number: int) -> Sum | None:
    operand = next((o for o in code.instructions[number].operands if o.kind == "memory"), None)
    if operand is None or not operand.registers:
        return None
    address = _register(code, number, operand.registers[0], 0)
    address = Sum(address.terms, address.offset + _offset_of(operand))
    for name in [name for name in operand.registers[1:] if name.startswith("U")][:1]:
        address = address.plus(_register(code, number, name, 0))
    return address


def step_of(code: AdvisedCode, address: Sum, loop: LoopOf, depth: int = 0) -> int | None:
    """By how many bytes an address moves on in each round of a loop; None where no number says it."""
    step = 0
    for (name, producers), factor in address.terms:
        inside = [n for n in producers if code.innermost_loop(n) is loop]
        if producers & loop.members and (len(producers) == 1 or depth > DEEPEST):
            return None
        itself = frozenset({((name, producers), 1)})
        moves: set[int | None] = set()
        for n in inside:
            after = _definition_sum(code, n, 0)
            moves.add(after.offset if after.terms == itself else step_of(code, after, loop, depth + 1))
        if None in moves or len(moves) > 1:
            return None
        step += factor * sum(move or 0 for move in moves)
    return step


def places_of(code: AdvisedCode, address: Sum, loop: LoopOf) -> tuple[int, int] | None:
    """How many places an address comes to in the rounds of a loop, over and over, and how many bytes these
    lie apart: it hangs on what a round adds to, of which a mask leaves some bits. None where it does not.
    """
    field = None
    for (name, producers), factor in address.terms:
        if not producers & loop.members:
            continue
        masked = _masked(code, producers)
        if masked is None:
            if step_of(code, Sum(frozenset({((name, producers), 1)})), loop) != 0:
                return None
            continue
        value, mask = masked
        size = mask + (mask & -mask)
        step = step_of(code, value, loop)
        if field is not None or not step or step % (mask & -mask) or size & (size - 1):
            return None
        common = math.gcd(step, size)
        field = size // common, abs(factor) * common
    return field


def _masked(code: AdvisedCode, producers: frozenset[int]) -> tuple[Sum, int] | None:
    """A value that an instruction takes some bits of, and the mask."""
    if len(producers) != 1:
        return None
    (number,) = producers
    sources = [o for o in code.instructions[number].operands[1:] if o.kind != "predicate"]
    numbers = [o.value for o in sources if o.kind == "immediate" and isinstance(o.value, int)]
    if code.instructions[number].opcode != "LOP3" or len(numbers) != 2 or numbers[1] != AND:
        return None
    value = _value(code, number, sources[0], 0)
    return (value, numbers[0]) if value is not None and numbers[0] > 0 else None


def thread_step(code: AdvisedCode, address: Sum, depth: int = 0) -> int | None:
    """How many bytes the addresses of two threads that follow each other lie apart; None where no number says
    it."""
    distance = 0
    for (name, producers), factor in address.terms:
        itself, steps = frozenset({((name, producers), 1)}), set[int | None]()
        for n in producers:
            after = _definition_sum(code, n, 0)
            if after.terms == itself and len(producers) > 1:
                continue  # what a loop adds is the same for all
            steps.add(_thread_step_of(code, n, after, depth + 1) if depth < DEEPEST else None)
        if None in steps or len(steps) > 1:
            return None
        distance += factor * sum(f or 0 for f in steps)
    return distance


def _thread_step_of(code: AdvisedCode, number: int, value: Sum, depth: int) -> int | None:
    """The same of what an instruction makes."""
    instruction = code.instructions[number]
    if all(producers != frozenset((number,)) for (_, producers), _ in value.terms):
        return thread_step(code, value, depth)
    if instruction.opcode == "S2R":
        return int(any("SR_TID.X" in o.text for o in instruction.operands))
    sources = [o for o in instruction.operands[1:] if o.kind != "predicate"]
    if instruction.opcode != "IMAD" or {"X", "HI"} & set(instruction.modifiers) or len(sources) < 3:
        return None
    values = [_value(code, number, o, 0) for o in sources[:3]]
    distances = [None if value is None else thread_step(code, value, depth) for value in values]
    return distances[2] if distances[:2] == [0, 0] else None


def begins_aligned(
    code: AdvisedCode, address: Sum, loop: LoopOf, size: int, arrays: bool = False, depth: int = 0
) -> bool:
    """Whether an address is a multiple of ``size`` bytes, but for a number, where a loop begins; ``arrays``
    says that constants are where arrays begin, which is aligned."""
    for (_, producers), factor in address.terms:
        if factor * _multiple(code, producers) % size == 0 or (arrays and not producers):
            continue
        before = [n for n in producers if n not in loop.members]
        if depth > DEEPEST or len(before) != 1 or len(producers) == 1:
            return False
        value = _definition_sum(code, before[0], 0).times(factor)
        if not begins_aligned(code, value, loop, size, arrays, depth + 1):
            return False
    return True


def _multiple(code: AdvisedCode, producers: frozenset[int]) -> int:
    """A power of two that a value is a multiple of: its low bits may be masked."""
    if len(producers) != 1:
        return 1
    instruction = code.instructions[next(iter(producers))]
    values = [o.value for o in instruction.operands if o.kind == "immediate" and isinstance(o.value, int)]
    if instruction.opcode != "LOP3" or len(values) != 2 or values[1] != AND or not values[0]:
        return 1
    return values[0] & -values[0]


def _offset_of(operand: Operand) -> int:
    _, _, tail = operand.text.rstrip("]").rpartition("+")
    return int(tail, 16) if tail.lstrip("-").startswith("0x") else 0


def _register(code: AdvisedCode, use: int, name: str, depth: int) -> Sum:
    """What a register holds when an instruction reads it."""
    if name in ("RZ", "URZ"):
        return Sum(frozenset())
    definers = frozenset(definitions(code, use, name).paths)
    if len(definers) == 1 and depth < DEEPEST:
        (only,) = definers
        if code.unconditional(only) and _first_result(code, only) == name:
            return _definition_sum(code, only, depth + 1)
    return Sum(frozenset({((name, definers), 1)}))


def _first_result(code: AdvisedCode, number: int) -> str | None:
    operands = code.instructions[number].operands
    return operands[0].registers[0] if operands and operands[0].registers else None


def _definition_sum(code: AdvisedCode, number: int, depth: int) -> Sum:
    """What an instruction makes, its low word."""
    instruction = code.instructions[number]
    name = _first_result(code, number) or ""
    opaque = Sum(frozenset({((name, frozenset((number,))), 1)}))
    sources = [o for o in instruction.operands[1:] if o.kind != "predicate"]
    values = [_value(code, number, o, depth) for o in sources]
    opcode, modifiers = instruction.opcode, instruction.modifiers
    if "X" in modifiers or "HI" in modifiers:
        return opaque
    if opcode in ("MOV", "UMOV") and values:
        return values[0] or opaque
    if opcode in ("IADD", "IADD3", "UIADD3", "VIADD"):
        total: Sum | None = Sum(frozenset())
        for value in values:
            total = None if total is None or value is None else total.plus(value)
        return total or opaque
    if opcode in ("IMAD", "UIMAD") and len(values) >= 3:
        return _product(values[0], values[1], values[2]) or opaque
    shift = _shift(sources)
    if opcode == "LEA" and len(values) >= 3 and shift is not None:
        return _product(values[0], Sum(frozenset(), 1 << shift), values[1]) or opaque
    by = values[1] if len(values) >= 2 else None
    if opcode == "SHF" and "L" in modifiers and by is not None and not by.terms and 0 <= by.offset < 32:
        return _product(values[0], Sum(frozenset(), 1 << by.offset), Sum(frozenset())) or opaque
    return opaque


def _shift(sources: list[Operand]) -> int | None:
    """By how many bits LEA shifts: its last operand."""
    value = sources[-1].value if sources and sources[-1].kind == "immediate" else None
    return value if isinstance(value, int) else None


def _product(first: Sum | None, second: Sum | None, added: Sum | None) -> Sum | None:
    """``first * second + added`` where one factor is a number."""
    if first is None or second is None or added is None:
        return None
    if first.terms and second.terms:
        return None
    if first.terms:
        first, second = second, first
    return second.times(first.offset).plus(added)


def _value(code: AdvisedCode, number: int, operand: Operand, depth: int) -> Sum | None:
    """What an operand holds; None where it is not a plain number, constant or register."""
    text = operand.text.removesuffix(".reuse")
    negated, text = text.startswith("-"), text.lstrip("-")
    if text.startswith(("|", "~")):
        return None
    if operand.kind == "immediate" and isinstance(operand.value, int):
        value = operand.value
        return Sum(frozenset(), value - _WRAPS if value >= _WRAPS // 2 else value)
    if operand.kind == "constant":
        address_sum = Sum(frozenset({((text, frozenset[int]()), 1)}))
    elif operand.kind == "register" and operand.registers:
        address_sum = _register(code, number, operand.registers[0], depth)
    else:
        return None
    return address_sum.times(-1) if negated else address_sum

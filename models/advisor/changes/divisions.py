"""Divisions in machine code: which instructions a compiler made of each, by what they compute.

An integer division multiplies with a reciprocal, corrects the quotient and chooses its end by whether the
divisor is zero (``LOP3 RZ, d, RZ, 0x33``). An exact division of FP32 numbers takes a reciprocal and four
FFMA more, and asks by FCHK whether a slower function has to do it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from smlab.models.advisor.code import AdvisedCode
from smlab.models.advisor.stall_causes.slicing import definitions

INVERTED: Final = 0x33
"""The truth table of NOT its second operand."""
GUARDS: Final = frozenset(("BMOV", "BSSY", "BSYNC", "CALL", "BRA", "WARPSYNC"))


@dataclass(frozen=True)
class Division:
    """A division: all ``instructions`` made of it, and the one that has the ``result``."""

    instructions: frozenset[int]
    result: int


def integer_divisions(code: AdvisedCode, numbers: Iterable[int]) -> tuple[Division, ...]:
    """The divisions of integers among some instructions of a line."""
    line = set(numbers)
    divisions = []
    for n in sorted(line):
        instruction = code.instructions[n]
        chooses = instruction.opcode in ("SEL", "LOP3") and not _inverts(code, n)
        ends = chooses and any(_inverts(code, m) for m in _sources(code, n) & line)
        if ends or (_inverts(code, n) and instruction.predicate is not None and not code.unconditional(n)):
            inverted = next(m for m in (n, *_sources(code, n)) if _inverts(code, m))
            parts = _without_dividend(code, _slice(code, n, line), _divisor(code, inverted))
            divisions.append(Division(*_remainder(code, n, line, parts)))
    return tuple(divisions)


def _inverts(code: AdvisedCode, number: int) -> bool:
    instruction = code.instructions[number]
    values = [o.value for o in instruction.operands if o.kind == "immediate"]
    return instruction.opcode == "LOP3" and INVERTED in values


def _sources(code: AdvisedCode, number: int) -> set[int]:
    return {s for name in code.effects[number].reads for s in definitions(code, number, name).paths}


def _slice(code: AdvisedCode, number: int, line: set[int]) -> frozenset[int]:
    """What of a line an instruction hangs on, itself included."""
    members, waiting = {number}, [number]
    loop = code.innermost_loop(number)
    while waiting:
        for source in _sources(code, waiting.pop()) & line - members:
            inner = code.innermost_loop(source)
            if inner is loop and source > number:
                continue  # of the round before
            members.add(source)
            waiting.append(source)
    return frozenset(members)


def _divisor(code: AdvisedCode, inverted: int) -> str:
    operands = code.instructions[inverted].operands[1:]
    return next((o.text for o in operands if o.kind != "immediate" and o.text not in ("RZ", "!PT")), "")


def _without_dividend(code: AdvisedCode, parts: frozenset[int], divisor: str) -> frozenset[int]:
    """Of a division's slice what is not the computing of its dividend: what hangs on the reciprocal, names
    the divisor, or deals with signs."""
    slices = {n: _slice(code, n, set(parts)) for n in parts}

    def part(n: int) -> bool:
        instruction = code.instructions[n]
        return (
            any(code.instructions[m].opcode == "MUFU" for m in slices[n])
            or any(o.text.strip("-|~").removesuffix(".reuse") == divisor for o in instruction.operands)
            or instruction.opcode in ("IABS", "ISETP", "I2F", "F2I")
        )

    return frozenset(n for n in parts if part(n))


def _remainder(
    code: AdvisedCode, number: int, line: set[int], parts: frozenset[int]
) -> tuple[frozenset[int], int]:
    """A quotient that is only negated and multiplied by the divisor belongs to a remainder."""
    users = [n for n in line if number in _sources(code, n) and n > number]
    if len(users) == 1 and code.instructions[users[0]].opcode in ("IADD3", "IMAD", "IADD"):
        negated = users[0]
        ends = [n for n in line if negated in _sources(code, n) and code.instructions[n].opcode == "IMAD"]
        if any(o.text.startswith("-") for o in code.instructions[negated].operands) and len(ends) == 1:
            return parts | {negated, *ends}, ends[0]
    return parts, number


def exact_divisions(code: AdvisedCode, numbers: Iterable[int]) -> tuple[tuple[Division, int], ...]:
    """The exact divisions of FP32 numbers among some instructions, each with its FCHK."""
    some = sorted(numbers)
    divisions = []
    for check in some:
        if code.instructions[check].opcode != "FCHK":
            continue
        block = code.flow.blocks[code.block_of[check]]
        mine = [code.number[i.address] for i in block.instructions]
        divisor = code.instructions[check].operands[-1].registers[:1]
        derived: set[int] = set()
        for n in mine:
            sources = _sources(code, n)
            opcode = code.instructions[n].opcode
            reciprocal = opcode == "MUFU" and bool(set(divisor) & set(code.effects[n].reads))
            if reciprocal or (opcode in ("FFMA", "FMUL", "FADD") and sources & derived):
                derived.add(n)
        if not derived:
            continue
        way = {n for n in mine if code.instructions[n].opcode in GUARDS}
        for successor in block.successors:  # the slower function, and where both ways meet
            for n in (code.number[i.address] for i in code.flow.blocks[successor].instructions):
                if code.instructions[n].opcode in GUARDS or code.instructions[n].opcode == "MOV":
                    way.add(n)
                else:
                    break
        divisions.append((Division(frozenset(derived | way | {check}), max(derived)), check))
    return tuple(divisions)


def by_what_stays(code: AdvisedCode, check: int) -> bool:
    """Whether a division in a loop, by its FCHK, has a divisor that stays the same there."""
    loop = code.innermost_loop(check)
    registers = code.instructions[check].operands[-1].registers[:1]
    sources = {s for name in registers for s in definitions(code, check, name).paths}
    return loop is not None and sources.isdisjoint(loop.members)

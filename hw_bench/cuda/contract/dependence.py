"""What instructions wait for, and what their registers come from: the part of the contract that counting
cannot see.

A chain whose links do not wait for each other, a loop that counts in other steps than it works, an address
that is known beforehand: each has the right instructions in the right number. Scoreboards are read from the
control codes, registers followed back along the paths of the code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

from smlab.hw_bench.cuda.contract.regions import TimedRegion
from smlab.hw_bench.sass import ControlFlow, SassInstruction

_RUN_TIME: Final = ("LD", "LDG", "LDS", "LDL")
"""Instructions whose result no compiler knows."""
_NO_RESULT: Final = ("ST", "STG", "STS", "STL", "RED", "BAR", "BRA", "EXIT", "MEMBAR")
_LOAD, _STORE, _ATOMIC = "LDS", "STS", "ATOMS"
_SCOREBOARDS: Final = 6
_VECTOR: Final = re.compile(r"(U?R)(\d+)$")
_PREDICATE: Final = re.compile(r"!?(U?P\d)$")
_ADDITIONS: Final = ("IADD", "IADD3", "UIADD3", "VIADD", "IMAD.IADD")


def own_barriers(instruction: SassInstruction) -> set[int]:
    """The scoreboards that an instruction sets."""
    control = instruction.control
    if control is None:
        return set()
    return {barrier for barrier in (control.write_barrier, control.read_barrier) if barrier is not None}


def waiting_inside(region: TimedRegion, name: str) -> list[SassInstruction]:
    """Instructions of the region, its ends included, that wait for a scoreboard of one ``name`` in it."""
    set_here = set[int]().union(*(own_barriers(i) for i in region.instructions if i.is_a(name)))
    return [
        i
        for i in (*region.instructions, *region.ends)
        if i.control is not None and any(map(i.control.waits_for, set_here))
    ]


def undrained(flow: ControlFlow, start: SassInstruction) -> list[SassInstruction]:
    """Stores to shared memory and atomics that may still be under way at a first clock read, by address:
    stores with a path to it on which no load or atomic behind them is waited for, atomics with one on which
    neither they nor an atomic behind them are.

    A warp's loads and stores of shared memory are served in order, and so are its atomics; but a load may
    pass atomics that are queued for their unit. What is under a predicate says nothing of others, and a
    barrier waits for stores to be issued only.
    """

    def waits(instruction: SassInstruction) -> frozenset[int]:
        control = instruction.control
        return frozenset() if control is None else frozenset(filter(control.waits_for, range(_SCOREBOARDS)))

    # Backwards from the clock, with the scoreboards that have been waited for on the way, and whether stores
    # still matter.
    pending: dict[int, SassInstruction] = {}
    seen: set[tuple[int, frozenset[int], bool]] = set()
    waiting = [(before, waits(start), False) for before in flow.preceding.get(start.address, ())]
    while waiting:
        instruction, waited, stored = waiting.pop()
        if (instruction.address, waited, stored) in seen:
            continue
        seen.add((instruction.address, waited, stored))
        executed = instruction.predicate is None or instruction.predicate.always
        control = instruction.control
        back = control is not None and control.write_barrier in waited
        if not instruction.never_executed:
            if instruction.opcode == _ATOMIC and back and executed:
                continue
            late = instruction.opcode == _ATOMIC and not back
            if late or (instruction.opcode == _STORE and not stored):
                pending[instruction.address] = instruction
                continue
            stored = stored or (instruction.opcode == _LOAD and back and executed)
        on = waited | waits(instruction)
        waiting.extend((before, on, stored) for before in flow.preceding.get(instruction.address, ()))
    return [pending[address] for address in sorted(pending)]


def unchained(body: Sequence[SassInstruction], name: str, *, looped: bool) -> list[SassInstruction]:
    """Instructions called ``name`` that do not wait for the result of the one before, by the order of
    ``body``; if ``looped``, the first comes behind the last of the turn before."""
    places = [at for at, i in enumerate(body) if i.is_a(name)]
    breaks = []
    for number, at in enumerate(places):
        if number == 0 and not looped:
            continue
        before = body[places[number - 1]]
        last = places[number - 1]
        between = body[last + 1 : at + 1] if number else (*body[last + 1 :], *body[: at + 1])
        barrier = None if before.control is None else before.control.write_barrier
        if barrier is None or not any(i.control and i.control.waits_for(barrier) for i in between):
            breaks.append(body[at])
    return breaks


def steps(flow: ControlFlow, body: Sequence[SassInstruction]) -> set[int]:
    """By how much the counters of a loop go down each turn: those that its closing comparison reads."""
    inside = {i.address for i in body}
    steps: set[int] = set()
    for branch in body:
        leaves = branch.opcode == "BRA" and any(i.address not in inside for i in flow.following(branch))
        if not leaves:
            continue
        # From Blackwell on a uniform predicate is an operand of the branch.
        asked = [] if branch.predicate is None else [branch.predicate.register]
        asked += [named[1] for o in branch.operands if (named := _PREDICATE.match(o.text))]
        for test in (test for register in asked for test in _definitions(flow, branch, register)):
            # Votes, by which lanes stay together before Ampere, compare no counters.
            if not test.opcode.endswith("SETP"):
                continue
            for register in _sources(test):
                changes = [i for i in _definitions(flow, test, register) if i.address in inside]
                steps.update(step for i in changes if (step := _step(flow, i, inside)) is not None)
    return steps


def _step(flow: ControlFlow, change: SassInstruction, inside: set[int]) -> int | None:
    """What an addition of an immediate takes away; that a register is a copy does not matter."""
    if any(change.is_a(name) for name in _ADDITIONS):
        values = [o.value for o in change.operands if o.value is not None]
        values = [v for v in values if v > 1 or v < 0] or values
        return -_signed(values[-1]) if values else None
    if change.opcode in {"MOV", "IMAD", "UMOV"}:
        for register in _sources(change):
            for before in _definitions(flow, change, register):
                if before.address in inside and before is not change:
                    return _step(flow, before, inside)
    return None


def _signed(value: int) -> int:
    return value - 2**32 if value >= 2**31 else value


def known_addresses(flow: ControlFlow, body: Sequence[SassInstruction], name: str) -> list[SassInstruction]:
    """Instructions called ``name`` whose address comes from nothing that was loaded."""
    known = []
    for instruction in body:
        if instruction.is_a(name):
            places = [o for o in instruction.operands if o.kind == "memory"]
            registers = {r for o in places for r in o.registers if _VECTOR.match(r)}
            if not any(_loaded(flow, instruction, r) for r in registers):
                known.append(instruction)
    return known


def _loaded(flow: ControlFlow, reader: SassInstruction, register: str) -> bool:
    """Whether a load is among what a register comes from."""
    seen: set[tuple[int, str]] = set()
    waiting = [(reader, register)]
    while waiting:
        at, wanted = waiting.pop()
        for definition in _definitions(flow, at, wanted):
            if definition.opcode in _RUN_TIME:
                return True
            for source in _sources(definition):
                if (definition.address, source) not in seen:
                    seen.add((definition.address, source))
                    waiting.append((definition, source))
    return False


def _definitions(flow: ControlFlow, reader: SassInstruction, register: str) -> tuple[SassInstruction, ...]:
    """The instructions whose result an instruction may read in a register, predicates as well."""
    known, written = _kept(flow)
    found = known.get((reader.address, register))
    if found is None:
        found = tuple(_followed_back(flow, written, reader, register))
        known[reader.address, register] = found
    return found


def _followed_back(
    flow: ControlFlow, written: Mapping[int, set[str]], reader: SassInstruction, register: str
) -> Iterator[SassInstruction]:
    before = flow.preceding
    waiting = list(before.get(reader.address, ()))
    seen = set()
    while waiting:
        instruction = waiting.pop()
        address = instruction.address
        if address in seen:
            continue
        seen.add(address)
        if register in written[address]:
            yield instruction
            if instruction.predicate is None or instruction.predicate.always:
                continue
        waiting.extend(before.get(address, ()))


@lru_cache(maxsize=1)
def _kept(
    flow: ControlFlow,
) -> tuple[dict[tuple[int, str], tuple[SassInstruction, ...]], dict[int, set[str]]]:
    """What was followed back in a kernel so far, and what each of its instructions writes: the atomics of a
    batch ask for the same registers hundreds of times."""
    return {}, {i.address: _results(i) for block in flow.blocks for i in block.instructions}


def _results(instruction: SassInstruction) -> set[str]:
    """The registers and predicates that an instruction writes."""
    if instruction.never_executed or instruction.opcode in _NO_RESULT or not instruction.operands:
        return set()
    results: set[str] = set()
    for operand in instruction.operands[:2]:
        if (predicate := _PREDICATE.match(operand.text)) and not operand.text.startswith("!"):
            results.add(predicate[1])
        elif operand is instruction.operands[0] and (vector := _VECTOR.match(operand.text)):
            results.update(f"{vector[1]}{int(vector[2]) + more}" for more in range(_width(instruction)))
    return results


def _width(instruction: SassInstruction) -> int:
    """How many registers a result may have; one too many only makes a path longer."""
    parts = instruction.modifiers
    if "128" in parts:
        return 4
    wide = {"64", "WIDE", "F64"} & set(parts) or instruction.opcode in {"CS2R", "DADD", "DMUL", "DFMA"}
    return 2 if wide and "32" not in parts else 1


def _sources(instruction: SassInstruction) -> set[str]:
    """The registers that an instruction reads."""
    first = bool(instruction.operands) and instruction.operands[0].kind == "register"
    reads = (
        instruction.operands[1:] if first and instruction.opcode not in _NO_RESULT else instruction.operands
    )
    registers: set[str] = set()
    for operand in reads:
        for register in operand.registers:
            if vector := _VECTOR.match(register):
                registers.add(register)
                if ".64" in operand.text or "WIDE" in instruction.modifiers:
                    registers.add(f"{vector[1]}{int(vector[2]) + 1}")
    return registers

"""Finding the timed regions of a kernel in its machine code.

A kernel reads the 64-bit clock only around what it times, and each timed region begins behind a barrier with
no other region between. So the first clock reads behind a barrier are starts, and the first ones behind a
start are its ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.sass import ControlFlow, NaturalLoop, SassInstruction

_CLOCK: Final = "SR_CLOCKLO"


@dataclass(frozen=True)
class TimedRegion:
    """All instructions on some path from the ``start`` clock read to an end, both excluded, by address."""

    start: SassInstruction
    ends: tuple[SassInstruction, ...]
    instructions: tuple[SassInstruction, ...]

    def loops(self, flow: ControlFlow) -> tuple[NaturalLoop, ...]:
        """The outermost loops that lie wholly in the region."""
        inside = {instruction.address for instruction in self.instructions}
        loops = [
            loop for loop in flow.loops if all(i.address in inside for i in flow.loop_instructions(loop))
        ]
        headers = {loop.header for loop in loops}
        return tuple(loop for loop in loops if loop.parent not in headers)


def is_clock_read(instruction: SassInstruction) -> bool:
    """A read of the 64-bit clock (two registers, from Blackwell on uniform ones: ``CS2UR``); the 32-bit one
    is read by ``CS2R.32`` or ``S2R``."""
    return (
        instruction.mnemonic in {"CS2R", "CS2UR"}
        and any(operand.text == _CLOCK for operand in instruction.operands)
        and not instruction.never_executed
    )


def timed_regions(flow: ControlFlow) -> tuple[TimedRegion, ...]:
    """The timed regions, by address of their starts.

    Raises:
        SmlabError: for a clock read that is both start and end, or a start without end.
    """
    code = [i for block in sorted(flow.reachable) for i in flow.blocks[block].instructions]
    reads = {i.address for i in code if is_clock_read(i)}

    def read(instruction: SassInstruction) -> bool:
        return instruction.address in reads

    def closes(instruction: SassInstruction) -> bool:
        return read(instruction) or instruction.opcode == "BAR"

    barriers = [i for i in code if i.opcode == "BAR"]
    starts = {i.address: i for barrier in barriers for i in _reached(flow, barrier, read)[1]}
    regions = []
    for start in sorted(starts.values(), key=lambda i: i.address):
        passed, stops = _reached(flow, start, closes)
        ends = tuple(sorted((i for i in stops if read(i)), key=lambda i: i.address))
        where = f"{flow.function.name}, {start.address:#x}"
        if not ends:
            raise SmlabError.at(where, "the clock read begins no timed region: no second read follows")
        for end in ends:
            if end.address in starts:
                raise SmlabError.at(
                    where, "a clock read both begins and ends a timed region", f"{end.address:#x}"
                )
        regions.append(TimedRegion(start, ends, _leading_to(flow, passed, ends)))
    return tuple(regions)


def _reached(
    flow: ControlFlow, start: SassInstruction, stop: Callable[[SassInstruction], bool]
) -> tuple[dict[int, SassInstruction], list[SassInstruction]]:
    """What can be executed after ``start``: the instructions before the first stop of each path, and those
    stops."""
    passed: dict[int, SassInstruction] = {}
    stops: dict[int, SassInstruction] = {}
    waiting = list(flow.following(start))
    while waiting:
        instruction = waiting.pop()
        if stop(instruction):
            stops[instruction.address] = instruction
        elif instruction.address not in passed:
            passed[instruction.address] = instruction
            waiting.extend(flow.following(instruction))
    return passed, list(stops.values())


def _leading_to(
    flow: ControlFlow, passed: dict[int, SassInstruction], ends: Iterable[SassInstruction]
) -> tuple[SassInstruction, ...]:
    """Those of ``passed`` from which an end can be reached without leaving them."""
    before: dict[int, list[int]] = {}
    for instruction in passed.values():
        for after in flow.following(instruction):
            before.setdefault(after.address, []).append(instruction.address)
    kept: set[int] = set()
    waiting = [end.address for end in ends]
    while waiting:
        for address in before.get(waiting.pop(), ()):
            if address not in kept:
                kept.add(address)
                waiting.append(address)
    return tuple(passed[address] for address in sorted(kept))

"""What waits for what in a recorded kernel: a trace names registers, but holds no control codes.

The places in the code that followed each other in some warp make a graph. An instruction waits for the
writers of its registers that reach it along the graph. It also waits for the loads and stores that still have
to read a register which it overwrites. Writers of fixed latency are not waited for by those that overwrite
their result, since they come in order.

A trace names no predicates. A comparison's result is taken to be read by the instructions that must have one:
branches that were seen to go both ways, those executed for some of the lanes around them, and selections.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.sass.effects import PREDICATES_ONLY, effects_of
from smlab.hw_bench.sass.instruction import Operand, SassInstruction
from smlab.sim.traces.reading import RecordedKernel
from smlab.sim.traces.text import NO_REGISTER, TraceInstruction

BRANCHES: Final = frozenset(("BRA", "BRX", "BRXU", "JMP", "JMX", "CALL", "RET", "EXIT", "BREAK", "BSYNC"))
_SELECTS: Final = frozenset(
    ("SEL", "FSEL", "IMNMX", "FMNMX", "DMNMX", "VIMNMX", "PLOP3", "P2R", "VOTE", "PSETP")
)
_LATER: Final = frozenset(
    ("SHFL", "ATOM", "ATOMG", "ATOMS", "LOP3", "IADD3", "LEA", "MATCH", "LDG", "LDS", "LD", "IMAD")
)
"""They have a result, and may print a predicate before it; the tracer then takes it for a source."""
_PREDICATE: Final = "P"
"""Stands for all predicates."""


@dataclass(frozen=True)
class Dependences:
    """Of each instruction: those whose results, and those whose reading of operands, it waits for."""

    results: tuple[tuple[int, ...], ...]
    readings: tuple[tuple[int, ...], ...]


def printed(instruction: TraceInstruction) -> SassInstruction:
    """An instruction of a trace as a listing would have it, as far as the trace tells."""
    results, sources = list(instruction.results), list(instruction.sources)
    opcode = instruction.opcode.split(".")[0]
    if not results and opcode in _LATER and sources:
        results.append(sources.pop(0))
    texts = [_name(r) for r in results]
    address = instruction.width > 0
    for source in sources:
        texts.append(f"[{_name(source)}]" if address else _name(source))
        address = address and opcode == "LDGSTS"
    operands = tuple(Operand(text) for text in texts)
    return SassInstruction(instruction.pc, instruction.opcode, operands)


def _name(register: int) -> str:
    return "RZ" if register == NO_REGISTER else f"R{register}"


def edges_of(recorded: RecordedKernel) -> NDArray[np.int64]:
    """The pairs of instructions that followed each other in a warp, ``(edges, 2)``."""
    size = len(recorded.code)
    index = recorded.index.astype(np.int64)
    inside = np.ones(len(index), dtype=bool)
    inside[recorded.first[1:] - 1] = False
    pairs = np.unique((index[:-1] * size + index[1:])[inside[:-1]])
    return np.stack([pairs // size, pairs % size], axis=1)


def guarded(recorded: RecordedKernel) -> NDArray[np.bool_]:
    """Instructions that some warp executed for a part of the lanes before and after it."""
    mask, found = recorded.mask, np.zeros(len(recorded.code), dtype=bool)
    inside = np.ones(len(mask), dtype=bool)
    inside[recorded.first[:-1]] = False
    inside[recorded.first[1:] - 1] = False
    around = np.zeros(len(mask), dtype=np.uint32)
    if len(mask) > 2:
        around[1:-1] = mask[:-2] & mask[2:]
    part = inside & (mask & around == mask) & (mask != around)
    found[recorded.index[part]] = True
    return found


def dependences(recorded: RecordedKernel, late: list[bool], queued: list[bool]) -> Dependences:
    """Find them. ``late`` are instructions whose results come at no fixed time, ``queued`` those that read
    their operands some time after they issue."""
    code = [printed(i) for i in recorded.code]
    edges = edges_of(recorded)
    reads, writes = _accesses(code, edges, guarded(recorded))
    follows: dict[int, list[int]] = defaultdict(list)
    before: dict[int, list[int]] = defaultdict(list)
    for a, b in edges.tolist():
        follows[a].append(b)
        before[b].append(a)
    entries = set(recorded.index[recorded.first[:-1]].tolist())
    blocks = _blocks(len(code), follows, before, entries)
    of = {block[0]: n for n, block in enumerate(blocks)}
    # What reaches each block's first instruction: writers, and pending readers, by register, as bits.
    reaches: list[dict[tuple[str, bool], int]] = [{} for _ in blocks]
    waiting = list(range(len(blocks)))
    while waiting:
        n = waiting.pop()
        state = dict(reaches[n])
        for i in blocks[n]:
            _pass(i, state, reads, writes, queued)
        for successor in follows[blocks[n][-1]]:
            target = of[successor]
            into, changed = reaches[target], False
            for key, bits in state.items():
                if bits & ~into.get(key, 0):
                    into[key] = into.get(key, 0) | bits
                    changed = True
            if changed and target not in waiting:
                waiting.append(target)
    results: list[tuple[int, ...]] = [()] * len(code)
    readings: list[tuple[int, ...]] = [()] * len(code)
    slow = sum(1 << n for n, is_late in enumerate(late) if is_late)
    for n, block in enumerate(blocks):
        state = dict(reaches[n])
        for i in block:
            writers = readers = 0
            for register in reads[i]:
                writers |= state.get((register, True), 0)
            for register in writes[i]:
                writers |= state.get((register, True), 0) & slow
                readers |= state.get((register, False), 0)
            results[i], readings[i] = _numbers(writers), _numbers(readers)
            _pass(i, state, reads, writes, queued)
    return Dependences(tuple(results), tuple(readings))


def _pass(
    i: int,
    state: dict[tuple[str, bool], int],
    reads: list[frozenset[str]],
    writes: list[frozenset[str]],
    queued: list[bool],
) -> None:
    """Make the state before an instruction the one behind it."""
    if queued[i]:
        for register in reads[i]:
            state[register, False] = state.get((register, False), 0) | 1 << i
    for register in writes[i]:
        state[register, True] = 1 << i
        state[register, False] = 0


def _accesses(
    code: list[SassInstruction], edges: NDArray[np.int64], part: NDArray[np.bool_]
) -> tuple[list[frozenset[str]], list[frozenset[str]]]:
    ways = np.bincount(edges[:, 0], minlength=len(code)) if len(edges) else np.zeros(len(code), dtype=int)
    reads, writes = [], []
    for n, instruction in enumerate(code):
        effects = effects_of(instruction)
        read, written = set(effects.reads), set(effects.writes)
        opcode = instruction.opcode
        chosen = opcode in _SELECTS or "X" in instruction.modifiers or bool(part[n])
        if chosen or (opcode in BRANCHES and ways[n] > 1):
            read.add(_PREDICATE)
        if opcode in PREDICATES_ONLY or opcode == "R2P":
            read |= written
            written = {_PREDICATE}
        reads.append(frozenset(read))
        writes.append(frozenset(written))
    return reads, writes


def _blocks(
    size: int, follows: dict[int, list[int]], before: dict[int, list[int]], entries: set[int]
) -> list[list[int]]:
    """Runs of instructions that are entered at their first and left at their last only."""
    leads = [n in entries or len(before[n]) != 1 or len(follows[before[n][0]]) != 1 for n in range(size)]
    blocks = []
    for n in range(size):
        if leads[n]:
            block = [n]
            while len(follows[block[-1]]) == 1 and not leads[follows[block[-1]][0]]:
                block.append(follows[block[-1]][0])
            blocks.append(block)
    return blocks


def _numbers(bits: int) -> tuple[int, ...]:
    found = []
    while bits:
        low = bits & -bits
        found.append(low.bit_length() - 1)
        bits ^= low
    return tuple(found)

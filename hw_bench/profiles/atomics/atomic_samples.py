"""Samples at a kernel's shared-memory atomics and at the instructions that wait for their results, and how
closely atomics follow each other."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from smlab.hw_bench.profiles.atomics.atomic_spacing import AtomicCode, Spacing, spacing
from smlab.hw_bench.profiles.pc_samples.samples import SELECTED, InstructionSamples, KernelSamples

_ATOMIC: Final = re.compile(r"(?:@!?U?P\w+\s+)?ATOMS\b[\w.]*\s+(?P<target>U?R\w+)?")
_BARRIER: Final = re.compile(r"(?:@!?U?P\w+\s+)?BAR\.(?!ARV)")
_BRANCH: Final = re.compile(r"(?:@!?U?P\w+\s+)?(?:BRA|JMP)\b.*?\b0x(?P<target>[0-9a-fA-F]+)\s*;?\s*$")
_TO_LABEL: Final = re.compile(r"(?:@!?U?P\w+\s+)?(?:BRA|JMP)\b.*\.L_")
_GUARD: Final = re.compile(r"^@!?U?P\w+\s+")
_REGISTER: Final = re.compile(r"\bR(?:\d+|Z)\b")

_NO_RESULT: Final = ("STS", "STG", "ST", "STL", "RED", "BRA", "ISETP", "FSETP", "EXIT")
"""Instructions that write no general register."""


@dataclass(frozen=True)
class AtomicSamples:
    """Shares of all of a kernel's samples, by warp state: those of warps whose next instruction is a
    shared-memory atomic (``at_atomic``), and of warps whose next instruction is the first that reads the
    result of one (``at_result``). ``spacing`` says how many cycles apart they come."""

    kernel: str
    samples: int
    at_atomic: Mapping[str, float]
    at_result: Mapping[str, float]
    spacing: Spacing | None


def atomic_samples(samples: KernelSamples) -> AtomicSamples | None:
    """What the samples of a kernel say of its atomics; None where they are by source line, or there is no
    atomic.

    The instruction that reads a result is looked for in the order of addresses, from the end once more from
    the beginning: most atomics stand in loops.
    """
    if samples.by_line or not samples.samples:
        return None
    rows = samples.rows
    atomics = {n: m["target"] for n, row in enumerate(rows) if (m := _ATOMIC.match(row.text.strip()))}
    if not atomics:
        return None
    users = {
        user
        for n, target in atomics.items()
        if target not in (None, "RZ") and (user := _first_user(rows, n, target)) is not None
    }
    return AtomicSamples(
        samples.kernel,
        samples.samples,
        _shares([rows[n] for n in atomics], samples.samples),
        _shares([rows[n] for n in sorted(users - set(atomics))], samples.samples),
        spacing(_code_of_page(rows, atomics)),
    )


def _code_of_page(rows: Sequence[InstructionSamples], atomics: Mapping[int, str | None]) -> AtomicCode:
    """The instructions of a page, times in cycles: a sample in which the instruction itself was issued stands
    for as many executions as samples of all kinds do for cycles. A branch to a label goes nobody knows where:
    then all is taken for one loop, in which what is executed less often is passed as seldom."""
    spent = np.array([float(row.samples) for row in rows])
    issued = np.array([float(row.stalled.get(SELECTED, 0)) for row in rows])
    executed = issued
    if all(row.executed is not None for row in rows):
        times = np.array([float(row.executed or 0) for row in rows])
        if times.sum() and issued.sum():
            executed = times * (issued.sum() / times.sum())
    numbers = range(len(rows))
    places = {row.address: n for n, row in enumerate(rows)}
    loops = []
    for n, row in enumerate(rows):
        text = row.text.strip()
        if m := _BRANCH.match(text):
            target = int(m["target"], 16)
            first = places.get(target, places.get(rows[0].address + target))
            if first is not None and first <= n:
                loops.append((first, n))
        elif _TO_LABEL.match(text):
            loops.append((0, len(rows) - 1))
    return AtomicCode(
        np.array([n in atomics for n in numbers]),
        np.array([atomics.get(n) not in (None, "RZ") for n in numbers]),
        np.array([_BARRIER.match(row.text.strip()) is not None for row in rows]),
        executed,
        spent,
        tuple(sorted(set(loops))),
    )


def _first_user(rows: tuple[InstructionSamples, ...], atomic: int, register: str) -> int | None:
    """The first instruction behind the atomic that reads the register, unless it is written before."""
    order: list[int] = [*range(atomic + 1, len(rows)), *range(atomic)]
    for n in order:
        text = _GUARD.sub("", rows[n].text.strip().rstrip(";"))
        head, _, operands = text.partition(" ")
        first, _, rest = operands.partition(",")
        stores = "[" in first or head.split(".")[0] in _NO_RESULT
        read = _REGISTER.findall(operands if stores else rest)
        if register in read:
            return n
        if not stores and register in _REGISTER.findall(first):
            return None
    return None


def _shares(rows: list[InstructionSamples], total: int) -> dict[str, float]:
    shares: dict[str, float] = {}
    for row in rows:
        for reason, count in row.stalled.items():
            shares[reason] = shares.get(reason, 0.0) + count / total
    return shares

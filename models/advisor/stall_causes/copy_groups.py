"""Whom to blame for a wait for asynchronous copies: DEPBAR waits for groups, which LDGDEPBAR closes, and the
copies of a group hold no scoreboard of their own."""

from __future__ import annotations

from collections import deque

from smlab.models.advisor.code import AdvisedCode

CLOSES, COPIES, WAITS = "LDGDEPBAR", "LDGSTS", "DEPBAR"


def groups_left(code: AdvisedCode, use: int) -> int | None:
    """How many groups may be on their way when a DEPBAR goes on; None if it waits for none."""
    instruction = code.instructions[use]
    if instruction.opcode != WAITS or not code.effects[use].waits:
        return None
    values = [o.value for o in instruction.operands if o.kind == "immediate" and o.value is not None]
    return int(values[0]) if values else 0


def awaited_copies(code: AdvisedCode, use: int) -> dict[int, tuple[float, int]]:
    """The copies of the newest group that a DEPBAR waits for, on all ways back to it, alike; each with its
    distance."""
    left = groups_left(code, use)
    if left is None:
        return {}
    found: dict[int, tuple[float, int]] = {}
    for number, closed, distance in _ways_back(code, use, left + 1):
        if code.instructions[number].opcode == COPIES and closed == left + 1:
            found.setdefault(number, (1.0, distance))
    return found


def works_meanwhile(code: AdvisedCode, use: int) -> bool:
    """Whether anything is computed between the end of the newest group and the wait."""
    kinds = {
        code.kinds[number] for number, closed, _ in _ways_back(code, use, 0) if closed == 0 and number != use
    }
    return bool(kinds & {"tensor", "fp32", "fp16", "fp64"})


def _ways_back(code: AdvisedCode, use: int, most: int) -> list[tuple[int, int, int]]:
    """Instructions before a wait, with the groups closed between them and it, ``most`` at most, and how far
    back they are."""
    found, seen = [], {(use, 0)}
    left = deque([(use, 0, 0)])
    while left:
        number, closed, distance = left.popleft()
        found.append((number, closed, distance))
        for before in code.before[number]:
            groups = closed + (code.instructions[before].opcode == CLOSES)
            if groups <= most and (before, groups) not in seen:
                seen.add((before, groups))
                left.append((before, groups, distance + 1))
    return found

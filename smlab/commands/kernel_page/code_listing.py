"""Source beside machine code, with heat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from smlab.commands.kernel_page.content import CodePanes, CodeRow

MAX_SOURCE_LINES = 3000
"""Of a longer file, the page shows the lines that have machine code, and those around them."""
AROUND = 3


@dataclass(frozen=True)
class ListedInstruction:
    """An instruction of the listing; ``weight`` is the time that warps waited at it, ``note`` what stands
    behind it."""

    address: int
    line: int | None
    text: str
    weight: float
    note: str


def code_panes(
    instructions: Sequence[ListedInstruction], source: Mapping[int, str], key: str, notes: str
) -> CodePanes:
    """The rows of both listings; ``key`` makes their anchors those of one kernel of the page."""
    total = sum(i.weight for i in instructions) or 1.0
    by_line: dict[int, float] = {}
    first: dict[int, int] = {}
    for instruction in instructions:
        if instruction.line is not None:
            by_line[instruction.line] = by_line.get(instruction.line, 0.0) + instruction.weight
            first.setdefault(instruction.line, instruction.address)
    shown = _shown_lines(source, by_line)
    rank = {line: n for n, line in enumerate(sorted(shown, key=lambda x: (-by_line.get(x, 0.0), x)))}
    lines = [
        CodeRow(
            anchor=f"{key}L{line}",
            label=str(line),
            text=source.get(line, ""),
            heat=by_line.get(line, 0.0) / total,
            rank=rank[line],
            target=f"{key}i{first[line]:x}" if line in first else "",
        )
        for line in shown
    ]
    order = sorted(range(len(instructions)), key=lambda n: -instructions[n].weight)
    place = {n: k for k, n in enumerate(order)}
    there = set(shown)
    machine = []
    for n, instruction in enumerate(instructions):
        group = f"{key}L{instruction.line}" if instruction.line in there else ""
        machine.append(
            CodeRow(
                anchor=f"{key}i{instruction.address:x}",
                label=f"{instruction.address:04x}",
                text=instruction.text,
                heat=instruction.weight / total,
                rank=place[n],
                note=instruction.note,
                target=group,
                target_label=str(instruction.line),
                group=group,
            )
        )
    return CodePanes(lines, machine, notes)


def _shown_lines(source: Mapping[int, str], used: Mapping[int, float]) -> list[int]:
    if not source or len(source) > MAX_SOURCE_LINES:
        near = {line + step for line in used for step in range(-AROUND, AROUND + 1)} if source else set()
        return sorted((near & set(source)) | set(used))
    return sorted(set(source) | set(used))

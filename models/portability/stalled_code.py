"""Where one kernel's warps stall on two GPUs, instruction by instruction, from samples of both.

The two ran different machine code. Where the samples know source lines, places are lines. Else instructions
are aligned by their opcodes in the order of the code (the longest common runs, as a diff finds them); those
that only one side has stand alone. A share of the samples says where a warp waits, not why a GPU is slower.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from smlab.hw_bench.profiles.pc_samples.samples import SELECTED, InstructionSamples, KernelSamples

KNOWN_LINES: Final = 0.8
"""The share of both sides' samples whose source line must be known for places to be lines."""


@dataclass(frozen=True)
class StalledPlace:
    """One place of the code: a source ``line`` with its ``text`` (where that is not known, the instruction
    with the most samples), or an instruction.

    ``source`` and ``target`` are shares of all stalled samples of each side, None where a side lacks the
    place. ``reasons`` are the changes of these shares by reason, the largest first.
    """

    line: int | None
    text: str
    source: float | None
    target: float | None
    reasons: Mapping[str, float]

    @property
    def change(self) -> float:
        return (self.target or 0.0) - (self.source or 0.0)


def stalled_places(source: KernelSamples, target: KernelSamples) -> list[StalledPlace]:
    """The places of two sides' samples, the largest change of a share first."""
    totals = tuple(max(sum(_stalled(row).values()), 1) for row in (_merged(s.rows) for s in (source, target)))
    if all(_known_lines(side) >= KNOWN_LINES for side in (source, target)):
        pairs = _by_line(source, target)
    else:
        pairs = _by_opcode(source.rows, target.rows)
    places = [_place(here, there, totals, {**target.source, **source.source}) for here, there in pairs]
    return sorted(places, key=lambda place: -abs(place.change))


def _by_line(
    source: KernelSamples, target: KernelSamples
) -> list[tuple[list[InstructionSamples], list[InstructionSamples]]]:
    sides: list[dict[int | None, list[InstructionSamples]]] = [{}, {}]
    for side, samples in zip(sides, (source, target), strict=True):
        for row in samples.rows:
            side.setdefault(row.line, []).append(row)
    lines = sorted({*sides[0], *sides[1]}, key=lambda line: (line is None, line or 0))
    return [(sides[0].get(line, []), sides[1].get(line, [])) for line in lines]


def _by_opcode(
    source: Sequence[InstructionSamples], target: Sequence[InstructionSamples]
) -> list[tuple[list[InstructionSamples], list[InstructionSamples]]]:
    matcher = difflib.SequenceMatcher(
        None, [opcode_of(row.text) for row in source], [opcode_of(row.text) for row in target], autojunk=False
    )
    pairs: list[tuple[list[InstructionSamples], list[InstructionSamples]]] = []
    for kind, a, a_end, b, b_end in matcher.get_opcodes():
        if kind == "equal":
            pairs += [([x], [y]) for x, y in zip(source[a:a_end], target[b:b_end], strict=True)]
        else:
            pairs += [([x], []) for x in source[a:a_end]] + [([], [y]) for y in target[b:b_end]]
    return pairs


def opcode_of(text: str) -> str:
    """The mnemonic up to its first modifier, without the guard: ``@P0 LDS.64 R2, [R4]`` is ``LDS``."""
    words = text.split()
    if words and words[0].startswith("@"):
        words = words[1:]
    return words[0].split(".")[0].rstrip(";") if words else ""


def _place(
    here: Sequence[InstructionSamples],
    there: Sequence[InstructionSamples],
    totals: tuple[int, ...],
    lines: Mapping[int, str],
) -> StalledPlace:
    sides = [_stalled(_merged(rows)) for rows in (here, there)]
    shares = [
        {reason: count / total for reason, count in side.items()}
        for side, total in zip(sides, totals, strict=True)
    ]
    changes = {r: shares[1].get(r, 0.0) - shares[0].get(r, 0.0) for r in {*shares[0], *shares[1]}}
    rows = (*here, *there)
    heaviest = max(rows, key=lambda row: row.samples)
    text = lines.get(rows[0].line or 0, heaviest.text)
    return StalledPlace(
        line=rows[0].line,
        text=text.strip(),
        source=sum(shares[0].values()) if here else None,
        target=sum(shares[1].values()) if there else None,
        reasons={r: changes[r] for r in sorted(changes, key=lambda r: (-abs(changes[r]), r))},
    )


def _merged(rows: Sequence[InstructionSamples]) -> Mapping[str, int]:
    counts: dict[str, int] = {}
    for row in rows:
        for reason, count in row.stalled.items():
            counts[reason] = counts.get(reason, 0) + count
    return counts


def _stalled(samples: Mapping[str, int]) -> dict[str, int]:
    """Without those in which the instruction was issued."""
    return {reason: count for reason, count in samples.items() if reason != SELECTED and count}


def _known_lines(samples: KernelSamples) -> float:
    known = sum(row.samples for row in samples.rows if row.line is not None)
    return known / max(samples.samples, 1)

"""The compiled engine against the reference: equal event traces on random workloads."""

from __future__ import annotations

from dataclasses import dataclass, field

from smlab.sim import compiled, reference
from smlab.sim.lowering import LoweredKernel
from smlab.sim.reference import Record
from smlab.sim.traces.compare import first_difference
from smlab.validation.checks import Plan, Results, Task, shares
from smlab.validation.checks.random_code import compare
from smlab.validation.laws.strategies import for_each_drawn, lowered_kernels
from smlab.validation.report import Column, Report

CASES, QUICK_CASES, PATHS = 10_000, 500, 8
PIECES, QUICK_PIECES, PIECE_PARTS = 2_000, 200, 4
KEPT = 3
"""Differences that one part keeps in words; all are counted."""


@dataclass
class EngineComparison:
    """What one part of the campaign saw; times are of the engines alone."""

    cases: int = 0
    distinct: set[int] = field(default_factory=set)
    warp_instructions: int = 0
    events: int = 0
    different: int = 0
    told: list[str] = field(default_factory=list)


def compare_engines(count: int, stream: int) -> EngineComparison:
    """Draw ``count`` kernels on machines and compare everything that the two engines record."""
    seen = EngineComparison()

    def one(lowered: LoweredKernel) -> None:
        expected, found = reference.run(lowered, Record.ALL), compiled.run(lowered, Record.ALL)
        assert expected.jobs is not None
        assert expected.issues is not None
        assert expected.spans is not None
        seen.cases += 1
        seen.distinct.add(hash((lowered.kernel, repr(lowered.machine), lowered.seed)))
        seen.warp_instructions += expected.warp_instructions
        seen.events += 4 * len(expected.jobs) + len(expected.issues.cycle) + len(expected.spans.begin)
        difference = first_difference(expected, found)
        if difference is not None:
            seen.different += 1
            if len(seen.told) < KEPT:
                seen.told.append(
                    f"{difference}\n\nkernel {lowered.kernel}, machine {lowered.machine}, seed {lowered.seed}"
                )

    for_each_drawn(lowered_kernels(), count, stream, one)
    return seen


@dataclass
class PiecesCompared:
    """What one part of the random pieces of machine code saw."""

    pieces: int = 0
    opcodes: set[str] = field(default_factory=set)
    warp_instructions: int = 0
    different: int = 0
    told: list[str] = field(default_factory=list)


def compare_code(first: int, count: int) -> PiecesCompared:
    """Compare ``count`` pieces, with seeds from ``first`` on."""
    seen = PiecesCompared()
    for seed in range(first, first + count):
        outcome = compare(seed)
        seen.pieces += 1
        seen.opcodes |= outcome.opcodes
        seen.warp_instructions += outcome.warp_instructions
        if outcome.difference:
            seen.different += 1
            if len(seen.told) < KEPT:
                seen.told.append(f"piece {seed}: {outcome.difference}")
    return seen


def tasks(plan: Plan) -> list[Task[str]]:
    total = QUICK_CASES if plan.quick else CASES
    pieces = QUICK_PIECES if plan.quick else PIECES
    first = plan.seed * PIECES
    return [
        *(
            Task(f"engines-{i}", compare_engines, (count, 1000 + plan.seed * PATHS + i))
            for i, count in enumerate(shares(total, PATHS))
        ),
        *(
            Task(f"machine-code-{i}", compare_code, (first + i * (pieces // PIECE_PARTS), count))
            for i, count in enumerate(shares(pieces, PIECE_PARTS))
        ),
    ]


def report(page: Report, plan: Plan, results: Results) -> None:
    parts: list[EngineComparison] = [results[f"engines-{i}"] for i in range(PATHS)]
    cases, different = sum(p.cases for p in parts), sum(p.different for p in parts)
    wanted = QUICK_CASES if plan.quick else CASES
    section = page.section(
        "engines",
        "The compiled engine against the reference",
        "The compiled engine that does the work must do what the readable reference says. Both run the same "
        "random kernels on the same random machines with everything recorded: every issue, every job's four "
        "moments, every change of a warp's state, all counts. **Equal means equal**, event for event. They "
        "also execute the same random pieces of machine code, and must leave the same registers and memory. "
        "That code has arithmetic of all kinds, branches, loops, predicates, memory, atomics, exchange "
        "between lanes and barriers, with random control codes.",
    )
    page.check(
        "engines-agree",
        different == 0 and cases >= wanted,
        f"{cases - different:,} of {cases:,} random cases with identical traces on both engines",
        "engines",
    )
    code: list[PiecesCompared] = [results[f"machine-code-{i}"] for i in range(PIECE_PARTS)]
    pieces, unlike = sum(c.pieces for c in code), sum(c.different for c in code)
    page.check(
        "engines-agree-on-machine-code",
        unlike == 0 and pieces >= (QUICK_PIECES if plan.quick else PIECES),
        f"{pieces - unlike:,} of {pieces:,} random pieces of machine code with identical registers, memory "
        "and traces on both engines",
        "engines",
    )
    section.fold("What was compared")
    section.table(
        "engines",
        [
            Column("cases"),
            Column("distinct"),
            Column("warp-instructions"),
            Column("events compared"),
            Column("cases that differ", kind="simulated"),
        ],
        [
            [
                cases,
                sum(len(p.distinct) for p in parts),
                sum(p.warp_instructions for p in parts),
                sum(p.events for p in parts),
                different,
            ]
        ],
        "Issues, moments of jobs, and spans of warp states that were compared.",
    )
    section.table(
        "machine-code",
        [
            Column("pieces"),
            Column("opcodes in all forms"),
            Column("warp-instructions"),
            Column("pieces that differ", kind="simulated"),
        ],
        [
            [
                pieces,
                len({name for c in code for name in c.opcodes}),
                sum(c.warp_instructions for c in code),
                unlike,
            ]
        ],
        "Random pieces of machine code, executed and timed by both engines.",
    )
    for told in [t for p in parts for t in p.told] + [t for c in code for t in c.told]:
        section.text(told)

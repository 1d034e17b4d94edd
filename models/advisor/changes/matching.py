"""What optimizers see of a kernel, and what they answer: the samples that a change could save."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Literal

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.profiles.pc_samples.samples import SELECTED, InstructionSamples, KernelSamples
from smlab.models.advisor.changes.rewrites import Rewrite
from smlab.models.advisor.code import AdvisedCode, LoopOf
from smlab.models.advisor.stall_causes.blame import EXECUTION, MEMORY, Blame, Blamed
from smlab.models.advisor.stall_causes.latencies import Latencies
from smlab.models.advisor.stall_causes.slicing import address_sources

Category = Literal["stall elimination", "latency hiding", "parallel"]
AMONG: Final = frozenset(
    (
        "barrier",
        "dispatch_stall",
        "lg_throttle",
        "math_pipe_throttle",
        "mio_throttle",
        "not_selected",
        "tex_throttle",
    )
)
"""Reasons by which a warp waits for other warps: at a barrier, for a queue, a pipe or the scheduler."""
LEAST_SHARE: Final = 0.005
"""Matches of a smaller share of all samples are not told."""


@dataclass(frozen=True)
class Hotspot:
    """Where an optimizer matches: stalled instruction, the one to blame, samples."""

    stalled: int
    cause: int
    samples: float


@dataclass(frozen=True)
class Match:
    """An optimizer's answer: the samples that it matches (M), those of them in whose cycle nothing was issued
    (M^L), and where. ``scopes`` are (A, M^L) of each loop, for Equation 5;
    ``among_warps`` are those of them in which a warp waits for others and not for its own results (`AMONG`).
    ``paper`` overrides the estimate by Equations 2 to 10. ``rewrites`` are what a compiler may make of the
    change, of which the best is promised; without any there is a bound alone. ``how`` says in
    words how the change has to be made."""

    matched: float
    latency: float
    hotspots: tuple[Hotspot, ...]
    why: str
    scopes: tuple[tuple[float, float], ...] = ()
    paper: float | None = None
    rewrites: tuple[Rewrite, ...] = ()
    among_warps: float = 0.0
    how: str = ""


@dataclass(frozen=True)
class Optimizer:
    """One kind of advice. ``rule`` says when it matches, ``assumes`` what its estimate takes for granted."""

    name: str
    category: Category
    rule: str
    assumes: str
    what: str
    match: Callable[[Context, float], Match | None]
    factor: float = 4.0
    """How far the change goes where that is a choice (unroll by 4); 1 where it is none."""


@dataclass(frozen=True)
class Context:
    """A kernel as optimizers see it."""

    code: AdvisedCode
    samples: KernelSamples
    blamed: Blamed
    gpu: Gpu
    latencies: Latencies
    cache: dict[str, object] = field(default_factory=dict)

    @cached_property
    def total(self) -> float:
        return float(self.samples.samples)

    @cached_property
    def rows(self) -> Mapping[int, InstructionSamples]:
        return {self.code.number[row.address]: row for row in self.samples.rows}

    @cached_property
    def executed(self) -> Mapping[int, float]:
        """Executions by warps, or where the profile has none, issued samples."""
        counts = {n: row.executed for n, row in self.rows.items()}
        if any(counts.values()):
            return {n: float(c or 0) for n, c in counts.items()}
        return {n: float(row.issued) for n, row in self.rows.items()}

    @cached_property
    def samples_a_cycle(self) -> float:
        """Samples that a warp-cycle gives: an instruction that issues takes its warp one cycle."""
        executed = sum(self.executed.values())
        return sum(row.issued for row in self.rows.values()) / executed if executed else 0.0

    def in_cycles(self, number: int, cycles: float) -> float:
        """Samples that all executions of an instruction would have if each took so many cycles of its
        warp."""
        return self.samples_a_cycle * self.executed.get(number, 0.0) * cycles

    def edges(self, wanted: Callable[[Blame], bool]) -> list[Blame]:
        return [b for b in self.blamed.blame if b.reason != SELECTED and wanted(b)]

    def dependences(self) -> list[Blame]:
        """Blame for memory and execution dependences, as the paper counts them."""
        return self.edges(lambda b: b.reason in MEMORY | EXECUTION)

    def samples_at(self, numbers: Iterable[int]) -> float:
        """All samples at some instructions, issued ones included."""
        return float(sum(self.rows[n].samples for n in set(numbers) if n in self.rows))

    def active_in(self, loop: LoopOf) -> float:
        """Samples of a loop (nested ones included) in whose cycle the scheduler issued (A of Equation 5)."""
        return float(sum(r.samples - r.latency for n, r in self.rows.items() if n in loop.members))

    def hangs_on(self, number: int, wanted: Callable[[int], bool]) -> bool:
        """Whether the address of a memory access hangs, through any number of definitions, on an instruction
        that ``wanted`` holds of."""
        return any(wanted(n) for n in address_sources(self.code, number))

    def line_group(self, numbers: Iterable[int]) -> set[int]:
        """All instructions of the source lines that some instructions come from, in the same loop."""
        group = set()
        for n in numbers:
            line, loop = self.code.line(n), self.code.innermost_loop(n)
            if line is None:
                group.add(n)
                continue
            group |= {
                other
                for other in self.rows
                if self.code.line(other) == line and self.code.innermost_loop(other) is loop
            }
        return group

    def share_executed(self, numbers: Iterable[int]) -> float:
        """The share of all executed warp-instructions that some instructions are."""
        total = sum(self.executed.values())
        return sum(self.executed.get(n, 0.0) for n in set(numbers)) / total if total else 0.0


def widened_by_constants(context: Context) -> set[int]:
    """Conversions between FP32 and FP64 on lines that compute in FP64: what a constant without an f does."""
    code = context.code
    lines = {code.line(n) for n, kind in enumerate(code.kinds) if kind == "fp64"} - {None}
    return {
        n
        for n, i in enumerate(code.instructions)
        if i.opcode == "F2F" and "F64" in i.modifiers and n in context.rows and code.line(n) in lines
    }


def matched(blame: Iterable[Blame], why: str, **more: object) -> Match | None:
    """A match of some blame; None where there is none."""
    edges = list(blame)
    total = sum(b.samples for b in edges)
    if total <= 0:
        return None
    spots: dict[tuple[int, int], float] = {}
    for b in edges:
        spots[b.stalled, b.cause] = spots.get((b.stalled, b.cause), 0.0) + b.samples
    order = sorted(spots, key=lambda key: -spots[key])
    hotspots = tuple(Hotspot(s, c, spots[s, c]) for s, c in order)
    among = sum(b.samples for b in edges if b.reason in AMONG)
    return Match(total, sum(b.latency for b in edges), hotspots, why, among_warps=among, **more)  # type: ignore[arg-type]


def at_instructions(
    context: Context, numbers: Iterable[int], why: str, rewrites: tuple[Rewrite, ...] = ()
) -> Match | None:
    """A match of all samples at some instructions."""
    chosen = sorted({n for n in numbers if n in context.rows}, key=lambda n: -context.rows[n].samples)
    total = context.samples_at(chosen)
    if not total:
        return None
    latency = float(sum(context.rows[n].latency for n in chosen))
    spots = tuple(Hotspot(n, n, float(context.rows[n].samples)) for n in chosen if context.rows[n].samples)
    among = float(sum(context.rows[n].stalled.get(reason, 0) for n in chosen for reason in AMONG))
    return Match(total, latency, spots, why, rewrites=rewrites, among_warps=among)

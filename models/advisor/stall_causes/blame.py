"""The blamer: whose fault the samples of each stalled instruction are.

Three readings stand side by side. ``as-published`` is Section IV of Zhou et al. (CGO 2021), ``as-coded`` what
GPA's code does beyond it, as far as that matters (the mean path in place of the longest, latencies against
cycles in place of instructions, 32 issued samples for a source that has none, ``[R2.64+UR4]`` read as
uniform). ``smlab`` is ours: scoreboard stalls go to the instructions that raised a scoreboard waited for.

Samples are conserved exactly: what is blamed and what is not attributed add up to all samples. Shares are
multiples of 2**-20, so that their sums have no rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.profiles.pc_samples.samples import SELECTED, KernelSamples
from smlab.models.advisor.code import AdvisedCode
from smlab.models.advisor.stall_causes.copy_groups import awaited_copies
from smlab.models.advisor.stall_causes.issue_rates import ExecutionTiming
from smlab.models.advisor.stall_causes.latencies import Latencies, coded_latencies, published_latencies
from smlab.models.advisor.stall_causes.scoreboards import Reading, blame_scoreboards, blame_wait
from smlab.models.advisor.stall_causes.slicing import Path, definitions

Mode = Literal["as-published", "as-coded", "smlab"]
MODES: Final[tuple[Mode, ...]] = ("as-published", "as-coded", "smlab")

_STORES: Final = frozenset(("ST", "STG", "STL", "RED", "REDG"))
UNIT: Final = 1 << 20
CREDIT: Final = 32
"""Issued samples that GPA's code gives a source without any."""

MEMORY: Final = frozenset(("long_scoreboard",))
EXECUTION: Final = frozenset(("short_scoreboard", "wait"))
SYNCHRONIZATION: Final = frozenset(("barrier", "membar"))
_MEMORY_KINDS: Final = frozenset(("global", "local", "constant"))


@dataclass(frozen=True)
class Blame:
    """Samples of the instruction ``stalled`` that ``cause`` is to blame for (numbers of instructions).

    ``samples`` of them all, ``latency`` those in whose cycle the scheduler issued nothing; ``distance`` is
    how many instructions lie between, at least.
    """

    stalled: int
    cause: int
    reason: str
    samples: float
    latency: float
    distance: int = 0


@dataclass(frozen=True)
class Blamed:
    """All blame of a kernel in one mode; ``unattributed`` has the samples, by (instruction, reason), that no
    producer was found for."""

    mode: Mode
    blame: tuple[Blame, ...]
    unattributed: Mapping[tuple[int, str], float]
    samples: int

    @property
    def unattributed_samples(self) -> float:
        return math.fsum(self.unattributed.values())

    def by_cause(self) -> dict[int, float]:
        """Samples of stalls by the instruction to blame."""
        samples: dict[int, float] = {}
        for b in self.blame:
            if b.reason != SELECTED:
                samples[b.cause] = samples.get(b.cause, 0.0) + b.samples
        return samples


Shares = dict[int, tuple[float, int]]
"""Weight and distance by the instruction to blame."""


def blame(
    code: AdvisedCode,
    samples: KernelSamples,
    mode: Mode,
    latencies: Latencies | None = None,
    reading: Reading = "last",
) -> Blamed:
    """Attribute every sample.

    ``latencies`` are needed by ``smlab`` alone (`described_latencies`); the others have the paper's own.
    ``reading`` is whom ``smlab`` blames where several producers are out: the last to finish, or all of them.

    Raises:
        SmlabError: an unknown mode, samples at an address that the code does not have.
    """
    if mode not in MODES:
        raise SmlabError.at("mode", "unknown", mode, "one of " + ", ".join(MODES))
    issued: dict[int, float] = {}
    rows = []
    for row in samples.rows:
        if row.address not in code.number:
            raise SmlabError.at(
                samples.where, "samples at an address without instruction", f"{row.address:#x}"
            )
        number = code.number[row.address]
        rows.append((number, row))
        issued[number] = float(row.issued)
    if mode == "smlab" and any(row.executed for _, row in rows):
        issued = {number: float(row.executed or 0) for number, row in rows}
    finder = _finder(code, mode, latencies, issued, reading, samples)
    blames: list[Blame] = []
    missing: dict[tuple[int, str], float] = {}
    for number, row in rows:
        for reason, count in row.stalled.items():
            latency = row.not_issued.get(reason, 0)
            shares = {number: (1.0, 0)} if reason == SELECTED else finder(number, reason)
            if not shares:
                missing[number, reason] = float(count)
                continue
            blames.extend(_apportioned(number, reason, count, latency, shares))
    return Blamed(mode, tuple(blames), missing, samples.samples)


def _apportioned(stalled: int, reason: str, count: float, latency: float, shares: Shares) -> Iterable[Blame]:
    """Equation 1: each source's part by its weight, the whole given away exactly."""
    total = math.fsum(weight for weight, _ in shares.values())
    causes = sorted(shares, key=lambda c: (shares[c][0], -c))
    parts: list[list[int]] = []
    for amount in (count, latency):
        whole = round(amount * UNIT)
        shares_given = [math.floor(whole * (shares[c][0] / total)) for c in causes[:-1]]
        parts.append([*shares_given, whole - sum(shares_given)])
    for cause, all_of_them, waiting in zip(causes, *parts, strict=True):
        if all_of_them or waiting:
            yield Blame(stalled, cause, reason, all_of_them / UNIT, waiting / UNIT, shares[cause][1])


def _finder(
    code: AdvisedCode,
    mode: Mode,
    latencies: Latencies | None,
    issued: Mapping[int, float],
    reading: Reading,
    samples: KernelSamples,
) -> Callable[[int, str], Shares]:
    if mode == "smlab":
        if latencies is None:
            raise SmlabError.at("latencies", "are needed in the mode smlab", None, "described_latencies(gpu)")
        known, timing = latencies, ExecutionTiming.measured(code, samples, issued, latencies)

        def smlab_blame(number: int, reason: str) -> Shares:
            if reason in ("long_scoreboard", "short_scoreboard"):
                return (
                    blame_scoreboards(code, number, reason, known, timing, reading)
                    or _sliced(code, number, reason, known, issued, coded=False)
                    or awaited_copies(code, number)
                )
            if reason == "wait":
                return blame_wait(code, number, known)
            if reason == "drain":
                return _drained(code, number, issued)
            return _own_fault(code, number, reason)

        return smlab_blame
    table = published_latencies() if mode == "as-published" else coded_latencies()

    def paper_blame(number: int, reason: str) -> Shares:
        if reason in MEMORY | EXECUTION | SYNCHRONIZATION:
            return _sliced(code, number, reason, table, issued, coded=mode == "as-coded")
        return {number: (1.0, 0)}

    return paper_blame


def _own_fault(code: AdvisedCode, number: int, reason: str) -> Shares:
    """Reasons that an instruction has from itself; a barrier's may be booked behind it."""
    if reason in SYNCHRONIZATION and code.kinds[number] != "barrier":
        return {p: (1.0, 1) for p in code.before[number] if code.kinds[p] == "barrier"} or {number: (1.0, 0)}
    return {number: (1.0, 0)}


def _drained(code: AdvisedCode, number: int, issued: Mapping[int, float]) -> Shares:
    """A warp at its end waits for its stores and atomics, by how often each was executed."""
    stores = {n: issued.get(n, 0.0) for n, i in enumerate(code.instructions) if i.opcode in _STORES}
    return {n: (times, abs(number - n)) for n, times in stores.items() if times} or {number: (1.0, 0)}


def _sliced(
    code: AdvisedCode,
    use: int,
    reason: str,
    latencies: Latencies,
    issued: Mapping[int, float],
    *,
    coded: bool,
) -> Shares:
    """The paper's slicing, pruning and apportioning for one stalled instruction."""
    edges = prune(code, use, reason, dependences(code, use, coded), latencies, coded)
    weights: dict[int, tuple[float, int]] = {}
    for source, path in edges.items():
        ratio = issued.get(source, 0.0) or (CREDIT if coded else 0.0)
        length = path.mean if coded else float(path.longest)
        weights[source] = (ratio / max(length, 1.0), path.shortest)
    if weights and not any(weight for weight, _ in weights.values()):
        # No source has an issued sample: by path length alone.
        return {s: (1.0 / max(p.longest, 1), p.shortest) for s, p in edges.items()}
    return {s: w for s, w in weights.items() if w[0] > 0}


def dependences(code: AdvisedCode, use: int, coded: bool = False) -> dict[int, Path]:
    """Def-use edges into an instruction over registers, predicates, uniform registers and scoreboards."""
    effects = code.effects[use]
    names = set(effects.reads)
    if coded:
        for operand in code.instructions[use].operands:
            if operand.kind == "memory" and "+UR" in operand.text:
                names -= {r for r in names if r in operand.registers and not r.startswith("U")}
    edges: dict[int, Path] = {}
    for name in sorted(names | effects.waits):
        for source, path in definitions(code, use, name).paths.items():
            merged = edges.setdefault(source, Path())
            for length, cycles, later in zip(path.lengths, path.cycles, path.later, strict=True):
                merged.add(length, cycles, path.users or frozenset(), later)
    return edges


def prune(
    code: AdvisedCode, use: int, reason: str, edges: Mapping[int, Path], latencies: Latencies, coded: bool
) -> dict[int, Path]:
    """The three rules of the paper, by opcode, dominator and latency."""
    kept = {}
    for source, path in edges.items():
        kind = code.kinds[source]
        if reason in MEMORY and kind not in _MEMORY_KINDS:
            continue
        if reason in SYNCHRONIZATION and kind != "barrier":
            continue
        if path.users and not (path.users <= {source, use}):
            continue
        between = min(path.cycles) if coded else path.shortest
        if between > latencies.upper(code.instructions[source]):
            continue
        kept[source] = path
    if reason in SYNCHRONIZATION and code.kinds[use] == "barrier" and not kept:
        start = Path()
        start.add(0, 0, frozenset(), 0)
        return {use: start}
    return kept

"""Samples by instruction: what a profiler's PC sampling, or the simulator's, says of each instruction.

Reasons have Nsight Compute's long names (``long_scoreboard``). A sample is *not issued* (the paper's latency
sample) if its scheduler issued nothing in that cycle, else *issued* (an active sample).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

SELECTED: Final = "selected"

RESOURCES: Final = ("issue", "memory", "port", "l2", "dram", "atomic", "fp32", "int32", "fp64", "sfu")
"""Schedulers, an SM's path to L1 and shared memory, its port to L2, L2, DRAM, atomics, arithmetic pipes."""

_NAMES: Final = (
    "selected not_selected wait short_scoreboard long_scoreboard mio_throttle lg_throttle tex_throttle "
    "math_pipe_throttle barrier membar drain dispatch_stall imc_miss no_instructions branch_resolving misc "
    "sleeping gmma warpgroup_arrive"
)
REASONS: Final = tuple(_NAMES.split())

_SHORT: Final = {
    "long_sb": "long_scoreboard",
    "short_sb": "short_scoreboard",
    "math": "math_pipe_throttle",
    "mio": "mio_throttle",
    "lg": "lg_throttle",
    "tex": "tex_throttle",
    "imc": "imc_miss",
    "no_inst": "no_instructions",
    "no_instruction": "no_instructions",
    "dispatch": "dispatch_stall",
    "sleep": "sleeping",
    "branch_resolve": "branch_resolving",
    "warpgroup_arrive": "warpgroup_arrive",
}


def reason_of(name: str) -> str:
    """The long name of a reason as ncu's source page abbreviates it: ``long_sb`` is ``long_scoreboard``."""
    return _SHORT.get(name, name)


LANES: Final = 32.0
"""Of a warp."""


@dataclass(frozen=True)
class InstructionSamples:
    """The samples of one instruction (or, where a profile gives no more, of one source line).

    ``stalled`` counts all samples by reason, ``selected`` included, ``not_issued`` those of them in whose
    cycle the scheduler issued nothing. ``executed`` counts executions by warps, ``lanes`` is the mean of the
    active lanes, ``passes`` that of the passes through the data stage (of shared memory wavefronts, of global
    memory lines), ``passes_ideal`` what it would be without bank conflicts. ``sectors`` of L2 are those that
    an execution asks for, ``sectors_ideal`` those that its bytes fill.
    """

    address: int
    text: str
    line: int | None
    stalled: Mapping[str, int]
    not_issued: Mapping[str, int]
    executed: int | None = None
    lanes: float | None = None
    passes: float | None = None
    passes_ideal: float | None = None
    sectors: float | None = None
    sectors_ideal: float | None = None

    @property
    def samples(self) -> int:
        return sum(self.stalled.values())

    @property
    def issued(self) -> int:
        """Samples in which the instruction itself was issued."""
        return self.stalled.get(SELECTED, 0)

    @property
    def latency(self) -> int:
        return sum(self.not_issued.values())

    @property
    def active_lanes(self) -> float:
        """Mean of the active lanes, 0 where no lane ever takes part; all where the profile does not tell."""
        return LANES if self.lanes is None else self.lanes


@dataclass(frozen=True)
class LaunchFacts:
    """What a profile tells of the launch; None where it does not."""

    blocks: int | None = None
    threads_per_block: int | None = None
    registers_per_thread: int | None = None
    shared_bytes_per_block: int | None = None
    sms: int | None = None
    warps_per_scheduler: float | None = None
    cycles: float | None = None


@dataclass(frozen=True)
class KernelSamples:
    """The samples of one kernel, in the order of address; ``by_line`` says that rows are source lines.

    ``device`` is the GPU's name where the profile tells it, ``cubin`` the code that ran where it
    holds that. ``source`` has the text of source lines, ``busy`` the shares of the time
    in which resources are busy (`RESOURCES`), ``excess`` how many times as many sectors
    of L2 and DRAM global accesses move as their bytes fill.
    """

    kernel: str
    rows: tuple[InstructionSamples, ...]
    where: str
    architecture: str | None = None
    device: str | None = None
    by_line: bool = False
    launch: LaunchFacts = LaunchFacts()
    cubin: bytes | None = None
    period_cycles: int | None = None
    source: Mapping[int, str] = field(default_factory=dict)
    busy: Mapping[str, float] = field(default_factory=dict)
    excess: Mapping[str, float] = field(default_factory=dict)

    @property
    def samples(self) -> int:
        return sum(row.samples for row in self.rows)

    @property
    def active(self) -> int:
        """Samples in whose cycle the scheduler issued (A of Equation 4)."""
        return self.samples - self.latency

    @property
    def latency(self) -> int:
        """Samples in whose cycle the scheduler issued nothing (L)."""
        return sum(row.latency for row in self.rows)

    def reasons(self) -> dict[str, int]:
        """All samples by reason."""
        counts: dict[str, int] = {}
        for row in self.rows:
            for reason, count in row.stalled.items():
                counts[reason] = counts.get(reason, 0) + count
        return counts

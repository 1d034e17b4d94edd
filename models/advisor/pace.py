"""How fast code is executed, as samples tell it, and what may be on its way to an instruction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from smlab.hw_bench.profiles.samples import KernelSamples
from smlab.hw_bench.sass.effects import access_words
from smlab.hw_bench.sass.opcodes import is_load
from smlab.models.advisor.caching import SECTOR_BYTES, miss_chance
from smlab.models.advisor.code import AdvisedCode
from smlab.models.advisor.latencies import Latencies
from smlab.models.advisor.slicing import same_for_all

REQUESTS: Final = frozenset(("global", "local", "shared", "shared-atomic"))
"""Kinds that go through the data stage."""
THROTTLES: Final = ("lg_throttle", "mio_throttle")
SECTORS: Final = 4
"""Of a line, that a pass asks for."""
IN_DRAM: Final = 0.5
"""The part of what L1 does not have that L2 does not have either, where a profile does not tell."""
WARPS: Final = 32.0
"""On an SM, where a profile does not tell."""


@dataclass(frozen=True)
class Pace:
    """How fast the code is executed, from its samples: executions of each instruction, its mean cycles of
    waiting at each, and what follows from them and the stall counts.

    ``passes`` has an access's passes through the data stage, ``queue_cycles`` how long a request stands in
    the queue before it, and ``turn_cycles`` how long one request of each of the SM's warps takes there,
    ``far_turn_cycles`` how long beyond L1. ``latency`` is when each result is expected without the data
    stage, which those in ``staging`` pass.
    """

    executed: Mapping[int, float]
    waited: Sequence[float]
    begins: Sequence[float]
    passes: Mapping[int, float] = field(default_factory=dict)
    queue_cycles: float = 0.0
    turn_cycles: float = WARPS
    far_turn_cycles: float = 0.0
    latency: Sequence[float] = ()
    staging: frozenset[int] = frozenset()

    @classmethod
    def measured(
        cls, code: AdvisedCode, samples: KernelSamples, executed: Mapping[int, float], latencies: Latencies
    ) -> Pace:
        rows = {code.number[row.address]: row for row in samples.rows}
        cycles = [0.0] * len(code)
        for n, row in rows.items():
            if row.issued:
                cycles[n] = (row.samples - row.issued) / row.issued
        passes = {n: row.passes for n, row in rows.items() if row.passes}
        requests = [n for n in rows if code.kinds[n] in REQUESTS and executed.get(n)]
        total = sum(executed[n] for n in requests)
        each = sum(executed[n] * max(passes.get(n, 1.0), 1.0) for n in requests) / total if total else 1.0
        interval = latencies.schedulers * each
        throttled = sum(
            executed[n] * sum(rows[n].stalled.get(r, 0) for r in THROTTLES) / rows[n].issued
            for n in requests
            if rows[n].issued
        )
        full = min(throttled / (total * interval), 1.0) if total else 0.0
        queue = full * latencies.queue_entries * interval
        held = samples.launch.warps_per_scheduler
        warps = WARPS if held is None else held * latencies.schedulers
        missed = _in_dram(code, samples, executed)
        turn = max(warps * each, 1.0)
        sms = min(samples.launch.sms or latencies.sms, samples.launch.blocks or latencies.sms)
        far = turn * SECTORS * (1.0 + missed * sms * latencies.sector_cycles)
        later = missed * max(latencies.dram_cycles - latencies.l2_cycles, 0.0)
        expected = [latencies.expected(i) for i in code.instructions]
        for n, kind in enumerate(code.kinds):
            if kind == "global" and not same_for_all(code, n):
                expected[n] += later
        staging = frozenset(requests)
        return cls(executed, cycles, code.begins(cycles), passes, queue, turn, far, expected, staging)

    def expected(self, number: int) -> float:
        """Cycles until an instruction's result is there, of a load beyond L1."""
        return self.latency[number] + (self.staged(number) if number in self.staging else 0.0)

    def staged(self, number: int) -> float:
        """Cycles that an access stands in the queue and takes of the data stage beyond one pass."""
        return self.queue_cycles + max(self.passes.get(number, 1.0) - 1.0, 0.0)


@dataclass(frozen=True)
class Outstanding:
    """A setter on a path to the use: cycles from its issue to the use's, and whether the use waits for its
    result (else for its operands to have been read)."""

    source: int
    cycles: float
    result: bool


def _in_dram(code: AdvisedCode, samples: KernelSamples, executed: Mapping[int, float]) -> float:
    """The part of what threads load of their own that comes from DRAM: what all load, L2 has."""
    if "dram" not in samples.excess:
        return IN_DRAM
    needed = own = 0.0
    for row in samples.rows:
        n = code.number[row.address]
        if code.kinds[n] == "global" and executed.get(n):
            width = 4 * access_words(code.instructions[n]) * row.active_lanes
            sectors = executed[n] * max(1.0, width / SECTOR_BYTES)
            needed += sectors
            if is_load(code.instructions[n]) and not same_for_all(code, n):
                chance = miss_chance(code, n, executed)
                own += sectors * (1.0 if chance is None else chance)
    return min(samples.excess["dram"] * needed / own, 1.0) if own else IN_DRAM

"""How fast code is executed, as samples tell it, and what may be on its way to an instruction."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from smlab.hw_bench.profiles.pc_samples.samples import KernelSamples
from smlab.hw_bench.sass.effects import access_words
from smlab.hw_bench.sass.opcodes import is_load
from smlab.models.advisor.code import AdvisedCode
from smlab.models.advisor.stall_causes.l1_hits import OUTSIDE, SECTOR_BYTES, WARP_THREADS, miss_chance
from smlab.models.advisor.stall_causes.latencies import Latencies
from smlab.models.advisor.stall_causes.overtaking import bursts
from smlab.models.advisor.stall_causes.slicing import same_for_all

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
class ExecutionTiming:
    """How fast the code is executed, from its samples: executions of each instruction, its mean cycles of
    waiting at each, and what follows from them and the stall counts.

    ``passes`` has an access's passes through the data stage, ``queue_cycles`` how long a request stands in
    the queue before it, and ``round_cycles`` how long one request of each of the SM's warps takes there,
    ``far_round_cycles`` how long beyond L1. ``latency`` is when each result is expected without the data
    stage, which those in ``staging`` pass. Blocks have so many ``threads``; of all warps a share ``begun``
    begins at once. ``uninterrupted_begins`` are ``begins`` of warps that nobody comes between, ``overtaken``
    how often and for how many cycles somebody does before a request (`turns`). What all threads load, one of
    the SMs has to bring from DRAM, which takes the mean of them ``first_sm_cycles`` more.
    """

    executed: Mapping[int, float]
    waited: Sequence[float]
    begins: Sequence[float]
    passes: Mapping[int, float] = field(default_factory=dict)
    queue_cycles: float = 0.0
    round_cycles: float = WARPS
    far_round_cycles: float = 0.0
    latency: Sequence[float] = ()
    staging: frozenset[int] = frozenset()
    threads: float = WARP_THREADS
    begun: float = OUTSIDE
    uninterrupted_begins: Sequence[float] = ()
    overtaken: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    first_sm_cycles: float = 0.0

    @classmethod
    def measured(
        cls, code: AdvisedCode, samples: KernelSamples, executed: Mapping[int, float], latencies: Latencies
    ) -> ExecutionTiming:
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
        blocks, threads = samples.launch.blocks, samples.launch.threads_per_block or WARP_THREADS
        begun = OUTSIDE
        if held is not None and blocks:
            rooms = warps * min(samples.launch.sms or latencies.sms, blocks)
            begun = min(rooms / (blocks * math.ceil(threads / WARP_THREADS)), 1.0)
        missed = _in_dram(code, samples, executed, threads, begun)
        turn = max(warps * each, 1.0)
        sms = min(samples.launch.sms or latencies.sms, samples.launch.blocks or latencies.sms)
        far = turn * SECTORS * (1.0 + missed * sms * latencies.sector_cycles)
        later = missed * max(latencies.dram_cycles - latencies.l2_cycles, 0.0)
        expected = [latencies.expected(i) for i in code.instructions]
        for n, kind in enumerate(code.kinds):
            if kind == "global" and not same_for_all(code, n):
                expected[n] += later
        waits = {
            n: sum(rows[n].stalled.get(r, 0) for r in (*THROTTLES, "not_selected")) / rows[n].issued
            for n in requests
            if rows[n].issued
        }
        intervals = {n: latencies.schedulers * max(passes.get(n, 1.0), 1.0) for n in waits}
        burst = bursts(code, cycles, waits, intervals, warps / latencies.schedulers)
        return cls(
            executed,
            cycles,
            code.begins(cycles),
            passes,
            queue,
            turn,
            far,
            expected,
            staging=frozenset(requests),
            threads=threads,
            begun=begun,
            uninterrupted_begins=code.begins(burst.waited),
            overtaken=burst.overtaken,
            first_sm_cycles=max(latencies.dram_cycles - latencies.l2_cycles, 0.0) / sms,
        )

    @cached_property
    def uninterrupted(self) -> ExecutionTiming:
        """The timing of warps that nobody comes between."""
        return replace(self, begins=self.uninterrupted_begins)

    def miss_chance(self, code: AdvisedCode, number: int) -> float | None:
        """How often a load goes beyond L1 (`caching.miss_chance`)."""
        return miss_chance(code, number, self.executed, self.threads, self.begun)

    def first_miss_chance(self, code: AdvisedCode, number: int) -> float:
        """The same in the first round of the load's loop, where all that all threads load is new."""
        return miss_chance(code, number, self.executed, self.threads, self.begun, first_round=True) or 0.0

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


def _in_dram(
    code: AdvisedCode, samples: KernelSamples, executed: Mapping[int, float], threads: float, begun: float
) -> float:
    """The part of what threads load of their own that comes from DRAM: what all load, L2 has."""
    if "dram" not in samples.excess:
        return IN_DRAM
    needed = private = 0.0
    for row in samples.rows:
        n = code.number[row.address]
        if code.kinds[n] == "global" and executed.get(n):
            width = 4 * access_words(code.instructions[n]) * row.active_lanes
            sectors = executed[n] * max(1.0, width / SECTOR_BYTES)
            needed += sectors
            if is_load(code.instructions[n]) and not same_for_all(code, n):
                chance = miss_chance(code, n, executed, threads, begun)
                private += sectors * (1.0 if chance is None else chance)
    return min(samples.excess["dram"] * needed / private, 1.0) if private else IN_DRAM

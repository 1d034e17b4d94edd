"""What a profile does not tell of a kernel's accesses, fitted until a replay waits where the samples say.

Three things are moved, each within its bounds. The *tail* of an access, between an unloaded L2's latency and
an unloaded DRAM's; longer, where more is waited for and nothing is busy. The share of its executions that
*miss* L1, where it is waited for less than L2 takes. And whether atomics on global memory queue for each
other's *words*: no counter tells, but where warps wait for them (at their end too) and the replay is early,
that is what the time is spent on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.sass.effects import access_words
from smlab.hw_bench.sass.opcodes import is_load
from smlab.models.advisor.changes.matching import Context
from smlab.models.advisor.estimates.program import WarpProgram, program_of, steps_of, taken
from smlab.models.advisor.estimates.replay import GLOBAL, WORK, Floats, Frame, Ints, ReplayResult, replay
from smlab.models.advisor.estimates.service_demands import (
    EXTRA,
    FAR_ATOMICS,
    Costs,
    costs_of,
    instructions_a_line,
)
from smlab.models.advisor.stall_causes.warp_paths import PathReading, WarpPath, paths_of

ROUNDS: Final = 10
"""Of the fit."""
DAMPING: Final = 0.8
"""The share of a difference in waiting by which a tail is moved in a round."""
MISS_STEP: Final = 0.5
"""Factor of an access's misses for each round in which it is waited for less than L2 takes."""
NEAR_ENOUGH: Final = 2.0
"""Cycles of waiting by which an access may differ without being moved to L1 or into a queue."""
VARIANTS: Final = 8
"""Paths of a block's warps, at most."""
IDLE: Final = 0.3
"""Share of the time below which port, L2 or DRAM is not taken to have a queue."""
BEYOND: Final = ("port", "l2", "dram")


@dataclass(frozen=True)
class _Waits:
    """Who waits for whom, by entry of `Steps.waited`: instructions ``consumer`` and ``producer``, and which
    entries are owed to accesses that can be moved (``mine``)."""

    consumer: Ints
    producer: Ints
    mine: Ints


class NoPathError(Exception):
    """Counts of executions that make no path through the code."""


class ReplayFit:
    """One reading of the paths with costs that were moved; ``before`` is its replay.

    ``error`` is by how much its waits differ from those of the samples, as a share of them all, ``mismatch``
    by how much its time does (a logarithm), or without a time the error.

    Raises:
        NoPathError: no path to replay.
    """

    def __init__(self, context: Context, frame: Frame, sms: float, reading: PathReading) -> None:
        self.context, self.sms, self.reading = context, sms, reading
        self.frame = frame._replace(turning=not (reading.gathered or reading.skew))
        self.costs: Costs = costs_of(context)
        blocks = max(1.0, float(context.samples.launch.blocks or 1))
        variants = min(VARIANTS, frame.warps_of_block)
        self.paths: tuple[WarpPath, ...] = paths_of(
            context.code, context.executed, blocks * frame.warps_of_block, variants, reading
        )
        if not any(path.steps for path in self.paths):  # nothing was executed, or no counts of it are there
            raise NoPathError
        self.program: WarpProgram = program_of(
            context.code, self.paths, self.costs.stall, instructions_a_line(context.gpu)
        )
        self.time = context.samples.launch.cycles
        self.work = sum(context.executed.values()) / sms
        self.in_line = 0.0
        self.atomics = {i for i in self._sectors() if context.code.instructions[i].opcode in FAR_ATOMICS}
        self.sectors = self._sectors()
        self._traffic()
        self.before, self.error = self._fitted()
        self.mismatch = abs(np.log(self.ratio)) if self.time else self.error

    @property
    def ratio(self) -> float:
        """The replay's time over the profile's; 1 without a time."""
        return self._ratio(self.before)

    def _ratio(self, done: ReplayResult) -> float:
        """Of the kernel's blocks and rounds a part is replayed: scaled by instructions."""
        return done.cycles * self.work / max(done.issued, 1) / self.time if self.time else 1.0

    def _sectors(self) -> dict[int, float]:
        """Sectors that each global access asks for, its lanes at random on the sectors of their lines."""
        context, sectors = self.context, {}
        for i in np.nonzero(self.costs.unit == GLOBAL)[0].tolist():
            row = context.rows.get(i)
            if row is not None and context.executed.get(i):
                words = access_words(context.code.instructions[i])
                places, lanes = 4 * max(row.passes or 1.0, 1.0), row.active_lanes * max(1.0, words / 8)
                sectors[i] = places * (1 - (1 - 1 / places) ** lanes)
        return sectors

    def _traffic(self) -> None:
        """Share the busy time of port, L2 and DRAM among global accesses by the sectors that they ask of
        them; atomics ask more of L2."""
        context, costs = self.context, self.costs
        if not self.time or not self.sectors:
            return
        heavier = {"l2": _atomic_weight(context.gpu)}
        for name in BEYOND:
            part = {
                i: w * (heavier.get(name, 1.0) if i in self.atomics else 1.0) for i, w in self.sectors.items()
            }
            total = sum(w * context.executed[i] * costs.miss[i] for i, w in part.items())
            busy = context.samples.busy.get(name, 0.0) * self.time * self.sms
            for i, w in part.items():
                costs.work[i, WORK.index(name)] = busy * w / total if total else 0.0

    def _words(self, done: ReplayResult, waited_for: bool) -> None:
        """Atomics follow each other for as much longer as the replay is early, where they are waited for: by
        what needs their results, or by warps at their end; for as much shorter as it is late. No longer than
        if all lanes were on one word."""
        context, costs = self.context, self.costs
        drain = sum(row.stalled.get("drain", 0) for row in context.rows.values())
        executed = sum(context.executed[i] for i in self.atomics)
        if not self.time or not executed:
            return
        missing = 1 - self._ratio(done)
        if missing > 0 and not (waited_for or drain):
            return
        self.in_line = min(max(self.in_line + missing, 0.0), 1.0)
        interval = context.gpu.number("l2.atomic_interval_cycles")
        for i in self.atomics:
            most = context.rows[i].active_lanes * interval * self.sms
            each = self.in_line * self.time * self.sms / executed
            costs.work[i, WORK.index("words")] = min(each, most)

    def _observed(self) -> Floats:
        """Cycles that an execution of each instruction waits for scoreboards, by the samples."""
        context = self.context
        observed = np.zeros(len(self.costs.stall))
        for i, row in context.rows.items():
            waited = sum(row.stalled.get(r, 0) for r in ("long_scoreboard", "short_scoreboard"))
            cycles = context.in_cycles(i, 1.0)
            observed[i] = waited / cycles if cycles else 0.0
        return observed

    def _fitted(self) -> tuple[ReplayResult, float]:
        """Move accesses round by round; the round that comes nearest is kept."""
        costs, observed = self.costs, self._observed()
        size = len(observed)
        steps = steps_of(self.program, costs)
        counts = np.diff(steps.begins)
        base = np.repeat(np.repeat(steps.first[:-1], np.diff(steps.first)), counts)
        producer = steps.instruction[base + steps.waited]
        waits = _Waits(
            np.repeat(steps.instruction, counts), producer, np.nonzero((costs.unit == GLOBAL)[producer])[0]
        )
        kept: tuple[float, ReplayResult, Costs] | None = None
        best: float | None = None
        for _ in range(ROUNDS):
            done = replay(steps._replace(**taken(costs, steps.instruction)), self.frame)
            times = np.bincount(steps.instruction, minlength=size) * (
                done.issued / max(len(steps.instruction), 1)
            )
            waited = np.bincount(waits.consumer, weights=done.waits, minlength=size)
            delta = observed - np.divide(waited, times, out=np.zeros(size), where=times > 0)
            all_waits = max(float((observed * times).sum()), 1.0)
            error = float(np.abs(delta * times).sum()) / all_waits
            late = abs(np.log(self._ratio(done)))
            if best is None or error + late < best:
                best, kept = error + late, (error, done, costs.copy())
            self._move(done, waits, delta, all_waits)
        assert kept is not None
        error, before, self.costs = kept
        return before, error

    def _move(self, done: ReplayResult, waits: _Waits, delta: Floats, all_waits: float) -> None:
        """One round: tails within their bounds, then what is left over."""
        costs, gpu, context = self.costs, self.context.gpu, self.context
        size = len(delta)
        # Who was waited for there: by the replay's own waits, or where it had none, all.
        pull, weight = np.zeros(size), np.zeros(size)
        part, owner = (done.waits + 1e-3)[waits.mine], waits.producer[waits.mine]
        np.add.at(weight, owner, part)
        np.add.at(pull, owner, part * delta[waits.consumer[waits.mine]])
        move = np.divide(pull, weight, out=np.zeros(size), where=weight > 0)
        front = gpu.number("mio.front_cycles") + 1
        least, most = (gpu.number(f"{level}.latency_cycles") - front for level in ("l2", "dram"))
        movable = costs.unit == GLOBAL
        loads = movable & np.array([*map(is_load, context.code.instructions), *([False] * len(EXTRA))])
        hits = loads & (costs.tail <= least + 1) & (move < -NEAR_ENOUGH)
        lost = loads & (costs.miss < 1) & (move > NEAR_ENOUGH)
        costs.miss = np.where(hits, costs.miss * MISS_STEP, costs.miss)
        costs.miss = np.where(lost, np.minimum(costs.miss * (1 + MISS_STEP / 2), 1.0), costs.miss)
        queued = movable & (costs.tail >= most - 1) & (move > NEAR_ENOUGH)
        unmet = float((weight * move)[queued].sum()) / all_waits
        busiest = max((context.samples.busy.get(name, 0.0) for name in BEYOND), default=0.0)
        early = not self.time or self._ratio(done) < 1
        if unmet > 0 and early and busiest <= IDLE:
            most = np.inf  # no queue explains it: a longer way than the description has
        self._words(done, unmet > 0 and bool(queued[list(self.atomics)].any()))
        self._traffic()
        costs.tail = np.where(movable & ~lost, np.clip(costs.tail + DAMPING * move, least, most), costs.tail)


def _atomic_weight(gpu: Gpu) -> float:
    """What a sector of atomics takes of L2, or of its slices, over a sector read; a line has four. Half of
    the SMs ask a slice of their own partition as well."""
    if not gpu.has("l2.slice_bytes") or not gpu.number("l2.slice_bytes"):
        return gpu.number("l2.atomic_sector_factor")
    each = gpu.number("l2.slice_atomic_sector_cycles") + gpu.number("l2.slice_atomic_line_cycles") / 4
    if gpu.has("l2.partitions") and gpu.integer("l2.partitions") > 1:
        each += gpu.number("l2.slice_atomic_sector_cycles") / 2
    return each / gpu.number("l2.slice_sector_cycles")

"""A profiled kernel as warps on one SM that can be replayed: what each instruction takes, fitted to samples.

From the code come the order of issue, the stall counts and the scoreboards, from counters how often each
instruction was executed and how busy each resource was, from the GPU's description the pipes and the unloaded
latencies. What remains unknown, how long each access takes beyond its place in the queues (which cache it
hits), is fitted: until the replay waits at each instruction as long as the samples say.

`KernelModel.cycles` then replays the kernel as it is or changed; a ratio of two replays is a speedup.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.sass.effects import access_words
from smlab.models.advisor.code import AdvisedCode
from smlab.models.advisor.costs import FAR_ATOMICS, PIPES, Costs, costs_of
from smlab.models.advisor.matching import Context
from smlab.models.advisor.path import paths_of
from smlab.models.advisor.replay import (
    GLOBAL,
    OPERANDS,
    RESULT,
    WORK,
    Floats,
    Frame,
    ReplayResult,
    Steps,
    replay,
)
from smlab.models.parallelism import resident_blocks

ROUNDS: Final = 8
"""Of the fit."""
DAMPING: Final = 0.8
"""The share of a difference in waiting by which a tail is moved in a round."""
FOUND_IN_L1: Final = 0.4
"""Factor of an access's sectors beyond L1 for each round in which it is waited for less than L2 takes."""
ATOMICS_IN_DRAM: Final = 0.02
"""Sectors of DRAM for each of an atomic's: it is taken to find its words in L2."""
VARIANTS: Final = 8
"""Paths of a block's warps, at most."""
MOST_WAVES: Final = 3
"""Blocks replayed one after the other in each place of an SM, at most."""


@dataclass(frozen=True)
class Track:
    """One path with what each step waits for, ``(earlier step, RESULT or OPERANDS)``, and its stall count."""

    steps: tuple[int, ...]
    waits: tuple[tuple[tuple[int, int], ...], ...]
    stalls: tuple[int, ...]


@dataclass(frozen=True)
class WarpProgram:
    """What the warps of a block execute, in turn."""

    tracks: tuple[Track, ...]


def waits_of(code: AdvisedCode, steps: Sequence[int]) -> tuple[tuple[tuple[int, int], ...], ...]:
    """What each step of a path waits for: what was put on the scoreboards in its wait mask since they were
    last waited for, or without control codes the last writers of what it reads."""
    if not code.has_control_codes:
        return _by_registers(code, steps)
    out: dict[str, list[tuple[int, int]]] = {}
    found = []
    for s, i in enumerate(steps):
        effects = code.effects[i]
        mine: list[tuple[int, int]] = []
        for name in effects.waits:
            mine += out.pop(name, ())
        found.append(tuple(mine))
        if effects.result_on is not None:
            out.setdefault(effects.result_on, []).append((s, RESULT))
        if effects.operands_on is not None:
            out.setdefault(effects.operands_on, []).append((s, OPERANDS))
    return tuple(found)


def _by_registers(code: AdvisedCode, steps: Sequence[int]) -> tuple[tuple[tuple[int, int], ...], ...]:
    writer: dict[str, int] = {}
    found = []
    for s, i in enumerate(steps):
        effects = code.effects[i]
        found.append(tuple({(writer[name], RESULT) for name in effects.reads if name in writer}))
        for name in effects.writes:
            writer[name] = s
    return tuple(found)


class KernelModel:
    """A kernel that can be replayed, from its profile; ``before`` is its replay as it is.

    ``error`` is by how much its waits differ from those of the samples, as a share of them all.

    Raises:
        SmlabError: a description without a constant that the replay needs.
    """

    def __init__(self, context: Context) -> None:
        self.context = context
        self.frame, self.sms = frame_of(context)
        candidates = [_Fit(self, gathered=False)]
        barriers = any(i.opcode == "BAR" for i in context.code.instructions)
        if barriers and len(candidates[0].paths) > 1:
            candidates.append(_Fit(self, gathered=True))
        best = min(candidates, key=lambda fit: fit.mismatch)
        self.paths, self.program, self.costs = best.paths, best.program, best.costs
        self.before, self.error = best.before, best.error

    def passes(self, number: int) -> float:
        """Mean passes of an access through the data stage."""
        row = self.context.rows.get(number)
        return (row.passes if row is not None else None) or 1.0

    def cycles(self, costs: Costs | None = None, program: WarpProgram | None = None) -> int:
        """Cycles of the kernel with other costs, or as another program."""
        return replay(steps_of(program or self.program, costs or self.costs), self.frame).cycles


def steps_of(program: WarpProgram, costs: Costs) -> Steps:
    """All tracks one behind the other, with what each step takes."""
    tracks = program.tracks
    numbers = np.array([i for t in tracks for i in t.steps], dtype=np.int64)
    first = np.cumsum([0, *(len(t.steps) for t in tracks)]).astype(np.int64)
    counts = [len(w) for t in tracks for w in t.waits]
    begins = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    flat = [pair for t in tracks for w in t.waits for pair in w]
    stalls = np.array([x for t in tracks for x in t.stalls], dtype=np.int64)
    pairs = np.array(flat, dtype=np.int64).reshape(-1, 2)
    waited, what = (np.ascontiguousarray(pairs[:, n]) for n in (0, 1))
    return Steps(
        numbers, stalls, **_taken(costs, numbers), first=first, begins=begins, waited=waited, what=what
    )


def _taken(costs: Costs, numbers: Any) -> dict[str, Any]:
    names = ("unit", "pipe", "interval", "latency", "reading", "tail", "work")
    return {name: getattr(costs, name)[numbers] for name in names}


class _Fit:
    """One reading of the paths, with tails moved until the replay waits where the samples say."""

    def __init__(self, model: KernelModel, gathered: bool) -> None:
        self.context, self.sms = model.context, model.sms
        context, frame = self.context, model.frame
        self.costs = costs_of(context)
        blocks = max(1.0, float(context.samples.launch.blocks or 1))
        variants = min(VARIANTS, frame.warps_of_block)
        warps = blocks * frame.warps_of_block
        self.paths = paths_of(context.code, context.executed, warps, variants, gathered)
        stall = self.costs.stall
        self.program = WarpProgram(
            tuple(
                Track(p.steps, waits_of(context.code, p.steps), tuple(stall[list(p.steps)].tolist()))
                for p in self.paths
            )
        )
        self.missing: dict[int, float] = {}
        self._traffic()
        self.before, self.error = self._fitted(frame)
        time = context.samples.launch.cycles
        cut = max(blocks / self.sms / frame.blocks, 1.0)
        self.mismatch = abs(np.log(self.before.cycles * cut / time)) if time else self.error

    def _traffic(self) -> None:
        """Share the busy time of port, L2 and DRAM among global accesses by the sectors that they ask for."""
        context, costs = self.context, self.costs
        time = context.samples.launch.cycles
        weights: dict[int, float] = {}
        for i in np.nonzero(costs.unit == GLOBAL)[0].tolist():
            row = context.rows.get(i)
            if row is not None and context.executed.get(i):
                words = access_words(context.code.instructions[i])
                # Lanes at random on the sectors of their lines.
                places, lanes = 4 * max(row.passes or 1.0, 1.0), (row.lanes or 32.0) * max(1.0, words / 8)
                weights[i] = places * (1 - (1 - 1 / places) ** lanes) * self.missing.get(i, 1.0)
        heavier = {"l2": context.gpu.number("l2.atomic_sector_factor"), "dram": ATOMICS_IN_DRAM}
        for column, name in enumerate(WORK):
            if name not in ("port", "l2", "dram") or not time or not weights:
                continue
            part = {
                i: w * (heavier.get(name, 1.0) if context.code.instructions[i].opcode in FAR_ATOMICS else 1.0)
                for i, w in weights.items()
            }
            total = sum(w * context.executed[i] for i, w in part.items())
            busy = context.samples.busy.get(name, 0.0) * time * self.sms
            for i, w in part.items():
                costs.work[i, column] = busy * w / total if total else 0.0

    def _observed(self) -> Floats:
        """Cycles that an execution of each instruction waits for scoreboards, by the samples."""
        context = self.context
        found = np.zeros(len(context.code) + 1)
        for i, row in context.rows.items():
            waited = sum(row.stalled.get(r, 0) for r in ("long_scoreboard", "short_scoreboard"))
            cycles = context.in_cycles(i, 1.0)
            found[i] = waited / cycles if cycles else 0.0
        return found

    def _fitted(self, frame: Frame) -> tuple[ReplayResult, float]:
        """Move the tails of global accesses; the round that comes nearest is kept."""
        costs, observed = self.costs, self._observed()
        size = len(observed)
        steps = steps_of(self.program, costs)
        counts = np.diff(steps.begins)
        consumer = np.repeat(steps.instruction, counts)
        base = np.repeat(np.repeat(steps.first[:-1], np.diff(steps.first)), counts)
        producer = steps.instruction[base + steps.waited]
        movable = costs.unit == GLOBAL
        mine = movable[producer]
        kept: tuple[float, ReplayResult, Floats, Floats] | None = None
        for _ in range(ROUNDS):
            done = replay(dataclasses.replace(steps, **_taken(costs, steps.instruction)), frame)
            share = done.issued / max(len(steps.instruction), 1)
            times = np.bincount(steps.instruction, minlength=size) * share
            waited = np.bincount(consumer, weights=done.waits, minlength=size)
            delta = observed - np.divide(waited, times, out=np.zeros(size), where=times > 0)
            error = float(np.abs(delta * times).sum() / max((observed * times).sum(), 1.0))
            if kept is None or error < kept[0]:
                kept = error, done, costs.tail.copy(), costs.work.copy()
            # Who was waited for there: by the replay's own waits, or where it had none, all.
            pull, weight = np.zeros(size), np.zeros(size)
            part = done.waits + 1e-3
            np.add.at(weight, producer[mine], part[mine])
            np.add.at(pull, producer[mine], (part * delta[consumer])[mine])
            move = np.divide(pull, weight, out=np.zeros(size), where=weight > 0)
            hits = movable & (costs.tail <= costs.least + 1) & (move < -2)
            if hits.any():  # waited for less than the path down to L2 takes: most of it is found in L1
                for i in np.nonzero(hits)[0].tolist():
                    self.missing[i] = FOUND_IN_L1 * self.missing.get(i, 1.0)
                self._traffic()
            costs.tail = np.where(movable, np.maximum(costs.tail + DAMPING * move, costs.least), costs.tail)
        assert kept is not None
        error, before, costs.tail, costs.work = kept
        return before, error


def frame_of(context: Context) -> tuple[Frame, float]:
    """The SM and what of the launch it runs, and how many SMs have work."""
    gpu, facts = context.gpu, context.samples.launch
    threads = facts.threads_per_block or 256
    sms = facts.sms or gpu.integer("gpu.sms")
    blocks = facts.blocks or sms
    registers, shared = facts.registers_per_thread or 32, facts.shared_bytes_per_block or 0
    run = -(-blocks // sms)
    resident = max(1, min(int(resident_blocks(gpu, threads, registers, shared)), run))
    if run > MOST_WAVES * resident:
        run = (MOST_WAVES - 1) * resident + (run % resident or resident)
    return _frame(gpu, -(-threads // 32), resident, run), min(float(sms), blocks)


def _frame(gpu: Gpu, warps_of_block: int, resident: int, blocks: int) -> Frame:
    return Frame(
        schedulers=gpu.integer("sm.schedulers"),
        pipes=len(PIPES),
        queue_entries=gpu.integer("mio.queue_entries"),
        front=gpu.integer("mio.front_cycles"),
        address_interval=gpu.number("mio.address_interval_cycles"),
        atomic_address_interval=gpu.number("atomic.address_interval_cycles"),
        request_interval=gpu.number("mio.request_interval_cycles"),
        atomic_pipes=gpu.integer("atomic.pipes") if gpu.has("atomic.pipes") else 1,
        atomic_entries=gpu.integer("atomic.queue_entries"),
        barrier_latency=round(gpu.number("sm.barrier_latency_cycles")),
        barrier_interval=gpu.integer("sm.barrier_interval_cycles"),
        launch_cycles=gpu.integer("sm.block_launch_cycles"),
        warps_of_block=warps_of_block,
        resident=resident,
        blocks=blocks,
    )

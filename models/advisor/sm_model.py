"""A profiled kernel as warps on one SM that can be replayed: what each instruction takes, fitted to samples.

From the code come the order of issue, the stall counts and the scoreboards, from counters how often each
instruction was executed and how busy each resource was, from the GPU's description the pipes and the unloaded
latencies. What remains unknown, how long each access takes beyond its place in the queues (which cache it
hits), is fitted: until the replay waits at each instruction as long as the samples say.

`KernelModel.cycles` then replays the kernel as it is or changed; a ratio of two replays is a speedup.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.sass import SassInstruction
from smlab.hw_bench.sass.effects import access_words
from smlab.models.advisor.code import AdvisedCode
from smlab.models.advisor.matching import Context
from smlab.models.advisor.path import Path, paths_of
from smlab.models.advisor.replay import (
    ATOMIC, BARRIER, EXCHANGE, FREE, GLOBAL, OPERANDS, PIPE, RESULT, WORK, Floats, Frame, Ints, Replayed,
    Steps, replay,
)  # fmt: skip
from smlab.models.parallelism import resident_blocks

ROUNDS: Final = 8
"""Of the fit."""
VARIANTS: Final = 8
MOST_WAVES: Final = 3
MOST_WARP_STEPS: Final = 200_000
"""Steps of all warps together; more is cut."""
PIPES: Final = (
    "int32", "fp32", "fp64", "fp16", "sfu", "control", "conversion", "uniform", "vote", "special-register",
    "tensor", "match", "redux",
)  # fmt: skip
_BY_KIND: Final = {
    "fp32": "fp32", "fp64": "fp64", "fp16": "fp16", "tensor": "tensor", "control": "control",
    "uniform": "uniform", "conversion": "conversion",
}  # fmt: skip
_BY_OPCODE: Final = {
    "MUFU": "sfu", "POPC": "sfu", "FLO": "sfu", "BREV": "sfu", "S2R": "special-register",
    "S2UR": "special-register", "VOTE": "vote", "VOTEU": "vote", "MATCH": "match", "REDUX": "redux",
    "CREDUX": "redux", "B2R": "sfu", "I2FP": "conversion", "FSETP": "int32", "FSEL": "int32",
    "FMNMX": "int32", "FCHK": "int32", "BMOV": "control", "DEPBAR": "control", "WARPSYNC": "control",
    "MEMBAR": "control", "ERRBAR": "control", "CCTL": "control", "FENCE": "control", "ULDC": "uniform",
}  # fmt: skip
"""Comparisons, minima and selections of FP32 values take the integer pipe (ALU in Nsight Compute)."""
_MEMORY: Final = ("global", "local")
_FAR: Final = ("RED", "REDG", "ATOM", "ATOMG")
_QUEUED: Final = frozenset(("global", "local", "shared", "shared-atomic", "constant", "exchange"))


@dataclass
class Costs:
    """What each instruction takes, arrays of shape ``(instructions + 1,)``; ``work`` is by `WORK`. The last row
    is an arithmetic instruction that changes may add."""

    stall: Ints
    unit: Ints
    pipe: Ints
    interval: Ints
    latency: Ints
    reading: Ints
    tail: Floats
    least: Floats
    work: Floats

    def copy(self) -> Costs:
        return Costs(*(getattr(self, f.name).copy() for f in dataclasses.fields(self)))


@dataclass(frozen=True)
class Track:
    """One path with what each step waits for, ``(earlier step, RESULT or OPERANDS)``, and its stall count."""

    steps: tuple[int, ...]
    waits: tuple[tuple[tuple[int, int], ...], ...]
    stalls: tuple[int, ...]


@dataclass(frozen=True)
class Program:
    """What the warps of a block execute, in turn."""

    tracks: tuple[Track, ...]


def pipe_of(instruction: SassInstruction, kind: str) -> tuple[str, str]:
    """The pipe that arithmetic takes, and whose timing."""
    if instruction.opcode in ("IMAD", "IMUL"):
        return "fp32", "imad"
    if instruction.never_executed:
        return "control", "control"
    name = _BY_OPCODE.get(instruction.opcode) or _BY_KIND.get(kind, "int32")
    return name, name


def atomic_operation(instruction: SassInstruction) -> str:
    """Whose timing an atomic on shared memory has."""
    if any(m in ("CAS", "CAST") for m in instruction.modifiers):
        return "cas"
    return "popc_inc" if "POPC" in instruction.modifiers else "add"


def atomic_work(gpu: Gpu, instruction: SassInstruction, passes: float) -> tuple[float, float]:
    """Cycles of the data stage and of the atomic unit."""
    base, each = (
        gpu.number(f"atomic.{atomic_operation(instruction)}.{k}_interval_cycles") for k in ("base", "pass")
    )
    stage = gpu.number("atomic.stage_factor") * gpu.number("shared.interval_cycles_per_pass")
    return passes * stage, base + each * passes


def costs_of(context: Context) -> Costs:
    """From description and counters; tails are unloaded ones, of global memory L2's."""
    code, gpu = context.code, context.gpu
    n = len(code) + 1
    whole = lambda: np.zeros(n, dtype=np.int64)  # noqa: E731
    costs = Costs(whole(), whole(), whole(), whole(), whole(), whole(), np.zeros(n), np.zeros(n), np.zeros((n, len(WORK))))
    front = gpu.number("mio.front_cycles")
    for i, instruction in enumerate(code.instructions):
        kind = code.kinds[i]
        costs.stall[i] = code.stalls[i]
        row = context.rows.get(i)
        passes = max(1.0, (row.passes if row is not None else None) or 1.0)
        costs.pipe[i] = -1
        opcode = instruction.opcode
        stores = opcode in ("ST", "STG", "STL", "STS", "RED", "REDG", "ATOM", "ATOMG", "ATOMS")
        if row is not None and row.lanes == 0 and kind in _QUEUED and not instruction.never_executed:
            costs.unit[i] = FREE  # no lane ever takes part: it issues, and goes nowhere
        elif opcode == "BAR":
            costs.unit[i] = BARRIER
        elif not instruction.never_executed and (kind == "shared" or opcode in ("SHFL", "LDC", "LDCU")):
            costs.unit[i] = EXCHANGE
            key = {"SHFL": "mio.shuffle_latency_cycles"}.get(opcode, "shared.store_latency_cycles" if stores else "shared.load_latency_cycles")
            if kind == "constant":
                key = "constant.latency_cycles" if any(o.registers for o in instruction.operands[1:]) else "constant.immediate_latency_cycles"
            stage = 0.0 if kind == "constant" else passes * gpu.number("shared.interval_cycles_per_pass")
            costs.work[i, 0] = stage
            costs.tail[i] = gpu.number(key) - front - min(stage, 1.0)
            costs.reading[i] = gpu.integer("constant.read_cycles") if kind == "constant" else gpu.integer(f"shared.{'store' if stores else 'load'}_read_cycles")
        elif kind == "shared-atomic":
            costs.unit[i] = ATOMIC
            costs.work[i, :2] = atomic_work(gpu, instruction, passes)
            unloaded = gpu.number(f"atomic.{atomic_operation(instruction)}.latency_cycles")
            costs.tail[i] = unloaded - front - atomic_work(gpu, instruction, 1.0)[1]
            costs.reading[i] = gpu.integer("shared.store_read_cycles")
        elif kind in _MEMORY:
            costs.unit[i] = GLOBAL
            costs.work[i, 0] = passes * gpu.number("l1.interval_cycles_per_line")
            costs.least[i] = gpu.number("l1.latency_cycles") - front - 1
            costs.tail[i] = gpu.number("l2.latency_cycles") - front - 1
            costs.reading[i] = gpu.integer(f"l1.{'store' if stores else 'load'}_read_cycles")
        else:
            pipe, timing = pipe_of(instruction, kind)
            costs.pipe[i] = PIPES.index(pipe)
            costs.interval[i] = round(gpu.number(f"pipe.{timing}.interval_cycles"))
            costs.latency[i] = round(gpu.number(f"pipe.{timing}.latency_cycles"))
        if costs.unit[i] in (EXCHANGE, ATOMIC):
            costs.least[i] = costs.tail[i] = max(costs.tail[i], 1.0)
    costs.pipe[-1], costs.interval[-1] = PIPES.index("int32"), round(gpu.number("pipe.int32.interval_cycles"))
    costs.latency[-1] = costs.stall[-1] = round(gpu.number("pipe.int32.latency_cycles"))
    return costs


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
    """A kernel that can be replayed. ``error`` tells how well its waits are met."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.frame, self.sms = _frame(context)
        self.warps = max(1.0, context.samples.launch.blocks or 1) * self.frame.warps_of_block
        self.initial = costs_of(context)
        self._build(False)
        barriers = any(i.opcode == "BAR" for i in context.code.instructions)
        if barriers and len(self.paths) > 1:
            first = dict(self.__dict__)
            self._build(True)
            if self.mismatch > first["mismatch"]:
                self.__dict__.update(first)

    def _build(self, gathered: bool) -> None:
        context = self.context
        variants = min(VARIANTS, self.frame.warps_of_block)
        self.costs = self.initial.copy()
        self.paths = paths_of(context.code, context.executed, self.warps, variants, gathered)
        stall = self.costs.stall
        self.program = Program(
            tuple(
                Track(p.steps, waits_of(context.code, p.steps), tuple(stall[list(p.steps)].tolist()))
                for p in self.paths
            )
        )
        self.steps = self._steps(self.program, self.costs)
        self.missing: dict[int, float] = {}
        self._traffic()
        self.before = self._fitted()
        time = context.samples.launch.cycles
        run = (context.samples.launch.blocks or 1) / self.sms / self.frame.blocks
        self.mismatch = abs(np.log(self.before.cycles * max(run, 1.0) / time)) if time else self.error

    def passes(self, number: int) -> float:
        """Mean passes of an access through the data stage."""
        row = self.context.rows.get(number)
        return (row.passes if row is not None else None) or 1.0

    def cycles(self, costs: Costs | None = None, program: Program | None = None) -> int:
        return replay(self._steps(program or self.program, costs or self.costs), self.frame).cycles

    def _steps(self, program: Program, costs: Costs) -> Steps:
        tracks = program.tracks
        numbers = np.array([i for t in tracks for i in t.steps], dtype=np.int64)
        first = np.cumsum([0, *(len(t.steps) for t in tracks)]).astype(np.int64)
        counts = [len(w) for t in tracks for w in t.waits]
        begins = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        flat = [pair for t in tracks for w in t.waits for pair in w]
        stalls = np.array([x for t in tracks for x in t.stalls], dtype=np.int64)
        pairs = np.array(flat, dtype=np.int64).reshape(-1, 2)
        return Steps(
            numbers, stalls, costs.unit[numbers], costs.pipe[numbers], costs.interval[numbers],
            costs.latency[numbers], costs.reading[numbers], costs.tail[numbers], costs.work[numbers], first,
            begins, np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1]),
        )  # fmt: skip

    def _with(self, costs: Costs) -> Steps:
        n = self.steps.instruction
        return dataclasses.replace(
            self.steps, unit=costs.unit[n], pipe=costs.pipe[n], interval=costs.interval[n],
            latency=costs.latency[n], reading=costs.reading[n], tail=costs.tail[n], work=costs.work[n],
        )  # fmt: skip

    def _traffic(self) -> None:
        """Share the busy time of port, L2 and DRAM among global accesses by the sectors that they ask for."""
        context, costs = self.context, self.costs
        time = context.samples.launch.cycles
        weights: dict[int, float] = {}
        # Atomics are heavier for L2, and are taken to find their words there.
        far = {"l2": context.gpu.number("l2.atomic_sector_factor"), "dram": 0.02}
        for i in np.nonzero(costs.unit == GLOBAL)[0].tolist():
            row = context.rows.get(i)
            if row is None or not context.executed.get(i):
                continue
            words = access_words(context.code.instructions[i])
            places, lanes = 4 * max(row.passes or 1.0, 1.0), (row.lanes or 32.0) * max(1.0, words / 8)
            sectors = places * (1 - (1 - 1 / places) ** lanes)  # lanes at random on the sectors of their lines
            weights[i] = sectors * self.missing.get(i, 1.0)
        for column, name in enumerate(WORK):
            share = context.samples.busy.get(name, 0.0)
            if name not in ("port", "l2", "dram") or not time or not weights:
                continue
            heavy = {
                i: w * (far.get(name, 1.0) if context.code.instructions[i].opcode in _FAR else 1.0)
                for i, w in weights.items()
            }
            total = sum(w * context.executed[i] for i, w in heavy.items())
            for i, w in heavy.items():
                costs.work[i, column] = share * time * self.sms * w / total if total else 0.0

    def _fitted(self) -> Replayed:
        """Move tails until the replay waits where the samples say."""
        context, costs, code = self.context, self.costs, self.context.code
        scale = context.samples_a_cycle
        steps = self.steps
        consumer = np.repeat(steps.instruction, np.diff(steps.begins))
        path_of = np.repeat(np.repeat(steps.first[:-1], np.diff(steps.first)), np.diff(steps.begins))
        producer = steps.instruction[path_of + steps.waited]
        size = len(code) + 1
        observed = np.zeros(size)
        for i, row in context.rows.items():
            waited = sum(row.stalled.get(r, 0) for r in ("long_scoreboard", "short_scoreboard"))
            observed[i] = waited / scale if scale else 0.0
        executed = np.array([context.executed.get(i, 0.0) for i in range(size)])
        observed = np.divide(observed, executed, out=np.zeros_like(observed), where=executed > 0)
        adjustable = np.isin(costs.unit, (GLOBAL,))
        done = replay(self._with(costs), self.frame)
        self.history = [done.cycles]
        best = None
        for k in range(ROUNDS):
            share = done.issued / max(len(steps.instruction), 1)
            times = np.bincount(steps.instruction, minlength=size) * share
            waited = np.bincount(consumer, weights=done.waits, minlength=size)
            mean = np.divide(waited, times, out=np.zeros(size), where=times > 0)
            error = float(np.abs((mean - observed) * times).sum() / max((observed * times).sum(), 1.0))
            self.history.append(round(error, 3))
            if best is None or error < best:
                best, kept, kept_done = error, (costs.tail.copy(), costs.work.copy()), done
            delta = observed - mean
            # Who was waited for there: by the replay's own waits, or where it had none, all.
            pull = np.zeros(size)
            weight = np.zeros(size)
            part = done.waits + 1e-3
            mine = adjustable[producer]
            np.add.at(weight, producer[mine], part[mine])
            np.add.at(pull, producer[mine], (part * delta[consumer])[mine])
            move = np.divide(pull, weight, out=np.zeros(size), where=weight > 0)
            hits = adjustable & (costs.tail <= costs.least + 1) & (move < -2)
            if hits.any():  # waited for less than the path down to L2 takes: most of it is found in L1
                self.missing |= {i: 0.4 * self.missing.get(i, 1.0) for i in np.nonzero(hits)[0].tolist()}
                self._traffic()
            costs.tail = np.where(adjustable, np.maximum(costs.tail + 0.8 * move, costs.least), costs.tail)
            done = replay(self._with(costs), self.frame)
            self.history.append(done.cycles)
        costs.tail, costs.work = kept
        self.error = best
        return kept_done


def _frame(context: Context) -> tuple[Frame, float]:
    gpu, facts = context.gpu, context.samples.launch
    threads = facts.threads_per_block or 256
    per_block = -(-threads // 32)
    sms = facts.sms or gpu.integer("gpu.sms")
    blocks = facts.blocks or sms
    per_sm = -(-blocks // sms)
    fits = int(resident_blocks(gpu, threads, facts.registers_per_thread or 32, facts.shared_bytes_per_block or 0))
    resident = max(1, min(fits, per_sm))
    run = per_sm
    if run > MOST_WAVES * resident:
        run = (MOST_WAVES - 1) * resident + (run % resident or resident)
    return (
        Frame(
            gpu.integer("sm.schedulers"), len(PIPES), gpu.integer("mio.queue_entries"), gpu.integer("mio.front_cycles"),
            gpu.number("mio.address_interval_cycles"), gpu.number("atomic.address_interval_cycles"),
            gpu.number("mio.request_interval_cycles"), gpu.integer("atomic.pipes") if gpu.has("atomic.pipes") else 1,
            gpu.integer("atomic.queue_entries"), round(gpu.number("sm.barrier_latency_cycles")),
            gpu.integer("sm.barrier_interval_cycles"), gpu.integer("sm.block_launch_cycles"), per_block, resident, run,
        ),
        min(float(sms), blocks),
    )  # fmt: skip

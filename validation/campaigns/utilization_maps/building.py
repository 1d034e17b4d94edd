"""The building blocks of the campaign's kernels: grids that fill an SM, gaps between atomics, and the
atomics themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from smlab.sim.address_patterns import Affine, GlobalPattern, Grouped, RandomBytes, RandomWords, SharedPattern
from smlab.sim.machine import TICKS_PER_CYCLE, Machine
from smlab.sim.workloads.workload import Duration, Instruction, Kernel, Loop, Program

Body = tuple[Instruction | Loop, ...]

MIN_JOBS, MAX_JOBS = 150, 10_000
"""Atomic warp-instructions that a kernel does on one SM, about; drawn evenly over the orders of magnitude."""

MAX_WAVES = 4
"""Grids are at most so many times as large as what is resident at a time (waves of blocks)."""


@dataclass(frozen=True)
class LaunchShape:
    """A grid for one SM: ``blocks`` of ``warps`` warps, ``resident`` of them at a time (held to it by
    shared memory)."""

    warps: int
    blocks: int
    resident: int
    shared_bytes: int

    @property
    def resident_warps(self) -> int:
        """Warps on the SM at a time."""
        return self.warps * min(self.resident, self.blocks)


@dataclass(frozen=True)
class Atomics:
    """One kind of atomics: the class of instruction, active lanes, addresses, and the passes that they
    take on average."""

    op: str
    lanes: int
    shared: SharedPattern
    passes: float

    def interval_cycles(self, machine: Machine) -> float:
        """Cycles for which one of them keeps the unit, on average."""
        timing = machine.atomic(self.op.removeprefix("atomic-"))
        return (timing.base_ticks + self.passes * timing.pass_ticks) / TICKS_PER_CYCLE

    def instruction(self, name: str, after: Sequence[str] = (), returns: bool = True) -> Instruction:
        return Instruction(
            self.op, name=name, after=tuple(after), lanes=self.lanes, shared=self.shared, returns=returns
        )


def log_uniform(rng: Generator, low: float, high: float) -> float:
    """A number spread evenly over its orders of magnitude."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def draw_shape(rng: Generator, machine: Machine, waves: bool = True) -> LaunchShape:
    """1 to all of the SM's warps at a time (three times in four at least 8), in blocks of 1 to 32 warps,
    in waves or not."""
    few = rng.random() < 0.25
    resident_warps = log_uniform(rng, 1, 8) if few else log_uniform(rng, 8, machine.max_warps + 0.5)
    warps = min(int(rng.choice([1, 2, 4, 8, 16, 32])), int(resident_warps) or 1)
    resident = max(1, min(machine.max_blocks, round(resident_warps / warps)))
    while resident * warps > machine.max_warps:
        resident -= 1
    unit = machine.shared_unit_bytes
    room = machine.shared_bytes // resident - machine.shared_reserved_bytes_per_block
    shared = min(room // unit * unit, machine.shared_bytes_per_block)
    blocks = resident
    if waves and rng.random() < 0.4:
        blocks = int(np.ceil(resident * rng.uniform(1, MAX_WAVES)))
    return LaunchShape(warps, blocks, resident, shared)


def draw_atomics(rng: Generator, op: str | None = None, random: bool | None = None) -> Atomics:
    """Lanes on a few words (1 to 32 passes, always the same), or a random word of a histogram for each
    lane."""
    if op is None:
        op = "atomic-cas" if rng.random() < 0.15 else "atomic-add"
    if random is None:
        random = rng.random() < 0.4
    if random:
        lanes = int(rng.choice([8, 16, 32, 32, 32]))
        count = int(2 ** rng.integers(0, 10))  # 512 words fit beside 32 blocks
        pattern = RandomWords(count)
        words = pattern.draw(np.random.default_rng(0), 200, lanes)
        return Atomics(op, lanes, pattern, mean_wavefronts(words))
    lanes = int(rng.integers(1, 33))
    divisors = [d for d in range(1, lanes + 1) if lanes % d == 0]
    same = lanes if rng.random() < 0.5 else int(rng.choice(divisors))
    return Atomics(op, lanes, Grouped(same), float(same))


def mean_wavefronts(words: np.ndarray) -> float:
    """The mean over rows of the largest number of lanes that ask one of 32 banks."""
    counts = np.apply_along_axis(lambda row: np.bincount(row % 32, minlength=32).max(), 1, words)
    return float(counts.mean())


def gap(rng: Generator, mean_cycles: float, spread: str, name: str, after: Sequence[str] = ()) -> Body:
    """Thinking of ``mean_cycles``: ``exponential``, ``erlang`` (2 to 8 in a row), ``shifted`` (part fixed)
    or ``fixed``."""
    mean = max(1.0, mean_cycles)
    if spread == "fixed":
        return (_think(mean, "fixed", name, after),)
    if spread == "exponential" or mean < 3:
        return (_think(mean, "exponential", name, after),)
    if spread == "shifted":
        fixed = mean * rng.uniform(0.2, 0.9)
        first = _think(max(1.0, fixed), "fixed", f"{name}-fixed", after)
        return (first, _think(max(1.0, mean - fixed), "exponential", name, (first.name,)))
    stages = int(rng.integers(2, 9))
    body: list[Instruction] = []
    for stage in range(stages):
        needed = (body[-1].name,) if body else tuple(after)
        label = name if stage == stages - 1 else f"{name}-{stage}"
        body.append(_think(max(1.0, mean / stages), "exponential", label, needed))
    return tuple(body)


def _think(mean: float, distribution: str, name: str, after: Sequence[str]) -> Instruction:
    return Instruction("think", name=name, after=tuple(after), duration=Duration(mean, distribution))


def arithmetic(rng: Generator, count: int, name: str, after: Sequence[str] = ()) -> Body:
    """``count`` (up to loops of hundreds) dependent arithmetic instructions; the last one is called
    ``name``."""
    ops = rng.choice(["int32", "fp32", "fp32", "sfu"], size=4).tolist()
    looped, rest = divmod(max(1, count), len(ops))
    body: list[Instruction | Loop] = []
    last = tuple(after)
    if looped > 1:
        chain = []
        for i, op in enumerate(ops):
            chain.append(Instruction(op, name=f"{name}-loop{i}", after=last))
            last = (f"{name}-loop{i}",)
        first = chain[0]
        chain[0] = Instruction(first.op, name=first.name, after=(*first.after, last[0]))
        body.append(Loop(looped, tuple(chain)))
    else:
        rest = max(1, count)
    for i in range(rest):
        body.append(Instruction(ops[i % len(ops)], name=f"{name}-{i}", after=last))
        last = (f"{name}-{i}",)
    body.append(Instruction("int32", name=name, after=last))
    return tuple(body)


def gather(rng: Generator, name: str, after: Sequence[str] = (), lanes: int | None = None) -> Instruction:
    """A load of random words, from a buffer that fits L1, L2 or neither."""
    size = int(2 ** rng.integers(13, 26))
    count = int(rng.choice([1, 4, 32])) if lanes is None else lanes
    return Instruction(
        "global-load", name=name, after=tuple(after), lanes=count, memory=RandomBytes(size // 4 * 4)
    )


def stream(warps: int, name: str, after: Sequence[str] = (), store: bool = False) -> Instruction:
    """A coalesced access, warp after warp through an array; each execution takes the next part of it."""
    memory: GlobalPattern = Affine(
        4, 128, 128 * warps, base_bytes=2**32 if store else 0
    )  # two arrays, far from each other
    return Instruction(
        "global-store" if store else "global-load", name=name, after=tuple(after), memory=memory
    )


def iterations(rng: Generator, shape: LaunchShape, jobs_each: float) -> int:
    """How often each warp repeats its work so that the SM does a drawn number of atomics."""
    wanted = log_uniform(rng, MIN_JOBS, MAX_JOBS)
    return max(1, round(wanted / (shape.blocks * shape.warps * jobs_each)))


def think_cycles(
    rng: Generator, machine: Machine, shape: LaunchShape, atomics: Atomics, jobs_each: float = 1.0
) -> float:
    """A mean time between a warp's atomics for which the unit is asked for 2 % to three times what it can
    do."""
    load = log_uniform(rng, 0.02, 3.0)
    busy = jobs_each * atomics.interval_cycles(machine)
    latency = machine.atomic(atomics.op.removeprefix("atomic-")).latency_cycles
    return max(2.0, shape.resident_warps * busy / load - busy - latency)


def kernel_of(
    name: str, shape: LaunchShape, programs: Sequence[Body], roles: Sequence[int] | None = None
) -> Kernel:
    """The grid of ``shape``: warp i of each block runs program ``roles[i]`` (all run the first without)."""
    named = tuple(Program(f"role-{i}", tuple(body)) for i, body in enumerate(programs))
    row = tuple(roles) if roles is not None else (0,) * shape.warps
    return Kernel(name, named, (row,), shape.blocks, shared_bytes_per_block=shape.shared_bytes)

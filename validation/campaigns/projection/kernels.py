"""Kernels drawn by regime: what each is meant to be limited by. What does limit it, the ceilings say.

The grid, the block and the program of a kernel are the same on both GPUs, as those of a compiled program
are; blocks are drawn in waves of the smaller GPU. Each kernel has a stream of random numbers of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.random import Generator, SeedSequence, default_rng

from smlab.sim.address_patterns import Affine, RandomBytes, Strided
from smlab.sim.machine import Machine
from smlab.sim.workloads.workload import Instruction, Kernel, Loop, Program, blocks_per_sm

WARP_INSTRUCTIONS: Final = 120_000
"""Of one kernel, about; small grids and latency-bound kernels have fewer."""

REUSE: Final = "reuse"
_REUSE_LOADS: Final = 40_000
_MOST_ITERATIONS: Final = 400
_SHARED_BYTES: Final = 8192
_OWN, _OFTEN = 1 << 40, 1 << 41
"""Where the buffers of a warp's own and those that blocks share begin; streams have all addresses below."""

Body = tuple[Instruction, ...]


@dataclass(frozen=True)
class DrawnKernel:
    """A kernel, the regime it was drawn from, and the seed of the random numbers in it. Its ``sms`` are
    set by the GPU."""

    regime: str
    kernel: Kernel
    seed: int


@dataclass(frozen=True)
class Shape:
    """A launch: warps of a block, blocks of the grid, registers of a thread, shared memory of a block."""

    warps: int
    blocks: int
    registers: int
    shared_bytes: int


def _choice(rng: Generator, values: tuple[int, ...]) -> int:
    return values[int(rng.integers(len(values)))]


def _chains(
    rng: Generator, ops: tuple[str, ...], length: int, lanes: tuple[int, ...] = (32,)
) -> list[Instruction]:
    """Arithmetic in one to four chains, each instruction after the one before in its chain, and in the
    loop's last round."""
    chains = int(rng.integers(1, 5))
    length = max(length, chains)
    names = [f"{chain}-{step}" for step in range(-(-length // chains)) for chain in range(chains)][:length]
    last = {chain: [n for n in names if n.startswith(f"{chain}-")][-1] for chain in range(chains)}
    body = []
    for name in names:
        chain, step = (int(part) for part in name.split("-"))
        before = last[chain] if step == 0 else f"{chain}-{step - 1}"
        op = ops[int(rng.integers(len(ops)))]
        body.append(Instruction(op, name, (before,), lanes=_choice(rng, lanes)))
    return body


def _single(rng: Generator, machine: Machine, shape: Shape) -> Body:
    """FP32 only, from all multiply-adds to none of them."""
    ops: tuple[str, ...] = ("fp32",) * int(rng.integers(0, 4)) + ("fp32-add", "fp32-mul")
    return tuple(_chains(rng, ops if rng.random() < 0.7 else ("fp32",), int(rng.integers(4, 17))))


def _double(rng: Generator, machine: Machine, shape: Shape) -> Body:
    ops: tuple[str, ...] = ("fp64",) * int(rng.integers(1, 4)) + ("fp64-add", "fp64-mul")
    return tuple(_chains(rng, ops, int(rng.integers(4, 17))))


def _mix(rng: Generator, machine: Machine, shape: Shape) -> Body:
    """Precisions, integers and special functions side by side, some with few active lanes.

    A quarter has full floating-point instructions and integer ones of few lanes, as where a few threads work
    out addresses.
    """
    if rng.random() < 0.25:
        steps = _chains(rng, ("fp32",), int(rng.integers(4, 9)))
        few = (Instruction("int32", lanes=_choice(rng, (1, 2, 4, 8))) for _ in steps)
        return tuple(i for pair in zip(steps, few, strict=True) for i in pair)
    ops = ("fp32", "fp32", "fp32-add", "fp64", "fp16", "int32", "int32", "sfu", "control")
    lanes = ((32,), (8, 32), (1, 4, 16, 32))[int(rng.integers(3))]
    return tuple(_chains(rng, ops, int(rng.integers(8, 25)), lanes))


def _loads(rng: Generator, loads: list[Instruction], work: int) -> Body:
    """Loads, then arithmetic that needs the last of them."""
    ops = ("fp32", "fp32-add", "int32")
    after = tuple(i.name for i in loads if i.name)[-1:]
    body = [*loads]
    for step in range(work):
        before = (f"w{step - 1}",) if step else after
        body.append(Instruction(ops[int(rng.integers(len(ops)))], f"w{step}", before))
    return tuple(body)


def _l1(rng: Generator, machine: Machine, shape: Shape) -> Body:
    """Each warp reads a few lines of its own again and again; a third reads them with a stride."""
    lane_stride = _choice(rng, (4, 4, 8, 16))
    lines = int(rng.integers(2, 6))
    size = 32 * lane_stride
    loads = [
        Instruction("global-load", f"x{n}", memory=Affine(lane_stride, size * lines, 0, _OWN + n * size))
        for n in range(lines)
    ]
    return _loads(rng, loads, int(rng.integers(0, 4)))


def _l2(rng: Generator, machine: Machine, shape: Shape) -> Body:
    """Blocks read what their neighbours, on other SMs, have read before; or words of a buffer that only L2
    holds."""
    if rng.random() < 0.3:
        memory: Affine | RandomBytes = RandomBytes(int(rng.uniform(0.4, 1.2) * 8192) * 128, _OFTEN)
    else:
        memory = Affine(4, 128, 128 * shape.warps, _OFTEN)
    loads = [Instruction("global-load", f"x{n}", memory=memory) for n in range(int(rng.integers(1, 3)))]
    return _loads(rng, loads[:1] if isinstance(memory, RandomBytes) else loads, int(rng.integers(0, 4)))


def _dram(rng: Generator, machine: Machine, shape: Shape) -> Body:
    """Streams: one to three arrays read, none or one written, some with a stride."""
    lane_stride = _choice(rng, (4, 4, 4, 8, 32))
    warps = shape.warps * shape.blocks
    size = 32 * lane_stride

    def stream(number: int) -> Affine:
        return Affine(lane_stride, size, size * warps, number << 34)

    loads = [Instruction("global-load", f"x{n}", memory=stream(n)) for n in range(int(rng.integers(1, 4)))]
    body = _loads(rng, loads, int(rng.integers(1, 5)))
    if rng.random() < 0.6:
        body += (Instruction("global-store", after=(body[-1].name,), memory=stream(7)),)
    return body


def _shared(rng: Generator, machine: Machine, shape: Shape) -> Body:
    """Shared memory with and without bank conflicts."""
    body: list[Instruction] = []
    for n in range(int(rng.integers(2, 6))):
        pattern = Strided(_choice(rng, (1, 1, 2, 4, 3, 8, 16, 32)))
        op = "shared-store" if rng.random() < 0.3 else "shared-load"
        body.append(
            Instruction(
                op, f"s{n}", shared=pattern, lanes=_choice(rng, (16, 32, 32)), returns=op != "shared-store"
            )
        )
    loads = [i for i in body if i.op == "shared-load"]
    work = _chains(rng, ("fp32", "int32"), int(rng.integers(1, 5)))
    if loads:
        first = work[0]
        work[0] = Instruction(first.op, first.name, (*first.after, loads[-1].name))
    return (*body, *work)


def _latency(rng: Generator, machine: Machine, shape: Shape) -> Body:
    """One long dependence: each load's address from the load before, or arithmetic, or a barrier after
    each step."""
    kind = int(rng.integers(4))
    if kind == 0:
        return (
            Instruction("global-load", "x", ("x",), memory=Affine(4, 128, 128 * shape.warps * shape.blocks)),
        )
    if kind == 1:
        return (
            Instruction("global-load", "x", ("x",), memory=Affine(4, 128)),
            Instruction("fp32", "y", ("x",)),
        )
    if kind == 2:
        return (Instruction("sfu", "x", ("x",)), Instruction("fp64", "y", ("x", "y")))
    return (
        Instruction("shared-load", "x", shared=Strided(1)),
        Instruction("fp32", "y", ("x",)),
        Instruction("barrier", after=("y",)),
    )


def _mixed(rng: Generator, machine: Machine, shape: Shape) -> Body:
    """Some of everything, with a barrier now and then."""
    makers = (_single, _mix, _l1, _dram, _shared)
    chosen = rng.choice(len(makers), size=int(rng.integers(2, 4)), replace=False).tolist()
    body: list[Instruction] = []
    for number, maker in enumerate(chosen):
        renamed = {}
        part = makers[maker](rng, machine, shape)[:10]
        for instruction in part:
            renamed[instruction.name] = f"{number}.{instruction.name}"
        body += [_renamed(i, renamed) for i in part]
    if rng.random() < 0.3:
        body.append(Instruction("barrier"))
    return tuple(body)


def _renamed(i: Instruction, names: dict[str, str]) -> Instruction:
    after = tuple(names[a] for a in i.after if a in names)
    return Instruction(i.op, names[i.name] if i.name else "", after, i.lanes, i.shared, i.memory, i.returns)


def _small(rng: Generator, machine: Machine, shape: Shape) -> Body:
    makers = (_single, _double, _dram, _l1, _shared, _l2)
    return makers[int(rng.integers(len(makers)))](rng, machine, shape)


REGIMES: Final[dict[str, Callable[[Generator, Machine, Shape], Body]]] = {
    "FP32": _single,
    "FP64": _double,
    "mixed precisions": _mix,
    "L1": _l1,
    "L2": _l2,
    "DRAM": _dram,
    "shared memory": _shared,
    "latency": _latency,
    "small grid": _small,
    "mixed": _mixed,
}
"""What kernels are drawn to be limited by, and the makers of their loops' bodies."""


def _shape(rng: Generator, machine: Machine, regime: str) -> Shape:
    """A launch that fits the machine; ``machine`` is the smaller of the two GPUs."""
    if regime == "small grid":
        warps = _choice(rng, (2, 4, 8, 16, 32))
        return Shape(warps, int(rng.integers(1, machine.sms + 1)), 32, _SHARED_BYTES)
    if regime == "latency":
        warps = _choice(rng, (1, 1, 2, 4))
        return Shape(warps, machine.sms * int(rng.integers(1, 4)), 32, _SHARED_BYTES)
    warps = _choice(rng, (2, 4, 8, 8, 16, 32))
    registers = _choice(rng, (24, 32, 32, 40, 64, 96))
    registers = min(registers, 64) if warps == 32 else registers
    shared = _choice(rng, (_SHARED_BYTES, _SHARED_BYTES, 24576, 49152))
    probe = Kernel("probe", (Program("p", (Instruction("int32"),)),), ((0,) * warps,), 1, shared, registers)
    room = blocks_per_sm(probe, machine) * machine.sms
    waves = 2.0 ** rng.uniform(-1.5, 2.0)
    return Shape(warps, max(2 * machine.sms, round(waves * room)), registers, shared)


def draw(regime: str, number: int, seed: int, machine: Machine) -> DrawnKernel:
    """Kernel ``number`` of a regime: always the same for one seed and machine, whatever else is drawn."""
    key = (list(REGIMES).index(regime), number)
    rng = default_rng(SeedSequence(entropy=seed, spawn_key=key))
    shape = _shape(rng, machine, regime)
    body = REGIMES[regime](rng, machine, shape)
    warps = shape.warps * shape.blocks
    wanted = WARP_INSTRUCTIONS // 8 if regime in ("small grid", "latency") else WARP_INSTRUCTIONS
    if any(isinstance(i.memory, RandomBytes) for i in body):
        wanted //= 8  # each lane's address is drawn
    if any(i.op.startswith("global") for i in body):
        wanted //= 2
    if any(isinstance(i.memory, Affine) and i.memory.lane_stride_bytes > 8 for i in body):
        wanted //= 2  # many sectors each
    iterations = min(_MOST_ITERATIONS, max(4, wanted // (warps * len(body))))
    return _looped(regime, number, shape, iterations, body, rng)


def _looped(
    regime: str, number: int, shape: Shape, iterations: int, body: Body, rng: Generator
) -> DrawnKernel:
    """The kernel whose warps all repeat one body."""
    kernel = Kernel(
        name=f"{regime} {number}",
        programs=(Program("p", (Loop(iterations, body),)),),
        roles=((0,) * shape.warps,),
        blocks=shape.blocks,
        shared_bytes_per_block=shape.shared_bytes,
        registers_per_thread=shape.registers,
    )
    return DrawnKernel(regime, kernel, int(rng.integers(2**32)))


def draw_reuse(number: int, seed: int, machine: Machine) -> DrawnKernel:
    """Kernel ``number`` of those that come back to one buffer in random order, a third of a megabyte to 20.

    They judge what L2's capacity does and are no part of `REGIMES`: some 40,000 loads of 32 lanes, several
    for each sector of most buffers.
    """
    rng = default_rng(SeedSequence(entropy=seed, spawn_key=(len(REGIMES), number)))
    shape = _shape(rng, machine, "L2")
    buffer_bytes = int(1e6 * 2.0 ** rng.uniform(-1.5, 4.5)) // 128 * 128
    load = Instruction("global-load", "x", memory=RandomBytes(buffer_bytes, _OFTEN))
    body = _loads(rng, [load], int(rng.integers(0, 4)))
    iterations = max(4, _REUSE_LOADS // (shape.warps * shape.blocks))
    return _looped(REUSE, number, shape, iterations, body, rng)


def working_set_bytes(kernel: Kernel) -> float:
    """Bytes of global memory that the whole grid touches, whole sectors each; buffers of random addresses
    count whole.

    For kernels of one program as drawn here: patterns that are not equal do not overlap, and a warp's lanes
    leave no sector between them out.
    """
    patterns = {i.memory: n for i, n in kernel.programs[0].instructions() if i.op.startswith("global")}
    warps = np.arange(kernel.blocks * kernel.warps_per_block, dtype=np.int64)
    total = 0
    for memory, times in patterns.items():
        if isinstance(memory, RandomBytes):
            total += memory.buffer_bytes
            continue
        assert isinstance(memory, Affine)
        rounds = np.arange(times, dtype=np.int64) * memory.iteration_stride_bytes
        starts = np.unique(warps[:, None] * memory.warp_stride_bytes + rounds[None, :])
        total += len(starts) * 32 * memory.lane_stride_bytes
    return float(total)

"""Spaces of kernels that the simulator runs on simulated GPUs: pairs whose order no formula of ours made.

A kernel multiplies what its threads load: each has a tile of outputs and loads for them either through L1 or
through shared memory, with or without padding against bank conflicts, in one or several chains. All
configurations do the same multiply-adds in all.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.sim.lowering import lower
from smlab.sim.machine import machine_from
from smlab.sim.patterns import Affine, Strided
from smlab.sim.reference import Record
from smlab.sim.simulate import ENGINES
from smlab.sim.workload import Instruction, Kernel, Loop, Program
from smlab.validation.portability.search_pairs import SearchPair
from smlab.validation.projection.simulated.gpus import PART, part_of

GPUS: Final = ("v100", "a100-40", "rtx-2080-ti", "rtx-a4000", "a6000", "h100-sxm")
"""GPUs whose SMs a quarter divides evenly."""

OUTPUTS: Final = 2048
"""Warps' worth of outputs in all."""

_SPACE: Final = {
    "warps": (1, 2, 4, 8, 16),
    "tile": (1, 2, 4, 8, 16),
    "chains": (1, 2, 4),
    "shared": (0, 1),
    "padded": (0, 1),
}


@dataclass(frozen=True)
class TiledProgram:
    """What differs from one kernel to the next: steps of its loop, multiply-adds and loads of a step for one
    output, ways of its bank conflicts without padding, registers."""

    steps: int
    flops: int
    stride_bytes: int
    ways: int
    registers: int


KERNELS: Final = (
    TiledProgram(steps=4, flops=1, stride_bytes=4, ways=2, registers=24),
    TiledProgram(steps=4, flops=3, stride_bytes=4, ways=8, registers=32),
    TiledProgram(steps=6, flops=2, stride_bytes=16, ways=4, registers=20),
)


def configurations() -> list[tuple[int, ...]]:
    """All configurations; padding without shared memory is none."""
    return [c for c in itertools.product(*_SPACE.values()) if c[3] or not c[4]]


def kernel_of(program: TiledProgram, config: Sequence[int]) -> Kernel:
    """The workload of one configuration; its SMs are set by the GPU."""
    warps, tile, chains, shared, padded = config
    blocks = -(-OUTPUTS // (warps * tile))
    body: list[Instruction] = []
    own = Affine(program.stride_bytes, 32 * program.stride_bytes, 32 * program.stride_bytes * warps * blocks)
    near = Affine(4, 128, 128, 1 << 40)
    body.append(Instruction("global-load", "own", memory=own))
    loads = 1 + tile // 2
    if shared:
        body += [Instruction("shared-store", after=("own",), returns=False), Instruction("barrier")]
        ways = Strided(1 if padded else program.ways)
        body += [Instruction("shared-load", f"x{n}", shared=ways) for n in range(loads)]
    else:
        body += [Instruction("global-load", f"x{n}", memory=near) for n in range(loads)]
    last: dict[int, str] = {}
    for n in range(program.flops * tile):
        chain = n % min(chains, program.flops * tile)
        after = (f"x{n % loads}", "own") if chain not in last else (last[chain],)
        body.append(Instruction("fp32", f"f{n}", after))
        last[chain] = f"f{n}"
    store = Instruction("global-store", after=tuple(last.values()), memory=own)
    return Kernel(
        name="tiled",
        programs=(Program("p", (Loop(program.steps, tuple(body)), store)),),
        roles=((0,) * warps,),
        blocks=blocks,
        shared_bytes_per_block=1024 * warps * (1 + shared * loads) if shared else 0,
        registers_per_thread=program.registers + 5 * tile + 2 * chains,
    )


def seconds_on(program: TiledProgram, gpu_name: str) -> list[float]:
    """Seconds of every configuration on a quarter of a GPU, infinite where it does not fit."""
    machine = machine_from(part_of(load_gpu(gpu_name), PART))
    found = []
    for config in configurations():
        kernel = kernel_of(program, config)
        try:
            result = ENGINES["compiled"](
                lower(replace(kernel, sms=machine.sms), machine, 0), Record.TOTALS, None, None
            )
        except SmlabError:
            found.append(float("inf"))
            continue
        found.append(float(result.cycles) / float(load_gpu(gpu_name).number("clock.sm_hz")))
    return found


def simulated_pairs() -> list[SearchPair]:
    """Every kernel on every ordered pair of `GPUS`."""
    found = []
    for number, program in enumerate(KERNELS):
        seconds = {name: np.array(seconds_on(program, name)) for name in GPUS}
        for old, new in itertools.permutations(GPUS, 2):
            rows = np.flatnonzero(np.isfinite(seconds[old]))
            config = tuple(configurations()[row] for row in rows.tolist())
            name = f"{old} to {new}, simulated kernel {number}"
            found.append(SearchPair(name, "simulated", seconds[old][rows], seconds[new][rows], config))
    return found

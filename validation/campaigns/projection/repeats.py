"""Streams that are run again and again on simulated GPUs: what L2 keeps of one run for the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.models.operators import OperatorSwitches, OperatorWork, project_operators
from smlab.models.operators.tiles import Shapes
from smlab.models.operators.work import Floats
from smlab.sim.address_patterns import Affine
from smlab.sim.reference import Record
from smlab.sim.simulate import simulate
from smlab.sim.workloads.workload import Instruction, Kernel, Loop, Program

WARPS: Final = 32
"""Of the one block on each SM."""
SHARES: Final = (0.2, 0.35, 0.5, 0.7, 0.9, 1.2, 2.0, 4.0)
"""Sizes of what a run touches, over the L2 of each of the GPUs."""


@dataclass(frozen=True, eq=False)
class RepeatedStreams:
    """Seconds of one of many runs on each of two GPUs, (2, streams), and the bytes that a run touches,
    (streams,)."""

    seconds: Floats
    touched_bytes: Floats


def repeated_streams(gpus: Sequence[Gpu], shares: Sequence[float] = SHARES) -> RepeatedStreams:
    """c = a + b of several sizes, the second run behind a first one."""
    wanted = np.sort([share * gpu.number("l2.bytes") for gpu in gpus for share in shares])
    rounds = [_rounds(gpu, wanted) for gpu in gpus]
    a_round = 3.0 * 128 * WARPS * gpus[0].integer("gpu.sms")
    touched = a_round * np.array(rounds[0])
    seconds = [[_second_run_s(gpu, int(n)) for n in mine] for gpu, mine in zip(gpus, rounds, strict=True)]
    return RepeatedStreams(np.array(seconds), touched)


def _rounds(gpu: Gpu, touched: Floats) -> list[int]:
    """Rounds in which all warps of ``gpu`` go through so many bytes."""
    a_round = 3.0 * 128 * WARPS * gpu.integer("gpu.sms")
    return [max(round(float(size) / a_round), 1) for size in touched]


def _second_run_s(gpu: Gpu, rounds: int) -> float:
    sms = gpu.integer("gpu.sms")
    size = 128 * WARPS * sms

    def stream(array: int, run: int) -> Affine:
        # What an SM has read another reads in the next run: a launch finds nothing in L1.
        return Affine(4, 128, size, (array << 34) + 128 * WARPS * run)

    def run(number: int) -> Loop:
        a, b, c = (f"{name}{number}" for name in "abc")
        loads = (Instruction("global-load", x, memory=stream(n, number)) for n, x in enumerate((a, b)))
        add = Instruction("fp32", c, after=(a, b))
        return Loop(rounds, (*loads, add, Instruction("global-store", after=(c,), memory=stream(2, number))))

    def cycles(runs: int) -> int:
        program = Program("p", tuple(run(number) for number in range(runs)))
        kernel = Kernel("stream", (program,), ((0,) * WARPS,), sms, sms=sms)
        return simulate(kernel, gpu, keep=Record.TOTALS).cycles

    return (cycles(3) - cycles(1)) / 2 / gpu.number("clock.sm_hz")


def projected_streams(
    streams: RepeatedStreams, source: int, gpus: Sequence[Gpu], switches: OperatorSwitches
) -> Floats:
    """Each stream's time on the other GPU than ``source``, (streams,)."""
    n = len(streams.touched_bytes)
    zero, none = np.zeros(n), np.zeros(n, dtype=np.int64)
    work = OperatorWork(
        operator=np.array(["elementwise"] * n, dtype=object),
        flops=zero,
        once_bytes=streams.touched_bytes,
        again_bytes=zero,
        values=zero,
        row_bytes=zero,
        passes=np.full(n, 4.0),
        blocks=none,
        threads_per_block=none,
        shapes=Shapes(zero, zero, zero, zero),
        tile=np.full(n, "", dtype=object),
        launch_s=zero,
    )
    return project_operators(work, streams.seconds[source], gpus[source], gpus[1 - source], switches).mid_s

"""Coyne's bank-conflict kernel (Section 5.4, Table 5.3) on simulated GPUs: the same code on a V100 and on
an A100."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.sim import Instruction, Kernel, Loop, Program, Record, SimResult, simulate
from smlab.sim.patterns import Grouped
from smlab.validation.papers.claims.published import GridTable, grid_table
from smlab.validation.papers.claims.registry import Observed, quantity
from smlab.validation.papers.judging import Scale

THREADS, REPETITIONS = 256, 32
OLD, NEW = "v100", "a100-40"
"""The A100 of the 40 GB card: SM, caches and clock are those of the 80 GB card."""

STALLS = ("mio_throttle", "short_scoreboard")


def conflict_kernel(ways: int, blocks: int, sms: int) -> Kernel:
    """Listing 5.4: each thread adds its number to 32 elements of shared memory, ``ways`` words of one bank
    at a time."""
    if ways not in (1, 2, 4, 8, 16, 32):
        raise SmlabError.at("ways", "no such conflict", ways, "a power of two up to 32")
    pattern = Grouped(1, ways)
    body = (
        Instruction("shared-load", name="old", shared=pattern),
        Instruction("int32", name="sum", after=("old",)),
        Instruction("shared-store", after=("sum",), shared=pattern),
    )
    program = Program("add", (Loop(REPETITIONS, body),))
    return Kernel(f"bank-{ways}", (program,), ((0,) * (THREADS // 32),), blocks, 4 * THREADS * ways, sms=sms)


@functools.cache
def _run(gpu: str, ways: int, blocks: int) -> SimResult:
    description = load_gpu(gpu)
    sms = description.integer("gpu.sms")
    return simulate(conflict_kernel(ways, blocks, sms), description, keep=Record.TOTALS)


def _seconds(gpu: str, ways: int, blocks: int) -> float:
    return _run(gpu, ways, blocks).cycles / load_gpu(gpu).number("clock.sm_hz")


def _differences(ways: int) -> tuple[NDArray[np.float64], GridTable]:
    """Simulated differences of run time in %, at the grid sizes of the table."""
    table = grid_table(f"bank-{ways}")
    found = [100 * (_seconds(NEW, ways, b) / _seconds(OLD, ways, b) - 1) for b in table.blocks]
    return np.array(found), table


@quantity(
    "portability.simulated_difference_error",
    unit="points",
    evidence="simulated",
    scale=Scale.ERROR,
    quick=False,
)
def simulated_difference_error(ways: int) -> Observed:
    """Mean absolute distance of the simulated from the printed steady difference of run time, over the
    grid sizes."""
    simulated, table = _differences(ways)
    words = ", ".join(
        f"{b}: {s:+.0f} for {p:+.0f}" for b, s, p in zip(table.blocks, simulated, table.steady, strict=True)
    )
    return Observed.exactly(np.abs(simulated - np.array(table.steady)).mean(), words)


@quantity("portability.simulated_signs", unit="%", evidence="simulated", scale=Scale.SHARE, quick=False)
def simulated_signs(ways: int) -> Observed:
    """Of the grid sizes where the printed steady difference exceeds 5 %, the share with the same sign in
    the simulation."""
    simulated, table = _differences(ways)
    printed = np.array(table.steady)
    clear = np.abs(printed) > 5
    if not clear.any():
        raise SmlabError.at(table.title, "no clear difference")
    same = np.sign(simulated[clear]) == np.sign(printed[clear])
    return Observed.exactly(100 * same.mean(), f"{int(same.sum())} of {len(same)} grid sizes")


@quantity(
    "portability.simulated_stall_ratio", unit="times", evidence="simulated", scale=Scale.RATIO, quick=False
)
def simulated_stall_ratio(ways: int, blocks: int) -> Observed:
    """Warp-cycles stalled on shared memory per warp-instruction, A100 over V100."""
    stalled = []
    for gpu in (OLD, NEW):
        result = _run(gpu, ways, blocks)
        stalled.append(sum(result.stalls[s] for s in STALLS) / result.warp_instructions)
    return Observed.exactly(
        stalled[1] / stalled[0], f"{stalled[0]:.0f} and {stalled[1]:.0f} cycles an instruction"
    )

"""Coyne's kernels (Tables 5.1 to 5.5) on a simulated V100 and A100: their machine code, as the benchmark
``portability`` launches it. Stalls are of the bank-conflict kernel as a workload."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.sim import Instruction, Kernel, Loop, Program, Record, SimResult, simulate
from smlab.sim.address_patterns import Grouped
from smlab.validation.papers.claims.executed_grids import executed_grids
from smlab.validation.papers.claims.published import GridTable, grid_table
from smlab.validation.papers.claims.quantities.portability_tables import share_of_tail
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


def _differences(grid: str) -> tuple[NDArray[np.float64], GridTable]:
    """Differences of run time in % at equal clocks, by machine code, at the grid sizes of the table."""
    table = grid_table(grid)
    return 100 * (executed_grids(grid).ratio(table.blocks) - 1), table


@quantity("portability.simulated_difference_error", unit="points", evidence="simulated", scale=Scale.ERROR)
def simulated_difference_error(grid: str) -> Observed:
    """Mean absolute distance of the simulated from the printed steady difference of run time, over the
    grid sizes."""
    simulated, table = _differences(grid)
    words = ", ".join(
        f"{b}: {s:+.0f} for {p:+.0f}" for b, s, p in zip(table.blocks, simulated, table.steady, strict=True)
    )
    return Observed.exactly(np.abs(simulated - np.array(table.steady)).mean(), words)


@quantity("portability.simulated_ratio_error", unit="%", evidence="simulated", scale=Scale.ERROR)
def simulated_ratio_error(grid: str) -> Observed:
    """MAPE of the simulated ratio of run times, A100 over V100, at equal clocks."""
    simulated, table = _differences(grid)
    printed = 1 + np.array(table.steady) / 100
    constants = np.linspace(0.4, 1.2, 801)
    best = float(100 * np.abs(constants[:, None] / printed - 1).mean(axis=1).min())
    error = float(100 * np.abs((1 + simulated / 100) / printed - 1).mean())
    return Observed.exactly(error, f"the best constant is off by {best:.1f} %")


@quantity("portability.simulated_jump_by_tail", unit="", evidence="simulated", scale=Scale.RATIO)
def simulated_jump_by_tail(grid: str, before: int, after: int) -> Observed:
    """Of the jump of the simulated ratio from one grid size to the next, the part that `smlab port` puts down
    to the tail."""
    return share_of_tail([before, after], np.log(executed_grids(grid).ratio((before, after))))


@quantity("portability.simulated_signs", unit="%", evidence="simulated", scale=Scale.SHARE)
def simulated_signs(grid: str) -> Observed:
    """Of the grid sizes where the printed steady difference exceeds 5 %, the share with the same sign in
    the simulation."""
    simulated, table = _differences(grid)
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

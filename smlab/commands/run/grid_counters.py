"""The counters of a run as of its whole grid, and the rates that they make with its time."""

from __future__ import annotations

import math
from typing import Final

from smlab.hw_bench.profiles.counter_table import WHOLE_GPU, CounterTable
from smlab.sim import counter_table
from smlab.sim.counters import WholeGrid
from smlab.sim.execution.run import TimedRun

OPERATIONS: Final = {"add": 1, "mul": 1, "fma": 2}
"""Floating-point operations that a lane does in one instruction."""
_RATES: Final = {
    "warp_instructions_per_s": "smsp__inst_executed.sum",
    "l1_bytes_per_s": "l1tex__t_bytes.sum",
    "l2_bytes_per_s": "lts__t_bytes.sum",
    "dram_bytes_per_s": "dram__bytes.sum",
}


def grid_counters(done: TimedRun) -> CounterTable:
    """The counters of a run; those of a sample are scaled to the grid that it stands for."""
    grid = None
    if not done.whole:
        grid = WholeGrid(done.blocks, min(done.blocks, done.lowered.machine.sms), done.cycles)
    return counter_table(done.result, grid=grid)


def rates(done: TimedRun, seconds: float) -> dict[str, float]:
    """What the whole grid does a second. ``flops_per_s`` counts no tensor cores: it is not a number where
    they work."""
    counted = {row.counter: row.value for row in grid_counters(done).rows() if row.sm == WHOLE_GPU}
    flops = sum(
        times * counted[f"smsp__sass_thread_inst_executed_op_{letter}{operation}_pred_on.sum"]
        for letter in "hfd"
        for operation, times in OPERATIONS.items()
    )
    if any("MMA" in i.opcode for i in done.instructions if i.executed):
        flops = math.nan
    found = {name: counted[counter] / seconds for name, counter in _RATES.items()}
    return {**found, "flops_per_s": flops / seconds}

"""``--sms auto``: more and more SMs, until the time that they tell stands still."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Final

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.sim.execution.functional_warming import Neighbours
from smlab.sim.execution.run import DEPENDENT, SAMPLES, MachineRun, run_machine_code
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.sim.isa.memory.global_memory import ContentsBefore

AUTO: Final = "auto"
SMALL_GRID: Final = 10_000_000
"""Warp-instructions of a grid that simply runs whole: a few seconds. So does one of no more blocks than SMs,
which have more than their share of the bandwidth then."""
STEADY: Final = 0.03
"""How far the times of two successive numbers of SMs may be from each other, as a part of the later one."""


@dataclass(frozen=True)
class Attempt:
    """The cycles that a number of SMs told, with their 95 % interval."""

    sms: int
    cycles: float
    cycles_low: float
    cycles_high: float

    def agrees_with(self, other: Attempt) -> bool:
        """Whether the intervals overlap and the cycles are nearly the same."""
        overlap = self.cycles_low <= other.cycles_high and other.cycles_low <= self.cycles_high
        return overlap and self.differs_from(other) < STEADY

    def differs_from(self, other: Attempt) -> float:
        return abs(other.cycles / self.cycles - 1)


@dataclass(frozen=True, repr=False)
class SteadyRun(MachineRun):
    """A run on as many SMs as it took: ``attempts``, the last of which this is, and ``why`` it ended."""

    attempts: tuple[Attempt, ...] = dataclasses.field(kw_only=True)
    why: str = dataclasses.field(kw_only=True)


def run_until_steady(launch: MachineLaunch, gpu: Gpu, **how: Any) -> SteadyRun:
    """Run a launch on 1, 2, 4 and so on of the GPU's SMs until its time stands still, at most whole; a small
    grid whole at once. ``how`` is what `run_machine_code` takes besides ``sms``.

    Raises:
        SmlabError: what `run_machine_code` says; a recording, which is of a whole grid.
    """
    if how.get("recording") is not None:
        raise SmlabError.at("sms", "a part of the grid is no recording of the kernel", AUTO, "all")
    all_sms = gpu.integer("gpu.sms")
    whole = ""
    if launch.blocks <= all_sms or _grid_instructions(launch, gpu) <= SMALL_GRID:
        whole = "the grid is small, and runs whole"
    if whole:
        return _ended(run_machine_code(launch, gpu, sms="all", **how), [], whole)
    before = ContentsBefore(launch.allocations)
    attempts: list[Attempt] = []
    count = launch.cluster_blocks
    while count < all_sms:
        run = run_machine_code(launch, gpu, sms=count, **how)
        attempts.append(_attempt(run))
        if any(note.startswith(DEPENDENT) for note in run.notes):
            return _ended(run, attempts[:-1], "blocks depend on each other, so that more SMs tell no better")
        if len(attempts) > 1 and attempts[-1].agrees_with(attempts[-2]):
            percent = 100 * attempts[-1].differs_from(attempts[-2])
            earlier = attempts[-2].sms
            return _ended(run, attempts[:-1], f"within {percent:.1f} % of the time by {earlier}")
        before.go_back()
        count *= 2
        if 2 * SAMPLES * run.blocks_simulated >= run.blocks:
            why = f"the samples of {count} would be as many blocks"
            break
        del run  # a recording is large, and the next one takes its place
    else:
        why = "no two times were near enough"
    return _ended(run_machine_code(launch, gpu, sms="all", **how), attempts, f"the grid runs whole: {why}")


def _grid_instructions(launch: MachineLaunch, gpu: Gpu) -> int:
    """Of warps, in all blocks, as the middle block has them; a block that waits for others counts as many."""
    neighbours = Neighbours(launch, gpu.integer("l1.sector_bytes"))
    return launch.blocks * neighbours.block_instructions(1)


def _attempt(run: MachineRun) -> Attempt:
    return Attempt(run.sms, run.cycles, run.cycles_low, run.cycles_high)


def _ended(run: MachineRun, earlier: list[Attempt], why: str) -> SteadyRun:
    fields = {field.name: getattr(run, field.name) for field in dataclasses.fields(MachineRun)}
    return SteadyRun(**fields, attempts=(*earlier, _attempt(run)), why=why)

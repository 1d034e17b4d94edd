"""The changes whose gain a campaign knows, since every kernel is simulated again with each of them: a unit
twice as fast, and no conflicts. All else is equal, random numbers included."""

from __future__ import annotations

from dataclasses import replace

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.sim.instructions import CLASSES, Unit
from smlab.sim.patterns import Grouped
from smlab.sim.workload import Instruction, Kernel, Loop


def twice_as_fast(gpu: Gpu) -> Gpu:
    """``gpu`` with an atomic unit that takes half the time for everything: its pipeline, what an atomic's
    passes take of the data stage, a round's gap. (Where nothing is left beyond the passes, one pass takes a
    cycle still.)"""
    values = {"atomic.stage_factor": float(gpu.number("atomic.stage_factor")) / 2}
    kept = ("atomic.address_interval_cycles",)  # a sub-core's, not the unit's
    for key in gpu.constants:
        if key.startswith("atomic.") and key.endswith("_cycles") and key not in kept:
            values[key] = float(gpu.number(key)) / 2
    for key in [k for k in values if k.endswith(".base_interval_cycles")]:
        passing = values[key.replace("base_interval", "pass_interval")]
        values[key] = max(values[key], 1 - passing)
    return gpu.with_values(values, source="assumed: twice as fast a unit")


def without_conflicts(kernel: Kernel) -> Kernel:
    """``kernel`` with every atomic's lanes on words of banks of their own (e = 1)."""
    programs = (replace(p, body=_spread(p.body)) for p in kernel.programs)
    return replace(kernel, programs=tuple(programs))


def _spread(body: tuple[Instruction | Loop, ...]) -> tuple[Instruction | Loop, ...]:
    return tuple(
        replace(item, body=_spread(item.body))
        if isinstance(item, Loop)
        else replace(item, shared=Grouped(1))
        if CLASSES[item.op].unit is Unit.ATOMIC
        else item
        for item in body
    )

"""Running a campaign: draw kernels, simulate them, and keep what counters see beside what only the
simulator knows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.random import SeedSequence, default_rng
from numpy.typing import NDArray
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.profiles.counter_table import WHOLE_GPU
from smlab.sim import compiled
from smlab.sim.instructions import Reason
from smlab.sim.lowering import lower
from smlab.sim.machine import Machine, machine_from
from smlab.sim.reference import Record
from smlab.sim.result import SimResult, SmTruth
from smlab.sim.workload import Kernel
from smlab.validation.trust.families import FAMILIES
from smlab.validation.work.runner import Progress, Task, run_tasks

Floats = NDArray[np.float64]

PART = 25
"""Kernels that one process draws and runs at a time."""

MAX_CYCLES = 2_000_000_000
"""A kernel that runs longer is a mistake in a family; the campaign stops and names it."""


@dataclass(frozen=True, eq=False)
class CampaignTable:
    """One row for each simulated kernel, and one more for each SM of those that ran on several; all arrays
    (rows,).

    ``family`` and ``kernel`` (its number in the campaign) say which, ``sm`` is the SM or `WHOLE_GPU`. What
    counters see, summed over the ``sms`` of the row: ``jobs``, ``cas_jobs``, ``wavefronts``,
    ``thread_operations``; as the mean over them: ``elapsed_cycles``, ``active_cycles`` and ``warps``
    (resident, over the active cycles); ``peak_warps`` is the most that were resident on one of them, which
    the launch tells. The truth, over the elapsed cycles: ``utilization`` and ``n``. ``gain`` is how many
    times as fast the kernel would be if the atomic unit took half the time for everything (NaN in the rows of
    one SM): the truth about whether it is the bottleneck. ``waiting`` is the mean number of warps with the
    reasons short_scoreboard and mio_throttle, which a profiler can count and no estimator uses.
    """

    family: NDArray[np.object_]
    kernel: NDArray[np.int64]
    sm: NDArray[np.int64]
    sms: Floats
    jobs: Floats
    cas_jobs: Floats
    wavefronts: Floats
    thread_operations: Floats
    elapsed_cycles: Floats
    active_cycles: Floats
    warps: Floats
    peak_warps: Floats
    utilization: Floats
    n: Floats
    gain: Floats
    waiting: Floats

    def __len__(self) -> int:
        return len(self.jobs)

    def take(self, chosen: NDArray[Any]) -> CampaignTable:
        """The chosen rows, by mask or by index."""
        return CampaignTable(**{f.name: getattr(self, f.name)[chosen] for f in fields(self)})

    @property
    def whole(self) -> NDArray[np.bool_]:
        """The rows of whole kernels, one each, as Nsight Compute counts."""
        found: NDArray[np.bool_] = self.sm == WHOLE_GPU
        return found

    @classmethod
    def joined(cls, parts: Iterable[CampaignTable]) -> CampaignTable:
        tables = list(parts)
        return cls(**{f.name: np.concatenate([getattr(t, f.name) for t in tables]) for f in fields(cls)})


def run_campaign(
    gpu: Gpu,
    families: Sequence[str],
    count: int,
    seed: int,
    *,
    processes: int = 1,
    progress: Progress | None = None,
) -> CampaignTable:
    """Simulate ``count`` kernels of each of the ``families`` on ``gpu``; equal arguments give equal tables on
    any processes.

    Each kernel has a stream of its own: ``SeedSequence(seed)`` spawns one for each family (in the order of
    `FAMILIES`, so that a family's kernels do not depend on which others are asked for), and those spawn one
    for each kernel.
    """
    parts = campaign_parts(gpu, families, count, seed)
    found: dict[int, CampaignTable] = {}
    tasks = [Task(place, run_part, part) for place, part in enumerate(parts)]
    run_tasks(tasks, found.__setitem__, jobs=processes, progress=progress)
    return CampaignTable.joined(found[place] for place in range(len(parts)))


Part = tuple[Gpu, str, int, int, int]


def campaign_parts(gpu: Gpu, families: Sequence[str], count: int, seed: int) -> list[Part]:
    """The campaign cut into arguments of `run_part`, in the order of its rows."""
    return [
        (gpu, family, first, min(count, first + PART), seed)
        for family in families
        for first in range(0, count, PART)
    ]


def run_part(gpu: Gpu, family: str, first: int, last: int, seed: int) -> CampaignTable:
    """Simulate the kernels number ``first`` to ``last`` - 1 of a family."""
    place = list(FAMILIES).index(family)
    rows = []
    for number in range(first, last):
        stream = SeedSequence(seed, spawn_key=(place, number))  # what spawning twice gives
        kernel, lowering_seed = draw_kernel(machine_from(gpu), family, stream)
        share = fair_share(gpu, kernel.sms)
        result, faster = (
            compiled.run(lower(kernel, machine_from(g), lowering_seed), Record.TOTALS, MAX_CYCLES, threads=1)
            for g in (share, twice_as_fast(share))
        )
        rows += observe(result, family, number, result.cycles / faster.cycles)
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    columns["family"] = columns["family"].astype(object)
    return CampaignTable(**columns)


def draw_kernel(machine: Machine, family: str, stream: SeedSequence) -> tuple[Kernel, int]:
    """A kernel of the family, and the seed of its own random numbers."""
    drawing, running = stream.spawn(2)
    kernel = FAMILIES[family](default_rng(drawing), machine)
    return kernel, int(running.generate_state(1, np.uint32)[0])


def fair_share(gpu: Gpu, sms: int) -> Gpu:
    """``gpu`` with the part of L2's and DRAM's bandwidth that falls to ``sms`` of its SMs when all of them
    run."""
    share = sms / gpu.integer("gpu.sms")
    keys = ("l2.bandwidth_bytes_per_s", "dram.bandwidth_bytes_per_s", "dram.sustained_bandwidth_bytes_per_s")
    values = {key: gpu.number(key) * share for key in keys if gpu.has(key)}
    return gpu.with_values(values, source="assumed: the share of the simulated SMs")


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


def observe(
    result: SimResult, family: str = "", number: int = 0, gain: float = np.nan
) -> list[Mapping[str, Any]]:
    """The rows of one simulated kernel: the whole GPU, and each SM where there are several."""
    rows = [{**_row(result, WHOLE_GPU, list(result.sms)), "gain": gain}]
    if len(result.sms) > 1:
        rows += [_row(result, sm.sm, [sm]) for sm in result.sms]
    return [{"family": family, "kernel": number, **row} for row in rows]


def _row(result: SimResult, sm: int, members: list[SmTruth]) -> dict[str, Any]:
    active = sum(s.active_cycles for s in members)
    # The simulator's counters of one SM know its active cycles only, as nvprof's do: they stand for the
    # elapsed ones.
    elapsed = result.cycles * len(members) if sm == WHOLE_GPU else active
    chosen = np.isin(result.warps.sm, [s.sm for s in members])
    stalls = result.warps.stall_cycles[chosen].sum(axis=0)
    return {
        "sm": sm,
        "sms": float(len(members)),
        "jobs": float(sum(s.atomic_completions for s in members)),
        "cas_jobs": float(sum(s.atomic_cas_jobs for s in members)),
        "wavefronts": float(sum(s.atomic_passes for s in members)),
        "thread_operations": float(sum(s.thread_operations for s in members)),
        "elapsed_cycles": elapsed / len(members),
        "active_cycles": active / len(members),
        "warps": sum(s.resident_warp_cycles for s in members) / active,
        "peak_warps": float(max(result.warps.max_resident_warps(s.sm) for s in result.sms)),
        "utilization": sum(s.atomic_busy_cycles for s in members) / elapsed,
        "n": sum(s.atomic_job_cycles for s in members) / elapsed,
        "gain": np.nan,
        "waiting": float(stalls[Reason.SHORT_SCOREBOARD] + stalls[Reason.MIO_THROTTLE]) / active,
    }

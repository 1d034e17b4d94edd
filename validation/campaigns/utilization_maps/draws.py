"""A campaign: many kernels of several families, simulated on any processes, each once; a store keeps what is
done. Beside them closed systems of warps that think for exponential times, which the closed network is
made for, and the same with fixed times: nothing in the counters tells the two apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from numpy.random import SeedSequence, default_rng

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.sources import cache_key, digest_of
from smlab.sim import compiled
from smlab.sim.lowering import lower
from smlab.sim.machine import machine_from
from smlab.sim.reference import Record
from smlab.sim.workloads.workload import Duration
from smlab.validation.campaigns.utilization_maps.building import MAX_JOBS, MIN_JOBS, log_uniform
from smlab.validation.campaigns.utilization_maps.simulate import CampaignTable, family_of, observe, run_part
from smlab.validation.laws.closed_system import closed_kernel, draw_workload
from smlab.validation.service_tables import engine_version
from smlab.validation.work.encoding import decode, encode
from smlab.validation.work.runner import Progress, Task, run_tasks
from smlab.validation.work.store import Entry, Store

PART = 25
"""Kernels that one process draws and runs at a time."""

Part = tuple[Gpu, str, int, int, int]
"""The arguments of `run_part`."""

_CODE = (
    "smlab.validation.campaigns.utilization_maps.building",
    "smlab.validation.campaigns.utilization_maps.simulate",
)


def run_campaign(
    gpu: Gpu,
    families: Sequence[str],
    count: int,
    seed: int,
    *,
    processes: int = 1,
    progress: Progress | None = None,
    store: Store | None = None,
) -> CampaignTable:
    """Simulate ``count`` kernels of each of the ``families`` on ``gpu``; equal arguments give equal tables on
    any processes. What ``store`` has of it is taken from there, and the rest put there.

    Each kernel has a stream of its own: ``SeedSequence(seed)`` spawns one for each family (in the order of
    `FAMILIES`, so that a family's kernels do not depend on which others are asked for), and those spawn one
    for each kernel.
    """
    parts = campaign_parts(gpu, families, count, seed)
    keys = [_key(part) for part in parts]
    known = {} if store is None else store.get(keys)
    found = {place: decode(known[key].result) for place, key in enumerate(keys) if key in known}
    tasks = [Task(place, run_part, part) for place, part in enumerate(parts) if place not in found]

    def keep(place: int, table: CampaignTable) -> None:
        found[place] = table
        if store is not None:
            names = ("gpu", "family", "first", "last", "seed")
            asked = dict(zip(names, (gpu.name, *parts[place][1:]), strict=True))
            store.add([Entry(keys[place], asked, encode(table))])

    run_tasks(tasks, keep, jobs=processes, progress=progress)
    return CampaignTable.joined(found[place] for place in range(len(parts)))


def _key(part: Part) -> bytes:
    """What the result of a part depends on: the machine, the code that draws and runs its kernels."""
    gpu, family, *numbers = part
    code = (import_module(m).__file__ for m in (family_of(family)[0].__module__, *_CODE))
    digest = digest_of(*(Path(str(place)) for place in code))
    constants = {key: constant.value for key, constant in gpu.constants.items()}
    return cache_key(constants, family, numbers, digest, engine_version()).encode()


def campaign_parts(gpu: Gpu, families: Sequence[str], count: int, seed: int) -> list[Part]:
    """The campaign cut into arguments of `run_part`, in the order of its rows."""
    return [
        (gpu, family, first, min(count, first + PART), seed)
        for family in families
        for first in range(0, count, PART)
    ]


INDEPENDENT, LOCKSTEP = "exponential", "fixed"
"""The distributions of the think time; the `family` of a row."""

MIN_ROUNDS = 20
"""Atomics of one warp, at least: a kernel, not its first breath."""


def run_closed_systems(gpu: Gpu, distribution: str, count: int, seed: int) -> CampaignTable:
    """Simulate ``count`` closed systems (`draw_workload`), of as many atomics as the campaign's kernels."""
    rng = default_rng(SeedSequence(seed, spawn_key=(101,)))
    machine = machine_from(gpu)
    rows = []
    for number in range(count):
        w = replace(draw_workload(rng, machine.max_warps), distribution=distribution)
        rounds = max(MIN_ROUNDS, round(log_uniform(rng, MIN_JOBS, MAX_JOBS) / w.warps))
        kernel = closed_kernel(
            w.warps, rounds, Duration(w.think_cycles, distribution), lanes=w.lanes, cas_warps=w.cas_warps
        )
        result = compiled.run(lower(kernel, machine, w.seed), Record.TOTALS, threads=1)
        rows += observe(result, distribution, number)
    return CampaignTable.of_rows(rows)

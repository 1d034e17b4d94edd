"""One point of the case study: simulate a histogram, know its truth, and estimate it from its counters
alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.profiles import as_profile, atomic_quantities
from smlab.models.trust import CLOSED, OCCUPANCY, estimate_all
from smlab.sim import compiled
from smlab.sim.counters import counter_table
from smlab.sim.histogram import histogram_of_image
from smlab.sim.instructions import Reason
from smlab.sim.lowering import lower
from smlab.sim.machine import machine_from
from smlab.sim.reference import Record
from smlab.sim.result import SimResult
from smlab.validation.papers.histogram.grid import Spec
from smlab.validation.papers.histogram.images import image
from smlab.validation.service_tables import ServiceTables, fetch_add_tables


@dataclass(frozen=True)
class CasePoint:
    """A simulated point. Utilizations are means over the GPU's SMs and the kernel's ``cycles``, ratios.

    ``utilization`` is exact (time with a job in the unit) and ``occupied`` the share of time in which its
    server held one. From counters: ``utilization_occupancy`` by Dong & Pai's Tables 1 and 2 with e as
    wavefronts a job (passes over the banks), ``utilization_occupancy_lanes`` the same with e as active lanes
    a job, ``utilization_closed`` by the closed network, and ``utilization_middle`` by no model: halfway
    between the least and the most that the counters allow. ``e_mean`` passes a job, ``lanes_mean`` active
    lanes a job; ``n_mean`` jobs in the unit over the kernel, ``n_busy_mean`` while it is busy; ``warps``
    resident ones over the active cycles, which is what the paper takes for n. ``memory_wait`` and
    ``atomic_wait`` are the shares of the warps' time with long_scoreboard, and with mio_throttle or
    short_scoreboard. ``speedup`` is the original's cycles over this one's, NaN until `with_speedups` has
    looked.
    """

    gpu: str
    op: str
    image: str
    pixels: int
    threads: int
    variant: str
    cache: str
    blocks_per_sm: int
    channels: str
    cycles: int
    utilization: float
    occupied: float
    utilization_occupancy: float
    utilization_occupancy_lanes: float
    utilization_closed: float
    utilization_middle: float
    e_mean: float
    lanes_mean: float
    n_mean: float
    n_busy_mean: float
    warps: float
    jobs: int
    thread_operations: int
    service_cycles: float
    memory_wait: float
    atomic_wait: float
    l2_misses: int
    dram_sectors: int
    warp_instructions: int
    speedup: float = float("nan")

    @property
    def spec(self) -> Spec:
        return Spec(**{f.name: getattr(self, f.name) for f in fields(Spec)})

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def run_point(gpu: Gpu, spec: Spec, seed: int = 0) -> CasePoint:
    """Simulate one point on the whole GPU and estimate it."""
    kernel = histogram_of_image(
        gpu,
        image(spec.image, spec.pixels, seed),
        threads=spec.threads,
        variant=spec.variant,
        op=spec.op,
        cache=spec.cache,
        blocks_per_sm=spec.blocks_per_sm,
        channels=spec.channels,
    )
    result = compiled.run(lower(kernel, machine_from(gpu), seed), Record.TOTALS, None, None, threads=1)
    return observe(gpu, spec, result, fetch_add_tables(gpu))


def observe(gpu: Gpu, spec: Spec, result: SimResult, tables: ServiceTables) -> CasePoint:
    """The truth of a finished run beside what its counters say, read and estimated as `smlab utilization`
    does."""
    table = counter_table(result)
    q = atomic_quantities(as_profile(table, "simulated"), gpu)
    busy = q.jobs > 0
    jobs, active = q.jobs[busy], q.active_cycles[busy]
    warps = np.minimum(q.mean_active_warps[busy], tables.looped.n_max)
    peak = np.minimum(np.fmax(q.peak_warps[busy], warps), tables.looped.n_max)
    e = np.clip(q.wavefronts[busy] / jobs, 1, tables.looped.e_max)
    lanes = np.clip(q.thread_operations[busy] / jobs, 1, tables.looped.e_max)
    share = q.cas_jobs[busy] / jobs
    found = estimate_all(jobs, active, warps, e, share, tables.looped, tables.batch, peak)
    middle = (found.features.floor + found.features.ceiling) / 2
    by_lanes = jobs * tables.batch.service_cycles(warps, lanes, warps * share)
    time = result.cycles * len(result.sms)
    atomic, stalls = result.atomic, result.stalls
    resident = sum(stalls.values())

    def share_of(*reasons: Reason) -> float:
        return sum(stalls[r.label] for r in reasons) / resident

    return CasePoint(
        gpu=gpu.name,
        **asdict(spec),
        cycles=result.cycles,
        utilization=atomic.utilization,
        occupied=sum(s.atomic_occupied_cycles for s in result.sms) / time,
        utilization_occupancy=float((found.utilization[OCCUPANCY] * active).sum() / time),
        utilization_occupancy_lanes=float(by_lanes.sum() / time),
        utilization_closed=float((found.utilization[CLOSED] * active).sum() / time),
        utilization_middle=float((middle * active).sum() / time),
        e_mean=atomic.e_mean,
        lanes_mean=atomic.lanes_mean,
        n_mean=atomic.n_mean,
        n_busy_mean=atomic.n_busy_mean,
        warps=float((warps * active).sum() / active.sum()),
        jobs=atomic.jobs,
        thread_operations=sum(s.thread_operations for s in result.sms),
        service_cycles=atomic.service_cycles,
        memory_wait=share_of(Reason.LONG_SCOREBOARD),
        atomic_wait=share_of(Reason.MIO_THROTTLE, Reason.SHORT_SCOREBOARD),
        l2_misses=result.memory.l2_sector_misses,
        dram_sectors=result.memory.dram_sectors,
        warp_instructions=result.warp_instructions,
    )


def with_speedups(points: Iterable[CasePoint]) -> list[CasePoint]:
    """The points with the speedup of each over the original kernel on the same image and launch (1 for the
    original)."""
    points = list(points)
    originals = {replace(p.spec, variant=""): p.cycles for p in points if p.variant == "original"}
    return [
        replace(
            p,
            speedup=originals[key] / p.cycles
            if (key := replace(p.spec, variant="")) in originals
            else p.speedup,
        )
        for p in points
    ]

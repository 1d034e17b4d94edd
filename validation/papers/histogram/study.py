"""The case study: its grid of points, one point (simulated, and estimated from its counters alone), the
estimators' errors, and a run that keeps each point as soon as it is done and can be resumed.

Done points are in ``points.sqlite``, which also says what they depend on (GPU description, sources, seed,
images). Results come in the order of the grid, whatever the order in which points were done, so a run
that was interrupted ends with the same files as one that was not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.profiles import as_profile, atomic_quantities
from smlab.hw_bench.sources import cache_key, digest_of, package_folder
from smlab.models.utilization.trust_map import CLOSED, OCCUPANCY, AtomicLoad, estimate_all
from smlab.sim import compiled
from smlab.sim.counters import counter_table
from smlab.sim.instructions import Reason
from smlab.sim.lowering import lower
from smlab.sim.machine import machine_from
from smlab.sim.reference import Record
from smlab.sim.result import SimResult
from smlab.sim.workloads.histogram import OPERATIONS, VARIANTS, CountingOptions, histogram_of_image
from smlab.validation.method.metrics import PointErrors, points_table
from smlab.validation.papers.histogram.images import NAMES, PAPERS, digest, image
from smlab.validation.service_tables import ServiceTables, fetch_add_tables
from smlab.validation.work.runner import Progress, Task, run_tasks
from smlab.validation.work.store import Entry, Store

SIZES = tuple(2**k for k in range(5, 23))
"""Pixels: the powers of two from 32 to 4,194,304 (the paper gives these two ends, and no list)."""
THREADS = (32, 64, 256, 512, 1024)

BETWEEN_SIZES = (2**16, 2**18, 2**20, 2**22)
"""Sizes at which the images that the paper does not have are run."""

REDUCED_SIZES = (2**8, 2**14, 2**18, 2**20)


@dataclass(frozen=True, order=True)
class Spec:
    """One point: what is run. ``image`` is a drawn image's name or a file's path."""

    op: str
    image: str
    pixels: int
    threads: int
    variant: str
    cache: str = "warm"
    blocks_per_sm: int = 1
    channels: str = "constant"


def operations(gpu: Gpu) -> tuple[str, ...]:
    """``add``, and ``popc-inc`` on a GPU that has it."""
    has = machine_from(gpu).atomics
    return tuple(op for op in OPERATIONS if op.replace("-", "_") in has)


def grid(
    gpu: Gpu,
    *,
    sizes: Sequence[int] = SIZES,
    threads: Sequence[int] = THREADS,
    images: Sequence[str] | None = None,
    cache: str = "warm",
    blocks_per_sm: int = 1,
    channels: str = "constant",
) -> list[Spec]:
    """The points in the order of the results: the paper's images at all sizes, then the others at
    `BETWEEN_SIZES`.

    With ``images``, those alone, at all sizes.
    """
    if images is None:
        plan = [(name, list(sizes)) for name in PAPERS]
        between = [size for size in sizes if size in BETWEEN_SIZES]
        plan += [(name, between) for name in NAMES if name not in PAPERS]
    else:
        plan = [(name, list(sizes)) for name in images]
    return [
        Spec(op, name, size, count, variant, cache, blocks_per_sm, channels)
        for op in operations(gpu)
        for name, own in plan
        for size in own
        for count in threads
        for variant in VARIANTS
    ]


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
    counted = CountingOptions(
        threads=spec.threads,
        variant=spec.variant,
        op=spec.op,
        cache=spec.cache,
        blocks_per_sm=spec.blocks_per_sm,
        channels=spec.channels,
    )
    kernel = histogram_of_image(gpu, image(spec.image, spec.pixels, seed), counted)
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
    found = estimate_all(AtomicLoad(jobs, active, warps, e, share, peak), tables.looped, tables.batch)
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


ESTIMATORS = {
    "Dong & Pai, e = wavefronts": "utilization_occupancy",
    "Dong & Pai, e = active lanes": "utilization_occupancy_lanes",
    "closed network": "utilization_closed",
    "middle of the bounds": "utilization_middle",
}
"""By the name in reports, the field of `CasePoint` with the estimate. The last is the trivial baseline."""


def errors(points: Sequence[CasePoint], seed: int = 0) -> dict[str, PointErrors]:
    """A row for each estimator over these points, in percentage points of utilization."""
    exact = [p.utilization for p in points]
    return {
        name: points_table([getattr(p, field) for p in points], exact, seed=seed)
        for name, field in ESTIMATORS.items()
    }


def parts(points: Sequence[CasePoint]) -> dict[str, list[CasePoint]]:
    """The points by what makes estimates hard; only parts that have points."""
    own = [p for p in points if p.image in PAPERS]
    found = {
        "the paper's images": own,
        "solid, ADD": [p for p in own if p.image == "solid" and p.op == "add"],
        "uniform, ADD": [p for p in own if p.image == "uniform" and p.op == "add"],
        "POPC.INC": [p for p in own if p.op == "popc-inc"],
        "exact 95 % and more": [p for p in own if p.utilization >= 0.95],
        "exact 20 to 95 %": [p for p in own if 0.2 <= p.utilization < 0.95],
        "exact under 20 %": [p for p in own if p.utilization < 0.2],
        "images between": [p for p in points if p.image not in PAPERS],
    }
    return {name: chosen for name, chosen in found.items() if chosen}


POINTS: Final = "points.sqlite"


def run_study(
    gpu: Gpu,
    specs: Sequence[Spec],
    *,
    folder: Path | None = None,
    resume: bool = False,
    seed: int = 0,
    processes: int = 1,
    progress: Progress | None = None,
) -> list[CasePoint]:
    """Simulate the points of ``specs``, in their order, with speedups; equal arguments give equal results.

    With a ``folder``, points are kept there as they are done; with ``resume``, those that are there already
    are not run again. `SmlabError` where the folder holds points of another description, simulator, seed or
    image.
    """
    wanted = list(dict.fromkeys(specs))
    done: dict[Spec, CasePoint] = {}
    with ExitStack() as opened:
        store = opened.enter_context(Store(folder / POINTS)) if folder is not None else None
        if store is not None:
            what = "GPU description, simulator, seed or image"
            store.begin(_made_with(gpu, specs, seed), what, resume=resume)
            done = _stored(store, wanted)
        if progress is not None:
            progress(len(done), len(wanted))
        # The large ones first, so that no process is left with one at the end.
        missing = sorted((spec for spec in wanted if spec not in done), key=lambda spec: -spec.pixels)

        def keep(spec: Spec, point: CasePoint) -> None:
            done[spec] = point
            if store is not None:
                store.add([Entry(_key(spec), asdict(spec), point.as_json())])
            if progress is not None:
                progress(len(done), len(wanted))

        tasks = [Task(spec, run_point, (gpu, spec, seed)) for spec in missing]
        run_tasks(tasks, keep, jobs=min(processes, max(1, len(tasks))))
    return with_speedups(done[spec] for spec in specs)


def _stored(store: Store, specs: Iterable[Spec]) -> dict[Spec, CasePoint]:
    keys = {_key(spec): spec for spec in specs}
    try:
        return {keys[key]: CasePoint(**entry.result) for key, entry in store.get(list(keys)).items()}
    except TypeError as error:
        raise SmlabError.at(
            str(store.path), f"not points of this study ({error})", expected="a run without --resume"
        ) from error


def _key(spec: Spec) -> bytes:
    return bytes.fromhex(cache_key(asdict(spec)))


def _made_with(gpu: Gpu, specs: Sequence[Spec], seed: int) -> str:
    """What all points depend on."""
    constants = {key: constant.value for key, constant in gpu.constants.items()}
    images = {name: digest(name) for name in sorted({spec.image for spec in specs})}
    own = {name: text for name, text in images.items() if text}
    return cache_key(gpu.name, constants, _sources(), seed, own)


@cache
def _sources() -> str:
    """A digest of the sources that points depend on."""
    rooms = (package_folder("smlab.sim"), package_folder("smlab.models"))
    tables = package_folder("smlab.validation") / "service_tables.py"
    return digest_of(*rooms, tables, Path(__file__).parent)

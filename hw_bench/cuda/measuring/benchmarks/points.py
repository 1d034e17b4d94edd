"""Measuring `shared-atomics` and `shared-banks`: many points in one launch."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from smlab.hw_bench.cuda import registry
from smlab.hw_bench.cuda.kernels.points import MAX_WARPS
from smlab.hw_bench.cuda.kernels.spec import KernelSpec
from smlab.hw_bench.cuda.measuring import plan
from smlab.hw_bench.cuda.measuring.batch import Batch
from smlab.hw_bench.cuda.measuring.benchmarks import atomic_points
from smlab.hw_bench.cuda.measuring.plan import ATOMIC_COLUMNS, BenchmarkProfile, DeviceLimits, PlannedLaunch
from smlab.hw_bench.cuda.measuring.steadiness import noise, steady_from
from smlab.hw_bench.cuda.toolkit import SIMULATED


def measure(
    benchmark: str, profile: BenchmarkProfile, gpu: DeviceLimits, done: frozenset[str]
) -> Iterator[Batch]:
    """One batch for each launch of the plan that is not ``done``."""
    kernels = registry.benchmark(benchmark).kernels()
    specs = {spec.name: spec for spec in kernels if SIMULATED or spec.supports(gpu.architecture)}
    for launch in plan.point_launches(benchmark, specs, profile, gpu.max_warps):
        if launch.name not in done:
            yield _batch(launch, specs[launch.kernel], profile, gpu)


def _batch(launch: PlannedLaunch, spec: KernelSpec, profile: BenchmarkProfile, gpu: DeviceLimits) -> Batch:
    operation, form = spec.name.split("/")
    points, iterations, blocks = launch.points, launch.iterations, launch.blocks
    times = atomic_points.measure(
        spec,
        points,
        repetitions=profile.repetitions,
        iterations=iterations,
        blocks=blocks,
        sms=gpu.sms,
        block_warps=gpu.block_warps if blocks == 2 else MAX_WARPS,
    )
    kept = np.flatnonzero(times.measured)
    cycles, issue = times.cycles[kept], times.issue_cycles[kept]
    starts = steady_from(cycles) if len(kept) else np.zeros(0, dtype=np.int64)
    rows = []
    for row, (at, start) in enumerate(zip(kept, starts, strict=True)):
        point, steady = points[at], cycles[row, start:]
        rows.append(
            dict(
                zip(
                    ATOMIC_COLUMNS,
                    (
                        operation, form, point.warps, point.cas_warps, point.pattern.lanes,
                        point.pattern.same_word,
                        point.pattern.same_bank, iterations, blocks, int(times.sms[at, 0]), cycles.shape[1],
                        int(start),
                        int(steady.min()), float(np.median(steady)), int(steady.max()), round(noise(steady),
                        6),
                        float(np.median(issue[row, start:])),
                    ),
                    strict=True,
                )
            )
        )  # fmt: skip
    about = {
        "points": len(points),
        "not_measured": len(points) - len(kept),
        "sms_without_partner": times.abandoned_sms,
        "sms_used": len(np.unique(times.sms[kept])),
    }
    wrong = atomic_points.wrong_sums(operation, times, iterations)
    return Batch(
        launch.name,
        rows,
        {"cycles": cycles.astype(np.uint32), "issue": issue.astype(np.uint32)},
        about,
        wrong,
    )

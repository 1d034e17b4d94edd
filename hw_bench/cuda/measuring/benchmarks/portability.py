"""Measuring `portability`: Coyne's kernels over his grids, the initial part of each series apart from the
steady one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from smlab.hw_bench.cuda import registry
from smlab.hw_bench.cuda.measuring import plan
from smlab.hw_bench.cuda.measuring.batch import Batch, Settling, Throttled, Watch, padded
from smlab.hw_bench.cuda.measuring.benchmarks import portability_runs
from smlab.hw_bench.cuda.measuring.driver import cuda
from smlab.hw_bench.cuda.measuring.plan import PORTABILITY_COLUMNS, BenchmarkProfile, DeviceLimits
from smlab.hw_bench.cuda.measuring.steadiness import noise
from smlab.hw_bench.cuda.toolkit import SIMULATED

_LEAST = 100
"""Launches of a series at least: Coyne saw an initial part of some milliseconds."""
_PATIENCE_S = 1.0
"""After which a series of long launches, that has none of it, ends with fewer."""


def measure(
    profile: BenchmarkProfile, gpu: DeviceLimits, done: frozenset[str], throttled: Throttled
) -> Iterator[Batch]:
    """One batch for each kernel that this GPU and, in the simulator, Numba has."""
    for spec in registry.benchmark("portability").kernels():
        if spec.name in done or (SIMULATED and spec.warp_wide):
            continue
        if not SIMULATED and not spec.supports(gpu.architecture):
            continue
        rows, seconds, wrong, late = [], [], [], []
        for size, blocks, threads in plan.portability_sizes(spec.name, profile):
            watch = (
                Watch(profile.series_s, throttled, _LEAST, _PATIENCE_S)
                if cuda.stand_in is None
                else Settling()
            )
            run = portability_runs.run(spec, size=size, blocks=blocks, threads=threads, enough=watch.enough)
            start, initial, steady = watch.parts(run.seconds)
            values = (
                spec.name, size, blocks, threads, len(run.seconds), sum(watch.slow), start,
                float(np.median(initial or steady)), float(np.median(steady)), round(noise(steady), 6),
                watch.verdict,
            )  # fmt: skip
            rows.append(dict(zip(PORTABILITY_COLUMNS, values, strict=True)))
            seconds.append(run.seconds)
            wrong.extend([f"size {size}, {blocks} blocks: {run.wrong}"] if run.wrong else [])
            late.extend([f"size {size}, {blocks} blocks"] if watch.held_back else [])
        yield Batch(spec.name, rows, {"seconds": padded(seconds)}, {}, wrong, tuple(late))

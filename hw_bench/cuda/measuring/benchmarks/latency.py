"""Measuring `latency`: chains of loads by footprint, chains of arithmetic by class."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.cuda import registry
from smlab.hw_bench.cuda.measuring import runners
from smlab.hw_bench.cuda.measuring.batch import Batch, Throttled
from smlab.hw_bench.cuda.measuring.plan import LATENCY_COLUMNS, BenchmarkProfile, DeviceLimits
from smlab.hw_bench.cuda.measuring.steadiness import noise, steady_from


def measure(
    profile: BenchmarkProfile, gpu: DeviceLimits, done: frozenset[str], throttled: Throttled
) -> Iterator[Batch]:
    """One batch for each kernel. L2 and DRAM do not go with the SM's clock, so a load's cycles change with
    it: of the chains of loads, it is asked whether the GPU was held back."""
    for spec in registry.benchmark("latency").kernels():
        if spec.name in done:
            continue
        rows, samples, wrong, late = [], [], [], []
        if spec.name in {"shared", "cached", "uncached"}:
            for footprint, stride in _footprints(spec.name, profile, gpu):
                entries = footprint // stride
                # Past twice L2 the chain must be new for every load to come from DRAM; below, it must not.
                beyond = footprint > 2 * gpu.l2_bytes
                run = runners.chase(
                    spec, footprint_bytes=footprint, stride_bytes=stride, links=profile.links,
                    repetitions=profile.repetitions, warm_links=0 if beyond else entries,
                    flush_bytes=2 * gpu.l2_bytes if beyond else 0,
                )  # fmt: skip
                rows.append(_row(spec.name, footprint, stride, profile.links, run.cycles))
                samples.append(run.cycles)
                wrong.extend([f"{footprint} bytes: {run.wrong}"] if run.wrong else [])
                late.extend([f"{footprint} bytes"] if spec.name != "shared" and throttled() else [])
        else:
            run = runners.arithmetic(spec, links=profile.links, repetitions=profile.repetitions)
            rows.append(_row(spec.name, 0, 0, profile.links, run.cycles))
            samples.append(run.cycles)
            wrong.extend([run.wrong] if run.wrong else [])
        yield Batch(spec.name, rows, {"cycles": np.array(samples)}, {}, wrong, tuple(late))


def _footprints(kernel: str, profile: BenchmarkProfile, gpu: DeviceLimits) -> list[tuple[int, int]]:
    """Footprint and stride of each chain, in bytes: a line apart, and more where the chain would get too
    long."""
    if kernel == "shared":
        return [(4096, 4), (4096, 128)]
    first, last = (2**11, 2**20) if kernel == "cached" else (2**16, 8 * gpu.l2_bytes)
    sizes = [2**k for k in range(11, 40) if first <= 2**k <= min(last, profile.max_bytes)] or [2**11]
    return [(size, 128 if size <= 2**20 else 256 if size <= 2**26 else 1024) for size in sizes]


def _row(name: str, footprint: int, stride: int, links: int, cycles: NDArray[np.int64]) -> dict[str, Any]:
    start = int(steady_from(cycles)[0])
    each = cycles[start:] / links
    values = (
        name, footprint, stride, links, len(cycles), start, round(float(each.min()), 4),
        round(float(np.median(each)), 4), round(float(each.max()), 4), round(noise(each), 6),
    )  # fmt: skip
    return dict(zip(LATENCY_COLUMNS, values, strict=True))

"""Measuring `histogram`: images from 32 pixels to 4 megapixels, by blocks of 32 to 1,024 threads."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from smlab.hw_bench.cuda import registry
from smlab.hw_bench.cuda.measuring import plan, runners
from smlab.hw_bench.cuda.measuring.batch import Batch, Throttled, Watch, padded
from smlab.hw_bench.cuda.measuring.plan import IMAGE_COLUMNS, BenchmarkProfile, DeviceLimits
from smlab.hw_bench.cuda.measuring.steadiness import noise


def measure(
    profile: BenchmarkProfile, gpu: DeviceLimits, done: frozenset[str], throttled: Throttled
) -> Iterator[Batch]:
    """One batch for each kernel and kind of image."""
    for spec in registry.benchmark("histogram").kernels():
        for kind in ("solid", "uniform"):
            name = f"{spec.name}/{kind}"
            if name in done:
                continue
            rows, seconds, wrong, late = [], [], [], []
            for point in plan.images(profile, gpu):
                if point.kind != kind:
                    continue
                watch = Watch(profile.series_s, throttled)
                run = runners.histogram(
                    spec,
                    image=runners.image(kind, point.pixels),
                    blocks=point.blocks,
                    threads=point.threads,
                    enough=watch.enough,
                )
                start, steady = watch.steady(run.seconds)
                cycles = float(np.median(list(run.sm_cycles(-(-point.threads // 32)).values())))
                values = (
                    spec.name, kind, point.pixels, point.threads, point.blocks, len(run.seconds),
                    sum(watch.slow), start,
                    float(np.median(steady)), round(noise(steady), 6), watch.verdict, cycles,
                )  # fmt: skip
                rows.append(dict(zip(IMAGE_COLUMNS, values, strict=True)))
                seconds.append(run.seconds)
                wrong.extend(
                    [f"{point.pixels} pixels, {point.threads} threads: {run.wrong}"] if run.wrong else []
                )
                late.extend([f"{point.pixels} pixels, {point.threads} threads"] if watch.held_back else [])
            yield Batch(name, rows, {"seconds": padded(seconds)}, {}, wrong, tuple(late))

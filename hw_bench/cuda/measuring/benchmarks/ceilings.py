"""Measuring `ceilings`: arithmetic mixes, and memory at each level."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from smlab.hw_bench.cuda import registry
from smlab.hw_bench.cuda.kernels import ceilings
from smlab.hw_bench.cuda.measuring import runners
from smlab.hw_bench.cuda.measuring.batch import Batch, Throttled, Watch
from smlab.hw_bench.cuda.measuring.plan import CEILING_COLUMNS, BenchmarkProfile, DeviceLimits
from smlab.hw_bench.cuda.measuring.steadiness import noise


def measure(
    profile: BenchmarkProfile, gpu: DeviceLimits, done: frozenset[str], throttled: Throttled
) -> Iterator[Batch]:
    for spec in registry.benchmark("ceilings").kernels():
        if spec.name in done:
            continue
        rows, samples, wrong, late = [], {}, [], []
        for level, blocks, threads, size, passes in _runs(spec.name, profile, gpu):
            watch = Watch(profile.stopping_s, throttled)
            if spec.name in ceilings.MIXES:
                run = runners.mix(spec, blocks=blocks, threads=threads, operations=size, enough=watch.enough)
                work = ceilings.flops_each(spec.name) * size * blocks * threads
                unit, footprint = "flop", 0
            else:
                run = runners.memory(
                    spec,
                    blocks=blocks,
                    threads=threads,
                    slice_length=size,
                    passes=passes,
                    enough=watch.enough,
                )
                each = ceilings.bytes_each(spec.name.split("-")[1])
                work, unit, footprint = float(each * size * blocks * passes), "byte", each * size * blocks
            start, steady = watch.steady(run.seconds)
            seconds = float(np.median(steady))
            spans = run.sm_cycles(threads // 32)
            shares = [np.count_nonzero(run.sms == sm) / blocks * work / span for sm, span in spans.items()]
            values = (
                spec.name, level, blocks, threads, footprint, passes, len(run.seconds), sum(watch.slow),
                start, seconds,
                round(noise(steady), 6), watch.verdict, unit, work / seconds,
                round(float(np.median(shares)), 4),
                float(np.median(list(spans.values()))),
            )  # fmt: skip
            rows.append(dict(zip(CEILING_COLUMNS, values, strict=True)))
            samples[f"{level}/seconds"] = np.array(run.seconds)
            samples[f"{level}/throttled"] = np.array(watch.slow)
            wrong.extend([f"{level}: {run.wrong}"] if run.wrong else [])
            late.extend([level] if watch.held_back else [])
        yield Batch(spec.name, rows, samples, {}, wrong, tuple(late))


def _runs(
    kernel: str, profile: BenchmarkProfile, gpu: DeviceLimits
) -> Iterator[tuple[str, int, int, int, int]]:
    """Level, blocks, threads of a block, operations of a thread or elements of a block's slice, and
    passes."""
    blocks = gpu.sms * max(1, gpu.max_warps * 32 // 1024)
    if kernel in ceilings.MIXES:
        yield "arithmetic", blocks, 32 if profile.small else 1024, profile.operations, 1
        return
    few = 2 if profile.small else 0
    if kernel.startswith("shared"):
        yield "shared", gpu.sms * 2, ceilings.SHARED_THREADS, ceilings.SHARED_SLICE, few or 4096
        return
    slices = {
        "l1": (gpu.sms, ceilings.SLICE, few or 1024),
        "l2": (blocks, _slice(gpu.l2_bytes // 8, blocks), few or 64),
        "dram": (blocks, _slice(4 * gpu.l2_bytes, blocks), 1),
    }
    for level, (count, length, passes) in slices.items():
        yield level, count, ceilings.THREADS, length, passes


def _slice(array_bytes: int, blocks: int) -> int:
    return max(1, array_bytes // 4 // blocks // ceilings.SLICE) * ceilings.SLICE

"""The measuring suite: what each profile measures with `shared-atomics`, `latency` and `ceilings`, and the runs themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hw_bench.cuda import atomic_points, ceilings, registry, runners
from hw_bench.cuda.atomic_points import Pattern, Point, every_pattern, paper_points
from hw_bench.cuda.shared_atomics import MAX_WARPS
from hw_bench.cuda.spec import KernelSpec
from hw_bench.cuda.steadiness import Stopping, Verdict, noise, steady_from
from hw_bench.errors import SmlabError

BENCHMARKS: Final = ("shared-atomics", "latency", "ceilings")


@dataclass(frozen=True)
class Gpu:
    """What the suite must know of the GPU."""

    name: str
    compute_capability: str
    sms: int
    max_warps: int
    l2_bytes: int

    @property
    def block_warps(self) -> int:
        """Warps of each of two blocks that fill an SM."""
        return min(MAX_WARPS, self.max_warps // 2)


@dataclass(frozen=True)
class Profile:
    """How much to measure. ``warps`` are the n (those above the GPU's most are left out), ``lanes`` the e on one word.

    c goes from 0 to n in ``cas_steps`` steps (None: all values). Loops run once with each number of ``iterations``, so that
    the difference is free of their beginning and end. ``most_bytes`` bounds the chains of loads.
    """

    name: str
    repetitions: int
    warps: tuple[int, ...]
    lanes: tuple[int, ...]
    cas_steps: int | None
    loop_lanes: tuple[int, ...]
    iterations: tuple[int, ...]
    pattern_warps: tuple[int, ...]
    links: int
    operations: int
    most_bytes: int
    stopping_s: float


_ALL: Final = tuple(range(1, 33))
PROFILES: Final = {
    "full": Profile(
        "full", 8, tuple(range(1, 65)), _ALL, None, (1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 28, 32), (64, 192),
        (1, 2, 4, 8, 16, 32, 64), 4096, 65536, 2**29, 2.0,
    ),
    "quick": Profile(
        "quick", 5, (1, 2, 4, 8, 16, 24, 32, 48, 64), (1, 2, 4, 8, 16, 32), 4, (1, 2, 4, 8, 16, 32), (64, 192),
        (1, 8, 32), 1024, 16384, 2**27, 0.3,
    ),
    "smoke": Profile(
        "smoke", 2, (1, 2), (1, 4), 1, (2,), (8, 16), (1,), 16, 64, 2**12, 0.0
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Batch:
    """One launch's rows: ``samples`` are arrays with a row for each row of the table, measurements in order."""

    name: str
    rows: list[dict[str, Any]]
    samples: dict[str, NDArray[Any]]
    about: dict[str, Any]
    wrong: list[str]


ATOMIC_COLUMNS: Final = (
    "operation", "form", "warps", "cas_warps", "lanes", "same_word", "same_bank", "iterations", "blocks", "sm",
    "samples", "steady_from", "cycles_min", "cycles_median", "cycles_max", "relative_noise", "issue_cycles_median",
)  # fmt: skip
LATENCY_COLUMNS: Final = (
    "kernel", "footprint_bytes", "stride_bytes", "links", "samples", "steady_from", "cycles_per_link_min",
    "cycles_per_link_median", "cycles_per_link_max", "relative_noise",
)  # fmt: skip
CEILING_COLUMNS: Final = (
    "kernel", "level", "blocks", "threads", "footprint_bytes", "passes", "samples", "discarded", "steady_from",
    "seconds_median", "relative_noise", "verdict", "unit", "rate_per_s", "rate_per_cycle_and_sm", "sm_cycles_median",
)  # fmt: skip
COLUMNS: Final = dict(zip(BENCHMARKS, (ATOMIC_COLUMNS, LATENCY_COLUMNS, CEILING_COLUMNS), strict=True))


def run(
    benchmark: str, profile: Profile, gpu: Gpu, done: frozenset[str], throttled: Callable[[], bool]
) -> Iterator[Batch]:
    """Measure one benchmark, batch by batch, without those that are ``done``.

    ``throttled`` is asked after each launch whose seconds count: whether the GPU was held back in it.
    """
    if benchmark == "shared-atomics":
        yield from _atomics(profile, gpu, done)
    elif benchmark == "latency":
        yield from _latency(profile, gpu, done)
    elif benchmark == "ceilings":
        yield from _ceilings(profile, gpu, done, throttled)
    else:
        raise SmlabError.at(
            "benchmark", "the suite does not run it", benchmark, "one of " + ", ".join(BENCHMARKS)
        )


def _atomics(profile: Profile, gpu: Gpu, done: frozenset[str]) -> Iterator[Batch]:
    for spec in registry.benchmark("shared-atomics").kernels():
        form = spec.name.split("/")[1]
        for iterations in (1,) if form == "batch" else profile.iterations:
            for blocks in (1, 2):
                name = f"{spec.name}/{iterations}/{blocks}"
                points = [
                    p for p in _atomic_points(spec, profile, gpu) if (p.warps > MAX_WARPS) == (blocks == 2)
                ]
                if points and name not in done:
                    yield _atomic_batch(name, spec, points, profile, gpu, iterations, blocks)


def _atomic_points(spec: KernelSpec, profile: Profile, gpu: Gpu) -> Iterable[Point]:
    operation, form = spec.name.split("/")
    warps = [n for n in profile.warps if n <= gpu.max_warps]
    if operation == "none":
        return [Point(n, Pattern(1)) for n in warps]
    steps: int | None = 2
    if operation == "add-result" and form == "batch":
        steps = profile.cas_steps
    lanes = profile.lanes if form == "batch" else profile.loop_lanes
    points = paper_points(warps, lanes, steps)
    if operation.startswith("float"):
        points = [point for point in points if point.cas_warps == 0]
    if form == "batch" or operation in {"add-result", "add"}:
        patterns = (
            every_pattern() if profile.name == "full" else [Pattern(32, 1, k) for k in (1, 2, 4, 8, 16, 32)]
        )
        points += [
            Point(n, pattern) for n in profile.pattern_warps if n <= gpu.max_warps for pattern in patterns
        ]
    return dict.fromkeys(points)


def _atomic_batch(
    name: str, spec: KernelSpec, points: list[Point], profile: Profile, gpu: Gpu, iterations: int, blocks: int
) -> Batch:
    operation, form = spec.name.split("/")
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
                        operation, form, point.warps, point.cas_warps, point.pattern.lanes, point.pattern.same_word,
                        point.pattern.same_bank, iterations, blocks, int(times.sms[at, 0]), cycles.shape[1], int(start),
                        int(steady.min()), float(np.median(steady)), int(steady.max()), round(noise(steady), 6),
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
        name, rows, {"cycles": cycles.astype(np.uint32), "issue": issue.astype(np.uint32)}, about, wrong
    )


def _latency(profile: Profile, gpu: Gpu, done: frozenset[str]) -> Iterator[Batch]:
    for spec in registry.benchmark("latency").kernels():
        if spec.name in done:
            continue
        rows, samples, wrong = [], [], []
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
                rows.append(_latency_row(spec.name, footprint, stride, profile.links, run.cycles))
                samples.append(run.cycles)
                wrong.extend([f"{footprint} bytes: {run.wrong}"] if run.wrong else [])
        else:
            run = runners.arithmetic(spec, links=profile.links, repetitions=profile.repetitions)
            rows.append(_latency_row(spec.name, 0, 0, profile.links, run.cycles))
            samples.append(run.cycles)
            wrong.extend([run.wrong] if run.wrong else [])
        yield Batch(spec.name, rows, {"cycles": np.array(samples)}, {}, wrong)


def _footprints(kernel: str, profile: Profile, gpu: Gpu) -> list[tuple[int, int]]:
    """Footprint and stride of each chain, in bytes: a line apart, and more where the chain would get too long."""
    if kernel == "shared":
        return [(4096, 4), (4096, 128)]
    first, last = (2**11, 2**20) if kernel == "cached" else (2**16, 8 * gpu.l2_bytes)
    sizes = [2**k for k in range(11, 40) if first <= 2**k <= min(last, profile.most_bytes)] or [2**11]
    return [(size, 128 if size <= 2**20 else 256 if size <= 2**26 else 1024) for size in sizes]


def _latency_row(
    name: str, footprint: int, stride: int, links: int, cycles: NDArray[np.int64]
) -> dict[str, Any]:
    start = int(steady_from(cycles)[0])
    each = cycles[start:] / links
    values = (
        name, footprint, stride, links, len(cycles), start, round(float(each.min()), 4),
        round(float(np.median(each)), 4), round(float(each.max()), 4), round(noise(each), 6),
    )  # fmt: skip
    return dict(zip(LATENCY_COLUMNS, values, strict=True))


class _Watch:
    """Decides when a series of launches is enough, and keeps apart those in which the GPU was held back."""

    def __init__(self, limit_s: float, throttled: Callable[[], bool]) -> None:
        self._stopping = Stopping(least=10 if limit_s else 1, limit_s=limit_s)
        self._throttled = throttled
        self.slow: list[bool] = []
        self.verdict: Verdict = "noisy"

    def enough(self, seconds: list[float]) -> bool:
        self.slow.append(self._throttled())
        good = [second for second, slow in zip(seconds, self.slow, strict=True) if not slow]
        found = self._stopping.verdict(good)
        self.verdict = found or self.verdict
        return found is not None

    def steady(self, seconds: tuple[float, ...]) -> tuple[int, list[float]]:
        """Where the steady part begins among the samples kept, and those samples; all, where every one was slow."""
        good = [second for second, slow in zip(seconds, self.slow, strict=True) if not slow] or list(seconds)
        start = int(steady_from(good)[0])
        return start, good[start:]


def _ceilings(
    profile: Profile, gpu: Gpu, done: frozenset[str], throttled: Callable[[], bool]
) -> Iterator[Batch]:
    for spec in registry.benchmark("ceilings").kernels():
        if spec.name in done:
            continue
        rows, samples, wrong = [], {}, []
        for level, blocks, threads, size, passes in _ceiling_runs(spec.name, profile, gpu):
            watch = _Watch(profile.stopping_s, throttled)
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
                spec.name, level, blocks, threads, footprint, passes, len(run.seconds), sum(watch.slow), start, seconds,
                round(noise(steady), 6), watch.verdict, unit, work / seconds, round(float(np.median(shares)), 4),
                float(np.median(list(spans.values()))),
            )  # fmt: skip
            rows.append(dict(zip(CEILING_COLUMNS, values, strict=True)))
            samples[f"{level}/seconds"] = np.array(run.seconds)
            samples[f"{level}/throttled"] = np.array(watch.slow)
            wrong.extend([f"{level}: {run.wrong}"] if run.wrong else [])
        yield Batch(spec.name, rows, samples, {}, wrong)


def _ceiling_runs(kernel: str, profile: Profile, gpu: Gpu) -> Iterator[tuple[str, int, int, int, int]]:
    """Level, blocks, threads of a block, operations of a thread or elements of a block's slice, and passes."""
    blocks = gpu.sms * max(1, gpu.max_warps * 32 // 1024)
    if kernel in ceilings.MIXES:
        yield "arithmetic", blocks, 32 if profile.name == "smoke" else 1024, profile.operations, 1
        return
    few = 2 if profile.name == "smoke" else 0
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

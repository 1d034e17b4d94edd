"""What each profile measures: points, sizes and grids, and about how long that takes. Needs no Numba.

A *profile* says how much; the functions here turn it into what each kernel is run on, for a GPU of given
size.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from smlab.hw_bench.cuda.kernels.points import MAX_WARPS, AtomicPoint, Pattern, every_pattern, paper_points
from smlab.hw_bench.errors import SmlabError

BENCHMARKS: Final = ("shared-atomics", "latency", "ceilings", "shared-banks", "histogram", "portability")
"""In the order in which they run: what calibration needs comes first."""


@dataclass(frozen=True)
class DeviceLimits:
    """What the suite must know of the GPU."""

    name: str
    compute_capability: str
    sms: int
    max_warps: int
    l2_bytes: int

    @property
    def architecture(self) -> str:
        """``sm_80`` and its like."""
        return "sm_" + self.compute_capability.replace(".", "")

    @property
    def block_warps(self) -> int:
        """Warps of each of two blocks that fill an SM."""
        return min(MAX_WARPS, self.max_warps // 2)


@dataclass(frozen=True)
class BenchmarkProfile:
    """How much to measure. ``warps`` are the n (those above the GPU's most are left out), ``lanes`` the e on
    one word.

    c goes from 0 to n in ``cas_steps`` steps (None: all values). Loops run once with each number of
    ``iterations``, so that the difference is free of their beginning and end. ``bursts`` are the operations
    that a warp issues without waiting, each one of the lengths that the kernel has. ``max_bytes`` bounds the
    chains of loads. Grids, sizes and contention levels of `portability` are Coyne's in the full profile. A
    series of launches ends when it is quiet, or after ``stopping_s`` seconds (``series_s`` where there are
    hundreds). A ``small`` profile, for simulators, has the fewest threads and passes that are right; one for
    a ``profiler`` launches the benchmarks' kernels alone, once a row.
    """

    name: str
    repetitions: int
    warps: tuple[int, ...]
    lanes: tuple[int, ...]
    loop_lanes: tuple[int, ...]
    iterations: tuple[int, ...]
    bursts: tuple[int, ...]
    pattern_warps: tuple[int, ...]
    bank_warps: tuple[int, ...]
    links: int
    operations: int
    max_bytes: int
    pixels: tuple[int, ...]
    image_threads: tuple[int, ...]
    grids: tuple[int, ...]
    contention: tuple[int, ...]
    contention_grids: tuple[int, ...]
    stopping_s: float
    series_s: float
    cas_steps: int | None = None
    small: bool = False
    profiler: bool = False


def _profiles() -> dict[str, BenchmarkProfile]:
    text = Path(__file__).with_name("profiles.toml").read_text(encoding="utf-8")
    tables: dict[str, dict[str, Any]] = tomllib.loads(text)
    found = {}
    for name, table in tables.items():
        values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in table.items()}
        found[name] = BenchmarkProfile(name, **values)
    return found


PROFILES: Final = _profiles()


def profile(name: str) -> BenchmarkProfile:
    """The profile of this name; `SmlabError` listing them all when there is none."""
    if name not in PROFILES:
        raise SmlabError.at("profile", "unknown", name, "one of " + ", ".join(PROFILES))
    return PROFILES[name]


SIMULATED_GRID: Final = 8
"""Blocks that contend in a simulator at most: of those that swap one word, one thread succeeds in each
round."""


def for_simulator(chosen: BenchmarkProfile) -> BenchmarkProfile:
    """The same points where every launch from the same state takes the same time: one launch each (those of
    `portability` until two are alike), and few blocks that contend."""
    grids = tuple(grid for grid in chosen.contention_grids if grid <= SIMULATED_GRID) or (SIMULATED_GRID,)
    levels = chosen.contention[:: max(1, len(chosen.contention) // 4)]
    return replace(chosen, stopping_s=0.0, series_s=0.0, contention=levels, contention_grids=grids)


ATOMIC_COLUMNS: Final = (
    "operation", "form", "warps", "cas_warps", "lanes", "same_word", "same_bank", "iterations", "blocks",
    "sm",
    "samples", "steady_from", "cycles_min", "cycles_median", "cycles_max", "relative_noise",
    "issue_cycles_median",
)  # fmt: skip
LATENCY_COLUMNS: Final = (
    "kernel", "footprint_bytes", "stride_bytes", "links", "samples", "steady_from", "cycles_per_link_min",
    "cycles_per_link_median", "cycles_per_link_max", "relative_noise",
)  # fmt: skip
CEILING_COLUMNS: Final = (
    "kernel", "level", "blocks", "threads", "footprint_bytes", "passes", "samples", "discarded",
    "steady_from",
    "seconds_median", "relative_noise", "verdict", "unit", "rate_per_s", "rate_per_cycle_and_sm",
    "sm_cycles_median",
)  # fmt: skip
IMAGE_COLUMNS: Final = (
    "kernel", "image", "pixels", "threads", "blocks", "samples", "discarded", "steady_from", "seconds_median",
    "relative_noise", "verdict", "sm_cycles_median",
)  # fmt: skip
PORTABILITY_COLUMNS: Final = (
    "kernel", "size", "blocks", "threads", "samples", "discarded", "steady_from", "initial_seconds_median",
    "seconds_median", "relative_noise", "verdict",
)  # fmt: skip
COLUMNS: Final = {
    "shared-atomics": ATOMIC_COLUMNS,
    "latency": LATENCY_COLUMNS,
    "ceilings": CEILING_COLUMNS,
    "shared-banks": ATOMIC_COLUMNS,
    "histogram": IMAGE_COLUMNS,
    "portability": PORTABILITY_COLUMNS,
}
"""The columns of each data set."""


BURST_LANES: Final = (1, 2, 4, 8, 16, 32)
"""Lanes on one word in a burst: with few, operations come faster than the unit serves them, with many no
faster than the data stage passes them. On one pipe the first tell the depth, on two the others."""
BURST_WARPS: Final = (1, 2, 3, 4)
"""Warps that issue a burst each, one a sub-core: in which order more would issue is not known."""


def loop_counts(form: str, chosen: BenchmarkProfile) -> tuple[int, ...]:
    """With which numbers of iterations a form of `shared-atomics` or `shared-banks` is launched."""
    if form == "batch":
        return (1,)
    return chosen.bursts if form == "burst" else chosen.iterations


AGAIN: Final = "/again"
"""Behind the name of a batch that was measured before."""
_MEASURED_AGAIN: Final = ("add-result/batch", "max/batch")
"""The kernel whose first batches are measured again at the end of a run, at the points of the other (fewer).
What takes longer then tells a drift of the clock or of the temperature from what distinguishes kernels."""


@dataclass(frozen=True)
class PlannedLaunch:
    """One launch of `shared-atomics` or `shared-banks`, which is a batch of this ``name``."""

    name: str
    kernel: str
    points: tuple[AtomicPoint, ...]
    iterations: int
    blocks: int


def point_launches(
    benchmark: str, kernels: Iterable[str], chosen: BenchmarkProfile, max_warps: int
) -> Iterator[PlannedLaunch]:
    """All launches of a benchmark of points in their order: one for each kernel, number of iterations and
    number of blocks on an SM."""
    banks = benchmark == "shared-banks"
    for kernel in kernels:
        points = bank_points(chosen, max_warps) if banks else atomic_points(kernel, chosen, max_warps)
        yield from _launches_of(kernel, points, chosen)
    if not banks and not chosen.profiler:
        kernel, fewer = _MEASURED_AGAIN
        for launch in _launches_of(kernel, atomic_points(fewer, chosen, max_warps), chosen):
            yield replace(launch, name=launch.name + AGAIN)


def _launches_of(
    kernel: str, points: Sequence[AtomicPoint], chosen: BenchmarkProfile
) -> Iterator[PlannedLaunch]:
    for iterations in loop_counts(kernel.split("/")[1], chosen):
        for blocks in (1, 2):
            here = tuple(p for p in points if (p.warps > MAX_WARPS) == (blocks == 2))
            if here:
                yield PlannedLaunch(f"{kernel}/{iterations}/{blocks}", kernel, here, iterations, blocks)


def atomic_points(kernel: str, chosen: BenchmarkProfile, max_warps: int) -> list[AtomicPoint]:
    """The points that a kernel of `shared-atomics` is measured at, each once."""
    operation, form = kernel.split("/")
    warps = [n for n in chosen.warps if n <= max_warps]
    if operation == "none":
        return [AtomicPoint(n, Pattern(1)) for n in warps]
    if form == "burst":
        lanes = {min(e, max(chosen.lanes)) for e in BURST_LANES}
        return [AtomicPoint(n, Pattern(e, e)) for n in BURST_WARPS if n <= max(warps) for e in sorted(lanes)]
    steps: int | None = 2
    if operation == "add-result" and form == "batch":
        steps = chosen.cas_steps
    points = paper_points(warps, chosen.lanes if form == "batch" else chosen.loop_lanes, steps)
    if operation.startswith("float"):
        points = [point for point in points if point.cas_warps == 0]
    if form == "batch" or operation in {"add-result", "add", "popc-inc"}:
        points += [
            AtomicPoint(n, pattern)
            for n in chosen.pattern_warps
            if n <= max_warps
            for pattern in _patterns(chosen, every_pattern())
        ]
    return list(dict.fromkeys(points))


def bank_points(chosen: BenchmarkProfile, max_warps: int) -> list[AtomicPoint]:
    """The points that a kernel of `shared-banks` is measured at: conflicts of each degree, broadcast, and
    fewer lanes."""
    patterns = [p for p in every_pattern() if p.lanes in {1, 8, 32}]
    points = [
        AtomicPoint(n, p) for n in chosen.bank_warps if n <= max_warps for p in _patterns(chosen, patterns)
    ]
    return list(dict.fromkeys(points))


def _patterns(chosen: BenchmarkProfile, full: Iterable[Pattern]) -> list[Pattern]:
    if chosen.name == "full":
        return list(full)
    most = 8 if chosen.small else 32
    conflicts = [Pattern(most, 1, k) for k in (1, 2, 4, 8, 16, 32) if k <= most]
    return [*conflicts, Pattern(most, most // 2), Pattern(most, 2, 2)]


@dataclass(frozen=True)
class Image:
    """One point of `histogram`: the image, and the grid that counts it."""

    kind: str
    pixels: int
    threads: int
    blocks: int


def images(chosen: BenchmarkProfile, gpu: DeviceLimits) -> Iterator[Image]:
    """Images from 32 pixels to 4 megapixels, by as many blocks as pixels need and the GPU holds at a time."""
    for kind in ("solid", "uniform"):
        for pixels in chosen.pixels:
            for threads in chosen.image_threads:
                resident = gpu.sms * max(1, min(32, gpu.max_warps * 32 // threads))
                yield Image(kind, pixels, threads, min(-(-pixels // threads), resident))


NEIGHBOUR_POINTS: Final = (2**10, 2**12, 2**14)
"""Reference points that `knn` searches. Coyne's sizes are in a picture only, so these are ours."""
PERMUTED: Final = (2**4, 2**8, 2**10, 2**12, 2**13, 2**14, 2**15, 2**16, 2**17)
"""Elements of the permuted matrix, as Coyne's Table 5.6."""
PERMUTE_GRID: Final = (2, 256)


_RESIDENT: Final = 2**18
"""Threads that a large GPU has at a time, about."""
_MOST_TRIES: Final = 2**26
"""Compare-and-swaps on one word that a launch may need: they follow each other, and take some 40 ms. The
largest grid on one word would need twenty minutes on an H100."""


def _tries(level: int, grid: int, threads: int) -> int:
    """How often a word is tried when ``level`` words are swapped by all threads: each success fails all that
    are under way."""
    each = grid * threads // level
    return each * min(each, _RESIDENT // level)


def portability_sizes(kernel: str, chosen: BenchmarkProfile) -> list[tuple[int, int, int]]:
    """Size (elements or contention level; 0 where a kernel has none), blocks and threads of each series of
    a kernel."""
    small = chosen.small
    if kernel.startswith("global-atomic"):
        threads = 32 if small else 1024
        points = [(level, grid, threads) for level in chosen.contention for grid in chosen.contention_grids]
        return [p for p in points if kernel != "global-atomic-cas" or _tries(*p) <= _MOST_TRIES]
    if kernel == "column-permutation":
        grid = (2, 16) if small else PERMUTE_GRID
        return [(size, *grid) for size in PERMUTED[: 2 if small else None]]
    if kernel == "knn":
        return [(64, 2, 32)] if small else [(size, size // 128, 128) for size in NEIGHBOUR_POINTS]
    threads = 256 if kernel.startswith("bank-conflicts") else 64 if small else 1024
    return [(0, grid, threads) for grid in chosen.grids]

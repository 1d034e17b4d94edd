"""About how long a run takes: counted from its plan, with the costs of one thing each as on the first card
that was measured, an H100.

On a GPU the kernels' own time is the smallest part of it; compiling them, making rows of samples, and
launching series until they are quiet is what takes the seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from smlab.hw_bench.cuda import registry
from smlab.hw_bench.cuda.kernels.points import AtomicPoint
from smlab.hw_bench.cuda.kernels.spec import KernelSpec
from smlab.hw_bench.cuda.measuring import plan
from smlab.hw_bench.cuda.measuring.plan import BenchmarkProfile, DeviceLimits

USUAL: Final = DeviceLimits("a current GPU", "9.0", sms=132, max_warps=64, l2_bytes=50 * 2**20)
"""Assumed where none is given: of the size of an H100."""
_COMPILE_S: Final = {"shared-atomics": 2.7, "shared-banks": 2.0, "histogram": 1.1}
_OTHERS_COMPILE_S: Final = 0.5
"""One kernel through Numba and the linker on a core of that machine."""
_LAUNCH_S: Final = 0.02
"""Arguments of one launch to the GPU and samples back; of a series, ten launches that are quiet."""
_ROW_S: Final = 2.5e-4
"""Assumed: one row's median, noise and steady part."""
_CLOCK_HZ: Final = 1.5e9
_BETWEEN_CYCLES: Final = {1: 3_000, 2: 12_000}
"""Assumed: words cleared and barriers before each repetition, with one block and with two that meet."""
_COPY_BYTES_PER_S: Final = 6e8
"""Assumed: memory filled by NumPy, brought to the GPU and back, and checked."""


@dataclass(frozen=True)
class Estimate:
    """One benchmark's part of a run. ``launches`` counts a series as one."""

    benchmark: str
    kernels: int
    launches: int
    rows: int
    seconds: float


def estimate(profile: BenchmarkProfile, gpu: DeviceLimits = USUAL) -> list[Estimate]:
    """What each benchmark takes with a profile, in the order in which they run."""
    estimates = []
    for name in plan.BENCHMARKS:
        specs = registry.benchmark(name).kernels()
        each = list(_launches(name, specs, profile, gpu))
        launches, rows = len(each), sum(count for count, _ in each)
        busy_s = sum(seconds for _, seconds in each)
        seconds = (
            len(specs) * _COMPILE_S.get(name, _OTHERS_COMPILE_S)
            + launches * _LAUNCH_S
            + rows * _ROW_S
            + busy_s
        )
        estimates.append(Estimate(name, len(specs), launches, rows, round(seconds, 1)))
    return estimates


def _launches(
    name: str, specs: Sequence[KernelSpec], profile: BenchmarkProfile, gpu: DeviceLimits
) -> Iterator[tuple[int, float]]:
    """Rows and seconds of each launch or series of a benchmark, compiling and making rows apart."""
    if name in {"shared-atomics", "shared-banks"}:
        for planned in plan.point_launches(name, [spec.name for spec in specs], profile, gpu.max_warps):
            between = _BETWEEN_CYCLES[planned.blocks]
            cycles = sum(between + planned.iterations * _round_cycles(p) for p in planned.points)
            yield len(planned.points), profile.repetitions * cycles / gpu.sms / _CLOCK_HZ
        return
    for spec in specs:
        yield from _series(name, spec, profile, gpu)


def _series(
    name: str, spec: KernelSpec, profile: BenchmarkProfile, gpu: DeviceLimits
) -> list[tuple[int, float]]:
    if name == "latency":
        if spec.name in {"cached", "uncached"}:
            last = min(profile.max_bytes, 8 * gpu.l2_bytes if spec.name == "uncached" else 2**20)
            sizes = [2**k for k in range(11 if spec.name == "cached" else 16, 40) if 2**k <= last]
            return [(1, 2 * size / _COPY_BYTES_PER_S / 4 + 0.05) for size in sizes]
        return [(1, profile.links * profile.repetitions * 3e-6)]
    if name == "ceilings":
        if not spec.name.startswith("global"):
            return [(1, 0.0)]
        copied = (0, gpu.l2_bytes, 12 * gpu.l2_bytes)
        return [(1, size / _COPY_BYTES_PER_S) for size in copied]
    if name == "histogram":
        images = list(plan.images(profile, gpu))
        return [(1, image.pixels * 4 / _COPY_BYTES_PER_S) for image in images]
    # A hundred launches at least, of some 0.1 ms from Python.
    return [(1, max(profile.series_s, 0.01)) for _ in plan.portability_sizes(spec.name, profile)]


def _round_cycles(point: AtomicPoint) -> float:
    """A round of one operation of each warp, at some 4 cycles and one a pass (published for V100 and
    A100)."""
    return point.warps * (4.0 + point.pattern.same_word * point.pattern.same_bank)

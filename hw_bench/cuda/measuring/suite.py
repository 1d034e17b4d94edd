"""The measuring suite: one benchmark after the other, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator

from smlab.hw_bench.cuda.measuring.batch import Batch, Throttled
from smlab.hw_bench.cuda.measuring.benchmarks import ceilings, histogram, latency, points, portability
from smlab.hw_bench.cuda.measuring.plan import BENCHMARKS, BenchmarkProfile, DeviceLimits
from smlab.hw_bench.errors import SmlabError


def run(
    benchmark: str, profile: BenchmarkProfile, gpu: DeviceLimits, done: frozenset[str], throttled: Throttled
) -> Iterator[Batch]:
    """Measure one benchmark, batch by batch, without those that are ``done``."""
    if benchmark in {"shared-atomics", "shared-banks"}:
        yield from points.measure(benchmark, profile, gpu, done)
    elif benchmark == "latency":
        yield from latency.measure(profile, gpu, done, throttled)
    elif benchmark == "ceilings":
        yield from ceilings.measure(profile, gpu, done, throttled)
    elif benchmark == "histogram":
        yield from histogram.measure(profile, gpu, done, throttled)
    elif benchmark == "portability":
        yield from portability.measure(profile, gpu, done, throttled)
    else:
        raise SmlabError.at(
            "benchmark", "the suite does not run it", benchmark, "one of " + ", ".join(BENCHMARKS)
        )

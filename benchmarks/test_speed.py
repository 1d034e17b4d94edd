"""Speeds with pytest-benchmark: ``make bench``.

Each group holds one piece of work done by both engines, so the figures in brackets are ratios within one run.
Runs are kept under ``.benchmarks/`` and the next run compares with the last. Not part of the tests: a busy
machine is not a failure.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from benchmarks.engines import MACHINE, atomics_kernel, image, mix
from smlab.sim import Record, compiled, reference
from smlab.sim.compiled.service_tables import batch_cycles, looped_cycles
from smlab.sim.lowering import LoweredKernel

ENGINES = {"compiled": partial(compiled.run, threads=1), "simpy": reference.run}

SAME_WORK: dict[str, Callable[[], LoweredKernel]] = {
    "atomics, 32 warps x 2,000, conflict-free": lambda: atomics_kernel(2000, 1),
    "atomics, 32 warps x 2,000, 32-way": lambda: atomics_kernel(2000, 32),
    "mix of shared loads, arithmetic and atomics": lambda: mix(500),
}
COMPILED_ONLY: dict[str, Callable[[], LoweredKernel]] = {
    "mix x 500 on 80 SMs": lambda: mix(500, 80),
    "4-megapixel image on 80 SMs": image,
}


def run(benchmark: Callable[..., object], lowered: LoweredKernel, engine: str) -> None:
    ENGINES[engine](lowered, Record.TOTALS)  # compiled, or loaded from the cache
    rounds = 3 if engine == "compiled" else 1
    result = benchmark.pedantic(ENGINES[engine], args=(lowered, Record.TOTALS), rounds=rounds)  # type: ignore[attr-defined]
    instructions = lowered.kernel.warp_instructions
    assert result.warp_instructions == instructions
    benchmark.extra_info["warp_instructions"] = instructions  # type: ignore[attr-defined]
    benchmark.extra_info["per_second"] = instructions / benchmark.stats.stats.min  # type: ignore[attr-defined]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("work", SAME_WORK)
def test_both_engines(benchmark: Callable[..., object], work: str, engine: str) -> None:
    benchmark.group = work  # type: ignore[attr-defined]
    run(benchmark, SAME_WORK[work](), engine)


@pytest.mark.parametrize("work", COMPILED_ONLY)
def test_whole_gpu(benchmark: Callable[..., object], work: str) -> None:
    benchmark.group = work  # type: ignore[attr-defined]
    run(benchmark, COMPILED_ONLY[work](), "compiled")


@pytest.mark.parametrize("form", [batch_cycles, looped_cycles], ids=["batch", "looped"])
def test_full_table(benchmark: Callable[..., object], form: Callable[..., object]) -> None:
    points = np.array([(n, e, c) for n in range(1, 65) for e in range(1, 33) for c in range(n + 1)]).T
    form(MACHINE, "add", 1, 1, 0)
    benchmark.group = "table of 68,608 points"  # type: ignore[attr-defined]
    cycles = benchmark.pedantic(form, args=(MACHINE, "add", *points), rounds=3)  # type: ignore[attr-defined]
    assert cycles.shape == (68_608,)
    assert (cycles > 0).all()

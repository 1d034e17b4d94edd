"""Dong & Pai's utilization estimate on simulated closed workloads, where the exact utilization is known."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.random import SeedSequence, default_rng
from numpy.typing import NDArray

from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.models import ServiceTable, estimate_utilization, read_atomic_counters
from smlab.sim import Duration, Record, simulate
from smlab.validation.laws.closed_system import (
    ClosedWorkload,
    ObservedWorkload,
    closed_kernel,
    draw_workload,
    observe,
)
from smlab.validation.method.metrics import points_table
from smlab.validation.method.statistics import binomial_interval
from smlab.validation.papers.claims.quantities.service_table import full_table
from smlab.validation.papers.claims.registry import Observed, quantity
from smlab.validation.papers.judging import Scale

WORKLOADS, STREAM = 300, 21
GAIN = 1.10
"""A kernel whose unit was the bottleneck runs at least this much faster with a unit twice as fast."""

BUSY = 0.8


@dataclass(frozen=True)
class Estimates:
    """By workload: exact utilization, the paper's estimate, the same with the exact n in the place of
    occupancy, and n."""

    runs: tuple[ObservedWorkload, ...]
    exact: NDArray[np.float64]
    published: NDArray[np.float64]
    with_exact_n: NDArray[np.float64]
    n_estimated: NDArray[np.float64]
    n_exact: NDArray[np.float64]


@functools.cache
def _estimates(gpu: str) -> Estimates:
    description = load_gpu(gpu)
    runs = observe(description, WORKLOADS, STREAM, "compiled")
    table = ServiceTable(full_table(gpu))
    published, exact_n = [], []
    for run in runs:
        counters = read_atomic_counters(run.counters, run.max_warps)
        (estimate,) = estimate_utilization(counters, table)
        published.append(estimate)
        share = estimate.cas_jobs / estimate.jobs
        n = min(max(run.n_busy_mean, 1e-9), table.n_max)
        service = float(table.service_cycles(n, estimate.e, n * share))
        exact_n.append(estimate.jobs * service / estimate.elapsed_cycles)
    return Estimates(
        runs=tuple(runs),
        exact=np.array([r.utilization for r in runs]),
        published=np.array([e.utilization for e in published]),
        with_exact_n=np.array(exact_n),
        n_estimated=np.array([e.n for e in published]),
        n_exact=np.array([r.n_busy_mean for r in runs]),
    )


def _share(count: int, of: int) -> Observed:
    interval = binomial_interval(count, of)
    return Observed(100 * count / of, 100 * interval.low, 100 * interval.high, f"{count} of {of} workloads")


@quantity("estimator.share_above_100", unit="%", evidence="simulated", scale=Scale.SHARE)
def share_above_100(gpu: str) -> Observed:
    """How many of the estimates exceed 100 %."""
    found = _estimates(gpu)
    return _share(int((found.published > 1).sum()), len(found.exact))


@quantity("estimator.exact_above_100", unit="workloads", evidence="simulated")
def exact_above_100(gpu: str) -> Observed:
    """How many of the exact utilizations exceed 100 %."""
    return Observed.exactly((_estimates(gpu).exact > 1).sum())


@quantity("estimator.bias_of_n", unit="times", evidence="simulated", scale=Scale.RATIO)
def bias_of_n(gpu: str) -> Observed:
    """Geometric mean of the estimated n (mean active warps) over the exact one while the unit is busy."""
    found = _estimates(gpu)
    ratios = np.log(found.n_estimated / found.n_exact)
    error = 1.96 * ratios.std(ddof=1) / np.sqrt(len(ratios))
    mean = ratios.mean()
    return Observed(float(np.exp(mean)), float(np.exp(mean - error)), float(np.exp(mean + error)))


@quantity("estimator.bias_of_n_where_above_100", unit="times", evidence="simulated", scale=Scale.RATIO)
def bias_of_n_where_above_100(gpu: str) -> Observed:
    """The same over the workloads whose estimate exceeds 100 %: there n would have to be overestimated."""
    found = _estimates(gpu)
    over = found.published > 1
    ratio = float(np.exp(np.log(found.n_estimated[over] / found.n_exact[over]).mean()))
    return Observed.exactly(
        ratio, f"{int(over.sum())} workloads, exact utilization of the least {found.exact[over].min():.2f}"
    )


@quantity("estimator.above_100_left_with_exact_n", unit="%", evidence="simulated", scale=Scale.SHARE)
def above_100_left_with_exact_n(gpu: str) -> Observed:
    """Of the estimates above 100 %, the share that is still above when the exact n takes the place of the
    estimate."""
    found = _estimates(gpu)
    over = found.published > 1
    return _share(int((found.with_exact_n[over] > 1).sum()), int(over.sum()))


@quantity("estimator.mean_error", unit="points", evidence="simulated", scale=Scale.ERROR)
def mean_error(gpu: str) -> Observed:
    """Mean absolute error of the estimated utilization, in percentage points."""
    found = _estimates(gpu)
    table = points_table(found.published, found.exact)
    return Observed(
        table.mean_points, table.mean_low, table.mean_high, f"95th percentile {table.p95_points:.0f} points"
    )


def _faster(gpu: Gpu) -> Gpu:
    keys = [f"atomic.{op}.{part}_interval_cycles" for op in ("add", "cas") for part in ("base", "pass")]
    return gpu.with_values({k: gpu.number(k) / 2 for k in keys}, source="assumed: a unit twice as fast")


@quantity("estimator.share_of_busy_that_gain", unit="%", evidence="simulated", scale=Scale.SHARE)
def share_of_busy_that_gain(gpu: str) -> Observed:
    """Of the workloads that keep the unit busy 80 % of the time and more, those that a unit twice as fast
    speeds up by 10 %."""
    description = load_gpu(gpu)
    slow, fast = description, _faster(description)
    rng = default_rng(SeedSequence([STREAM, 1]))
    gained = busy = 0
    while busy < 80:
        w: ClosedWorkload = draw_workload(rng, 64)
        kernel = closed_kernel(
            w.warps,
            max(20, 600 // w.warps),
            Duration(w.think_cycles, w.distribution),
            lanes=w.lanes,
            cas_warps=w.cas_warps,
        )
        before = simulate(kernel, slow, keep=Record.TOTALS, seed=w.seed)
        if before.atomic.utilization < BUSY:
            continue
        after = simulate(kernel, fast, keep=Record.TOTALS, seed=w.seed)
        busy += 1
        gained += before.cycles >= GAIN * after.cycles
    return _share(gained, busy)

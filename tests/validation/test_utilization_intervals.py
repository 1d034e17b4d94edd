"""The shipped intervals and the closed network on simulated kernels that nothing was fitted to, by their
counters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest
from numpy.random import SeedSequence, default_rng
from numpy.typing import NDArray

from atomic_kernels import MAX_JOBS, MIN_JOBS, drawn, log_uniform
from judging_families import JUDGES
from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.hw_bench.profiles import AtomicQuantities, as_profile, atomic_quantities
from smlab.hw_bench.profiles.counter_table import WHOLE_GPU, CounterTable
from smlab.models.utilization.trust_map import (
    CLOSED,
    OCCUPANCY,
    AtomicLoad,
    UtilizationEstimates,
    estimate_all,
    shipped_map,
)
from smlab.sim.compiled import run
from smlab.sim.counters import counter_table
from smlab.sim.lowering import lower
from smlab.sim.machine import machine_from
from smlab.sim.reference import Record
from smlab.sim.result import SimResult
from smlab.sim.workloads.workload import Duration
from smlab.validation.calibrate.interval_fit import steady_state_cycles
from smlab.validation.laws.closed_system import closed_kernel, draw_workload
from smlab.validation.service_tables import ServiceTables, tables_of

GPU = load_gpu("v100")
MAPPED = ("v100", "a100-40")
"""The cards whose alternatives the shipped maps were fitted on."""


@pytest.fixture(scope="module")
def tables() -> ServiceTables:
    """As a user's second command finds them: in the cache, by a digest of the simulator."""
    return tables_of(GPU)


def fair_share(gpu: Gpu, sms: int) -> Gpu:
    """``gpu`` with the part of L2's and DRAM's bandwidth that falls to ``sms`` of its SMs when all of them
    run."""
    share = sms / gpu.integer("gpu.sms")
    keys = ("l2.bandwidth_bytes_per_s", "dram.bandwidth_bytes_per_s", "dram.sustained_bandwidth_bytes_per_s")
    values = {key: gpu.number(key) * share for key in keys if gpu.has(key)}
    return gpu.with_values(values, source="assumed: the share of the simulated SMs")


def whole_kernels(results: Iterable[SimResult]) -> tuple[AtomicQuantities, NDArray[np.float64]]:
    """What a profile of whole kernels tells, and the exact utilization over the active cycles, (kernels,)."""
    rows, exact = [], []
    for launch, result in enumerate(results):
        if not sum(s.atomic_completions for s in result.sms):
            continue
        rows += [row for row in counter_table(result, launch).rows() if row.sm == WHOLE_GPU]
        busy, active = (
            sum(getattr(s, name) for s in result.sms) for name in ("atomic_busy_cycles", "active_cycles")
        )
        exact.append(busy / active)
    return atomic_quantities(as_profile(CounterTable.from_rows(rows), "simulated"), GPU), np.array(exact)


def estimates(q: AtomicQuantities, tables: ServiceTables) -> UtilizationEstimates:
    """All estimators on the counters of whole kernels."""
    load = AtomicLoad(
        jobs=q.jobs / q.sms,
        active_cycles=q.active_cycles,
        warps=np.minimum(q.mean_active_warps, tables.looped.n_max),
        e=q.wavefronts / q.jobs,
        cas_share=q.cas_jobs / q.jobs,
        peak_warps=np.minimum(q.peak_warps, tables.looped.n_max),
    )
    return estimate_all(load, tables.looped, tables.batch, tables.row)


def test_shipped_intervals_cover_families_they_were_not_fitted_to(tables: ServiceTables) -> None:
    results = []
    for number, draw in enumerate(JUDGES):
        for i in range(16):
            stream = SeedSequence(77, spawn_key=(100 + number, i))
            kernel, seed = drawn(draw, machine_from(GPU), stream)
            share = machine_from(fair_share(GPU, kernel.sms))
            results.append(run(lower(kernel, share, seed), Record.TOTALS, threads=1))
    quantities, exact = whole_kernels(results)
    told = estimates(quantities, tables)
    interval = shipped_map().interval(told, 0.9, CLOSED)
    covered = (interval.low - 1e-9 <= exact) & (exact <= interval.high + 1e-9)
    assert len(covered) > 60
    assert 75 <= 100 * covered.mean() <= 99  # 64 kernels: a smoke test
    assert (told.utilization[OCCUPANCY] > 1).any()


def test_the_closed_network_holds_where_warps_are_independent(tables: ServiceTables) -> None:
    """Closed systems of warps that think for exponential times, which it is made for."""
    rng = default_rng(SeedSequence(9, spawn_key=(101,)))
    machine = machine_from(GPU)
    results = []
    for _ in range(60):
        w = replace(draw_workload(rng, machine.max_warps), distribution="exponential")
        rounds = max(20, round(log_uniform(rng, MIN_JOBS, MAX_JOBS) / w.warps))
        think = Duration(w.think_cycles, w.distribution)
        kernel = closed_kernel(w.warps, rounds, think, lanes=w.lanes, cas_warps=w.cas_warps)
        results.append(run(lower(kernel, machine, w.seed), Record.TOTALS, threads=1))
    found, exact = whole_kernels(results)
    off = 100 * np.abs(estimates(found, tables).utilization[CLOSED] - exact)
    assert off.mean() < 1.2  # of 2,000 it was 0.6
    without = replace(found, peak_warps=found.mean_active_warps)
    assert off.mean() < 100 * np.abs(estimates(without, tables).utilization[CLOSED] - exact).mean()


def test_a_second_pipe_kept_twice_as_long_is_the_same_at_eight_warps_and_not_at_one() -> None:
    readings = {a.name: gpu for a, gpu in GPU.variants()}
    lanes = (1, 8, 32)
    (one, two), (alone, beside) = (
        [steady_state_cycles(readings[name], "add", lanes, warps, 50) for name in ("occupancy", "two-pipes")]
        for warps in (8, 1)
    )
    np.testing.assert_allclose(two, one, rtol=0.02)
    assert 1.3 < beside[-1] / alone[-1] < 2.1


def test_the_readings_of_all_cards_with_a_map_have_one_name_and_weight_each() -> None:
    """Else the maps could not speak of both."""
    told = {tuple((a.name, a.weight) for a, _ in load_gpu(name).variants()) for name in MAPPED}
    assert len(told) == 1
    assert [name for name, _ in told.pop()] == ["occupancy", "rounds", "two-pipes"]

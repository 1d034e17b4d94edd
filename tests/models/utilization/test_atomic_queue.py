"""The utilization model of Dong & Pai, Tables 1 and 2, on numbers worked by hand and on its invariants."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.profiles import read_profile
from smlab.hw_bench.profiles.counter_table import WHOLE_GPU, CounterRow, CounterTable
from smlab.models.utilization.atomic_queue import (
    AtomicCounters,
    UtilizationEstimate,
    estimate_utilization,
    read_atomic_counters,
)
from smlab.models.utilization.service_table import ServiceTable
from smlab.sim import atomics, counter_table, simulate

WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_atom.sum"
LANES = "smsp__thread_inst_executed_op_shared_atom.sum"


def linear_table(n_max: int = 64, e_max: int = 32, cas: bool = True) -> ServiceTable:
    """T = n (3 + e) + 2 c + 20: by hand S(n, e, c) = 3 + e + 2 c / n + 20 / n for n >= 1."""
    axes = [np.arange(1, n_max + 1), np.arange(1, e_max + 1), np.arange(n_max + 1 if cas else 1)]
    n, e, c = np.meshgrid(*axes, indexing="ij")
    values = np.where(c <= n, n * (3.0 + e) + 2 * c + 20, np.nan)
    attrs = {"gpu": "Titan V", "op": "add", "form": "batch", "kind": "assumed"}
    return ServiceTable(
        xr.DataArray(values, dims=("n", "e", "c"), coords=dict(zip("nec", axes, strict=True)), attrs=attrs)
    )


TABLE = linear_table()


def counter_rows(
    sms: dict[int, tuple[float, float, float, float]], kernel: str = "hist", launch: int = 0
) -> list[CounterRow]:
    """Rows as a profiler gives them, from (N_f, N_c, cycles, occupancy) for each SM."""
    units = {"shared_atom": "inst", "shared_atom_cas": "inst", "active_cycles": "cycle"}
    units["achieved_occupancy"] = "ratio"
    return [
        CounterRow(kernel, launch, sm, name, value, unit)
        for sm, values in sms.items()
        for (name, unit), value in zip(units.items(), values, strict=True)
    ]


def whole_gpu(counter: str, value: float, kernel: str = "hist", launch: int = 0) -> CounterRow:
    return CounterRow(kernel, launch, WHOLE_GPU, counter, value, "inst")


def counters(
    fao: list[float], cas: list[float], cycles: list[float], warps: list[float], operations: float
) -> AtomicCounters:
    columns = (np.array(column, dtype=np.float64) for column in (fao, cas, cycles, warps))
    return AtomicCounters(np.arange(len(fao)), *columns, operations=operations)


TWO_SMS = counter_rows({0: (100, 0, 2000, 0.5), 3: (50, 50, 1000, 0.25)})


def test_tables_1_and_2_by_hand() -> None:
    """Two SMs of 64 warps; O = 1600 passes, sum N = 200, so e = 8.

    SM 0: N = 100, n = 0.5 * 64 = 32, c = 0, S = 3 + 8 + 20/32 = 11.625, B = 1162.5, U = 1162.5 / 2000 =
    0.58125. SM 3: N = 100, n = 0.25 * 64 = 16, c = 16 * 50/100 = 8, S = 3 + 8 + 2 * 8/16 + 20/16 = 13.25, B =
    1325, U = 1.325.
    """
    table = CounterTable.from_rows([*TWO_SMS, whole_gpu(WAVEFRONTS, 1600), whole_gpu(LANES, 6400)])
    read = read_atomic_counters(table, max_warps=64)
    assert read.sm.tolist() == [0, 3]
    assert read.jobs.tolist() == [100, 100]
    assert read.operations == 1600
    first, second = estimate_utilization(read, TABLE)
    assert first == UtilizationEstimate(0, 100, 0, 32, 8, 0, 11.625, 1162.5, 2000, 0.58125)
    assert second.sm == 3
    assert (second.n, second.e, second.c) == (16, 8, 8)
    assert second.service_cycles == pytest.approx(13.25)
    assert second.busy_cycles == pytest.approx(1325)
    assert second.utilization == pytest.approx(1.325)  # above 100 %, as published: not clipped

    by_lanes = estimate_utilization(read_atomic_counters(table, 64, e_from="lanes"), TABLE)
    assert by_lanes[0].e == 32
    assert by_lanes[0].utilization == pytest.approx(100 * (3 + 32 + 20 / 32) / 2000)


def test_below_one_warp_the_service_time_is_that_of_one_job() -> None:
    (one,) = estimate_utilization(counters([30], [10], [4000], [0.5], 40 * 4), TABLE)
    assert (one.n, one.c) == (0.5, 0.125)
    assert one.service_cycles == pytest.approx(3 + 4 + 2 * 0.25 + 20)


def test_sms_without_jobs_have_utilization_0() -> None:
    busy, idle, off = estimate_utilization(
        counters([10, 0, 0], [0, 0, 0], [100, 100, 0], [8, 70, 0], 10), TABLE
    )
    assert busy.utilization > 0
    for sm in (idle, off):
        assert (sm.jobs, sm.busy_cycles, sm.utilization, sm.c) == (0, 0, 0, 0)
        assert math.isnan(sm.service_cycles)
    assert (idle.n, idle.e) == (70, 1)


def test_a_kernel_without_atomics_has_utilization_0() -> None:
    (sm,) = estimate_utilization(counters([0], [0], [100], [8], 0), TABLE)
    assert (sm.busy_cycles, sm.utilization) == (0, 0)
    assert math.isnan(sm.e)


@st.composite
def launches(draw: st.DrawFn) -> AtomicCounters:
    """Counters of 1 to 5 SMs, some idle, with e inside the table."""
    count = draw(st.integers(1, 5))
    numbers = st.lists(st.integers(0, 10_000), min_size=count, max_size=count)
    fao, cas = draw(numbers), draw(numbers)
    cycles = draw(st.lists(st.integers(1, 10**6), min_size=count, max_size=count))
    warps = draw(st.lists(st.floats(0.01, 64), min_size=count, max_size=count))
    e = draw(st.floats(1, 32))
    jobs = sum(fao) + sum(cas)
    return counters(fao, cas, cycles, warps, min(max(e * jobs, jobs), 32 * jobs))


@given(launches())
def test_every_estimate_follows_table_2(launch: AtomicCounters) -> None:
    for k, sm in enumerate(estimate_utilization(launch, TABLE)):
        assert sm.jobs == launch.fao_jobs[k] + launch.cas_jobs[k]
        assert 0 <= sm.c <= sm.n == launch.mean_active_warps[k]
        assert sm.utilization * sm.elapsed_cycles == pytest.approx(sm.busy_cycles, rel=1e-12)
        if sm.jobs:
            assert sm.e * launch.jobs.sum() == pytest.approx(launch.operations, rel=1e-12)
            assert sm.c == pytest.approx(sm.n * sm.cas_jobs / sm.jobs, rel=1e-12)
            assert sm.busy_cycles == pytest.approx(sm.jobs * sm.service_cycles, rel=1e-12)
            service = 3 + sm.e + 2 * sm.c / sm.n + 20 / max(sm.n, 1)
            assert sm.service_cycles == pytest.approx(service, rel=1e-9)


@given(launches(), st.integers(2, 9))
def test_utilization_scales_with_jobs_and_with_time(launch: AtomicCounters, k: int) -> None:
    """k times the work in k times the cycles is the same utilization; in the same cycles it is k times it."""

    def scaled(jobs: int, cycles: int) -> list[float]:
        times = AtomicCounters(
            launch.sm,
            launch.fao_jobs * jobs,
            launch.cas_jobs * jobs,
            launch.elapsed_cycles * cycles,
            launch.mean_active_warps,
            launch.operations * jobs,
        )
        return [sm.utilization for sm in estimate_utilization(times, TABLE)]

    once = scaled(1, 1)
    np.testing.assert_allclose(scaled(k, k), once, rtol=1e-9)
    np.testing.assert_allclose(scaled(k, 1), np.multiply(once, k), rtol=1e-9)


@given(st.floats(0.001, 64), st.integers(1, 10**9))
def test_all_compare_and_swap_stays_on_the_diagonal(warps: float, jobs: int) -> None:
    (sm,) = estimate_utilization(counters([0], [jobs], [1000], [warps], jobs), TABLE)
    assert sm.c == sm.n


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            ([10], [0], [0], [8], 10),
            r"SM 0: elapsed_cycles: unusable counter value \(got 0.0; expected more than 0",
        ),
        (([10], [0], [100], [0], 10), "SM 0: mean_active_warps: unusable counter value"),
        (([1, -5], [1, 10], [9, 9], [8, 8], 10), r"SM 1: fao_jobs: unusable counter value \(got -5.0"),
        (([1], [-1], [9], [8], 10), "SM 0: cas_jobs"),
        (([1], [float("nan")], [9], [8], 10), "SM 0: cas_jobs"),
        (([1], [0], [float("inf")], [8], 10), "SM 0: elapsed_cycles"),
        (([1], [0], [9], [8], -10), "operations: unusable count"),
        (([0], [0], [9], [8], 10), "operations: atomic operations but no atomic job"),
        (([1], [0, 0], [9], [8], 10), "cas_jobs: one value an SM is needed"),
    ],
)
def test_impossible_counters_are_refused(values: tuple[list[float], ...], message: str) -> None:
    with pytest.raises(SmlabError, match=message):
        counters(*values)


@pytest.mark.parametrize(
    ("values", "table", "message"),
    [
        (
            ([9, 9], [0, 0], [9, 9], [8, 64.5], 18),
            TABLE,
            r"SM 1: mean_active_warps: outside .*64.5; expected n = 0 .. 64",
        ),
        (([9], [0], [9], [8], 9 * 33), TABLE, r"e: outside the table \(got 33.0; expected 1 .. 32\)"),
        (([9], [0], [9], [8], 0), TABLE, r"e: outside the table \(got 0.0"),
        (([8], [1], [9], [8], 9), linear_table(8, 2, cas=False), r"c: outside the table .*expected 0 .. 0"),
    ],
)
def test_what_the_table_does_not_know_is_refused(
    values: tuple[list[float], ...], table: ServiceTable, message: str
) -> None:
    with pytest.raises(SmlabError, match=message):
        estimate_utilization(counters(*values), table)


def test_a_table_without_cas_serves_kernels_without_cas() -> None:
    (sm,) = estimate_utilization(counters([10], [0], [1000], [4], 20), linear_table(8, 2, cas=False))
    assert sm.service_cycles == pytest.approx(3 + 2 + 20 / 4)


def test_kernels_and_launches_are_kept_apart() -> None:
    rows = [*TWO_SMS, whole_gpu(WAVEFRONTS, 1600)]
    rows += [*counter_rows({0: (7, 0, 10, 1.0)}, "other"), whole_gpu(WAVEFRONTS, 7, "other")]
    rows += [*counter_rows({0: (9, 0, 10, 1.0)}, launch=1), whole_gpu(WAVEFRONTS, 9, launch=1)]
    table = CounterTable.from_rows(rows)
    assert read_atomic_counters(table, 64, kernel="other").jobs.tolist() == [7]
    assert read_atomic_counters(table, 64, kernel="hist").jobs.tolist() == [100, 100]
    assert read_atomic_counters(table, 64, launch=1).jobs.tolist() == [9]
    with pytest.raises(
        SmlabError, match=r"launch 0: several kernels, one must be named \(got \['hist', 'other'\]\)"
    ):
        read_atomic_counters(table, 64)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "launch 0 of kernel 'hist': no counter in the profile"),
        (TWO_SMS, r"SM 0: counter 'thread_inst_executed' is missing \(collect it with: "),
        ([*TWO_SMS[:-2], whole_gpu(WAVEFRONTS, 1600)], "SM 3: counter 'elapsed_cycles_sm' is missing"),
        (
            [r for r in TWO_SMS if r.counter != "shared_atom_cas"],
            "SM 0: counter 'shared_atom' is missing",
        ),
        (
            [*TWO_SMS, replace(TWO_SMS[0], value=7.0)],
            r"counter 'shared_atom' of launch 0 is given twice, .* \(got 7.0; expected 100.0 again\)",
        ),
        (
            counter_rows({5: (1, 0, 9, 87.5)}),
            r"achieved_occupancy is no share of the warps \(got 87.5; expected 0 .. 1\)",
        ),
        (counter_rows({5: (1, 0, 9, float("nan"))}), "'achieved_occupancy' has an impossible value"),
        (
            [*counter_rows({5: (1, 0, 0, 1.0)}), whole_gpu(WAVEFRONTS, 1)],
            "SM 5: jobs without cycles",
        ),
        ([replace(r, unit="byte") for r in TWO_SMS], "'shared_atom' is in another unit than expected"),
    ],
)
def test_bad_counter_tables_are_refused(rows: list[CounterRow], message: str) -> None:
    with pytest.raises(SmlabError, match=message):
        read_atomic_counters(CounterTable.from_rows(rows), 64, kernel="hist")


def test_a_launch_without_atomics_has_idle_sms() -> None:
    rows = [*counter_rows({0: (0, 0, 100, 0.5), 1: (0, 0, 90, 0.5)}), whole_gpu(WAVEFRONTS, 0)]
    found = estimate_utilization(read_atomic_counters(CounterTable.from_rows(rows), 64), TABLE)
    assert [(sm.sm, sm.jobs, sm.utilization) for sm in found] == [(0, 0, 0), (1, 0, 0)]


def test_the_whole_gpus_counters_are_of_its_mean_sm() -> None:
    """Two equal SMs, counted one by one and together: the same estimate."""
    rows = counter_rows({0: (100, 40, 2000, 0.5), 1: (100, 40, 2000, 0.5)})
    one_by_one = CounterTable.from_rows([*rows, whole_gpu(WAVEFRONTS, 2240)])
    joint = {
        "smsp__inst_executed_op_shared_atom.sum": (280, "inst"),
        "smsp__inst_executed_op_shared_atom_dot_cas.sum": (80, "inst"),
        WAVEFRONTS: (2240, ""),
        "sm__cycles_elapsed.max": (2500, "cycle"),
        "sm__cycles_active.avg": (2000, "cycle"),
        "sm__warps_active.avg.per_cycle_active": (32, "warp"),
        "device__attribute_multiprocessor_count": (2, ""),
    }
    whole = CounterTable.from_rows(
        CounterRow("hist", 0, WHOLE_GPU, name, value, unit) for name, (value, unit) in joint.items()
    )
    (mean,) = estimate_utilization(read_atomic_counters(whole), TABLE)
    first, second = estimate_utilization(read_atomic_counters(one_by_one, 64), TABLE)
    assert mean == replace(first, sm=WHOLE_GPU)
    assert second == replace(first, sm=1)


def test_a_run_and_its_file_are_read_alike(tmp_path: Path) -> None:
    result = simulate(atomics(warps=8, blocks=3, cas_warps=3, lanes=16, iterations=9), load_gpu("v100"))
    counter_table(result).write_csv(tmp_path / "counters.csv")
    of_run, of_file = (
        estimate_utilization(read_atomic_counters(source, 64), TABLE)
        for source in (counter_table(result), read_profile(tmp_path / "counters.csv"))
    )
    assert of_run == of_file
    assert of_run[0].utilization > 0


def test_bad_choices_are_refused() -> None:
    table = CounterTable.from_rows([*TWO_SMS, whole_gpu(WAVEFRONTS, 1600)])
    with pytest.raises(
        SmlabError, match=r"e_from: unknown choice \(got 'threads'; expected wavefronts or lanes"
    ):
        read_atomic_counters(table, 64, e_from="threads")
    with pytest.raises(SmlabError, match="max_warps: not a number of warps"):
        read_atomic_counters(table, 0)
    with pytest.raises(SmlabError, match="no counter tells the lanes of shared-memory atomics"):
        read_atomic_counters(table, 64, e_from="lanes")

"""What Dong & Pai report of their measured table, on the simulated table for V100, all n to 64 and all e
to 32."""

import numpy as np
import pytest
import xarray as xr

from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.sim.machine import machine_from
from smlab.sim.service_table import looped_cycles, service_table
from smlab.validation.papers.judging import PaperVerdict
from smlab.validation.papers.table_facts import largest_bend_in_c, largest_rise_with_n, table_facts


@pytest.fixture(scope="module")
def table() -> xr.DataArray:
    """T(n, e, c) for every n, e and c."""
    return service_table(load_gpu("v100"))


def fetch_and_op(table: xr.DataArray) -> np.ndarray:
    values: np.ndarray = table.sel(c=0).values
    return values


def test_the_table_is_whole(table: xr.DataArray) -> None:
    assert table.shape == (64, 32, 65)
    assert int(np.isfinite(table.values).sum()) == 68_608


def test_s_falls_with_n(table: xr.DataArray) -> None:
    t, n = fetch_and_op(table), table.n.values
    s = t / n[:, None]
    assert s.shape == (64, 32)
    for k in range(1, 33):
        assert (s[2 * k - 1] < s[k - 1]).all()
    # From n to n + 1 it falls too, but for the rounding of T to whole cycles.
    assert largest_rise_with_n(t, n) < 1


def test_s_rises_with_e(table: xr.DataArray) -> None:
    assert (np.diff(fetch_and_op(table), axis=1) > 0).all()


def test_t_is_nearly_linear_in_c_within_one_block(table: xr.DataArray) -> None:
    one_block = table.sel(n=slice(1, 32), c=slice(0, 32))
    assert one_block.shape == (32, 32, 33)
    cycles, percent = largest_bend_in_c(one_block.values, one_block.n.values)
    assert cycles <= 3  # the path adds a cycle or two: latencies that differ by one, sub-cores in turn
    assert percent <= 3


def test_the_spread_between_best_and_worst_pattern_exceeds_ten_times(table: xr.DataArray) -> None:
    s = table.values / table.n.values[:, None, None]
    assert np.nanmax(s) / np.nanmin(s) > 10
    fetch = fetch_and_op(table) / table.n.values[:, None]
    assert fetch.max() / fetch.min() > 10


def test_the_bends_and_rises_that_these_tests_would_miss_are_seen() -> None:
    """The measures find what they are for."""
    n = np.arange(1, 6)
    assert largest_rise_with_n((10.0 * n**2)[:, None], n) > 1
    t = np.full((1, 1, 4), np.nan)
    t[0, 0] = [10, 30, 30, 30]
    cycles, _ = largest_bend_in_c(t, np.array([3]))
    assert cycles == pytest.approx(30 - (10 + 20 / 3))


def test_the_looped_table_is_the_initiation_interval_once_the_pipeline_is_full() -> None:
    """With n jobs circulating, the time between completions is the larger of interval and round trip over
    n."""
    gpu = load_gpu("v100")
    machine = machine_from(gpu)
    interval = gpu.number("atomic.add.base_interval_cycles") + 16 * gpu.number(
        "atomic.add.pass_interval_cycles"
    )
    latency = gpu.number("atomic.add.latency_cycles")
    for n in (1, 2, 3, 4, 8, 33, 64):
        expected = max(interval, (latency + 15 * gpu.number("atomic.add.pass_interval_cycles")) / n)
        assert looped_cycles(machine, "add", n, 16, 0) / n == pytest.approx(expected, rel=0.03)


def test_the_facts_are_judged_by_the_one_judge_and_a_table_without_them_fails(table: xr.DataArray) -> None:
    found = table_facts(table)
    verdicts = {name: str(fact.verdict) for name, fact in found.items()}
    assert verdicts.pop("saturates-in-c") == "does not hold"  # the simulated unit knows no blocks
    assert set(verdicts.values()) == {"holds"}
    # S is 1 cycle, or up to 2 with compare-and-swap, whatever n and e are.
    flat = table_facts(table * 0 + table.n + table.c)
    assert flat["s-falls-with-n"].verdict is PaperVerdict.FAILS
    assert flat["s-rises-with-e"].verdict is PaperVerdict.FAILS
    assert flat["tenfold-spread"].verdict is PaperVerdict.FAILS
    assert flat["linear-in-c"].verdict is PaperVerdict.HOLDS

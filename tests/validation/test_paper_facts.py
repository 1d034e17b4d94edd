"""What Dong & Pai report of their measured table, on the simulated table for V100, all n to 64 and all e to 32."""

import numpy as np
import pytest
import xarray as xr

from hw_bench.descriptions import load_gpu
from sim.table import looped_cycles, machine_from, service_table
from validation.checks.paper_facts import largest_bend_in_c, largest_rise_with_n, table_part


@pytest.fixture(scope="module")
def ends() -> xr.DataArray:
    """c = 0 and c = n, for every n and e."""
    return table_part(load_gpu("v100"), range(1, 65), range(1, 33), False, "simpy")


@pytest.fixture(scope="module")
def one_block() -> xr.DataArray:
    """Every c, for n up to 32 and every e."""
    return service_table(load_gpu("v100"), jobs=range(1, 33), lanes=range(1, 33))


def fetch_and_op(ends: xr.DataArray) -> np.ndarray:
    values: np.ndarray = ends.sel(c=0).values
    return values


def test_s_falls_with_n(ends: xr.DataArray) -> None:
    t, n = fetch_and_op(ends), ends.n.values
    s = t / n[:, None]
    assert s.shape == (64, 32)
    for k in range(1, 33):
        assert (s[2 * k - 1] < s[k - 1]).all()
    # From n to n + 1 it falls too, but for the rounding of T to whole cycles.
    assert largest_rise_with_n(t, n) < 1


def test_s_rises_with_e(ends: xr.DataArray) -> None:
    assert (np.diff(fetch_and_op(ends), axis=1) > 0).all()


def test_t_is_nearly_linear_in_c_within_one_block(one_block: xr.DataArray) -> None:
    cycles, percent = largest_bend_in_c(one_block.values, one_block.n.values)
    assert cycles <= 1.5
    assert percent <= 2


def test_the_spread_between_best_and_worst_pattern_exceeds_ten_times(ends: xr.DataArray) -> None:
    s = ends.values / ends.n.values[:, None, None]
    assert np.nanmax(s) / np.nanmin(s) > 10
    fetch = fetch_and_op(ends) / ends.n.values[:, None]
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
    """With n jobs circulating, the time between completions is the larger of interval and round trip over n."""
    gpu = load_gpu("v100")
    machine = machine_from(gpu)
    interval = gpu.number("atomic.add.base_interval_cycles") + 16 * gpu.number(
        "atomic.add.pass_interval_cycles"
    )
    latency = gpu.number("atomic.add.latency_cycles")
    for n in (1, 2, 3, 4, 8, 33, 64):
        expected = max(interval, (interval + latency) / n)
        assert looped_cycles(machine, "add", n, 16, 0) / n == pytest.approx(expected, rel=0.03)

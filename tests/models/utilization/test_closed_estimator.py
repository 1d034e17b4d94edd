"""The closed-network estimator: it inverts the exact solution, respects its bounds, and names bad input."""

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from smlab.hw_bench.errors import SmlabError
from smlab.models import ServiceTable, estimate_closed, solve_machine_repairman


def table(
    latency: float = 40.0, base: float = 3.0, per_lane: float = 1.0, cas: float = 0.0, n_max: int = 64
) -> ServiceTable:
    """A looped table by formula: n jobs circulating through a unit with an interval and a latency."""
    n = np.arange(1, n_max + 1)[:, None, None]
    e = np.arange(1, 33)[None, :, None]
    c = np.arange(0, n_max + 1)[None, None, :]
    interval = base + per_lane * e + cas * c / n
    values = np.where(c <= n, np.maximum(n * interval, interval + latency), np.nan)
    coords = {"n": n.ravel(), "e": e.ravel(), "c": c.ravel()}
    attrs = {"gpu": "test", "op": "add", "form": "looped", "kind": "simulated"}
    return ServiceTable(xr.DataArray(values, dims=("n", "e", "c"), coords=coords, attrs=attrs))


TABLE = table(cas=5.0)


@given(
    warps=st.integers(1, 64),
    e=st.integers(1, 32),
    share=st.sampled_from([0.0, 0.25, 1.0]),
    think=st.floats(1.0, 1e6),
)
def test_it_inverts_the_exact_solution(warps: int, e: int, share: float, think: float) -> None:
    loads = np.arange(1, warps + 1)
    service = TABLE.service_cycles(loads, e, loads * share)
    exact = solve_machine_repairman(service, think, warps)
    elapsed = 1e6
    found = estimate_closed(float(exact.throughput) * elapsed, elapsed, warps, e, share, TABLE)
    assert found.utilization[0] == pytest.approx(float(exact.utilization), rel=1e-6, abs=1e-9)
    if found.saturation[0] < 0.999:  # beyond, throughput no longer tells one queue length from another
        assert found.n[0] == pytest.approx(float(exact.queue_length), rel=1e-4, abs=1e-9)
        changed = (service / 2, TABLE.service_cycles(loads, 1, loads * share))
        gains = (found.gain_faster[0], found.gain_spread[0])
        for gain, other in zip(gains, changed, strict=True):
            faster = solve_machine_repairman(other, think, warps)
            assert gain == pytest.approx(float(faster.throughput / exact.throughput), rel=1e-4)
    assert found.low[0] <= found.utilization[0] * (1 + 1e-9)
    assert found.utilization[0] <= found.high[0] * (1 + 1e-9)


@given(jobs=st.floats(0, 1e6), warps=st.floats(0.05, 64), e=st.floats(1, 32), share=st.floats(0, 1))
def test_utilization_never_passes_one_and_n_never_passes_the_warps(
    jobs: float, warps: float, e: float, share: float
) -> None:
    found = estimate_closed(jobs, 1e5, warps, e, share, TABLE)
    assert 0 <= found.utilization[0] <= 1
    assert 0 <= found.n[0] <= warps * (1 + 1e-9)
    assert found.low[0] <= found.high[0]


def test_more_jobs_in_the_same_time_mean_more_utilization() -> None:
    jobs = np.linspace(0, 30_000, 200)
    found = estimate_closed(jobs, 1e5, 20.5, 7.25, 0.1, TABLE)
    assert (np.diff(found.utilization) >= -1e-9).all()
    assert (np.diff(found.n) >= -1e-6).all()
    assert found.utilization[0] == 0
    assert np.isinf(found.think_cycles[0])


def test_a_throughput_beyond_the_server_is_saturation() -> None:
    most = 1 / float(TABLE.service_cycles(16, 32, 0))
    found = estimate_closed(np.array([0.5, 1.0, 1.3]) * most * 1e5, 1e5, 16, 32, 0, TABLE)
    np.testing.assert_allclose(found.saturation, [0.5, 1.0, 1.3])
    assert found.utilization[0] < 1
    assert found.utilization[2] == 1
    assert found.think_cycles[2] == 0
    assert found.n[2] == pytest.approx(16)


def test_a_full_unit_gains_what_its_service_does_and_an_idle_one_nothing() -> None:
    found = estimate_closed([64_000.0, 0.0], 1000.0, 64, 32, 0, TABLE)
    np.testing.assert_allclose(found.gain_faster, [2, 1])
    np.testing.assert_allclose(found.gain_spread, [35 / 4, 1])


def test_a_population_between_two_is_a_mixture() -> None:
    """With a think time far beyond the service, utilization is proportional to the population."""
    found = estimate_closed([200, 250, 300], 1e6, [2.0, 2.5, 3.0], 1, 0, TABLE)
    assert found.think_cycles == pytest.approx(np.full(3, found.think_cycles[0]), rel=1e-3)


def test_many_kernels_are_the_same_as_one_at_a_time() -> None:
    rng = np.random.default_rng(5)
    jobs, warps, e, share = (
        rng.uniform(0, 9e3, 50),
        rng.uniform(0.5, 64, 50),
        rng.uniform(1, 32, 50),
        rng.uniform(0, 1, 50),
    )
    joint = estimate_closed(jobs, 1e5, warps, e, share, TABLE)
    for i in range(50):
        alone = estimate_closed(jobs[i], 1e5, warps[i], e[i], share[i], TABLE)
        assert alone.utilization[0] == pytest.approx(joint.utilization[i], rel=1e-7, abs=1e-12)
        assert alone.n[0] == pytest.approx(joint.n[i], rel=1e-6, abs=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((-1, 1e5, 8, 4, 0), "jobs of kernel 0: out of range .got -1"),
        ((10, 0, 8, 4, 0), "elapsed_cycles of kernel 0"),
        ((10, 1e5, [8, 65], 4, 0), "warps of kernel 1: out of range .got 65.0; expected above 0, at most 64"),
        ((10, 1e5, 8, 33, 0), "e of kernel 0"),
        ((10, 1e5, 8, 4, 1.5), "cas_share of kernel 0"),
        ((float("nan"), 1e5, 8, 4, 0), "jobs of kernel 0"),
    ],
)
def test_bad_input_is_named(arguments: tuple[float, ...], message: str) -> None:
    with pytest.raises(SmlabError, match=message):
        estimate_closed(*arguments, table=TABLE)

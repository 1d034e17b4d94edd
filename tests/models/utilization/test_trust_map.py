"""The trust map: what it computes, what it refuses, and that its intervals cover; the verdict's rules."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from smlab.hw_bench.errors import SmlabError
from smlab.models import ServiceTable, estimate_closed
from smlab.models.utilization.trust_map import (
    CLOSED,
    CLOSED_BATCH,
    ESTIMATORS,
    MAKE,
    OCCUPANCY,
    OUTSIDE,
    AtomicLoad,
    TrustMap,
    estimate_all,
    shipped_map,
)
from smlab.models.utilization.verdict import BOTTLENECK, CANNOT_TELL, NOT, verdicts

LATENCY, BASE, PER_LANE = 24.0, 3.4, 1.0


def table(form: str, n_max: int = 64) -> ServiceTable:
    """A unit with an interval and a latency, by formula: a batch pays the latency once, a loop hides it."""
    n, e, c = np.arange(1, n_max + 1)[:, None, None], np.arange(1, 33)[None, :, None], np.arange(n_max + 1)
    interval = BASE + PER_LANE * e + 0.0 * c
    total = n * interval + LATENCY if form == "batch" else np.maximum(n * interval, interval + LATENCY)
    values = np.where(c <= n, total, np.nan)
    coords = {"n": n.ravel(), "e": e.ravel(), "c": c}
    attrs = {"gpu": "test", "op": "add", "form": form, "kind": "simulated"}
    return ServiceTable(xr.DataArray(values, dims=("n", "e", "c"), coords=coords, attrs=attrs))


LOOPED, BATCH = table("looped"), table("batch")


def estimates(jobs=500.0, active=1e5, warps=16.0, e=4.0, share=0.0):
    return estimate_all(AtomicLoad(jobs, active, warps, e, share), LOOPED, BATCH)


@given(jobs=st.floats(1, 2e4), warps=st.floats(1, 64), e=st.floats(1, 32), share=st.floats(0, 1))
def test_features_are_what_the_counters_and_the_table_say(jobs, warps, e, share) -> None:
    found = estimates(jobs, 1e5, warps, e, share)
    f = found.features
    interval = float(LOOPED.service_cycles(64, e, 64 * share))
    assert f.floor[0] == pytest.approx(min(1, jobs * interval / 1e5))
    assert f.ceiling[0] == pytest.approx(min(1, jobs * float(LOOPED.service_cycles(1, e, share)) / 1e5))
    assert f.floor[0] <= f.ceiling[0]
    assert f.jobs_per_warp[0] == pytest.approx(jobs / warps)
    closed = estimate_closed(jobs, 1e5, warps, e, share, LOOPED)
    assert found.utilization[CLOSED][0] == pytest.approx(closed.utilization[0])
    # The published estimate: jobs times T(n) / n of the batch, not clipped.
    published = jobs * float(BATCH.service_cycles(warps, e, warps * share)) / 1e5
    assert found.utilization[OCCUPANCY][0] == pytest.approx(published)
    assert found.utilization[CLOSED][0] >= f.floor[0] * (1 - 1e-9)


def test_the_occupancy_estimate_exceeds_one_where_the_closed_network_cannot() -> None:
    """A saturated unit: the batch charges each job latency / n too much (docs/findings/queue-model.md)."""
    interval = BASE + 4 * PER_LANE
    found = estimates(jobs=1e5 / interval, warps=8.0)
    assert found.utilization[OCCUPANCY][0] == pytest.approx(1 + LATENCY / (8 * interval), rel=1e-6)
    assert found.utilization[CLOSED][0] == 1


def test_the_shipped_map_knows_how_it_was_made() -> None:
    shipped = shipped_map()
    assert shipped.about["made_by"] == MAKE
    assert set(shipped.estimators) == set(ESTIMATORS)
    assert not set(shipped.about["families"]) & set(shipped.about["families_that_judge"])
    for own in shipped.estimators.values():
        assert len(own.quantiles) == shipped.bin_count
        assert (np.diff(np.array(own.quantiles), axis=1) >= 0).all()


def test_intervals_nest_and_stay_within_0_and_1() -> None:
    rng = np.random.default_rng(4)
    found = estimates(rng.uniform(200, 9000, 300), 1e5, rng.uniform(1, 64, 300), rng.uniform(1, 32, 300))
    for estimator in ESTIMATORS:
        narrow, wide = (shipped_map().interval(found, level, estimator) for level in (0.5, 0.9))
        inside = np.array([not names for names in narrow.outside])
        assert inside.sum() > 100
        assert (narrow.low >= wide.low - 1e-12)[inside].all()
        assert (narrow.high <= wide.high + 1e-12)[inside].all()
        assert (wide.low >= 0).all()
        assert (wide.high <= 1).all()


def test_what_lies_outside_the_map_is_flagged_and_not_guessed() -> None:
    inside, outside = estimates(jobs=500.0), estimates(jobs=3.0)
    assert shipped_map().interval(inside).flags == ((),)
    interval = shipped_map().interval(outside)
    assert interval.flags[0][0].startswith(f"{OUTSIDE}: ")
    assert "jobs" in interval.outside[0]
    assert interval.low[0] == outside.features.floor[0]
    assert interval.high[0] == outside.features.ceiling[0]


@pytest.mark.parametrize(
    ("level", "estimator", "message"),
    [
        (0.999, CLOSED, "level: not in the trust map .got 0.999; expected above 0, at most 0.95"),
        (0.0, CLOSED, "level: not in the trust map"),
        (0.9, "guess", "estimator: not in the trust map .got 'guess'; expected occupancy"),
    ],
)
def test_levels_and_estimators_that_it_does_not_know_are_refused(level, estimator, message) -> None:
    with pytest.raises(SmlabError, match=message):
        shipped_map().interval(estimates(), level, estimator)


def test_the_file_gives_back_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "map.json"
    shipped_map().write(path)
    assert TrustMap.read(path) == shipped_map()


@pytest.mark.parametrize(
    "text", ["", "{}", "[1]", '{"version": 99}', '{"version": 1, "about": 3, "edges": {"a": 1}}']
)
def test_other_files_are_refused_with_the_command_that_makes_one(text: str, tmp_path: Path) -> None:
    path = tmp_path / "map.json"
    path.write_text(text)
    with pytest.raises(SmlabError, match=r"map\.json"):
        TrustMap.read(path)
    with pytest.raises(
        SmlabError, match=r"missing\.json.*python -m smlab\.validation\.campaigns\.utilization_maps"
    ):
        TrustMap.read(tmp_path / "missing.json")


def verdict_on(**changes: float):
    found = estimates(**changes)
    return verdicts(found, shipped_map().interval(found), merges_increments=True)[0]


def test_a_full_unit_is_the_bottleneck_and_conflicts_get_advice() -> None:
    said = verdict_on(jobs=0.97e5 / (BASE + 32), warps=48.0, e=32.0)
    assert said.verdict == BOTTLENECK
    assert "can hardly take more" in said.reason
    words = " ".join(said.advice)
    for remedy in ("privatise", "reorder", "aggregate in the warp", "POPC.INC"):
        assert remedy in words


def test_few_warps_that_wait_are_a_bottleneck_of_another_kind() -> None:
    said = verdict_on(jobs=0.8 * 1e5 / (BASE + 1 + LATENCY), warps=1.0, e=1.0)
    assert said.verdict == BOTTLENECK
    assert "too few warps" in said.reason
    assert any("more warps" in text for text in said.advice)
    assert not any("privatise" in text for text in said.advice)


def test_an_idle_unit_is_not_and_needs_no_advice() -> None:
    said = verdict_on(jobs=200.0, warps=40.0)
    assert (said.verdict, said.advice) == (NOT, ())
    assert "could take more" in said.reason


def test_in_between_it_cannot_tell() -> None:
    assert verdict_on(jobs=0.6 * 1e5 / (BASE + 8), warps=40.0, e=8.0).verdict == CANNOT_TELL


def test_compare_and_swap_gets_its_own_advice() -> None:
    said = verdict_on(jobs=1e5 / (BASE + 4), warps=32.0, share=0.9)
    assert "compare-and-swap" in said.advice[0]


def test_an_interval_of_a_batch_table_is_its_own() -> None:
    found = estimates(jobs=4000.0)
    assert (
        shipped_map().interval(found, 0.9, CLOSED_BATCH).low[0] != shipped_map().interval(found, 0.9).low[0]
    )


def test_a_map_without_an_estimator_says_so() -> None:
    with pytest.raises(SmlabError, match="not in the trust map"):
        replace(shipped_map(), estimators={}).interval(estimates())

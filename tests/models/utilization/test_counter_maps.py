"""The counter maps: trees do what they say, the shipped file is read whole, and more counters narrow the
answer."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from smlab.hw_bench.errors import SmlabError
from smlab.models.utilization.boosted_trees import BoostedTrees
from smlab.models.utilization.counter_maps import (
    FASTER,
    PATH,
    QUANTITIES,
    CounterMaps,
    Spread,
    mixed,
    shipped_maps,
)
from smlab.models.utilization.counter_sets import (
    REQUEST_NAMES,
    REQUESTS,
    SETS,
    SPACING_NAMES,
    STATE_NAMES,
    STATES,
    Counters,
    feature_names,
    gain_by_waiting,
)
from smlab.models.utilization.service_table import ServiceTable
from smlab.models.utilization.trust_map import AtomicLoad, UtilizationEstimates, estimate_all


def test_a_tree_asks_all_its_questions() -> None:
    trees = BoostedTrees(1.0, np.array([[0, 1]]), np.array([[0.5, 2.0]]), np.array([[0.0, 10.0, 20.0, 30.0]]))
    given = np.array([[0, 0], [1, 0], [0, 3], [1, 3], [0.5, 2.0]])
    np.testing.assert_array_equal(trees.predict(given), [1, 11, 21, 31, 1])
    again = BoostedTrees.from_json(json.loads(json.dumps(trees.as_json())))
    np.testing.assert_allclose(again.predict(given), trees.predict(given))
    with pytest.raises(ValueError, match="do not fit"):
        BoostedTrees.from_json({**trees.as_json(), "leaves": [[1.0, 2.0]]})


def test_the_shipped_maps_know_every_set_and_quantity() -> None:
    maps = shipped_maps()
    assert list(maps.maps) == list(SETS)
    for own in maps.maps.values():
        assert set(own.median) == set(own.width) == set(own.residuals) == set(QUANTITIES)
        assert 0 < own.limits[0] < own.limits[1] < 1
        for residuals in own.residuals.values():
            assert (np.diff(residuals) >= 0).all()
            assert residuals[0] < 0 < residuals[-1]
    assert PATH.stat().st_size < 1_000_000


def test_maps_are_written_and_read_and_refused(tmp_path: Path) -> None:
    path = tmp_path / "maps.json"
    shipped_maps().write(path)
    given = np.random.default_rng(0).normal(size=(50, 90))
    again, own = CounterMaps.read(path).maps["states"], shipped_maps().maps["states"]
    np.testing.assert_allclose(again.chances(given), own.chances(given), rtol=1e-3)
    np.testing.assert_allclose(again.median[FASTER].predict(given), own.median[FASTER].predict(given))
    path.write_text(path.read_text().replace('"version": 5', '"version": 9'))
    with pytest.raises(SmlabError, match="another version"):
        CounterMaps.read(path)
    path.write_text("{}")
    with pytest.raises(SmlabError, match="not the counter maps"):
        CounterMaps.read(path)


def test_a_map_of_other_features_is_refused_by_their_names(tmp_path: Path) -> None:
    path, stored = tmp_path / "maps.json", json.loads(PATH.read_text())
    names = stored["maps"]["atomic"]["features"]
    assert names == list(feature_names("atomic"))
    for features, message in (
        (["heat", *names[1:]], f'has "heat", which .* and lacks "{names[0]}"'),
        (names[:-1], f'it lacks "{names[-1]}"'),
        ([names[1], names[0], *names[2:]], f'has "{names[1]}" as number 1, where .* "{names[0]}"'),
        ([*names, names[0]], f'has "{names[0]}" as number {len(names) + 1}'),
    ):
        stored["maps"]["atomic"]["features"] = features
        path.write_text(json.dumps(stored))
        with pytest.raises(SmlabError, match=message):
            CounterMaps.read(path)


def test_a_mixture_lies_between_its_parts_and_holds_both() -> None:
    low, high = (Spread(np.array([x]), x + np.linspace(-0.1, 0.1, 100)[None]) for x in (0.2, 0.8))
    both = mixed([low, high], [0.5, 0.5])
    assert both.guess[0] == pytest.approx(0.5)
    ends = both.interval(0.9)
    assert ends[0][0] == pytest.approx(
        0.12, abs=0.01
    )  # the twentieth of the whole, the tenth of the lower part
    assert ends[1][0] == pytest.approx(0.88, abs=0.01)
    assert mixed([low], [1.0]) is low


def test_the_richest_set_is_the_one_that_is_whole() -> None:
    none = Counters.none(np.full(4, 8.0), np.ones(4))
    assert none.sets().tolist() == ["atomic"] * 4
    requests, states = np.ones((4, len(REQUEST_NAMES))), np.ones((4, len(STATE_NAMES)))
    requests[0, 3] = states[1, 2] = np.nan
    at = np.ones_like(states)
    at[2] = np.nan
    spacing = np.ones((4, len(SPACING_NAMES)))
    found = Counters(none.peak_warps, none.block_warps, none.passes, requests, states, at, at, spacing).sets()
    assert found.tolist() == ["atomic", "requests", "states", "samples"]


def waiting_kernels(waiting: float, barrier: float = 0.0) -> tuple[UtilizationEstimates, Counters]:
    """Kernels of eight warps that ask the unit of a made-up table for more and more, of which so many wait
    for it and at barriers."""
    n = np.arange(1, 9, dtype=float)
    cycles = 30 + 8 * np.outer(n, [1.0, 8.0])[:, :, None]
    coords = {"n": n.astype(int), "e": [1, 2], "c": [0]}
    about = {"gpu": "made up", "op": "add", "form": "looped", "kind": "assumed"}
    table = ServiceTable(xr.DataArray(cycles, coords=coords, dims=("n", "e", "c"), attrs=about))
    jobs = np.array([100.0, 400.0, 800.0])
    estimates = estimate_all(AtomicLoad(jobs, 1e5, 8.0, 2.0, 0.0), table)
    none = Counters.none(np.full(3, 8.0), np.ones(3))
    states = np.zeros((3, len(STATE_NAMES)))
    states[:, STATE_NAMES.index("short_scoreboard")] = waiting
    states[:, STATE_NAMES.index("barrier")] = barrier
    return estimates, replace(none, requests=np.zeros((3, len(REQUEST_NAMES))), states=states)


def test_the_gain_by_waiting_is_that_of_the_time_at_the_unit() -> None:
    estimates, nobody = waiting_kernels(0.0)
    network = estimates.closed.gain_spread
    assert (network > 1).all()
    np.testing.assert_allclose(gain_by_waiting(estimates, nobody, STATES, network), 0)
    np.testing.assert_allclose(gain_by_waiting(estimates, nobody, REQUESTS, network), np.log(network))
    # As many wait as the closed network expects: the gain is the network's own.
    for kernel, expected in enumerate(estimates.closed.n.tolist()):
        found = gain_by_waiting(*waiting_kernels(expected), STATES, network)
        assert found[kernel] == pytest.approx(np.log(network[kernel]))
    few, more = (gain_by_waiting(*waiting_kernels(w), STATES, network) for w in (0.05, 0.2))
    assert (few < more + 1e-12).all()
    assert (few > 0).all()
    # Those that wait at a barrier for the others gain as the others do.
    assert (gain_by_waiting(*waiting_kernels(0.05, 4.0), STATES, network) > few).any()
    assert (gain_by_waiting(*waiting_kernels(7.9), STATES, network) <= np.log(network) + 1e-12).all()


def test_thresholds_are_written_short_and_keep_equal_values_on_their_side() -> None:
    edges = np.log(np.arange(2.0, 40.0))
    trees = BoostedTrees(0.0, np.zeros((38, 1), dtype=np.int64), edges[:, None], np.tile([0.0, 1.0], (38, 1)))
    again = BoostedTrees.from_json(trees.as_json())
    np.testing.assert_allclose(again.predict(edges[:, None]), trees.predict(edges[:, None]))
    assert len(json.dumps(trees.as_json()["thresholds"])) < 15 * len(edges)

"""The search for configurations on a new GPU: visits strata twice, then models; never measures twice."""

import numpy as np
import pytest

from smlab.hw_bench.errors import SmlabError
from smlab.models.portability.advice import changes_from
from smlab.models.portability.transfer import SearchSpace, TransferSearch, planned, search_space

CONFIG = [(size, flag, 7) for flag in (0, 1) for size in (1, 2, 4, 8, 16, 32)]
"""Sizes, a switch, and a parameter that is always the same."""


def old_times() -> np.ndarray:
    """Without the switch 1 ms, with it 1.2; best at a size of 4."""
    return np.array([1e-3 * (1 + 0.2 * f) * (1 + 0.2 * abs(np.log2(s) - 2)) for s, f, _ in CONFIG])


def space() -> SearchSpace:
    return search_space(old_times(), CONFIG)


def play(search: TransferSearch, times: np.ndarray, count: int) -> list[int]:
    rows = []
    for _ in range(count):
        row = search.next()
        assert row is not None
        rows.append(row)
        search.tell(row, float(times[row]))
    return rows


def test_strata_are_told_by_switches_and_sizes_by_their_logarithms() -> None:
    found = space()
    sizes = found.parameters.sizes
    assert sizes.shape == (12, 1)
    assert found.parameters.switches[:, 0].tolist() == [0] * 6 + [1] * 6
    assert found.stratum.tolist() == [0] * 6 + [1] * 6
    assert np.diff(sizes[:6, 0]) == pytest.approx(np.full(5, np.diff(sizes[:2, 0])[0]))


def test_the_old_best_come_first_then_another_stratum_twice_and_nothing_is_measured_twice() -> None:
    rows = play(TransferSearch(space(), 10), old_times(), 10)
    assert rows[:3] == [2, 1, 3]  # sizes 4, 2, 8 without the switch
    assert rows[3:5] == [8, 7]  # sizes 4, 2 with it
    assert len(set(rows)) == 10


def test_where_all_ratios_are_alike_it_keeps_to_the_old_order() -> None:
    config = [(size, unrolled) for size in range(1, 13) for unrolled in (1, 2, 4)]
    rng = np.random.default_rng(1)
    old = np.exp(rng.uniform(0, 2, len(config)))
    rows = play(TransferSearch(search_space(old, config), 10), 0.3 * old, 10)
    order = np.argsort(old).tolist()
    assert rows[:6] == order[:6]
    assert len({*rows} & {*order[:12]}) == 10


def test_a_size_that_turned_over_is_followed() -> None:
    """On the new GPU twice the size is 1.5 times as fast, where on the old one it was 1.1 times as slow."""
    config = [(size, other) for size in (1, 2, 4, 8, 16, 32) for other in range(6)]
    old = np.array([1.1 ** np.log2(size) * (1 + 0.1 * other) for size, other in config])
    new = np.array([1.5 ** -np.log2(size) * (1 + 0.1 * other) for size, other in config])
    rows = play(TransferSearch(search_space(old, config), 10), new, 10)
    old_best = new[np.argsort(old)[:10]].min()
    assert new[rows].min() < 0.7 * old_best


def test_a_switch_that_turned_over_is_found_and_followed() -> None:
    new = np.array([t * (0.4 if c[1] else 1.0) for t, c in zip(old_times(), CONFIG, strict=True)])
    rows = play(TransferSearch(space(), 6), new, 6)
    assert int(np.argmin(new)) in rows[:4]
    assert all(space().stratum[row] == 1 for row in rows[4:])


def test_a_hopeless_stratum_is_not_visited_again() -> None:
    new = np.array([t * (5.0 if c[1] else 1.0) for t, c in zip(old_times(), CONFIG, strict=True)])
    rows = play(TransferSearch(space(), 6), new, 6)
    assert sum(space().stratum[row] == 1 for row in rows) == 1


def test_failures_teach_and_the_search_ends_with_the_space() -> None:
    search = TransferSearch(space(), 50)
    for _ in range(12):
        row = search.next()
        assert row is not None
        search.tell(row, None if row % 2 else 1e-3)
    assert search.next() is None
    assert len(planned(TransferSearch(space(), 50), 50)) == 12


def test_a_failure_before_anything_ran_says_nothing_of_the_unit_of_time() -> None:
    """Old times may be in any unit: a failure counts as slow among what ran, whenever it came."""
    search = TransferSearch(space(), 10)
    search.tell(0, None)
    assert search.predicted()[0] == pytest.approx(space().guess)
    search.tell(2, 5.0)
    assert search.predicted()[0][0] == pytest.approx(np.log(10.0))


def test_while_nothing_ran_the_next_is_unlike_what_failed() -> None:
    """Blocks of 8 and more do not run on the new GPU, and the old one's best are all of these."""
    config = [(block, tile) for block in (1, 2, 4, 8, 16, 32) for tile in (1, 2, 3, 4, 6, 8)]
    old = np.array([1.05 ** (-np.log2(block)) * (1 + 0.01 * tile) for block, tile in config])
    search = TransferSearch(search_space(old, config), 10)
    rows: list[int] = []
    while not any(config[row][0] < 8 for row in rows):
        rows.append(search.next() or 0)
        search.tell(rows[-1], None)
    assert len(rows) <= 5
    assert np.argsort(old).tolist().index(rows[-1]) >= 18  # the old order comes to it nineteenth


def test_of_equals_one_of_the_old_best_is_taken() -> None:
    """Being behind the old GPU's best weighs more than being ahead of them."""
    old = np.array([1, 1.1, 1.2, 1.3, 1.3 * 1.005])
    search = TransferSearch(search_space(old, [(2**i,) for i in range(5)]), 4)
    search.tell(0, 2.0)
    search.tell(2, 2.2)
    chance = {row: search.expected(row) for row in (3, 4)}
    assert chance[4][0] - 1.5 * chance[4][1] < chance[3][0] - 1.5 * chance[3][1]  # by itself the better draw
    assert search.next() in (1, 3)


def test_what_cannot_run_is_never_proposed() -> None:
    runs = np.array([c[1] == 0 for c in CONFIG])
    rows = planned(TransferSearch(search_space(old_times(), CONFIG, runs), 12), 12)
    assert sorted(rows) == list(range(6))


def test_measurements_pin_the_prediction_and_narrow_their_neighbours() -> None:
    search = TransferSearch(space(), 10)
    before = search.predicted()[1]
    search.tell(2, 3e-3)
    mean, after = search.predicted()
    assert mean[2] == pytest.approx(np.log(3e-3))
    assert (after < before).all()
    assert after[3] < after[9]
    assert mean[3] - search.space.guess[3] == pytest.approx(np.log(3), abs=0.2)


def test_bad_spaces_are_refused() -> None:
    for times, config, message in (
        ([], [], "not a time for each"),
        ([1.0, -1.0], [(1,), (2,)], "not a time"),
        ([1.0, 1.0], [(1,), (1, 2)], "unequal length"),
    ):
        with pytest.raises(SmlabError, match=message):
            search_space(times, config)
    with pytest.raises(SmlabError, match="nothing to measure"):
        TransferSearch(space(), 0)
    with pytest.raises(SmlabError, match="not a time"):
        TransferSearch(space(), 5).tell(0, -1.0)


def test_rows_that_differ_in_one_parameter() -> None:
    assert sorted(changes_from(CONFIG, 0)) == [(1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (6, 1)]

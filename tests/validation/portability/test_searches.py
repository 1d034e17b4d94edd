"""Pairs of searches: parts of a space, drawn ratios, kernels in closed form, simulated ones; and what a
search of them is said to have found."""

import itertools

import numpy as np
import pytest

from smlab.validation.portability.model_spaces import NVIDIA, card_of, load_gpu, model_pair
from smlab.validation.portability.search_pairs import SearchPair, parts, with_drawn_ratio
from smlab.validation.portability.searches import judge_search, judge_searches, summary_of_searches
from smlab.validation.portability.simulated_spaces import KERNELS, configurations, kernel_of

CONFIG = tuple(itertools.product((1, 2, 4, 8, 16), (1, 2, 3, 4, 5), (0, 1), (0, 1)))


def pair(turned: float = 0.0) -> SearchPair:
    """Old times by the first parameter, new ones where the switch costs."""
    old = np.array([1 + 0.1 * abs(c[0] - 4) + 0.01 * c[1] + 0.3 * (1 - c[2]) for c in CONFIG])
    return SearchPair("p", "whole", old, old * np.exp(turned * np.array([c[2] for c in CONFIG])), CONFIG)


def test_parts_are_rows_of_the_whole_and_slices_hold_one_value() -> None:
    whole = pair()
    place = {config: row for row, config in enumerate(CONFIG)}
    found = list(parts(whole, 3))
    assert {part.kind for part in found} == {"quarters", "slices"}
    for part in found:
        rows = [place[config] for config in part.config]
        assert len(set(rows)) == len(rows)
        assert part.old_s.tolist() == whole.old_s[rows].tolist()
    held = [part for part in found if "parameter 2 = 1" in part.name]
    assert len(held) == 1
    assert {config[2] for config in held[0].config} == {1}
    assert len(held[0]) == len(CONFIG) // 2


def test_a_draw_is_the_same_each_time_and_another_for_another_number() -> None:
    whole = pair()
    one, again, other = (with_drawn_ratio(whole, number, 7) for number in (1, 1, 2))
    assert one.new_s.tolist() == again.new_s.tolist()
    assert one.config == again.config
    assert len(one) != len(other) or one.new_s.tolist() != other.new_s.tolist()
    assert np.isfinite(one.new_s).all()


def test_modelled_kernels_take_longer_on_a_slower_card_and_fit_or_not() -> None:
    pairs = [model_pair(number, 11) for number in range(6)]
    assert len({p.name for p in pairs}) == 6
    for one in pairs:
        assert np.isfinite(one.old_s).all()
        assert (one.old_s > 0).all()
        assert len(one.config) == len(one.old_s) == len(one.new_s)
    assert model_pair(2, 11).new_s.tolist() == pairs[2].new_s.tolist()
    cards = [card_of(load_gpu(name)) for name in NVIDIA]
    assert all(card.fp32_per_s > 1e12 and card.sms > 10 for card in cards)


def test_simulated_configurations_do_the_same_arithmetic() -> None:
    all_configs = configurations()
    assert all(c[3] or not c[4] for c in all_configs)
    for program in KERNELS:
        counts = set()
        for config in all_configs[::17]:
            kernel = kernel_of(program, config)
            each = sum(n for i, n in kernel.programs[0].instructions() if i.op == "fp32")
            blocks_of_work = -(-2048 // (config[0] * config[1])) * config[0] * config[1]
            counts.add(each * kernel.blocks * config[0] / blocks_of_work)
        assert len(counts) == 1


def test_a_search_where_nothing_changed_finds_the_old_best() -> None:
    found = judge_search(pair(), 5)
    assert (found.found, found.old_best) == (1.0, 1.0)
    assert found.random <= 1.0
    assert found.covered == 1.0


def test_a_turned_switch_is_found_and_the_summary_counts() -> None:
    outcomes = judge_searches([pair(), pair(turned=0.8)])
    ten = {o.old_best: o for o in outcomes if o.budget == 10}
    turned = min(ten.items())[1]
    assert turned.old_best < 0.8
    assert turned.above > 0.15
    told = summary_of_searches(outcomes)["10"]["whole"]
    assert told["pairs"] == 2
    assert told["mean"]["found"] == pytest.approx(np.mean([o.found for o in ten.values()]), abs=1e-4)
    assert told["share_below_tolerated"]["share"] == 0
    assert told["where_there_is_something_to_gain"]["pairs"] == 1

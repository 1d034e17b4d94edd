"""Foreseen changes: their chances are those of the ratios' model, and what was measured counts."""

import itertools

import numpy as np
import pytest
from scipy import special

from smlab.models.portability.advice import EVIDENCE, foreseen_changes, sign_chance
from smlab.models.portability.ratio_model import SCALES, RatioModel, ScaleMixture
from smlab.models.portability.transfer import search_space

CONFIG = list(itertools.product((1, 2, 4, 8), (1, 2, 4), (0, 1)))
SECONDS = np.exp(np.random.default_rng(5).normal(0, 0.3, len(CONFIG)))
SPACE = search_space(SECONDS, CONFIG)
ROWS = np.arange(len(CONFIG))


def test_a_difference_is_that_of_two_predictions() -> None:
    model = RatioModel(SPACE.parameters, spread=0.5)
    for row, ratio in ((3, 0.2), (10, -0.1), (17, 0.05)):
        model.tell(row, ratio)
    whole, separate = model.predicted(ROWS), model.difference(6, ROWS)
    assert separate.weight == pytest.approx(whole.weight)
    assert separate.mean == pytest.approx(whole.mean - whole.mean[:, 6:7])
    # A measured row is known: what is open is the other's alone.
    known = model.difference(10, ROWS)
    assert known.variance == pytest.approx(whole.variance)
    assert known.mean == pytest.approx(whole.mean + 0.1)


def test_before_anything_is_measured_the_spread_widens_what_is_open() -> None:
    one, half = (RatioModel(SPACE.parameters, spread).difference(0, ROWS[1:]) for spread in (1.0, 0.5))
    assert len(one.weight) == len(SCALES)
    assert one.variance == pytest.approx(4 * half.variance)
    # Row 1 differs in the switch alone, row 2 in the neighbouring size.
    own = 2 * SCALES[:, 3] ** 2
    assert (one.variance[:, 0] > own + 2 * SCALES[:, 0] ** 2 - 1e-12).all()
    assert (one.variance[:, 1] > own).all()


def test_a_chance_is_the_normal_one_less_the_accidents() -> None:
    alone = ScaleMixture(np.ones(1), np.zeros((1, 4)), np.full((1, 4), 0.04))
    changes = np.array([-0.4, -0.1, 0.1, 0.4])
    found = sign_chance(changes, alone, "copied")
    lost = EVIDENCE["copied"].accidents
    assert found == pytest.approx((1 - lost) * special.ndtr(np.abs(changes) / 0.2) + lost / 2)
    assert sign_chance(np.zeros(1), alone, "copied")[0] == pytest.approx(0.5)


def test_a_switch_that_was_seen_to_cost_turns_the_sign() -> None:
    guess = np.zeros(len(CONFIG))
    guess[[row for row, c in enumerate(CONFIG) if c[2]]] = -0.1  # on the old GPU the switch gains
    model = RatioModel(SPACE.parameters, EVIDENCE["copied"].spread)
    before = foreseen_changes(guess, model, 0, np.array([1]), "copied")
    assert before.log_change[0] == pytest.approx(-0.1)
    for row, config in enumerate(CONFIG[2:16], start=2):
        model.tell(row, 0.4 if config[2] else 0.0)
    after = foreseen_changes(guess, model, 0, np.array([1]), "copied")
    assert after.log_change[0] > 0.15
    assert after.chance[0] > max(before.chance[0], 0.85)

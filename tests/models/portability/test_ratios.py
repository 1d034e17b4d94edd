"""Ratios of two GPUs: what the intervals hold, on planted campaigns and (where it is there) on a public
search."""

import numpy as np
import pytest

from smlab.hw_bench.errors import SmlabError
from smlab.models.portability.ratios import MIN_CONFIGURATIONS, ratios, verdicts_of

RNG_SEED = 7


def campaign(
    rows: int, launches: int, *, noise: float, steps: float = 0.0, hazard: float = 0.0, seed: int = RNG_SEED
) -> np.ndarray:
    """Launches of configurations, of which some make a step of ``steps`` at a launch that chance picks."""
    rng = np.random.default_rng(seed)
    seconds = 1e-3 * np.exp(noise * rng.standard_normal((rows, launches)))
    at = rng.geometric(hazard, rows) if hazard else np.full(rows, launches)
    return np.where(np.arange(launches) >= at[:, None], seconds * (1 + steps), seconds)


def test_a_ratio_is_of_the_steady_times_and_the_initial_one_stands_apart() -> None:
    source, target = np.full((1, 8), 2e-3), np.full((1, 8), 3e-3)
    target[0, 0] = 9e-3
    found = ratios(source, target)
    assert found.ratio == pytest.approx([1.5])
    assert found.initial_ratio == pytest.approx([4.5])
    assert found.low[0] < 1.5 < found.high[0]


def test_quiet_campaigns_hold_the_ratio_to_come() -> None:
    """Nominal 95 %: of the mean ratio of as many launches again."""
    a, b = campaign(3000, 32, noise=0.01), campaign(3000, 32, noise=0.02, seed=8)
    found = ratios(a[:, :16], b[:, :16], level=0.95)
    later = b[:, 16:].mean(axis=1) / a[:, 16:].mean(axis=1)
    held = np.mean((found.low <= later) & (later <= found.high))
    assert 0.94 <= held <= 1.0
    assert np.median(found.high / found.low) < 1.08


def test_steps_to_come_are_in_the_interval_and_a_naive_one_misses_them() -> None:
    a = campaign(3000, 32, noise=0.002)
    b = campaign(3000, 32, noise=0.002, steps=0.08, hazard=0.01, seed=8)
    found = ratios(a[:, :16], b[:, :16], level=0.95)
    later = b[:, 16:].mean(axis=1) / a[:, 16:].mean(axis=1)
    steady = ~found.drifting
    held = (found.low <= later) & (later <= found.high)
    assert found.change is not None
    assert 0.93 <= held[steady].mean() <= 0.99
    naive = 1.96 * np.hypot(found.source.error, found.target.error)
    assert np.mean(np.abs(np.log(later / found.ratio)) <= naive)[()] < 0.85


def test_a_small_campaign_says_that_it_does_not_know() -> None:
    few = campaign(MIN_CONFIGURATIONS - 1, 16, noise=0.01)
    assert ratios(few, few).change is None
    short = campaign(500, 8, noise=0.01)
    assert ratios(short, short).change is None


def test_verdicts() -> None:
    source = np.full((4, 16), 1e-3)
    target = source * np.array([0.5, 2.0, 1.0, 1.0])[:, None]
    target[3] *= np.exp(0.2 * np.random.default_rng(0).standard_normal(16))
    found = ratios(source, target)
    assert verdicts_of(found.low, found.high, 1.0, 0.02) == ["faster", "slower", "as expected", "cannot tell"]
    assert verdicts_of(found.low, found.high, [0.5, 2.0, 2.0, 1.0], 0.02)[:3] == [
        "as expected",
        "as expected",
        "faster",
    ]


def test_a_drifting_configuration_spans_the_levels_that_were_seen() -> None:
    source, target = np.full((1, 16), 1e-3), np.full((1, 16), 1e-3)
    target[0, 9:] *= 1.2
    found = ratios(source, target)
    assert found.drifting[0]
    assert found.low[0] <= 1.0
    assert found.high[0] >= 1.2
    assert verdicts_of(found.low, found.high, 1.0, 0.02) == ["cannot tell"]


def test_unequal_sets_are_refused() -> None:
    with pytest.raises(SmlabError, match="unequal numbers of configurations"):
        ratios(np.ones((2, 8)), np.ones((3, 8)))
    with pytest.raises(SmlabError, match="not a ratio"):
        verdicts_of(np.ones(1), np.ones(1), 0.0, 0.0)

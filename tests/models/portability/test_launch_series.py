"""Series of launches: what is noise, what is a step, and what of it is found."""

import numpy as np
import pytest

from smlab.hw_bench.errors import SmlabError
from smlab.models.portability.launch_series import DRIFT_SIGMAS, NOISE_FLOOR, launch_series


def quiet(rows: int, launches: int, noise: float, seed: int = 0) -> np.ndarray:
    return 1e-3 * np.exp(noise * np.random.default_rng(seed).standard_normal((rows, launches)))


def test_the_first_launch_is_told_apart() -> None:
    seconds = np.full((1, 8), 2e-3)
    seconds[0, 0] = 3e-3
    found = launch_series(seconds)
    assert found.initial_s == pytest.approx([3e-3])
    assert found.steady_s == pytest.approx([2e-3])
    assert not found.drifting[0]
    assert found.noise == pytest.approx([NOISE_FLOOR])


def test_noise_and_the_error_of_the_level_are_those_planted() -> None:
    seconds = quiet(4000, 32, 0.01)
    found = launch_series(seconds)
    assert np.median(found.noise) == pytest.approx(0.01, rel=0.1)
    actual = np.std(np.log(found.steady_s / 1e-3))
    assert np.median(found.error) == pytest.approx(actual, rel=0.1)


@pytest.mark.parametrize("launches", [8, 16, 32])
def test_a_quiet_series_is_seldom_called_drifting(launches: int) -> None:
    assert launch_series(quiet(4000, launches, 0.01)).drifting.mean() < 0.02


@pytest.mark.parametrize(("step", "least"), [(0.02, 0.9), (-0.05, 0.98), (0.1, 0.98)])
def test_a_planted_step_is_found_with_its_size_and_place(step: float, least: float) -> None:
    seconds = quiet(1000, 16, 0.002)
    seconds[:, 9:] *= 1 + step
    found = launch_series(seconds)
    assert found.drifting.mean() > least
    assert np.median(found.step) == pytest.approx(step, rel=0.1)
    assert np.mean(np.abs(found.step_at - 9) <= 1) > 0.9


def test_a_planted_ramp_is_found() -> None:
    seconds = quiet(1000, 32, 0.002) * np.linspace(1.0, 1.06, 32)
    assert launch_series(seconds).drifting.mean() > 0.9


def test_a_single_outlier_is_no_drift_and_moves_no_level() -> None:
    seconds = quiet(1000, 16, 0.002)
    seconds[:, 7] *= 3
    found = launch_series(seconds)
    assert found.drifting.mean() < 0.02
    assert found.steady_s == pytest.approx(np.full(1000, 1e-3), rel=0.01)


def test_a_step_too_small_to_matter_is_no_drift() -> None:
    seconds = np.full((1, 16), 1e-3)
    seconds[:, 8:] *= 1.003
    found = launch_series(seconds)
    assert 0.003 / NOISE_FLOOR > DRIFT_SIGMAS / 2  # significant, but of no use to anybody
    assert not found.drifting[0]


@pytest.mark.parametrize(
    ("seconds", "message"),
    [
        (np.ones((2, 4)), "too few"),
        (np.ones(8), "too few"),
        ([[1.0, 1.0, 0.0, 1.0, 1.0]], "configuration 0: launch 2: not a time"),
        ([[1.0] * 5, [1.0, 1.0, 1.0, float("nan"), 1.0]], "configuration 1: launch 3"),
    ],
)
def test_what_is_no_series_is_refused(seconds: object, message: str) -> None:
    with pytest.raises(SmlabError, match=message):
        launch_series(seconds)  # type: ignore[arg-type]

"""Calibration on times that machine code took in the simulator: the constants come back, what no constant
stands for is noticed. The trials themselves are thorough; they share what was executed."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import calibration_trials as trials
from calibration_trials import (
    CONDITIONS,
    CalibrationTrial,
    drawn_machine,
    true_constants,
)
from smlab.hw_bench.cuda import toolkit
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.validation.work.store import Store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    if not toolkit.has_compiler():
        pytest.skip("machine code not executed: the extra cuda12 is not installed")
    with Store(Path(tmp_path_factory.mktemp("trials")) / "trials.sqlite") as opened:
        yield opened


def found(name: str, store: Store, count: int = 30) -> list[CalibrationTrial]:
    (condition,) = [c for c in CONDITIONS if c.name == name]
    return [trial for _, _, trial in trials.run_trials(condition, count, store=store)]


def test_machines_differ_in_every_constant() -> None:
    for name in trials.GPUS:
        start = load_gpu(name)
        one, other = (drawn_machine(start, 23, (0, 23, trial)) for trial in (0, 1))
        assert true_constants(drawn_machine(start, 23, (0, 23, 0))) == true_constants(one)
        first, second = true_constants(one), true_constants(other)
        differing = {key for key in first if first[key] != second[key]}
        assert len(differing) >= len(first) - 2  # the queues are equal, or may be
        assert first["atomic.queue_entries"] == 23


@pytest.mark.thorough
def test_constants_come_back_at_each_depth(store: Store) -> None:
    each = found("3 % noise", store)
    assert len(each) == 120
    assert sum(trial.all_covered for trial in each) >= 106
    for place in range(len(trials.DEPTHS)):
        assert np.median([trial.queue_half_width for trial in each[30 * place : 30 * place + 30]]) <= 3
    assert sum(trial.noticed for trial in each) <= 12


@pytest.mark.thorough
@pytest.mark.parametrize("hidden", ["hidden cost of switching", "convex cost of lanes"])
def test_what_no_constant_stands_for_is_noticed(hidden: str, store: Store) -> None:
    assert sum(trial.lacking for trial in found(hidden, store)) >= 27


@pytest.mark.thorough
@pytest.mark.parametrize("noise", ["outliers", "noise of launches"])
def test_outliers_and_noise_of_launches_are_survived(noise: str, store: Store) -> None:
    each = found(noise, store)
    assert sum(trial.all_covered for trial in each) >= 27
    assert sum(trial.lacking for trial in each) <= 3


@pytest.mark.thorough
@pytest.mark.parametrize("noise", ["drift", "heavy tails", "staggered starts"])
def test_what_is_not_as_supposed_is_survived_or_noticed(noise: str, store: Store) -> None:
    each = found(noise, store)
    assert sum(trial.all_covered or trial.noticed for trial in each) >= 27

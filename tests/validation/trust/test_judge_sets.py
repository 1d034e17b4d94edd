"""Sets of counters held against the truth, on kernels made by hand."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from smlab.models.counter_maps import CHANGES, FASTER, SPREAD
from smlab.models.counter_sets import SETS
from smlab.models.verdict import NOT
from smlab.validation.trust.judge_sets import AMDAHL, NO_GAIN, JudgedSets, sets_as_text


def judged(gain: list[float], spread: list[float]) -> JudgedSets:
    """Two kernels whose utilization is told 5 points too high, and their gains as 1.1."""
    told: Any = SimpleNamespace(
        low=np.array([0.3, 0.4]), guess=np.array([0.45, 0.55]), high=np.array([0.6, 0.7])
    )
    faster: Any = SimpleNamespace(low=np.full(2, 1.0), guess=np.full(2, 1.1), high=np.full(2, 1.2))
    answers: Any = SimpleNamespace(
        utilization=told, gain=dict.fromkeys(CHANGES, faster), verdict=np.array([NOT, NOT], dtype=object)
    )
    none, more = np.ones(2), np.full(2, 1.5)
    return JudgedSets(
        family=np.array(["a", "a"], dtype=object),
        utilization=np.array([0.4, 0.5]),
        active=np.ones(2),
        gain={FASTER: np.array(gain), SPREAD: np.array(spread)},
        others={"middle": np.array([0.5, 0.6])},
        baselines={change: {NO_GAIN: none, AMDAHL: more} for change in CHANGES},
        answers=dict.fromkeys(SETS, answers),
    )


def test_errors_stand_over_those_of_the_better_baseline() -> None:
    text = sets_as_text([judged([1.2, 1.2], [1.3, 1.3])])
    assert "utilization, points: middle 10.00" in text
    # "No gain" is 0.2 off where we are 0.1 off; of conflicts removed "Amdahl" is, where we are 0.2 off.
    assert f"{FASTER} 0.1000 (0.50), held 100.0 %" in text
    assert f"{SPREAD} 0.2000 (1.00), held 0.0 %" in text


def test_a_baseline_that_is_never_wrong_has_no_ratio() -> None:
    """Kernels of one lane have no conflicts to remove: their gain is 1 to the last bit."""
    text = sets_as_text([judged([1.2, 1.2], [1.0, 1.0])])
    assert f"{SPREAD} 0.1000 (baseline is exact), held 100.0 %" in text

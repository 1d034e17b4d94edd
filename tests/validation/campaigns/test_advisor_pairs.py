"""Kernels by others: the stored figures are those of the stored rows, and a pair computes the same before and
after its change."""

from pathlib import Path

import numpy as np
import pytest

from smlab.hw_bench.cuda.toolkit import has_compiler
from smlab.validation.campaigns.advisor.pair_inputs import drawn_inputs
from smlab.validation.campaigns.advisor.pairs import (
    DEVELOPED,
    PAIRS,
    RULES,
    ChangedKernel,
    simulated,
    with_inputs,
)

if not has_compiler():
    pytest.skip("the CUDA compiler of the extra cuda12 is not installed", allow_module_level=True)

EVERY = {pair.name: pair for of in PAIRS.values() for pair in of}
EXACT, ROUNDED = 0.0, 1e-6
"""By how much arrays may differ, relative to their largest value."""


def test_each_change_is_known_and_rounds_10_to_13_have_each_once() -> None:
    for name, of in PAIRS.items():
        changes = [pair.change for pair in of]
        assert len(changes) == 15
        assert set(changes) <= set(RULES)
        assert name not in DEVELOPED[:4] or len(set(changes)) == 15


def test_every_array_that_a_launch_reads_is_drawn() -> None:
    wanted = {pair.name for pair in EVERY.values() if 'file = "' in pair.source}
    assert wanted == set(drawn_inputs())


@pytest.mark.parametrize(
    ("pair", "within"),
    [
        pytest.param(EVERY["ray_spheres"], EXACT, id="ray_spheres"),
        pytest.param(EVERY["ising_sweep"], EXACT, id="ising_sweep"),
        pytest.param(EVERY["bias_grad"], ROUNDED, id="bias_grad"),
    ],
)
def test_a_change_leaves_what_is_computed(pair: ChangedKernel, within: float, tmp_path: Path) -> None:
    folder = with_inputs(pair, tmp_path)
    (before, first), (after, second) = (simulated(pair, folder, version) for version in ("before", "after"))
    assert before > after
    assert first.keys() == second.keys()
    for name, values in first.items():
        largest = np.abs(values.astype(float)).max()
        assert largest > 0
        difference = np.abs(values.astype(float) - second[name].astype(float)).max()
        assert difference <= within * largest, name

"""Published times of tensor memory: the stored ones are what the simulator says, and beat the baseline."""

import json

import numpy as np
import pytest

from smlab.hw_bench.cuda.toolkit import has_compiler
from smlab.validation.campaigns.tensor_memory.units import RESULTS, UnitTime, published, simulated

STORED = json.loads(RESULTS.read_text(encoding="utf-8"))["rows"]
AGAIN = (
    "tcgen05.mma.m64n96k16.ss",
    "tcgen05.mma.m128n64k16.ts",
    "tcgen05.ld.32x32b.x8",
    "tcgen05.st.32x32b.x2",
)


def test_every_published_row_is_stored() -> None:
    assert [(one.form, one.many, one.quantity, one.value) for one in published()] == [
        (one["form"], one["many"], one["quantity"], one["value"]) for one in STORED
    ]


@pytest.mark.parametrize("kind", ["mma", "ld", "st", "tensor"])
def test_judged_rows_are_nearer_than_the_baseline(kind: str) -> None:
    judged = [one for one in STORED if f".{kind}." in one["form"] and one["rests"] == "judged"]
    off, simple = (np.mean([abs(one[key] - 1) for one in judged]) for key in ("ratio", "baseline_ratio"))
    assert off < simple


@pytest.mark.skipif(not has_compiler(), reason="the CUDA compiler of the extra cuda12 is not installed")
@pytest.mark.parametrize("form", AGAIN)
def test_stored_times_are_what_the_simulator_says(form: str) -> None:
    for one in STORED:
        if one["form"] == form:
            told = {name: one[name] for name in UnitTime.__annotations__}
            assert round(simulated(UnitTime(**told)), 2) == one["simulated"]

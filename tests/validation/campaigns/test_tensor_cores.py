"""Products of matrices: bits that mmasim agreed with, and both engines alike."""

import json
from typing import Any

import numpy as np
import pytest

from smlab.hw_bench.cuda.toolkit import has_compiler
from smlab.validation.campaigns.tensor_cores.forms import FORMS
from smlab.validation.campaigns.tensor_cores.judge import RESULTS, SHORT, digest, factors_of
from smlab.validation.campaigns.tensor_cores.products import (
    from_registers,
    run_products,
    to_registers,
)

if not has_compiler():
    pytest.skip("the CUDA compiler of the extra cuda12 is not installed", allow_module_level=True)

STORED: list[dict[str, Any]] = json.loads(RESULTS.read_text())["rows"]
BY_FORM = {(row["form"], row["compute_capability"]): row for row in STORED}
CASES = [(n, capability) for n, form in enumerate(FORMS) for capability in form.since]
OFTEN = {(n, form.since[0]) for n, form in enumerate(FORMS) if not form.kind or n % 5 == 0}


def cases() -> list[Any]:
    return [
        pytest.param(n, capability, marks=() if (n, capability) in OFTEN else pytest.mark.thorough)
        for n, capability in CASES
    ]


def test_every_form_was_judged_and_none_differed() -> None:
    assert {(FORMS[n].name, capability) for n, capability in CASES} == BY_FORM.keys()
    assert [row for row in STORED if row["different"]] == []
    assert min(row["products"] for row in STORED) >= 2000


@pytest.mark.parametrize("number", range(len(FORMS)))
def test_registers_hold_each_element_once(number: int) -> None:
    form = FORMS[number]
    _, _, c = factors_of(number, form.since[0], 3)
    assert np.array_equal(from_registers(form, to_registers(form, "c", c), c), c)


@pytest.mark.parametrize(("number", "capability"), cases())
def test_products_are_those_that_were_judged(number: int, capability: int) -> None:
    """The bits of the results are those that mmasim gave, too; and the readable engine gives the same."""
    form, factors = FORMS[number], factors_of(number, capability, SHORT)
    made = run_products(form, capability, factors)
    assert digest(made) == BY_FORM[form.name, capability]["digest"]
    few = tuple(matrix[:2] for matrix in factors)
    assert np.array_equal(run_products(form, capability, few, readable=True), made[:2])  # type: ignore[arg-type]

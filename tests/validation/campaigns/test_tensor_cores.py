"""Products of matrices: bits that mmasim agreed with, and both engines alike."""

import json
from typing import Any

import numpy as np
import pytest

from smlab.hw_bench.cuda.toolkit import has_compiler
from smlab.validation.campaigns.tensor_cores.forms import FORMS
from smlab.validation.campaigns.tensor_cores.group_forms import GROUP_FORMS
from smlab.validation.campaigns.tensor_cores.group_products import run_group_products
from smlab.validation.campaigns.tensor_cores.judge import (
    GROUP_SHORT,
    MEMORY_SHORT,
    RESULTS,
    SHORT,
    digest,
    factors_of,
    group_factors_of,
    memory_factors_of,
)
from smlab.validation.campaigns.tensor_cores.products import (
    from_registers,
    run_products,
    to_registers,
)
from smlab.validation.campaigns.tensor_cores.scaled_forms import (
    SCALED_FORMS,
    run_scaled_products,
    scaled_factors,
)
from smlab.validation.campaigns.tensor_memory.forms import MEMORY_FORMS
from smlab.validation.campaigns.tensor_memory.products import run_memory_products
from smlab.validation.campaigns.tensor_memory.scaled_forms import (
    SCALED_MEMORY_FORMS,
    run_scaled_memory_products,
    scaled_memory_factors,
)

if not has_compiler():
    pytest.skip("the CUDA compiler of the extra cuda12 is not installed", allow_module_level=True)

JUDGED: dict[str, list[dict[str, Any]]] = json.loads(RESULTS.read_text())
STORED, OF_GROUPS, IN_MEMORY = JUDGED["rows"], JUDGED["group_rows"], JUDGED["memory_rows"]
WITH_SCALES, SCALED_IN_MEMORY = JUDGED["scaled_rows"], JUDGED["scaled_memory_rows"]
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


def test_every_form_of_a_group_was_judged_and_none_differed() -> None:
    assert [form.name for form in GROUP_FORMS] == [row["form"] for row in OF_GROUPS]
    assert [row for row in OF_GROUPS if row["different"]] == []
    assert min(row["products"] for row in OF_GROUPS) >= 100


@pytest.mark.parametrize(
    "number",
    [n if n % 15 == 0 else pytest.param(n, marks=pytest.mark.thorough) for n in range(len(GROUP_FORMS))],
)
def test_products_of_groups_are_those_that_were_judged(number: int) -> None:
    """The bits that mmasim gave, in all layouts of shared memory; the readable engine gives the same."""
    form, factors = GROUP_FORMS[number], group_factors_of(number, GROUP_SHORT)
    made, _ = run_group_products(form, factors)
    assert digest(made) == OF_GROUPS[number]["digest"]
    few = tuple(matrix[:1] for matrix in factors)
    read, cycles = run_group_products(form, few, readable=True)  # type: ignore[arg-type]
    assert np.array_equal(read, made[:1])
    assert cycles > 0


def test_every_form_with_scales_was_judged_and_none_differed() -> None:
    assert [form.name for form in SCALED_FORMS] == [row["form"] for row in WITH_SCALES]
    assert [row for row in WITH_SCALES if row["different"]] == []
    assert min(row["products"] for row in WITH_SCALES) >= 2000


@pytest.mark.parametrize(
    "number",
    [n if n % 6 == 0 or n > 24 else pytest.param(n, marks=pytest.mark.thorough) for n in range(30)],
)
def test_products_with_scales_are_those_that_were_judged(number: int) -> None:
    """The bits that mmasim gave, with and without timing; the readable engine gives the same."""
    form, factors = SCALED_FORMS[number], scaled_factors(number, SHORT)
    made = run_scaled_products(form, factors)
    assert digest(made) == WITH_SCALES[number]["digest"]
    few = tuple(matrix[:2] for matrix in factors)
    for engine in ("simpy", "compiled"):
        assert np.array_equal(run_scaled_products(form, few, engine), made[:2])  # type: ignore[arg-type]


def test_every_form_with_scales_in_tensor_memory_was_judged_and_none_differed() -> None:
    assert [form.name for form in SCALED_MEMORY_FORMS] == [row["form"] for row in SCALED_IN_MEMORY]
    assert [row for row in SCALED_IN_MEMORY if row["different"]] == []
    assert min(row["products"] for row in SCALED_IN_MEMORY) >= 16


@pytest.mark.parametrize("number", range(len(SCALED_MEMORY_FORMS)))
def test_products_with_scales_in_tensor_memory_are_those_that_were_judged(number: int) -> None:
    """The same; copies bring the scales. The readable engine computes the narrow ones."""
    form, factors = SCALED_MEMORY_FORMS[number], scaled_memory_factors(number, MEMORY_SHORT)
    made, _ = run_scaled_memory_products(form, factors)
    assert digest(made) == SCALED_IN_MEMORY[number]["digest"]
    if form.n <= 32:
        read, cycles = run_scaled_memory_products(form, factors, "simpy")
        again, same = run_scaled_memory_products(form, factors, "compiled")
        assert np.array_equal(read, made)
        assert np.array_equal(again, made)
        assert cycles == same > 0


def test_every_form_in_tensor_memory_was_judged_and_none_differed() -> None:
    assert [form.name for form in MEMORY_FORMS] == [row["form"] for row in IN_MEMORY]
    assert [row for row in IN_MEMORY if row["different"]] == []
    assert min(row["products"] for row in IN_MEMORY) >= 16


@pytest.mark.parametrize(
    "number",
    [n if n % 24 == 0 else pytest.param(n, marks=pytest.mark.thorough) for n in range(len(MEMORY_FORMS))],
)
def test_products_in_tensor_memory_are_those_that_were_judged(number: int) -> None:
    """The same, of a product by one thread. The readable engine computes the narrow ones."""
    form, factors = MEMORY_FORMS[number], memory_factors_of(number, MEMORY_SHORT)
    made, _ = run_memory_products(form, factors)
    assert digest(made) == IN_MEMORY[number]["digest"]
    if form.n <= 16 and form.rows == 64:
        read, cycles = run_memory_products(form, factors, "simpy")
        again, same = run_memory_products(form, factors, "compiled")
        assert np.array_equal(read, made)
        assert np.array_equal(again, made)
        assert cycles == same > 0

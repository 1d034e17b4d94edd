"""Designs: which cases there are, and in which order."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from SALib.analyze import sobol as analysis

from smlab.validation.experiments.design.design import problem
from smlab.validation.experiments.design.study import Study
from smlab.validation.experiments.run.points import Numbering

Make = Callable[..., Study]


def cases(study: Study) -> list[tuple[object, ...]]:
    return [study.design.values(case) for case in range(1, study.design.size + 1)]


def test_a_grid_has_all_combinations(queue: Make) -> None:
    study = queue()
    assert cases(study) == list(itertools.product((0.3, 0.6, 0.8), (1.0, 1.25)))
    assert study.design.values(0) == (0.5, 1.1)


def test_one_at_a_time_changes_one_factor(queue: Make) -> None:
    study = queue(('"grid"', '"one-at-a-time"'))
    assert cases(study) == [(0.3, 1.1), (0.6, 1.1), (0.8, 1.1), (0.5, 1.0), (0.5, 1.25)]
    assert [study.design.changed(case) for case in range(6)] == [
        "",
        *["arrival_rate"] * 3,
        *["service_rate"] * 2,
    ]


def test_one_at_a_time_leaves_out_the_base(atomics: Make) -> None:
    study = atomics(('"grid"', '"one-at-a-time"'))
    assert (8, study.factors[1].base) not in cases(study)


def test_random_cases_do_not_depend_on_how_many_there_are(queue: Make) -> None:
    few = queue(('"grid"', '"random"\nsamples = 10'), ("[0.3, 0.6, 0.8]", "{ range = [0.2, 0.7] }"))
    many = queue(('"grid"', '"random"\nsamples = 3000'), ("[0.3, 0.6, 0.8]", "{ range = [0.2, 0.7] }"))
    assert cases(many)[:10] == cases(few)
    assert many.design.values(2500) == cases(many)[2499]
    rates = np.array([values[0] for values in cases(many)], dtype=np.float64)
    error = 0.5 / np.sqrt(12 * 3000)
    assert abs(rates.mean() - 0.45) < 4 * error
    assert 0.2 < rates.min() < 0.21
    assert 0.69 < rates.max() < 0.7
    other = queue(
        ('"grid"', '"random"\nsamples = 10'),
        ("[0.3, 0.6, 0.8]", "{ range = [0.2, 0.7] }"),
        ("seed = 7", "seed = 8"),
    )
    assert cases(other) != cases(few)


ISHIGAMI = (
    ('model = "mm1-run"\nset.customers = 200', 'model = "ishigami"'),
    ('"wait", "response_time"', '"y"'),
    ("arrival_rate = [0.3, 0.6, 0.8]", "x1 = { range = [-3.141592653589793, 3.141592653589793] }"),
    (
        "service_rate = { values = [1, 1.25], base = 1.1 }",
        "x2 = { range = [-3.141592653589793, 3.141592653589793] }\nx3 = { range = [-3.141592653589793, "
        "3.141592653589793] }",
    ),
)


@pytest.mark.parametrize("second_order", [False, True])
def test_a_sobol_design_is_in_the_order_of_its_analysis(queue: Make, second_order: bool) -> None:
    # Ishigami & Homma 1990, a = 7, b = 0.1: S1 = (0.3139, 0.4424, 0), ST = (0.5576, 0.4424, 0.2437).
    more = f'"sobol"\nsamples = 1024\nsecond_order = {str(second_order).lower()}'
    study = queue(*ISHIGAMI, ('"grid"', more))
    assert study.design.size == 1024 * (8 if second_order else 5)
    y = np.array([study.system.answer(study.settings(v), 0).responses[0] for v in cases(study)])
    found = analysis.analyze(problem(study.factors), y, calc_second_order=second_order, seed=3)
    for name, truth in (("S1", (0.3139, 0.4424, 0.0)), ("ST", (0.5576, 0.4424, 0.2437))):
        # three half-widths of the 95 % bootstrap interval: beyond the reach of chance over six indices
        assert np.all(np.abs(found[name] - truth) < 3 * found[f"{name}_conf"] + 1e-3), name


def test_sobol_takes_any_seed(queue: Make) -> None:
    zero = queue(*ISHIGAMI, ('"grid"', '"sobol"\nsamples = 4'), ("seed = 7", "seed = 0"))
    again = queue(*ISHIGAMI, ('"grid"', '"sobol"\nsamples = 4'), ("seed = 7", "seed = 0"))
    other = queue(*ISHIGAMI, ('"grid"', '"sobol"\nsamples = 4'))
    assert cases(zero) == cases(again)
    assert cases(zero) != cases(other)


def test_replications_share_their_seed_over_cases(queue: Make) -> None:
    study = queue()
    numbering = Numbering(study)
    seeds = {(c, r): numbering.point(c, r).seed for c in range(4) for r in range(3)}
    assert len(set(seeds.values())) == 3
    assert all(seeds[c, r] == seeds[0, r] for c, r in seeds)
    unequal = queue(("seed = 7", "seed = 7\ncommon_random_numbers = false"))
    numbering = Numbering(unequal)
    assert len({numbering.point(c, r).seed for c in range(4) for r in range(3)}) == 12


def test_a_point_is_known_by_what_it_depends_on(queue: Make) -> None:
    one = Numbering(queue()).point(1, 0)
    assert Numbering(queue()).point(1, 0).hash == one.hash
    assert Numbering(queue()).point(1, 1).hash != one.hash
    assert Numbering(queue()).point(2, 0).hash != one.hash
    assert Numbering(queue(("customers = 200", "customers = 201"))).point(1, 0).hash != one.hash
    assert Numbering(queue(('"wait", ', ""))).point(1, 0).hash != one.hash
    # The title and other levels do not matter, so a study can be extended.
    extended = queue(('title = "waits"', 'title = "more"'), ("[0.3, 0.6, 0.8]", "[0.3, 0.4]"))
    assert Numbering(extended).point(1, 0).hash == one.hash

"""Calibration to published points: it recovers known parameters and reproduces what the descriptions say."""

import dataclasses

import pytest

from smlab.hw_bench.datasets.publications import load_published_atomics
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.validation.calibrate.interval_fit import FIT_LANES, fit_interval, steady_state_cycles

SERIES = {f"{s.gpu} {s.op}": s for s in load_published_atomics()}


@pytest.mark.parametrize("name", SERIES)
def test_the_descriptions_hold_what_the_fit_gives(name: str) -> None:
    series = SERIES[name]
    gpu = load_gpu(series.gpu)
    fit = fit_interval(gpu, series)
    for key, value in fit.keys(series.op).items():
        assert value == pytest.approx(float(gpu.number(key)), abs=0.02)
    assert fit.largest_residual_percent < 0.5
    assert fit.base_low < fit.base_cycles < fit.base_high


@pytest.mark.parametrize("name", [n for n in SERIES if n.endswith("add")])
def test_the_points_between_are_predicted_within_the_bound(name: str) -> None:
    """Fitted on N = 1 and 32 alone; MAPE of 1.5 % or less at N = 2, 4, 8, 16."""
    series = SERIES[name]
    judged = [n for n in series.same_word if n not in FIT_LANES]
    assert judged == [2, 4, 8, 16]
    simulated = steady_state_cycles(load_gpu(series.gpu), series.op, judged, series.warps, 1000)
    published = [series.cycles_per_instruction[series.same_word.index(n)] for n in judged]
    errors = [abs(s / p - 1) for s, p in zip(simulated, published, strict=True)]
    assert sum(errors) / len(errors) <= 0.015


def test_popc_inc_is_flat() -> None:
    series = SERIES["a100-40 popc-inc"]
    simulated = steady_state_cycles(load_gpu("a100-40"), "popc-inc", series.same_word, series.warps, 1000)
    assert simulated.max() / simulated.min() - 1 <= 0.015
    for s, p in zip(simulated, series.cycles_per_instruction, strict=True):
        assert s == pytest.approx(p, rel=0.015)


def test_known_parameters_are_recovered() -> None:
    gpu = load_gpu("v100").with_values(
        {"atomic.add.base_interval_cycles": 6.25, "atomic.add.pass_interval_cycles": 1.75},
        source="assumed: test",
    )
    made = steady_state_cycles(gpu, "add", FIT_LANES, iterations=1000)
    series = dataclasses.replace(
        SERIES["v100 add"],
        same_word=FIT_LANES,
        cycles_per_instruction=tuple(made),
        low=tuple(made - 0.1),
        high=tuple(made + 0.1),
    )
    fit = fit_interval(load_gpu("v100"), series)
    assert fit.base_cycles == pytest.approx(6.25, abs=0.01)
    assert fit.per_pass_cycles == pytest.approx(1.75, abs=0.001)


def test_a_series_without_the_fitted_points_is_refused() -> None:
    with pytest.raises(SmlabError, match="lacks a point to fit .got 32"):
        fit_interval(load_gpu("v100"), dataclasses.replace(SERIES["v100 add"], same_word=(1, 2, 4)))

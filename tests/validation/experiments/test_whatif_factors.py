"""Factors: from a quantile to a value, and back to what the distribution says."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from smlab.hw_bench.errors import SmlabError
from smlab.validation.experiments.design.factors import (
    Distribution,
    Factor,
    Written,
    make_distribution,
    make_factor,
)
from smlab.validation.experiments.design.values import Key, Value

KNOWN = {
    "uniform": ({"low": 2, "high": 5}, stats.uniform(2, 3)),
    "log-uniform": ({"low": 0.5, "high": 50}, stats.loguniform(0.5, 50)),
    "triangular": ({"low": 1, "mode": 2, "high": 5}, stats.triang(0.25, 1, 4)),
    "normal": ({"mean": 3, "sd": 0.5}, stats.norm(3, 0.5)),
    "lognormal": ({"median": 4, "spread": 1.5}, stats.lognorm(math.log(1.5), scale=4)),
}


@pytest.mark.parametrize("shape", KNOWN)
def test_quantiles_are_those_of_the_distribution(shape: str) -> None:
    parameters, known = KNOWN[shape]
    made = make_distribution("here", shape, {k: float(v) for k, v in parameters.items()})
    for quantile in np.linspace(0.01, 0.99, 33).tolist():
        assert made.at(quantile) == pytest.approx(float(known.ppf(quantile)), rel=1e-9)


def test_a_cut_off_normal_is_the_truncated_one() -> None:
    made = make_distribution("here", "normal", {"mean": 0.0, "sd": 2.0, "low": -1.0, "high": 3.0})
    known = stats.truncnorm(-0.5, 1.5, loc=0, scale=2)
    for quantile in (0.0, 0.1, 0.5, 0.9, 1.0):
        assert made.at(quantile) == pytest.approx(float(known.ppf(quantile)), abs=1e-9)


@given(st.sampled_from(sorted(KNOWN)), st.floats(0, 1), st.floats(0, 1))
def test_quantiles_rise_and_stay_inside(shape: str, one: float, other: float) -> None:
    made = make_distribution("here", shape, {k: float(v) for k, v in KNOWN[shape][0].items()})
    low, high = made.at(min(one, other)), made.at(max(one, other))
    assert made.low <= low <= high <= made.high


@pytest.mark.parametrize(
    ("shape", "parameters", "message"),
    [
        ("uniform", {"low": 2, "high": 2}, "ends before it begins"),
        ("uniform", {"low": 2}, "here.high: is missing"),
        ("log-uniform", {"low": 0, "high": 2}, "begins above 0"),
        ("triangular", {"low": 0, "mode": 3, "high": 2}, "here.mode: not between"),
        ("normal", {"mean": 0, "sd": 0}, "here.sd: not a standard deviation"),
        ("normal", {"mean": 0, "sd": 1, "median": 1}, "here.median: has no meaning"),
        ("normal", {"mean": 0, "sd": 1, "low": 60, "high": 61}, "nothing between low and high"),
        ("lognormal", {"median": 1, "spread": 1}, "here.spread: not a geometric standard deviation"),
        ("uniform", {"low": 0, "high": math.inf}, "here.high: is not finite"),
    ],
)
def test_impossible_distributions_are_refused(shape: str, parameters: dict[str, float], message: str) -> None:
    with pytest.raises(SmlabError, match=message):
        make_distribution("here", shape, {k: float(v) for k, v in parameters.items()})


KEYS = {
    "whole": Key("whole", (int,), 4),
    "number": Key("number", (float,), 2.0),
    "name": Key("name", (str,), "gto"),
    "flag": Key("flag", (bool,), False),
}


def factor(name: str, **written: object) -> Factor:
    def value_of(where: str, gpu: str, key: str) -> Value:
        return {"old": 3, "new": 5, "newer": 5}[gpu]

    return make_factor("here", name, Written.model_validate(written), lambda where, key: KEYS[key], value_of)


@given(st.integers(0, 50), st.integers(1, 50))
def test_a_whole_range_gives_each_number_an_equal_share(low: int, count: int) -> None:
    if count == 1:
        return
    made = factor("whole", range=(low, low + count - 1))
    drawn = [made.at((i + 0.5) / (10 * count)) for i in range(10 * count)]
    values, shares = np.unique(np.array(drawn), return_counts=True)
    assert values.tolist() == list(range(low, low + count))
    assert set(shares.tolist()) == {10}
    assert (made.at(0.0), made.at(1.0)) == (low, low + count - 1)


def test_a_list_gives_each_value_an_equal_share() -> None:
    made = factor("name", values=["gto", "lrr", "oldest"])
    assert [made.at(u) for u in (0, 0.3, 0.34, 0.6, 0.67, 1.0)] == [
        "gto",
        "gto",
        "lrr",
        "lrr",
        "oldest",
        "oldest",
    ]
    assert made.levels == ("gto", "lrr", "oldest")
    assert made.base == "gto"
    assert not made.is_number


def test_levels_are_spread_over_the_range() -> None:
    assert factor("number", range=(1, 3)).levels == (1.0, 2.0, 3.0)
    assert factor("number", log_range=(1, 100), levels=3).levels == pytest.approx((1, 10, 100))
    assert factor("whole", log_range=(1, 4), levels=6).levels == (1, 2, 3, 4)
    middles = factor("number", distribution="normal", mean=0, sd=1, levels=2).levels
    assert middles == pytest.approx((-0.6744897, 0.6744897))


def test_values_of_other_gpus_come_once_each() -> None:
    assert factor("number", of=["old", "new", "newer"]).levels == (3.0, 5.0)


def test_scaling_multiplies_what_the_base_has() -> None:
    made = factor("both", scale=["whole", "number"], values=[0.5, 1])
    assert made.base == 1.0
    assert made.settings(0.5) == {"whole": 2, "number": 1.0}
    assert made.settings(made.base) == {"whole": 4, "number": 2.0}
    assert isinstance(made.settings(0.5)["whole"], int)


def test_several_keys_take_one_value() -> None:
    with pytest.raises(SmlabError, match="no one value in the base"):
        factor("both", keys=["whole", "other"], values=[1]) if False else make_factor(
            "here",
            "both",
            Written(keys=["a", "b"], values=[1]),
            lambda where, key: Key(key, (int,), 1 if key == "a" else 2),
            lambda *_: 0,
        )
    made = make_factor(
        "here",
        "both",
        Written(keys=["a", "b"], values=[1, 3], base=3),
        lambda where, key: Key(key, (int,), 1 if key == "a" else 2),
        lambda *_: 0,
    )
    assert made.settings(made.base) == {"a": 3, "b": 3}


@pytest.mark.parametrize(
    ("name", "written", "message"),
    [
        (
            "whole",
            {"values": [1, 2.5]},
            r"here.values\[1\]: not a value of whole \(got 2.5; expected a whole number",
        ),
        ("whole", {"values": [1, True]}, r"here.values\[1\]"),
        ("flag", {"values": [1]}, "expected true or false"),
        ("name", {"range": [1, 2]}, "takes no numbers"),
        ("whole", {"values": [1, 1]}, "has a value twice"),
        ("whole", {"range": [1.5, 4]}, "not a value of whole"),
        ("whole", {}, "does not say over what it goes"),
        ("whole", {"values": [1], "range": [1, 2]}, "values, range"),
        ("whole", {"values": [1], "levels": 3}, "here.levels: has no meaning beside values"),
        ("whole", {"range": [1, 3], "sd": 3}, "here.sd: has no meaning beside range"),
        ("whole", {"keys": ["whole"], "scale": ["whole"], "values": [1]}, "both keys and scale"),
        ("s", {"scale": ["name"], "values": [1]}, "cannot be scaled"),
        ("s", {"scale": ["whole", "whole"], "values": [1]}, "names a key twice"),
        ("both", {"keys": ["whole", "name"], "values": [1]}, "do not take the same values"),
        ("s", {"scale": ["whole"], "of": ["old"]}, "takes the values of one key"),
    ],
)
def test_factors_that_cannot_be_are_refused(name: str, written: dict[str, object], message: str) -> None:
    with pytest.raises(SmlabError, match=message):
        factor(name, **written)


def test_a_distribution_without_ends_never_gives_infinity() -> None:
    made = Distribution("lognormal", -math.inf, math.inf, 1.0, 2.0)
    assert math.isfinite(made.at(0.0))
    assert math.isfinite(made.at(1.0))

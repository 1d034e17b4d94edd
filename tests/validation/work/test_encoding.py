"""Results come back from the store as they were, and nothing else comes out of it."""

import json
from collections import Counter
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any

import hypothesis.extra.numpy as np_strategies
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from smlab.hw_bench.datasets.evidence import load_evidence
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.validation.experiments.run.outcome import Times
from smlab.validation.work.encoding import decode, encode


def there_and_back(value: Any) -> Any:
    return decode(json.loads(json.dumps(encode(value))))


def same(a: Any, b: Any) -> bool:
    """Equal in kind and value, not-a-number to itself included."""
    if type(a) is not type(b):
        return False
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(map(same, a.values(), b.values()))
    if isinstance(a, np.ndarray | np.generic):
        if a.dtype.hasobject:
            return a.shape == b.shape and same(a.ravel().tolist(), b.ravel().tolist())
        return (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
    return bool(a == b or (a != a and b != b))


plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
arrays = np_strategies.arrays(
    st.sampled_from([np.float64, np.int64, np.bool_, np.uint32, "U3"]),
    np_strategies.array_shapes(min_dims=0, min_side=0, max_dims=3, max_side=3),
)
values = st.recursive(
    plain | arrays,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(plain.filter(lambda key: key == key) | st.tuples(st.text()), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(values)
def test_what_results_are_made_of_comes_back(value: Any) -> None:
    assert same(there_and_back(value), value)


def test_a_number_of_numpy_stays_one() -> None:
    assert [type(there_and_back(n)) for n in (np.float64(0.1), np.int32(3), 0.1)] == [
        np.float64,
        np.int32,
        float,
    ]


def test_objects_come_back_without_their_checks_and_with_their_kind() -> None:
    gpu = there_and_back(load_gpu("v100"))
    assert type(gpu) is type(load_gpu("v100"))
    assert gpu.constants == load_gpu("v100").constants
    assert isinstance(there_and_back(MappingProxyType({1: 2})), MappingProxyType)
    counted = there_and_back(Counter("abba"))
    assert (type(counted), counted) == (Counter, Counter(a=2, b=2))
    assert there_and_back(frozenset({(1, "a")})) == frozenset({(1, "a")})


def test_models_come_back() -> None:
    first, *_ = load_evidence()
    back = there_and_back(first)
    assert back == first
    assert back.model_fields_set == first.model_fields_set


def test_labelled_arrays_and_frames_come_back() -> None:
    array = xr.DataArray(
        np.arange(6.0).reshape(2, 3),
        {"n": [1, 2], "e": ("e", ["a", "b", "c"])},
        ("n", "e"),
        "t",
        {"gpu": "x"},
    )
    xr.testing.assert_identical(there_and_back(array), array)
    frame = pd.DataFrame({"a": [1, 2], "b": [0.5, np.nan], "c": ["x", None]}, index=[3, 5])
    pd.testing.assert_frame_equal(there_and_back(frame), frame)
    structured = np.array([(1, [0.5, 2.0])], [("n", "<i4"), ("x", "<f8", (2,))])
    assert same(there_and_back(structured), structured)
    assert same(
        there_and_back(np.array([[1, "a"], [(2,), None]], object)), np.array([[1, "a"], [(2,), None]], object)
    )


@dataclass
class Elsewhere:
    value: int


class Colour(Enum):
    RED = 1


@pytest.mark.parametrize("value", [Elsewhere(1), Colour.RED, object(), 1j, print, Elsewhere])
def test_what_has_no_place_is_refused_when_it_is_stored(value: Any) -> None:
    with pytest.raises(TypeError, match="no place in a stored result"):
        encode([value])


@pytest.mark.parametrize(
    "name",
    [
        "os:system",
        "smlab.validation.work.store:sqlite3.connect",
        "smlab.validation.work.runner:run_tasks",
        "smlab.validation.work.store:Store",
        "smlab.validation.work.interface:WorkerLost",
        "smlab.cli.__main__:main",
        f"{__name__}:Elsewhere",
    ],
)
def test_a_file_makes_no_other_objects(name: str) -> None:
    with pytest.raises(SmlabError, match="no class of a stored result"):
        decode({"is": "object", "class": name, "of": {}})


def test_another_version_of_a_class_is_refused() -> None:
    stored = encode(Times(1.0, 2.0, 3.0, 4.0, 5.0))
    stored["of"]["more"] = 3
    with pytest.raises(SmlabError, match=r"Times has the fields .* not .*'more'"):
        decode(stored)

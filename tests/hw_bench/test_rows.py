"""Tables as dataclasses of arrays: their rows are taken and joined, whatever holds them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.rows import Rows


@dataclass(frozen=True, eq=False)
class Inner(Rows):
    values: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Outer(Rows):
    name: str
    inner: Inner
    by_name: dict[str, NDArray[np.int64]]
    missing: NDArray[np.int64] | None = None


def outer(first: int) -> Outer:
    values = np.arange(first, first + 3)
    return Outer("all", Inner(values), {"twice": np.stack([values, 2 * values], axis=1)})


def test_rows_are_taken_by_mask_and_by_number() -> None:
    for which in (np.array([True, False, True]), np.array([0, 2])):
        some = outer(1).take(which)
        assert some.inner.values.tolist() == [1, 3]
        assert some.by_name["twice"].tolist() == [[1, 2], [3, 6]]
        assert (some.name, some.missing) == ("all", None)


def test_parts_are_joined_in_order() -> None:
    both = Outer.joined(outer(n) for n in (1, 7))
    assert both.inner.values.tolist() == [1, 2, 3, 7, 8, 9]
    assert both.by_name["twice"].shape == (6, 2)
    assert both.name == "all"

"""Tables as dataclasses of arrays: some of their rows, or several of them one after the other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray


class Rows:
    """A frozen dataclass whose arrays have one row an item each; what is neither an array nor `Rows` nor a
    dictionary of these belongs to all items."""

    def take(self, which: NDArray[Any]) -> Self:
        """The rows that ``which`` selects, by a mask or by their numbers."""
        columns: Any = self
        return type(self)(**{f.name: _taken(getattr(self, f.name), which) for f in fields(columns)})

    @classmethod
    def joined(cls, parts: Iterable[Self]) -> Self:
        """The rows of all parts, one after the other; what belongs to all items is the first part's."""
        several, columns = list(parts), fields(cls)  # type: ignore[arg-type]
        return cls(**{f.name: _joined([getattr(p, f.name) for p in several]) for f in columns})


def _taken(value: Any, which: NDArray[Any]) -> Any:
    if isinstance(value, dict):
        return {name: _taken(x, which) for name, x in value.items()}
    if isinstance(value, Rows):
        return value.take(which)
    return value[which] if isinstance(value, np.ndarray) else value


def _joined(values: list[Any]) -> Any:
    first = values[0]
    if isinstance(first, dict):
        return {name: _joined([v[name] for v in values]) for name in first}
    if isinstance(first, Rows):
        return type(first).joined(values)
    return np.concatenate(values) if isinstance(first, np.ndarray) else first

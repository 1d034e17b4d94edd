"""Tables as dataclasses of arrays: some of their rows."""

from __future__ import annotations

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


def _taken(value: Any, which: NDArray[Any]) -> Any:
    if isinstance(value, dict):
        return {name: _taken(x, which) for name, x in value.items()}
    if isinstance(value, Rows):
        return value.take(which)
    return value[which] if isinstance(value, np.ndarray) else value

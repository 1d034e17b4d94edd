"""What changing one parameter of a configuration does on the new GPU, and how sure that is.

Of two configurations that differ in one parameter, the sign of the change on the new GPU is predicted from
projected times where the old GPU's counters are known, else it is the old GPU's own. How often such a sign is
right hangs on the size of the predicted change; the curve is `RIGHT`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Evidence = Literal["projected", "copied"]

RIGHT: Final[dict[Evidence, tuple[float, float]]] = {"projected": (0.46, 0.05), "copied": (0.40, 0.09)}
"""Of the share of right signs, ``0.5 + a (1 - exp(-|d| / b))`` for a predicted change of the logarithm by d:
(a, b), read off two public searches of convolutions on two cards each (33,000 and 15,000 pairs whose times
differ by 3 % on the new card). Even a sure prediction is wrong in 4 to 10 % of the pairs: what a compiler
makes of a configuration is in no measurement of the old card."""


@dataclass(frozen=True, eq=False)
class OneChange:
    """Pairs of rows that differ in one parameter: ``first`` and ``second`` are rows, ``parameter`` its
    column, all (pairs,)."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    parameter: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.first)


def confidence(log_change: ArrayLike, evidence: Evidence) -> Floats:
    """The share of changes of that predicted size whose sign is right, 0.5 to 1."""
    most, scale = RIGHT[evidence]
    return np.asarray(0.5 + most * (1 - np.exp(-np.abs(np.asarray(log_change)) / scale)))


def one_change(config: Sequence[Sequence[object]]) -> OneChange:
    """All pairs of configurations that differ in one parameter, each once, the first row the lower one."""
    found: list[tuple[int, int, int]] = []
    for column in range(len(config[0]) if config else 0):
        groups: dict[tuple[object, ...], list[int]] = {}
        for row, values in enumerate(config):
            groups.setdefault((*values[:column], *values[column + 1 :]), []).append(row)
        for members in groups.values():
            found += [(a, b, column) for i, a in enumerate(members) for b in members[i + 1 :]]
    rows = np.array(found, dtype=np.int64).reshape(-1, 3)
    return OneChange(rows[:, 0], rows[:, 1], rows[:, 2])


def changes_from(config: Sequence[Sequence[object]], row: int) -> list[tuple[int, int]]:
    """(Other row, column) of the configurations that differ from ``row`` in one parameter."""
    here = config[row]
    found = []
    for other, values in enumerate(config):
        different = [c for c, (a, b) in enumerate(zip(here, values, strict=True)) if a != b]
        if len(different) == 1:
            found.append((other, different[0]))
    return found

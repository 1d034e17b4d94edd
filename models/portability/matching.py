"""The same configuration on several GPUs: matched by name, and refused where units do not fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError

UNIT_FACTORS: Final = (1e3, 1e6)
"""Milliseconds read as seconds, microseconds as seconds."""

UNIT_BAND: Final = 3.0
"""Ratios whose median lies within this factor of a thousand or a million are taken for mixed units: no two
GPUs that run the same code are that far apart."""


@dataclass(frozen=True, eq=False)
class Matches:
    """Rows of each platform that belong together: ``rows`` is of shape ``(matched, platforms)``, ``labels``
    their names. ``unmatched`` holds, for each platform, the labels that some other platform lacks.
    """

    labels: tuple[str, ...]
    rows: NDArray[np.int64]
    unmatched: Mapping[str, tuple[str, ...]]


def match(labels: Mapping[str, Sequence[str]]) -> Matches:
    """Match rows by label; ``labels`` holds each platform's, by its name. In the order of the first platform.

    Raises:
        SmlabError: fewer than two platforms, a label twice on one, or nothing that all have.
    """
    if len(labels) < 2:
        raise SmlabError.at(
            "port", "needs two GPUs or more", ", ".join(labels) or "none", "NAME=FILE NAME=FILE"
        )
    at: dict[str, dict[str, int]] = {}
    for name, own_labels in labels.items():
        at[name] = {}
        for row, label in enumerate(own_labels):
            if label in at[name]:
                raise SmlabError.at(name, "a configuration stands twice", label, "one row each")
            at[name][label] = row
    first, *others = at
    common = [label for label in at[first] if all(label in at[name] for name in others)]
    if not common:
        shown = "; ".join(f"{name}: {next(iter(own_labels), 'nothing')}" for name, own_labels in at.items())
        raise SmlabError.at(
            "port", "no kernel and configuration is in all files", shown, "the same names in each"
        )
    kept = set(common)
    return Matches(
        labels=tuple(common),
        rows=np.array([[at[name][label] for name in at] for label in common], dtype=np.int64),
        unmatched={
            name: tuple(label for label in own_labels if label not in kept) for name, own_labels in at.items()
        },
    )


def check_units(names: tuple[str, str], seconds: tuple[NDArray[np.float64], NDArray[np.float64]]) -> None:
    """`SmlabError` where the times of one platform look to be in another unit than the other's.

    ``seconds`` are the matched times of the two platforms ``names``, of shape ``(matched,)`` each.
    """
    middle = float(np.median(np.log(seconds[1] / seconds[0])))
    for factor in UNIT_FACTORS:
        for sign, longer in ((1, names[1]), (-1, names[0])):
            if abs(middle - sign * np.log(factor)) < np.log(UNIT_BAND):
                raise SmlabError.at(
                    longer,
                    f"its times are some {factor:,.0f} times those of {names[0] if sign > 0 else names[1]}",
                    f"median ratio {np.exp(middle):.3g}",
                    "the same unit in both files (is one in milli- or microseconds?)",
                )

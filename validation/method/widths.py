"""Widths of prediction intervals, fitted on some families of cases and judged on those left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from smlab.hw_bench.errors import SmlabError

LEVEL: Final = 0.9


def width_factor(error: ArrayLike, width: ArrayLike, group: ArrayLike, level: float = LEVEL) -> float:
    """The factor with which ``width`` holds ``error`` with ``level``: the quantile of their ratio in which
    each group has the same say, whatever its number of cases (split conformal prediction with normalised
    scores).

    All of shape ``(cases,)``; errors are absolute, in the unit of the widths, which are above 0.
    """
    e, w = np.abs(np.asarray(error, dtype=np.float64)), np.asarray(width, dtype=np.float64)
    names = np.asarray(group)
    if not len(e) or e.shape != w.shape or names.shape != e.shape:
        raise SmlabError.at(
            "width_factor", "errors, widths and groups differ in number", e.shape, str(w.shape)
        )
    if not (np.isfinite(e).all() and np.isfinite(w).all() and (w > 0).all()):
        raise SmlabError.at("width_factor", "not finite, or a width that is not above 0")
    _, inverse, counts = np.unique(names, return_inverse=True, return_counts=True)
    weight = 1.0 / counts[inverse]
    ratio = e / w
    order = np.argsort(ratio, kind="stable")
    reached = np.cumsum(weight[order]) / weight.sum()
    at = min(int(np.searchsorted(reached, level)), len(e) - 1)
    return float(ratio[order][at])


@dataclass(frozen=True)
class LeftOut:
    """How often intervals held for the ``n`` cases of one family, their width fitted without it;
    ``median_width`` is how far the upper end is above the prediction, as a share of it."""

    family: str
    n: int
    coverage: float
    median_width: float
    factor: float


def left_out(
    error: ArrayLike,
    width: ArrayLike,
    family: ArrayLike,
    group: ArrayLike | None = None,
    level: float = LEVEL,
) -> list[LeftOut]:
    """Each family's coverage with the factor fitted on all other families; errors and widths are of
    logarithms.

    ``group`` are the cases that have one say together in the fit; the families by themselves where it is not
    given.
    """
    e, w, names = np.abs(np.asarray(error)), np.asarray(width), np.asarray(family)
    groups = names if group is None else np.asarray(group)
    if len(set(names.tolist())) < 2:
        raise SmlabError.at(
            "left_out", "nothing can be left out", len(set(names.tolist())), "two families or more"
        )
    found = []
    for name in sorted(set(names.tolist())):
        of = names == name
        factor = width_factor(e[~of], w[~of], groups[~of], level)
        held = e[of] <= factor * w[of]
        median = float(np.exp(np.median(factor * w[of])) - 1)
        found.append(LeftOut(str(name), int(of.sum()), float(held.mean()), median, factor))
    return found

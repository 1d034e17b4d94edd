"""Utilization where the evidence leaves a choice: estimates under each alternative of a GPU's description,
taken together.

An alternative has tables of its own (`smlab.hw_bench.gpu.alternatives`), so it has an estimate and an
interval of its own. What is said of a kernel is the mixture of them, weighted as the description weighs them;
a verdict on which they differ is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.rows import Rows
from smlab.models.utilization.trust_map import LEVELS, TrustMap, UtilizationEstimates, UtilizationInterval
from smlab.models.utilization.verdict import CANNOT_TELL, Verdict

Floats = NDArray[np.float64]

ATOMS: Final = 200
"""Points that stand for the distribution of an alternative's interval."""


@dataclass(frozen=True, eq=False)
class AlternativeEstimates(Rows):
    """The estimates of some kernels under one alternative, and the ``weight`` that it has."""

    name: str
    weight: float
    estimates: UtilizationEstimates


def mean_over(parts: Sequence[AlternativeEstimates], values: Sequence[Floats]) -> Floats:
    """The mean of what each alternative gives, (kernels,), by their weights."""
    total: Floats = np.average(np.stack(values), axis=0, weights=[p.weight for p in parts])
    return total


@dataclass(frozen=True, eq=False)
class MixedUtilization:
    """The mixture of what alternatives say of each kernel's utilization: ``values`` (kernels, atoms) in
    ascending order, and ``below``, the share of the mixture up to each."""

    values: Floats
    below: Floats

    def ends(self, level: float) -> tuple[Floats, Floats]:
        """The quantiles between which the share ``level`` lies, both (kernels,)."""
        low, high = (self._at(p) for p in ((1 - level) / 2, (1 + level) / 2))
        return low, high

    def _at(self, share: float) -> Floats:
        """The first value of each kernel up to which the weights reach the ``share``."""
        place = np.argmax(self.below >= share * self.below[:, -1:] - 1e-12, axis=1)[:, None]
        quantile: Floats = np.take_along_axis(self.values, place, axis=1)[:, 0]
        return quantile


def mixed_utilization(
    parts: Sequence[AlternativeEstimates], trust: TrustMap, estimator: str
) -> MixedUtilization:
    """Each alternative's intervals at all levels of the map are quantiles of a distribution; this is the
    weighted sum of these."""
    atoms = np.concatenate([_atoms(p.estimates, trust, estimator) for p in parts], axis=1)
    weights = np.concatenate([np.full(ATOMS, p.weight / ATOMS) for p in parts])
    order = np.argsort(atoms, axis=1, kind="stable")
    return MixedUtilization(np.take_along_axis(atoms, order, axis=1), np.cumsum(weights[order], axis=1))


def mixed_interval(
    parts: Sequence[AlternativeEstimates], trust: TrustMap, level: float, estimator: str
) -> UtilizationInterval:
    """The interval at ``level`` of the mixture of the alternatives; that of the only one if there is one.

    Where only one of the alternatives is true, and each kernel is told from both, a mixture of intervals that
    hold ``level`` each holds more. So its ends are quantiles of the mixture at the level with which mixtures
    held ``level`` of the kernels of families left out
    (`smlab.models.utilization.trust_map.Quantiles.mixture_level`).
    """
    alone = [trust.interval(p.estimates, level, estimator) for p in parts]
    if len(parts) == 1:
        return alone[0]
    taken = trust.estimators[estimator].mixture_level(level)
    low, high = mixed_utilization(parts, trust, estimator).ends(taken)
    outside = tuple(
        tuple(dict.fromkeys(name for names in each for name in names))
        for each in zip(*(i.outside for i in alone), strict=True)
    )
    return UtilizationInterval(level, low, high, outside)


def _atoms(estimates: UtilizationEstimates, trust: TrustMap, estimator: str) -> Floats:
    """As many equally likely values of each kernel's utilization, (kernels, atoms), as its intervals at all
    levels and between them say."""
    known = LEVELS[: len(trust.estimators[estimator].pooled)]
    levels = sorted({*known, *((a + b) / 2 for a, b in pairwise(known))})
    intervals = [trust.interval(estimates, level, estimator) for level in levels]
    probabilities = [(1 - x) / 2 for x in reversed(levels)] + [(1 + x) / 2 for x in levels]
    ends = np.stack([i.low for i in reversed(intervals)] + [i.high for i in intervals], axis=1)
    ends = np.maximum.accumulate(ends, axis=1)
    at = (np.arange(ATOMS) + 0.5) / ATOMS
    return np.stack([np.interp(at, probabilities, row) for row in ends])


def joint_verdict(names: Sequence[str], verdicts: Sequence[Verdict], by_mixture: Verdict) -> Verdict:
    """The verdict on which all alternatives agree, with the reason that goes by the mixture's interval; else
    that the evidence does not tell, and which of them says what."""
    if len({v.verdict for v in verdicts}) == 1:
        return by_mixture if by_mixture.verdict == verdicts[0].verdict else verdicts[0]
    by_alternative = "; ".join(f"{v.verdict} if {name}" for name, v in zip(names, verdicts, strict=True))
    advice = next((v.advice for v in verdicts if v.advice), ())
    return Verdict(
        CANNOT_TELL, f"the alternatives of this GPU's atomic unit disagree: {by_alternative}", advice
    )

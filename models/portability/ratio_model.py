"""What a few measured ratios of new to old times tell of all the others.

The logarithm of the ratio is taken for a sum of parts. Each is a Gaussian process over the configurations
(Rasmussen and Williams 2006, chapters 2 and 5). One part is a factor that all share. Others are an effect of
each switch (a parameter of two values) and smooth effects of sizes. Then come what a combination of all
parameters does (near combinations are alike), and each configuration's own part. How large each part is
differs from one pair of GPUs to the next, and a handful of ratios cannot tell it surely. So nothing is
fitted: all `SCALES` are kept, each weighed by how likely it makes the ratios seen (its marginal likelihood).
A part of which nothing was seen yet stays as uncertain as it was. The effect of a switch may be anything
until a configuration with the switch the other way is measured.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.rows import Rows

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

OF_SWITCHES: Final = (0.1, 0.3, 0.6)
OF_SIZES: Final = (0.05, 0.15, 0.4)
OF_COMBINATIONS: Final = (0.02, 0.1, 0.3)
OF_ITSELF: Final = (0.03, 0.1, 0.2)
"""Standard deviations of the logarithm of the ratio by each part: effects of a few per cent to twofold."""

SCALES: Final = np.array(list(itertools.product(OF_SWITCHES, OF_SIZES, OF_COMBINATIONS, OF_ITSELF)))
"""(scales, parts)."""

OF_ALL: Final = 2.0
"""Of the factor that all share: no more than that a GPU is seldom fifty times as fast as another."""

LENGTH: Final = 1.5
"""Distance at which a size's effects are no longer alike, in its standard deviations. The covariance falls
exponentially, as that of a random walk does. The reason: a size's effect jumps where one block less fits an
SM."""

ACROSS: Final = 0.3
"""How far a combination is like another where they have nothing of one parameter in common."""

LIKELY: Final = 0.003
MOST_SCALES: Final = 16
"""Scales less likely than that, and all after so many, are left out of a prediction."""


@dataclass(frozen=True, eq=False)
class Parameters(Rows):
    """Configurations by what is tuned: ``sizes`` (configurations, sizes), standardised, and ``switches``
    (configurations, switches), a code each; parameters of one value are in neither."""

    sizes: Floats
    switches: Ints

    def __len__(self) -> int:
        return len(self.sizes)


@dataclass(frozen=True, eq=False)
class ScaleMixture:
    """Logarithms of ratios of some configurations: normal with ``mean`` and ``variance`` (scales,
    configurations) under each of the likely scales, whose ``weight`` (scales,) adds up to 1."""

    weight: Floats
    mean: Floats
    variance: Floats

    def moments(self) -> tuple[Floats, Floats]:
        """Mean and standard deviation over all scales, (configurations,)."""
        mean = self.weight @ self.mean
        return mean, np.sqrt(self.weight @ (self.variance + (self.mean - mean) ** 2))


@dataclass(frozen=True, eq=False)
class _Posterior:
    """The likely ``scales`` with their ``weight``; for each of all scales the ``inverse`` of the lower root
    of the covariance of the ratios seen, and these ratios ``whitened`` by it."""

    scales: Ints
    weight: Floats
    inverse: Floats
    whitened: Floats


class RatioModel:
    """Ratios seen so far, and what they say of the others. ``spread`` multiplies all `SCALES`: where the
    times on the new GPU are foreseen better than by those on the old one, the ratios left are smaller."""

    def __init__(self, parameters: Parameters, spread: float = 1.0) -> None:
        self._of = parameters
        self._variances = (spread * SCALES) ** 2
        self._rows: list[int] = []
        self._log_ratio: list[float] = []
        switches, sizes = parameters.switches.shape[1], parameters.sizes.shape[1]
        self._alike: Floats = np.zeros((len(PATHS), len(parameters), 0))
        # Each switch has an effect of its own; those of sizes share one scale.
        self._unshared = np.array([float(switches), float(sizes > 0), float(switches + sizes > 0)])

    def tell(self, row: int, log_ratio: float) -> None:
        """The ratio of one configuration."""
        self._rows.append(row)
        self._log_ratio.append(log_ratio)
        self._alike = np.concatenate([self._alike, self._likeness(row)[:, :, None]], axis=2)

    def predicted(self, rows: Ints) -> ScaleMixture:
        """The ratios of ``rows``; those measured are no more certain than another launch of them would be."""
        seen = self._posterior()
        means, spreads = [], []
        for scale in seen.scales:
            weights = self._whitened_covariance(seen, scale, rows)
            means.append(weights @ seen.whitened[scale])
            spreads.append(np.maximum(self._prior()[scale] - (weights**2).sum(axis=1), 1e-8))
        return ScaleMixture(seen.weight, np.array(means), np.array(spreads))

    def difference(self, row: int, others: Ints) -> ScaleMixture:
        """The ratios of ``others`` less that of ``row``, (scales, others): what both share is in neither. A
        row that was measured has the ratio that was seen."""
        if row in self._rows:
            predicted = self.predicted(others)
            measured = self._log_ratio[self._rows.index(row)]
            return ScaleMixture(predicted.weight, predicted.mean - measured, predicted.variance)
        seen, here = self._posterior(), np.array([row])
        alike = self._likeness(row)[:, others]
        same = others == row
        means, spreads = [], []
        for scale in seen.scales:
            mine, theirs = (
                self._whitened_covariance(seen, scale, here),
                self._whitened_covariance(seen, scale, others),
            )
            prior = 2 * (self._variances[scale, :3] @ (self._unshared[:, None] - alike))
            prior += 2 * self._variances[scale, 3] * ~same
            means.append((theirs - mine) @ seen.whitened[scale])
            spreads.append(np.maximum(prior - ((theirs - mine) ** 2).sum(axis=1), 1e-8))
        return ScaleMixture(seen.weight, np.array(means), np.array(spreads))

    def likeness(self, row: int) -> Floats:
        """How far each is like ``row`` in all parameters together, 0 to 1, (configurations,)."""
        return np.asarray(self._likeness(row)[PATHS.index("combinations")])

    def _prior(self) -> Floats:
        """Variance of a ratio of which nothing is known, (scales,)."""
        return np.asarray(OF_ALL**2 + self._variances[:, :3] @ self._unshared + self._variances[:, 3])

    def _posterior(self) -> _Posterior:
        """What the ratios seen say of the scales."""
        count = len(self._variances)
        if not self._rows:
            each, nothing = np.full(count, 1 / count), np.zeros((count, 0))
            return _Posterior(np.arange(count), each, np.zeros((count, 0, 0)), nothing)
        rows, ratio, variances = np.array(self._rows), np.array(self._log_ratio), self._variances
        among = OF_ALL**2 + np.tensordot(variances[:, :3], self._alike[:, rows], axes=1)
        among += (variances[:, 3] + 1e-8)[:, None, None] * np.eye(len(rows))
        lower = np.linalg.cholesky(among)
        inverse = np.linalg.inv(lower)
        whitened = inverse @ ratio
        log_weight = -0.5 * (whitened**2).sum(axis=1) - np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(
            axis=1
        )
        weight = np.exp(log_weight - log_weight.max())
        weight /= weight.sum()
        likely = np.argsort(-weight, kind="stable")[:MOST_SCALES]
        likely = likely[weight[likely] >= min(LIKELY, float(weight.max()))]
        return _Posterior(likely, weight[likely] / weight[likely].sum(), inverse, whitened)

    def _whitened_covariance(self, seen: _Posterior, scale: int, rows: Ints) -> Floats:
        """Covariances of ``rows`` with the whitened ratios seen, (rows, seen)."""
        if not self._rows:
            return np.zeros((len(rows), 0))
        covariance = OF_ALL**2 + np.tensordot(self._variances[scale, :3], self._alike[:, rows], axes=1)
        return np.asarray(covariance @ seen.inverse[scale].T)

    def _likeness(self, row: int) -> Floats:
        """Correlation of each configuration with ``row`` by switches (summed over them), sizes and
        combinations, (parts, configurations)."""
        switches = (self._of.switches == self._of.switches[row]).astype(np.float64)
        sizes = np.exp(-np.abs(self._of.sizes - self._of.sizes[row]) / LENGTH)
        each = np.concatenate([switches, sizes], axis=1)
        combined = np.prod(ACROSS + (1 - ACROSS) * each, axis=1) if each.shape[1] else np.zeros(len(each))
        smooth = sizes.mean(axis=1) if sizes.shape[1] else np.zeros(len(each))
        return np.stack([switches.sum(axis=1), smooth, combined])


PATHS: Final = ("switches", "sizes", "combinations")
"""The parts that configurations share; what is a configuration's own has no likeness."""

"""Performance portability of an application over a set of platforms, and the distribution behind the number.

Pennycook, Sewall and Lee (2016, 2019): the harmonic mean of an application's efficiencies over a set H of
platforms, and 0 if it fails on any of them,

    PP(a, p, H) = |H| / sum over i in H of 1 / e_i(a, p).

One number hides much (Sewall et al., 2020): applications with equal PP may be even or brilliant here and poor
there. So `portability` gives minimum, mean and all efficiencies beside it. `cascade` gives what their cascade
plot shows: platforms in the order of falling efficiency, and PP over the best one, two, ... of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from smlab.hw_bench.errors import SmlabError

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PortabilityOfSet:
    """The metric and what it hides, a row an application: ``metric``, ``least`` and ``mean`` of shape
    ``(applications,)``, ``efficiencies`` of shape ``(applications, platforms)`` with 0 for a failure.
    """

    metric: Floats
    least: Floats
    mean: Floats
    efficiencies: Floats


def application_efficiency(seconds: ArrayLike) -> Floats:
    """Each application's efficiency on each platform against the fastest application there.

    ``seconds`` is of shape ``(applications, platforms)``, NaN or infinity where an application fails; so is
    the result, with 0 there. A platform on which all fail gives 0 throughout.
    """
    times = _times(seconds)
    finite = np.where(np.isfinite(times), times, np.inf)
    best = finite.min(axis=0, initial=np.inf)
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(finite), best / finite, 0.0)


def portability(efficiencies: ArrayLike) -> PortabilityOfSet:
    """Pennycook's metric of each application over all platforms; ``efficiencies`` is of shape
    ``(applications, platforms)``, from 0 (fails) to 1.
    """
    values = _efficiencies(efficiencies)
    with np.errstate(divide="ignore"):
        metric = values.shape[1] / (1.0 / values).sum(axis=1)
    return PortabilityOfSet(metric, values.min(axis=1), values.mean(axis=1), values)


def of_set(efficiencies: Sequence[ArrayLike], platforms: int) -> PortabilityOfSet:
    """As `portability`, of a list of applications that may be empty."""
    if not len(efficiencies):
        nothing = np.zeros(0)
        return PortabilityOfSet(nothing, nothing, nothing, np.zeros((0, platforms)))
    return portability(np.asarray(efficiencies, dtype=np.float64))


def cascade(efficiencies: ArrayLike) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Of each application: its platforms by falling efficiency, these efficiencies, and the metric over the
    first one, two, ... of them; each of shape ``(applications, platforms)``.
    """
    values = _efficiencies(efficiencies)
    order = np.argsort(-values, axis=1, kind="stable")
    falling = np.take_along_axis(values, order, axis=1)
    with np.errstate(divide="ignore"):
        metric = np.arange(1, values.shape[1] + 1) / np.cumsum(1.0 / falling, axis=1)
    return order, falling, metric


def _times(seconds: ArrayLike) -> Floats:
    values = np.atleast_2d(np.asarray(seconds, dtype=np.float64))
    if (values <= 0).any():
        raise SmlabError.at(
            "seconds", "not a time", float(values[values <= 0][0]), "above 0, or NaN for a failure"
        )
    return values


def _efficiencies(efficiencies: ArrayLike) -> Floats:
    values = np.atleast_2d(np.asarray(efficiencies, dtype=np.float64))
    if values.size == 0:
        raise SmlabError.at("efficiencies", "no platform", values.shape, "one platform or more")
    wrong = ~((values >= 0) & (values <= 1))
    if wrong.any():
        raise SmlabError.at("efficiencies", "out of range", float(values[wrong][0]), "0 (fails) to 1")
    return values

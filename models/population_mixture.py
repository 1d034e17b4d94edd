"""A closed network whose population changes while it is observed: all warps for a time, then fewer and fewer.

Counters give the mean number of resident warps, W, and the launch gives the most that were resident at a
time. Where they differ, warps ran out: towards the end of a kernel they finish one after another. The network
is then a mixture of populations, and since utilization is not linear in the population, the mean alone
overrates it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

NODES, WEIGHTS = (
    0.5 * (np.polynomial.legendre.leggauss(4)[0] + 1),
    0.5 * np.polynomial.legendre.leggauss(4)[1],
)
"""Gauss-Legendre quadrature over the time in which warps run out."""

SAME = 1e-3
"""Peak and mean closer than this (relatively) are one population."""

RESCALED_EVERY = 4
"""Steps after which the sums are brought back below 1; in so many they grow by (warps S / Z)^4 at most,
far from overflow."""


def members_of(warps: Floats, peak: Floats) -> tuple[Floats, Floats]:
    """Populations and their weights, ``(kernels, members)`` each, whole numbers whose weighted mean is
    ``warps``.

    A share 2 W / peak - 1 of the time all ``peak`` warps are there; in the rest they fall evenly to none.
    Where the mean is below half the peak, they fall evenly from twice the mean. A number that is not whole is
    a mixture of its neighbours.
    """
    most = np.minimum(np.maximum(peak, warps), 2 * warps)
    most = np.where(most <= warps * (1 + SAME), warps, most)
    full = 2 * warps / most - 1
    levels = np.column_stack([most, *(most * x for x in NODES)])
    weights = np.column_stack([full, *((1 - full) * w for w in WEIGHTS)])
    below = np.floor(levels)
    part = levels - below
    return np.hstack([below, below + 1]), np.hstack([weights * (1 - part), weights * part])


class Mixture:
    """The machine-repairman networks of several populations with one load-dependent server, and their
    weighted answers.

    ``service`` is S(j), the time between completions with j jobs in the server, ``(kernels, loads)``.
    """

    def __init__(self, warps: Floats, peak: Floats, service: Floats) -> None:
        self.service = service
        populations, weights = members_of(warps, peak)
        used = weights.any(axis=0)  # without draining, one or two members are all
        self.populations, self.weights = populations[:, used], weights[:, used]

    def saturated(self) -> tuple[Floats, Floats, Floats]:
        """Throughput, probability that the server is busy, and mean number at it, when nobody ever thinks."""
        place = np.clip(self.populations.astype(np.int64) - 1, 0, self.service.shape[1] - 1)
        there = self.populations > 0
        rates = np.where(there, 1 / np.take_along_axis(self.service, place, axis=1), 0.0)
        return (
            (self.weights * rates).sum(axis=1),
            (self.weights * there).sum(axis=1),
            (self.weights * self.populations).sum(axis=1),
        )

    def answers(self, think: Floats) -> tuple[Floats, Floats, Floats]:
        """As `saturated`, for think times ``(kernels,)`` above 0."""
        idle, busy, rate, queue = self._sums(think, self.populations, self.service, with_queue=True)
        shares = self.weights / (idle + busy)
        return (shares * rate).sum(axis=1), (shares * busy).sum(axis=1), (shares * queue).sum(axis=1)

    def throughput(self, think: Floats, rows: NDArray[np.intp]) -> Floats:
        """The throughput alone, of the kernels ``rows``, for their think times ``(rows,)`` above 0."""
        idle, busy, rate, _ = self._sums(think, self.populations[rows], self.service[rows], with_queue=False)
        found: Floats = (self.weights[rows] / (idle + busy) * rate).sum(axis=1)
        return found

    def _sums(
        self, think: Floats, populations: Floats, service: Floats, *, with_queue: bool
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """Of states j: the idle one, and the sums over the busy ones of p, p / S and j p (if asked), all
        unnormalised.

        The states' probabilities follow from one another: p(j) = p(j - 1) (N - j + 1) S(j) / Z.
        """
        inverse = (1 / think)[:, None]
        state = np.ones_like(populations)
        idle = state.copy()
        busy, rate, queue = np.zeros_like(state), np.zeros_like(state), np.zeros_like(state)
        sums = (state, idle, busy, rate, queue) if with_queue else (state, idle, busy, rate)
        thinking = populations.copy()
        for j in range(1, service.shape[1] + 1):
            here = service[:, j - 1 : j]
            state *= thinking
            state *= here * inverse
            busy += state
            rate += state * (1 / here)
            if with_queue:
                queue += j * state
            np.maximum(thinking - 1, 0, out=thinking)
            if j % RESCALED_EVERY == 0:
                down = 1 / np.maximum(busy, 1)
                for total in sums:
                    total *= down
        return idle, busy, rate, queue

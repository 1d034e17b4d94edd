"""Exact solution of closed, single-class, product-form queueing networks.

Mean value analysis: M. Reiser and S. S. Lavenberg, "Mean-Value Analysis of Closed Multichain Queuing
Networks", JACM 27(2), 1980. Load-dependent stations: M. Reiser, "Mean-value analysis and convolution method
for queue-dependent servers in closed queueing networks", Performance Evaluation 1(1), 1981. Normalising
constants: J. P. Buzen, "Computational algorithms for closed queueing networks with exponential servers", CACM
16(9), 1973.

A closed network whose population changes while it is observed: all warps for a time, then fewer and fewer.

Counters give the mean number of resident warps, W, and the launch gives the most that were resident at a
time. Where they differ, warps ran out: towards the end of a kernel they finish one after another. The network
is then a mixture of populations, and since utilization is not linear in the population, the mean alone
overrates it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, xlogy

from smlab.hw_bench.errors import SmlabError

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Station:
    """One station of a closed network.

    ``demand_cycles``: cycles of service that a job asks of it in all its visits, alone (V S(1)), 0 or more.
    ``rate_multipliers``: None at a fixed rate; else a(n) > 0 for n = 1, 2, ... jobs present, so that the
    demand is met at rate a(n) and S(n) = demand / a(n); at least as many as customers are solved for.
    ``is_delay``: no queueing, each job is served at once. `SmlabError` on values that are negative or not
    finite.
    """

    name: str
    demand_cycles: float
    rate_multipliers: tuple[float, ...] | None = None
    is_delay: bool = False

    def __post_init__(self) -> None:
        where = f"station {self.name!r}"
        if not (np.isfinite(self.demand_cycles) and self.demand_cycles >= 0):
            raise SmlabError.at(where, "unusable demand", self.demand_cycles, "finite cycles, 0 or more")
        if self.rate_multipliers is None:
            return
        if self.is_delay:
            raise SmlabError.at(where, "a delay station has no rate multipliers")
        for n, rate in enumerate(self.rate_multipliers, start=1):
            if not (np.isfinite(rate) and rate > 0):
                raise SmlabError.at(
                    where, f"unusable rate multiplier for n = {n}", rate, "finite and above 0"
                )

    @classmethod
    def by_load(cls, name: str, service_cycles: Sequence[float]) -> Station:
        """A load-dependent station visited once, by its mean service time S(n) with n = 1, 2, ... jobs."""
        for n, service in enumerate(service_cycles, start=1):
            if not (np.isfinite(service) and service > 0):
                where = f"station {name!r}"
                raise SmlabError.at(
                    where, f"unusable service time for n = {n}", service, "finite and above 0"
                )
        if not len(service_cycles):
            raise SmlabError.at(f"station {name!r}", "no service times", expected="S(n) for n = 1, 2, ...")
        first = float(service_cycles[0])
        return cls(name, first, tuple(first / float(service) for service in service_cycles))


@dataclass(frozen=True)
class NetworkSolution:
    """Mean values of a closed network for every population; row n - 1 of an array is population n = 1 .. N.

    The network has the stations ``names`` (K,), ``customers`` N and ``think_cycles`` Z. ``throughput`` (N,)
    is in jobs a cycle. ``response_cycles`` (N,) are without the think time, ``station_response_cycles`` (N,
    K) over all visits. ``queue_length`` (N, K) counts jobs present. ``utilization`` (N, K) is the share of
    time with a job present, 1 - p(0). At delay stations it is the mean number in service, and can exceed 1.
    ``marginals``: by name of each load-dependent station, (N, N + 1), the probability of j = 0 .. N jobs
    there.
    """

    names: tuple[str, ...]
    customers: int
    think_cycles: float
    throughput: Floats
    response_cycles: Floats
    station_response_cycles: Floats
    queue_length: Floats
    utilization: Floats
    marginals: Mapping[str, Floats]


def solve(stations: Sequence[Station], think_cycles: float, customers: int) -> NetworkSolution:
    """Exact mean values for populations 1 .. ``customers`` of single-class customers.

    Fixed-rate and delay stations go by mean value analysis (Reiser & Lavenberg 1980): R_k(n) = D_k (1 +
    Q_k(n-1)), X(n) = n / (Z + sum R_k(n)), Q_k(n) = X(n) R_k(n). Load-dependent ones by R_k(n) = sum_j j
    S_k(j) p_k(j-1 | n-1) and p_k(j | n) = X(n) S_k(j) p_k(j-1 | n-1), j >= 1. `SmlabError` if ``customers``
    is not a whole number of 1 or more, names repeat, no time is spent anywhere, or a station knows fewer
    rates than customers.
    """
    _check(stations, think_cycles, customers)
    n_max, count = int(customers), len(stations)
    demand = np.array([s.demand_cycles for s in stations], dtype=np.float64)
    delay = np.array([s.is_delay for s in stations], dtype=bool)
    service = {
        k: s.demand_cycles / np.array(s.rate_multipliers[:n_max], dtype=np.float64)
        for k, s in enumerate(stations)
        if s.rate_multipliers is not None
    }
    marginal = {k: np.zeros((n_max + 1, n_max + 1)) for k in service}
    for p in marginal.values():
        p[0, 0] = 1.0
    # The textbook recursion takes p_k(0 | n) = 1 - sum_j p_k(j | n), which loses every digit once the station
    # is rarely idle, turns negative, and spoils all later populations (Reiser 1981). The complementary
    # network (all stations but k) gives it with no subtraction, p_k(0 | n) = G_without_k(n) / G(n), and G
    # gives X(n) = G(n-1) / G(n). The constants are sums of positive terms, kept as logarithms against
    # overflow; everything else is a product of positive numbers.
    log_g, log_without = _log_constants(demand, delay, service, float(think_cycles), n_max)
    throughput = np.zeros(n_max)
    response, queue, utilization = (np.zeros((n_max, count)) for _ in range(3))
    before = np.zeros(count)
    loads = np.arange(1, n_max + 1)
    for n in range(1, n_max + 1):
        residence = np.where(delay, demand, demand * (1 + before))
        for k, s in service.items():
            residence[k] = np.sum(loads[:n] * s[:n] * marginal[k][n - 1, :n])
        if service:
            x = float(np.exp(log_g[n - 1] - log_g[n]))
        else:
            x = n / (think_cycles + float(residence.sum()))
        throughput[n - 1], response[n - 1], queue[n - 1] = x, residence, x * residence
        utilization[n - 1] = x * demand
        for k, s in service.items():
            marginal[k][n, 1 : n + 1] = x * s[:n] * marginal[k][n - 1, :n]
            marginal[k][n, 0] = np.exp(log_without[k][n] - log_g[n])
            utilization[n - 1, k] = marginal[k][n, 1:].sum()
        before = queue[n - 1]
    return NetworkSolution(
        names=tuple(s.name for s in stations),
        customers=n_max,
        think_cycles=float(think_cycles),
        throughput=throughput,
        response_cycles=response.sum(axis=1),
        station_response_cycles=response,
        queue_length=queue,
        utilization=utilization,
        marginals={stations[k].name: p[1:] for k, p in marginal.items()},
    )


def _check(stations: Sequence[Station], think_cycles: float, customers: int) -> None:
    if not float(customers).is_integer() or customers < 1:
        raise SmlabError.at("customers", "not a population", customers, "a whole number, 1 or more")
    if not (np.isfinite(think_cycles) and think_cycles >= 0):
        raise SmlabError.at("think_cycles", "unusable think time", think_cycles, "finite cycles, 0 or more")
    names = [s.name for s in stations]
    if len(set(names)) < len(names):
        raise SmlabError.at("stations", "two stations share a name", names)
    if think_cycles == 0 and not any(s.demand_cycles > 0 for s in stations):
        raise SmlabError(
            "stations: no station has a demand and there is no think time, so nothing takes any time"
        )
    for s in stations:
        if s.rate_multipliers is not None and len(s.rate_multipliers) < customers:
            what, known = "rate multipliers end before the population", len(s.rate_multipliers)
            raise SmlabError.at(f"station {s.name!r}", what, known, f"{customers} or more")


def _log_constants(
    demand: Floats, delay: NDArray[np.bool_], service: Mapping[int, Floats], think_cycles: float, n_max: int
) -> tuple[Floats, dict[int, Floats]]:
    """log G(n), n = 0 .. n_max, of the network, and of the network without each load-dependent station."""
    if not service:
        return np.zeros(0), {}
    loads = np.arange(n_max + 1)
    rest = xlogy(loads, think_cycles + demand[delay].sum()) - gammaln(loads + 1.0)
    for k, d in enumerate(demand):
        if not delay[k] and k not in service:
            rest = _log_convolve(rest, xlogy(loads, d))
    with np.errstate(divide="ignore"):  # log 0 = -inf is right: a station without demand holds no job
        factors = {k: np.concatenate(([0.0], np.cumsum(np.log(s)))) for k, s in service.items()}
    without = {}
    for k in service:
        without[k] = rest
        for other, factor in factors.items():
            if other != k:
                without[k] = _log_convolve(without[k], factor)
    last = next(reversed(factors))
    return _log_convolve(without[last], factors[last]), without


def _log_convolve(a: Floats, b: Floats) -> Floats:
    """log of the convolution of exp(a) and exp(b), both (N + 1,), cut at N."""
    out = np.empty_like(a)
    for n in range(len(a)):
        terms = a[: n + 1] + b[n::-1]
        top = terms.max()
        out[n] = top if top == -np.inf else top + np.log(np.exp(terms - top).sum())
    return out


@dataclass(frozen=True)
class RepairmanSolution:
    """N customers that think and then visit one load-dependent station; arrays of the batch's shape (...).

    ``throughput`` jobs a cycle; ``response_cycles`` at the station; ``queue_length`` jobs present there;
    ``utilization`` = 1 - p(0); ``marginal`` (..., n_max + 1): the probability of j jobs at the station.
    """

    throughput: Floats
    response_cycles: Floats
    queue_length: Floats
    utilization: Floats
    marginal: Floats


def solve_machine_repairman(
    service_cycles: ArrayLike, think_cycles: ArrayLike, customers: ArrayLike
) -> RepairmanSolution:
    """Exact solution of N customers, think time Z and one station with mean service time S(n), over a batch.

    Birth-death balance (L. Kleinrock, "Queueing Systems" vol. 1, 1975, Section 3.8, with load-dependent
    service): p(j) ~ Z^(N-j) / (N-j)! * prod_{i<=j} S(i), in logarithms. ``service_cycles`` (..., n_max): S(1)
    .. S(n_max), values beyond ``customers`` unused and free to be NaN; ``think_cycles`` (...) 0 or more;
    ``customers`` (...) whole numbers 1 .. n_max; the three broadcast against each other. `SmlabError` on
    unusable values; populations that are not whole are not supported. Memory is about six arrays of the batch
    times n_max + 1.
    """
    service = np.asarray(service_cycles, dtype=np.float64)
    think = np.asarray(think_cycles, dtype=np.float64)
    asked = np.asarray(customers)
    if service.ndim < 1 or service.shape[-1] < 1:
        raise SmlabError.at("service_cycles", "no load axis", service.shape, "shape (..., n_max)")
    n_max = service.shape[-1]
    whole = np.isfinite(asked) & (asked == np.floor(asked)) & (asked >= 1) & (asked <= n_max)
    if not whole.all():
        bad = float(np.extract(~whole, asked)[0])
        raise SmlabError.at("customers", "not a population", bad, f"a whole number, 1 .. {n_max}")
    if not (good := np.isfinite(think) & (think >= 0)).all():
        bad = float(np.extract(~good, think)[0])
        raise SmlabError.at("think_cycles", "unusable think time", bad, "finite cycles, 0 or more")
    try:
        shape = np.broadcast_shapes(service.shape[:-1], think.shape, asked.shape)
    except ValueError as error:
        shapes = f"service_cycles {service.shape}, think_cycles {think.shape}, customers {asked.shape}"
        raise SmlabError(f"batch shapes do not fit each other: {shapes}") from error
    population = np.broadcast_to(asked.astype(np.int64), shape)[..., np.newaxis]
    used = np.arange(1, n_max + 1) <= population
    times = np.where(used, service, 1.0)
    if not (good := np.isfinite(times) & (times > 0)).all():
        place = np.argwhere(~good)[0]
        where = f"service_cycles at {tuple(int(i) for i in place)}"
        bad = float(times[tuple(place)])
        raise SmlabError.at(where, "unusable service time", bad, "finite cycles above 0")

    loads = np.arange(n_max + 1)
    thinking = population - loads
    free = np.maximum(thinking, 0)
    log_p = xlogy(free, np.broadcast_to(think, shape)[..., np.newaxis]) - gammaln(loads + 1.0)[free]
    log_p[..., 1:] += np.cumsum(np.log(times), axis=-1)
    log_p[thinking < 0] = -np.inf
    p = np.exp(log_p - log_p.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    throughput = (p[..., 1:] / times).sum(axis=-1)
    queue_length = (p * loads).sum(axis=-1)
    return RepairmanSolution(
        throughput=throughput,
        response_cycles=queue_length / throughput,
        queue_length=queue_length,
        utilization=p[..., 1:].sum(axis=-1),
        marginal=p,
    )


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
        throughput: Floats = (self.weights[rows] / (idle + busy) * rate).sum(axis=1)
        return throughput

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

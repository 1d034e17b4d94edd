"""Utilization of the atomic unit from a closed network: solve for the think time that explains the counted
throughput.

The SM is a closed network of W warps that alternate between thinking (everything else) and one load-dependent
server, the atomic unit. Throughput X = jobs / elapsed cycles and W are counted. The think time Z is not, so
it is solved for: with Z, exact load-dependent mean value analysis gives the counted X. The queue length n and
the utilization follow, and utilization cannot pass 100 %. The station's service times S(n) should be
flow-equivalent ones, those of the *looped* table (Norton's theorem for queuing networks: K. M. Chandy, U.
Herzog, L. Woo, "Parametric Analysis of Queuing Networks", IBM J. Res. Dev. 19(1), 1975); a batch table holds
the filling and draining of the pipeline as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.rows import Rows
from smlab.models.utilization.closed_network import SAME, Mixture
from smlab.models.utilization.service_table import ServiceTable

Floats = NDArray[np.float64]

Search = Callable[[Floats, NDArray[np.intp]], Floats]

CHUNK = 4096
"""Kernels that are solved at a time; the memory is about ten arrays of CHUNK by loads."""

TOLERANCE = 1e-10
NO_JOBS = 1e-30
"""Jobs a cycle at and below which the unit counts as idle; beyond, 1 / X overflows."""

MAX_STEPS = 100


@dataclass(frozen=True)
class ClosedEstimate(Rows):
    """What the closed network says of each kernel (or SM); all arrays of shape ``(kernels,)``.

    ``utilization`` 0 .. 1 and ``n``, the mean number of jobs in the unit over the elapsed time;
    ``think_cycles`` Z; ``service_cycles``, busy time per job; ``saturation``, the counted throughput over the
    most that the server gives to W warps that never think. At 1 and above no think time explains the
    throughput: the unit is taken as always busy with all warps in it (Z = 0), and a saturation clearly above
    1 says that the table's unit is slower than the real one. ``low`` and ``high`` are bounds that hold
    whatever the arrivals are like, if nothing but atomics is on their way: the busy time lies between jobs
    times the least and jobs times the greatest S(n) for n up to W. Scattered loads before an atomic in its
    sub-core can raise it above ``high``. ``gain_faster`` and ``gain_spread``: how many times the throughput
    the same warps, which think for as long, would have with a unit that takes half of each S(n), and with
    that of S(n) at e = 1.
    """

    utilization: Floats
    n: Floats
    think_cycles: Floats
    service_cycles: Floats
    saturation: Floats
    low: Floats
    high: Floats
    gain_faster: Floats
    gain_spread: Floats


def estimate_closed(
    jobs: ArrayLike,
    elapsed_cycles: ArrayLike,
    warps: ArrayLike,
    e: ArrayLike,
    cas_share: ArrayLike,
    table: ServiceTable,
    peak_warps: ArrayLike | None = None,
) -> ClosedEstimate:
    """Estimate utilization and queue length of many kernels at once.

    Args: all arrays of shape ``(kernels,)`` or broadcastable to it. jobs: atomic warp-instructions on the SM,
        0 or more. elapsed_cycles: cycles in which they were executed, above 0. warps: mean number of resident
        warps in that time, W; need not be whole (a mixture of the two populations next to it). e: lanes
        serialised per job, 1 to the table's most. cas_share: the share of compare-and-swap among the jobs, 0
        to 1. table: service times, best of form ``looped``. peak_warps: the most warps resident at a time, at
        most what ``table`` has; where it exceeds ``warps``, they ran out towards
            the end (`smlab.models.utilization.closed_network`). NaN or less than ``warps``: taken as
            ``warps``.

    Raises:
        SmlabError: a value outside its range, naming the argument and the first kernel that has it.
    """
    arguments = [np.asarray(x, dtype=np.float64) for x in (jobs, elapsed_cycles, warps, e, cas_share)]
    arguments.append(arguments[2] if peak_warps is None else np.asarray(peak_warps, dtype=np.float64))
    shape = np.broadcast_shapes(*(x.shape for x in arguments), (1,))
    count, elapsed, population, lanes, share, peak = (np.broadcast_to(x, shape).ravel() for x in arguments)
    _check("jobs", count, count >= 0, "0 or more")
    _check("elapsed_cycles", elapsed, elapsed > 0, "above 0")
    _check(
        "warps", population, (population > 0) & (population <= table.n_max), f"above 0, at most {table.n_max}"
    )
    _check("e", lanes, (lanes >= 1) & (lanes <= table.e_max), f"1 to {table.e_max}")
    _check("cas_share", share, (share >= 0) & (share <= 1), "0 to 1")
    peak = np.fmax(peak, population)
    _check("peak_warps", peak, peak <= np.ceil(table.n_max), f"at most {table.n_max}")
    # Kernels whose warps run out cost several times as much: they are solved apart.
    order = np.argsort(peak > population * (1 + SAME), kind="stable")
    parts = []
    for chosen in np.array_split(order, max(1, -(-len(order) // CHUNK))):
        service, spread = (
            service_by_load(table, peak[chosen], e[chosen], share[chosen])
            for e in (lanes, np.ones(len(lanes)))
        )
        here = (count[chosen], elapsed[chosen], population[chosen], peak[chosen])
        parts.append(_solve(*here, service, (service / 2, spread)))
    back = np.argsort(order)
    return ClosedEstimate(*(np.concatenate(column)[back] for column in zip(*parts, strict=True)))


def service_by_load(table: ServiceTable, warps: Floats, e: Floats, cas_share: Floats) -> Floats:
    """S(n) for n = 1, 2, ... up to the largest population, shape ``(kernels, loads)``, with c = n times
    the share."""
    loads = np.arange(1, int(np.ceil(warps.max())) + 1, dtype=np.float64)
    n = np.broadcast_to(loads, (len(warps), len(loads)))
    return table.service_cycles(n, np.broadcast_to(e[:, None], n.shape), n * cas_share[:, None])


def _check(name: str, values: Floats, good: NDArray[np.bool_], expected: str) -> None:
    good = good & np.isfinite(values)
    if not good.all():
        first = int(np.argmin(good))
        raise SmlabError.at(f"{name} of kernel {first}", "out of range", float(values[first]), expected)


def _solve(
    jobs: Floats, elapsed: Floats, warps: Floats, peak: Floats, service: Floats, changed: tuple[Floats, ...]
) -> tuple[Floats, ...]:
    """The columns of `ClosedEstimate`; the last ones are the gains with each of the ``changed`` service
    times."""
    network = Mixture(warps, peak, service)
    counted = jobs / elapsed
    full = network.saturated()
    most = full[0]
    idle, saturated = counted <= NO_JOBS, counted >= most
    searched = ~idle & ~saturated
    target = np.where(searched, counted, most / 2)

    def excess(think: Floats, rows: NDArray[np.intp]) -> Floats:
        """W / X(Z) - W / X: by the response-time law it is Z + R(Z) - W / X, which grows with Z at a slope
        near 1."""
        return warps[rows] / network.throughput(think, rows) - warps[rows] / target[rows]

    think = _root(excess, np.zeros(len(jobs)), warps / target, warps / most - warps / target)
    answers = network.answers(think)
    gains = [
        _gain(Mixture(warps, peak, s), think, searched, np.where(searched, target, most)) for s in changed
    ]
    think = np.where(searched, think, 0.0)
    busy, queue = (
        np.where(idle, 0.0, np.where(searched, searched_value, at_full))
        for searched_value, at_full in zip(answers[1:], full[1:], strict=True)
    )
    think = np.where(idle, np.inf, think)
    busy = np.minimum(busy, 1.0)  # weights add up to 1 but for rounding
    inside = np.arange(1, service.shape[1] + 1) <= np.ceil(peak)[:, None]
    least = np.where(inside, service, np.inf).min(axis=1)
    greatest = np.where(inside, service, -np.inf).max(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        per_job = np.where(idle, np.nan, busy / counted)
    return (
        busy,
        queue,
        think,
        per_job,
        counted / most,
        np.minimum(1.0, counted * least),
        np.minimum(1.0, counted * greatest),
        *(np.where(idle, 1.0, gain) for gain in gains),
    )


def _gain(changed: Mixture, think: Floats, searched: NDArray[np.bool_], throughput: Floats) -> Floats:
    """How many times the ``throughput`` another server gives to warps that ``think`` for as long, or not at
    all."""
    thinking = changed.throughput(think, np.arange(len(think)))
    gain: Floats = np.where(searched, thinking, changed.saturated()[0]) / throughput
    return gain


def _root(function: Search, low: Floats, high: Floats, f_low: Floats) -> Floats:
    """The zero of an increasing function in [low, high], elementwise: false position with Illinois' halving.

    ``function`` takes values and the indices of the elements that they are for. ``f_low`` is it at ``low``,
    where it may not be able to tell.
    """
    root = high.copy()
    rows = np.arange(len(low))  # those that are still searched for
    f_high = function(high, rows)
    replaced = np.zeros(len(low))  # the end that was replaced last: +1 high, -1 low
    for _ in range(MAX_STEPS):
        with np.errstate(divide="ignore", invalid="ignore"):
            x = high - f_high * (high - low) / (f_high - f_low)
        x = np.where(np.isfinite(x) & (x > low) & (x < high), x, (low + high) / 2)
        f = function(x, rows)
        above = f > 0
        # Where one end is replaced twice running, halving the other's value keeps the steps from creeping.
        f_low = np.where(above, np.where(replaced > 0, f_low / 2, f_low), f)
        f_high = np.where(above, f, np.where(replaced < 0, f_high / 2, f_high))
        low, high = np.where(above, low, x), np.where(above, x, high)
        replaced = np.where(above, 1.0, -1.0)
        root[rows] = x
        left = np.abs(f) > TOLERANCE * (1 + x)
        if not left.any():
            break
        rows, replaced = rows[left], replaced[left]
        low, high, f_low, f_high = low[left], high[left], f_low[left], f_high[left]
    return root

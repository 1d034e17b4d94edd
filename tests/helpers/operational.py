"""Operational bounds: what must hold of every closed network, whatever its distributions.

Sources: P. J. Denning and J. P. Buzen, "The Operational Analysis of Queueing Network Models", ACM Computing
Surveys 10(3), 1978; the balanced-job bounds: J. Zahorjan, K. C. Sevcik, D. L. Eager and B. Galler, "Balanced
Job Bound Analysis of Queueing Networks", CACM 25(2), 1982, in the form with think time of E. D. Lazowska et
al., "Quantitative System Performance", 1984, Chapter 5.

Whatever is given in integers or `fractions.Fraction` comes out as an exact `Fraction`; one float makes the
result float.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Integral

from smlab.hw_bench.errors import SmlabError

Number = int | float | Fraction
"""What the laws accept: exact (int, Fraction) or float; NumPy scalars count as their Python kinds."""


def _number(name: str, value: Number) -> Fraction | float:
    """``value`` as Fraction if it is exact, else as float; `SmlabError` if it is negative or not finite."""
    if isinstance(value, Fraction):
        number: Fraction | float = value
    elif isinstance(value, Integral):
        number = Fraction(int(value))
    else:
        number = float(value)
    if not (math.isfinite(number) and number >= 0):
        raise SmlabError.at(name, "not a usable quantity", value, "a finite number, 0 or more")
    return number


def _population(customers: int) -> int:
    if not float(customers).is_integer() or customers < 1:
        raise SmlabError.at("customers", "not a population", customers, "a whole number, 1 or more")
    return int(customers)


@dataclass(frozen=True)
class Bounds:
    """Limits on throughput X(N), jobs a cycle, and on response time R(N), cycles."""

    throughput_low: Fraction | float
    throughput_high: Fraction | float
    response_low_cycles: Fraction | float
    response_high_cycles: Fraction | float


def _demands(demands_cycles: Sequence[Number]) -> list[Fraction | float]:
    """The positive demands; a station that a job never uses changes nothing."""
    used = [d for k, value in enumerate(demands_cycles) if (d := _number(f"demands_cycles[{k}]", value)) > 0]
    if not used:
        raise SmlabError.at("demands_cycles", "no station has a demand", list(demands_cycles), "one above 0")
    return used


def asymptotic_bounds(demands_cycles: Sequence[Number], think_cycles: Number, customers: int) -> Bounds:
    """Bounds that hold for fixed-rate stations whatever the distributions (Denning & Buzen 1978).

    N / (N D + Z) <= X <= min(1 / D_max, N / (D + Z)) and max(D, N D_max - Z) <= R <= N D, where
    ``demands_cycles`` are the D_k = V_k S_k of the queueing stations, D their sum, ``think_cycles`` Z (to
    which the demands of delay stations belong), ``customers`` N. `SmlabError` with no positive demand, or N
    not whole or < 1.
    """
    demands, n, z = _demands(demands_cycles), _population(customers), _number("think_cycles", think_cycles)
    total, largest = sum(demands, start=Fraction(0)), max(demands)
    return Bounds(
        throughput_low=n / (n * total + z),
        throughput_high=min(1 / largest, n / (total + z)),
        response_low_cycles=max(total, n * largest - z),
        response_high_cycles=n * total,
    )


def balanced_job_bounds(demands_cycles: Sequence[Number], think_cycles: Number, customers: int) -> Bounds:
    """Tighter bounds, from the balanced networks that are worse and better (Zahorjan et al. 1982).

    They hold for product-form networks of fixed-rate stations. With the arguments of `asymptotic_bounds` and
    D_ave the mean demand of the stations used, D + (N-1) D_ave / (1 + Z/D) <= R <= D + (N-1) D_max / (1 +
    Z/(N D)), the lower limit also at least N D_max - Z, and X = N / (R + Z) (Lazowska et al. 1984).
    """
    demands, n, z = _demands(demands_cycles), _population(customers), _number("think_cycles", think_cycles)
    total, largest = sum(demands, start=Fraction(0)), max(demands)
    fastest = total + (n - 1) * (total / len(demands)) / (1 + z / total)
    slowest = total + (n - 1) * largest / (1 + z / (n * total))
    return Bounds(
        throughput_low=n / (slowest + z),
        throughput_high=min(1 / largest, n / (fastest + z)),
        response_low_cycles=max(fastest, n * largest - z),
        response_high_cycles=slowest,
    )

"""Operational laws and bounds: what must hold of every observed system, whatever its distributions.

Sources: P. J. Denning and J. P. Buzen, "The Operational Analysis of Queueing Network Models", ACM Computing
Surveys 10(3), 1978; the balanced-job bounds: J. Zahorjan, K. C. Sevcik, D. L. Eager and B. Galler, "Balanced
Job Bound Analysis of Queueing Networks", CACM 25(2), 1982, in the form with think time of E. D. Lazowska et
al., "Quantitative System Performance", 1984, Chapter 5.

Whatever is given in integers or `fractions.Fraction` comes out as an exact `Fraction`; one float makes the
result float.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from numbers import Integral

from smlab.hw_bench.errors import SmlabError

Number = int | float | Fraction
"""What the laws accept: exact (int, Fraction) or float; NumPy scalars count as their Python kinds."""

_ROUNDING = 1e-9
"""Relative slack of the consistency checks on floats; exact numbers get none."""


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


def _exceeds(left: Fraction | float, right: Fraction | float) -> bool:
    slack = _ROUNDING * right if isinstance(left, float) or isinstance(right, float) else 0
    return left > right + slack


@dataclass(frozen=True)
class Observation:
    """The basic quantities of one station over one observation period (Denning & Buzen 1978).

    ``length_cycles`` T > 0, ``arrivals`` A and ``completions`` C are counts, ``busy_cycles`` B is the time
    with a job present, ``job_cycles`` W is the area under n(t), the jobs present at time t. `SmlabError` if a
    quantity is negative or not finite, if T = 0, B > T, or W < B (a busy station holds one job at least).
    """

    length_cycles: Number
    arrivals: Number
    completions: Number
    busy_cycles: Number
    job_cycles: Number

    def __post_init__(self) -> None:
        for field in fields(self):
            object.__setattr__(self, field.name, _number(field.name, getattr(self, field.name)))
        if self.length_cycles == 0:
            raise SmlabError.at("length_cycles", "an empty observation period", 0, "more than 0 cycles")
        if _exceeds(self.busy_cycles, self.length_cycles):
            limit = f"at most length_cycles = {self.length_cycles}"
            raise SmlabError.at(
                "busy_cycles", "busy for longer than observed", float(self.busy_cycles), limit
            )
        if _exceeds(self.busy_cycles, self.job_cycles):
            limit = f"at least busy_cycles = {self.busy_cycles}"
            raise SmlabError.at("job_cycles", "busy without a job", float(self.job_cycles), limit)

    @property
    def utilization(self) -> Fraction | float:
        """U = B / T, the share of time with a job present."""
        return self.busy_cycles / self.length_cycles

    @property
    def throughput(self) -> Fraction | float:
        """X = C / T, completions a cycle."""
        return self.completions / self.length_cycles

    @property
    def service_cycles(self) -> Fraction | float:
        """S = B / C, the mean service time between completions; `SmlabError` with no completion."""
        return self.busy_cycles / self._completed("a service time")

    @property
    def queue_length(self) -> Fraction | float:
        """Q = W / T, the mean number of jobs present, in service included."""
        return self.job_cycles / self.length_cycles

    @property
    def response_cycles(self) -> Fraction | float:
        """R = W / C, the mean time a job is present; `SmlabError` with no completion."""
        return self.job_cycles / self._completed("a response time")

    def _completed(self, quantity: str) -> Number:
        if self.completions == 0:
            raise SmlabError.at("completions", f"no job completed, {quantity} does not exist", 0, "1 or more")
        return self.completions


def utilization_law(throughput: Number, service_cycles: Number) -> Fraction | float:
    """U = X S (Denning & Buzen 1978): jobs a cycle times cycles of service a job."""
    return _number("throughput", throughput) * _number("service_cycles", service_cycles)


def littles_law(throughput: Number, response_cycles: Number) -> Fraction | float:
    """Q = X R, mean number of jobs present (Denning & Buzen 1978)."""
    return _number("throughput", throughput) * _number("response_cycles", response_cycles)


def forced_flow_law(system_throughput: Number, visits: Number) -> Fraction | float:
    """X_k = V_k X: a station's completions a cycle, from the system's and the visits a job makes."""
    return _number("system_throughput", system_throughput) * _number("visits", visits)


def response_time_law(visits: Sequence[Number], response_cycles: Sequence[Number]) -> Fraction | float:
    """R = sum over stations of V_k R_k (Denning & Buzen 1978); `SmlabError` if the lengths differ."""
    if len(visits) != len(response_cycles):
        raise SmlabError.at(
            "visits", "one number a station is needed", len(visits), str(len(response_cycles))
        )
    pairs = zip(visits, response_cycles, strict=True)
    return sum((_number("visits", v) * _number("response_cycles", r) for v, r in pairs), start=Fraction(0))


def interactive_response_time_law(
    customers: Number, throughput: Number, think_cycles: Number
) -> Fraction | float:
    """R = N / X - Z, in cycles; a negative result says that N, X and Z are not of the same system.

    ``customers`` N, ``throughput`` X > 0 jobs a cycle, ``think_cycles`` Z (Denning & Buzen 1978).
    """
    rate = _number("throughput", throughput)
    if rate == 0:
        raise SmlabError.at(
            "throughput", "no job completes, a response time does not exist", 0, "more than 0"
        )
    return _number("customers", customers) / rate - _number("think_cycles", think_cycles)


def flow_imbalance(observation: Observation) -> Fraction | float:
    """(A - C) / C, the relative departure from job flow balance; 0 if neither a job came nor went."""
    difference = observation.arrivals - observation.completions
    if difference == 0:
        return Fraction(0)
    return difference / observation._completed("its flow balance")


def is_flow_balanced(observation: Observation, tolerance: Number = 0) -> bool:
    """Whether |A - C| <= tolerance * C, the assumption of job flow balance (Denning & Buzen 1978)."""
    allowed = _number("tolerance", tolerance) * observation.completions
    return -allowed <= observation.arrivals - observation.completions <= allowed


@dataclass(frozen=True)
class Bounds:
    """Limits on throughput X(N), jobs a cycle, and on response time R(N), cycles."""

    throughput_low: Fraction | float
    throughput_high: Fraction | float
    response_low_cycles: Fraction | float
    response_high_cycles: Fraction | float


@dataclass(frozen=True)
class Bottleneck:
    """The station of the largest demand.

    ``stations``: its name, or all names where several share the demand; ``demand_cycles`` D_max;
    ``throughput_limit`` 1 / D_max, jobs a cycle; ``saturation_customers`` N* = (D + Z) / D_max, where the two
    asymptotes of X(N) cross (not a whole number in general).
    """

    stations: tuple[str, ...]
    demand_cycles: Fraction | float
    throughput_limit: Fraction | float
    saturation_customers: Fraction | float


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


def bottleneck(demands_cycles: Mapping[str, Number], think_cycles: Number) -> Bottleneck:
    """Which station limits throughput, and from how many customers on (Denning & Buzen 1978).

    ``demands_cycles``: demand D_k of each queueing station by name; ``think_cycles`` Z.
    """
    think = _number("think_cycles", think_cycles)
    demands = {name: _number(f"demands_cycles[{name!r}]", d) for name, d in demands_cycles.items()}
    used = _demands(list(demands.values()))
    largest = max(used)
    return Bottleneck(
        stations=tuple(name for name, d in demands.items() if d == largest),
        demand_cycles=largest,
        throughput_limit=1 / largest,
        saturation_customers=(sum(used, start=Fraction(0)) + think) / largest,
    )

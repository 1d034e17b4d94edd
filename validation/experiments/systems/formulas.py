"""Closed forms that a study can be of: functions whose sensitivity is known, and queues.

Written in a study file as ``model = "NAME"`` in ``[base]``. Each is a function of keyword arguments with
defaults, which are its keys, and returns its responses by name.
"""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np

from smlab.hw_bench.errors import SmlabError, nearest
from smlab.hw_bench.gpu.alternatives import Alternative
from smlab.hw_bench.sources import digest_of
from smlab.validation.experiments.design.values import Key, Settings, Value
from smlab.validation.experiments.systems.systems import Evaluation

MAX_CUSTOMERS: Final = 2**23
"""A run of so many takes half a gigabyte and a second."""


def ishigami(
    *, x1: float = 0.0, x2: float = 0.0, x3: float = 0.0, a: float = 7.0, b: float = 0.1
) -> dict[str, float]:
    """sin x1 + a sin^2 x2 + b x3^4 sin x1, each x uniform on (-pi, pi).

    T. Ishigami and T. Homma, "An importance quantification technique in uncertainty analysis for computer
    models", ISUMA 1990.
    """
    return {"y": math.sin(x1) + a * math.sin(x2) ** 2 + b * x3**4 * math.sin(x1)}


def mm1(*, arrival_rate: float = 0.5, service_rate: float = 1.0) -> dict[str, float]:
    """The M/M/1 queue in the steady state; L. Kleinrock, "Queueing Systems", Vol. I, 1975, Section 3.2."""
    _check_stable(arrival_rate, service_rate)
    return {
        "utilization": arrival_rate / service_rate,
        "n_mean": arrival_rate / (service_rate - arrival_rate),
        "response_time": 1 / (service_rate - arrival_rate),
    }


def mm1_run(
    *, arrival_rate: float = 0.5, service_rate: float = 1.0, customers: int = 1000, seed: int = 0
) -> dict[str, float]:
    """One simulated run of the M/M/1 queue, empty at the start: mean wait and response time of its
    ``customers``.

    D. V. Lindley's recursion, "The theory of queues with a single server", 1952. Arrivals and services have
    streams of their own, so that runs with one seed and other rates see the same random numbers.
    """
    _check_stable(arrival_rate, service_rate)
    _check_count("customers", customers)
    arrivals, services = (np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(2))
    gaps = arrivals.standard_exponential(customers) / arrival_rate
    work = services.standard_exponential(customers) / service_rate
    # W_k = max(0, W_(k-1) + work_(k-1) - gap_k) is a walk above its running least value.
    walk = np.concatenate([[0.0], np.cumsum(work[:-1] - gaps[1:])])
    waits = walk - np.minimum(np.minimum.accumulate(walk), 0.0)
    return {"wait": float(waits.mean()), "response_time": float((waits + work).mean())}


def closed_queue(
    *, warps: int = 16, think_cycles: float = 100.0, service_cycles: float = 4.0
) -> dict[str, float]:
    """``warps`` that think and then need one server, both times exponential (the machine repairman,
    M/M/1//N).

    L. Kleinrock, "Queueing Systems", Vol. I, 1975, Section 3.8; solved by mean value analysis.
    """
    _check_count("warps", warps)
    if not (think_cycles >= 0 and service_cycles > 0):
        raise SmlabError.at(
            "closed-queue", "impossible times", (think_cycles, service_cycles), "0 or more; above 0"
        )
    queue = throughput = 0.0
    for customers in range(1, warps + 1):
        response = service_cycles * (1 + queue)
        throughput = customers / (think_cycles + response)
        queue = throughput * response
    return {"utilization": throughput * service_cycles, "n_mean": queue, "jobs_per_cycle": throughput}


def _check_count(name: str, count: int) -> None:
    if not 1 <= count <= MAX_CUSTOMERS:
        raise SmlabError.at(name, "out of range", count, f"1 to {MAX_CUSTOMERS:,}")


def _check_stable(arrival_rate: float, service_rate: float) -> None:
    if not (arrival_rate > 0 and service_rate > 0):
        raise SmlabError.at("rates", "impossible", (arrival_rate, service_rate), "above 0")
    if arrival_rate >= service_rate:
        raise SmlabError.at(
            "arrival_rate", "the queue has no steady state", arrival_rate, f"below {service_rate:g}"
        )


FORMULAS: Mapping[str, Callable[..., dict[str, float]]] = {
    "ishigami": ishigami,
    "mm1": mm1,
    "mm1-run": mm1_run,
    "closed-queue": closed_queue,
}


@dataclass(frozen=True)
class Formula:
    """A closed form as a system; ``fixed`` are the settings that the study makes for all points."""

    name: str
    fixed: tuple[tuple[str, Value], ...]
    responses: tuple[str, ...]

    def key(self, where: str, name: str) -> Key:
        defaults = _defaults(self.name)
        if name not in defaults:
            guess = nearest(name, defaults)
            raise SmlabError.at(
                where,
                f"{self.name} has no such key",
                name,
                f"perhaps {guess}" if guess else "one of " + ", ".join(defaults),
            )
        default = defaults[name]
        return Key(name, (type(default),), dict(self.fixed).get(name, default))

    def check(self, settings: Settings) -> bool:
        self.answer(settings, 0)
        return _is_random(self.name)

    def answer(self, settings: Settings, seed: int) -> Evaluation:
        began = time.thread_time()
        random = {"seed": seed} if _is_random(self.name) else {}
        found = FORMULAS[self.name](**{**dict(self.fixed), **settings, **random})
        return Evaluation(tuple(found[name] for name in self.responses), time.thread_time() - began)

    def alternatives(self) -> tuple[Alternative, ...]:
        return ()

    def identity(self) -> str:
        return repr((self.name, sorted(self.fixed), self.responses, digest_of(Path(__file__))))


def responses_of(name: str) -> tuple[str, ...]:
    """What a formula gives, by name."""
    return tuple(FORMULAS[name]())


@cache
def _is_random(name: str) -> bool:
    return "seed" in inspect.signature(FORMULAS[name]).parameters


def _defaults(name: str) -> dict[str, Value]:
    parameters = inspect.signature(FORMULAS[name]).parameters
    return {key: parameter.default for key, parameter in parameters.items() if key != "seed"}

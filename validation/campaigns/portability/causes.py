"""Do the terms of a ratio name its cause? Counterfactual runs on simulated GPUs know it.

A kernel runs on the source, on the target, and on every GPU between them that has some of the changed
constants of the target. Shapley's value over these runs is each cause's true share of the ratio. `port` is
given the source's counters, the two times, and descriptions that are off by 5 %; it does not know which
constants were changed.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.profiles.work.kernel_work import KernelWork
from smlab.models.portability.causes import CAUSES, NOTHING, Causes, causes
from smlab.models.portability.intermediate_gpus import RATES
from smlab.models.roofline.ceilings import ceilings
from smlab.validation.campaigns.portability.pairs import CHANGEABLE, GpuPair, draw_kernel, draw_pair
from smlab.validation.campaigns.projection.kernels import DrawnKernel
from smlab.validation.campaigns.projection.simulate import run
from smlab.validation.method.statistics import binomial_interval

Floats = NDArray[np.float64]

LEAST_CHANGE: Final = math.log(1.05)
ATTEMPTS: Final = 40
SEED: Final = 2018


@dataclass(frozen=True, eq=False)
class CausedRatio:
    """One pair and one kernel: the true share of each changed constant, and what was said of it."""

    regime: str
    log_ratio: float
    true: dict[str, float]
    found: Causes
    both: Causes
    largest_change: str
    roof: str

    @property
    def dominant(self) -> str:
        return max(self.true, key=lambda name: abs(self.true[name]))


def judge_pair(number: int, seed: int = SEED) -> CausedRatio:
    """Draw a pair and a kernel whose time changes by `LEAST_CHANGE` at least, run and judge it."""
    pair = draw_pair(number, seed)
    for attempt in range(ATTEMPTS):
        kernel = draw_kernel(number, attempt, seed, pair)
        if kernel is None:
            continue
        works = _run(kernel, [pair.source, pair.target])
        log_ratio = float(np.log(works[1].seconds[0] / works[0].seconds[0]))
        if abs(log_ratio) >= LEAST_CHANGE:
            break
    else:
        return judge_pair(number + 100_000, seed)
    told = pair.described_source, pair.described_target
    return CausedRatio(
        regime=kernel.regime,
        log_ratio=log_ratio,
        true=_shares(kernel, pair),
        found=causes(works[0], *told, [log_ratio]),
        both=causes(works[0], *told, [log_ratio], target_work=works[1]),
        largest_change=largest_change(*told),
        roof=roof(works[0], told[0]),
    )


def _run(kernel: DrawnKernel, gpus: list[Gpu]) -> list[KernelWork]:
    """The kernel's counters on each GPU, the launch overhead in its time."""
    found = run([kernel], gpus, "compiled").work
    return [
        w.with_values(seconds=w.seconds + float(g.number("launch.overhead_s")))
        for w, g in zip(found, gpus, strict=True)
    ]


def _shares(kernel: DrawnKernel, pair: GpuPair) -> dict[str, float]:
    """Shapley's value of each changed constant over the counterfactual runs, in logarithms of time."""
    names = tuple(pair.changed)
    subsets = [frozenset(s) for n in range(len(names) + 1) for s in itertools.combinations(names, n)]
    works = _run(kernel, [pair.between(s) for s in subsets])
    log_time = {s: float(np.log(w.seconds[0])) for s, w in zip(subsets, works, strict=True)}
    shares = dict.fromkeys(names, 0.0)
    orders = list(itertools.permutations(names))
    for order in orders:
        taken = frozenset[str]()
        for name in order:
            shares[name] += (log_time[taken | {name}] - log_time[taken]) / len(orders)
            taken |= {name}
    return shares


def largest_change(source: Gpu, target: Gpu) -> str:
    """The trivial baseline: whatever constant differs most between the two descriptions."""
    keys = {name: rates[0][0] for name, rates in RATES.items() if name in CHANGEABLE}
    keys |= {"sms": "gpu.sms", "occupancy": "sm.registers"}
    sizes = {n: abs(math.log(float(target.number(k)) / float(source.number(k)))) for n, k in keys.items()}
    return max(sizes, key=lambda name: sizes[name])


_OF_ROOF: Final = {"dram": "dram", "l2": "l2", "shared": "shared", "l1": "sms"}


def roof(work: KernelWork, gpu: Gpu) -> str:
    """A second baseline: the resource of the closest roof on the source; SMs for what every SM has."""
    return _OF_ROOF.get(str(ceilings(work, gpu).limiter[0]), "sms")


def named(found: Causes) -> str:
    """The first cause by the names of `CHANGEABLE`."""
    first = found.ranked(0)[0][0]
    return "sms" if first == "sms and tail" else first


def summary(judged: list[CausedRatio]) -> dict[str, object]:
    """What the study found, for its JSON."""
    right = {
        "terms": [named(j.found) == j.dominant for j in judged],
        "terms, counters of both": [named(j.both) == j.dominant for j in judged],
        "largest change of a constant": [j.largest_change == j.dominant for j in judged],
        "closest roof": [j.roof == j.dominant for j in judged],
    }
    adds = [abs(j.found.terms.sum() + j.found.unexplained[0] - j.log_ratio) for j in judged]
    inside = [j.found.unexplained_low[0] <= 0 <= j.found.unexplained_high[0] for j in judged]
    held, large = [], []
    for j in judged:
        for name, share in j.true.items():
            if name == "sms":
                continue
            at = CAUSES.index(name)
            held.append(bool(j.found.low[0, at] <= share <= j.found.high[0, at]))
            large.append(abs(j.found.terms[0, at]) >= NOTHING)
    return {
        "pairs": len(judged),
        "dominant_named_first": {name: _share(values) for name, values in right.items()},
        "terms_add_up_within": float(max(adds)),
        "unexplained_interval_holds_0": _share(inside),
        "term_interval_holds_true_share": _share(held),
        "of_large_terms": _share([h for h, of in zip(held, large, strict=True) if of]),
        "of_small_terms": _share([h for h, of in zip(held, large, strict=True) if not of]),
        "unexplained_sd": float(np.std([j.found.unexplained[0] for j in judged])),
        "by_cause": {
            name: _share([named(j.found) == name for j in judged if j.dominant == name])
            for name in CHANGEABLE
            if any(j.dominant == name for j in judged)
        },
    }


def _share(values: list[bool]) -> dict[str, float]:
    found = binomial_interval(sum(values), len(values))
    return {"share": found.estimate, "low": found.low, "high": found.high, "n": len(values)}

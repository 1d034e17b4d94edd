"""What ``smlab utilization`` answers of each kernel, from the richest set of counters of its profile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.profiles import AtomicQuantities
from smlab.hw_bench.profiles.atomics.atomic_samples import AtomicSamples
from smlab.hw_bench.profiles.atomics.warp_counters import PathCounters
from smlab.models.utilization.alternative_estimates import AlternativeEstimates, mean_over, mixed_interval
from smlab.models.utilization.counter_estimates import answer
from smlab.models.utilization.counter_maps import FASTER, SPREAD, CounterMaps
from smlab.models.utilization.counter_sets import ATOMIC, REQUEST_NAMES, STATE_NAMES, Counters
from smlab.models.utilization.trust_map import CLOSED, TrustMap
from smlab.models.utilization.verdict import BOTTLENECK, NOT

Floats = NDArray[np.float64]

GAIN_KEYS: Final = {FASTER: "faster_unit", SPREAD: "no_conflicts"}
"""The changes, as the keys of JSON call them."""


@dataclass(frozen=True)
class GainAnswer:
    """How many times as fast a kernel would be after a change (a key of `GAIN_KEYS`), with its interval."""

    change: str
    speedup: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class KernelAnswers:
    """By kernel: the set of ``counters`` used, and whether the kernel is ``unlike`` all that a richer set's
    map has seen. Then come utilization over the active cycles with its interval, and the ``word`` of the
    verdict (None: no map tells it, the thresholds do)."""

    counters: NDArray[np.object_]
    unlike: NDArray[np.bool_]
    guess: Floats
    low: Floats
    high: Floats
    words: NDArray[np.object_]
    gains: tuple[tuple[GainAnswer, ...], ...]


def counters_beside(
    q: AtomicQuantities, passes: Floats, path: PathCounters | None, samples: Sequence[AtomicSamples] = ()
) -> Counters:
    """The counters of each row beyond the atomic ones, as the maps take them; ``passes`` (rows,) of its
    atomics."""
    each = q.sms * q.active_cycles
    with np.errstate(divide="ignore", invalid="ignore"):
        found = Counters.none(q.peak_warps, passes / each)
        if path is None:
            return found
        requests = np.column_stack([path.requests[name] / each for name in REQUEST_NAMES])
    warps = q.mean_active_warps[:, None]
    states = np.column_stack([path.states[name] for name in STATE_NAMES]) * warps
    at_atomic, at_result, spacing = (x.copy() for x in (found.at_atomic, found.at_result, found.spacing))
    by_kernel = {s.kernel: s for s in samples}
    for i, kernel in enumerate(q.kernel.tolist()):
        own = by_kernel.get(str(kernel))
        if own is not None:
            at_atomic[i] = [own.at_atomic.get(name, 0.0) * q.mean_active_warps[i] for name in STATE_NAMES]
            at_result[i] = [own.at_result.get(name, 0.0) * q.mean_active_warps[i] for name in STATE_NAMES]
            if own.spacing is not None:
                spacing[i] = own.spacing.row()
    block = np.fmin(path.block_warps, q.peak_warps)
    return Counters(q.peak_warps, block, found.passes, requests, states, at_atomic, at_result, spacing)


def answer_kernels(
    parts: Sequence[AlternativeEstimates],
    counters: Counters,
    trust: TrustMap,
    maps: CounterMaps,
    estimator: str,
    level: float,
) -> KernelAnswers:
    """What is told of each kernel under the mixture of ``parts``."""
    interval = mixed_interval(parts, trust, level, estimator)
    guess = mean_over(parts, [p.estimates.utilization[estimator] for p in parts])
    low, high = interval.low.copy(), interval.high.copy()
    words = np.full(len(guess), None, dtype=object)
    used = np.full(len(guess), ATOMIC, dtype=object)
    gains: list[tuple[GainAnswer, ...]] = [()] * len(guess)
    if estimator != CLOSED:
        return KernelAnswers(used, used != used, guess, low, high, words, tuple(gains))
    known = ~np.array([bool(names) for names in interval.outside], dtype=bool)
    sets = counters.sets()
    for which in dict.fromkeys(sets[known].tolist()):
        own = np.flatnonzero(known & (sets == which))
        found = answer([p.take(own) for p in parts], counters.take(own), which, maps, level, trust)
        guess[own], low[own] = found.utilization.guess, found.utilization.low
        high[own], words[own], used[own] = found.utilization.high, found.verdict, found.counters
        for k, row in enumerate(own.tolist()):
            gains[row] = tuple(
                GainAnswer(key, float(g.guess[k]), float(g.low[k]), float(g.high[k]))
                for change, key in GAIN_KEYS.items()
                for g in (found.gain[change],)
            )
    return KernelAnswers(used, known & (used != sets), guess, low, high, words, tuple(gains))


def opposed(words: Sequence[object]) -> bool:
    """Whether alternatives contradict each other."""
    return BOTTLENECK in words and NOT in words

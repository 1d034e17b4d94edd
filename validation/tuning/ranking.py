"""The order of a space's configurations, with intervals, and how it fits measured times."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import scipy

from smlab.hw_bench.datasets.tuning import Parameter, TuningTimes
from smlab.hw_bench.errors import SmlabError
from smlab.validation.tuning.search import PRIOR_SPREAD, SearchResult
from smlab.validation.tuning.simulated import Sample, SimulatedTime
from smlab.validation.tuning.space import TuningSpace

NORMAL_95: Final = 1.96
BETWEEN_SPREAD: Final = 0.07
"""How far the simulator's errors scatter between good configurations of one kernel, in logarithms: 0.068 on
the 60 best measured of KTT's convolution on an RTX 2080 Ti, each by 2 SMs three times."""
DRAWS: Final = 2000
FIRST: Final = 10
"""Among how many first ones the best measured is looked for."""


@dataclass(frozen=True, eq=False)
class RankedTime:
    """Configurations of equal code and launch (``numbers``) and their time, as the longest sample of the
    search would tell it, from ``low`` to ``high`` (95 %, against the others); ``sample`` is the longest that
    they were run by."""

    numbers: tuple[int, ...]
    seconds: float
    low: float
    high: float
    sample: Sample
    time: SimulatedTime


@dataclass(frozen=True)
class Failed:
    """Configurations without a time: the reason, one of them, and how many there are."""

    reason: str
    numbers: tuple[int, ...]
    example: str


@dataclass(frozen=True)
class Agreement:
    """How an order fits measured times of ``n`` configurations: Spearman's rank correlation, the place of
    the best measured one (equal code counts once), and the best measured time over that of the first one and
    over the best of the first ten."""

    n: int
    spearman: float
    best_place: int
    best: str
    fraction_first: float
    fraction_ten: float


def ranked(result: SearchResult, samples: Sequence[Sample]) -> list[RankedTime]:
    """All that have a time, best first."""
    rows: list[RankedTime] = []
    for key, members in result.groups.items():
        numbers = [n for n, times in enumerate(result.times) if key in times and not times[key].error]
        if not numbers:
            continue
        number = numbers[-1]
        time = result.times[number][key]
        later = range(number, len(result.ratio))
        seconds = time.seconds * math.prod(result.ratio[n] for n in later)
        own = result.spread[number - 1] if number else 0.0
        deviation = math.sqrt(sum(result.spread[n] ** 2 for n in later) + (0.0 if len(later) else own**2))
        if not result.ratio:
            deviation = PRIOR_SPREAD
        if time.whole:
            seconds, deviation = time.seconds, 0.0
        factor = math.exp(NORMAL_95 * deviation)
        rows.append(
            RankedTime(tuple(members), seconds, seconds / factor, seconds * factor, samples[number], time)
        )
    return sorted(rows, key=lambda row: (row.seconds, row.numbers))


@dataclass(frozen=True)
class ExpectedLoss:
    """How much longer than the best of all the best of the first ``measured`` takes, once these are measured
    on a card: the mean, and what it is below in nine of ten cases, as fractions of the best time."""

    measured: int
    mean: float
    high: float


def expected_loss(rows: Sequence[RankedTime], measured: int) -> ExpectedLoss:
    """The loss if each configuration's real time is off its simulated one, beyond what all share, by
    `BETWEEN_SPREAD`: drawn `DRAWS` times. ``rows`` are in order, at least one."""
    logs = np.log([row.seconds for row in rows])
    logs = logs[logs <= logs[0] + 8 * BETWEEN_SPREAD]  # no other one will be the best
    drawn = logs + BETWEEN_SPREAD * np.random.default_rng(0).normal(size=(DRAWS, len(logs)))
    loss = np.expm1(drawn[:, :measured].min(axis=1) - drawn.min(axis=1))
    return ExpectedLoss(measured, float(loss.mean()), float(np.quantile(loss, 0.9)))


def failures(result: SearchResult, space: TuningSpace) -> list[Failed]:
    """By reason, the most frequent first."""
    found: dict[str, list[int]] = {}
    examples: dict[str, str] = {}
    for key, members in result.groups.items():
        error = next((times[key].error for times in result.times if key in times and times[key].error), "")
        if error:
            reason = error.partition(":")[0]
            found.setdefault(reason, []).extend(members)
            examples.setdefault(reason, f"{space.label(members[0])}: {error.partition(': ')[2]}")
    order = sorted(found, key=lambda reason: -len(found[reason]))
    return [Failed(reason, tuple(sorted(found[reason])), examples[reason]) for reason in order]


def agreement(space: TuningSpace, rows: Sequence[RankedTime], times: TuningTimes) -> Agreement:
    """Against measured times of the same configurations.

    Raises:
        SmlabError: no three configurations in common.
    """
    common = [name for name in space.parameters if name in times.parameters]
    measured: dict[tuple[Parameter, ...], float] = {}
    for config, seconds in zip(times.config, times.seconds.tolist(), strict=True):
        settings = dict(zip(times.parameters, config, strict=True))
        measured[tuple(settings[name] for name in common)] = seconds
    pairs: list[tuple[float, float, int, int]] = []
    for place, row in enumerate(rows, start=1):
        for number in row.numbers:
            seen = measured.get(_chosen(space.settings(number), common))
            if seen is not None:
                pairs.append((seen, row.seconds, place, number))
    if len(pairs) < 3:
        first = ", ".join(f"{k}={v}" for k, v in space.settings(0).items())
        raise SmlabError.at(str(times.path), "has too few of the configurations", len(pairs), first)
    table = np.array([pair[:2] for pair in pairs])
    best = min(pairs)
    tops = {limit: min(p[0] for p in pairs if p[2] <= limit) for limit in (pairs[0][2], FIRST)}
    return Agreement(
        n=len(pairs),
        spearman=float(scipy.stats.spearmanr(table[:, 0], table[:, 1]).statistic),
        best_place=best[2],
        best=space.label(best[3]),
        fraction_first=best[0] / tops[pairs[0][2]],
        fraction_ten=best[0] / min(tops.values()),
    )


def _chosen(settings: Mapping[str, Parameter], names: Sequence[str]) -> tuple[Parameter, ...]:
    return tuple(settings[name] for name in names)

"""The test that intervals cover what they claim."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.random import SeedSequence

from smlab.hw_bench.errors import SmlabError
from smlab.validation.method.statistics import Interval, binomial_interval


@dataclass(frozen=True)
class Coverage:
    """How often an interval held the truth: ``observed`` per cent, with its own 95 % interval ``low`` to
    ``high``.

    ``trials`` were run; in ``refused`` of them the estimator declined to give an interval, and the
    percentages are of the others. ``mean_half_width`` tells what the coverage was bought with.
    """

    observed: float
    low: float
    high: float
    trials: int
    refused: int
    mean_half_width: float


def coverage_study(
    run_trial: Callable[[SeedSequence], Interval], truth: float, trials: int, seed: int
) -> Coverage:
    """Run ``trials`` independent trials, each with a seed sequence of its own, and count intervals that hold
    ``truth``.

    A trial that raises `SmlabError` counts as refused; if all do, the last one's message is raised.
    """
    if trials < 1:
        raise SmlabError.at("coverage_study", "unusable number of trials", trials, "at least 1")
    held, widths, refusal = 0, [], None
    for stream in SeedSequence(seed).spawn(trials):
        try:
            interval = run_trial(stream)
        except SmlabError as error:
            refusal = error
            continue
        held += interval.contains(truth)
        widths.append(interval.half_width)
    if not widths:
        raise SmlabError(f"coverage study: each of {trials} trials was refused, the last with: {refusal}")
    share = binomial_interval(held, len(widths))
    return Coverage(
        observed=100 * share.estimate,
        low=100 * share.low,
        high=100 * share.high,
        trials=trials,
        refused=trials - len(widths),
        mean_half_width=float(np.mean(widths)),
    )

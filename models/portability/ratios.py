"""Two GPUs, the same configurations: ratios of their steady times, with intervals that know drift.

A standard error from the launches at hand says how well their level is known. It does not say where the next
launches will be, since a card's clock moves between one measurement and the next. How far it moves is in the
data, not of one configuration but of the *campaign*: all configurations measured in it. Each is cut at
half-time; among those that looked steady before it, what the second half then brought is the campaign's
distribution of the change to come (`CampaignChange`). The interval is its quantile either way, or the
configuration's own noise where that is wider. A campaign of few configurations cannot tell; then the interval
is the noise's alone and `Ratios.change` is None.

Where either series drifts within its launches there is no steady state to compare; the ratio is given, called
drifting, and its interval spans the levels that were seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from smlab.hw_bench.errors import SmlabError
from smlab.models.portability.launch_series import INITIAL_LAUNCHES, MIN_LAUNCHES, LaunchSeries, launch_series

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

MIN_CONFIGURATIONS: Final = 40
"""Steady configurations that a campaign must have for its change to come: at 95 % one is left out at each
end."""

Verdict = Literal["faster", "slower", "as expected", "cannot tell"]


@dataclass(frozen=True)
class CampaignChange:
    """Logarithm of the factor, either way, by which the ratio of configurations that looked steady changed
    later on: its quantile ``log_change`` at ``level``, from ``count`` configurations.

    Either way, since a clock that falls under load rises again after it, and which of the two comes next the
    launches before do not tell.
    """

    log_change: float
    level: float
    count: int


@dataclass(frozen=True, eq=False)
class Ratios:
    """Target over source, a row a configuration; all arrays of shape ``(configurations,)``.

    ``ratio`` is of the steady times, between ``low`` and ``high`` at ``level``; ``initial_ratio`` of the
    first launches. ``drifting``: one of the two has no steady time. ``change`` is the campaign's, None where
    it has too few configurations.
    """

    ratio: Floats
    low: Floats
    high: Floats
    level: float
    initial_ratio: Floats
    drifting: Bools
    source: LaunchSeries
    target: LaunchSeries
    change: CampaignChange | None


def verdicts_of(low: Floats, high: Floats, expected: ArrayLike, tolerance: float) -> list[Verdict]:
    """Each interval ``low`` to ``high`` against an expected ratio (a number, or one for each interval).

    ``faster`` and ``slower``: the whole interval lies beyond ``expected`` by more than the relative
    ``tolerance``. ``as expected``: the whole interval lies within it. Else ``cannot tell``.
    """
    middle = np.broadcast_to(np.asarray(expected, dtype=np.float64), low.shape)
    if not (np.isfinite(middle) & (middle > 0)).all():
        raise SmlabError.at("expected", "not a ratio", float(middle.min()), "above 0")
    below, above = middle / (1 + tolerance), middle * (1 + tolerance)
    words: list[Verdict] = []
    for start, end, under, over in zip(low, high, below, above, strict=True):
        if end < under:
            words.append("faster")
        elif start > over:
            words.append("slower")
        elif start >= under and end <= over:
            words.append("as expected")
        else:
            words.append("cannot tell")
    return words


def ratios(source_s: ArrayLike, target_s: ArrayLike, level: float = 0.9) -> Ratios:
    """Compare launches of the same configurations on two GPUs.

    ``source_s`` and ``target_s`` are seconds of shape ``(configurations, launches)``, in the order of the
    launches; the numbers of launches may differ.

    Raises:
        SmlabError: unequal numbers of configurations, too few launches, a time that is none.
    """
    first, second = np.asarray(source_s, dtype=np.float64), np.asarray(target_s, dtype=np.float64)
    if first.shape[:1] != second.shape[:1]:
        raise SmlabError.at("ratios", "unequal numbers of configurations", f"{len(first)} and {len(second)}")
    source, target = launch_series(first), launch_series(second)
    log_ratio = np.log(target.steady_s / source.steady_s)
    drifting = source.drifting | target.drifting
    change = campaign_change(first, second, level)
    # Twice the squares: once for the level that is known from these launches, once for the one to come.
    noise = special.ndtri(0.5 + level / 2) * np.sqrt(2 * (source.error**2 + target.error**2))
    # The campaign's changes hold the noise of half as many launches: whichever of the two is wider, not their
    # sum.
    width = np.maximum(noise, change.log_change if change else 0.0)
    low = log_ratio - width
    high = log_ratio + width
    for series in (source, target):
        # The median lies on one side of a step; the level to come may be the other side's.
        seen = np.where(series.drifting, np.abs(np.log1p(series.step)), 0.0)
        low, high = low - seen, high + seen
    return Ratios(
        ratio=np.exp(log_ratio),
        low=np.exp(low),
        high=np.exp(high),
        level=level,
        initial_ratio=target.initial_s / source.initial_s,
        drifting=drifting,
        source=source,
        target=target,
        change=change,
    )


def campaign_change(source_s: Floats, target_s: Floats, level: float) -> CampaignChange | None:
    """What became of ratios after half-time, over the configurations that looked steady until then.

    The change is of the mean of the later launches, from the level of the earlier ones. None where the
    series are too short to be cut or fewer than `MIN_CONFIGURATIONS` looked steady.
    """
    halves = [values.shape[1] // 2 for values in (source_s, target_s)]
    if min(halves) < max(MIN_LAUNCHES, INITIAL_LAUNCHES + 2):
        return None
    earlier = [launch_series(v[:, :h]) for v, h in zip((source_s, target_s), halves, strict=True)]
    later = [np.log(v[:, h:].mean(axis=1)) for v, h in zip((source_s, target_s), halves, strict=True)]
    steady = ~(earlier[0].drifting | earlier[1].drifting)
    if np.count_nonzero(steady) < MIN_CONFIGURATIONS:
        return None
    before = np.log(earlier[1].steady_s / earlier[0].steady_s)
    changes = (later[1] - later[0] - before)[steady]
    # Steps come at any launch: over the next n launches twice as many as over the n / 2 that are looked at
    # here.
    tail = (1 - level) / 2 * (1 - max(halves) / max(source_s.shape[1], target_s.shape[1]))
    return CampaignChange(float(np.quantile(np.abs(changes), 1 - 2 * tail)), level, int(steady.sum()))

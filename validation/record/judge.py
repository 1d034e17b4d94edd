"""How far simulated times are from measured ones, by set of the record, and the interval for a kernel's
real time that this gives.

The error of a time is a factor. In logarithms it has a part that all kernels of a set share (the card's
clock, the compiler, a mechanism that such kernels hang on) and a part of its own. A new kernel is of a set
that nobody has measured, so its interval knows both, from the spread of the sets' means and from the spread
within them. Whether such intervals hold is tested by leaving each set out in turn."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from scipy import stats

from smlab.hw_bench.errors import SmlabError
from smlab.validation.record.run import SEEN, ClockRange, SimulatedRow

STORED: Final = Path(__file__).with_name("record.json")
MADE_BY: Final = "smlab validate --record"
LEVEL: Final = 0.9
LEAST_SETS: Final = 3
"""Without so many sets there is no interval: two means tell no spread."""


@dataclass(frozen=True)
class SetError:
    """The errors of a set's ``n`` simulated times, in percent of the measured ones; ``bias`` is the factor
    that all share (simulated over measured, geometric mean), ``log_mean`` and ``log_sd`` the same and the
    spread in logarithms. ``baseline_mape`` is the error of saying the set's median measured time for each
    kernel. ``coverage`` and ``half_width`` are of the prediction intervals learned from the other sets, in
    percent."""

    name: str
    title: str
    gpu: str
    kind: str
    n: int
    mape: float
    median: float
    bias: float
    after_factor_mape: float
    spearman: float
    baseline_mape: float
    coverage: float
    half_width: float
    log_mean: float
    log_sd: float
    clock_slower: float
    clock_faster: float

    @property
    def clock(self) -> ClockRange:
        """How far the card's clock may be from the one that the times were computed with."""
        return ClockRange(self.clock_slower, self.clock_faster)


@dataclass(frozen=True)
class ErrorModel:
    """What the sets say of the logarithm of simulated over measured for a kernel of no set: its mean, the
    spread of the ``sets`` sets' means, and that within a set, from ``freedom`` degrees of freedom."""

    mean: float
    between: float
    within: float
    sets: int
    freedom: int

    def interval(
        self, seconds: float, own_sd: float = 0.0, clock: ClockRange = ClockRange()
    ) -> tuple[float, float]:
        """The 90 % prediction interval of the real time of a kernel simulated at ``seconds``.

        ``own_sd`` is what else is uncertain of that time, in logarithms (sampling, readings). The clock lies
        anywhere between its bounds, so it widens each end by its root mean square distance from the one used.
        """
        low = -self.mean - self._half_width(own_sd, clock.faster)
        high = -self.mean + self._half_width(own_sd, clock.slower)
        return seconds * math.exp(low), seconds * math.exp(high)

    def _half_width(self, own_sd: float, reach: float) -> float:
        """Student's quantile times the spread, with the degrees of freedom of a sum of variances
        (Welch 1947, Satterthwaite 1946): those of the sets' means are few, those within sets are many."""
        between, within = self.between**2 * (1 + 1 / self.sets), self.within**2
        whole = between + within + own_sd**2 + reach**2 / 3
        rough = between**2 / (self.sets - 1) + within**2 / max(self.freedom, 1)
        freedom = whole**2 / rough if rough > 0 else math.inf
        return float(stats.t.ppf((1 + LEVEL) / 2, freedom)) * math.sqrt(whole)


@dataclass(frozen=True)
class SetLogs:
    """The logarithms of simulated over measured of a set's kernels: mean, spread, number, and what the
    clock may explain of the mean."""

    mean: float
    sd: float
    n: int
    clock: ClockRange = SEEN

    @property
    def unexplained(self) -> float:
        """What is left of the mean at the best of the clocks that the card may have had."""
        return self.mean - min(max(self.mean, -self.clock.slower), self.clock.faster)


def error_model(sets: Sequence[SetLogs]) -> ErrorModel | None:
    """From some sets; None for fewer than `LEAST_SETS`."""
    if len(sets) < LEAST_SETS:
        return None
    freedom = np.maximum(np.array([one.n for one in sets]) - 1, 0)
    squares = np.square([one.sd for one in sets])
    within = math.sqrt(float((freedom * squares).sum()) / max(int(freedom.sum()), 1))
    left = [one.unexplained for one in sets]
    return ErrorModel(
        float(np.mean(left)), float(np.std(left, ddof=1)), within, len(sets), int(freedom.sum())
    )


def judge(
    sets: Sequence[tuple[str, str, str, str]], rows: Sequence[SimulatedRow]
) -> tuple[list[SetError], ErrorModel | None]:
    """The errors of each set, given as (name, title, GPU, kind), and what all of them say of a new kernel."""
    known = []
    for described in sets:
        mine = [row for row in rows if row.set == described[0]]
        if mine:
            known.append((described, mine, np.log([row.ratio for row in mine])))
    parts = [
        SetLogs(
            float(logs.mean()), float(logs.std(ddof=1)) if len(logs) > 1 else 0.0, len(logs), mine[0].clock
        )
        for _, mine, logs in known
    ]
    errors = []
    for at, ((name, title, gpu, kind), mine, logs) in enumerate(known):
        model = error_model([part for n, part in enumerate(parts) if n != at])
        measured = np.array([row.measured_s for row in mine])
        held, half = _held(model, mine)
        errors.append(
            SetError(
                name,
                title,
                gpu,
                kind,
                len(mine),
                mape=_percent(np.abs(np.exp(logs) - 1)),
                median=100 * float(np.median(np.abs(np.exp(logs) - 1))),
                bias=math.exp(parts[at].mean),
                after_factor_mape=_percent(np.abs(np.exp(logs - np.median(logs)) - 1)),
                spearman=_rank(mine),
                baseline_mape=_percent(np.abs(np.median(measured) / measured - 1)),
                coverage=held,
                half_width=half,
                log_mean=parts[at].mean,
                log_sd=parts[at].sd,
                clock_slower=parts[at].clock.slower,
                clock_faster=parts[at].clock.faster,
            )
        )
    return errors, error_model(parts)


def _held(model: ErrorModel | None, rows: Sequence[SimulatedRow]) -> tuple[float, float]:
    """How many of the rows' measured times their intervals hold, and the median half-width, in percent."""
    if model is None:
        return float("nan"), float("nan")
    bounds = [model.interval(row.simulated_s, sampling_sd(row.low_s, row.high_s), row.clock) for row in rows]
    held = [low <= row.measured_s <= high for (low, high), row in zip(bounds, rows, strict=True)]
    halves = [math.sqrt(high / low) - 1 for low, high in bounds]
    return 100 * float(np.mean(held)), 100 * float(np.median(halves))


def sampling_sd(low: float, high: float) -> float:
    """The spread, in logarithms, of a time whose 95 % interval of sampling is given."""
    return math.log(high / low) / (2 * 1.96) if 0 < low < high else 0.0


def _percent(errors: Any) -> float:
    return 100 * float(np.mean(errors))


def _rank(rows: Sequence[SimulatedRow]) -> float:
    if len(rows) < LEAST_SETS:
        return float("nan")
    found = stats.spearmanr([row.measured_s for row in rows], [row.simulated_s for row in rows])
    return float(found.statistic)


def document(errors: Sequence[SetError], how: dict[str, Any]) -> dict[str, Any]:
    """What ``smlab validate --record`` writes; ``how`` are the seed, the rows and the version of the
    rules."""
    return {"how": how, "sets": [asdict(error) for error in errors]}


def stored_errors(path: Path = STORED) -> list[SetError]:
    """The errors that ship; `SmlabError` for a file that is not one of them."""
    try:
        return [SetError(**entry) for entry in json.loads(path.read_text(encoding="utf-8"))["sets"]]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise SmlabError(f"{path}: not a judged record ({error}); make it again with {MADE_BY}") from error


def model_of(errors: Sequence[SetError]) -> ErrorModel | None:
    """What judged sets say of a new kernel."""
    return error_model([SetLogs(e.log_mean, e.log_sd, e.n, e.clock) for e in errors])

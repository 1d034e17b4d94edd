"""How far simulated times are from measured ones, by set of the record, and the interval for a kernel's
real time that this gives.

The error of a time is a factor. In logarithms it has a part that all kernels of a set share (the card's
clock, the compiler, a mechanism that such kernels hang on) and a part of its own. A new kernel is of a set
that nobody has measured, so its interval knows both, from the spread of the sets' means and from the
deviations within them. Whether such intervals hold is tested by leaving each set out in turn."""

from __future__ import annotations

import json
import math
from collections.abc import Container, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import scipy
from scipy import special

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.validation.record.run import SEEN, ClockRange, SimulatedRow

STORED: Final = Path(__file__).with_name("record.json")
MADE_BY: Final = "smlab validate --record"
LEVEL: Final = 0.9
LEAST_SETS: Final = 3
"""Without so many sets there is no interval: two means tell no spread."""


@dataclass(frozen=True)
class SetError:
    """The errors of a set's ``n`` simulated times, in percent of the measured ones. ``bias`` is the factor
    that all share (simulated over measured, geometric mean), ``logs`` the logarithm of simulated over
    measured of each, ``log_mean`` and ``log_sd`` their mean and spread. ``baseline_mape`` is the error of
    saying the set's median measured time for each kernel. ``coverage`` and ``half_width`` are of the
    prediction intervals learned from the other sets, in percent. A set that is ``developed`` (rules were
    changed after a look at it) teaches no interval."""

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
    logs: tuple[float, ...]
    clock_slower: float
    clock_faster: float
    developed: bool = False

    @property
    def clock(self) -> ClockRange:
        """How far the card's clock may be from the one that the times were computed with."""
        return ClockRange(self.clock_slower, self.clock_faster)


@dataclass(frozen=True)
class ErrorModel:
    """What the sets say of the logarithm of simulated over measured for a kernel of no set: its mean, the
    spread of the ``sets`` sets' means, and the deviation from a set's mean that nine of ten kernels keep."""

    mean: float
    between: float
    deviation: float
    sets: int

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
        """The root of the sum of squares of what each part alone would ask for: Student's quantile of the
        sets' means, which are few, the deviations' own quantile, since some sets scatter much more than
        others, and the normal quantile of the rest."""
        tail = (1 + LEVEL) / 2
        between = float(special.stdtrit(self.sets - 1, tail)) * self.between * math.sqrt(1 + 1 / self.sets)
        rest = float(special.ndtri(tail)) * math.sqrt(own_sd**2 + reach**2 / 3)
        return math.hypot(between, self.deviation, rest)


@dataclass(frozen=True)
class SetLogs:
    """The logarithms of simulated over measured of a set's kernels, what the clock may explain of their
    mean, and the architecture of the set's card."""

    logs: Sequence[float]
    clock: ClockRange = SEEN
    architecture: str = ""

    @property
    def unexplained(self) -> float:
        """What is left of the mean at the best of the clocks that the card may have had."""
        mean = float(np.mean(self.logs))
        return mean - min(max(mean, -self.clock.slower), self.clock.faster)

    @property
    def deviations(self) -> Any:
        """How far each is from the mean, (n,), as far as from a mean that it has no part in."""
        logs = np.asarray(self.logs)
        return np.abs(logs - logs.mean()) * math.sqrt(len(logs) / max(len(logs) - 1, 1))


def error_model(sets: Sequence[SetLogs], architecture: str | None = None) -> ErrorModel | None:
    """From some sets, for a kernel on a card of ``architecture``; None for fewer than `LEAST_SETS`. Sets of
    that architecture tell the deviation within a set, if there are so many of them; else all sets do."""
    if len(sets) < LEAST_SETS:
        return None
    left = [one.unexplained for one in sets]
    alike = [one for one in sets if one.architecture == architecture]
    deviation = _deviation(alike if len(alike) >= LEAST_SETS else sets)
    return ErrorModel(float(np.mean(left)), float(np.std(left, ddof=1)), deviation, len(sets))


def _deviation(sets: Sequence[SetLogs]) -> float:
    """What nine of ten kernels keep. Each set counts alike, however many kernels of it were drawn."""
    deviations = np.concatenate([one.deviations for one in sets])
    weights = np.concatenate([np.full(len(one.logs), 1 / len(one.logs)) for one in sets])
    order = np.argsort(deviations)
    at = int(np.searchsorted(np.cumsum(weights[order]), LEVEL * len(sets) * (1 - 1e-12)))
    return float(deviations[order][at])


def judge(
    sets: Sequence[tuple[str, str, str, str]],
    rows: Sequence[SimulatedRow],
    developed: Container[str] = (),
) -> tuple[list[SetError], ErrorModel | None]:
    """The errors of each set, given as (name, title, GPU, kind), and what those say of a new kernel that are
    not ``developed``."""
    known = []
    for described in sets:
        mine = [row for row in rows if row.set == described[0]]
        if mine:
            known.append((described, mine, np.log([row.ratio for row in mine])))
    parts = [
        SetLogs(tuple(logs.tolist()), mine[0].clock, load_gpu(described[2]).architecture)
        for described, mine, logs in known
    ]
    errors, teach = [], [n for n, (one, _, _) in enumerate(known) if one[0] not in developed]
    for at, ((name, title, gpu, kind), mine, logs) in enumerate(known):
        model = error_model(
            [p for n, p in enumerate(parts) if n in teach and n != at], parts[at].architecture
        )
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
                bias=math.exp(float(logs.mean())),
                after_factor_mape=_percent(np.abs(np.exp(logs - np.median(logs)) - 1)),
                spearman=_rank(mine),
                baseline_mape=_percent(np.abs(np.median(measured) / measured - 1)),
                coverage=held,
                half_width=half,
                log_mean=float(logs.mean()),
                log_sd=float(logs.std(ddof=1)) if len(logs) > 1 else 0.0,
                logs=tuple(parts[at].logs),
                clock_slower=parts[at].clock.slower,
                clock_faster=parts[at].clock.faster,
                developed=at not in teach,
            )
        )
    return errors, error_model([parts[n] for n in teach])


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
    found = scipy.stats.spearmanr([row.measured_s for row in rows], [row.simulated_s for row in rows])
    return float(found.statistic)


def document(errors: Sequence[SetError], how: dict[str, Any]) -> dict[str, Any]:
    """What ``smlab validate --record`` writes; ``how`` are the seed, the rows and the version of the
    rules."""
    return {"how": how, "sets": [asdict(error) for error in errors]}


def stored_errors(path: Path = STORED) -> list[SetError]:
    """The errors that ship; `SmlabError` for a file that is not one of them."""
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))["sets"]
        return [SetError(**{**entry, "logs": tuple(entry["logs"])}) for entry in entries]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise SmlabError(f"{path}: not a judged record ({error}); make it again with {MADE_BY}") from error


def model_of(errors: Sequence[SetError], architecture: str | None = None) -> ErrorModel | None:
    """What judged sets say of a new kernel on a card of ``architecture``."""
    sets = [SetLogs(e.logs, e.clock, load_gpu(e.gpu).architecture) for e in errors if not e.developed]
    return error_model(sets, architecture)

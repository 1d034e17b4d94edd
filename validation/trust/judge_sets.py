"""What each set of counters tells, held against the truth: utilization, gains, and the verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from smlab.models.alternative_estimates import AlternativeEstimates
from smlab.models.counter_answers import CounterAnswers, answer
from smlab.models.counter_maps import CHANGES, FASTER, SPREAD, CounterMaps
from smlab.models.counter_sets import SETS
from smlab.models.trust import CLOSED, OCCUPANCY
from smlab.models.verdict import BOTTLENECK, CANNOT_TELL, GAIN, NOT
from smlab.validation.trust.fit_maps import counters_of
from smlab.validation.trust.judge import LEVEL, MIDDLE, JudgedCampaign
from smlab.validation.trust.twins import Twins, told_apart_percent

Floats = NDArray[np.float64]

NO_GAIN, AMDAHL = "no gain", "Amdahl by utilization"
BASELINES = (NO_GAIN, AMDAHL)
"""What a gain is held against: that nothing changes, and that the busy time halves (Amdahl's law), or shrinks
as its service does without conflicts, and all else stays."""


@dataclass(frozen=True, eq=False)
class JudgedSets:
    """Whole kernels of a campaign, (kernels,): the truth, and by set of counters what `answer` gives.

    ``utilization`` is over the elapsed cycles and ``active`` their active share; ``others`` are estimates
    that need no map, by name. ``gain`` by change is how many times as fast the kernel became, and
    ``baselines`` what is guessed of that without a map.
    """

    family: NDArray[np.object_]
    utilization: Floats
    active: Floats
    gain: dict[str, Floats]
    others: dict[str, Floats]
    baselines: dict[str, dict[str, Floats]]
    answers: dict[str, CounterAnswers]


@dataclass(frozen=True)
class SetRow:
    """What one set of counters is worth: errors of utilization in points and of speedups (times as fast, mean
    absolute), coverage in percent and mean width of 90 % intervals; how many kernels each verdict was given,
    and how many of them gain at least `GAIN`."""

    counters: str
    kernels: int
    utilization_points: float
    utilization_held: float
    utilization_width: float
    gain_error: dict[str, float]
    gain_held: dict[str, float]
    gain_width: dict[str, float]
    verdicts: dict[str, tuple[int, int]]

    @property
    def cannot_tell_percent(self) -> float:
        return 100 * self.verdicts[CANNOT_TELL][0] / self.kernels

    def gaining_percent(self, verdict: str) -> float:
        count, gaining = self.verdicts[verdict]
        return 100 * gaining / count if count else np.nan


def judge_sets(judged: JudgedCampaign, maps: CounterMaps) -> JudgedSets:
    """Answer for all whole kernels of a judged campaign from each set of counters."""
    whole = judged.table.whole
    table = judged.table.take(whole)
    counters = counters_of(table)
    parts = [p.take(whole) for p in judged.by_reading]
    active = table.active_cycles / table.elapsed_cycles
    closed = judged.utilization[CLOSED][whole]
    first = parts[0].estimates.features
    lighter = np.clip(1 / first.e, 0, 1)
    none = np.ones(len(closed))
    return JudgedSets(
        family=table.family,
        utilization=table.utilization,
        active=active,
        gain={FASTER: table.gain, SPREAD: table.gain_spread},
        others={name: judged.utilization[name][whole] for name in (CLOSED, MIDDLE, OCCUPANCY)},
        baselines={
            FASTER: {NO_GAIN: none, AMDAHL: 1 / (1 - closed / 2)},
            SPREAD: {NO_GAIN: none, AMDAHL: 1 / (1 - closed * (1 - lighter))},
        },
        answers={which: answer(parts, counters, which, maps, LEVEL) for which in SETS},
    )


def set_rows(judged: Sequence[JudgedSets]) -> list[SetRow]:
    """A row for each set of counters, over all kernels."""
    rows = []
    exact, active = _all(j.utilization for j in judged), _all(j.active for j in judged)
    for which in SETS:
        own = [j.answers[which] for j in judged]
        low, high = (_all(getattr(a.utilization, n) for a in own) * active for n in ("low", "high"))
        gains: dict[str, tuple[Floats, Floats, Floats]] = {
            change: (
                _all(a.gain[change].guess for a in own),
                _all(a.gain[change].low for a in own),
                _all(a.gain[change].high for a in own),
            )
            for change in CHANGES
        }
        truth = {change: _all(j.gain[change] for j in judged) for change in CHANGES}
        said = np.concatenate([a.verdict for a in own])
        gaining = truth[FASTER] >= GAIN
        rows.append(
            SetRow(
                which,
                len(exact),
                float(100 * np.abs(_all(a.utilization.guess for a in own) * active - exact).mean()),
                float(100 * _held(low, high, exact).mean()),
                float(100 * (high - low).mean()),
                {c: float(np.abs(gains[c][0] - truth[c]).mean()) for c in CHANGES},
                {c: float(100 * _held(*gains[c][1:], truth[c]).mean()) for c in CHANGES},
                {c: float((gains[c][2] - gains[c][1]).mean()) for c in CHANGES},
                {
                    v: (int((said == v).sum()), int(((said == v) & gaining).sum()))
                    for v in (BOTTLENECK, NOT, CANNOT_TELL)
                },
            )
        )
    return rows


def baseline_errors(judged: Sequence[JudgedSets]) -> dict[str, dict[str, float]]:
    """Mean absolute error of the speedup by each of `BASELINES`, by change."""
    return {
        change: {
            name: float(
                np.abs(
                    _all(j.baselines[change][name] for j in judged) - _all(j.gain[change] for j in judged)
                ).mean()
            )
            for name in BASELINES
        }
        for change in CHANGES
    }


def other_errors(judged: Sequence[JudgedSets]) -> dict[str, float]:
    """Mean error of utilization, in points, of what needs no map."""
    exact = _all(j.utilization for j in judged)
    names = judged[0].others
    return {n: float(100 * np.abs(_all(j.others[n] for j in judged) - exact).mean()) for n in names}


def told_by_set(
    twins: Twins, parts: Sequence[AlternativeEstimates], maps: CounterMaps
) -> dict[str, tuple[float, float]]:
    """By set of counters, the percentage of the pairs of ``twins`` of which the busier one is told, and the
    mean error of utilization in points; ``parts`` are the estimates under each reading."""
    counters, exact = counters_of(twins.table), twins.truth()
    active = twins.table.active_cycles / twins.table.elapsed_cycles
    found = {}
    for which in SETS:
        told = answer(parts, counters, which, maps, LEVEL).utilization.guess * active
        guess = told.reshape(exact.shape)
        found[which] = told_apart_percent(exact, guess), float(100 * np.abs(guess - exact).mean())
    return found


def sets_as_text(judged: Sequence[JudgedSets]) -> str:
    """The rows as a plain table, for the terminal; errors also over those of launch and atomic counters, and
    of speedups over the better of `BASELINES`."""
    lines = [
        "utilization, points: " + ", ".join(f"{n} {e:.2f}" for n, e in other_errors(judged).items()),
        *(
            f"{change}, error of the speedup: " + ", ".join(f"{n} {e:.4f}" for n, e in errors.items())
            for change, errors in baseline_errors(judged).items()
        ),
    ]
    rows, guessed = set_rows(judged), baseline_errors(judged)
    for row in rows:
        gains = "; ".join(
            f"{c} {row.gain_error[c]:.4f} ({_over(row.gain_error[c], min(guessed[c].values()))}), "
            f"held {row.gain_held[c]:.1f} %, wide {row.gain_width[c]:.2f}"
            for c in CHANGES
        )
        told = ", ".join(
            f"{v}: {count} ({row.gaining_percent(v):.1f} % gain)" for v, (count, _) in row.verdicts.items()
        )
        lines.append(
            f"{row.counters:9s} utilization {row.utilization_points:.2f} points "
            f"({_over(row.utilization_points, rows[0].utilization_points)}), held "
            f"{row.utilization_held:.1f} %, wide {row.utilization_width:.1f}; {gains}; {told}, cannot tell "
            f"{row.cannot_tell_percent:.1f} %"
        )
    return "\n".join(lines)


def _over(error: float, baseline: float) -> str:
    """An error over a baseline's; where that is never wrong (no kernel has conflicts to remove) there is no
    such number."""
    return f"{error / baseline:.2f}" if baseline > 0 else "baseline is exact"


def _all(parts: Iterable[Floats]) -> Floats:
    return np.concatenate(list(parts))


def _held(low: Floats, high: Floats, exact: Floats) -> NDArray[np.bool_]:
    return (low - 1e-6 <= exact) & (exact <= high + 1e-6)

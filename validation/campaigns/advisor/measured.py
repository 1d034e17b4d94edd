"""What the changes of `pairs` gain on a real GPU, beside what is simulated and what is advised.

`measured.json` has the times of each kernel before and after its change, on the card that its ``card`` names.
It also has what was said of them by frozen code: the simulated times, and what `smlab advise` told of the
kernel before. Times that later rules give are beside them (``again``): some of these kernels were looked at
when the rules were changed, so they judge less.
Measured times are those between two events, the median of up to 200 launches. Those of an empty kernel are
taken off. ``cold`` launches come after a write of 256 MiB, ``warm`` ones after a launch of the same kernel.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from smlab.hw_bench.inputs import load_json
from smlab.models.advisor.track_record import ON_A_CARD
from smlab.validation.campaigns.advisor.pairs import MOST_OFF, SIMULATED, intervals
from smlab.validation.campaigns.advisor.speedups import NOTHING, ChangeRow, numbers

FILE: Final = Path(__file__).with_name("measured.json")
ATOMICS: Final = "privatise-atomics"
"""The change of which the simulated gain is the furthest off."""


class PairTimes(NamedTuple):
    """Of a kernel before and after its change, in microseconds."""

    before_us: float
    after_us: float

    @property
    def gain(self) -> float:
        return self.before_us / self.after_us


@dataclass(frozen=True)
class MeasuredPair:
    """A kernel before and after its ``change``: measured, without what an empty kernel takes, and simulated
    by the rules of that day and by later ones.
    ``advised`` is the number that was told of the change, between ``low`` and ``high``, and ``how`` it came
    (`smlab.validation.campaigns.advisor.pairs.HOWS`); None where no number was told."""

    round: str
    kernel: str
    change: str
    cold: PairTimes
    warm: PairTimes
    simulated_cold: PairTimes
    simulated_warm: PairTimes
    again_cold: PairTimes
    again_warm: PairTimes
    advised: float | None = None
    low: float | None = None
    high: float | None = None
    how: str = ""


@functools.cache
def stored_card() -> dict[str, Any]:
    """The file: ``card``, ``pairs`` and ``versions``.

    Raises:
        SmlabError: the file is missing or is no JSON.
    """
    found: dict[str, Any] = load_json(FILE, "the measured gains")
    return found


@functools.cache
def measured_pairs() -> tuple[MeasuredPair, ...]:
    """Those of `FILE`, the newest round first."""
    return tuple(
        MeasuredPair(
            round=row["round"],
            kernel=row["kernel"],
            change=row["change"],
            cold=_net(row, "cold"),
            warm=_net(row, "warm"),
            simulated_cold=PairTimes(*row["simulated_cold_us"]),
            simulated_warm=PairTimes(*row["simulated_warm_us"]),
            again_cold=PairTimes(*row["again_cold_us"]),
            again_warm=PairTimes(*row["again_warm_us"]),
            **{key: row[key] for key in ("advised", "low", "high", "how") if key in row},
        )
        for row in stored_card()["pairs"]
    )


def _net(row: dict[str, Any], how: str) -> PairTimes:
    """Two measured times without that of an empty kernel."""
    before, after = (us - stored_card()["card"]["empty_us"][how] for us in row[f"{how}_us"])
    return PairTimes(before, after)


@dataclass(frozen=True)
class MeasuredVersion:
    """A version of a kernel that `smlab advise` made by itself: its gain with cold caches as measured,
    and the ``speedup`` that was told."""

    round: str
    kernel: str
    kind: str
    cold_gain: float
    speedup: float


def measured_versions() -> tuple[MeasuredVersion, ...]:
    """Those of `FILE`: of each kernel that was asked the fastest of up to three kinds."""
    return tuple(
        MeasuredVersion(
            round=row["round"],
            kernel=row["kernel"],
            kind=row["kind"],
            cold_gain=_net(row, "cold").gain,
            speedup=row["speedup"],
        )
        for row in stored_card()["versions"]
    )


def _row(kernel: str, change: str, true: float, estimated: float) -> ChangeRow:
    """A gain beside what was said of it, as the other judges of the campaign take it."""
    return ChangeRow(kernel, change, change, true, estimated, estimated, 0, how=SIMULATED[0])


def times_of(p: MeasuredPair, warm: bool = False, again: bool = False) -> tuple[PairTimes, PairTimes]:
    """Measured, and simulated by the rules of that day or, ``again``, by later ones."""
    if warm:
        return p.warm, p.again_warm if again else p.simulated_warm
    return p.cold, p.again_cold if again else p.simulated_cold


def simulated_rows(pairs: Sequence[MeasuredPair], warm: bool = False, again: bool = False) -> list[ChangeRow]:
    """The same change, simulated and measured."""
    of = [(p, *times_of(p, warm, again)) for p in pairs]
    return [_row(p.kernel, p.change, true.gain, told.gain) for p, true, told in of]


def time_errors(warm: bool, again: bool) -> dict[str, float]:
    """How far simulated times are from the measured ones: ``mape`` and ``median_ape``, in percent, and
    ``bias``, simulated over measured."""
    of = [times_of(p, warm, again) for p in measured_pairs()]
    ratios = np.array([s / m for true, told in of for m, s in zip(true, told, strict=True)])
    errors = 100 * np.abs(ratios - 1)
    bias = float(np.exp(np.log(ratios).mean()))
    return {"mape": float(errors.mean()), "median_ape": float(np.median(errors)), "bias": bias}


def told_pairs() -> list[MeasuredPair]:
    """The pairs of whose change a simulated number was told."""
    return [pair for pair in measured_pairs() if pair.advised is not None and pair.how in SIMULATED]


def advised_rows(pairs: Sequence[MeasuredPair]) -> list[ChangeRow]:
    """The author's change, measured, beside the number that was told of it."""
    return [
        replace(_row(p.kernel, p.change, p.cold.gain, p.advised or 1.0), low=p.low or 0.0, high=p.high or 0.0)
        for p in pairs
    ]


def version_rows(versions: Sequence[MeasuredVersion]) -> list[ChangeRow]:
    """What smlab made by itself: as measured, and as told."""
    return [_row(v.kernel, v.kind, v.cold_gain, v.speedup) for v in versions]


def judged(rows: Sequence[ChangeRow], rounds: Sequence[str]) -> dict[str, Any]:
    """`speedups.numbers` of measured gains, and how many are ``right`` within `MOST_OFF`; of those that gain
    or lose by more than `NOTHING` how many have the right ``sign``; and the intervals that they ask for."""
    true, estimated = np.array([r.true for r in rows]), np.array([r.estimated for r in rows])
    changed = np.maximum(true, 1 / true) >= NOTHING
    return {
        **numbers(list(rows)),
        "right": int((np.abs(estimated / true - 1) <= MOST_OFF).sum()),
        "sign": int(((estimated > 1) == (true > 1))[changed].sum()),
        "signs": int(changed.sum()),
        "intervals": intervals(rows, rounds),
    }


def record(ends: tuple[float, float]) -> dict[str, Any]:
    """What `smlab.models.advisor.track_record` ships of the numbers that were told, as `ON_A_CARD`: never a
    narrower interval than ``ends``, those of simulated gains."""
    found = summary()["advised"]
    return {
        "optimizer": ON_A_CARD,
        "n": found["changes"],
        "mape": found["mape"],
        "low": min(found["intervals"]["low"], ends[0]),
        "high": max(found["intervals"]["high"], ends[1]),
        "constant_mape": found["constant"]["mape"],
    }


@functools.cache
def summary() -> dict[str, Any]:
    """All that is said of the card: simulated gains, cold and warm, with and without `ATOMICS`; the numbers
    that were told of the author's change; and those of what smlab made by itself."""
    pairs, told, versions = measured_pairs(), told_pairs(), measured_versions()
    others = [pair for pair in pairs if pair.change != ATOMICS]

    def rounds(of: Sequence[MeasuredPair]) -> list[str]:
        return [pair.round for pair in of]

    return {
        "cold": judged(simulated_rows(pairs), rounds(pairs)),
        "warm": judged(simulated_rows(pairs, warm=True), rounds(pairs)),
        "cold_again": judged(simulated_rows(pairs, again=True), rounds(pairs)),
        "warm_again": judged(simulated_rows(pairs, warm=True, again=True), rounds(pairs)),
        "cold_without_atomics": judged(simulated_rows(others), rounds(others)),
        "warm_without_atomics": judged(simulated_rows(others, warm=True), rounds(others)),
        "advised": judged(advised_rows(told), rounds(told)),
        **({"versions": judged(version_rows(versions), [v.round for v in versions])} if versions else {}),
    }

"""The one judge of what papers say: claims of the ledger, facts of the case study and of the service table.

A statement has one or more *conditions*: a number, and the range in which it would confirm the statement.
A condition is

- *met* where the number, with its whole interval, lies in the range;
- *met in part* where the estimate lies in the wider range of `part_range`. It follows from the range and the
  kind of number: at least half of the cases, half of the effect, at most twice the error, twice the
  tolerance (of a ratio: in its logarithm), within 5 % of a figure that is asked for exactly;
- *not met* otherwise.

Then the statement

- **holds** where every condition is met;
- **holds in part** where at least half of them are, one that is met in part counting half;
- **does not hold** otherwise, and wherever a *necessary* condition is not met. A true statement must meet a
  necessary condition and a false one may: it can refute and confirms nothing, so one that is met does not
  count;
- **cannot be judged here** where something that it needs is missing, or nothing but necessary conditions is
  left.

Nobody types a verdict, nor a range for "in part".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

MAJORITY_PERCENT: Final = 50.0
EXACT_SLACK: Final = 0.05
"""How far off a figure that is asked for exactly may be to be met in part."""


class PaperVerdict(StrEnum):
    """What comes out for a statement of a paper."""

    HOLDS = "holds"
    PARTLY = "holds in part"
    FAILS = "does not hold"
    UNJUDGED = "cannot be judged here"

    @property
    def of_many(self) -> str:
        """The words for several statements."""
        plural = {"holds": "hold", "holds in part": "hold in part", "does not hold": "do not hold"}
        return plural.get(self.value, self.value)


class Met(StrEnum):
    """How far a condition is met."""

    YES = "met"
    PARTLY = "in part"
    NO = "not met"


class Scale(StrEnum):
    """What kind of number a condition is about; it decides what "in part" is.

    ``share``: per cent of cases. ``ratio``: 1 is no effect. ``difference``: 0 is no effect (also counts and
    correlations). ``error``: 0 is perfect. ``figure``: none of these.
    """

    SHARE = "share"
    RATIO = "ratio"
    DIFFERENCE = "difference"
    ERROR = "error"
    FIGURE = "figure"


@dataclass(frozen=True)
class Range:
    """From ``low`` to ``high``, both inclusive; an end that is open is infinite."""

    low: float
    high: float

    def contains(self, low: float, high: float) -> bool:
        return self.low <= low and high <= self.high

    def text(self, unit: str) -> str:
        """Such as ``2.5 to 3.5 lanes``, ``at least 10 times``."""
        tail = f" {unit}" if unit else ""
        if math.isinf(self.low):
            return f"at most {number(self.high)}{tail}"
        if math.isinf(self.high):
            return f"at least {number(self.low)}{tail}"
        if self.low == self.high:
            return f"{number(self.low)}{tail}"
        return f"{number(self.low)} to {number(self.high)}{tail}"


def number(value: float) -> str:
    """Four significant digits, whole numbers as they are."""
    if value == int(value) and abs(value) < 1e7:
        return f"{int(value):,}".replace(",", "\u2009")
    return f"{value:.4g}"


def part_range(confirming: Range, scale: Scale) -> Range:
    """The wider range in which a condition is met in part; the confirming one where nothing wider makes
    sense."""
    low, high = confirming.low, confirming.high
    if scale is Scale.SHARE:
        if high >= 100 or math.isinf(high):
            return Range(min(low, MAJORITY_PERCENT), high)
        return Range(low, max(high, MAJORITY_PERCENT)) if math.isinf(low) else confirming
    if low == high:
        slack = EXACT_SLACK * abs(low)
        return Range(low - slack, high + slack)
    if scale is Scale.RATIO and low > 0 and math.isfinite(high):
        half_factor = math.sqrt(high / low)
        return Range(low / half_factor, high * half_factor)
    if math.isfinite(low) and math.isfinite(high):
        half = (high - low) / 2
        return Range(low - half, high + half)
    if scale is Scale.ERROR and high > 0:
        return Range(low, 2 * high)
    none = {Scale.RATIO: 1.0, Scale.DIFFERENCE: 0.0}.get(scale)
    if none is None:
        return confirming
    # Half of the way from no effect to what is claimed; a bound on the other side of no effect claims none.
    return Range(
        (low + none) / 2 if math.isfinite(low) and low > none else low,
        (high + none) / 2 if math.isfinite(high) and high < none else high,
    )


def how_far_met(confirming: Range, scale: Scale, value: float, low: float, high: float) -> Met:
    """How far a condition is met by an estimate with its interval."""
    if confirming.contains(low, high):
        return Met.YES
    return Met.PARTLY if part_range(confirming, scale).contains(value, value) else Met.NO


def verdict_of(met: Sequence[Met], necessary: Sequence[bool] | None = None) -> PaperVerdict:
    """The verdict over all conditions of a statement; ``necessary`` says which of them are only that."""
    flags = necessary if necessary is not None else [False] * len(met)
    if any(m is not Met.YES for m, only in zip(met, flags, strict=True) if only):
        return PaperVerdict.FAILS
    telling = [m for m, only in zip(met, flags, strict=True) if not only]
    if not telling:
        return PaperVerdict.UNJUDGED
    if all(m is Met.YES for m in telling):
        return PaperVerdict.HOLDS
    score = sum({Met.YES: 1.0, Met.PARTLY: 0.5, Met.NO: 0.0}[m] for m in telling)
    return PaperVerdict.PARTLY if score >= len(telling) / 2 else PaperVerdict.FAILS


ALL_CASES: Final = Range(100.0, 100.0)


def verdict_of_cases(percent: float) -> PaperVerdict:
    """The verdict on a statement about each of several cases, of which ``percent`` are as it says."""
    return verdict_of([how_far_met(ALL_CASES, Scale.SHARE, percent, percent, percent)])

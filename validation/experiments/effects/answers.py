"""The short answer of a study: what each change does to the response that the question is about; and the
names, columns and rows of its tables.
"""

from __future__ import annotations

import math
import re

import numpy as np

from smlab.validation.experiments.effects.paired import Paired
from smlab.validation.experiments.effects.plots import show_level
from smlab.validation.experiments.effects.points import RATIOS
from smlab.validation.experiments.effects.results import Effects, LevelEffect, ResponseEffects
from smlab.validation.method.statistics import Interval
from smlab.validation.report import Column

UNITS = {"seconds": "s", "speedup": "×"}
"""Of responses whose name does not tell the unit."""


def anchor(*parts: str) -> str:
    """A name for a table or a figure: lower-case letters, digits and dashes."""
    text = re.sub(r"[^a-z0-9]+", "-", "-".join(parts).lower()).strip("-")
    return text[:80].rstrip("-")


NOTHING = Interval(float("nan"), float("nan"), float("nan"), 0.95, 0)


def level_columns(kind: str) -> tuple[Column, ...]:
    """The columns of a table of levels; ``kind`` says where the numbers come from."""
    return (
        Column("Factor", key="factor"),
        Column("Level", key="level", align="right"),
        Column("Mean", key="mean", kind=kind),
        Column("low", key="mean_low"),
        Column("high", key="mean_high"),
        Column("Less the reference", key="difference"),
        Column("low", key="difference_low"),
        Column("high", key="difference_high"),
        Column("Ratio", unit="×", key="ratio"),
        Column("low", key="ratio_low"),
        Column("high", key="ratio_high"),
        Column("Pairing", unit="× fewer runs", key="variance_reduction", digits=1),
    )


def level_row(effect: LevelEffect) -> list[object]:
    """A row for `level_columns`; the reference level has no differences."""
    against = effect.against or Paired(NOTHING, NOTHING, None)
    reduction = against.variance_reduction
    shown = show_level(effect.level) + (" (reference)" if effect.against is None else "")
    return [
        effect.factor,
        shown,
        *three(effect.mean),
        *three(None if effect.against is None else against.difference),
        *three(None if effect.against is None else against.ratio),
        reduction.estimate if reduction else None,
    ]


def three(interval: Interval | None) -> list[float | None]:
    """Estimate and ends."""
    return [None] * 3 if interval is None else [interval.estimate, interval.low, interval.high]


def percent(value: float | None) -> float | None:
    """A fraction in per cent."""
    return None if value is None else 100 * value


def words(interval: Interval) -> str:
    """An estimate with its interval, if it has one."""
    if not np.isfinite(interval.low) or interval.low == interval.high:
        return f"{interval.estimate:.4g}"
    return f"{interval.estimate:.4g} ({interval.low:.4g} to {interval.high:.4g})"


def unit_of(response: str, before: str) -> str:
    """The unit of a response whose name does not tell it, after ``before``."""
    return before + UNITS[response] if response in UNITS else ""


def leading(effects: Effects) -> ResponseEffects:
    """The response that the question is about: the speedup where there is one, else the first."""
    return next((r for r in effects.responses if r.response in RATIOS), effects.responses[0])


def ranked(effects: ResponseEffects) -> list[LevelEffect]:
    """The levels that are compared with a reference, the largest effect first."""
    compared = [e for e in effects.levels if e.against is not None]
    as_ratio = all(e.against is not None and e.against.ratio is not None for e in compared)

    def size(effect: LevelEffect) -> float:
        assert effect.against is not None
        ratio = effect.against.ratio
        if as_ratio and ratio is not None:
            return abs(math.log(ratio.estimate))
        return abs(effect.against.difference.estimate)

    return sorted(compared, key=size, reverse=True)


def answers(effects: Effects) -> list[tuple[str, str]]:
    """What was changed and what it did to the leading response, in words, the largest effect first.

    Of designs without levels: the factors with the largest Sobol index or rank coefficient, or the cases of a
    list in their order.
    """
    found = leading(effects)
    name = found.response.replace("_", " ")
    lines = []
    for e in ranked(found):
        assert e.against is not None
        what = f"{name}, {e.factor} {show_level(e.level)} for {show_level(e.reference)}"
        ratio = e.against.ratio
        if ratio is not None:
            lines.append((what, f"× {words(ratio)}"))
        else:
            lines.append((what, words(e.against.difference) + unit_of(found.response, " ")))
    for index in sorted((i for i in found.sobol if i.total), key=lambda i: -i.index.estimate):
        lines.append((f"{name}, share of variance by {index.factors[0]}", words(index.index)))
    for rank in sorted(found.ranks, key=lambda r: -abs(r.coefficient.estimate)):
        lines.append((f"{name}, rank coefficient of {rank.factor}", words(rank.coefficient)))
    for place, case in enumerate(found.ranking, 1):
        mean = words(case.mean) + unit_of(found.response, " ")
        lines.append((f"{name}, place {place}: {case.label}", mean))
    return lines or [(f"mean {name}", words(found.mean) + unit_of(found.response, " "))]

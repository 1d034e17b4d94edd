"""The short answer of a study: what each change does to the response that the question is about."""

from __future__ import annotations

import math

from smlab.validation.experiments.effects.page_rows import unit_of, words
from smlab.validation.experiments.effects.plots import show_level
from smlab.validation.experiments.effects.points import RATIOS
from smlab.validation.experiments.effects.results import Effects, LevelEffect, ResponseEffects


def leading(effects: Effects) -> ResponseEffects:
    """The response that the question is about: the speedup where there is one, else the first."""
    return next((r for r in effects.responses if r.response in RATIOS), effects.responses[0])


def ranked(found: ResponseEffects) -> list[LevelEffect]:
    """The levels that are compared with a reference, the largest effect first."""
    compared = [e for e in found.levels if e.against is not None]
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

    Of designs without levels: the factors with the largest Sobol index or rank coefficient.
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
    return lines or [(f"mean {name}", words(found.mean) + unit_of(found.response, " "))]

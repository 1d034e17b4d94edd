"""A fact of the case study, judged by code, and what the modules that state facts share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from smlab.validation.papers.histogram.point import CasePoint
from smlab.validation.papers.judging import PaperVerdict, verdict_of_cases

Values = Sequence[float]


@dataclass(frozen=True)
class Fact:
    """One fact: ``value`` in ``unit``, and the range ``low`` to ``high`` (None: open) that would confirm the
    ``claim``.

    It is about so many ``points``, and ``share`` of them lie in the range: all (``holds``), at least half
    (``holds in part``) or fewer, by the judge of all that papers say. ``value`` sums them up, as their mean
    unless ``detail`` says otherwise. ``source`` is the place in the paper.
    """

    name: str
    claim: str
    source: str
    value: float
    unit: str
    low: float | None
    high: float | None
    verdict: PaperVerdict
    points: int
    share: float
    detail: str

    @property
    def expected(self) -> str:
        """The range in words."""
        if self.low is None:
            return f"at most {self.high:g} {self.unit}"
        if self.high is None:
            return f"at least {self.low:g} {self.unit}"
        return f"{self.low:g} to {self.high:g} {self.unit}"


def mean(values: Values) -> float:
    return float(np.mean(values))


def geometric(values: Values) -> float:
    return float(np.exp(np.mean(np.log(values))))


class Judge:
    """Collects facts, each under ``prefix`` and its name."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        self.found: dict[str, Fact] = {}

    def say(
        self,
        name: str,
        claim: str,
        source: str,
        values: Iterable[float],
        unit: str,
        low: float | None = None,
        high: float | None = None,
        *,
        show: Callable[[Values], float] = mean,
        detail: str = "",
    ) -> None:
        """Judge ``values``, one for each point that the claim is about; without any, nothing is said."""
        values = list(values)
        if not values:
            return
        inside = [(low is None or v >= low) and (high is None or v <= high) for v in values]
        share = sum(inside) / len(inside)
        self.found[self.prefix + name] = Fact(
            name=self.prefix + name,
            claim=claim,
            source=source,
            value=show(values),
            unit=unit,
            low=low,
            high=high,
            verdict=verdict_of_cases(100 * share),
            points=len(values),
            share=share,
            detail=detail,
        )


def largest(points: Iterable[CasePoint]) -> list[CasePoint]:
    """Those of the largest size among them."""
    points = list(points)
    most = max((p.pixels for p in points), default=0)
    return [p for p in points if p.pixels == most]


def chosen(
    points: Iterable[CasePoint],
    image: str,
    variant: str | None = "original",
    op: str = "add",
    fewest_threads: int = 1,
) -> list[CasePoint]:
    """The points of one image, kernel (None: both) and instruction."""
    return [
        p
        for p in points
        if (p.image, p.op) == (image, op) and variant in (None, p.variant) and p.threads >= fewest_threads
    ]


def pairs(points: Iterable[CasePoint], **other: str) -> list[tuple[CasePoint, CasePoint]]:
    """Each point with the one that differs from it in these fields only, where that one is there and not
    itself."""
    of = {p.spec: p for p in points}
    found = ((p, of.get(replace(spec, **other))) for spec, p in of.items())  # type: ignore[arg-type]
    return [(p, q) for p, q in found if q is not None and q is not p]


def listed(values: Values, what: str = "") -> str:
    return what + ", ".join(f"{v:.1f}" for v in values)


def by_threads(points: Iterable[CasePoint], field: str = "utilization") -> str:
    """A percentage of each point, by kernel and threads."""
    return ", ".join(f"{p.variant} {p.threads}: {100 * getattr(p, field):.1f} %" for p in points)

"""What is found of a study's factors, as frozen results and as plain JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from smlab.hw_bench.errors import SmlabError
from smlab.validation.experiments.effects.factorial import Share
from smlab.validation.experiments.effects.paired import Paired
from smlab.validation.experiments.effects.points import MAX_LEVELS, Layout
from smlab.validation.experiments.effects.sensitivity import RankCoefficient, SobolIndex
from smlab.validation.method.statistics import Interval


@dataclass(frozen=True)
class LevelEffect:
    """One level of one factor: the mean response there, and against the factor's ``reference`` level by
    common replications.

    In a grid the response is averaged over the levels of the other factors, in a one-at-a-time design they
    stay at the base. Ratios to the reference are geometric means of ratios that are paired, by combination of
    the other factors and by replication; means of a response that is a ratio (`RATIOS`) are geometric too.
    ``against`` is None for the reference itself.
    """

    response: str
    factor: str
    level: Any
    reference: Any
    mean: Interval
    against: Paired | None


@dataclass(frozen=True)
class RankedCase:
    """A case of a listed design: its number, its settings by factor, and the mean response over its
    replications."""

    case: int
    settings: Mapping[str, Any]
    mean: Interval

    @property
    def label(self) -> str:
        """The settings in words."""
        return ", ".join(f"{name} = {value}" for name, value in self.settings.items())


@dataclass(frozen=True)
class ResponseEffects:
    """All that was found for one response. What a design does not give is empty.

    ``levels`` from a grid and a one-at-a-time design; ``shares`` of the variance from a grid; ``sobol``
    indices from a Saltelli design; ``ranks`` from a random one; the ``ranking`` of the cases of a listed one,
    the lowest response first (of a ratio, the highest). ``mean`` is over all points, its interval over the
    replications.
    """

    response: str
    mean: Interval
    levels: tuple[LevelEffect, ...]
    shares: tuple[Share, ...]
    sobol: tuple[SobolIndex, ...]
    ranks: tuple[RankCoefficient, ...]
    ranking: tuple[RankedCase, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Plain numbers; None where there is no interval, and only what the design gives."""
        return _response_json(self)

    def of(self, factor: str) -> tuple[LevelEffect, ...]:
        """The levels of one factor, in order."""
        return tuple(effect for effect in self.levels if effect.factor == factor)


@dataclass(frozen=True)
class Effects:
    """The effects of a study: its layout with the levels that occurred, a result for each response, and
    what was left out."""

    layout: Layout
    points: int
    replications: int
    responses: tuple[ResponseEffects, ...]
    notes: tuple[str, ...]

    def __getitem__(self, response: str) -> ResponseEffects:
        for found in self.responses:
            if found.response == response:
                return found
        raise SmlabError.at(
            f"study {self.layout.name}",
            "no such response",
            response,
            ", ".join(r.response for r in self.responses),
        )

    def as_json(self) -> dict[str, Any]:
        """Plain numbers for ``--json``; None where there is no interval."""
        return {
            "study": self.layout.name,
            "design": self.layout.design,
            "interval_level": self.layout.level,
            "points": self.points,
            "replications": self.replications,
            "factors": [
                {
                    "name": f.name,
                    "base": f.base,
                    "levels": list(f.levels) if len(f.levels) <= MAX_LEVELS else None,
                }
                for f in self.layout.factors
            ],
            "responses": {r.response: r.as_json() for r in self.responses},
            "notes": list(self.notes),
        }


def _interval_json(interval: Interval | None) -> dict[str, Any] | None:
    if interval is None:
        return None

    def finite(x: float) -> float | None:
        return x if math.isfinite(x) else None

    return {
        "estimate": finite(interval.estimate),
        "low": finite(interval.low),
        "high": finite(interval.high),
        "count": interval.count,
    }


def _response_json(effects: ResponseEffects) -> dict[str, Any]:
    """What `ResponseEffects.as_json` gives."""
    out: dict[str, Any] = {"mean": _interval_json(effects.mean)}
    if effects.levels:
        out["levels"] = [
            {
                "factor": e.factor,
                "level": e.level,
                "reference": e.reference,
                "mean": _interval_json(e.mean),
                "difference": _interval_json(e.against.difference) if e.against else None,
                "ratio": _interval_json(e.against.ratio) if e.against else None,
                "variance_reduction": _interval_json(e.against.variance_reduction) if e.against else None,
            }
            for e in effects.levels
        ]
    if effects.shares:
        out["variance_shares"] = [
            {"factors": list(s.factors), "share": _interval_json(s.share)} for s in effects.shares
        ]
    if effects.sobol:
        out["sobol"] = [
            {"factors": list(i.factors), "index": _interval_json(i.index), "total": _interval_json(i.total)}
            for i in effects.sobol
        ]
    if effects.ranking:
        out["ranking"] = [
            {"case": c.case, "settings": dict(c.settings), "mean": _interval_json(c.mean)}
            for c in effects.ranking
        ]
    if effects.ranks:
        out["rank_coefficients"] = [
            {"factor": r.factor, "coefficient": _interval_json(r.coefficient), "r_squared": r.r_squared}
            for r in effects.ranks
        ]
    return out

"""Effects as plain numbers for ``--json``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from smlab.validation.method.statistics import Interval

if TYPE_CHECKING:  # the effects import this module
    from smlab.validation.experiments.effects.effects import ResponseEffects


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


def response_json(effects: ResponseEffects) -> dict[str, Any]:
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
    if effects.ranks:
        out["rank_coefficients"] = [
            {"factor": r.factor, "coefficient": _interval_json(r.coefficient), "r_squared": r.r_squared}
            for r in effects.ranks
        ]
    return out

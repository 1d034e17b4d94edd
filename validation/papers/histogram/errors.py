"""The estimators of the case study against the exact utilization, over all its points and over parts of
them."""

from __future__ import annotations

from collections.abc import Sequence

from smlab.validation.method.metrics import PointErrors, points_table
from smlab.validation.papers.histogram.images import PAPERS
from smlab.validation.papers.histogram.point import CasePoint

ESTIMATORS = {
    "Dong & Pai, e = wavefronts": "utilization_occupancy",
    "Dong & Pai, e = active lanes": "utilization_occupancy_lanes",
    "closed network": "utilization_closed",
    "middle of the bounds": "utilization_middle",
}
"""By the name in reports, the field of `CasePoint` with the estimate. The last is the trivial baseline."""


def errors(points: Sequence[CasePoint], seed: int = 0) -> dict[str, PointErrors]:
    """A row for each estimator over these points, in percentage points of utilization."""
    exact = [p.utilization for p in points]
    return {
        name: points_table([getattr(p, field) for p in points], exact, seed=seed)
        for name, field in ESTIMATORS.items()
    }


def parts(points: Sequence[CasePoint]) -> dict[str, list[CasePoint]]:
    """The points by what makes estimates hard; only parts that have points."""
    own = [p for p in points if p.image in PAPERS]
    found = {
        "the paper's images": own,
        "solid, ADD": [p for p in own if p.image == "solid" and p.op == "add"],
        "uniform, ADD": [p for p in own if p.image == "uniform" and p.op == "add"],
        "POPC.INC": [p for p in own if p.op == "popc-inc"],
        "exact 95 % and more": [p for p in own if p.utilization >= 0.95],
        "exact 20 to 95 %": [p for p in own if 0.2 <= p.utilization < 0.95],
        "exact under 20 %": [p for p in own if p.utilization < 0.2],
        "images between": [p for p in points if p.image not in PAPERS],
    }
    return {name: chosen for name, chosen in found.items() if chosen}

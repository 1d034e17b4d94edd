"""Facts about what reordering channels brings, and about POPC.INC against ADD."""

from __future__ import annotations

import math
from collections.abc import Sequence

from smlab.validation.papers.histogram.fact import Judge, chosen, largest, listed, pairs
from smlab.validation.papers.histogram.images import PAPERS, SOLIDS
from smlab.validation.papers.histogram.point import CasePoint

FIGURE = "Section 4.1, Figure 5"


def _gains(points: Sequence[CasePoint], image: str, op: str, low: int = 1, high: int = 1024) -> list[float]:
    """Gains of the reordered kernel at the image's largest size, in %, from few threads to many."""
    moved = [p for p in chosen(points, image, "reordered", op) if not math.isnan(p.speedup)]
    ends = sorted(largest(moved), key=lambda p: p.threads)
    return [100 * (p.speedup - 1) for p in ends if low <= p.threads <= high]


def gains(judge: Judge, points: Sequence[CasePoint]) -> None:
    for image, colour in SOLIDS.items():
        values = _gains(points, image, "add", 512)
        claim = f"reordering gains near 30 % on a solid image of {colour} from 512 threads"
        detail = listed(values, "from few threads to many: ")
        judge.say(f"reorder-gain-{image}", claim, FIGURE, values, "%", 20, 40, detail=detail)
    values = _gains(points, "solid-opaque", "add", high=511)
    claim = "with fewer than 512 threads reordering gains clearly less than 30 %"
    detail = listed(values, "solid-opaque, the most of, from few threads to many: ")
    judge.say("reorder-needs-512", claim, FIGURE, values, "%", high=20, show=max, detail=detail)
    values = _gains(points, "uniform", "add")
    detail = listed(values, "from few threads to many: ")
    judge.say(
        "reorder-slows-random",
        "reordering slows random images down",
        FIGURE,
        values,
        "%",
        high=0,
        detail=detail,
    )
    for name, image, op in (("add", "solid-opaque", "add"), ("popc", "solid", "popc-inc")):
        own = largest(chosen(points, image, None, op, 256))
        lost = [
            100 * (p.utilization - q.utilization)
            for p, q in pairs(own, variant="reordered")
            if p.variant == "original"
        ]
        judge.say(
            f"reorder-lowers-utilization-{name}",
            f"reordering lowers the utilization ({image} images)",
            "Section 4.1, Figure 4",
            lost,
            "points",
            0,
            detail=listed(lost, "exact, from 256 threads: "),
        )


def merging(judge: Judge, points: Sequence[CasePoint]) -> None:
    """POPC.INC, which merges the lanes on one word, against ADD."""
    counting = largest(chosen(points, "solid", "original", "popc-inc", 256))
    both = pairs([*counting, *chosen(points, "solid", "original", "add", 256)], op="add")
    both = [(p, q) for p, q in both if p.op == "popc-inc"]
    source = "Section 4.1, Figure 4"
    lowered = [100 * (q.utilization - p.utilization) for p, q in both]
    judge.say(
        "popc-lowers-utilization",
        "POPC.INC lowers the utilization clearly where ADD saturates",
        source,
        [sum(lowered) / len(lowered)] if lowered else [],
        "points",
        10,
        detail=listed(lowered, "exact, mean over 256 threads and more: "),
    )
    estimated = [100 * p.utilization_occupancy for p, _ in both]
    detail = listed(estimated, "from 256 threads: ")
    claim = "POPC.INC lowers the estimate to about 50 % on solid images"
    judge.say("popc-near-50", claim, source, estimated, "%", 40, 60, detail=detail)
    estimated = [100 * q.utilization_occupancy for _, q in both]
    detail = listed(estimated, "from 256 threads: ")
    claim = "ADD keeps the estimate near 100 % on solid images"
    judge.say("add-near-100", claim, source, estimated, "%", 90, 110, detail=detail)
    slowed = [gain for image in PAPERS for gain in _gains(points, image, "popc-inc")]
    detail = listed(slowed, "solid, then uniform, from few threads to many: ")
    claim = "with POPC.INC, reordering slows both kinds of images down"
    judge.say("reorder-slows-popc", claim, FIGURE, slowed, "%", high=0, detail=detail)

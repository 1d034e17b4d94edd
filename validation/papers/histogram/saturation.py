"""Facts about how busy the unit is: saturation, estimates beyond 100 %, image against image, block sizes,
errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from smlab.validation.papers.histogram.fact import (
    Judge,
    by_threads,
    chosen,
    geometric,
    largest,
    listed,
    pairs,
)
from smlab.validation.papers.histogram.images import PAPERS
from smlab.validation.papers.histogram.point import CasePoint

FULL_PERCENT: Final = 95.0
OVER: Final = 100 + 1e-9
SATURATED_FROM: Final = 256
"""Threads from which on the paper's solid images saturate the unit."""
BEND: Final = 2**20
"""Pixels near which the paper sees utilization drop."""


def saturation(judge: Judge, points: Sequence[CasePoint]) -> None:
    busy = largest(chosen(points, "solid", None, fewest_threads=SATURATED_FROM))
    judge.say(
        "solid-saturates",
        "solid images saturate the unit",
        "Section 4.1, Figures 3 and 4",
        [100 * p.utilization for p in busy],
        "%",
        FULL_PERCENT,
        show=min,
        detail="exact, the least of: " + by_threads(busy),
    )
    idle = largest(chosen(points, "uniform", None, fewest_threads=SATURATED_FROM))
    judge.say(
        "random-does-not-saturate",
        "random images do not saturate the unit",
        "Section 4.1",
        [100 * p.utilization for p in idle],
        "%",
        high=FULL_PERCENT,
        show=max,
        detail="exact, the most of: " + by_threads(idle),
    )
    random = chosen(points, "uniform")
    for name, field, which in (
        ("random-peak", "utilization_occupancy", "estimate"),
        ("random-peak-exact", "utilization", "exact utilization"),
    ):
        if random:
            top = max(random, key=lambda p, field=field: getattr(p, field))  # type: ignore[misc]
            at = (
                f"at {top.pixels:,} pixels and {top.threads} threads; exact there "
                f"{100 * top.utilization:.0f} %"
            )
            claim = f"the {which} peaks around 76 % for random images"
            value = 100 * getattr(top, field)
            judge.say(name, claim, "Section 4.1, Figure 3", [value], "%", 66, 86, detail=at)
    ends = largest(random)
    judge.say(
        "lanes-within-110",
        "with e as active threads the estimate stays near what can be",
        "Table 2",
        [100 * p.utilization_occupancy_lanes for p in ends],
        "%",
        high=110,
        show=max,
        detail="random images, the most of: " + by_threads(ends, "utilization_occupancy_lanes"),
    )


def beyond(judge: Judge, points: Sequence[CasePoint]) -> None:
    """What exceeds 100 % on solid images."""
    own = chosen(points, "solid", None)
    for name, field, claim, low, high in (
        ("occupancy-over-100", "utilization_occupancy", "the estimate exceeds 100 % on some", OVER, None),
        ("exact-within-100", "utilization", "the true utilization never exceeds 100 %", None, OVER),
        ("closed-within-100", "utilization_closed", "the closed network never exceeds 100 %", None, OVER),
    ):
        values = [100 * getattr(p, field) for p in own]
        over = f"the most; {sum(v > OVER for v in values)} of {len(values)} points over 100 %"
        claim = f"on solid images, {claim}"
        judge.say(name, claim, "Section 4.1", [max(values)] if values else [], "%", low, high, detail=over)


def image_against_image(judge: Judge, points: Sequence[CasePoint]) -> None:
    both = [(p, q) for p, q in pairs(points, image="uniform") if p.image == "solid"]
    apart = [100 * abs(p.jobs / q.jobs - 1) for p, q in both]
    claim = "both images execute the same number of atomic instructions"
    judge.say("same-jobs", claim, "Section 4.1", apart, "% apart", high=0)
    most = max((p.pixels for p, _ in both), default=0)
    n = [p.n_busy_mean / q.n_busy_mean for p, q in both if (p.pixels, p.op) == (most, "add")]
    judge.say(
        "same-n",
        "both images have the same parallelism n",
        "Section 4.1",
        n,
        "x",
        0.9,
        1.1,
        show=geometric,
        detail="true jobs in the unit while busy, solid over uniform, largest size: " + listed(n),
    )
    judge.say(
        "n-overestimated",
        "mean active warps overestimate n",
        "Section 4.1",
        [p.warps / p.n_busy_mean for pair in both for p in pair],
        "x",
        1,
        show=geometric,
        detail="resident warps over true jobs in the unit while busy, geometric mean; a warp can have four",
    )


def block_sizes(judge: Judge, points: Sequence[CasePoint]) -> None:
    rows: dict[tuple[str, int], dict[int, float]] = {}
    for p in points:
        if p.image in PAPERS and (p.variant, p.op) == ("original", "add"):
            rows.setdefault((p.image, p.pixels), {})[p.threads] = 100 * p.utilization
    steps = [
        row[b] - row[a]
        for (_, pixels), row in rows.items()
        if pixels >= 2**16
        for a, b in ((32, 64), (64, 256), (256, 1024))
        if a in row and b in row
    ]
    judge.say(
        "fewer-threads-underutilize",
        "at one image size, fewer threads usually underutilize the unit",
        "Section 4.1",
        steps,
        "points",
        0,
        detail="exact, each step to more threads but 512, from 2^16 pixels",
    )
    with_both = [key for key, row in rows.items() if 256 in row and 512 in row]
    ends = {name: max(pixels for n, pixels in with_both if n == name) for name, _ in with_both}
    odd = [rows[key][512] - rows[key][256] for key in ends.items()]
    judge.say(
        "512-threads-exception",
        "512 threads are an exception: less busy than with 256",
        "Section 4.1",
        odd,
        "points",
        high=0,
        detail="exact, 512 less 256 threads, largest size: " + listed(odd),
    )
    lost: dict[str, list[float]] = {"most": [], "fewer": []}
    said = []
    for name in PAPERS:
        for threads, before in sorted(rows.get((name, BEND), {}).items()):
            above = [
                row[threads]
                for (n, size), row in rows.items()
                if n == name and size > BEND and threads in row
            ]
            if above:
                lost["most" if threads == 1024 else "fewer"].append(before - min(above))
                said.append(f"{name} {threads}: {before - min(above):.1f}")
    detail = "the most of the points lost above 2^20 pixels: " + ", ".join(said)
    claim = "utilization drops near 2^20 pixels with 1,024 threads"
    judge.say(
        "drop-near-2-20-at-1024", claim, "Section 4.1", lost["most"], "points", 2, show=max, detail=detail
    )
    claim = "it does not drop there with fewer threads"
    judge.say(
        "no-drop-below-1024", claim, "Section 4.1", lost["fewer"], "points", high=2, show=max, detail=detail
    )


def shift(judge: Judge, points: Sequence[CasePoint]) -> None:
    """Whether waiting for memory takes over from waiting for the unit on images beyond the bend."""
    beyond_it = [
        p
        for p in points
        if p.image in PAPERS and (p.variant, p.op, p.threads) == ("original", "add", 1024) and p.pixels > BEND
    ]
    judge.say(
        "shift-to-memory",
        "beyond 2^20 pixels, 1,024 threads wait for global memory more than for the unit",
        "Section 4.1",
        [100 * (p.memory_wait - p.atomic_wait) for p in beyond_it],
        "points",
        0,
        detail="share of the warps' time in long_scoreboard less that in mio_throttle and short_scoreboard: "
        + ", ".join(f"{p.image} {100 * (p.memory_wait - p.atomic_wait):.1f}" for p in beyond_it),
    )


def errors_of_estimators(judge: Judge, points: Sequence[CasePoint]) -> None:
    own = [p for p in points if p.image in PAPERS]
    off = {
        name: [100 * abs(getattr(p, f"utilization_{name}") - p.utilization) for p in own]
        for name in ("occupancy", "closed", "middle")
    }
    said = {
        "occupancy": "the paper's estimate",
        "closed": "the closed network's",
        "middle": "a guess without a model",
    }
    for name, values in off.items():
        claim = f"{said[name]} is within 10 points of the exact utilization"
        judge.say(f"error-{name}", claim, "no figure in the paper", values, "points", high=10)
    if own:
        each = {name: float(np.mean(values)) for name, values in off.items()}
        judge.say(
            "closed-nearer-than-occupancy",
            "the closed network is nearer than the paper's estimate",
            "no figure in the paper",
            [each["occupancy"] - each["closed"]],
            "points",
            0,
            detail="mean errors: " + ", ".join(f"{name} {value:.1f}" for name, value in each.items()),
        )

"""What the case study shows, fact by fact, each judged by code against the range that would confirm the
paper's statement.

`facts(points_by_gpu)` gives a `Fact` for each row of ``facts.csv`` whose points are there. Rows ``e-*``
depend on no GPU: they are meanings that e, the passes over the banks a job, could have. All others are named
``GPU.NAME``. "Estimate" is the paper's, with e as passes; "true" is what the simulator counts.

Nothing here is fitted to anything. Ranges are the paper's words made into numbers: "about 3" is what
rounds to 3, "near 30 %" is 20 to 40 %, "near 50 %" 40 to 60 %, "around 76 %" 66 to 86 %, "fully utilized"
95 % and more.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from smlab.sim.address_patterns import lanes_on_fullest_bank, words_on_fullest_bank
from smlab.sim.workloads.histogram import LANES, uniform_image
from smlab.validation.papers.histogram.images import PAPERS, SOLIDS
from smlab.validation.papers.histogram.study import CasePoint
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


@dataclass(frozen=True)
class Statement:
    """A statement of the paper: where it stands, and the range, in ``unit``, that would confirm it."""

    name: str
    claim: str
    source: str
    unit: str
    low: float | None
    high: float | None


def _statements() -> dict[str, Statement]:
    """The rows of ``facts.csv`` by name; an empty bound is open."""
    text = Path(__file__).with_name("facts.csv").read_text(encoding="utf-8")
    found = {}
    for row in csv.DictReader(text.splitlines()):
        low, high = (float(row[end]) if row[end] else None for end in ("low", "high"))
        found[row["name"]] = Statement(row["name"], row["claim"], row["source"], row["unit"], low, high)
    return found


STATEMENTS: Final = _statements()


class Judge:
    """Collects facts, each under ``prefix`` and its name."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        self.found: dict[str, Fact] = {}

    def say(
        self, name: str, values: Iterable[float], *, show: Callable[[Values], float] = mean, detail: str = ""
    ) -> None:
        """Judge the statement ``name`` by ``values``, one for each point that it is about; without any,
        nothing is said."""
        values = list(values)
        if not values:
            return
        told = STATEMENTS[name]
        low, high = told.low, told.high
        inside = [(low is None or v >= low) and (high is None or v <= high) for v in values]
        share = sum(inside) / len(inside)
        self.found[self.prefix + told.name] = Fact(
            name=self.prefix + told.name,
            claim=told.claim,
            source=told.source,
            value=show(values),
            unit=told.unit,
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


BANKS: Final = 32
PIXELS: Final = 2**18
SAID: Final = {
    "passes": "lanes on the fullest bank",
    "lanes": "active lanes",
    "conflicts": "bank conflicts, passes less one",
    "one-word": "most lanes on one word",
    "words": "distinct words on the fullest bank",
    "greater": "the greater of lanes on one word and words on one bank",
}
"""The readings, by name. The simulator's atomics make ``passes`` passes."""
SOLID: Final = {"passes": 32, "lanes": 32, "conflicts": 31, "one-word": 32, "words": 1, "greater": 32}
"""Each on a solid image."""


def on_random_bytes() -> dict[str, float]:
    """Each reading's mean over warps of 32 uniformly random bytes, counted in 256 bins."""
    values = uniform_image(PIXELS)[:, 0].reshape(-1, LANES).astype(np.int64)
    one_word = _lanes_on_one_word(values)
    words, passes = words_on_fullest_bank(values, BANKS), lanes_on_fullest_bank(values, BANKS)
    return {
        "passes": float(passes.mean()),
        "lanes": float(LANES),
        "conflicts": float(passes.mean() - 1),
        "one-word": float(one_word.mean()),
        "words": float(words.mean()),
        "greater": float(np.maximum(one_word, words).mean()),
    }


def readings_of_e(judge: Judge) -> None:
    """Which reading gives the paper's 32 and about 3."""
    random = on_random_bytes()
    judge.say("e-solid", [SOLID["passes"]])
    for name, value in random.items():
        own = "e-random" if name == "passes" else f"e-random-{name}"
        judge.say(own, [value])
    off = {
        name: math.exp(max(abs(math.log(SOLID[name] / 32)), abs(math.log(random[name] / 3))))
        for name in random
    }
    nearest = min(off, key=lambda name: off[name])
    each = ", ".join(f"{SAID[name]}: {SOLID[name]:g} and {random[name]:.2f}" for name in random)
    judge.say(
        "e-reading",
        [off["lanes"]],
        detail=f"nearest to both: {SAID[nearest]} ({off[nearest]:.2f} x off). Solid and random: {each}",
    )


def _lanes_on_one_word(words: NDArray[np.int64]) -> NDArray[np.int64]:
    """The most lanes that ask one word, ``(rows,)``."""
    ordered = np.sort(words, axis=1)
    run, most = np.ones(len(words), dtype=np.int64), np.ones(len(words), dtype=np.int64)
    for lane in range(1, words.shape[1]):
        run = np.where(ordered[:, lane] == ordered[:, lane - 1], run + 1, 1)
        most = np.maximum(most, run)
    return most


def _gains(points: Sequence[CasePoint], image: str, op: str, low: int = 1, high: int = 1024) -> list[float]:
    """Gains of the reordered kernel at the image's largest size, in %, from few threads to many."""
    moved = [p for p in chosen(points, image, "reordered", op) if not math.isnan(p.speedup)]
    ends = sorted(largest(moved), key=lambda p: p.threads)
    return [100 * (p.speedup - 1) for p in ends if low <= p.threads <= high]


def gains(judge: Judge, points: Sequence[CasePoint]) -> None:
    for image in SOLIDS:
        values = _gains(points, image, "add", 512)
        detail = listed(values, "from few threads to many: ")
        judge.say(f"reorder-gain-{image}", values, detail=detail)
    values = _gains(points, "solid-opaque", "add", high=511)
    detail = listed(values, "solid-opaque, the most of, from few threads to many: ")
    judge.say("reorder-needs-512", values, show=max, detail=detail)
    values = _gains(points, "uniform", "add")
    detail = listed(values, "from few threads to many: ")
    judge.say("reorder-slows-random", values, detail=detail)
    for name, image, op in (("add", "solid-opaque", "add"), ("popc", "solid", "popc-inc")):
        own = largest(chosen(points, image, None, op, 256))
        lost = [
            100 * (p.utilization - q.utilization)
            for p, q in pairs(own, variant="reordered")
            if p.variant == "original"
        ]
        judge.say(
            f"reorder-lowers-utilization-{name}", lost, detail=listed(lost, "exact, from 256 threads: ")
        )


def merging(judge: Judge, points: Sequence[CasePoint]) -> None:
    """POPC.INC, which merges the lanes on one word, against ADD."""
    counting = largest(chosen(points, "solid", "original", "popc-inc", 256))
    both = pairs([*counting, *chosen(points, "solid", "original", "add", 256)], op="add")
    both = [(p, q) for p, q in both if p.op == "popc-inc"]
    lowered = [100 * (q.utilization - p.utilization) for p, q in both]
    judge.say(
        "popc-lowers-utilization",
        [sum(lowered) / len(lowered)] if lowered else [],
        detail=listed(lowered, "exact, mean over 256 threads and more: "),
    )
    estimated = [100 * p.utilization_occupancy for p, _ in both]
    detail = listed(estimated, "from 256 threads: ")
    judge.say("popc-near-50", estimated, detail=detail)
    estimated = [100 * q.utilization_occupancy for _, q in both]
    detail = listed(estimated, "from 256 threads: ")
    judge.say("add-near-100", estimated, detail=detail)
    slowed = [gain for image in PAPERS for gain in _gains(points, image, "popc-inc")]
    detail = listed(slowed, "solid, then uniform, from few threads to many: ")
    judge.say("reorder-slows-popc", slowed, detail=detail)


OVER: Final = 100 + 1e-9
SATURATED_FROM: Final = 256
"""Threads from which on the paper's solid images saturate the unit."""
BEND: Final = 2**20
"""Pixels near which the paper sees utilization drop."""


def saturation(judge: Judge, points: Sequence[CasePoint]) -> None:
    busy = largest(chosen(points, "solid", None, fewest_threads=SATURATED_FROM))
    judge.say(
        "solid-saturates",
        [100 * p.utilization for p in busy],
        show=min,
        detail="exact, the least of: " + by_threads(busy),
    )
    idle = largest(chosen(points, "uniform", None, fewest_threads=SATURATED_FROM))
    judge.say(
        "random-does-not-saturate",
        [100 * p.utilization for p in idle],
        show=max,
        detail="exact, the most of: " + by_threads(idle),
    )
    random = chosen(points, "uniform")
    for name, field in (("random-peak", "utilization_occupancy"), ("random-peak-exact", "utilization")):
        if random:
            top = max(random, key=lambda p, field=field: getattr(p, field))  # type: ignore[misc]
            at = (
                f"at {top.pixels:,} pixels and {top.threads} threads; exact there "
                f"{100 * top.utilization:.0f} %"
            )
            value = 100 * getattr(top, field)
            judge.say(name, [value], detail=at)
    ends = largest(random)
    judge.say(
        "lanes-within-110",
        [100 * p.utilization_occupancy_lanes for p in ends],
        show=max,
        detail="random images, the most of: " + by_threads(ends, "utilization_occupancy_lanes"),
    )


def beyond(judge: Judge, points: Sequence[CasePoint]) -> None:
    """What exceeds 100 % on solid images."""
    own = chosen(points, "solid", None)
    for name, field in (
        ("occupancy-over-100", "utilization_occupancy"),
        ("exact-within-100", "utilization"),
        ("closed-within-100", "utilization_closed"),
    ):
        values = [100 * getattr(p, field) for p in own]
        over = f"the most; {sum(v > OVER for v in values)} of {len(values)} points over 100 %"
        judge.say(name, [max(values)] if values else [], detail=over)


def image_against_image(judge: Judge, points: Sequence[CasePoint]) -> None:
    both = [(p, q) for p, q in pairs(points, image="uniform") if p.image == "solid"]
    differences = [100 * abs(p.jobs / q.jobs - 1) for p, q in both]
    judge.say("same-jobs", differences)
    most = max((p.pixels for p, _ in both), default=0)
    n = [p.n_busy_mean / q.n_busy_mean for p, q in both if (p.pixels, p.op) == (most, "add")]
    judge.say(
        "same-n",
        n,
        show=geometric,
        detail="true jobs in the unit while busy, solid over uniform, largest size: " + listed(n),
    )
    judge.say(
        "n-overestimated",
        [p.warps / p.n_busy_mean for pair in both for p in pair],
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
        steps,
        detail="exact, each step to more threads but 512, from 2^16 pixels",
    )
    with_both = [key for key, row in rows.items() if 256 in row and 512 in row]
    ends = {name: max(pixels for n, pixels in with_both if n == name) for name, _ in with_both}
    odd = [rows[key][512] - rows[key][256] for key in ends.items()]
    judge.say(
        "512-threads-exception", odd, detail="exact, 512 less 256 threads, largest size: " + listed(odd)
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
    judge.say("drop-near-2-20-at-1024", lost["most"], show=max, detail=detail)
    judge.say("no-drop-below-1024", lost["fewer"], show=max, detail=detail)


def shift(judge: Judge, points: Sequence[CasePoint]) -> None:
    """Whether waiting for memory takes over from waiting for the unit on images beyond the bend."""
    beyond_it = [
        p
        for p in points
        if p.image in PAPERS and (p.variant, p.op, p.threads) == ("original", "add", 1024) and p.pixels > BEND
    ]
    judge.say(
        "shift-to-memory",
        [100 * (p.memory_wait - p.atomic_wait) for p in beyond_it],
        detail="share of the warps' time in long_scoreboard less that in mio_throttle and short_scoreboard: "
        + ", ".join(f"{p.image} {100 * (p.memory_wait - p.atomic_wait):.1f}" for p in beyond_it),
    )


def errors_of_estimators(judge: Judge, points: Sequence[CasePoint]) -> None:
    own = [p for p in points if p.image in PAPERS]
    off = {
        name: [100 * abs(getattr(p, f"utilization_{name}") - p.utilization) for p in own]
        for name in ("occupancy", "closed", "middle")
    }
    for name, values in off.items():
        judge.say(f"error-{name}", values)
    if own:
        each = {name: float(np.mean(values)) for name, values in off.items()}
        judge.say(
            "closed-nearer-than-occupancy",
            [each["occupancy"] - each["closed"]],
            detail="mean errors: " + ", ".join(f"{name} {value:.1f}" for name, value in each.items()),
        )


__all__ = ["MUST_HOLD", "Fact", "facts", "shape"]

MUST_HOLD: Final = (
    "solid-saturates",
    "random-does-not-saturate",
    "occupancy-over-100",
    "exact-within-100",
    "popc-lowers-utilization",
)
"""The shape that the study is asked to show; everything else comes out as it comes out."""

SAID_OF: Final[Mapping[str, str]] = {"occupancy-over-100": "titan-v"}
"""Of these, what the paper says of one GPU alone: with Figure 3, that estimates exceed 100 %; of the A6000,
that ATOMS.ADD keeps them near 100 %."""

IN_PART: Final[Mapping[str, str | None]] = {"random-does-not-saturate": None, "solid-saturates": "a6000"}
"""What may hold in part, on every GPU or one: with 512 threads and code this lean, large random images do
saturate the Titan V's unit. That large solid images utilise the unit fully is said with Figure 3 as well; on
the A6000, 256 threads keep it busy for 79 to 85 % of the time, by what the evidence leaves open, and 1,024
for 97."""


def shape(facts: Mapping[str, Fact]) -> dict[str, bool]:
    """Whether each of the facts that must hold does, by name."""
    verdicts = {}
    for name, f in facts.items():
        gpu, _, own = name.rpartition(".")
        if own not in MUST_HOLD or SAID_OF.get(own, gpu) != gpu:
            continue
        in_part = own in IN_PART and IN_PART[own] in (None, gpu)
        verdicts[name] = f.verdict == "holds" or (in_part and f.verdict == "holds in part")
    return verdicts


_OF_A_GPU = (
    saturation,
    beyond,
    image_against_image,
    block_sizes,
    shift,
    gains,
    merging,
    errors_of_estimators,
)


def facts(points_by_gpu: Mapping[str, Sequence[CasePoint]]) -> dict[str, Fact]:
    """All facts that the points allow, by name; see the module's text for the names. Points need their
    speedups."""
    general = Judge()
    readings_of_e(general)
    found = dict(general.found)
    for gpu, points in points_by_gpu.items():
        judge = Judge(f"{gpu}.")
        for state in _OF_A_GPU:
            state(judge, points)
        found |= judge.found
    return found

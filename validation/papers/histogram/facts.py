"""What the case study shows, fact by fact, each judged by code against the range that would confirm the
paper's statement.

`facts(points_by_gpu)` gives a `Fact` under each of these names. The first group depends on no GPU:

- ``e-solid``, ``e-random``: passes over the banks a job, for solid and uniform images (the paper: 32 and
  about 3);
- ``e-random-lanes`` (active lanes a job), ``e-random-conflicts`` (passes less one), ``e-random-one-word``
  (most lanes on one word), ``e-random-words`` (distinct words on the fullest bank), ``e-random-greater``
  (the greater of the last two): other readings of e for uniform images; ``e-reading``: how far off active
  lanes are, and which reading lies nearest to both figures.

The others are named ``GPU.NAME`` for each GPU whose points hold what is needed (a fact without its points
is left out):

- ``solid-saturates``, ``random-does-not-saturate``: exact utilization at the largest size, from 256
  threads;
- ``random-peak``, ``random-peak-exact``: the highest utilization of any uniform image, estimated as the
  paper does, and exact;
- ``lanes-within-110``: the paper's estimate with e as active lanes, uniform images at the largest size;
- ``occupancy-over-100``, ``exact-within-100``, ``closed-within-100``: the highest utilization on solid
  images;
- ``same-jobs``, ``same-n``: solid against uniform image at the same launch: jobs, and true jobs in the unit
  while busy;
- ``n-overestimated``: resident warps over the true number of jobs in the unit;
- ``fewer-threads-underutilize``, ``512-threads-exception``: how utilization goes with the block size;
- ``drop-near-2-20-at-1024``, ``no-drop-below-1024``: points lost from 2^20 pixels to the sizes above;
- ``shift-to-memory``: with 1,024 threads beyond 2^20 pixels, share of the warps' time waiting for memory
  less that waiting for the unit;
- ``reorder-gain-IMAGE`` for solid, solid-opaque, solid-two, solid-coloured: gain of the reordered kernel
  with ADD from 512 threads at the largest size; ``reorder-needs-512``: what fewer threads gain on
  solid-opaque; ``reorder-slows-random``;
- ``reorder-lowers-utilization-add`` (solid-opaque), ``reorder-lowers-utilization-popc`` (solid): exact
  points lost;
- with POPC.INC: ``popc-lowers-utilization``, ``popc-near-50``, ``add-near-100``, ``reorder-slows-popc``;
- ``error-occupancy``, ``error-closed``, ``error-middle``: mean absolute error in points over all points of
  the paper's two images; ``closed-nearer-than-occupancy``.

Nothing here is fitted to anything. Ranges are the paper's words made into numbers: "about 3" is what
rounds to 3, "near 30 %" is 20 to 40 %, "near 50 %" 40 to 60 %, "around 76 %" 66 to 86 %, "fully utilized"
95 % and more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
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
    low: float | None = None
    high: float | None = None


class Judge:
    """Collects facts, each under ``prefix`` and its name."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        self.found: dict[str, Fact] = {}

    def say(
        self,
        told: Statement,
        values: Iterable[float],
        *,
        show: Callable[[Values], float] = mean,
        detail: str = "",
    ) -> None:
        """Judge ``values``, one for each point that the claim is about; without any, nothing is said."""
        values = list(values)
        if not values:
            return
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


def on_random_bytes(pixels: int = PIXELS) -> dict[str, float]:
    """Each reading's mean over warps of 32 uniformly random bytes, counted in 256 bins."""
    values = uniform_image(pixels)[:, 0].reshape(-1, LANES).astype(np.int64)
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
    random, source = on_random_bytes(), "Section 4.1"
    judge.say(
        Statement("e-solid", "e is 32 for solid images", source, "passes", low=32, high=32), [SOLID["passes"]]
    )
    for name, value in random.items():
        own = "e-random" if name == "passes" else f"e-random-{name}"
        claim = f"e is about 3 for random images, if e is {SAID[name]}"
        judge.say(Statement(own, claim, source, "a job", low=2.5, high=3.5), [value])
    off = {
        name: math.exp(max(abs(math.log(SOLID[name] / 32)), abs(math.log(random[name] / 3))))
        for name in random
    }
    nearest = min(off, key=lambda name: off[name])
    each = ", ".join(f"{SAID[name]}: {SOLID[name]:g} and {random[name]:.2f}" for name in random)
    judge.say(
        Statement(
            "e-reading",
            "e as Table 2 puts it, active threads a job, gives the 32 and 3 of Section 4.1",
            "Table 2, Section 4.1",
            "x off",
            low=1,
            high=1.2,
        ),
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
        judge.say(
            Statement(f"reorder-gain-{image}", claim, FIGURE, "%", low=20, high=40), values, detail=detail
        )
    values = _gains(points, "solid-opaque", "add", high=511)
    claim = "with fewer than 512 threads reordering gains clearly less than 30 %"
    detail = listed(values, "solid-opaque, the most of, from few threads to many: ")
    judge.say(Statement("reorder-needs-512", claim, FIGURE, "%", high=20), values, show=max, detail=detail)
    values = _gains(points, "uniform", "add")
    detail = listed(values, "from few threads to many: ")
    judge.say(
        Statement("reorder-slows-random", "reordering slows random images down", FIGURE, "%", high=0),
        values,
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
            Statement(
                f"reorder-lowers-utilization-{name}",
                f"reordering lowers the utilization ({image} images)",
                "Section 4.1, Figure 4",
                "points",
                low=0,
            ),
            lost,
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
        Statement(
            "popc-lowers-utilization",
            "POPC.INC lowers the utilization clearly where ADD saturates",
            source,
            "points",
            low=10,
        ),
        [sum(lowered) / len(lowered)] if lowered else [],
        detail=listed(lowered, "exact, mean over 256 threads and more: "),
    )
    estimated = [100 * p.utilization_occupancy for p, _ in both]
    detail = listed(estimated, "from 256 threads: ")
    claim = "POPC.INC lowers the estimate to about 50 % on solid images"
    judge.say(Statement("popc-near-50", claim, source, "%", low=40, high=60), estimated, detail=detail)
    estimated = [100 * q.utilization_occupancy for _, q in both]
    detail = listed(estimated, "from 256 threads: ")
    claim = "ADD keeps the estimate near 100 % on solid images"
    judge.say(Statement("add-near-100", claim, source, "%", low=90, high=110), estimated, detail=detail)
    slowed = [gain for image in PAPERS for gain in _gains(points, image, "popc-inc")]
    detail = listed(slowed, "solid, then uniform, from few threads to many: ")
    claim = "with POPC.INC, reordering slows both kinds of images down"
    judge.say(Statement("reorder-slows-popc", claim, FIGURE, "%", high=0), slowed, detail=detail)


FULL_PERCENT: Final = 95.0
OVER: Final = 100 + 1e-9
SATURATED_FROM: Final = 256
"""Threads from which on the paper's solid images saturate the unit."""
BEND: Final = 2**20
"""Pixels near which the paper sees utilization drop."""


def saturation(judge: Judge, points: Sequence[CasePoint]) -> None:
    busy = largest(chosen(points, "solid", None, fewest_threads=SATURATED_FROM))
    judge.say(
        Statement(
            "solid-saturates",
            "solid images saturate the unit",
            "Section 4.1, Figures 3 and 4",
            "%",
            low=FULL_PERCENT,
        ),
        [100 * p.utilization for p in busy],
        show=min,
        detail="exact, the least of: " + by_threads(busy),
    )
    idle = largest(chosen(points, "uniform", None, fewest_threads=SATURATED_FROM))
    judge.say(
        Statement(
            "random-does-not-saturate",
            "random images do not saturate the unit",
            "Section 4.1",
            "%",
            high=FULL_PERCENT,
        ),
        [100 * p.utilization for p in idle],
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
            judge.say(
                Statement(name, claim, "Section 4.1, Figure 3", "%", low=66, high=86), [value], detail=at
            )
    ends = largest(random)
    judge.say(
        Statement(
            "lanes-within-110",
            "with e as active threads the estimate stays near what can be",
            "Table 2",
            "%",
            high=110,
        ),
        [100 * p.utilization_occupancy_lanes for p in ends],
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
        judge.say(
            Statement(name, claim, "Section 4.1", "%", low=low, high=high),
            [max(values)] if values else [],
            detail=over,
        )


def image_against_image(judge: Judge, points: Sequence[CasePoint]) -> None:
    both = [(p, q) for p, q in pairs(points, image="uniform") if p.image == "solid"]
    differences = [100 * abs(p.jobs / q.jobs - 1) for p, q in both]
    claim = "both images execute the same number of atomic instructions"
    judge.say(Statement("same-jobs", claim, "Section 4.1", "% apart", high=0), differences)
    most = max((p.pixels for p, _ in both), default=0)
    n = [p.n_busy_mean / q.n_busy_mean for p, q in both if (p.pixels, p.op) == (most, "add")]
    judge.say(
        Statement("same-n", "both images have the same parallelism n", "Section 4.1", "x", low=0.9, high=1.1),
        n,
        show=geometric,
        detail="true jobs in the unit while busy, solid over uniform, largest size: " + listed(n),
    )
    judge.say(
        Statement("n-overestimated", "mean active warps overestimate n", "Section 4.1", "x", low=1),
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
        Statement(
            "fewer-threads-underutilize",
            "at one image size, fewer threads usually underutilize the unit",
            "Section 4.1",
            "points",
            low=0,
        ),
        steps,
        detail="exact, each step to more threads but 512, from 2^16 pixels",
    )
    with_both = [key for key, row in rows.items() if 256 in row and 512 in row]
    ends = {name: max(pixels for n, pixels in with_both if n == name) for name, _ in with_both}
    odd = [rows[key][512] - rows[key][256] for key in ends.items()]
    judge.say(
        Statement(
            "512-threads-exception",
            "512 threads are an exception: less busy than with 256",
            "Section 4.1",
            "points",
            high=0,
        ),
        odd,
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
        Statement("drop-near-2-20-at-1024", claim, "Section 4.1", "points", low=2),
        lost["most"],
        show=max,
        detail=detail,
    )
    claim = "it does not drop there with fewer threads"
    judge.say(
        Statement("no-drop-below-1024", claim, "Section 4.1", "points", high=2),
        lost["fewer"],
        show=max,
        detail=detail,
    )


def shift(judge: Judge, points: Sequence[CasePoint]) -> None:
    """Whether waiting for memory takes over from waiting for the unit on images beyond the bend."""
    beyond_it = [
        p
        for p in points
        if p.image in PAPERS and (p.variant, p.op, p.threads) == ("original", "add", 1024) and p.pixels > BEND
    ]
    judge.say(
        Statement(
            "shift-to-memory",
            "beyond 2^20 pixels, 1,024 threads wait for global memory more than for the unit",
            "Section 4.1",
            "points",
            low=0,
        ),
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
    said = {
        "occupancy": "the paper's estimate",
        "closed": "the closed network's",
        "middle": "a guess without a model",
    }
    for name, values in off.items():
        claim = f"{said[name]} is within 10 points of the exact utilization"
        judge.say(Statement(f"error-{name}", claim, "no figure in the paper", "points", high=10), values)
    if own:
        each = {name: float(np.mean(values)) for name, values in off.items()}
        judge.say(
            Statement(
                "closed-nearer-than-occupancy",
                "the closed network is nearer than the paper's estimate",
                "no figure in the paper",
                "points",
                low=0,
            ),
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


def shape(found: Mapping[str, Fact]) -> dict[str, bool]:
    """Whether each of the facts that must hold does, by name."""
    verdicts = {}
    for name, f in found.items():
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

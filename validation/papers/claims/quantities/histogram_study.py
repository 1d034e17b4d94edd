"""Dong & Pai's case study (Section 4), simulated on a part of its grid; the facts are those of
`smlab.validation.papers.histogram.facts`.

The main grid goes up to 1 megapixel, which the L2 cache of the Titan V just holds; where a claim is about
larger images, 2 are run, and 4 for one point. `smlab case histogram` runs the whole grid, up to 4.
"""

from __future__ import annotations

import functools
import os
from dataclasses import replace
from itertools import pairwise

from smlab.hw_bench.errors import SmlabError, nearest
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.validation.papers.claims.registry import Observed, quantity
from smlab.validation.papers.histogram.facts import Fact, facts
from smlab.validation.papers.histogram.images import PAPERS, PHOTOGRAPHS
from smlab.validation.papers.histogram.study import CasePoint, Spec, run_study
from smlab.validation.papers.judging import Scale

MEGAPIXEL = 2**20
SMALLER = (2**14, 2**17)
VARIANTS = ("original", "reordered")
THREADS = {"titan-v": (256, 512, 1024), "a6000": (256, 1024)}


def grid_of(gpu: str) -> list[Spec]:
    """The paper's images at 1 megapixel, solid colours on several banks, and what each GPU is asked for
    beyond that."""
    if gpu not in THREADS:
        raise SmlabError.at("GPU of the study", "not in it", gpu, " or ".join(THREADS))
    banks = {"solid-opaque": THREADS[gpu]} | (
        {"solid-two": (1024,), "solid-coloured": (1024,)} if gpu == "titan-v" else {}
    )
    launches = dict.fromkeys(PAPERS, THREADS[gpu]) | banks
    specs = [
        Spec("add", image, MEGAPIXEL, threads, variant)
        for image, blocks in launches.items()
        for threads in blocks
        for variant in VARIANTS
    ]
    if gpu == "a6000":
        return specs + [replace(spec, op="popc-inc") for spec in specs if spec.image in PAPERS]
    originals = [spec for spec in specs if spec.image in PAPERS and spec.variant == "original"]
    return [
        *specs,
        *(replace(spec, threads=64) for spec in originals if spec.threads == 256),
        *(replace(spec, pixels=pixels) for spec in originals for pixels in (*SMALLER, 2 * MEGAPIXEL)),
        Spec("add", "uniform", 4 * MEGAPIXEL, 512, "original"),
    ]


def belongs(spec: Spec, grid: str) -> bool:
    """Whether a point is in the ``main`` part, up to 1 megapixel, or in the ``large`` one, the original
    kernel up to 2."""
    if grid not in ("main", "large"):
        raise SmlabError.at("grid", "unknown", grid, "main or large")
    if grid == "main":
        return spec.pixels <= MEGAPIXEL
    return (
        MEGAPIXEL <= spec.pixels <= 2 * MEGAPIXEL
        and spec.variant == "original"
        and spec.image in PAPERS
        and spec.threads >= 256
    )


@functools.cache
def _points(gpu: str, grid: str) -> tuple[CasePoint, ...]:
    return tuple(p for p in _every_point(gpu) if belongs(p.spec, grid))


@functools.cache
def _every_point(gpu: str) -> tuple[CasePoint, ...]:
    return tuple(run_study(load_gpu(gpu), grid_of(gpu), processes=len(os.sched_getaffinity(0))))


@functools.cache
def _facts(gpu: str, grid: str) -> dict[str, Fact]:
    return facts({gpu: _points(gpu, grid)})


@quantity("histogram.fact", unit="% of the points", evidence="simulated", scale=Scale.SHARE, quick=False)
def fact_share(gpu: str, name: str, grid: str = "main") -> Observed:
    """Of the points that a fact of the study is about, the share inside the range that the study gives for
    it."""
    found = _facts(gpu, grid)
    key = f"{gpu}.{name}"
    if key not in found:
        guess = nearest(key, found)
        raise SmlabError.at("fact of the study", "not there", key, f"perhaps {guess}" if guess else None)
    f = found[key]
    words = f"{f.value:.4g} {f.unit}, {f.expected} asked"
    return Observed.exactly(100 * f.share, words + (f" ({f.detail})" if f.detail else ""))


@quantity(
    "histogram.size_steps_that_raise",
    unit="% of the steps",
    evidence="simulated",
    scale=Scale.SHARE,
    quick=False,
)
def size_steps_that_raise(gpu: str) -> Observed:
    """The share of steps to a larger image (same kernel and block) that raise the exact utilization of the
    atomic unit."""
    points = [p for p in _every_point(gpu) if p.image in PAPERS and p.variant == "original" and p.op == "add"]
    of = {(p.image, p.threads, p.pixels): p.utilization for p in points}
    sizes = (*SMALLER, MEGAPIXEL)
    launches = sorted({k[:2] for k in of if (*k[:2], sizes[0]) in of})
    steps = [of[*launch, b] > of[*launch, a] for launch in launches for a, b in pairwise(sizes)]
    return Observed.exactly(
        100 * sum(steps) / len(steps), f"{sum(steps)} of {len(steps)}, from 2^14 to 2^20 pixels"
    )


@quantity(
    "histogram.points_lost_by_reordering",
    unit="points",
    evidence="simulated",
    scale=Scale.DIFFERENCE,
    quick=False,
)
def points_lost_by_reordering(gpu: str, op: str, image: str) -> Observed:
    """How much reordering lowers the estimated utilization, mean over the block sizes, at 1 megapixel."""
    of = {(p.op, p.image, p.pixels, p.variant, p.threads): p for p in _points(gpu, "main")}
    lost = [
        100
        * (
            of[op, image, MEGAPIXEL, "original", t].utilization_occupancy
            - of[op, image, MEGAPIXEL, "reordered", t].utilization_occupancy
        )
        for t in THREADS[gpu]
        if (op, image, MEGAPIXEL, "original", t) in of
    ]
    if not lost:
        raise SmlabError.at("points of the study", "none", (gpu, op, image))
    return Observed.exactly(sum(lost) / len(lost), ", ".join(f"{x:+.0f}" for x in lost))


@quantity("histogram.utilization", unit="%", evidence="simulated", quick=False)
def utilization(gpu: str, image: str, variant: str, megapixels: int = 1) -> Observed:
    """The exact utilization with ATOMS.ADD from 512 threads, the highest of the block sizes."""
    wanted = ("add", image, variant, megapixels * MEGAPIXEL)
    chosen = [
        p for p in _every_point(gpu) if (p.op, p.image, p.variant, p.pixels) == wanted and p.threads >= 512
    ]
    if not chosen:
        raise SmlabError.at("points of the study", "none", (gpu, *wanted))
    words = ", ".join(f"{p.threads} threads {100 * p.utilization:.0f} %" for p in chosen)
    return Observed.exactly(100 * max(p.utilization for p in chosen), words)


@quantity(
    "histogram.photographs_between",
    unit="% of the drawn images",
    evidence="simulated",
    scale=Scale.SHARE,
    quick=False,
)
def photographs_between(gpu: str) -> Observed:
    """The share of drawn photographs whose passes lie between those of the random and those of the solid
    image."""
    specs = [Spec("add", image, 2**14, 256, "original") for image in (*PHOTOGRAPHS, *PAPERS)]
    e = {p.image: p.e_mean for p in run_study(load_gpu(gpu), specs)}
    inside = [e["uniform"] <= e[name] <= e["solid"] for name in PHOTOGRAPHS]
    words = ", ".join(f"{name} {e[name]:.1f}" for name in PHOTOGRAPHS)
    return Observed.exactly(100 * sum(inside) / len(inside), f"passes a job: {words}")

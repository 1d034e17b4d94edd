"""What a second atomic pipe buys behind the one data stage, and how near that is to the most that it
could."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from smlab.validation.campaigns.studies.answer import Answer, StudyEstimate, exact
from smlab.validation.campaigns.studies.figures import dots
from smlab.validation.campaigns.studies.pairs import saltelli_pairs, two_levels
from smlab.validation.campaigns.studies.points import Points
from smlab.validation.method.statistics import Interval, geometric_ratio_interval
from smlab.validation.report import Section

FILES = ("study.toml", "study-popc-inc.toml")
PIPES, BANKS = "gpu.atomic.pipes", "banks"
IMAGES, VARIANTS, THREADS = ("solid", "uniform"), ("original", "reordered"), (128, 256, 512, 1024)
MIN_PAIRS = 4


def speedup(points: Points, factor: str, where: Mapping[str, Any]) -> Interval | None:
    """Cycles before over cycles after the change in ``factor``, geometric mean over the pairs in which all
    else is equal and ``where`` holds.

    None with fewer than `MIN_PAIRS` such pairs.
    """
    a, b = saltelli_pairs(points.layout, points.frame, factor)
    mask = np.ones(len(a), dtype=bool)
    for name, value in where.items():
        if name in a.columns:  # a reduced run may leave factors at the base
            mask &= (a[name] == value).to_numpy()
    before, after = _levels(points, factor)
    changed, original = two_levels(a[mask], b[mask], factor, "cycles", after, before)
    if len(changed) < MIN_PAIRS:
        return None
    found = geometric_ratio_interval(original, changed)
    return found if math.isfinite(found.estimate) else None


def images(points: Points) -> tuple[str, ...]:
    """The images of this run; a reduced one has the solid image alone."""
    return IMAGES if "image" in points.frame.columns else IMAGES[:1]


def _levels(points: Points, factor: str) -> tuple[Any, Any]:
    """The factor's value now, and the other one."""
    levels = next(f for f in points.effects.layout.factors if f.name == factor).levels
    if factor == PIPES:
        return min(levels), max(levels)
    return max(levels), min(levels)


def _one_pipe(points: Points) -> dict[str, Any]:
    return {PIPES: _levels(points, PIPES)[0]}


def _real_banks(points: Points) -> dict[str, Any]:
    return {BANKS: _levels(points, BANKS)[0]}


def merging(points: Points, threads: int, image: str = "solid") -> dict[str, float]:
    """Speedups on the GPU that merges lanes, all exact: by a second pipe for ``add``, by ``popc-inc``, and by
    a second pipe for it.

    The original kernel; nothing in this study is random.
    """
    frame = points.frame[points.frame["threads"] == threads]
    for name, value in {"image": image, "variant": "original"}.items():
        if name in frame.columns:
            frame = frame[frame[name] == value]
    cycles = {
        (op, pipes): float(c) for op, pipes, c in frame[["op", PIPES, "cycles"]].itertuples(index=False)
    }
    return {
        "add-two": cycles["add", 1] / cycles["add", 2],
        "popc-inc": cycles["add", 1] / cycles["popc-inc", 1],
        "popc-inc-two": cycles["popc-inc", 1] / cycles["popc-inc", 2],
    }


def answer(by_file: Mapping[str, Points]) -> Answer:
    points = by_file["study.toml"]
    findings = []

    def add(name: str, what: str, value: Interval | None) -> None:
        if value is not None:
            findings.append(StudyEstimate(name, what, value, "×", 3))

    for image in images(points):
        full = speedup(points, PIPES, {"image": image, **_real_banks(points)})
        shared = speedup(points, BANKS, {"image": image, **_one_pipe(points)})
        add(f"two-{image}", f"{image} image, second pipe behind the data stage: speedup", full)
        add(f"shared-{image}", f"{image} image, nothing beyond the passes: speedup", shared)
    for threads in THREADS:
        found = speedup(points, PIPES, {"image": "solid", "threads": threads})
        add(f"solid-{threads}", f"solid image, {threads} threads a block, second pipe: speedup", found)
    frame = points.frame
    if "image" in frame.columns:
        frame = frame[frame["image"] == "solid"]
    busy = 100 * frame[frame[PIPES] == 1]["utilization"].mean()
    shown = {f.name: f.words() for f in findings}
    text = (
        f"A second pipe makes the solid image's histogram {shown['two-solid']} as fast. Its unit was busy "
        f"{busy:.0f} % of the time, but lanes on one bank pass one by one, whoever asks, and the passes of "
        "all pipes take the SM's one data stage. So a second pipe can hide what an atomic needs beyond its "
        f"passes and no more: without that, one pipe gives {shown['shared-solid']}."
    )
    if "two-uniform" in shown and "shared-uniform" in shown:
        text += (
            f" For the uniform image the two come to {shown['two-uniform']} and {shown['shared-uniform']}."
        )
    popc = by_file["study-popc-inc.toml"]
    merged = {threads: merging(popc, threads) for threads in sorted(popc.frame["threads"].unique())}
    for threads, gained in merged.items():
        where = f"A6000, solid image, {threads} threads a block"
        add(f"popc-{threads}", f"{where}: speedup by POPC.INC in place of ADD", exact(gained["popc-inc"]))
        add(
            f"popc-two-{threads}",
            f"{where}: speedup by a second pipe for POPC.INC",
            exact(gained["popc-inc-two"]),
        )
    gains = [gained["popc-inc"] for gained in merged.values()]
    text += (
        f" What Ampere did is worth more: ATOMS.POPC.INC merges the lanes on one word, and with one pipe "
        f"makes the A6000's solid "
        f"histogram {min(gains):.1f} to {max(gains):.1f} times as fast, by block size."
    )
    return Answer(text, tuple(findings))


def draw(section: Section, by_file: Mapping[str, Points]) -> None:
    points = by_file["study.toml"]
    rows: dict[str, tuple[Interval | None, Interval | None]] = {}
    cases: list[tuple[str, dict[str, Any]]] = [
        (f"{image}, {variant}", {"image": image, "variant": variant})
        for image in images(points)
        for variant in VARIANTS
        if "variant" in points.frame.columns
    ]
    cases += [(f"solid, {threads} threads", {"image": "solid", "threads": threads}) for threads in THREADS]
    for label, where in cases:
        full = speedup(points, PIPES, {**where, **_real_banks(points)})
        shared = speedup(points, BANKS, {**where, **_one_pipe(points)})
        if full is not None or shared is not None:
            rows[label] = (full, shared)
    labels = ("a second pipe", "one pipe, nothing beyond the passes")
    table = pd.DataFrame(
        [
            (row, label, v.estimate, v.low, v.high, v.count)
            for row, both in rows.items()
            for label, v in zip(labels, both, strict=True)
            if v is not None
        ],
        columns=["case", "pipe", "speedup", "low", "high", "pairs"],
    )
    section.figure(
        "study-second-pipe",
        dots(
            list(rows),
            {label: [both[k] for both in rows.values()] for k, label in enumerate(labels)},
            "Speedup",
            neutral=1.0,
        ),
        {str(name): column.tolist() for name, column in table.items()},
        "Speedup of the histogram by a second atomic pipe, all else equal, over block sizes, latency and "
        "queue depth; 95 % intervals over the pairs.",
        "Dots for solid and uniform images: a second pipe is nowhere far above 1, and near what one pipe "
        "without the base interval gives.",
    )

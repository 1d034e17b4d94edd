"""Which scheduler policy serves atomics best: cycles against greedy-then-oldest, cell by cell with the
same random numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smlab.validation.campaigns.studies.answer import Answer, StudyEstimate, exact
from smlab.validation.campaigns.studies.figures import Line, lines_with_bands
from smlab.validation.campaigns.studies.points import Points
from smlab.validation.experiments.effects.paired import Paired, compare
from smlab.validation.experiments.effects.points import grid_values
from smlab.validation.method.statistics import Interval, mean_interval
from smlab.validation.report import Section

Floats = NDArray[np.float64]

POLICY = "gpu.sm.scheduler_policy"
BASE = "gto"
NAMES = {"gto": "greedy then oldest", "lrr": "loose round robin", "oldest": "oldest first"}
BLOCKS_AT_ONCE = 8
"""Blocks of the kernel that an SM holds: with more, blocks wait and take the place of those that finish."""
MATTERS = 0.01
"""A difference of less than one per cent is called none."""


@dataclass(frozen=True)
class PolicyCell:
    """One combination of the other factors: each policy's cycles over greedy-then-oldest's."""

    levels: dict[str, Any]
    against: dict[str, Paired]


def cells(points: Points) -> list[PolicyCell]:
    """Every combination of the other factors."""
    values, layout = _values(points)
    axis = layout.names.index(POLICY)
    by_policy = np.moveaxis(values, 1 + axis, 0)
    policies = layout.factors[axis].levels
    others = [f for f in layout.factors if f.name != POLICY]
    base = by_policy[policies.index(BASE)]
    found = []
    for index in np.ndindex(*base.shape[1:]):
        at = (slice(None), *index)
        against = {p: compare(by_policy[k][at], base[at]) for k, p in enumerate(policies) if p != BASE}
        found.append(PolicyCell({f.name: f.levels[i] for f, i in zip(others, index, strict=True)}, against))
    return found


def _values(points: Points) -> tuple[Floats, Any]:
    layout = points.effects.layout
    values, _ = grid_values(layout, points.frame, "cycles")
    return values, layout


def mean_ratio(points: Points, policy: str, where: Mapping[str, Any]) -> Interval:
    """Geometric mean of the policy's cycles over greedy-then-oldest's over the cells where ``where`` holds;
    the interval is over the replications."""
    values, layout = _values(points)
    logs = np.log(values)
    for name, level in where.items():
        axis = layout.names.index(name)
        logs = np.take(logs, [layout.factors[axis].levels.index(level)], axis=1 + axis)
    axis = layout.names.index(POLICY)
    others = tuple(1 + k for k in range(len(layout.names)) if k != axis)
    means = logs.mean(axis=others)
    levels = layout.factors[axis].levels
    found = mean_interval(means[:, levels.index(policy)] - means[:, levels.index(BASE)])
    return Interval(
        math.exp(found.estimate), math.exp(found.low), math.exp(found.high), found.level, found.count
    )


def verdicts(points: Points, policy: str) -> tuple[int, int, int]:
    """Cells in which the policy is faster, no different (less than `MATTERS`, or not told apart), and
    slower than the base's."""
    faster = slower = 0
    found = cells(points)
    for cell in found:
        ratio = cell.against[policy].ratio
        assert ratio is not None
        faster += ratio.high < 1 - MATTERS
        slower += ratio.low > 1 + MATTERS
    return faster, len(found) - faster - slower, slower


def answer(by_file: Mapping[str, Points]) -> Answer:
    points = by_file["study.toml"]
    findings = []
    count = len(cells(points))
    for policy in ("lrr", "oldest"):
        faster, same, slower = verdicts(points, policy)
        name = NAMES[policy]
        whole = mean_ratio(points, policy, {})
        findings.append(
            StudyEstimate(policy, f"{name}: cycles over greedy then oldest's, all cells", whole, "×", 3)
        )
        for label, number in (("faster", faster), ("not different", same), ("slower", slower)):
            what = f"{name}: cells in which it is {label}, of {count}"
            findings.append(
                StudyEstimate(f"{policy}-{label.split()[0]}", what, exact(float(number)), "cells", 0)
            )
    for factor in points.effects.layout.factors:
        if factor.name == POLICY or len(factor.levels) < 2:
            continue
        for level in factor.levels:
            what = f"loose round robin over greedy then oldest, {factor.label} = {level}"
            value = mean_ratio(points, "lrr", {factor.name: level})
            findings.append(StudyEstimate(f"lrr-{factor.name}-{level}", what, value, "×", 3))
    best = min(cells(points), key=_ratio)
    worst = max(cells(points), key=_ratio)
    blocks = next(f for f in points.effects.layout.factors if f.name == "blocks").levels
    waves = [b for b in blocks if b > BLOCKS_AT_ONCE]
    resident = [b for b in blocks if 1 < b <= BLOCKS_AT_ONCE]
    for policy in NAMES if resident else ():
        what = f"{NAMES[policy]}: warps resident on average, of the {8 * resident[0]} that start together"
        findings.append(
            StudyEstimate(f"resident-{policy}", what, _resident(points, policy, resident[0]), "warps", 1)
        )
    shown = {f.name: f.words() for f in findings}
    faster, same, slower = verdicts(points, "lrr")
    text = (
        f"Loose round robin. It is faster than greedy then oldest in {faster} of {count} cells, no different "
        f"in {same} and slower in {slower}: by {100 * (1 - _ratio(best)):.0f} % at the best ({place(best)}), "
        f"{100 * (1 - _ratio(worst)):+.1f} % at the worst. Oldest first is greedy then oldest all over "
        "again. The unit itself does not care who sends: where it is full, it is full under each policy. "
        "What differs is the end. Greedy policies finish old warps and leave young ones for last, when too "
        "few are left to keep the unit fed; round robin lets all finish together."
    )
    if resident:
        text += (
            f" Of {8 * resident[0]} warps that start together, {shown['resident-gto']} are there on average "
            f"under greedy then oldest, and {shown['resident-lrr']} under round robin."
        )
    if waves and resident:
        resident_at_once = mean_ratio(points, "lrr", {"blocks": resident[0]}).estimate
        replaced = mean_ratio(points, "lrr", {"blocks": waves[-1]}).estimate
        text += (
            f" So the gain goes where new blocks take the place of finished ones: cycles are "
            f"{resident_at_once:.3f} of greedy's with {8 * resident[0]} warps that all start together, "
            f"and {replaced:.3f} with four times as many blocks as fit."
        )
    return Answer(text, tuple(findings))


def _resident(points: Points, policy: str, blocks: int) -> Interval:
    """Mean resident warps over the cells with this many blocks, and its interval over the replications."""
    rows = points.frame[(points.frame[POLICY] == policy) & (points.frame["blocks"] == blocks)]
    return mean_interval(rows.groupby("replication")["resident_warps"].mean().to_numpy())


def _ratio(cell: PolicyCell) -> float:
    ratio = cell.against["lrr"].ratio
    assert ratio is not None
    return ratio.estimate


def place(cell: PolicyCell) -> str:
    """The levels of a cell in words."""
    words = {"control": "no barrier", "barrier": "barrier"}
    named = {k: v for k, v in cell.levels.items() if k != "each_round"}
    end = [words[cell.levels["each_round"]]] if "each_round" in cell.levels else []
    return ", ".join([*(f"{name} {level}" for name, level in named.items()), *end])


def draw(section: Section, by_file: Mapping[str, Points]) -> None:
    points = by_file["study.toml"]
    layout = points.effects.layout
    levels = {f.name: f.levels for f in layout.factors}
    panels: dict[str, list[Line]] = {}
    rows: list[list[object]] = []
    for counters in levels["counters"]:
        lines = []
        for work in levels["work"]:
            values = [
                mean_ratio(points, "lrr", {"counters": counters, "work": work, "blocks": b})
                for b in levels["blocks"]
            ]
            lines.append(Line(f"work {work}", [float(b) for b in levels["blocks"]], values))
            rows += [
                [counters, work, b, v.estimate, v.low, v.high]
                for b, v in zip(levels["blocks"], values, strict=True)
            ]
        title = "nearly solid: 2 counters" if counters == 2 else f"{counters:,} counters"
        panels[title] = lines
    keys = ("counters", "work", "blocks", "ratio", "low", "high")
    section.figure(
        "study-policies",
        lines_with_bands(panels, "Blocks of 8 warps (8 fit)", "Cycles, round robin over greedy", log2=True),
        {key: [row[k] for row in rows] for k, key in enumerate(keys)},
        "Loose round robin's cycles over greedy-then-oldest's, with paired 95 % intervals; below 1 it is "
        "faster. Work is the number of dependent instructions an atomic; mean over kernels with and without "
        "a barrier in each round.",
        "Two panels over the number of blocks: the lines dip below 1 at 4 and 8 blocks and come back "
        "towards 1 at 32.",
    )

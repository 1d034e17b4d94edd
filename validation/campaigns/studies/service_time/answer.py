"""Where S(n, e, c) comes from: how S answers to the latency and to the interval, by load."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from smlab.validation.campaigns.studies.answer import Answer, StudyEstimate, scaled
from smlab.validation.campaigns.studies.figures import Line, lines_with_bands
from smlab.validation.campaigns.studies.pairs import elasticity, saltelli_pairs
from smlab.validation.campaigns.studies.points import Points
from smlab.validation.method.statistics import Interval
from smlab.validation.report import Section

LOADS = ((1, 1), (2, 3), (4, 7), (8, 15), (16, 32))
"""Ranges of n, both ends included."""
MIN_PAIRS = 4
LANES = {"e from 1 to 8": (1, 8), "e from 17 to 32": (17, 32)}
CONSTANTS = {"latency": "latency", "interval": "initiation interval"}


def parts(points: Points, lanes: tuple[int, int] = (1, 32)) -> dict[str, list[Interval | None]]:
    """The elasticity of S to each constant in each range of `LOADS`; None where a range has too few pairs."""
    found: dict[str, list[Interval | None]] = {}
    for constant in CONSTANTS:
        a, b = saltelli_pairs(points.layout, points.frame, constant)
        inside = a["lanes"].between(*lanes)
        found[constant] = [_part(a, b, inside & a["warps"].between(*load), constant) for load in LOADS]
    return found


def _part(a: pd.DataFrame, b: pd.DataFrame, mask: pd.Series, constant: str) -> Interval | None:
    chosen = mask.to_numpy()
    if chosen.sum() < MIN_PAIRS:
        return None
    return elasticity(a[chosen], b[chosen], constant, "service_cycles")


def answer(by_file: Mapping[str, Points]) -> Answer:
    points = by_file["study.toml"]
    findings = []
    for constant, label in CONSTANTS.items():
        for load, found in zip(LOADS, parts(points)[constant], strict=True):
            if found is not None:
                name = f"{constant}-{load[0]}"
                n = f"n = {load[0]}" if load[0] == load[1] else f"n = {load[0]} to {load[1]}"
                findings.append(
                    StudyEstimate(name, f"share of S from the {label}, {n}", scaled(found, 100), "%", 1)
                )
    for index in points.effects["service_cycles"].sobol:
        if index.total is not None:
            name = f"total-{index.factors[0]}"
            what = f"share of the variance of S that {index.factors[0]} has a part in (total index)"
            findings.append(StudyEstimate(name, what, scaled(index.total, 100), "%", 1))
    few = parts(points, LANES["e from 1 to 8"])["latency"][3]
    if few is not None:
        what = "share of S from the latency, n = 8 to 15, e from 1 to 8"
        findings.append(StudyEstimate("latency-8-few", what, scaled(few, 100), "%", 1))
    shown = {f.name: f.words() for f in findings}
    text = (
        f"With one job in the unit, latency makes {shown['latency-1']} of S and the initiation interval "
        f"{shown['interval-1']}; with 16 jobs and more, latency makes {shown['latency-16']} and the interval "
        f"{shown['interval-16']}. S is the interval plus one latency a batch, over n. So a rate measured "
        "with 8 warps and many lanes tells the interval and next to nothing of the latency"
    )
    text += (
        f" (with 8 lanes at most, latency is still {shown['latency-8-few']})."
        if "latency-8-few" in shown
        else "."
    )
    return Answer(text, tuple(findings))


def draw(section: Section, by_file: Mapping[str, Points]) -> None:
    points = by_file["study.toml"]
    panels: dict[str, list[Line]] = {}
    rows: list[list[object]] = []
    for title, lanes in LANES.items():
        lines = []
        for constant, found in parts(points, lanes).items():
            if not any(found):
                continue
            known = [(load, i) for load, i in zip(LOADS, found, strict=True) if i is not None]
            middle = [float(np.sqrt(load[0] * load[1])) for load, _ in known]
            values = [scaled(i, 100) for _, i in known]
            lines.append(Line(CONSTANTS[constant], middle, values))
            rows += [
                [title, constant, *load, v.estimate, v.low, v.high]
                for (load, _), v in zip(known, values, strict=True)
            ]
        if lines:
            panels[title] = lines
    keys = ("lanes", "constant", "n_from", "n_to", "share", "low", "high")
    section.figure(
        "study-service-time",
        lines_with_bands(
            panels, "n: jobs in the unit", "Share of S(n, e, c) (%)", log2=True, limits=(0, 105)
        ),
        {key: [row[k] for row in rows] for k, key in enumerate(keys)},
        "How S(n, e, c) divides between the pipeline's latency and the initiation interval: per cent that S "
        "changes when one of them changes by one per cent, everything else being equal, with 95 % intervals.",
        "Two panels. Over n, the latency's line falls from most of S to almost nothing, the interval's "
        "rises to almost all.",
    )

"""What a run of the case study writes: points and facts as CSV and JSON, and its figures as PNG, SVG and
CSV."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.files import write_atomic
from smlab.validation.papers.histogram.errors import errors, parts
from smlab.validation.papers.histogram.fact import Fact
from smlab.validation.papers.histogram.figures import (
    OP_NAMES,
    images_figure,
    speedup_figure,
    utilization_figure,
)
from smlab.validation.papers.histogram.images import PAPERS
from smlab.validation.papers.histogram.point import CasePoint
from smlab.validation.report.files import draw
from smlab.validation.report.tables import csv_text, data_csv


@dataclass(frozen=True)
class DrawnFigure:
    """A figure with its columns, caption and description."""

    name: str
    figure: Figure
    data: dict[str, list[Any]]
    caption: str
    alt: str


_PLOTTED = ("op", "image", "variant", "threads", "pixels")


def _columns(points: Sequence[CasePoint], values: Sequence[str]) -> dict[str, list[Any]]:
    return {name: [getattr(p, name) for p in points] for name in (*_PLOTTED, *values)}


def figures(points: Sequence[CasePoint]) -> list[DrawnFigure]:
    """The figures that these points allow."""
    gpu = points[0].gpu
    drawn = []
    images = [name for name in PAPERS if any(p.image == name for p in points)]
    images = images or list(dict.fromkeys(p.image for p in points))
    for op in dict.fromkeys(p.op for p in points):
        own = [p for p in points if p.op == op and p.image in images]
        values = (
            "utilization",
            "utilization_occupancy",
            "utilization_closed",
            "e_mean",
            "n_busy_mean",
            "warps",
        )
        drawn.append(
            DrawnFigure(
                f"utilization-{gpu}-{op}",
                utilization_figure(own, op, images),
                _columns(own, values),
                f"Utilization of the atomic unit on simulated {gpu} with {OP_NAMES[op]}: the truth, the "
                f"paper's estimate and the "
                "closed network's, by image, kernel and threads a block (after Dong & Pai, Figures 3 and 4).",
                "Solid images reach 100 % from 256 threads; the paper's estimate exceeds it.",
            )
        )
    moved = [p for p in points if p.variant == "reordered" and not math.isnan(p.speedup)]
    if moved:
        drawn.append(
            DrawnFigure(
                f"speedup-{gpu}",
                speedup_figure(points),
                _columns(moved, ("speedup", "cycles", "e_mean")),
                f"Speedup by reordering on simulated {gpu} (after Figure 5). Grey band: 20 to 40 %, the "
                f"paper's near 30 %.",
                "Grey solid images gain nothing, opaque grey ones near 30 %, coloured ones almost "
                "threefold, random ones lose.",
            )
        )
    largest = max(p.pixels for p in points)
    threads = max(p.threads for p in points)
    between = [p for p in points if (p.pixels, p.threads, p.op) == (largest, threads, "add")]
    if len({p.image for p in between}) > 2:
        drawn.append(
            DrawnFigure(
                f"images-{gpu}",
                images_figure(between, threads),
                _columns(between, ("e_mean", "utilization", "speedup")),
                f"All images at {largest:,} pixels and {threads:,} threads with ATOMS.ADD: drawn "
                f"photographs lie between solid "
                "and uniform.",
                "What reordering brings follows how much it lowers e.",
            )
        )
    return drawn


@dataclass(frozen=True)
class CaseUnder:
    """The study under one alternative of its GPU's description, which has this ``weight``."""

    name: str
    weight: float
    points: Sequence[CasePoint]
    facts: Mapping[str, Fact]


def document(
    gpu: str,
    points: Sequence[CasePoint],
    found: Mapping[str, Fact],
    settings: Mapping[str, Any],
    alternatives: Sequence[CaseUnder] = (),
) -> dict[str, Any]:
    """What ``--json`` prints and ``case.json`` holds. With more than one alternative, ``alternatives`` has
    the same of each, by name and weight."""
    whole = {
        "case": "histogram",
        "gpu": gpu,
        "settings": dict(settings),
        "points": [p.as_json() for p in points],
        "errors": {
            part: {name: row.as_row() for name, row in errors(own).items()}
            for part, own in parts(points).items()
        },
        "facts": [{**asdict(f), "expected": f.expected} for f in found.values()],
    }
    if len(alternatives) > 1:
        whole["alternatives"] = [
            {"name": a.name, "weight": a.weight, **document(gpu, a.points, a.facts, settings)}
            for a in alternatives
        ]
    return whole


def write_case(
    folder: Path, whole: Mapping[str, Any], points: Sequence[CasePoint], drawn: Sequence[DrawnFigure]
) -> None:
    """Write points.csv, facts.csv, case.json and the figures into ``folder``, each whole or not at all."""
    columns = [f.name for f in fields(CasePoint)]
    rows = [[_finite(getattr(p, name)) for name in columns] for p in points]
    said = whole["facts"]
    names = list(said[0]) if said else []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / "points.csv", csv_text(columns, rows).encode())
        write_atomic(folder / "facts.csv", csv_text(names, [[f[n] for n in names] for f in said]).encode())
        plain = json.dumps(_plain(whole), indent=1, allow_nan=False)
        write_atomic(folder / "case.json", (plain + "\n").encode())
        for d in drawn:
            picture = draw(d.name, d.figure, data_csv(d.name, d.data))
            write_atomic(folder / f"{d.name}.svg", picture.svg)
            write_atomic(folder / f"{d.name}.png", picture.png)
            write_atomic(folder / f"{d.name}.csv", picture.csv.encode())
    except OSError as error:
        raise SmlabError(f"{folder}: the results cannot be written: {error}") from error


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return _finite(value)

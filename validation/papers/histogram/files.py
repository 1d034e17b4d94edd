"""What a run of the case study writes: points and facts as CSV and JSON, and its figures (Figures 3 to 5 of
Dong & Pai, and one of the images between their two) as PNG, SVG and CSV.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.files import write_atomic
from smlab.validation.figure_style import FAINT, INK, SOFT, label_ends, look, new_figure, styled
from smlab.validation.papers.histogram.facts import Fact
from smlab.validation.papers.histogram.images import NAMES, PAPERS, SOLIDS
from smlab.validation.papers.histogram.study import CasePoint, errors, parts
from smlab.validation.report.files import draw
from smlab.validation.report.tables import csv_text, data_csv

ROWS = (
    ("utilization", "Exact"),
    ("utilization_occupancy", "Dong & Pai"),
    ("utilization_closed", "Closed network"),
)
VARIANTS = ("original", "reordered")
OP_NAMES = {"add": "ATOMS.ADD", "popc-inc": "ATOMS.POPC.INC"}
PAPER_GAIN = (1.2, 1.4)


def _size_axis(ax: Axes, sizes: Sequence[int]) -> None:
    ax.set_xscale("log", base=2)
    powers = [s.bit_length() - 1 for s in (min(sizes), max(sizes))]
    step = 4 if powers[1] - powers[0] > 6 else 2 if powers[1] - powers[0] > 2 else 1
    ticks = [2**k for k in range(powers[1], powers[0] - 1, -step)]
    ax.xaxis.set_major_locator(FixedLocator(ticks))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"$2^{{{round(v).bit_length() - 1}}}$"))


def _lines(ax: Axes, points: Sequence[CasePoint], threads: Sequence[int], field: str, scale: float) -> None:
    for number, count in enumerate(threads):
        own = sorted((p for p in points if p.threads == count), key=lambda p: p.pixels)
        drawn = look(number)
        ax.plot(
            [p.pixels for p in own],
            [scale * getattr(p, field) for p in own],
            **drawn.marked_line,
            ms=2.8,
            lw=1.2,
            label=f"{count:,}",
        )


def _legend(fig: Figure, ax: Axes) -> None:
    handles, labels = ax.get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside upper center", ncols=len(labels), title="Threads a block")


@styled
def utilization_figure(points: Sequence[CasePoint], op: str, images: Sequence[str] = PAPERS) -> Figure:
    """Utilization over image size: a row for the truth and each estimator, a column for each image and
    kernel."""
    own = [p for p in points if p.op == op]
    threads = sorted({p.threads for p in own})
    columns = [(image, variant) for image in images for variant in VARIANTS]
    fig = new_figure(1.2 + 1.95 * len(columns), 5.8)
    axes = fig.subplots(len(ROWS), len(columns), sharex=True, sharey=True, squeeze=False)
    for r, (field, label) in enumerate(ROWS):
        for c, (image, variant) in enumerate(columns):
            ax = axes[r, c]
            ax.axhline(100, color=SOFT, lw=0.8, ls=(0, (4, 3)))
            chosen = [p for p in own if (p.image, p.variant) == (image, variant)]
            _lines(ax, chosen, threads, field, 100)
            ax.set_ylim(0, 138)
            _size_axis(ax, [p.pixels for p in own])
            if r == 0:
                ax.set_title(f"{image}, {variant}")
            if c == 0:
                ax.set_ylabel(f"{label} (%)")
            if r == len(ROWS) - 1:
                ax.set_xlabel("Pixels")
    _legend(fig, axes[0, 0])
    return fig


@styled
def speedup_figure(points: Sequence[CasePoint]) -> Figure:
    """Speedup of the reordered kernel over image size: a row for each instruction, a column for each kind
    of image."""
    ops = [op for op in OP_NAMES if any(p.op == op for p in points)]
    there = {p.image for p in points}
    images = [name for name in (*SOLIDS, "uniform") if name in there] or sorted(there)
    own = [p for p in points if p.variant == "reordered" and p.image in images]
    threads = sorted({p.threads for p in own})
    fig = new_figure(1.2 + 1.7 * len(images), 1.1 + 2.2 * len(ops))
    axes = fig.subplots(len(ops), len(images), sharey=True, squeeze=False)
    for r, op in enumerate(ops):
        for c, image in enumerate(images):
            ax = axes[r, c]
            ax.axhspan(*PAPER_GAIN, color=FAINT, lw=0)
            ax.axhline(1, color=SOFT, lw=0.8)
            _lines(ax, [p for p in own if (p.op, p.image) == (op, image)], threads, "speedup", 1)
            _size_axis(ax, [p.pixels for p in own if p.image == image] or [1, 2])
            ax.set_yscale("log", base=2)
            ax.yaxis.set_major_locator(FixedLocator([0.5, 0.7, 1, 1.3, 2, 3]))
            ax.yaxis.set_minor_locator(NullLocator())
            ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
            ax.set_ylim(0.5, 3.3)
            if r == 0:
                ax.set_title(image)
            if c == 0:
                ax.set_ylabel(f"Speedup, {OP_NAMES[op]}")
            if r == len(ops) - 1:
                ax.set_xlabel("Pixels")
    _legend(fig, axes[0, 0])
    return fig


@styled
def images_figure(points: Sequence[CasePoint], threads: int = 1024) -> Figure:
    """Every image at the largest size: exact utilization and speedup by reordering over what reordering
    does to e."""
    largest = max(p.pixels for p in points)
    at_end = [p for p in points if p.pixels == largest and p.op == "add" and p.threads == threads]
    of = {(p.image, p.variant): p for p in at_end}
    names = [n for n in dict.fromkeys([*NAMES, *(p.image for p in at_end)]) if (n, "original") in of]
    fig = new_figure(7.4, 3.6)
    left, right = fig.subplots(1, 2)
    ends = []
    for n, name in enumerate(names):
        before, after = of[name, "original"], of.get((name, "reordered"))
        drawn = look(n)
        style = {"color": drawn.colour, "marker": drawn.marker, "ms": 5.0, "lw": 0.9}
        if after is not None:
            left.plot(
                [before.e_mean, after.e_mean], [100 * before.utilization, 100 * after.utilization], **style
            )
            left.plot(after.e_mean, 100 * after.utilization, drawn.marker, color="white", ms=2.0)
            right.plot(before.e_mean / after.e_mean, after.speedup, ls="none", **{**style, "lw": 0})
            ends.append((after.speedup, name.rsplit("/", maxsplit=1)[-1], drawn.colour))
    left.set_xscale("log", base=2)
    left.xaxis.set_major_locator(FixedLocator([2, 4, 8, 16, 32]))
    left.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    left.set_xlabel("Passes a job, e (hollow: reordered)")
    left.set_ylabel("Exact utilization (%)")
    left.set_ylim(0, 105)
    right.axhline(1, color=SOFT, lw=0.8)
    right.axhspan(*PAPER_GAIN, color=FAINT, lw=0)
    right.annotate(
        "paper: near 30 %",
        (0.98, 1.3),
        xycoords=("axes fraction", "data"),
        ha="right",
        va="center",
        color=INK,
        fontsize=8,
    )
    right.set_xlabel("e before over e after reordering")
    right.set_ylabel("Speedup by reordering")
    right.set_ylim(bottom=0.8)
    fig.draw_without_rendering()
    label_ends(right, ends)
    return fig


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
                "photographs lie between solid and uniform.",
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
    facts: Mapping[str, Fact],
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
        "facts": [{**asdict(f), "expected": f.expected} for f in facts.values()],
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
            assert picture.png is not None
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

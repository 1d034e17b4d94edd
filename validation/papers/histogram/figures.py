"""Figures 3 to 5 of Dong & Pai, from simulated points, and one of the images between their two."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from smlab.validation.papers.histogram.images import NAMES, PAPERS, SOLIDS
from smlab.validation.papers.histogram.point import CasePoint
from smlab.validation.report.style import FAINT, INK, SOFT, label_ends, look, new_figure, styled

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
            color=drawn.colour,
            ls=drawn.dash,
            marker=drawn.marker,
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

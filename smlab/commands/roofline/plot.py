"""The hierarchical roofline as a picture: log-log, roofs by level, each kernel's own ceilings, a point a
level, names on points."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from numpy.typing import NDArray

from smlab.commands.plots import check_plot, write_figure
from smlab.commands.roofline.labels import HALO, place_labels
from smlab.commands.roofline.points import PanelPoints, points_of
from smlab.commands.roofline.rows import kernel_rows
from smlab.hw_bench.errors import SmlabError
from smlab.models.projection.peak_rates import Maxima
from smlab.models.roofline.ceilings import Ceilings
from smlab.models.roofline.work import LEVELS
from smlab.validation.figure_style import INK, MARKERS, PALETTE, SOFT, new_figure, styled

__all__ = ["check_plot", "draw_roofline", "roofline_figure", "write_figure"]

LEVEL_NAMES: Final = {"l1": "L1", "l2": "L2", "dram": "DRAM"}
OWN_CEILINGS: Final = 3
"""Up to how many kernels have all their ceilings drawn; of more, each has a cap: its lowest one, above its
point."""
CAPPED: Final = 200
MAX_NAMES: Final = 60
"""How many kernels, the longest first, are named on the picture; the data beside it name them all."""
MANY_NAMES: Final = 25
NAMES_IN_A_CROWD: Final = 15
"""How many are named where the points are more than `CAPPED`."""
DOTTED: Final[Any] = (0, (1, 1.2))


def draw_roofline(ceilings: Sequence[Ceilings], path: Path) -> list[Path]:
    """Draw all kernels of ``ceilings`` (of one GPU) and write the picture and its data; the files written.

    Kernels without floating-point operations go to a second panel, the instruction roofline (Ding and
    Williams 2022). `SmlabError` if no kernel has operations or instructions, since then there is nothing to
    be drawn.
    """
    figure = roofline_figure(ceilings)
    rows = [row for c in ceilings for row in kernel_rows(c)]
    nested = [k for k in rows[0] if isinstance(rows[0][k], dict)]
    plain = [k for k in rows[0] if k not in nested and k != "flags"]
    header = [*plain, *(f"{k}_{level}" for k in nested for level in LEVELS), "flags"]
    data = []
    for row in rows:
        levels = [row[k][level] for k in nested for level in LEVELS]
        values = [
            "" if isinstance(x, float) and np.isnan(x) else x for x in [*(row[k] for k in plain), *levels]
        ]
        data.append([*values, "; ".join(row["flags"])])
    return write_figure(figure, path, header, data)


@styled
def roofline_figure(ceilings: Sequence[Ceilings], *, width_in: float | None = None) -> Figure:
    """The picture; see `draw_roofline`. By default it is wider where many kernels are named."""
    top = ceilings[0].maxima
    panels = [p for p in (points_of(ceilings, False), points_of(ceilings, True)) if p is not None]
    if not panels:
        raise SmlabError(
            "--plot: no kernel has floating-point operations or instructions (expected their counters; "
            "--how lists them)"
        )
    if width_in is None:
        width_in = 10.5 if max(len(p.rate) for p in panels) > MANY_NAMES else 8.0
    fig = new_figure(width_in, max(4.6, 0.7 * width_in) * len(panels))
    drawn = [
        _panel(ax, points, top)
        for ax, points in zip(np.atleast_1d(fig.subplots(len(panels), 1)), panels, strict=True)
    ]
    if sum(panel.place_names() for panel in drawn):
        # To say how many found no room moves the axes, so all are placed again.
        for panel in drawn:
            panel.head()
        for panel in drawn:
            panel.place_names()
    return fig


def _panel(ax: Axes, points: PanelPoints, top: Maxima) -> _Panel:
    shown, rate, count = points.shown, points.rate, len(points.rate)
    highest = max(p for _, p in points.peaks)
    ridge = highest * 1e9 / top.bandwidth.min()
    seen = points.intensity[shown]
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(
        min(0.5 * np.min(seen, initial=ridge), 0.02 * ridge),
        max(2.5 * np.max(seen, initial=ridge), 10 * ridge),
    )
    ax.set_ylim(min(0.5 * rate.min(), 1e-3 * highest), 2.5 * max(highest, rate.max()))
    ax.set_xlabel(f"Intensity ({points.unit} / byte)")
    ax.set_ylabel("Performance (GFLOP/s)" if points.unit == "FLOP" else "Warp-instructions (G/s)")
    _roofs(ax, top, points.peaks)
    size = 10 + 60 * np.sqrt(points.seconds / points.seconds.max())
    for level, name in enumerate(LEVELS):
        drawn = shown[:, level]
        ax.scatter(
            points.intensity[drawn, level],
            rate[drawn],
            s=size[drawn],
            marker=MARKERS[level],
            facecolor=PALETTE[level],
            edgecolor="white",
            linewidth=0.4,
            alpha=0.9 if count <= CAPPED else 0.45,
            zorder=3,
            rasterized=count > 2000,
            label=f"by {LEVEL_NAMES[name]} bytes",
        )
    nowhere = ~shown.any(axis=1)
    edge = float(ax.get_xlim()[1]) / 1.25
    if nowhere.any():
        ax.scatter(
            np.full(int(nowhere.sum()), edge),
            rate[nowhere],
            s=size[nowhere],
            marker=">",
            facecolor=SOFT,
            edgecolor="white",
            linewidth=0.4,
            zorder=3,
            label="no bytes counted",
        )
    handles, labels = ax.get_legend_handles_labels()
    if count <= CAPPED:
        for i in range(count):
            ends = points.intensity[i, shown[i]]
            if len(ends) > 1:
                ax.plot([ends.min(), ends.max()], [rate[i]] * 2, color=SOFT, lw=0.5, alpha=0.7, zorder=2)
        if count <= OWN_CEILINGS:
            _own_ceilings(ax, points)
            handles.append(Line2D([], [], color=INK, lw=1.0, ls=DOTTED))
            labels.append("a kernel's own ceilings")
        else:
            _caps(ax, points)
            handles.append(Line2D([], [], color=INK, lw=0.7, marker="_", ms=7))
            labels.append("up to its lowest ceiling")
    named = [i for i in range(count) if points.names[i]]
    named = named[: NAMES_IN_A_CROWD if count > CAPPED else MAX_NAMES]
    right = np.where(nowhere, edge, np.max(points.intensity, axis=1, where=shown, initial=0.0))
    anchors = [(float(right[i]), float(rate[i])) for i in named]
    spots = np.stack([seen, np.broadcast_to(rate[:, None], shown.shape)[shown]], axis=1)
    spots = np.concatenate([spots, np.stack([right[nowhere], rate[nowhere]], axis=1)])
    said = f"{top.gpu.title}, {top.which} maxima"
    if len(named) < count:
        said += f"; {count - len(named):,} of {count:,} kernels not named"
    panel = _Panel(ax, said, handles, labels, [points.names[i] for i in named], anchors, spots)
    panel.head()
    return panel


@dataclass
class _Panel:
    """A panel that is drawn but for the names on its points, which need the final layout of all panels."""

    ax: Axes
    said: str
    handles: Sequence[Any]
    labels: Sequence[str]
    names: Sequence[str]
    anchors: Sequence[tuple[float, float]]
    spots: NDArray[np.float64]
    left_out: int = 0
    placed: Sequence[Text] = ()

    def head(self) -> None:
        more = f"; no room for {self.left_out} names" if self.left_out else ""
        _heading(self.ax, self.said + more, self.handles, self.labels)

    def place_names(self) -> int:
        """Write the names, anew if they are there; how many found no room."""
        for text in self.placed:
            text.remove()
        before = len(self.ax.texts)
        self.left_out = place_labels(self.ax, self.anchors, self.names, self.spots)
        self.placed = list(self.ax.texts)[before:]
        return self.left_out


def _heading(ax: Axes, said: str, handles: Sequence[Any], labels: Sequence[str]) -> None:
    """The legend above the axes, and what is drawn above it."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    width = figure.get_size_inches()[0]
    columns = 5 if width >= 8 else 4 if width >= 6 else 2
    rows = -(-len(labels) // columns)
    ax.legend(
        handles,
        labels,
        loc="lower left",
        bbox_to_anchor=(0, 1.0),
        ncols=columns,
        borderaxespad=0.2,
        handletextpad=0.3,
        columnspacing=1.2,
    )
    text = textwrap.fill(said, int(11.5 * width))
    ax.set_title(text, loc="left", fontsize=9, color=SOFT, pad=8 + 15 * rows)


def _roofs(ax: Axes, top: Maxima, peaks: Sequence[tuple[str, float]]) -> None:
    highest = max(p for _, p in peaks)
    x_low, x_high = ax.get_xlim()
    for level, name in enumerate(LEVELS):
        bandwidth = float(top.bandwidth[level]) / 1e9
        end = min(highest / bandwidth, x_high)
        ax.plot([x_low, end], [x_low * bandwidth, end * bandwidth], color=PALETTE[level], lw=1.6, zorder=1)
        x = max(x_low, ax.get_ylim()[0] / bandwidth) * 1.25
        ax.annotate(
            f"{LEVEL_NAMES[name]} {bandwidth:,.0f} GB/s",
            (x, x * bandwidth),
            (0, 3),
            textcoords="offset points",
            rotation=np.degrees(np.arctan(_steepness(ax))),
            rotation_mode="anchor",
            ha="left",
            va="bottom",
            fontsize=8,
            color=PALETTE[level],
            zorder=4,
            path_effects=HALO,
        )
    for name, peak in peaks:
        start = peak * 1e9 / float(top.bandwidth.max())
        ax.plot([start, x_high], [peak, peak], color=INK, lw=1.6 if peak == highest else 1.0, zorder=1)
        ax.annotate(
            f"{name} {peak:,.0f}",
            (x_high, peak),
            (-6, 2),
            textcoords="offset points",
            ha="right",
            va="bottom",
            fontsize=8,
            color=INK,
            zorder=4,
            path_effects=HALO,
        )


def _steepness(ax: Axes) -> float:
    """Height over width on the page of a line of slope 1 in log-log, by about what the layout will leave
    for the axes."""
    (x0, x1), (y0, y1) = ax.get_xlim(), ax.get_ylim()
    figure = ax.get_figure(root=True)
    assert figure is not None
    width, height = figure.get_size_inches()
    panel = height / max(1, len(figure.axes))
    return float((panel - 1.0) / np.log10(y1 / y0) / ((width - 0.7) / np.log10(x1 / x0)))


def _own_ceilings(ax: Axes, points: PanelPoints) -> None:
    """Each kernel's bandwidth ceilings (Eq. 6 to 8) and compute ceiling (Eq. 3), as far as its roofline
    goes."""
    x_low, x_high = ax.get_xlim()
    for peak, bandwidths in zip(points.peak_ceiling.tolist(), points.bandwidth_ceilings, strict=True):
        most = np.nanmax(bandwidths, initial=0.0)
        start = peak / most if most > 0 else x_low
        ax.plot([max(start, x_low), x_high], [peak, peak], color=INK, lw=1.0, ls=DOTTED, zorder=2)
        for level, bandwidth in enumerate(bandwidths.tolist()):
            if not np.isnan(bandwidth):
                end = min(peak / bandwidth, x_high)
                line = [x_low * bandwidth, end * bandwidth]
                ax.plot([x_low, end], line, color=PALETTE[level], lw=1.0, ls=DOTTED, zorder=2)


def _caps(ax: Axes, points: PanelPoints) -> None:
    """For each kernel a thin line from its point up to its lowest ceiling, at the level that the ceiling
    is of."""
    for i in range(len(points.rate)):
        known = np.flatnonzero(points.shown[i] & np.isfinite(points.roofline[i]))
        if not len(known):
            continue
        level = int(known[np.argmin(points.roofline[i, known])])
        x, cap = points.intensity[i, level], points.roofline[i, level]
        ax.plot([x, x], [points.rate[i], cap], color=INK, lw=0.5, zorder=2)
        ax.plot([x], [cap], "_", color=INK, ms=6, mew=0.9, zorder=2)

"""One look for all figures: sizes, colours and the small things that every figure needs.

Figures are made for a card of white paper about 500 px wide, so that their text is still legible at 390 px.
Lines differ in colour, marker and dash, so nothing hangs on colour alone; the colours stay apart for the
colour-blind and are dark enough for text.
"""

from __future__ import annotations

import functools
import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ParamSpec

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from numpy.typing import ArrayLike, NDArray

from smlab.hw_bench.errors import SmlabError

FloatArray = NDArray[np.float64]

INK = "#1b1f24"
SOFT = "#59626d"
FAINT = "#d9dde2"

PALETTE = ("#0b5cad", "#c44a00", "#00795c", "#9b3d8f", "#8a6500", "#4c5560")
"""Blue, vermilion, green, purple, ochre, grey: darkened from Okabe and Ito's."""
MARKERS = ("o", "s", "^", "D", "v", "P")
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (2, 1.5)), (0, (7, 2, 1.5, 2)), (0, (1, 1.2)), (0, (9, 3)))

STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.titleweight": "normal",
    "axes.labelsize": 10,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.fontsize": 9,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": SOFT,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "axes.linewidth": 0.8,
    "xtick.major.width": 0.8,
    "ytick.major.width": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.6,
    "lines.markersize": 5,
    "legend.frameon": False,
    "figure.facecolor": "white",
    "axes.facecolor": "white",
    "svg.fonttype": "path",
    "axes.unicode_minus": True,
}

_Arguments = ParamSpec("_Arguments")


@dataclass(frozen=True)
class Look:
    """How one series is drawn."""

    colour: str
    marker: str
    dash: Any

    @property
    def line(self) -> dict[str, Any]:
        """What matplotlib's `plot` takes for a line."""
        return {"color": self.colour, "ls": self.dash}

    @property
    def marked_line(self) -> dict[str, Any]:
        """The same with a marker at each point."""
        return {**self.line, "marker": self.marker}


def look(i: int) -> Look:
    """The look of the i-th series."""
    return Look(PALETTE[i % len(PALETTE)], MARKERS[i % len(MARKERS)], DASHES[i % len(DASHES)])


def styled(make: Callable[_Arguments, Figure]) -> Callable[_Arguments, Figure]:
    """Run a figure function in this style without leaving a trace in matplotlib's settings."""

    @functools.wraps(make)
    def wrapped(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> Figure:
        with matplotlib.rc_context(STYLE):
            return make(*args, **kwargs)

    return wrapped


def new_figure(width_in: float, height_in: float) -> Figure:
    """An empty figure of this size on an Agg canvas; pyplot and its global state are not involved."""
    fig = Figure(figsize=(width_in, height_in), layout="constrained")
    FigureCanvasAgg(fig)
    fig.get_layout_engine().set(w_pad=0.06, h_pad=0.06)  # type: ignore[union-attr,call-arg]
    return fig


def log2_axis(ax: Axes, values: Sequence[float] | np.ndarray, which: str = "x") -> None:
    """A logarithmic axis to base 2 whose ticks are the plain numbers ``values``."""
    axis = ax.xaxis if which == "x" else ax.yaxis
    (ax.set_xscale if which == "x" else ax.set_yscale)("log", base=2)
    axis.set_major_locator(FixedLocator([float(v) for v in values]))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))


def powers_of_two(low: float, high: float) -> list[float]:
    """The powers of two from just below ``low`` to just above ``high``."""
    first, last = math.floor(math.log2(low)), math.ceil(math.log2(high))
    return [2.0**k for k in range(first, last + 1)]


def label_ends(ax: Axes, ends: Sequence[tuple[float, str, str]]) -> None:
    """Write labels right of the axes beside the ends of lines, pushed apart so that they do not overlap.

    ``ends`` holds (y of the line's last point, label, colour). Call it when limits and scales are final.
    """
    if not ends:
        return
    figure = ax.figure
    assert figure is not None
    axes_height_pt = ax.get_position().height * figure.get_figure(root=True).get_size_inches()[1] * 72
    line = 1.3 * float(matplotlib.rcParams["legend.fontsize"]) / axes_height_pt
    to_axes = ax.transData + ax.transAxes.inverted()
    x = ax.get_xlim()[1]
    items = []
    for y, label, colour in ends:
        text = textwrap.fill(label, 18, break_on_hyphens=False)
        at = float(to_axes.transform((x, y))[1]) if math.isfinite(y) else 0.0
        items.append([min(max(at, 0.0), 1.0), text, colour, (text.count("\n") + 1) * line])
    items.sort(key=lambda item: item[0])
    floor = -math.inf
    for item in items:  # upwards, each above the one before
        item[0] = max(item[0], floor + item[3] / 2)
        floor = item[0] + item[3] / 2
    excess = floor - 1.05
    if excess > 0:  # then down again from the top
        ceiling = 1.05
        for item in reversed(items):
            item[0] = min(item[0], ceiling - item[3] / 2)
            ceiling = item[0] - item[3] / 2
    for at, text, colour, _ in items:
        ax.text(
            1.02,
            at,
            text,
            transform=ax.transAxes,
            color=colour,
            va="center",
            ha="left",
            linespacing=1.15,
            fontsize=matplotlib.rcParams["legend.fontsize"],
        )


def legend_above(ax: Axes, columns: int = 2) -> None:
    """A legend above the axes, where it hides nothing."""
    ax.legend(
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        ncols=columns,
        borderaxespad=0.2,
        handlelength=2.2,
        columnspacing=1.4,
    )


def floats(values: ArrayLike) -> FloatArray:
    """``values`` as an array of float64."""
    return np.asarray(values, dtype=np.float64)


def columns_of(name: str, *values: ArrayLike) -> tuple[FloatArray, ...]:
    """``values`` as arrays of one length, shape ``(points,)``; `SmlabError` naming the series otherwise."""
    columns = tuple(floats(v) for v in values)
    lengths = [c.shape for c in columns]
    if len(set(lengths)) > 1 or columns[0].ndim != 1 or len(columns[0]) == 0:
        raise SmlabError.at(
            f"series {name!r}", "columns do not match", lengths, "one length, shape (points,)"
        )
    return columns

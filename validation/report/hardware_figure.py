"""The figure that matters most: published hardware measurements against simulated lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator
from numpy.typing import ArrayLike

from smlab.hw_bench.errors import SmlabError
from smlab.validation.report.style import (
    SOFT,
    columns_of,
    floats,
    label_ends,
    log2_axis,
    look,
    new_figure,
    powers_of_two,
    styled,
)


@dataclass(frozen=True)
class HardwareSeries:
    """One GPU and operation: published points, and what was simulated for them.

    ``lanes``, ``published``, ``low``, ``high`` and ``simulated`` are of shape ``(points,)``; ``fitted`` says
    which points took part in a fit. ``line_lanes`` and ``line_cycles`` may give the simulated line at more
    lanes than those.
    """

    label: str
    lanes: ArrayLike
    published: ArrayLike
    low: ArrayLike
    high: ArrayLike
    simulated: ArrayLike
    fitted: ArrayLike | None = None
    line_lanes: ArrayLike | None = None
    line_cycles: ArrayLike | None = None


@styled
def hardware_comparison(
    series: Sequence[HardwareSeries], *, predictors: Mapping[str, tuple[ArrayLike, ArrayLike]] | None = None
) -> Figure:
    """Published points with their error bars against simulated lines, and the relative error beneath.

    Points that took part in a fit are hollow, points that judge it are filled. ``predictors`` adds lines of
    others, as (lanes, cycles); their errors against the first series are drawn where they have its lanes.
    Both axes of the upper panel are logarithmic, so that equal distances are equal ratios.
    """
    if not series:
        raise SmlabError.at("hardware_comparison", "no series")
    fig = new_figure(5.2, 5.0)
    top, bottom = fig.subplots(2, 1, sharex=True, height_ratios=[2.4, 1])
    ends: list[tuple[float, str, str]] = []
    all_lanes, all_cycles, any_fitted = [], [], False
    for number, one in enumerate(series):
        drawn = look(number)
        lanes, published, simulated = columns_of(one.label, one.lanes, one.published, one.simulated)
        low, high = columns_of(one.label, one.low, one.high)
        fitted = np.zeros(len(lanes), dtype=bool)
        if one.fitted is not None:
            fitted |= np.asarray(one.fitted, dtype=bool)
        any_fitted |= bool(fitted.any())
        if one.line_lanes is None or one.line_cycles is None:
            line = lanes, simulated
        else:
            line = floats(one.line_lanes), floats(one.line_cycles)
        top.plot(*line, color=drawn.colour, ls=drawn.dash)
        bars = np.maximum(np.vstack([published - low, high - published]), 0.0)
        error = 100 * (simulated / published - 1)
        for which, face in ((fitted, "white"), (~fitted, drawn.colour)):
            point = {"color": drawn.colour, "mfc": face, "marker": drawn.marker, "ls": "none", "zorder": 3}
            top.errorbar(
                lanes[which], published[which], yerr=bars[:, which], capsize=2.5, elinewidth=1, **point
            )
            bottom.plot(lanes[which], error[which], **point)
        bottom.plot(lanes, error, color=drawn.colour, lw=0.9, ls=drawn.dash)
        ends.append((float(line[1][-1]), one.label, drawn.colour))
        all_lanes.append(lanes)
        all_cycles += [published, simulated]
    lanes, published = columns_of(series[0].label, series[0].lanes, series[0].published)
    for number, (name, (x, y)) in enumerate((predictors or {}).items(), start=len(series)):
        drawn = look(number)
        px, py = columns_of(name, x, y)
        top.plot(px, py, color=drawn.colour, ls=drawn.dash, marker=drawn.marker, ms=3.5)
        common, at, of = np.intersect1d(lanes, px, return_indices=True)
        bottom.plot(
            common,
            100 * (py[of] / published[at] - 1),
            color=drawn.colour,
            ls=drawn.dash,
            lw=0.9,
            marker=drawn.marker,
            ms=3.5,
        )
        ends.append((float(py[-1]), name, drawn.colour))
        all_cycles.append(py)
    ticks = np.unique(np.concatenate(all_lanes))
    log2_axis(top, ticks)
    log2_axis(bottom, ticks)
    cycles = np.concatenate(all_cycles)
    log2_axis(top, powers_of_two(float(np.min(cycles)), float(np.max(cycles))), "y")
    top.set_ylabel("Cycles per warp-instruction")
    bottom.set_ylabel("Error (%)")
    bottom.set_xlabel("Lanes on each word, N")
    _error_axis(bottom)
    _published_legend(fig, any_fitted)
    fig.draw_without_rendering()
    label_ends(top, ends)
    return fig


def _error_axis(ax: Axes) -> None:
    """Errors around zero: linear where all are small, logarithmic beyond 5 % where some are large."""
    ax.axhline(0, color=SOFT, lw=0.9)
    low, high = ax.get_ylim()
    worst = max(abs(low), abs(high))
    if worst > 25:
        low, high = min(1.3 * low, -6.0), max(1.3 * high, 6.0)
        ax.set_yscale("symlog", linthresh=5.0, linscale=0.8)
        ax.set_yticks([s * t for t in (0, 5, 25, 100, 400) for s in (-1, 1) if low <= s * t <= high])
        ax.yaxis.set_minor_locator(NullLocator())
        ax.set_ylim(low, high)
    else:
        ax.set_ylim(-worst, worst)
        ax.yaxis.set_major_locator(MaxNLocator(5))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:+g}".replace("-", "−") if v else "0"))


def _published_legend(fig: Figure, any_fitted: bool) -> None:
    handles = [
        Line2D([], [], color=SOFT, marker="o", ls="none", label="published, judging"),
        Line2D([], [], color=SOFT, marker="o", mfc="white", ls="none", label="published, fitted"),
        Line2D([], [], color=SOFT, label="simulated"),
    ]
    if not any_fitted:
        del handles[1]
    fig.legend(handles=handles, loc="outside upper left", ncols=3)

"""Figures that several studies share."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from smlab.validation.figure_style import INK, SOFT, floats, log2_axis, look, new_figure, styled
from smlab.validation.method.statistics import Interval


@dataclass(frozen=True)
class Line:
    """A line with intervals: its label, places on the x axis, and values."""

    label: str
    x: Sequence[float]
    values: Sequence[Interval]


@styled
def lines_with_bands(
    panels: Mapping[str, Sequence[Line]],
    x_label: str,
    y_label: str,
    *,
    log2: bool = False,
    limits: tuple[float, float] | None = None,
) -> Figure:
    """Lines with bands in panels side by side; the lines of all panels have the same labels."""
    fig = new_figure(max(4.2, 0.8 + 2.9 * len(panels)), 3.5)
    axes = fig.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for ax, (title, lines) in zip(axes, panels.items(), strict=True):
        for number, line in enumerate(lines):
            drawn = look(number)
            middle = [v.estimate for v in line.values]
            ax.plot(
                line.x, middle, color=drawn.colour, ls=drawn.dash, marker=drawn.marker, ms=4, label=line.label
            )
            low, high = ([getattr(v, end) for v in line.values] for end in ("low", "high"))
            ax.fill_between(line.x, low, high, color=drawn.colour, alpha=0.2, lw=0)
        if log2:
            ticks = [2.0**k for k in range(0, 1 + int(np.log2(max(max(line.x) for line in lines))))]
            log2_axis(ax, ticks)
        if limits is not None:
            ax.set_ylim(*limits)
        ax.set_title(textwrap.fill(title, 30), loc="left")
        ax.set_xlabel(x_label)
    axes[0].set_ylabel(y_label)
    handles, names = axes[0].get_legend_handles_labels()
    fig.legend(handles, names, loc="outside upper left", ncols=3)
    return fig


@styled
def dots(
    rows: Sequence[str],
    series: Mapping[str, Sequence[Interval | None]],
    x_label: str,
    *,
    neutral: float | None = None,
    width_in: float = 6.4,
) -> Figure:
    """A row for each thing compared and a dot with its interval for each series; ``neutral`` is where
    nothing changes."""
    fig = new_figure(width_in, 1.2 + (0.24 + 0.13 * len(series)) * len(rows))
    ax = fig.subplots()
    shifts = np.linspace(0.26, -0.26, len(series)) if len(series) > 1 else np.zeros(1)
    places = np.arange(len(rows))[::-1]
    for number, ((label, values), shift) in enumerate(zip(series.items(), shifts, strict=True)):
        drawn = look(number)
        known = [(y + shift, v) for y, v in zip(places, values, strict=True) if v is not None]
        ax.plot(
            [v.estimate for _, v in known],
            [y for y, _ in known],
            color=drawn.colour,
            marker=drawn.marker,
            ms=5,
            ls="none",
            label=label,
        )
        for y, v in known:
            if np.isfinite(v.low):
                ax.plot([v.low, v.high], [y, y], color=drawn.colour, lw=1.4)
    if neutral is not None:
        ax.axvline(neutral, color=INK, lw=0.8)
    for y in places[1:]:
        ax.axhline(y + 0.5, color=SOFT, lw=0.3)
    ax.set_yticks(places, [textwrap.fill(row, 34) for row in rows])
    ax.set_ylim(-0.6, len(rows) - 0.4)
    ax.grid(axis="y", visible=False)
    ax.set_xlabel(x_label)
    if len(series) > 1:
        fig.legend(loc="outside upper left", ncols=3)
    return fig


@styled
def scatter(
    x: ArrayLike, series: Mapping[str, ArrayLike], x_label: str, y_label: str, *, neutral: float | None = None
) -> Figure:
    """Points of a few predictors over the same x."""
    fig = new_figure(5.6, 3.6)
    ax = fig.subplots()
    for number, (label, values) in enumerate(series.items()):
        drawn = look(number)
        ax.scatter(
            floats(x),
            floats(values),
            s=9,
            marker=drawn.marker,
            color=drawn.colour,
            alpha=0.55,
            lw=0,
            label=label,
            rasterized=len(floats(x)) > 1500,
        )
    if neutral is not None:
        ax.axhline(neutral, color=INK, lw=0.8)
    ax.set_xlabel(x_label)
    ax.set_ylabel(y_label)
    fig.legend(loc="outside upper left", ncols=3, markerscale=1.6)
    return fig

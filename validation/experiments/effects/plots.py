"""The figures of a study over its factors: main effects, interactions, response against factor. `bars` has
the others.

Plain effects in, a matplotlib Figure out, in the style of `smlab.validation.report.style`. Whiskers and dark
bands are confidence intervals of what is drawn; pale bands say how the points themselves spread.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from smlab.validation.experiments.effects.curves import Curve
from smlab.validation.experiments.effects.points import FactorLevels
from smlab.validation.experiments.effects.results import LevelEffect
from smlab.validation.method.statistics import Interval
from smlab.validation.report.style import FAINT, SOFT, log2_axis, look, new_figure, styled

Floats = NDArray[np.float64]

PANELS_IN_A_ROW = 3


def panels(count: int, height_in: float = 2.3) -> tuple[Figure, list[Axes]]:
    """A figure of ``count`` panels, up to three in a row, that share the axis of the response."""
    wide = min(count, PANELS_IN_A_ROW)
    high = -(-count // wide)
    fig = new_figure(max(3.6, 0.7 + 2.3 * wide), 0.6 + height_in * high)
    axes = fig.subplots(high, wide, sharey=True, squeeze=False).ravel().tolist()
    for ax in axes[count:]:
        ax.set_visible(False)
    return fig, axes[:count]


def show_level(value: Any) -> str:
    """A level as it is printed on an axis."""
    return f"{value:.4g}" if isinstance(value, float) else f"{value}"


def level_axis(ax: Axes, factor: FactorLevels, levels: Sequence[Any]) -> Floats:
    """The places of the levels on the x axis, which gets its scale, ticks and label; names and few numbers
    stand evenly."""
    spread = factor.numeric and len(levels) > 1 and min(levels) > 0 and max(levels) / min(levels) >= 8
    if factor.numeric and spread:
        x = np.array(levels, dtype=np.float64)
        log2_axis(ax, list(levels) if len(levels) <= 6 else _round_ticks(float(x[0]), float(x[-1])))
    elif factor.numeric and len(levels) > 6:
        x = np.array(levels, dtype=np.float64)
        ax.xaxis.set_major_locator(MaxNLocator(4))
    else:
        x = np.arange(len(levels), dtype=np.float64)
        names = [textwrap.fill(show_level(v), 10) for v in levels]
        ax.set_xticks(x, names, rotation=0 if max(map(len, names)) * len(levels) < 26 else 30)
        ax.set_xlim(-0.4, len(levels) - 0.6)
    ax.set_xlabel(textwrap.fill(factor.label, 24))
    return x


def _round_ticks(low: float, high: float) -> list[float]:
    """Up to six powers of two, or of ten where the range is wide, from ``low`` to ``high``."""
    base = 2.0 if high / low < 100 else 10.0
    first, last = math.ceil(math.log(low, base) - 1e-9), math.floor(math.log(high, base) + 1e-9)
    powers = range(first, last + 1, max(1, -(-(last - first + 1) // 6)))
    return [base**k for k in powers]


@styled
def main_effects(
    effects: Sequence[Sequence[LevelEffect]], factors: Sequence[FactorLevels], response: str, unit: str = ""
) -> Figure:
    """The mean response by level, a panel for each factor, with its interval; a thin line marks the mean
    at the reference."""
    fig, axes = panels(len(factors))
    for ax, factor, levels in zip(axes, factors, effects, strict=True):
        x = level_axis(ax, factor, [e.level for e in levels])
        means = np.array([e.mean.estimate for e in levels])
        whiskers = _whiskers([e.mean for e in levels])
        drawn = look(0)
        ax.plot(
            x,
            means,
            color=drawn.colour,
            lw=1.2 if factor.numeric else 0.6,
            ls="-" if factor.numeric else (0, (1, 2)),
        )
        ax.errorbar(
            x,
            means,
            yerr=whiskers,
            color=drawn.colour,
            marker="o",
            ms=4,
            ls="none",
            capsize=2.5,
            elinewidth=1,
        )
        reference = [e.mean.estimate for e in levels if e.level == e.reference]
        if reference:
            ax.axhline(reference[0], color=SOFT, lw=0.7, ls=(0, (4, 3)))
    _label_response(axes, response, unit)
    return fig


@styled
def interactions(
    cells: Sequence[tuple[FactorLevels, FactorLevels, Floats, Floats, Floats]], response: str, unit: str = ""
) -> Figure:
    """Mean response over one factor, a line for each level of another: parallel lines mean that the two just
    add.

    ``cells`` holds (factor on the axis, factor of the lines, means, low, high), the three of shape (levels,
    lines).
    """
    count = len(cells)
    fig = new_figure(max(4.2, 0.6 + 3.1 * min(count, 2)), 0.5 + 3.0 * -(-count // 2))
    axes = fig.subplots(-(-count // 2), min(count, 2), squeeze=False, sharey=True).ravel().tolist()
    for ax, (across, lines, means, low, high) in zip(axes, cells, strict=False):
        x = level_axis(ax, across, across.levels)
        for k, level in enumerate(lines.levels):
            drawn = look(k)
            ax.plot(
                x,
                means[:, k],
                color=drawn.colour,
                ls=drawn.dash,
                marker=drawn.marker,
                ms=4,
                label=show_level(level),
            )
            if np.isfinite(low[:, k]).all():
                ax.fill_between(x, low[:, k], high[:, k], color=drawn.colour, alpha=0.18, lw=0)
        ax.legend(
            title=textwrap.fill(lines.label, 30),
            loc="lower left",
            bbox_to_anchor=(0.0, 1.0),
            ncols=3,
            fontsize=8,
            title_fontsize=8,
            alignment="left",
            columnspacing=1.0,
            handlelength=1.8,
        )
    for ax in axes[count:]:
        ax.set_visible(False)
    _label_response(axes[:count], response, unit, 2)
    return fig


@styled
def response_curves(curves: Sequence[Curve], response: str, unit: str = "") -> Figure:
    """The response against each factor: mean with its interval (dark band), and the middle 80 % of the
    points (pale band)."""
    fig, axes = panels(len(curves))
    for ax, curve in zip(axes, curves, strict=True):
        x = level_axis(ax, curve.factor, curve.levels)
        drawn = look(0)
        ax.fill_between(
            x, curve.tenth, curve.ninetieth, color=FAINT, alpha=0.9, lw=0, label="middle 80 % of the points"
        )
        known = np.isfinite(curve.low)
        if known.any():
            ax.fill_between(
                x,
                curve.low,
                curve.high,
                where=known,
                color=drawn.colour,
                alpha=0.3,
                lw=0,
                label="95 % of the mean",
            )
        ax.plot(x, curve.mean, color=drawn.colour, marker="o", ms=3, label="mean")
    _label_response(axes, response, unit)
    handles, names = axes[0].get_legend_handles_labels()
    fig.legend(handles, names, loc="outside upper left", ncols=3)
    return fig


def _whiskers(intervals: Sequence[Interval]) -> Floats | None:
    """Lengths below and above, shape (2, points); None where there are no intervals."""
    below = np.array([i.estimate - i.low for i in intervals])
    above = np.array([i.high - i.estimate for i in intervals])
    if not np.isfinite(below).all():
        return None
    whiskers: Floats = np.maximum(np.vstack([below, above]), 0.0)
    return whiskers


def _label_response(axes: Sequence[Axes], response: str, unit: str, in_a_row: int = PANELS_IN_A_ROW) -> None:
    low = min(ax.get_ylim()[0] for ax in axes)
    if low > 0 and low < 0.5 * axes[0].get_ylim()[1]:
        axes[0].set_ylim(bottom=0)
    for ax in axes[::in_a_row]:
        ax.set_ylabel(textwrap.fill(f"{response.replace('_', ' ')}{in_unit(unit)}", 30))


def in_unit(unit: str) -> str:
    """The unit in brackets, if there is one."""
    return f" ({unit})" if unit else ""

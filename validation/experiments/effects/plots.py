"""The figures of a study: main effects, interactions, response against factor, tornado, Sobol indices, rank
coefficients, and what pairing is worth.

Plain effects in, a matplotlib Figure out, in the style of `smlab.validation.figure_style`. Whiskers and dark
bands are confidence intervals of what is drawn; pale bands say how the points themselves spread.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from smlab.validation.experiments.effects.paired import mean_of, over_cells
from smlab.validation.experiments.effects.points import MAX_LEVELS, RATIOS, FactorLevels
from smlab.validation.experiments.effects.results import LevelEffect
from smlab.validation.experiments.effects.sensitivity import RankCoefficient, SobolIndex
from smlab.validation.figure_style import FAINT, INK, SOFT, log2_axis, look, new_figure, styled
from smlab.validation.method.statistics import Interval

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
            ax.plot(x, means[:, k], **drawn.marked_line, ms=4, label=show_level(level))
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


MAX_BARS = 16


@styled
def tornado(effects: Sequence[LevelEffect], response: str, *, as_ratio: bool, unit: str = "") -> Figure:
    """Each factor's levels against the base, one factor a row, the one that moves the response furthest on
    top.

    Bars run from the base to each level's ratio (or difference); whiskers are the intervals of the paired
    comparison.
    """
    rows: dict[str, list[tuple[Any, Interval]]] = {}
    for effect in effects:
        if effect.against is None:
            continue
        found = effect.against.ratio if as_ratio else effect.against.difference
        if found is not None:
            rows.setdefault(effect.factor, []).append((effect.level, found))
    neutral = 1.0 if as_ratio else 0.0
    reach = {name: max(abs(i.estimate - neutral) for _, i in levels) for name, levels in rows.items()}
    order = sorted(rows, key=lambda name: reach[name], reverse=True)
    hidden = len(order) - MAX_BARS
    order = order[:MAX_BARS]
    fig = new_figure(6.4, 0.9 + 0.42 * len(order))
    ax = fig.subplots()
    labels = {}
    for y, name in enumerate(reversed(order)):
        levels = sorted(rows[name], key=lambda item: item[1].estimate)
        labels[y] = textwrap.fill(_short(name), 30)
        for sign in (-1, 1):
            side = [item for item in levels if math.copysign(1, item[1].estimate - neutral) == sign]
            if not side:
                continue
            level, interval = side[0] if sign < 0 else side[-1]
            drawn = look(0 if sign < 0 else 1)
            ax.barh(y, interval.estimate - neutral, left=neutral, height=0.6, color=drawn.colour, alpha=0.85)
            if math.isfinite(interval.low):
                ax.plot([interval.low, interval.high], [y, y], color=INK, lw=1.2)
            # At the far end of the bar, outside the whisker.
            end = interval.estimate
            if math.isfinite(interval.low):
                end = min(end, interval.low) if sign < 0 else max(end, interval.high)
            ax.annotate(
                show_level(level),
                (end, y),
                xytext=(4 * sign, 0),
                textcoords="offset points",
                ha="left" if sign > 0 else "right",
                va="center",
                fontsize=8,
            )
    ax.axvline(neutral, color=INK, lw=0.8)
    ax.set_yticks(list(labels), list(labels.values()))
    ax.set_ylim(-0.6, len(order) - 0.4)
    ax.margins(x=0.16)
    ax.grid(axis="y", visible=False)
    what = (
        f"{response}, ratio to the base"
        if as_ratio
        else f"{response}, difference from the base{in_unit(unit)}"
    )
    ax.set_xlabel(what + (f"\n({hidden} smaller ones not drawn)" if hidden > 0 else ""))
    return fig


@styled
def sobol_bars(indices: Sequence[SobolIndex], response: str) -> Figure:
    """First-order and total index of each factor, and the largest pairs below; whiskers are bootstrap
    intervals."""
    single = sorted((i for i in indices if i.total is not None), key=lambda i: i.total.estimate, reverse=True)  # type: ignore[union-attr]
    pairs = sorted((i for i in indices if i.total is None), key=lambda i: i.index.estimate, reverse=True)
    rows = [*single[:MAX_BARS], *pairs[: max(0, min(6, MAX_BARS - len(single)))]]
    fig = new_figure(6.2, 1.1 + 0.44 * len(rows))
    ax = fig.subplots()
    labels = []
    first_look, total_look = look(0), look(1)
    for y, found in enumerate(reversed(rows)):
        labels.append(textwrap.fill(" × ".join(_short(f) for f in found.factors), 34))
        bars = [(found.index, first_look.colour, 0.2 if found.total else 0.0)]
        if found.total is not None:
            bars.append((found.total, total_look.colour, -0.2))
        for interval, colour, shift in bars:
            ax.barh(y + shift, interval.estimate, height=0.36, color=colour, alpha=0.85)
            ax.plot([interval.low, interval.high], [y + shift] * 2, color=INK, lw=1.1)
    ax.barh(0, 0, color=first_look.colour, label="alone (first order, or the pair)")
    ax.barh(0, 0, color=total_look.colour, label="with its interactions (total)")
    ax.set_yticks(range(len(rows)), labels)
    ax.set_ylim(-0.6, len(rows) - 0.4)
    ax.axvline(0, color=INK, lw=0.8)
    ax.grid(axis="y", visible=False)
    ax.set_xlabel(f"Share of the variance of {response}")
    fig.legend(loc="outside upper left", ncols=2)
    return fig


@styled
def rank_bars(ranks: Sequence[RankCoefficient], response: str) -> Figure:
    """Standardised rank coefficients, largest first, with bootstrap intervals."""
    rows = sorted(ranks, key=lambda r: abs(r.coefficient.estimate), reverse=True)[:MAX_BARS]
    fig = new_figure(5.6, 1.0 + 0.36 * len(rows))
    ax = fig.subplots()
    for y, found in enumerate(reversed(rows)):
        value = found.coefficient
        ax.barh(y, value.estimate, height=0.6, color=look(0 if value.estimate < 0 else 1).colour, alpha=0.85)
        ax.plot([value.low, value.high], [y, y], color=INK, lw=1.2)
    ax.set_yticks(range(len(rows)), [textwrap.fill(_short(r.factor), 30) for r in reversed(rows)])
    ax.axvline(0, color=INK, lw=0.8)
    ax.grid(axis="y", visible=False)
    ax.set_xlabel(f"Standardised rank coefficient of {response} (R² {rows[0].r_squared:.2f})")
    return fig


def _short(name: str) -> str:
    return FactorLevels(name, None, ()).label


BINS = 12


@dataclass(frozen=True)
class Curve:
    """A response by level of ``factor``; all arrays of shape ``(levels,)``.

    ``mean`` with its interval ``low`` to ``high`` (NaN from a single value), the tenth and ninetieth
    percentile of the points and their ``count``. Levels of a factor with many values are the middles of bins
    of equal numbers of points.
    """

    factor: FactorLevels
    levels: tuple[Any, ...]
    mean: Floats
    low: Floats
    high: Floats
    tenth: Floats
    ninetieth: Floats
    count: NDArray[np.int64]


def curve(
    factor: FactorLevels, frame: pd.DataFrame, response: str, *, drawn: bool, level: float = 0.95
) -> Curve:
    """The response against one factor, over all rows that have a value.

    Where the points are ``drawn`` (random, Sobol), the interval of a mean is over the points; else over the
    replications, since the points of a grid are no sample.
    """
    known = frame[np.isfinite(frame[response].to_numpy(dtype=np.float64))]
    column = known[factor.name]
    if factor.numeric and len(factor.levels) > MAX_LEVELS:
        x = column.to_numpy(dtype=np.float64)
        edges = np.unique(np.quantile(x, np.linspace(0, 1, BINS + 1)))
        place = np.clip(np.searchsorted(edges, x, side="right") - 1, 0, len(edges) - 2)
        groups = [known[place == k] for k in range(len(edges) - 1)]
        groups = [g for g in groups if len(g)]
        levels = tuple(float(np.median(g[factor.name])) for g in groups)
        values = [g[response].to_numpy(dtype=np.float64) for g in groups]
    else:
        present = [v for v in factor.levels if (column == v).any()]
        levels = tuple(present)
        groups = [known[(column == v).to_numpy()] for v in present]
        values = [_of_mean(g, response, drawn) for g in groups]
    intervals = [mean_of(v, level, geometric=response in RATIOS) for v in values]
    spread = [np.percentile(g[response].to_numpy(dtype=np.float64), [10, 90]) for g in groups]
    return Curve(
        replace(factor, levels=levels),
        levels,
        np.array([i.estimate for i in intervals]),
        np.array([i.low for i in intervals]),
        np.array([i.high for i in intervals]),
        np.array([s[0] for s in spread]),
        np.array([s[1] for s in spread]),
        np.array([len(g) for g in groups], dtype=np.int64),
    )


def _of_mean(group: pd.DataFrame, response: str, drawn: bool) -> Floats:
    """The values whose mean is drawn: points, or the means of the replications."""
    if drawn:
        return np.asarray(group[response], dtype=np.float64)
    parts = (part.to_numpy(dtype=np.float64) for _, part in group.groupby("replication")[response])
    return np.array([over_cells(part[None], geometric=response in RATIOS)[0] for part in parts])

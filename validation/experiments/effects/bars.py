"""Bars and dots of a study: tornado, Sobol indices, rank coefficients, and what pairing is worth.

As in `plots`, whiskers are confidence intervals of what is drawn.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from smlab.validation.experiments.effects.plots import in_unit, show_level
from smlab.validation.experiments.effects.points import FactorLevels
from smlab.validation.experiments.effects.results import LevelEffect
from smlab.validation.experiments.effects.sensitivity import RankCoefficient, SobolIndex
from smlab.validation.method.statistics import Interval
from smlab.validation.report.style import FAINT, INK, look, new_figure, styled

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


@styled
def pairing(paired: Mapping[str, tuple[float, float]], response: str, unit: str = "") -> Figure:
    """Half widths of the interval of a difference, paired (same random numbers) and independent, a row a
    comparison.

    ``paired`` gives for each comparison (half width paired, half width independent), both above 0.
    """
    fig = new_figure(6.8, 1.2 + 0.42 * len(paired))
    ax = fig.subplots()
    for y, (own, independent) in enumerate(reversed(list(paired.values()))):
        ax.plot([own, independent], [y, y], color=FAINT, lw=2)
        for value, number, label in ((own, 0, "same random numbers"), (independent, 1, "independent runs")):
            drawn = look(number)
            ax.plot(
                [value],
                [y],
                color=drawn.colour,
                marker=drawn.marker,
                ls="none",
                label=label if y == 0 else None,
            )
        ax.annotate(
            _times(independent / own),
            (max(own, independent), y),
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
        )
    ax.set_xscale("log")
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    ax.set_yticks(range(len(paired)), [textwrap.fill(name, 38) for name in reversed(list(paired))])
    ax.set_ylim(-0.6, len(paired) - 0.4)
    ax.margins(x=0.3)
    ax.set_xlabel(f"Half width of the 95 % interval of a difference of {response}{in_unit(unit)}")
    fig.legend(loc="outside upper left", ncols=2)
    return fig


def _times(ratio: float) -> str:
    """How many runs a ratio of half widths is worth, in words."""
    runs = ratio**2
    if runs < 1.05:
        return "no gain"
    return f"{runs:,.1f} × fewer runs" if runs < 10 else f"{runs:,.0f} × fewer runs"


def _short(name: str) -> str:
    return FactorLevels(name, None, ()).label

"""The figures of the reports: plain arrays in, a matplotlib Figure out. Nothing is drawn on a screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator
from numpy.typing import ArrayLike, NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.validation.figure_style import (
    FAINT,
    INK,
    SOFT,
    columns_of,
    floats,
    label_ends,
    legend_above,
    log2_axis,
    look,
    new_figure,
    powers_of_two,
    styled,
)

FloatArray = NDArray[np.float64]

MAX_ROWS = 5
MAX_COLUMNS = 5
TALLEST = 2.0
"""How much further than the truth a scatter of estimates reaches."""
LIMIT = 100.0
"""What no utilization can exceed, in %."""
MANY_POINTS = 2000
"""Above this many points a scatter is drawn as pixels within the SVG."""


@styled
def service_time_grid(
    n_values: ArrayLike,
    e_values: ArrayLike,
    service: ArrayLike,
    *,
    c_values: ArrayLike | None = None,
    show: tuple[Sequence[int] | None, Sequence[int] | None] = (None, None),
) -> Figure:
    """Simulated service time S = T / n over c: small multiples, a row for each n, a column for each e.

    ``service`` is of shape ``(n, e, c)`` in cycles, NaN where c > n; ``c_values`` default to 0, 1, 2, ... At
    most five rows and columns are shown unless ``show`` names the values of n and of e, and the figure says
    how many it leaves out. All panels share the axis of S, logarithmic where the values differ more than
    eightfold; those of a row share the axis of c.
    """
    n_all, e_all, s = floats(n_values), floats(e_values), floats(service)
    c = np.arange(s.shape[2], dtype=np.float64) if c_values is None else floats(c_values)
    if s.shape != (len(n_all), len(e_all), len(c)):
        raise SmlabError.at("service times", "wrong shape", s.shape, "(n, e, c)")
    rows, columns = _pick(n_all, show[0], MAX_ROWS, "n"), _pick(e_all, show[1], MAX_COLUMNS, "e")
    shown = s[np.ix_(rows, columns)]
    lowest, highest = float(np.nanmin(shown)), float(np.nanmax(shown))
    logarithmic = lowest > 0 and highest > 8 * lowest
    fig = new_figure(1.0 + 1.28 * len(columns), 0.75 + 1.12 * len(rows))
    axes = fig.subplots(len(rows), len(columns), sharey=True, sharex="row", squeeze=False)
    for r, i in enumerate(rows):
        for k, j in enumerate(columns):
            ax = axes[r, k]
            known = np.isfinite(s[i, j])
            marker = "o" if np.count_nonzero(known) <= 12 else ""
            ax.plot(c[known], s[i, j, known], **look(0).line, lw=1.3, marker=marker, ms=2.8)
            ax.xaxis.set_major_locator(MaxNLocator(3, integer=True))
            if logarithmic:
                log2_axis(ax, powers_of_two(lowest, highest)[::2], "y")
            if r == 0:
                ax.set_title(f"e = {e_all[j]:g}")
            if k == len(columns) - 1:
                ax.annotate(
                    f"n = {n_all[i]:g}",
                    (1.04, 0.5),
                    xycoords="axes fraction",
                    rotation=-90,
                    ha="left",
                    va="center",
                )
    if logarithmic:
        axes[0, 0].set_ylim(lowest / 1.4, highest * 1.4)
    else:
        axes[0, 0].set_ylim(bottom=0)
    part = ""
    if len(rows) < len(n_all) or len(columns) < len(e_all):
        few_n = f"{len(rows)} of {len(n_all)} values of n"
        few_e = f"{len(columns)} of {len(e_all)} values of e"
        part = f"\n({few_n} and {few_e} shown)"
    fig.supxlabel(f"c: compare-and-swap jobs among the n{part}", fontsize=10)
    fig.supylabel("S = T / n (cycles per job)", fontsize=10)
    return fig


@styled
def estimate_against_truth(truth: ArrayLike, estimates: Mapping[str, ArrayLike]) -> Figure:
    """Estimated over true utilization in %, shape ``(cases,)`` each, with y = x and a band of 10 % to either
    side.

    Both axes have one scale. Estimates above `LIMIT` are ringed and counted. Those beyond `TALLEST` times the
    greatest truth are drawn at the upper edge, and the axis says how many they are and how high they reach.
    """
    t = floats(truth)
    columns = {name: columns_of(name, t, values)[1] for name, values in estimates.items()}
    right = 1.05 * max(float(np.max(t)), 1e-12)
    highest = max(float(np.max(v)) for v in columns.values())
    top = min(1.05 * max(float(np.max(t)), highest), TALLEST * right)
    beyond = sum(int(np.count_nonzero(v > top)) for v in columns.values())
    columns = {name: np.minimum(v, top) for name, v in columns.items()}
    fig = new_figure(4.2, 0.8 + 0.2 * (len(columns) + 1) + 3.4 * top / right)
    ax = fig.subplots()
    x = np.array([0.0, right])
    ax.fill_between(x, 0.9 * x, 1.1 * x, color=FAINT, alpha=0.6, lw=0, label="within 10 %")
    ax.plot(x, x, color=SOFT, lw=0.9)
    above_any = False
    for number, (name, values) in enumerate(columns.items()):
        drawn = look(number)
        above = values > LIMIT + 1e-9
        text = f"{name} ({np.count_nonzero(above)} above {LIMIT:g} %)" if above.any() else name
        ax.scatter(
            t,
            values,
            s=14,
            marker=drawn.marker,
            color=drawn.colour,
            alpha=0.75,
            lw=0,
            label=text,
            clip_on=False,
            rasterized=len(t) > MANY_POINTS,
        )
        ax.scatter(t[above], values[above], s=38, facecolors="none", edgecolors=INK, lw=0.5, clip_on=False)
        above_any |= bool(above.any())
    if above_any:
        ax.axhline(LIMIT, color=INK, lw=0.8, ls=(0, (4, 3)))
    ax.set_xlim(0, right)
    ax.set_ylim(0, top)
    ax.set_aspect("equal")
    ticks = MaxNLocator(6).tick_values(0, top)
    ax.set_xticks([v for v in ticks if v <= right])
    ax.set_yticks([v for v in ticks if v <= top])
    ax.set_xlabel("True utilization (%)")
    outside = f"; {beyond} beyond, up to {highest:.0f}" if beyond else ""
    ax.set_ylabel(f"Estimated utilization (%){outside}")
    legend_above(ax, columns=1)
    return fig


@styled
def error_by_regime(
    errors: Mapping[str, Mapping[str, ArrayLike]],
    *,
    unit: str = "%",
    bounds: Sequence[float] = (5.0, 10.0, 25.0),
) -> Figure:
    """The share of cases whose absolute error is at most x: one panel for each regime, one line for each
    predictor.

    ``errors`` is ``{regime: {predictor: absolute errors of its cases}}``. Steeper and further left is better.
    The axis of errors is linear up to 1 and logarithmic above; ``bounds`` are drawn as thin lines.
    """
    if not errors:
        raise SmlabError.at("error_by_regime", "no regimes")
    predictors = list(dict.fromkeys(name for by_name in errors.values() for name in by_name))
    panels = len(errors)
    wide = min(panels, 3)
    high = -(-panels // wide)
    fig = new_figure(max(4.8, 0.6 + 2.3 * wide), 0.9 + 2.3 * high + 0.22 * -(-len(predictors) // 2))
    axes = fig.subplots(high, wide, sharex=True, sharey=True, squeeze=False).ravel()
    worst = max(float(np.max(floats(v))) for by_name in errors.values() for v in by_name.values())
    right = max(1.3 * worst, 2.0)
    for ax, (regime, by_name) in zip(axes, errors.items(), strict=False):
        for bound in bounds:
            ax.axvline(bound, color=SOFT, lw=0.6, ls=(0, (1, 2)))
        count = 0
        for name, values in by_name.items():
            drawn = look(predictors.index(name))
            e = np.sort(np.abs(floats(values)))
            count = max(count, len(e))
            share = 100 * np.arange(len(e) + 1) / len(e)
            ax.step(np.r_[0, e, right], np.r_[share, 100], where="post", **drawn.line, label=name)
        ax.set_xscale("symlog", linthresh=1.0, linscale=0.5)
        ax.set_xlim(0, right)
        ax.set_ylim(0, 102)
        ticks = [t for t in (0, 1, 5, 25, 100, 500, 2500, 10000) if t <= right]
        ax.set_xticks(ticks, [f"{t:g}" for t in ticks])
        ax.xaxis.set_minor_locator(NullLocator())
        ax.set_title(f"{regime} ({count} cases)", loc="left")
    for ax in axes[panels:]:
        ax.set_visible(False)
    lowest = max(panels - wide, 0)  # the first that is the lowest of its column, an empty place below or not
    for ax in axes[lowest:panels]:
        ax.tick_params(labelbottom=True)
    fig.supxlabel(f"Absolute error ({unit})", fontsize=10)
    fig.supylabel("Cases with at most that error (%)", fontsize=10)
    handles = [Line2D([], [], **look(i).line, label=name) for i, name in enumerate(predictors)]
    fig.legend(handles=handles, loc="outside upper left", ncols=2)
    return fig


@styled
def sensitivity(
    latency_cycles: ArrayLike,
    service: Mapping[str, ArrayLike],
    *,
    adopted: float | None = None,
    source: str = "adopted",
) -> Figure:
    """How far answers hang on an assumed parameter: one line for each case, over the parameter's plausible
    range.

    ``adopted`` marks the value used elsewhere. A flat line means that the assumption does not matter there;
    the range beside each label is the largest value over the smallest, less one.
    """
    x = floats(latency_cycles)
    fig = new_figure(5.2, 3.6)
    ax = fig.subplots()
    ends = []
    for number, (name, values) in enumerate(service.items()):
        drawn = look(number)
        _, y = columns_of(name, x, values)
        ax.plot(x, y, **drawn.marked_line, ms=3.5)
        largest = f" (range\u00a0{100 * (np.max(y) / np.min(y) - 1):.0f}\u00a0%)" if np.min(y) > 0 else ""
        ends.append((float(y[-1]), f"{name}{largest}", drawn.colour))
    ax.set_ylim(bottom=0)
    if adopted is not None:
        ax.axvline(adopted, color=INK, lw=0.8, ls=(0, (4, 3)))
        ax.annotate(
            f"{source}: {adopted:g}",
            (adopted, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(3, 2),
            textcoords="offset points",
            ha="left",
            va="bottom",
            fontsize=9,
        )
    ax.set_xlabel("Pipeline latency (cycles), assumed")
    ax.set_ylabel("S (cycles per job)")
    fig.draw_without_rendering()
    label_ends(ax, ends)
    return fig


@styled
def mva_against_simulation(
    customers: ArrayLike,
    mva: Mapping[str, ArrayLike],
    simulated: Mapping[str, ArrayLike],
    low: Mapping[str, ArrayLike],
    high: Mapping[str, ArrayLike],
) -> Figure:
    """Quantities over the population: exact mean value analysis as lines, simulation as points with
    intervals.

    The keys of the four mappings are the quantities, one panel each, in the order of ``mva``: ``throughput``
    and ``queue_length``.
    """
    x = floats(customers)
    names = {"throughput": "Throughput (jobs per cycle)", "queue_length": "Mean queue length (jobs)"}
    fig = new_figure(4.8 if len(mva) < 2 else 7.2, 3.4)
    axes = fig.subplots(1, len(mva), squeeze=False)[0]
    for ax, (quantity, expected) in zip(axes, mva.items(), strict=True):
        missing = [m for m in (simulated, low, high) if quantity not in m]
        if missing:
            raise SmlabError.at("mva_against_simulation", "no simulated values or intervals", quantity)
        _, line, points = columns_of(quantity, x, expected, simulated[quantity])
        below, above = columns_of(quantity, low[quantity], high[quantity])
        ax.plot(x, line, color=look(0).colour, label="exact MVA")
        bars = np.maximum(np.vstack([points - below, above - points]), 0.0)
        ax.errorbar(
            x,
            points,
            yerr=bars,
            color=look(1).colour,
            marker="o",
            ms=4,
            ls="none",
            capsize=2.5,
            elinewidth=1,
            label="simulated, 95 % interval",
        )
        ax.set_ylim(bottom=0)
        ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        ax.set_xlabel("Population (jobs)")
        ax.set_ylabel(names.get(quantity, quantity))
    handles, texts = axes[0].get_legend_handles_labels()
    fig.legend(handles, texts, loc="outside upper left", ncols=2)
    return fig


def _pick(values: FloatArray, wanted: Sequence[int] | None, most: int, name: str) -> list[int]:
    """Indices of the values to show: those asked for, or at most ``most``, in even ratios, powers of two
    first.
    """
    if wanted is None:
        if len(values) <= most:
            return list(range(len(values)))
        powers = [i for i, v in enumerate(values) if v > 0 and float(np.log2(v)).is_integer()]
        if len(powers) >= most:
            return [powers[round(k)] for k in np.linspace(0, len(powers) - 1, most)]
        spread = np.geomspace if values[0] > 0 else np.linspace
        return sorted({int(np.argmin(np.abs(values - v))) for v in spread(values[0], values[-1], most)})
    out = []
    for value in wanted:
        found = np.flatnonzero(values == value)
        if len(found) == 0:
            raise SmlabError.at("service_time_grid", f"no such {name} in the table", value)
        out.append(int(found[0]))
    return out


@dataclass(frozen=True)
class HardwareSeries:
    """One GPU and operation: published points, and what was simulated for them.

    ``lanes``, ``published``, ``low``, ``high`` and ``simulated`` are of shape ``(points,)``; ``fitted`` says
    which points took part in a fit.
    """

    label: str
    lanes: ArrayLike
    published: ArrayLike
    low: ArrayLike
    high: ArrayLike
    simulated: ArrayLike
    fitted: ArrayLike | None = None


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
        top.plot(lanes, simulated, **drawn.line)
        bars = np.maximum(np.vstack([published - low, high - published]), 0.0)
        error = 100 * (simulated / published - 1)
        for which, face in ((fitted, "white"), (~fitted, drawn.colour)):
            point = {"color": drawn.colour, "mfc": face, "marker": drawn.marker, "ls": "none", "zorder": 3}
            top.errorbar(
                lanes[which], published[which], yerr=bars[:, which], capsize=2.5, elinewidth=1, **point
            )
            bottom.plot(lanes[which], error[which], **point)
        bottom.plot(lanes, error, **drawn.line, lw=0.9)
        ends.append((float(simulated[-1]), one.label, drawn.colour))
        all_lanes.append(lanes)
        all_cycles += [published, simulated]
    lanes, published = columns_of(series[0].label, series[0].lanes, series[0].published)
    for number, (name, (x, y)) in enumerate((predictors or {}).items(), start=len(series)):
        drawn = look(number)
        px, py = columns_of(name, x, y)
        top.plot(px, py, **drawn.marked_line, ms=3.5)
        common, at, of = np.intersect1d(lanes, px, return_indices=True)
        bottom.plot(common, 100 * (py[of] / published[at] - 1), **drawn.marked_line, lw=0.9, ms=3.5)
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

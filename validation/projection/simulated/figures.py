"""The figures of the roofline judge: one row a regime, one point a kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from smlab.hw_bench.profiles.kernel_work import Floats
from smlab.validation.report.style import FAINT, INK, SOFT, look, new_figure, styled

_ROW_IN = 0.34
_JITTER = 0.32


@styled
def shares_of_ceilings(
    regimes: Sequence[str], of_bound: Mapping[str, Floats], of_published: Mapping[str, Floats]
) -> Figure:
    """How much of its bound, and of its published ceilings, each kernel reaches; a series for each GPU.

    ``regimes`` (kernels,) and each series (kernels,), 1 = exactly at the ceiling. Both panels share a
    logarithmic axis in per cent; beyond 100 % the ground is grey.
    """
    names = list(dict.fromkeys(regimes))
    fig = new_figure(7.2, 1.3 + _ROW_IN * len(names))
    axes = fig.subplots(1, 2, sharey=True, sharex=True)
    highest = max(float(np.max(v)) for m in (of_bound, of_published) for v in m.values())
    for ax, series, title in (
        (axes[0], of_bound, "Bounds: one resource at a time"),
        (axes[1], of_published, "Published ceilings: Eq. 3, 6 to 8"),
    ):
        _strips(ax, names, regimes, {k: 100 * np.maximum(v, 0.01) for k, v in series.items()})
        ax.axvspan(100, 400, color=FAINT, alpha=0.7, lw=0, zorder=0)
        ax.axvline(100, color=INK, lw=0.9)
        ax.set_title(title, loc="left")
        ax.set_xlim(1, max(130.0, 115 * highest))
        ax.xaxis.set_major_locator(FixedLocator([1, 3, 10, 30, 100, 300]))
    fig.supxlabel("Reached of the ceiling (%, logarithmic)", fontsize=10)
    _legend(fig, list(of_bound))
    return fig


@styled
def predicted_over_actual(regimes: Sequence[str], ratios: Mapping[str, Mapping[str, Floats]]) -> Figure:
    """Predicted over actual time, a panel for each method, a series for each direction: ``{method:
    {direction: (kernels,)}}``."""
    names = list(dict.fromkeys(regimes))
    fig = new_figure(2.6 + 2.3 * len(ratios), 1.3 + _ROW_IN * len(names))
    axes = fig.subplots(1, len(ratios), sharey=True, sharex=True, squeeze=False)[0]
    for ax, (method, series) in zip(axes, ratios.items(), strict=True):
        _strips(ax, names, regimes, {k: np.clip(v, 0.24, 4.2) for k, v in series.items()})
        ax.axvspan(0.9, 1.1, color=FAINT, alpha=0.9, lw=0, zorder=0)
        ax.axvline(1, color=INK, lw=0.9)
        ax.set_title(method, loc="left")
        ax.set_xlim(0.24, 4.2)
        ax.xaxis.set_major_locator(FixedLocator([0.25, 0.5, 1, 2, 4]))
    outside = sum(int(np.sum((v < 0.24) | (v > 4.2))) for s in ratios.values() for v in s.values())
    beyond = f"; {outside} beyond the edges" if outside else ""
    fig.supxlabel(f"Predicted / simulated time (logarithmic; grey: within 10 %{beyond})", fontsize=10)
    _legend(fig, list(next(iter(ratios.values()))))
    return fig


def _strips(ax: Axes, names: list[str], regimes: Sequence[str], series: Mapping[str, Floats]) -> None:
    rows = np.array([names.index(regime) for regime in regimes], dtype=np.float64)
    shift = (np.modf(np.arange(len(rows)) * 0.618)[0] - 0.5) * _JITTER
    count = len(series)
    for number, values in enumerate(series.values()):
        drawn = look(number)
        offset = (number - (count - 1) / 2) * 0.36
        ax.scatter(
            values, rows + offset + shift, s=7, marker=drawn.marker, color=drawn.colour, alpha=0.6, lw=0
        )
        for row in range(len(names)):
            middle = float(np.median(values[rows == row]))
            ax.plot([middle] * 2, [row + offset - 0.2, row + offset + 0.2], color=drawn.colour, lw=2.2)
    for row in range(1, len(names)):
        ax.axhline(row - 0.5, color=FAINT, lw=0.6)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_yticks(range(len(names)), names)
    ax.tick_params(axis="y", length=0)
    ax.grid(visible=False, axis="y")
    ax.set_xscale("log")
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))


def _legend(fig: Figure, names: list[str]) -> None:
    handles = [
        Line2D([], [], color=look(i).colour, marker=look(i).marker, ms=4, ls="none", label=name)
        for i, name in enumerate(names)
    ]
    handles.append(Line2D([], [], color=SOFT, lw=2.2, label="median"))
    fig.legend(handles=handles, loc="outside upper left", ncols=len(handles))

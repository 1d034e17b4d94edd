"""The cascade plot of ``smlab port`` (Sewall et al. 2020): efficiencies from the best platform to the
worst."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from smlab.commands.plots import write_figure
from smlab.hw_bench.sass.linking import readable_name
from smlab.models.portability.metric import cascade
from smlab.validation.figure_style import DASHES, MARKERS, PALETTE, legend_above, new_figure, styled

Floats = NDArray[np.float64]


def draw_cascade(
    efficiencies: Floats, kernels: Sequence[str], platforms: Sequence[str], path: Path
) -> list[Path]:
    """Draw it and write the picture and its data; the files written."""
    order, falling, metric = cascade(efficiencies)
    rows = [
        (kernel, place + 1, platforms[order[row, place]], falling[row, place], metric[row, place])
        for row, kernel in enumerate(kernels)
        for place in range(falling.shape[1])
    ]
    header = ("kernel", "place", "platform", "efficiency", "portability_so_far")
    return write_figure(cascade_figure(efficiencies, kernels, platforms), path, header, rows)


MOST_NAMED: Final = 8
"""Kernels whose platforms are named below the places; of more the table beside the picture tells."""
_LINE_POINTS: Final = 10.0


def _name_places(ax: Axes, kernels: int, platforms: Sequence[str], order: NDArray[np.int64]) -> None:
    """Each kernel's platform at each place, a line a kernel in its colour."""
    for row in range(kernels):
        for place in range(order.shape[1]):
            ax.annotate(
                platforms[order[row, place]],
                (place + 1, 0),
                (0, -16 - _LINE_POINTS * row),
                textcoords="offset points",
                ha="center",
                va="top",
                fontsize=7,
                color=PALETTE[row % len(PALETTE)],
                annotation_clip=False,
            )
    ax.xaxis.labelpad = 4 + _LINE_POINTS * kernels


@styled
def cascade_figure(efficiencies: Floats, kernels: Sequence[str], platforms: Sequence[str]) -> Figure:
    """A line for each kernel's efficiencies, a dashed one for the metric over the platforms so far; below,
    which platform each place is, where the kernels are few."""
    order, falling, metric = cascade(efficiencies)
    named = len(kernels) if len(kernels) <= MOST_NAMED else 0
    fig = new_figure(6.0, 3.6 + _LINE_POINTS / 72 * named)
    ax = fig.subplots()
    places = np.arange(1, falling.shape[1] + 1)
    for row, kernel in enumerate(kernels):
        colour, marker = PALETTE[row % len(PALETTE)], MARKERS[row % len(MARKERS)]
        ax.plot(places, falling[row], color=colour, marker=marker, label=readable_name(kernel, 30))
        ax.plot(places, metric[row], color=colour, linestyle=DASHES[1])
    ax.set(ylim=(0, 1.05), xticks=places, xlabel="platforms, each kernel's best first")
    if named:
        _name_places(ax, len(kernels), platforms, order)
    ax.set_ylabel("application efficiency; dashed: PP so far")
    legend_above(ax)
    return fig

"""The cascade plot of ``smlab port`` (Sewall et al. 2020): efficiencies from the best platform to the
worst."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from smlab.commands.plots import write_figure
from smlab.commands.port.result import PortResult
from smlab.commands.roofline.rows import short_name
from smlab.models.portability.metric import cascade
from smlab.validation.report.style import DASHES, MARKERS, PALETTE, legend_above, new_figure, styled


def draw_cascade(result: PortResult, path: Path) -> list[Path]:
    """Draw it and write the picture and its data; the files written."""
    order, falling, metric = cascade(result.portability.efficiencies)
    rows = [
        (kernel, place + 1, result.platforms[order[row, place]], falling[row, place], metric[row, place])
        for row, kernel in enumerate(result.kernels)
        for place in range(falling.shape[1])
    ]
    header = ("kernel", "place", "platform", "efficiency", "portability_so_far")
    return write_figure(cascade_figure(result), path, header, rows)


@styled
def cascade_figure(result: PortResult, *, width_in: float = 6.0) -> Figure:
    """A line for each kernel's efficiencies, a dashed one for the metric over the platforms so far."""
    _, falling, metric = cascade(result.portability.efficiencies)
    fig = new_figure(width_in, 3.6)
    ax = fig.subplots()
    places = np.arange(1, falling.shape[1] + 1)
    for row, kernel in enumerate(result.kernels):
        colour, marker = PALETTE[row % len(PALETTE)], MARKERS[row % len(MARKERS)]
        ax.plot(places, falling[row], color=colour, marker=marker, label=short_name(kernel, 30))
        ax.plot(places, metric[row], color=colour, linestyle=DASHES[1])
    ax.set(ylim=(0, 1.05), xticks=places, xlabel="platforms, each kernel's best first")
    ax.set_ylabel("application efficiency; dashed: PP so far")
    legend_above(ax)
    return fig

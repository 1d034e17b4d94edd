"""The picture of ``smlab utilization --plot`` and of a result's ``plot()``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from smlab.commands.plots import write_figure
from smlab.commands.utilization.rows import KernelRow, launches
from smlab.hw_bench.sass.linking import readable_name
from smlab.validation.figure_style import look, new_figure, styled


@styled
def utilization_figure(profiles: Mapping[str, Sequence[KernelRow]]) -> Figure:
    """Utilization with its interval, by kernel (each launch beside the other, the mean over its SMs); one
    colour a profile. ``profiles`` are the rows of each, by the name that the legend shows."""
    kernels = list(dict.fromkeys(row.kernel for rows in profiles.values() for row in rows))
    fig = new_figure(6.4, 1.4 + 0.5 * max(1, len(kernels)))
    ax = fig.subplots()
    for number, (name, all_rows) in enumerate(profiles.items()):
        drawn = look(number)
        for place, kernel in enumerate(kernels):
            rows = [row for row in launches(all_rows) if row.kernel == kernel]
            width = 0.7 / len(profiles)
            top = place - 0.35 + width * number
            for i, row in enumerate(rows):
                y = top + width * (i + 0.5) / len(rows)
                ax.plot([100 * row.low, 100 * row.high], [y, y], color=drawn.colour, lw=2.0, alpha=0.6)
                ax.plot(100 * row.utilization, y, drawn.marker, color=drawn.colour, ms=3.5)
        ax.plot([], [], drawn.marker, color=drawn.colour, label=name)
    ax.set_yticks(range(len(kernels)), [readable_name(k, 36) for k in kernels])
    ax.set_ylim(len(kernels) - 0.5, -0.5)
    ax.set_xlim(0, 101)
    ax.set_xlabel("Atomic unit busy (% of elapsed cycles; bars: 90 % intervals)")
    fig.legend(loc="outside upper left", ncols=2)
    return fig


def draw(profiles: Mapping[str, Sequence[KernelRow]], path: Path) -> list[Path]:
    """The picture and, beside it, its data by SM; the files written."""
    header = ("profile", "kernel", "launch", "sm", "low", "utilization", "high", "verdict")
    rows = [
        (name, r.kernel, r.launch, r.sm, r.low, r.utilization, r.high, r.verdict)
        for name, of_profile in profiles.items()
        for r in of_profile
    ]
    return write_figure(utilization_figure(profiles), path, header, rows)

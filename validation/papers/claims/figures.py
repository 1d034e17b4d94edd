"""The figure of the ledger: Coyne's differences of run time beside what counting the blocks on each SM
gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from smlab.validation.papers.claims.published import GridTable
from smlab.validation.report.style import SOFT, log2_axis, look, new_figure, styled

TICKS = (8, 32, 128, 512)


@styled
def blocks_on_each_sm(tables: Sequence[GridTable], rule: Mapping[int, float]) -> Figure:
    """Small multiples, a table each: steady difference in % over the blocks of the grid, and the
    ``rule``'s by blocks."""
    columns = 2
    rows = -(-len(tables) // columns)
    fig = new_figure(6.4, 1.7 * rows + 0.9)
    axes = fig.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    style = look(0)
    for i, table in enumerate(tables):
        ax = axes[i // columns][i % columns]
        ax.axhline(0, color=SOFT, linewidth=0.8)
        (line,) = ax.step(list(rule), list(rule.values()), where="mid", color=look(1).colour, linewidth=0.9)
        (points,) = ax.plot(
            table.blocks, table.steady, linestyle="", marker=style.marker, color=style.colour, markersize=5.5
        )
        log2_axis(ax, TICKS)
        ax.set_title(table.title.split(",")[0], loc="left")
    for ax in axes.flat[len(tables) :]:
        ax.set_axis_off()
    fig.legend([points, line], ["printed", "blocks on the fullest SM"], loc="outside upper left", ncols=2)
    fig.supxlabel("blocks of the grid", fontsize=10)
    fig.supylabel("run time, A100 against V100, %", fontsize=10)
    return fig

"""The picture of ``smlab project --dataset``: predicted over actual time against the actual, a panel for
each operator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from smlab.commands.roofline.plot import check_plot, write_figure
from smlab.hw_bench.errors import SmlabError
from smlab.validation.figure_style import INK, PALETTE, SOFT, new_figure, styled
from smlab.validation.projection.operators import Judgement


def draw_judgement(judged: Judgement, path: Path) -> list[Path]:
    """Draw all judged rows and write the picture with its data beside it; the files written."""
    check_plot(path)
    if judged.actual_s is None:
        expected = "a target that the set has measured"
        raise SmlabError.at("--plot", "no actual time to draw against", judged.target.name, expected)
    rows, p = judged.source_rows, judged.projection
    header = ("operator", "kernel", "source_s", "low_s", "mid_s", "high_s", "actual_s", "limiter")
    columns = (rows.seconds, p.low_s, p.mid_s, p.high_s, judged.actual_s)
    data = [
        (rows.operator[i], label, *(float(x[i]) for x in columns), p.limiter[i])
        for i, label in enumerate(rows.labels())
    ]
    return write_figure(judgement_figure(judged), path, header, data)


@styled
def judgement_figure(judged: Judgement) -> Figure:
    """A panel for each operator, both axes logarithmic; the bars are the intervals."""
    assert judged.actual_s is not None
    rows, p, actual = judged.source_rows, judged.projection, judged.actual_s
    across = 2
    down = -(-len(judged.operators) // across)
    fig = new_figure(7.0, 0.7 + 2.6 * down)
    axes = fig.subplots(down, across, squeeze=False, sharey=True)
    for ax in axes.flat[len(judged.operators) :]:
        ax.set_axis_off()
    for k, (ax, errors) in enumerate(zip(axes.flat, judged.operators, strict=False)):
        of = rows.operator == errors.operator
        t = actual[of]
        ax.vlines(1e3 * t, p.low_s[of] / t, p.high_s[of] / t, color=SOFT, lw=0.8, alpha=0.35)
        ax.plot(1e3 * t, p.mid_s[of] / t, "o", color=PALETTE[k % len(PALETTE)], ms=2.4, alpha=0.7)
        ax.axhline(1.0, color=INK, lw=0.8)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_yticks([0.5, 0.7, 1.0, 1.4, 2.0], ["0.5", "0.7", "1", "1.4", "2"])
        ax.minorticks_off()
        table = errors.errors.projected
        ax.set_title(f"{errors.operator}: {table.n:,} shapes, MAPE {table.mape:.1f} %", loc="left")
    ratios = np.concatenate([x / actual for x in (p.low_s, p.high_s)])
    axes.flat[0].set_ylim(min(0.48, 0.95 * ratios.min()), max(2.1, 1.05 * ratios.max()))
    fig.supxlabel(f"Actual time on {judged.target.name} (ms)", fontsize=10)
    fig.supylabel("Predicted over actual", fontsize=10)
    return fig

"""The picture of ``smlab project``: measured here, the interval there, and the actual time there, for each
kernel."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter

from smlab.commands.plots import write_figure
from smlab.commands.project.measured_times import Matched
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.sass.linking import readable_name
from smlab.models.projection.projection import Projection
from smlab.validation.figure_style import INK, PALETTE, SOFT, new_figure, styled

SHOWN: Final = 60
"""How many kernels are drawn, the longest first; the data beside the picture hold all."""

Drawn = tuple[Projection, Matched | None]


def draw_projection(drawn: Sequence[Drawn], source: Gpu, target: Gpu, path: Path) -> list[Path]:
    """Draw the kernels of all projections and write the picture and its data; the files written."""
    figure = projection_figure(drawn, source, target)
    header = ("kernel", "launch", "source_s", "low_s", "mid_s", "high_s", "actual_s", "limiter", "flags")
    rows = []
    for p, matched in drawn:
        for i in range(len(p)):
            actual = "" if matched is None or np.isnan(matched.actual_s[i]) else float(matched.actual_s[i])
            times = (float(x[i]) for x in (p.source_s, p.low_s, p.mid_s, p.high_s))
            rows.append((p.kernel[i], int(p.launch[i]), *times, actual, p.limiter[i], "; ".join(p.flags[i])))
    return write_figure(figure, path, header, rows)


@styled
def projection_figure(drawn: Sequence[Drawn], source: Gpu, target: Gpu) -> Figure:
    """One row a kernel, times on a logarithmic axis."""
    times = {
        name: np.concatenate([getattr(p, name) for p, _ in drawn])
        for name in ("source_s", "low_s", "mid_s", "high_s")
    }
    kernels = [str(k) for p, _ in drawn for k in p.kernel]
    launches = [int(n) for p, _ in drawn for n in p.launch]
    actual = np.concatenate([np.full(len(p), np.nan) if m is None else m.actual_s for p, m in drawn])
    order = np.argsort(-times["source_s"], kind="stable")[:SHOWN]
    repeated = {k for k in kernels if kernels.count(k) > 1} if len(kernels) <= 2000 else set(kernels)
    names = [
        readable_name(kernels[i], 34) + (f" #{launches[i]}" if kernels[i] in repeated else "")
        for i in order.tolist()
    ]
    fig = new_figure(7.0, 1.3 + 0.24 * len(order))
    ax = fig.subplots()
    y = np.arange(len(order))
    us = {name: 1e6 * values[order] for name, values in times.items()}
    here = ax.plot(
        us["source_s"], y, "o", mfc="white", mec=PALETTE[0], ms=5, label=f"in the profile, {source.name}"
    )
    there = ax.hlines(
        y, us["low_s"], us["high_s"], color=SOFT, lw=5, alpha=0.45, label=f"interval, {target.name}"
    )
    middle = ax.plot(us["mid_s"], y, "|", color=PALETTE[1], ms=9, mew=1.8, label="its middle")
    handles = [here[0], there, middle[0]]
    if np.isfinite(actual[order]).any():
        handles += ax.plot(
            1e6 * actual[order], y, "D", color=PALETTE[2], ms=4, label=f"actual, {target.name}"
        )
    ax.set_xscale("log")
    for formatted in (ax.xaxis.set_major_formatter, ax.xaxis.set_minor_formatter):
        formatted(LogFormatter(labelOnlyBase=False, minor_thresholds=(2, 0.5)))
    ax.set_yticks(y, names, fontsize=8)
    ax.set_ylim(len(order) - 0.4, -0.6)
    ax.set_xlabel("Time (us)")
    if len(kernels) > len(order):
        ax.set_title(
            f"the {len(order)} longest of {len(kernels):,} kernels", loc="left", fontsize=9, color=INK
        )
    fig.legend(handles=handles, loc="outside upper left", ncols=4, handletextpad=0.4)
    return fig

"""``smlab case histogram``: run the case study, write its results, say what holds."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from smlab.cli.tables import Listing
from smlab.cli.terminal import err, out, print_json, progress_bar, shown
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.sim.histogram import CACHES, CODES
from smlab.sim.warming import looks_cold, warm
from smlab.validation.papers.histogram.errors import errors, parts
from smlab.validation.papers.histogram.facts import Fact, facts
from smlab.validation.papers.histogram.files import document, figures, write_case
from smlab.validation.papers.histogram.grid import REDUCED_SIZES, SIZES, grid
from smlab.validation.papers.histogram.images import check_name
from smlab.validation.papers.histogram.study import POINTS, run_study

if TYPE_CHECKING:
    from smlab.validation.papers.histogram.point import CasePoint


@dataclass(frozen=True)
class HistogramOptions:
    """What ``smlab case histogram`` was asked for; ``out`` None is ``results/case/histogram-GPU``."""

    gpu: str
    out: Path | None
    resume: bool
    images: tuple[str, ...]
    cache: str
    blocks_per_sm: int
    channels: str
    quick: bool
    jobs: int | None
    seed: int
    as_json: bool


def run_histogram(options: HistogramOptions) -> None:
    """``smlab case histogram``."""
    gpu = load_gpu(options.gpu)
    for name in options.images:
        check_name(name)
    for option, value, known in (
        ("--cache", options.cache, CACHES),
        ("--channels", options.channels, CODES),
    ):
        if value not in known:
            raise SmlabError.at(option, "unknown", value, " or ".join(known))
    folder = options.out or Path("results/case") / f"histogram-{gpu.name}"
    sizes = REDUCED_SIZES if options.quick else SIZES
    settings = {
        "cache": options.cache,
        "blocks_per_sm": options.blocks_per_sm,
        "channels": options.channels,
    }
    specs = grid(gpu, sizes=sizes, images=list(options.images) or None, **settings)  # type: ignore[arg-type]
    if looks_cold():
        warm()
    try:
        with progress_bar(f"the histogram on {gpu.name}") as advance:
            points = run_study(
                gpu,
                specs,
                folder=folder,
                resume=options.resume,
                seed=options.seed,
                processes=options.jobs or os.cpu_count() or 1,
                progress=advance,
            )
    except KeyboardInterrupt:
        err.print(f"what was done is in {folder / POINTS}; --resume keeps it", markup=False)
        raise
    found = facts({gpu.name: points})
    whole = document(gpu.name, points, found, {**settings, "seed": options.seed, "sizes": list(sizes)})
    write_case(folder, whole, points, figures(points))
    if options.as_json:
        print_json(whole)
    else:
        _print(gpu.title, points, found)
    err.print(f"wrote {folder}: points.csv, facts.csv, case.json and figures", markup=False)


def _print(title: str, points: Sequence[CasePoint], found: dict[str, Fact]) -> None:
    out.print(f"[bold]The histogram of Dong & Pai[/bold] on {shown(title)}, simulated: {len(points)} points")
    listed = Listing()
    for heading in ("estimator", "points"):
        listed.add_column(heading, fold=True)
    for heading, drop in (
        ("n", 3),
        ("mean error", 0),
        ("95th", 1),
        ("worst", 0),
        ("bias", 0),
        ("over 100 %", 2),
    ):
        listed.add_column(heading, justify="right", drop=drop)
    for part, own in parts(points).items():
        for name, row in errors(own).items():
            values = (row.mean_points, row.p95_points, row.worst_points, row.bias_points)
            listed.add_row(name, part, str(row.n), *(f"{v:.1f}" for v in values), str(row.above_100))
    out.print(listed)
    colour = {"holds": "green", "holds in part": "yellow", "does not hold": "red"}
    judged = Listing()
    judged.add_column("fact")
    judged.add_column("the paper's statement, or the question", fold=True)
    for heading in ("seen", "expected"):
        judged.add_column(heading, justify="right")
    judged.add_column("verdict")
    for f in found.values():
        seen = f"{f.value:.3g} {f.unit}"
        judged.add_row(f.name, shown(f.claim), seen, f.expected, f"[{colour[f.verdict]}]{f.verdict}[/]")
    out.print(judged)

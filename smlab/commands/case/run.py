"""``smlab case histogram``: run the case study, write its results, say what holds."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from smlab.cli.tables import Listing
from smlab.cli.terminal import err, out, print_json, progress_bar, shown
from smlab.commands.case.command import CaseArguments
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.sim.object_code.loading import ready
from smlab.sim.workloads.histogram import CACHES, CODES
from smlab.validation.papers.histogram.facts import facts
from smlab.validation.papers.histogram.files import CaseUnder, document, figures, write_case
from smlab.validation.papers.histogram.images import check_name
from smlab.validation.papers.histogram.study import (
    POINTS,
    REDUCED_SIZES,
    SIZES,
    errors,
    grid,
    parts,
    run_study,
)

ALTERNATIVES: Final = "alternatives"
"""The folder, in a study's, with a folder for each further alternative of its GPU."""


def run_histogram(options: CaseArguments) -> None:
    """``smlab case histogram``: the study under each alternative that the GPU's description carries, the
    description as it stands first."""
    gpu = load_gpu(options.gpu)
    for name in options.images or ():
        check_name(name)
    for option, value, known in (("--cache", options.cache, CACHES), ("--channels", options.channels, CODES)):
        if value not in known:
            raise SmlabError.at(option, "unknown", value, " or ".join(known))
    folder = options.out or Path("results/case") / f"histogram-{gpu.name}"
    sizes = REDUCED_SIZES if options.quick else SIZES
    settings = {"cache": options.cache, "blocks_per_sm": options.blocks_per_sm, "channels": options.channels}
    specs = grid(gpu, sizes=sizes, images=options.images or None, **settings)  # type: ignore[arg-type]
    ready("engine")
    told = {**settings, "seed": options.seed, "sizes": list(sizes)}
    each: list[CaseUnder] = []
    for alternative, machine in gpu.variants():
        place = folder / ALTERNATIVES / alternative.name if each else folder
        under = f" if {alternative.name}" if each else ""
        try:
            with progress_bar(f"the histogram on {gpu.name}{under}") as advance:
                points = run_study(
                    machine,
                    specs,
                    folder=place,
                    resume=options.resume,
                    seed=options.seed,
                    processes=options.jobs or os.cpu_count() or 1,
                    progress=advance,
                )
        except KeyboardInterrupt:
            err.print(f"what was done is in {place / POINTS}; --resume keeps it", markup=False)
            raise
        case = CaseUnder(alternative.name, alternative.weight, points, facts({gpu.name: points}))
        if each:
            write_case(place, document(gpu.name, points, case.facts, told), points, figures(points))
        each.append(case)
    first = each[0]
    whole = document(gpu.name, first.points, first.facts, told, each)
    write_case(folder, whole, first.points, figures(first.points))
    if options.as_json:
        print_json(whole)
    else:
        _print(gpu.title, each)
    err.print(f"wrote {folder}: points.csv, facts.csv, case.json and figures", markup=False)


def _print(title: str, each: Sequence[CaseUnder]) -> None:
    points, found = each[0].points, each[0].facts
    out.print(f"[bold]The histogram of Dong & Pai[/bold] on {shown(title)}, simulated: {len(points)} points")
    if len(each) > 1:
        weights = ", ".join(f"{c.name} (weight {c.weight:g})" for c in each)
        out.print(f"The evidence leaves {len(each)} alternatives for its unit: {weights}", markup=False)
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
    judged.add_column("expected", justify="right")
    for case in each:
        judged.add_column("seen" if len(each) == 1 else f"seen if {case.name}", justify="right")
        judged.add_column("verdict" if len(each) == 1 else f"verdict if {case.name}")
    for name, f in found.items():
        cells: list[str] = []
        for there in (case.facts[name] for case in each):
            cells += [f"{there.value:.3g} {there.unit}", f"[{colour[there.verdict]}]{there.verdict}[/]"]
        judged.add_row(f.name, shown(f.claim), f.expected, *cells)
    out.print(judged)

"""``smlab project --dataset ktt:DIR`` or ``kernel-tuner:DIR``: a tuning space projected, and how wrong that
is."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from smlab.cli.tables import Listing
from smlab.cli.terminal import err, out, print_json, progress_bar, shown
from smlab.commands.arguments import macros_of
from smlab.commands.project.command import ProjectOptions
from smlab.commands.project.errors import error_listing
from smlab.commands.project.rows import agreed_row
from smlab.commands.project.simulated import data_of, runs_kept
from smlab.hw_bench.datasets import read_tuning
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.models.projection.projection import Projection, ProjectionSwitches
from smlab.models.projection.uncertainty import LEVEL
from smlab.validation.method.interval_errors import IntervalErrors
from smlab.validation.projection.tuning import TuningJudgement, TuningOptions, judge_tuning
from smlab.validation.projection.tuning_code import TuningSource
from smlab.validation.projection.tuning_simulated import (
    ClockedPair,
    SimulatedErrors,
    SimulatedSpace,
    simulate_space,
    simulated_errors,
)


def run_tuning_projection(dataset: str, source_name: str, target_name: str, options: ProjectOptions) -> None:
    """Read the set, project, judge and print; with ``--launch``, whose data the kernels take, also by running
    their ``--source`` on both GPUs. `SmlabError` for an unknown set or GPU, or a set without the source."""
    if options.plot is not None:
        raise SmlabError.at("--plot", "draws operators, not tuning spaces", str(options.plot))
    source, target = load_gpu(source_name), load_gpu(target_name)
    switches, draw, launch, as_json = options.switches, options.draw, options.launch, options.as_json
    code = options.code_source
    defines, folders = tuple(macros_of(options.defines or ()).items()), tuple(options.folders or ())
    compiled = None if code is None else TuningSource(code, defines, folders)
    sets = read_tuning(dataset)
    with progress_bar("compiling") if compiled is not None else nullcontext() as advance:
        judged = judge_tuning(
            sets, source, target, TuningOptions(switches, code=compiled, draw=draw), advance
        )
    simulated = None if launch is None or compiled is None else _simulated(judged, compiled, launch)
    for note in judged.notes:
        err.print(f"{dataset}: {note}", markup=False)
    if as_json:
        print_json(_document(judged, dataset, switches, simulated))
        return
    _print(judged, dataset, simulated)


@dataclass(frozen=True, eq=False)
class _SimulatedSpace:
    """The second predictor on the same rows; ``roofline`` are the first one's errors on them, None without a
    truth."""

    space: SimulatedSpace
    errors: SimulatedErrors | None


def _simulated(judged: TuningJudgement, code: TuningSource, launch: Path) -> _SimulatedSpace:
    _, data = data_of(launch)
    with progress_bar("running machine code") as advance:
        space = simulate_space(
            judged.times,
            judged.rows,
            code,
            data,
            ClockedPair(judged.source, judged.target, judged.clock_ratio),
            runs_kept(),
            advance,
        )
    if judged.actual_s is None:
        return _SimulatedSpace(space, None)
    known = ~np.isnan(judged.actual_s)
    family = tuple(f for f, k in zip(judged.family, known, strict=True) if k)
    truth = judged.actual_s[known]
    errors = simulated_errors(space.chosen(known), truth, family, judged.source, judged.target)
    return _SimulatedSpace(space, errors)


def _document(
    judged: TuningJudgement, dataset: str, switches: ProjectionSwitches, simulated: _SimulatedSpace | None
) -> dict[str, Any]:
    errors = None if judged.every is None else judged.every.as_json()
    if errors is not None:
        errors["groups"] = {name: e.as_json() for name, e in judged.groups}
        errors["parts"] = {name: e.as_json() for name, e in judged.without}
        if simulated is not None and simulated.errors is not None:
            errors["simulated"] = simulated.errors.errors.as_json()
            errors["simulated_compiled_alone"] = simulated.errors.compiled.as_json()
    rows = _rows(judged)
    if simulated is not None:
        for row, mid_s in zip(rows, simulated.space.mid_s.tolist(), strict=True):
            row["simulated_s"] = mid_s
    return {
        "dataset": dataset,
        "from": judged.source.name,
        "to": judged.target.name,
        "switches": {name: getattr(switches, name) for name in switches.__dataclass_fields__},
        "kernels": rows,
        "skipped": [],
        "errors": errors,
        "notes": list(judged.notes),
    }


def _rows(judged: TuningJudgement) -> list[dict[str, Any]]:
    p = judged.projection
    listed = []
    for i, label in enumerate(judged.labels):
        flags = list(p.flags[i]) if isinstance(p, Projection) else []
        row = agreed_row(p, i, p.source_s[i], flags, kernel=label)
        if judged.actual_s is not None:
            row["actual_s"] = None if np.isnan(judged.actual_s[i]) else judged.actual_s[i]
        listed.append(row)
    return listed


def _print(judged: TuningJudgement, dataset: str, simulated: _SimulatedSpace | None) -> None:
    p = judged.projection
    out.print(
        f"[bold]{shown(dataset)}[/bold]: {len(p):,} configurations from {shown(judged.source.title)} to "
        f"{shown(judged.target.title)}"
    )
    names, counts = np.unique(p.limiter.astype(str), return_counts=True)
    told = ", ".join(
        f"{n} {100 * c / len(p):.0f} %" for c, n in sorted(zip(counts, names, strict=True), reverse=True)
    )
    out.print(f"what limits them there: {told}")
    if judged.every is None:
        ratio, width = np.median(p.source_s / p.mid_s), 100 * np.median(p.high_s / p.mid_s - 1)
        out.print(f"{ratio:.2f}x as fast at the median; interval +{width:.0f} % at the median")
        return
    e = judged.every
    rows = [("projection", e.projected), *((f"  {name}", g.projected) for name, g in judged.groups)]
    by_code = None if simulated is None else simulated.errors
    if by_code is not None:
        rows.append(("machine code simulated on both", by_code.errors.projected))
        rows.append(("  the target's as compiled here, alone", by_code.compiled.projected))
    out.print(error_listing("", [*rows, *e.baselines, *((n, w.projected) for n, w in judged.without)]))
    level = f"{100 * LEVEL:.0f} % interval"
    listed = Listing("")
    for title in ("", level + " holds", "median width", "rank of the ratio"):
        listed.add_column(title, justify="right" if title else "left")
    for name, group in (("all", e), *judged.groups):
        listed.add_row(name, *_interval_cells(group))
    if by_code is not None:
        listed.add_row("machine code simulated on both", *_interval_cells(by_code.errors))
    out.print(listed)
    if by_code is not None:
        out.print(
            f"The simulated interval's width is fitted without the row's family, of {by_code.families}. "
            f"On the source, simulated times are {by_code.source:.2f} of the measured ones at the median."
        )


def _interval_cells(e: IntervalErrors) -> tuple[str, str, str]:
    rank = "-" if e.spearman_ratio is None else f"{e.spearman_ratio:.2f}"
    return f"{e.coverage:.0f} %", f"+{e.median_width:.0f} %", rank

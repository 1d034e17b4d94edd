"""``smlab project --dataset NAME:DIR --from G --to G``: operators measured by others, projected, and how
wrong that is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from smlab.cli.terminal import err, out, print_json, shown
from smlab.commands.project.errors import error_listing
from smlab.commands.project.rows import agreed_row
from smlab.hw_bench.datasets import read_dataset
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.models.operators import OperatorSwitches
from smlab.validation.projection.operators import MIN_S, PAPER, Judgement, OperatorErrors, judge_projection

if TYPE_CHECKING:
    from smlab.models.projection.projection import ProjectionSwitches


def run_dataset_projection(
    dataset: str,
    source_name: str,
    target_name: str,
    switches: ProjectionSwitches | None = None,
    *,
    plot: Path | None = None,
    as_json: bool = False,
) -> None:
    """Read the set, project, judge and print; `SmlabError` for an unknown set or GPU, or a set without the
    source."""
    source, target = load_gpu(source_name), load_gpu(target_name)
    chosen = operator_switches(switches)
    judged = judge_projection(read_dataset(dataset), source, target, chosen)
    for note in judged.notes:
        err.print(f"{dataset}: {note}", markup=False)
    if plot is not None:
        from smlab.commands.project.dataset_plot import draw_judgement

        for path in draw_judgement(judged, plot):
            err.print(f"wrote {path}", markup=False)
    if as_json:
        print_json(_document(judged, dataset, chosen))
        return
    _print(judged, dataset)


def operator_switches(switches: ProjectionSwitches | None) -> OperatorSwitches:
    """The switches for operators that go with those for profiles: the same names, and ``--paper`` turns
    power off too."""
    if switches is None:
        return OperatorSwitches()
    found = OperatorSwitches(
        launch=switches.launch_overhead,
        sustained=switches.maxima == "sustained",
        cache=switches.cache,
        power=getattr(switches, "power", True),
        tiles=switches.parallelism,
        repeats=switches.cache,
    )
    published = not any(
        (switches.launch_overhead, switches.cache, switches.parallelism, switches.issue, switches.latency)
    )
    return OperatorSwitches(**{**PAPER.__dict__, "sustained": found.sustained}) if published else found


def _document(judged: Judgement, dataset: str, chosen: OperatorSwitches) -> dict[str, Any]:
    return {
        "dataset": dataset,
        "from": judged.source.name,
        "to": judged.target.name,
        "switches": dict(chosen.__dict__),
        "launch_s": dict(judged.source_rows.launch_s),
        "kernels": _rows(judged),
        "skipped": [{"kernel": what, "reason": reason} for what, reason in judged.skipped],
        "errors": {e.operator: _as_json(e) for e in judged.operators} or None,
        "notes": list(judged.notes),
    }


def _rows(judged: Judgement) -> list[dict[str, Any]]:
    rows, p = judged.source_rows, judged.projection
    listed = []
    for i, label in enumerate(rows.labels()):
        row = agreed_row(p, i, rows.seconds[i], [], kernel=label, operator=rows.operator[i])
        if judged.actual_s is not None:
            row["actual_s"] = judged.actual_s[i]
            if min(rows.seconds[i], judged.actual_s[i]) <= MIN_S:
                row["flags"].append(f"below {1e6 * MIN_S:g} us, not judged")
        listed.append(row)
    return listed


def _as_json(errors: OperatorErrors) -> dict[str, Any]:
    return {
        **errors.errors.as_json(),
        "parts": {name: table.as_row() for name, table in errors.parts},
        "halves": {name: table.as_row() for name, table in errors.halves},
    }


def _print(judged: Judgement, dataset: str) -> None:
    rows, p = judged.source_rows, judged.projection
    out.print(
        f"[bold]{shown(dataset)}[/bold]: {len(rows):,} operators from {shown(judged.source.title)} to "
        f"{shown(judged.target.title)}"
    )
    launch = ", ".join(f"{operator} {1e6 * s:.0f} us" for operator, s in rows.launch_s.items())
    out.print(f"a launch takes of each time, by the way the set was measured: {launch}")
    for e in judged.operators:
        judged_rows = [("projection", e.errors.projected), *((f"  shapes {name}", t) for name, t in e.halves)]
        out.print(error_listing(e.operator, [*judged_rows, *e.errors.baselines, *e.parts]))
        out.print(
            f"actual time within the interval: {e.errors.coverage:.0f} % of the rows, upper end "
            f"+{e.errors.median_width:.0f} % at the median\n"
        )
    if judged.actual_s is None:
        for operator in sorted(set(rows.operator)):
            of = rows.operator == operator
            ratio = np.median(rows.seconds[of] / p.mid_s[of])
            out.print(f"{operator}: {int(of.sum()):,} shapes, {ratio:.2f}x as fast at the median")
    for what, reason in judged.skipped:
        out.print(f"skipped: {shown(reason)} ({shown(what)})")

"""``smlab port tune``: search, print."""

from __future__ import annotations

from typing import Any

import numpy as np

from smlab.cli.tables import Listing
from smlab.cli.terminal import err, out, print_json, progress_bar, shown
from smlab.commands.port.command import TuneOptions
from smlab.commands.port.result import same_everywhere
from smlab.commands.port.tune import CURVE, Replayed, TuneResult, port_tune, tune_rows


def run_tune(options: TuneOptions) -> None:
    """Search and print."""

    def search(progress: Any = None) -> TuneResult:
        return port_tune(
            options.file,
            options.source,
            options.target,
            measured=options.measured,
            truth=options.truth,
            kernel=options.kernel,
            compile_all=options.compile_all,
            budget=options.budget,
            seeds=options.seeds,
            curve=CURVE if options.curves else (),
            progress=progress,
        )

    if options.kernel is None:
        result = search()
    else:
        with progress_bar("configurations compiled") as advance:
            result = search(advance)
    for note in result.notes:
        err.print(shown(note))
    if options.as_json:
        print_json(tune_document(result, options.budget))
    else:
        _print(result, options.budget)


def tune_document(result: TuneResult, budget: int) -> dict[str, Any]:
    """The JSON document."""
    document: dict[str, Any] = {
        "source": result.source.name,
        "target": result.target.name,
        "configurations": len(result.labels),
        "evidence": result.evidence,
        "tune": tune_rows(result),
        "foreseen_failures": list(result.foreseen),
        "advice": [dict(row) for row in result.advice],
        "notes": list(result.notes),
    }
    if result.replayed:
        told = result.replayed[budget]
        document["fraction_of_optimum"] = _quantiles(told.found)
        document["random"] = _quantiles(told.random)
        document["old_best"] = {"count": budget, "fraction": told.old_best}
        document["curves"] = [
            {
                "budget": size,
                "tune": _quantiles(r.found),
                "old_best": r.old_best,
                "random": _quantiles(r.random),
            }
            for size, r in result.replayed.items()
        ]
    return document


def _quantiles(values: Any) -> dict[str, float]:
    low, median, high = (float(q) for q in np.quantile(values, [0.05, 0.5, 0.95]))
    return {"median": median, "low": low, "high": high}


def _print(result: TuneResult, budget: int) -> None:
    out.print(
        f"[bold]{shown(result.target.name)}[/bold]: {len(result.rows)} of {len(result.labels):,} "
        f"configurations to measure, by {'projected times' if result.evidence == 'projected' else 'the'} "
        f"{'' if result.evidence == 'projected' else 'times on ' + result.source.name}".rstrip()
    )
    table = Listing()
    table.add_column("configuration", fold=True)
    table.add_column("predicted, ms", justify="right")
    table.add_column("90 % interval", justify="right", drop=1)
    table.add_column("measured, ms", justify="right")
    same = same_everywhere(list(result.labels))
    for row in tune_rows(result):
        config = ", ".join(part for part in row["config"].split(", ") if part not in same)
        seen = "" if row["measured_s"] is None else f"{1e3 * row['measured_s']:.4g}"
        interval = f"{1e3 * row['low']:.3g} to {1e3 * row['high']:.3g}"
        table.add_row(shown(config), f"{1e3 * row['predicted_s']:.4g}", interval, seen)
    out.print(table)
    if same:
        out.print(f"all with {shown(', '.join(sorted(same)))}")
    if not result.measured_s:
        out.print(
            "nothing measured yet: --measured takes what comes of these, and the rest is chosen after it"
        )
    if result.foreseen:
        out.print(f"{len(result.foreseen):,} cannot run there, such as {shown(result.foreseen[0])}")
    _print_advice(result)
    if result.replayed:
        _print_replayed(result.replayed)


def _print_advice(result: TuneResult) -> None:
    if not result.advice:
        return
    table = Listing()
    table.add_column("one change", fold=True)
    table.add_column(f"on {shown(result.target.name)}", justify="right")
    table.add_column(f"on {shown(result.source.name)}", justify="right")
    table.add_column("sign right", justify="right", drop=1)
    for row in result.advice[:5]:
        table.add_row(
            shown(f"{row['parameter']}: {row['value']} to {row['to']}"),
            f"{100 * row['target_change']:+.1f} %",
            f"{100 * row['source_change']:+.1f} %",
            f"{100 * row['confidence']:.0f} %",
        )
    same = same_everywhere(list(result.labels))
    start = ", ".join(part for part in result.advice[0]["from"].split(", ") if part not in same)
    out.print(f"from {shown(start)}, {result.advice[0]['evidence']} changes of its time:")
    out.print(table)


def _print_replayed(replayed: Any) -> None:
    table = Listing()
    for heading in ("budget", "this search", "5 to 95 %", "old best", "random"):
        table.add_column(heading, justify="right")
    found: Replayed
    for size, found in replayed.items():
        q = _quantiles(found.found)
        table.add_row(
            str(size),
            f"{q['median']:.3f}",
            f"{q['low']:.3f} to {q['high']:.3f}",
            f"{found.old_best:.3f}",
            f"{np.median(found.random):.3f}",
        )
    out.print(table)
    out.print(f"fractions of the optimum, medians of {len(found.found)} replays")

"""``smlab validate``: every cross-check, printed in short; the report in a folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from smlab.cli.tables import Listing
from smlab.cli.terminal import err, out, print_json, progress_bar
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.validation.checks.run import validate


@dataclass(frozen=True)
class ValidateOptions:
    """What ``smlab validate`` was asked for; ``jobs`` are processes, None for all cores."""

    gpu: str
    quick: bool
    out: Path
    seed: int
    jobs: int | None
    as_json: bool


def run_validate(options: ValidateOptions) -> bool:
    """``smlab validate``; whether every check that was asked for held."""
    with progress_bar("validating") as advance:
        outcome = validate(
            load_gpu(options.gpu),
            quick=options.quick,
            seed=options.seed,
            processes=options.jobs,
            progress=advance,
        )
        page = outcome.report.write(options.out)
    document = outcome.report.as_json()
    if options.as_json:
        print_json(document)
    else:
        marks = {
            True: "[green]pass[/green]",
            False: "[red]FELL SHORT[/red]",
            None: "[yellow]not done[/yellow]",
        }
        table = Listing("", "check", "")
        for check in document["checks"]:
            table.add_row(marks[check["ok"]], check["name"], check["summary"])
        out.print(table)
    err.print(f"report: {page}")
    if outcome.interrupted:
        raise KeyboardInterrupt
    return bool(document["ok"])

"""``smlab validate``: every cross-check, printed in short; the report in a folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from smlab.cli.tables import Listing
from smlab.cli.terminal import err, out, print_json, progress_bar
from smlab.commands.validate.api import validate


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
        found = validate(
            options.gpu,
            quick=options.quick,
            seed=options.seed,
            jobs=options.jobs,
            out=options.out,
            progress=advance,
        )
    document = found.document
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
    err.print(f"report: {found.report}", markup=False, soft_wrap=True)
    if found.interrupted:
        raise KeyboardInterrupt
    return found.ok

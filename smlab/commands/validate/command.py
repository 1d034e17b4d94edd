"""``smlab validate``: its command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from smlab.cli.early import check_gpus
from smlab.cli.loading import loading
from smlab.cli.options import GpuOption, JsonOption


def validate(
    gpu: GpuOption = "v100",
    quick: Annotated[bool, typer.Option("--quick", help="Fewer random cases: a minute or so.")] = False,
    out: Annotated[Path, typer.Option("--out", help="Folder for the report.")] = Path("results/validate"),
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep the results in the folder and compute the others.")
    ] = False,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Root of all random numbers.")] = 0,
    jobs: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Processes to use (all cores).")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run every cross-check and write the report."""
    check_gpus(gpu)
    with loading():
        from smlab.commands.validate.run import ValidateOptions, run_validate

    options = ValidateOptions(
        gpu=gpu, quick=quick, out=out, resume=resume, seed=seed, jobs=jobs, as_json=as_json
    )
    if not run_validate(options):
        raise typer.Exit(1)


def register(app: typer.Typer) -> None:
    """Add the command to the front door."""
    app.command()(validate)

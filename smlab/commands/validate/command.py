"""``smlab validate``: its command line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from smlab.cli.fast_start import check_gpus
from smlab.cli.options import GpuOption, JsonOption, SeedOption
from smlab.cli.registering import call, registers
from smlab.hw_bench.errors import SmlabError


@dataclass(frozen=True)
class ValidateOptions:
    """What ``smlab validate`` was asked for."""

    gpu: GpuOption = "v100"
    quick: Annotated[bool, typer.Option("--quick", help="Fewer random cases: a minute or so.")] = False
    out: Annotated[Path, typer.Option("--out", help="Folder for the report.")] = Path("results/validate")
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep the results in the folder and compute the others.")
    ] = False
    seed: SeedOption = 0
    jobs: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Processes to use (default: all cores).")
    ] = None
    record: Annotated[
        bool, typer.Option("--record", help="Simulate measured kernels instead, and judge their times.")
    ] = False
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME", help="Only this set of the record; repeatable."),
    ] = None
    rows: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Kernels drawn of each set of the record (default: 8)."),
    ] = None
    data: Annotated[
        Path | None,
        typer.Option("--data", help="Folder of measurements by others (default: $SMLAB_SHARED_DATA)."),
    ] = None
    as_json: JsonOption = False


def validate(asked: ValidateOptions) -> None:
    """Run every cross-check and write the report."""
    check_gpus(asked.gpu)
    if not asked.record and (asked.sets or asked.data is not None or asked.rows is not None):
        raise SmlabError.at("--set, --rows, --data", "mean nothing without --record", None, "--record")
    if asked.record and (asked.quick or asked.jobs is not None):
        raise SmlabError.at("--quick, --jobs", "mean nothing with --record", None, "--rows")
    if asked.record:
        call("smlab.commands.validate.record:run_record", asked)
        return
    if not call("smlab.commands.validate.run:run_validate", asked):
        raise typer.Exit(1)


register = registers(validate, "Run every cross-check and write the report.", ValidateOptions)

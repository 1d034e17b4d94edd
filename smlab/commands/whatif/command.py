"""``smlab whatif``: the command line of studies."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from smlab.cli.fast_start import check_inputs
from smlab.cli.options import (
    ClockOption,
    DaskOption,
    GpuSetOption,
    JobsOption,
    JsonOption,
    ResumePointsOption,
)
from smlab.cli.registering import call, registers


@dataclass(frozen=True)
class WhatifOptions:
    """What ``smlab whatif`` was asked for."""

    study: Annotated[
        Path | None, typer.Argument(help="The study file (TOML), or the folder of a study.toml.")
    ] = None
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for the results (results/whatif/STUDY).")
    ] = None
    jobs: JobsOption = None
    dask: DaskOption = None
    resume: ResumePointsOption = False
    clock: ClockOption = None
    settings: GpuSetOption = None
    example: Annotated[
        bool, typer.Option("--example", help="Write a study that runs: to STUDY, or print it.")
    ] = False
    as_json: JsonOption = False


def whatif(asked: WhatifOptions) -> None:
    """Run a study: vary parameters of hardware and workload, and measure the effects."""
    if not asked.example:
        if asked.study is None:
            raise typer.BadParameter("a study file is needed; --example shows one", param_hint="STUDY")
        check_inputs(asked.study / "study.toml" if asked.study.is_dir() else asked.study)
    if asked.example or asked.study is None:
        call("smlab.commands.whatif.run:write_example", asked.study)
    elif not call("smlab.commands.whatif.run:run_whatif", asked.study, asked):
        raise typer.Exit(1)


register = registers(whatif, "Vary hardware and workload; measure the effects.", WhatifOptions)

"""``smlab whatif``: the command line of studies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from smlab.cli.fast_start import check_inputs
from smlab.cli.loading import loading
from smlab.cli.options import ClockOption, DaskOption, GpuSetOption, JobsOption, JsonOption
from smlab.cli.registering import registers


def whatif(
    study: Annotated[
        Path | None, typer.Argument(help="The study file (TOML), or the folder of a study.toml.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for the results (results/whatif/STUDY).")
    ] = None,
    jobs: JobsOption = None,
    dask: DaskOption = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep the points in the folder and run the others.")
    ] = False,
    clock: ClockOption = None,
    settings: GpuSetOption = None,
    example: Annotated[
        bool, typer.Option("--example", help="Write a study that runs: to STUDY, or print it.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Run a study: vary parameters of hardware and workload, and measure the effects."""
    if not example:
        if study is None:
            raise typer.BadParameter("a study file is needed; --example shows one", param_hint="STUDY")
        check_inputs(study / "study.toml" if study.is_dir() else study)
    with loading():
        from smlab.commands.whatif.run import WhatifOptions, run_whatif, write_example

    if example or study is None:
        write_example(study)
        return
    if not run_whatif(WhatifOptions(study, out, jobs, dask, resume, as_json, clock, tuple(settings or ()))):
        raise typer.Exit(1)


register = registers(whatif, "Vary hardware and workload; measure the effects.")

"""``smlab roofline``: its command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from smlab.cli.early import PROFILE_OR_HOW, check_gpus, check_outputs, check_profiles
from smlab.cli.loading import loading
from smlab.cli.options import (
    ExampleOption,
    HowOption,
    IssueOption,
    JsonOption,
    MaximaOption,
    ParallelismOption,
    ProfileGpuOption,
    ProfilesArgument,
)


def roofline(
    profiles: ProfilesArgument = None,
    gpu: ProfileGpuOption = None,
    maxima: MaximaOption = "sustained",
    parallelism: ParallelismOption = True,
    issue: IssueOption = True,
    at_clock: Annotated[
        bool, typer.Option("--at-clock", help="Scale the SM's ceilings to the clock in the profile.")
    ] = False,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Draw the roofline (.png, .svg, .pdf; data beside it).")
    ] = None,
    example: ExampleOption = False,
    show_how: HowOption = False,
    as_json: JsonOption = False,
) -> None:
    """Each kernel under the roofs of its GPU and under ceilings of its own; what limits it."""
    if not show_how:
        check_profiles(profiles, example, PROFILE_OR_HOW)
    check_gpus(gpu)
    check_outputs(plot)
    with loading():
        from smlab.commands.roofline.run import RooflineOptions, run_roofline

    run_roofline(
        RooflineOptions(
            profiles=tuple(profiles or ()),
            gpu=gpu,
            maxima=maxima,
            parallelism=parallelism,
            issue=issue,
            at_clock=at_clock,
            example=example,
            plot=plot,
            show_how=show_how,
            as_json=as_json,
        )
    )


def register(app: typer.Typer) -> None:
    """Add the command to the front door."""
    app.command(short_help="What limits each kernel: roofs and ceilings.")(roofline)

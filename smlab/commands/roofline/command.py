"""``smlab roofline``: its command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from smlab.cli.fast_start import PROFILE_OR_HOW, check_gpus, check_outputs, check_profiles
from smlab.cli.loading import loading
from smlab.cli.options import (
    DetailsOption,
    ExampleOption,
    GpuSetOption,
    HowOption,
    IssueOption,
    JsonOption,
    MaximaOption,
    ParallelismOption,
    ProfileGpuOption,
    ProfilesArgument,
)
from smlab.cli.registering import registers


def roofline(
    profiles: ProfilesArgument = None,
    gpu: ProfileGpuOption = None,
    maxima: MaximaOption = "sustained",
    parallelism: ParallelismOption = True,
    issue: IssueOption = True,
    at_clock: Annotated[
        bool, typer.Option("--at-clock", help="Scale the SM's ceilings to the clock in the profile.")
    ] = False,
    clock: Annotated[
        float | None,
        typer.Option(
            "--clock",
            metavar="MHZ",
            help="The SMs' clock, where somebody saw it and the profile does not tell; with --at-clock.",
        ),
    ] = None,
    settings: GpuSetOption = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Draw the roofline (.png, .svg, .pdf; data beside it).")
    ] = None,
    example: ExampleOption = False,
    show_how: HowOption = False,
    details: DetailsOption = False,
    as_json: JsonOption = False,
) -> None:
    """What limits each kernel: the roofs of its GPU and the ceilings of its own instructions."""
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
            clock_mhz=clock,
            settings=tuple(settings or ()),
            example=example,
            plot=plot,
            show_how=show_how,
            details=details,
            as_json=as_json,
        )
    )


register = registers(roofline, "What limits each kernel, by roofline.")

"""``smlab roofline``: its command line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from smlab.cli.fast_start import PROFILE_OR_HOW, check_gpus, check_outputs, check_profiles
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
from smlab.cli.registering import call, registers


@dataclass(frozen=True)
class RooflineOptions:
    """What ``smlab roofline`` was asked for."""

    profiles: ProfilesArgument = None
    gpu: ProfileGpuOption = None
    maxima: MaximaOption = "sustained"
    parallelism: ParallelismOption = True
    issue: IssueOption = True
    at_clock: Annotated[
        bool, typer.Option("--at-clock", help="Scale the SM's ceilings to the clock in the profile.")
    ] = False
    clock_mhz: Annotated[
        float | None,
        typer.Option(
            "--clock",
            metavar="MHZ",
            help="The SMs' clock, if you know it and the profile does not have it; with --at-clock.",
        ),
    ] = None
    settings: GpuSetOption = None
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Draw the roofline (.png, .svg, .pdf; data beside it).")
    ] = None
    example: ExampleOption = False
    show_how: HowOption = False
    details: DetailsOption = False
    as_json: JsonOption = False


def roofline(asked: RooflineOptions) -> None:
    """What limits each kernel: the roofs of its GPU and the ceilings of its own instructions."""
    if not asked.show_how:
        check_profiles(asked.profiles, asked.example, PROFILE_OR_HOW)
    check_gpus(asked.gpu)
    check_outputs(asked.plot)
    call("smlab.commands.roofline.run:run_roofline", asked)


register = registers(roofline, "What limits each kernel, by roofline.", RooflineOptions)

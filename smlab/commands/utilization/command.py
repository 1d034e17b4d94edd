"""``smlab utilization``: its command line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from smlab.cli.fast_start import PROFILE_OR_HOW, check_gpus, check_inputs, check_outputs, check_profiles
from smlab.cli.options import (
    DetailsOption,
    ExampleOption,
    HowOption,
    JsonOption,
    ProfileGpuOption,
    ProfilesArgument,
)
from smlab.cli.registering import call, registers


@dataclass(frozen=True)
class UtilizationOptions:
    """What ``smlab utilization`` was asked for."""

    profiles: ProfilesArgument = None
    gpu: ProfileGpuOption = None
    table: Annotated[
        Path | None, typer.Option("--table", help="A service table to use instead of the GPU's own.")
    ] = None
    samples: Annotated[
        Path | None,
        typer.Option("--samples", help="Samples by instruction: ncu's source page (.csv, .ncu-rep)."),
    ] = None
    example: ExampleOption = False
    show_how: HowOption = False
    compare: Annotated[bool, typer.Option("--compare", help="Two profiles: did the bottleneck move?")] = False
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Draw utilization with intervals (.png, .svg, .pdf).")
    ] = None
    details: DetailsOption = False
    as_json: JsonOption = False


def utilization(asked: UtilizationOptions) -> None:
    """Is the shared-memory atomic unit the bottleneck of each kernel? How busy was it? How sure is that?"""
    if not asked.show_how:
        check_profiles(asked.profiles, asked.example, PROFILE_OR_HOW)
    check_gpus(asked.gpu)
    check_inputs(asked.table, asked.samples)
    check_outputs(asked.plot)
    call("smlab.commands.utilization.run:run_utilization", asked)


register = registers(utilization, "Is the shared-memory atomic unit the bottleneck?", UtilizationOptions)

"""``smlab utilization``: its command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from smlab.cli.fast_start import PROFILE_OR_HOW, check_gpus, check_inputs, check_outputs, check_profiles
from smlab.cli.loading import loading
from smlab.cli.options import (
    DetailsOption,
    ExampleOption,
    HowOption,
    JsonOption,
    ProfileGpuOption,
    ProfilesArgument,
)
from smlab.cli.registering import registers


def utilization(
    profiles: ProfilesArgument = None,
    gpu: ProfileGpuOption = None,
    table: Annotated[
        Path | None, typer.Option("--table", help="A service table to use instead of the GPU's own.")
    ] = None,
    samples: Annotated[
        Path | None,
        typer.Option("--samples", help="Samples by instruction: ncu's source page (.csv, .ncu-rep)."),
    ] = None,
    example: ExampleOption = False,
    show_how: HowOption = False,
    compare: Annotated[
        bool, typer.Option("--compare", help="Two profiles: did the bottleneck move?")
    ] = False,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Draw utilization with intervals (.png, .svg, .pdf).")
    ] = None,
    details: DetailsOption = False,
    as_json: JsonOption = False,
) -> None:
    """Is the shared-memory atomic unit the bottleneck of each kernel? How busy was it? How sure is that?"""
    if not show_how:
        check_profiles(profiles, example, PROFILE_OR_HOW)
    check_gpus(gpu)
    check_inputs(table, samples)
    check_outputs(plot)
    with loading():
        from smlab.commands.utilization.run import UtilizationOptions, run_utilization

    run_utilization(
        UtilizationOptions(
            profiles=tuple(profiles or ()),
            gpu=gpu,
            table=table,
            samples=samples,
            compare=compare,
            example=example,
            plot=plot,
            show_how=show_how,
            details=details,
            as_json=as_json,
        )
    )


register = registers(utilization, "Is the shared-memory atomic unit the bottleneck?")

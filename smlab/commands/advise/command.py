"""``smlab advise``: its command line."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from smlab.cli.fast_start import check_choice, check_gpus, check_includes, check_inputs, check_outputs
from smlab.cli.loading import loading
from smlab.cli.options import DetailsOption, IncludeOption, JsonOption
from smlab.hw_bench.errors import SmlabError

MODES = ("smlab", "as-published", "as-coded")


def advise(
    profile: Annotated[
        str | None,
        typer.Argument(
            metavar="PROFILE or KERNEL",
            help="A .ncu-rep, ncu's source page as CSV, or samples of smlab run; with --launch a kernel.",
        ),
    ] = None,
    code: Annotated[
        Path | None, typer.Option(help="The code that ran: a .cubin, or a listing of nvdisasm -c -hex.")
    ] = None,
    launch: Annotated[
        Path | None, typer.Option(help="Simulate the kernel with this launch (TOML) and sample it.")
    ] = None,
    gpu: Annotated[
        str | None, typer.Option(help="A GPU's name or description; by default the profile's own.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Which kernel of a file with several.")] = None,
    defines: Annotated[
        list[str] | None, typer.Option("-D", metavar="NAME=VALUE", help="A macro of CUDA C; repeatable.")
    ] = None,
    include: IncludeOption = None,
    sms: Annotated[
        str, typer.Option(help="With --launch: SMs that run, all, or auto (as many as it takes).")
    ] = "auto",
    tried: Annotated[
        list[str] | None,
        typer.Option(
            "--try",
            metavar="FILE or NAME=VALUE,...",
            help="With --launch: simulate this version too, or macros (NAME=VALUE), or another launch "
            "(grid=80, block=128), and compare its results; repeatable.",
        ),
    ] = None,
    try_seconds: Annotated[
        float,
        typer.Option(
            "--try-seconds",
            metavar="S",
            help="CPU time of the command up to which other launch shapes and versions of the source are "
            "simulated and compared; 0 tries none.",
        ),
    ] = 30.0,
    top: Annotated[
        int, typer.Option(metavar="N", min=1, help="How much advice to give for each kernel.")
    ] = 5,
    mode: Annotated[
        str, typer.Option(help="How stalls are blamed: smlab, as-published (GPA's paper), as-coded.")
    ] = "smlab",
    html: Annotated[
        Path | None, typer.Option(help="Write the kernel's page (HTML): advice, units, memory, stalls, code.")
    ] = None,
    example: Annotated[bool, typer.Option("--example", help="Advise on the kernel that ships.")] = False,
    details: DetailsOption = False,
    as_json: JsonOption = False,
) -> None:
    """What to change in a kernel, where, and what it would gain, by samples of its instructions."""
    begun_s = sum(os.times()[:4])  # CPU time; what is imported next counts as the command's
    if example and (profile is not None or launch is not None):
        raise SmlabError.at("--example", "takes no profile", profile, "one or the other")
    if not example and profile is None:
        raise SmlabError(
            "PROFILE: no profile given (expected a .ncu-rep, a CSV with samples, a kernel with --launch, or "
            "--example)"
        )
    if profile is not None:
        head, colon, _ = profile.rpartition(":")
        check_inputs(Path(head if colon and head.endswith(".py") else profile))
    if tried and launch is None and not example:
        raise SmlabError.at("--try", "needs a kernel with --launch", tried[0], "KERNEL --launch FILE")
    if not 0 <= try_seconds < 1e6:
        raise SmlabError.at("--try-seconds", "no time", try_seconds, "seconds from 0 on")
    check_inputs(code, launch)
    check_includes(include)
    check_choice("--mode", mode, MODES)
    check_gpus(gpu)
    check_outputs(html)
    with loading():
        from smlab.commands.advise.run import AdviseOptions, run_advise

    run_advise(
        AdviseOptions(
            profile=profile or "",
            code=code,
            launch=launch,
            gpu=gpu,
            name=name,
            defines=tuple(defines or ()),
            folders=tuple(include or ()),
            sms=sms,
            tried=tuple(tried or ()),
            top=top,
            mode=mode,
            html=html,
            example=example,
            as_json=as_json,
            details=details,
            trial_budget_s=try_seconds,
            begun_s=begun_s,
        )
    )


def register(app: typer.Typer, panel: str) -> None:
    """Add the command to the front door, under the heading ``panel`` of its help."""
    app.command(
        short_help="What to change in a kernel, and what it would gain.",
        rich_help_panel=panel,
    )(advise)

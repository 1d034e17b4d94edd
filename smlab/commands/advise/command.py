"""``smlab advise``: its command line."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from smlab.cli.fast_start import check_choice, check_gpus, check_includes, check_inputs, check_outputs
from smlab.cli.options import DetailsOption, IncludeOption, JsonOption, MacroOption, NameOption
from smlab.cli.registering import call, registers
from smlab.hw_bench.errors import SmlabError

MODES = ("smlab", "as-published", "as-coded")


@dataclass(frozen=True)
class AdviseOptions:
    """What ``smlab advise`` was asked for."""

    profile: Annotated[
        str | None,
        typer.Argument(
            metavar="PROFILE or KERNEL",
            help="A .ncu-rep, ncu's source page as CSV, or samples of smlab run; with --launch a kernel.",
        ),
    ] = None
    code: Annotated[
        Path | None, typer.Option(help="The code that ran: a .cubin, or a listing of nvdisasm -c -hex.")
    ] = None
    launch: Annotated[
        Path | None, typer.Option(help="Simulate the kernel with this launch (TOML) and sample it.")
    ] = None
    gpu: Annotated[
        str | None, typer.Option(help="A GPU's name or description; by default the profile's own.")
    ] = None
    name: NameOption = None
    defines: MacroOption = None
    include: IncludeOption = None
    sms: Annotated[
        str, typer.Option(help="With --launch: SMs that run, all, or auto (as many as it takes).")
    ] = "auto"
    tried: Annotated[
        list[str] | None,
        typer.Option(
            "--try",
            metavar="FILE or NAME=VALUE,...",
            help="With --launch: simulate this version too, or macros (NAME=VALUE), or another launch "
            "(grid=80, block=128), and compare its results; repeatable.",
        ),
    ] = None
    try_seconds: Annotated[
        float,
        typer.Option(
            "--try-seconds",
            metavar="S",
            help="CPU time of the command up to which other launch shapes and versions of the source are "
            "simulated and compared; 0 tries none.",
        ),
    ] = 30.0
    top: Annotated[int, typer.Option(metavar="N", min=1, help="How much advice to give for each kernel.")] = 5
    mode: Annotated[
        str, typer.Option(help="How stalls are blamed: smlab, as-published (GPA's paper), as-coded.")
    ] = "smlab"
    html: Annotated[
        Path | None, typer.Option(help="Write the kernel's page (HTML): advice, units, memory, stalls, code.")
    ] = None
    example: Annotated[bool, typer.Option("--example", help="Advise on the kernel that ships.")] = False
    details: DetailsOption = False
    as_json: JsonOption = False


def advise(asked: AdviseOptions) -> None:
    """What to change in a kernel, where, and what it would gain, by samples of its instructions."""
    begun_s = sum(os.times()[:4])  # CPU time; what is imported next counts as the command's
    if asked.example and (asked.profile is not None or asked.launch is not None):
        raise SmlabError.at("--example", "takes no profile", asked.profile, "one or the other")
    if not asked.example and asked.profile is None:
        raise SmlabError(
            "PROFILE: no profile given (expected a .ncu-rep, a CSV with samples, a kernel with --launch, or "
            "--example)"
        )
    if asked.profile is not None:
        head, colon, _ = asked.profile.rpartition(":")
        check_inputs(Path(head if colon and head.endswith(".py") else asked.profile))
    if asked.tried and asked.launch is None and not asked.example:
        raise SmlabError.at("--try", "needs a kernel with --launch", asked.tried[0], "KERNEL --launch FILE")
    if not 0 <= asked.try_seconds < 1e6:
        raise SmlabError.at("--try-seconds", "no time", asked.try_seconds, "seconds from 0 on")
    check_inputs(asked.code, asked.launch)
    check_includes(asked.include)
    check_choice("--mode", asked.mode, MODES)
    check_gpus(asked.gpu)
    check_outputs(asked.html)
    call("smlab.commands.advise.run:run_advise", asked, begun_s)


register = registers(advise, "What to change in a kernel, and what it would gain.", AdviseOptions)

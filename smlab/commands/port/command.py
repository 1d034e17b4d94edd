"""``smlab port``: its command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from smlab.cli.loading import loading
from smlab.cli.options import JsonOption


def port(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME=FILE...",
            help="Times on each GPU: nsys's trace (CSV), a profile of ncu, Kernel Tuner's cache or T4, KTT's "
            "JSON, or CSV kernel,config,launch,seconds. The first is the source.",
        ),
    ] = None,
    top: Annotated[int, typer.Option("--top", min=1, help="How many configurations to list.")] = 20,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", help="Draw the cascade of efficiencies (.png, .svg, .pdf; data beside it)."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """The same kernels on two or more GPUs: ratios with intervals that know drift, and how portable they
    are."""
    with loading():
        from smlab.commands.port.run import PortOptions, run_port

    run_port(PortOptions(files=tuple(files or ()), top=top, plot=plot, as_json=as_json))


def register(app: typer.Typer) -> None:
    """Add the command to the front door."""
    app.command()(port)

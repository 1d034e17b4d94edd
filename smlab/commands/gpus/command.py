"""``smlab gpus``: its command line."""

from __future__ import annotations

from typing import Annotated

import typer

from smlab.cli.loading import loading
from smlab.cli.options import JsonOption


def gpus(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Show every constant of this one.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the GPUs, or one with value, unit, kind and source of each constant."""
    with loading():
        from smlab.commands.gpus.run import show_gpus

    show_gpus(name, as_json=as_json)


def register(app: typer.Typer) -> None:
    """Add the command to the front door."""
    app.command(short_help="GPUs, and where each of their constants comes from.")(gpus)

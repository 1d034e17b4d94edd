"""``smlab gpus``: its command line."""

from __future__ import annotations

from typing import Annotated

import typer

from smlab.cli.loading import loading
from smlab.cli.options import DetailsOption, JsonOption, complete_gpu
from smlab.cli.registering import registers


def gpus(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="Show this one's constants.", autocompletion=complete_gpu),
    ] = None,
    details: DetailsOption = False,
    as_json: JsonOption = False,
) -> None:
    """List the GPUs, or one with value, unit, kind and source of each constant.

    CC is the compute capability; judged by tells how many published measurements were not fitted.
    """
    with loading():
        from smlab.commands.gpus.run import show_gpus

    show_gpus(name, details=details, as_json=as_json)


register = registers(gpus, "List the GPUs and their constants.")

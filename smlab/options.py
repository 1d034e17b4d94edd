"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

GpuOption = Annotated[
    str, typer.Option("--gpu", help="A GPU's name (`smlab gpus` lists them) or a description's path.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Set a key of the workload, or gpu.KEY of the GPU; repeatable."
    ),
]

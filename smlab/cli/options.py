"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
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
ProfilesArgument = Annotated[
    list[Path] | None, typer.Argument(metavar="PROFILE...", help="Output of ncu, nvprof or smlab.")
]
ProfileGpuOption = Annotated[
    str | None, typer.Option("--gpu", help="The GPU, where the profile does not tell.")
]
ExampleOption = Annotated[
    bool, typer.Option("--example", help="Read the small profile that ships (simulated kernels).")
]
HowOption = Annotated[bool, typer.Option("--how", help="Which counters to collect, and with which command.")]
MaximaOption = Annotated[
    str, typer.Option("--maxima", help="sustained (published measurements) or spec (rated peaks).")
]
IssueOption = Annotated[
    bool, typer.Option("--issue/--no-issue", help="Count the rate of instructions among the ceilings.")
]
ParallelismOption = Annotated[
    bool,
    typer.Option(
        "--parallelism/--no-parallelism",
        help="Count what the grid can use of the GPU: waves, tail, idle SMs, few warps.",
    ),
]

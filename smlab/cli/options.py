"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from smlab.cli.text import SCHEMA
from smlab.hw_bench.errors import SmlabError

MEASURE, RUN, COMPARE, STUDY, TESTBED = (
    "Measure a profile",
    "Run a kernel",
    "Compare cards",
    "Study",
    "Testbed",
)
"""The groups of commands in ``smlab --help``, in its order."""


def complete_gpu(incomplete: str) -> list[str]:
    """GPU names that begin so, for the shell's completion."""
    from smlab.hw_bench.gpu.descriptions import list_gpus

    return [name for name in list_gpus() if name.startswith(incomplete)]


GpuOption = Annotated[
    str,
    typer.Option(
        "--gpu",
        help="A GPU's name (`smlab gpus` lists them) or a description's path.",
        autocompletion=complete_gpu,
    ),
]
JsonOption = Annotated[
    bool,
    typer.Option(
        "--json",
        help=f"Print one JSON document (schema {SCHEMA}): keys keep their name, meaning and unit; new "
        "ones may be added.",
    ),
]
DetailsOption = Annotated[bool, typer.Option("--details", help="Print all details, not the answer alone.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Set a key of the workload, or gpu.KEY of the GPU; repeatable."
    ),
]
GpuSetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="gpu.KEY=VALUE", help="Set a constant of the GPU; repeatable."),
]
NameOption = Annotated[str | None, typer.Option(help="Which kernel of a file with several.")]
MacroOption = Annotated[
    list[str] | None, typer.Option("-D", metavar="NAME=VALUE", help="A macro of CUDA C; repeatable.")
]
EngineOption = Annotated[str, typer.Option(help="The simulator's engine: compiled, or simpy, the reference.")]
SeedOption = Annotated[int, typer.Option(metavar="N", min=0, help="Root of all random numbers.")]
MaxCyclesOption = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Stop with an error if the kernel takes longer.")
]
ChromeTraceOption = Annotated[Path | None, typer.Option(help="Write a Chrome trace (opens in Perfetto).")]
ResumePointsOption = Annotated[
    bool, typer.Option("--resume", help="Keep the points in the folder and run the others.")
]
IncludeOption = Annotated[
    list[Path] | None,
    typer.Option("-I", metavar="DIR", help="A folder with headers, besides the source's own; repeatable."),
]
JobsOption = Annotated[
    int | None, typer.Option("--jobs", metavar="N", min=1, help="Worker processes (default: all cores).")
]
DaskOption = Annotated[
    str | None, typer.Option("--dask", metavar="ADDRESS", help="Run on the Dask cluster with this scheduler.")
]
ClockOption = Annotated[
    float | None,
    typer.Option(
        "--clock",
        metavar="MHZ",
        help="The SMs' clock, if you know it (default: the GPU's; run and tune keep to its power limit).",
    ),
]
AlternativeOption = Annotated[
    str | None,
    typer.Option(
        "--alternative",
        metavar="NAME",
        help="Which alternative for the shared-memory atomic unit to simulate, or all; the evidence "
        "leaves several open.",
    ),
]
ToleranceOption = Annotated[
    str, typer.Option("--tolerance", metavar="P", help="How much slower the second run may be: 2%, or 0.02.")
]


def tolerance_of(text: str) -> float:
    """What ``--tolerance`` says, as a part of 1.

    Raises:
        SmlabError: no number, or one that no tolerance is.
    """
    digits = text.strip()
    try:
        part = float(digits.removesuffix("%")) / (100 if digits.endswith("%") else 1)
    except ValueError:
        part = -1.0
    if not 0 <= part <= 10:
        raise SmlabError.at("--tolerance", "no tolerance", text, "2% or 0.02")
    return part


ProfilesArgument = Annotated[
    list[Path] | None, typer.Argument(metavar="PROFILE...", help="Output of ncu, nvprof or smlab.")
]
ProfileGpuOption = Annotated[
    str | None,
    typer.Option("--gpu", help="The GPU, if the profile does not name it.", autocompletion=complete_gpu),
]
ExampleOption = Annotated[
    bool, typer.Option("--example", help="Read the small profile of simulated kernels that ships.")
]
HowOption = Annotated[
    bool, typer.Option("--how", help="Print which counters to collect, and the command for it.")
]
MaximaOption = Annotated[
    str,
    typer.Option("--maxima", help="The ceilings: sustained (published measurements) or spec (rated peaks)."),
]
IssueOption = Annotated[
    bool, typer.Option("--issue/--no-issue", help="Count the issue rate among the ceilings.")
]
ParallelismOption = Annotated[
    bool,
    typer.Option(
        "--parallelism/--no-parallelism",
        help="Lower the ceilings to what the grid can use: waves, tail, idle SMs, few warps.",
    ),
]

"""``smlab compare``: its command line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from smlab.cli.fast_start import check_gpus, check_includes, check_inputs, check_outputs
from smlab.cli.options import (
    DetailsOption,
    GpuOption,
    IncludeOption,
    JsonOption,
    MacroOption,
    NameOption,
    ToleranceOption,
    tolerance_of,
)
from smlab.cli.registering import call, registers
from smlab.hw_bench.errors import SmlabError

SIDE = "a kept run (.json), or a kernel with --launch"


@dataclass(frozen=True)
class CompareOptions:
    """What ``smlab compare`` was asked for."""

    before: Annotated[
        str | None, typer.Argument(metavar="A", help="A kept run (JSON of run --json), or a kernel to run.")
    ] = None
    after: Annotated[
        str | None,
        typer.Argument(
            metavar="B",
            help="The second run or kernel; without it A again, with another launch, GPU or macros.",
        ),
    ] = None
    launch: Annotated[Path | None, typer.Option(help="The launch (TOML) of the kernels.")] = None
    launch_b: Annotated[Path | None, typer.Option(help="The launch of B, if it differs.")] = None
    gpu: GpuOption = "v100"
    gpu_b: Annotated[str | None, typer.Option(help="The GPU of B, if it differs.")] = None
    name: NameOption = None
    defines: MacroOption = None
    defines_b: Annotated[
        list[str] | None,
        typer.Option(
            "--define-b", metavar="NAME=VALUE", help="A macro of B, beside those of -D; repeatable."
        ),
    ] = None
    include: IncludeOption = None
    sms: Annotated[str, typer.Option(help="SMs to simulate, or all, or auto.")] = "all"
    tolerance: ToleranceOption = "2%"
    html: Annotated[Path | None, typer.Option(help="Write the comparison as a page (HTML).")] = None
    example: Annotated[
        bool, typer.Option("--example", help="Compare two launches of the kernel that ships.")
    ] = False
    details: DetailsOption = False
    as_json: JsonOption = False


def compare(asked: CompareOptions) -> None:
    """What changed between two runs of a kernel: time, results, counters, source lines.

    Two versions, two GPUs, two launches, or two kept runs. Status 1 if B is slower, or its results differ.
    """
    if asked.example and asked.before is not None:
        raise SmlabError.at("--example", "takes no run", asked.before, "one or the other")
    if not asked.example and asked.before is None:
        raise SmlabError(f"A: no run given (expected {SIDE}, or --example)")
    before, after = asked.before, asked.after
    if before is not None and after is None:
        if not (asked.launch_b or asked.gpu_b or asked.defines_b):
            raise SmlabError.at("B", "is missing", None, f"{SIDE}; or --gpu-b, --launch-b, --define-b")
        after = before
    for what, own in ((before, asked.launch), (after, asked.launch_b or asked.launch)):
        if what is None:
            continue
        head, colon, _ = what.rpartition(":")
        check_inputs(Path(head if colon and head.endswith(".py") else what))
        if not is_kept(what) and own is None:
            raise SmlabError.at("--launch", "is missing", None, "a file with grid, block and arguments")
    tolerance_of(asked.tolerance)
    check_inputs(asked.launch, asked.launch_b)
    check_includes(asked.include)
    check_gpus(asked.gpu, asked.gpu_b)
    check_outputs(asked.html)
    if call("smlab.commands.compare.run:run_compare", asked):
        raise typer.Exit(1)


def is_kept(what: str) -> bool:
    """Whether a name is one of a kept run."""
    return what.endswith((".json", ".json.gz"))


register = registers(compare, "What changed between two runs of a kernel.", CompareOptions)

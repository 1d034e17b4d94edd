"""``smlab compare``: its command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from smlab.cli.fast_start import check_gpus, check_includes, check_inputs, check_outputs
from smlab.cli.loading import loading
from smlab.cli.options import (
    DetailsOption,
    GpuOption,
    IncludeOption,
    JsonOption,
    ToleranceOption,
    tolerance_of,
)
from smlab.cli.registering import registers
from smlab.hw_bench.errors import SmlabError

SIDE = "a kept run (.json), or a kernel with --launch"


def compare(
    before: Annotated[
        str | None, typer.Argument(metavar="A", help="A kept run (JSON of run --json), or a kernel to run.")
    ] = None,
    after: Annotated[
        str | None,
        typer.Argument(
            metavar="B",
            help="The second run or kernel; without it A again, with another launch, GPU or macros.",
        ),
    ] = None,
    launch: Annotated[Path | None, typer.Option(help="The launch (TOML) of the kernels.")] = None,
    launch_b: Annotated[Path | None, typer.Option(help="The launch of B, if it differs.")] = None,
    gpu: GpuOption = "v100",
    gpu_b: Annotated[str | None, typer.Option(help="The GPU of B, if it differs.")] = None,
    name: Annotated[str | None, typer.Option(help="Which kernel of a file with several.")] = None,
    defines: Annotated[
        list[str] | None, typer.Option("-D", metavar="NAME=VALUE", help="A macro of CUDA C; repeatable.")
    ] = None,
    defines_b: Annotated[
        list[str] | None,
        typer.Option(
            "--define-b", metavar="NAME=VALUE", help="A macro of B, beside those of -D; repeatable."
        ),
    ] = None,
    include: IncludeOption = None,
    sms: Annotated[str, typer.Option(help="SMs to simulate, or all, or auto.")] = "all",
    tolerance: ToleranceOption = "2%",
    html: Annotated[Path | None, typer.Option(help="Write the comparison as a page (HTML).")] = None,
    example: Annotated[
        bool, typer.Option("--example", help="Compare two launches of the kernel that ships.")
    ] = False,
    details: DetailsOption = False,
    as_json: JsonOption = False,
) -> None:
    """What changed between two runs of a kernel: time, results, counters, source lines.

    Two versions, two GPUs, two launches, or two kept runs. Status 1 if B is slower, or its results differ.
    """
    if example and before is not None:
        raise SmlabError.at("--example", "takes no run", before, "one or the other")
    if not example and before is None:
        raise SmlabError(f"A: no run given (expected {SIDE}, or --example)")
    if before is not None and after is None:
        if not (launch_b or gpu_b or defines_b):
            raise SmlabError.at("B", "is missing", None, f"{SIDE}; or --gpu-b, --launch-b, --define-b")
        after = before
    for what, own in ((before, launch), (after, launch_b or launch)):
        if what is None:
            continue
        head, colon, _ = what.rpartition(":")
        check_inputs(Path(head if colon and head.endswith(".py") else what))
        if not is_kept(what) and own is None:
            raise SmlabError.at("--launch", "is missing", None, "a file with grid, block and arguments")
    part = tolerance_of(tolerance)
    check_inputs(launch, launch_b)
    check_includes(include)
    check_gpus(gpu, gpu_b)
    check_outputs(html)
    with loading():
        from smlab.commands.compare.run import ComparedSide, CompareOptions, example_sides, run_compare

    if before is None or after is None:
        sides = example_sides(gpu)
    else:
        shared = tuple(defines or ())
        sides = (
            ComparedSide(before, None if is_kept(before) else launch, gpu, shared),
            ComparedSide(
                after,
                None if is_kept(after) else launch_b or launch,
                gpu_b or gpu,
                (*shared, *(defines_b or ())),
            ),
        )
    status = run_compare(
        CompareOptions(
            *sides,
            name=name,
            folders=tuple(include or ()),
            sms=sms,
            tolerance=part,
            html=html,
            as_json=as_json,
            details=details,
        )
    )
    if status:
        raise typer.Exit(status)


def is_kept(what: str) -> bool:
    """Whether a name is one of a kept run."""
    return what.endswith((".json", ".json.gz"))


register = registers(compare, "What changed between two runs of a kernel.")

"""``smlab tune``: its command line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from smlab.cli.fast_start import check_gpus, check_inputs
from smlab.cli.options import (
    ClockOption,
    DaskOption,
    DetailsOption,
    GpuOption,
    GpuSetOption,
    JobsOption,
    JsonOption,
    NameOption,
    SeedOption,
)
from smlab.cli.registering import call, registers
from smlab.hw_bench.errors import SmlabError


@dataclass(frozen=True)
class TuneSpaceOptions:
    """What ``smlab tune`` was asked for."""

    space: Annotated[
        str | None,
        typer.Argument(
            help="A tuning space (TOML), a problem or results of Kernel Tuner or KTT (.json, .json.gz), or "
            "file.py:kernel under triton.autotune (executes the Python file)."
        ),
    ] = None
    gpu: GpuOption = "v100"
    source: Annotated[
        Path | None, typer.Option("--source", help="CUDA C of the kernel, if the space names none.")
    ] = None
    launch: Annotated[
        Path | None, typer.Option(help="The launch (TOML), if the space has none; may name parameters.")
    ] = None
    name: NameOption = None
    top: Annotated[
        int, typer.Option(metavar="N", min=1, help="How many of the best configurations to put in order.")
    ] = 10
    budget_cpu_s: Annotated[
        float | None,
        typer.Option("--budget-cpu-s", metavar="SECONDS", help="Processor time to use, at most."),
    ] = None
    draw: Annotated[
        int | None,
        typer.Option("--draw", metavar="N", min=1, help="Simulate only N configurations, drawn by --seed."),
    ] = None
    seed: SeedOption = 0
    truth: Annotated[
        Path | None,
        typer.Option("--truth", help="Measured results on this GPU: says how well the order fits."),
    ] = None
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for the results (results/tune/SPACE).")
    ] = None
    jobs: JobsOption = None
    dask: DaskOption = None
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep the times in the folder and simulate the others.")
    ] = False
    clock_mhz: ClockOption = None
    settings: GpuSetOption = None
    example: Annotated[bool, typer.Option("--example", help="Tune the small space that ships.")] = False
    details: DetailsOption = False
    as_json: JsonOption = False


def tune(asked: TuneSpaceOptions) -> None:
    """Rank the configurations of a kernel by simulation: the best of a tuning space, without the GPU."""
    if asked.example and asked.space is not None:
        raise SmlabError.at("--example", "takes no space", asked.space, "one or the other")
    if not asked.example and asked.space is None:
        raise SmlabError(
            "SPACE: no tuning space given (expected a space file, a problem or results of Kernel Tuner or "
            "KTT, file.py:kernel, or --example)"
        )
    if asked.jobs is not None and asked.dask is not None:
        expected = "no --jobs: the cluster says how many"
        raise SmlabError.at("--jobs", "has no meaning with --dask", asked.jobs, expected)
    if asked.space is not None:
        head, colon, _ = asked.space.rpartition(":")
        check_inputs(Path(head if colon and head.endswith(".py") else asked.space))
    check_inputs(asked.source, asked.launch, asked.truth)
    check_gpus(asked.gpu)
    call("smlab.commands.tune.run:run_tune_space", asked)


register = registers(tune, "Rank the configurations of a kernel.", TuneSpaceOptions)

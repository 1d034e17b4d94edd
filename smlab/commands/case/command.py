"""``smlab case``: the command line of the case studies."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from smlab.cli.fast_start import check_gpus
from smlab.cli.options import GpuOption, JsonOption, ResumePointsOption, SeedOption
from smlab.cli.registering import call, with_options

case = typer.Typer(help="Case studies from papers, simulated: rerun and vary them.")


@case.callback()
def _root() -> None:
    """Case studies from papers, simulated: rerun and vary them."""


@dataclass(frozen=True)
class CaseArguments:
    """What ``smlab case`` was asked for."""

    gpu: GpuOption = "titan-v"
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for the results (results/case/histogram-GPU).")
    ] = None
    resume: ResumePointsOption = False
    images: Annotated[
        list[str] | None,
        typer.Option("--image", help="Only this image: a name, or a .png or .npy file; repeatable."),
    ] = None
    cache: Annotated[str, typer.Option(help="Has L2 seen the image before the launch: warm or cold.")] = (
        "warm"
    )
    blocks_per_sm: Annotated[
        int, typer.Option(metavar="N", min=0, help="Blocks for each SM; 0 fills it.")
    ] = 1
    channels: Annotated[
        str, typer.Option(help="Does the compiler know that there are four channels: constant or variable.")
    ] = "constant"
    quick: Annotated[bool, typer.Option("--quick", help="Four sizes only.")] = False
    jobs: Annotated[int | None, typer.Option(metavar="N", min=1, help="Processes to use (all cores).")] = None
    seed: SeedOption = 0
    as_json: JsonOption = False


def case_histogram(asked: CaseArguments) -> None:
    """Dong & Pai's histogram: utilization against image size, Figures 3 to 5, and what holds of their
    findings."""
    check_gpus(asked.gpu)
    call("smlab.commands.case.run:run_histogram", asked)


case.command("histogram", short_help="Dong & Pai's histogram, Figures 3 to 5.")(
    with_options(case_histogram, CaseArguments)
)


def register(app: typer.Typer, panel: str) -> None:
    """Add the commands to the front door, under the heading ``panel`` of its help."""
    app.add_typer(case, name="case", short_help="Repeat case studies from papers.", rich_help_panel=panel)

"""``smlab project``: its command line."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from smlab.cli.fast_start import (
    PROFILE_OR_DATASET,
    check_gpus,
    check_includes,
    check_inputs,
    check_outputs,
    check_profiles,
)
from smlab.cli.options import (
    DetailsOption,
    ExampleOption,
    IncludeOption,
    IssueOption,
    JsonOption,
    MaximaOption,
    ParallelismOption,
    ProfilesArgument,
)
from smlab.cli.registering import call, registers
from smlab.hw_bench.errors import SmlabError

if TYPE_CHECKING:
    from smlab.models.projection.projection import ProjectionSwitches


@dataclass(frozen=True)
class ProjectOptions:
    """What ``smlab project`` was asked for; ``source`` and ``target`` are ``--from`` and ``--to``, whose
    constants ``settings`` change."""

    profiles: ProfilesArgument = None
    source: Annotated[
        str | None, typer.Option("--from", help="The GPU that was profiled, if the profile does not name it.")
    ] = None
    target: Annotated[str | None, typer.Option("--to", help="The GPU to project to.")] = None
    truth: Annotated[
        Path | None,
        typer.Option("--truth", help="Times on the target: a profile, or CSV kernel,seconds[,launch]."),
    ] = None
    dataset: Annotated[
        str | None,
        typer.Option(
            "--dataset", help="Others' measurements instead: neusight:DIR, ktt:DIR or kernel-tuner:DIR."
        ),
    ] = None
    cubin_from: Annotated[
        Path | None, typer.Option("--cubin-from", help="Machine code of the kernels for the GPU of --from.")
    ] = None
    cubin_to: Annotated[
        Path | None, typer.Option("--cubin-to", help="Machine code of the kernels for the GPU of --to.")
    ] = None
    code_source: Annotated[
        Path | None,
        typer.Option(
            "--source", help="CUDA C of the kernels: compiled for both GPUs (with a tuning set: of each row)."
        ),
    ] = None
    defines: Annotated[
        list[str] | None, typer.Option("-D", metavar="NAME=VALUE", help="A macro for --source; repeatable.")
    ] = None
    folders: IncludeOption = None
    cubins: Annotated[
        list[Path] | None,
        typer.Option("--cubin", help="Machine code for the GPU of --to, or for both; repeatable."),
    ] = None
    simulate: Annotated[
        bool, typer.Option("--simulate", help="Also run the machine code on both GPUs (with --launch).")
    ] = False
    launch: Annotated[
        Path | None,
        typer.Option("--launch", help="The kernels' arguments for --simulate, as `smlab run` takes them."),
    ] = None
    draw: Annotated[
        int | None,
        typer.Option("--draw", metavar="N", min=1, help="Only N rows of a tuning set, drawn with seed 0."),
    ] = None
    working_sets: Annotated[
        list[str] | None,
        typer.Option(
            "--working-set",
            metavar="KERNEL=BYTES",
            help="A kernel's working set, for L2's capacity; repeatable.",
        ),
    ] = None
    clock: Annotated[
        float | None,
        typer.Option("--clock", metavar="MHZ", help="The SM clock of the GPU of --to, if you know it."),
    ] = None
    source_clock: Annotated[
        float | None,
        typer.Option(
            "--from-clock",
            metavar="MHZ",
            help="The SM clock of the GPU of --from, if the profile does not have it.",
        ),
    ] = None
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="gpu.KEY=VALUE", help="Set a constant of the GPU of --to; repeatable."),
    ] = None
    maxima: MaximaOption = "sustained"
    parallelism: ParallelismOption = True
    cache: Annotated[
        bool, typer.Option("--cache/--no-cache", help="Count L2's capacity, if the working set is known.")
    ] = True
    launch_overhead: Annotated[
        bool,
        typer.Option("--launch-overhead/--no-launch-overhead", help="Count the cost of a launch separately."),
    ] = True
    overhead_us: Annotated[
        float | None,
        typer.Option(
            "--overhead-us", metavar="US", min=0, help="The launch overhead, if the descriptions have none."
        ),
    ] = None
    issue: IssueOption = True
    latency: Annotated[
        bool,
        typer.Option(
            "--latency/--no-latency",
            help="Use the latencies of both descriptions for what warps wait for, whatever their source.",
        ),
    ] = False
    paper: Annotated[
        bool,
        typer.Option(
            "--paper",
            help="The model as Van Lanker et al. published it (2024): turns the options from "
            "--parallelism to --latency off.",
        ),
    ] = False
    example: ExampleOption = False
    plot: Annotated[
        Path | None,
        typer.Option("--plot", help="Draw measured, interval and actual (.png, .svg, .pdf; data beside it)."),
    ] = None
    details: DetailsOption = False
    as_json: JsonOption = False

    @property
    def switches(self) -> ProjectionSwitches:
        """What of the method is on."""
        from smlab.commands.gpu_choice import clock_of
        from smlab.models.projection.peak_rates import checked_maxima
        from smlab.models.projection.projection import PAPER, ProjectionSwitches

        maxima = checked_maxima(self.maxima)
        if self.paper:
            return replace(PAPER, maxima=maxima)
        return ProjectionSwitches(
            maxima=maxima,
            parallelism=self.parallelism,
            cache=self.cache,
            launch_overhead=self.launch_overhead,
            issue=self.issue,
            latency=self.latency,
            overhead_s=None if self.overhead_us is None else self.overhead_us * 1e-6,
            source_clock_hz=None if self.source_clock is None else clock_of(self.source_clock),
            target_clock_hz=None if self.clock is None else clock_of(self.clock),
        )


def project(asked: ProjectOptions) -> None:
    """A kernel's time on a GPU that you don't have, as an interval."""
    if asked.dataset is None:
        check_profiles(asked.profiles, asked.example, PROFILE_OR_DATASET)
    check_gpus(asked.source, asked.target)
    check_includes(asked.folders)
    code = (asked.cubin_from, asked.cubin_to, asked.code_source, *(asked.cubins or ()))
    check_inputs(asked.truth, asked.launch, *code)
    check_outputs(asked.plot)
    for option, told in (("--clock", asked.clock), ("--from-clock", asked.source_clock)):
        if asked.paper and told is not None:
            raise SmlabError.at(option, "the published method knows no clock", told, "no --paper")
    if asked.dataset is not None and asked.settings:
        raise SmlabError.at("--set", "goes with a profile", asked.settings[0], "no --dataset")
    call("smlab.commands.project.run:run_project", asked)


register = registers(project, "Predict a kernel's time on another GPU.", ProjectOptions)

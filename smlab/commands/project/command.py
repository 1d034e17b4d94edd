"""``smlab project``: its command line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from smlab.cli.fast_start import (
    PROFILE_OR_DATASET,
    check_gpus,
    check_includes,
    check_inputs,
    check_outputs,
    check_profiles,
)
from smlab.cli.loading import loading
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
from smlab.cli.registering import registers
from smlab.hw_bench.errors import SmlabError


def project(
    profiles: ProfilesArgument = None,
    source: Annotated[
        str | None, typer.Option("--from", help="The GPU that was profiled, where the profile does not tell.")
    ] = None,
    target: Annotated[str | None, typer.Option("--to", help="The GPU to project to.")] = None,
    truth: Annotated[
        Path | None,
        typer.Option("--truth", help="Times on the target: a profile, or CSV kernel,seconds[,launch]."),
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option(
            "--dataset", help="Others' measurements instead: neusight:DIR, ktt:DIR or kernel-tuner:DIR."
        ),
    ] = None,
    cubin_from: Annotated[
        Path | None, typer.Option("--cubin-from", help="Machine code of the kernels for the source.")
    ] = None,
    cubin_to: Annotated[
        Path | None, typer.Option("--cubin-to", help="Machine code of the kernels for the target.")
    ] = None,
    kernel_source: Annotated[
        Path | None,
        typer.Option(
            "--source", help="CUDA C of the kernels: compiled for both GPUs (with a tuning set: of each row)."
        ),
    ] = None,
    define: Annotated[
        list[str] | None,
        typer.Option("-D", metavar="NAME=VALUE", help="A macro for --source; repeatable."),
    ] = None,
    include: IncludeOption = None,
    cubin: Annotated[
        list[Path] | None,
        typer.Option("--cubin", help="Machine code for the target, or for either GPU; repeatable."),
    ] = None,
    simulate: Annotated[
        bool,
        typer.Option("--simulate", help="Also run the machine code on both GPUs (with --launch)."),
    ] = False,
    launch: Annotated[
        Path | None,
        typer.Option("--launch", help="The kernels' arguments for --simulate, as `smlab run` takes them."),
    ] = None,
    draw: Annotated[
        int | None,
        typer.Option(
            "--draw", metavar="N", min=1, help="Only so many rows of a tuning set, drawn with seed 0."
        ),
    ] = None,
    working_set: Annotated[
        list[str] | None,
        typer.Option(
            "--working-set",
            metavar="KERNEL=BYTES",
            help="A kernel's working set, for L2's capacity; repeatable.",
        ),
    ] = None,
    clock: Annotated[
        float | None,
        typer.Option("--clock", metavar="MHZ", help="The target's SM clock, where somebody saw it."),
    ] = None,
    source_clock: Annotated[
        float | None,
        typer.Option("--from-clock", metavar="MHZ", help="The source's, where the profile does not tell."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="gpu.KEY=VALUE", help="Set a constant of the target; repeatable."),
    ] = None,
    maxima: MaximaOption = "sustained",
    parallelism: ParallelismOption = True,
    cache: Annotated[
        bool, typer.Option("--cache/--no-cache", help="Count L2's capacity, where the working set is known.")
    ] = True,
    launch_overhead: Annotated[
        bool, typer.Option("--launch-overhead/--no-launch-overhead", help="Count the cost of a launch apart.")
    ] = True,
    overhead_us: Annotated[
        float | None,
        typer.Option(
            "--overhead-us",
            metavar="US",
            min=0,
            help="The launch overhead, where the descriptions have none.",
        ),
    ] = None,
    issue: IssueOption = True,
    latency: Annotated[
        bool,
        typer.Option(
            "--latency/--no-latency",
            help="Take both descriptions' latencies for what warps wait for, whoever measured them.",
        ),
    ] = False,
    paper: Annotated[
        bool, typer.Option("--paper", help="As Van Lanker et al. 2024 published it: all of these off.")
    ] = False,
    example: ExampleOption = False,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", help="Draw measured, interval and actual (.png, .svg, .pdf; data beside it)."),
    ] = None,
    details: DetailsOption = False,
    as_json: JsonOption = False,
) -> None:
    """A kernel's time on a GPU that you don't have, as an interval."""
    if dataset is None:
        check_profiles(profiles, example, PROFILE_OR_DATASET)
    check_gpus(source, target)
    check_includes(include)
    check_inputs(truth, cubin_from, cubin_to, kernel_source, launch, *(cubin or ()))
    check_outputs(plot)
    for option, told in (("--clock", clock), ("--from-clock", source_clock)):
        if paper and told is not None:
            raise SmlabError.at(option, "the published method knows no clock", told, "no --paper")
    if dataset is not None and settings:
        raise SmlabError.at("--set", "goes with a profile", settings[0], "no --dataset")
    with loading():
        from smlab.commands.gpu_choice import clock_of
        from smlab.commands.project.options import ProjectOptions
        from smlab.commands.project.run import run_project
        from smlab.models.projection.peak_rates import checked_maxima
        from smlab.models.projection.projection import PAPER, ProjectionSwitches

    switches = ProjectionSwitches(
        maxima=checked_maxima(maxima),
        parallelism=parallelism,
        cache=cache,
        launch_overhead=launch_overhead,
        issue=issue,
        latency=latency,
        overhead_s=None if overhead_us is None else overhead_us * 1e-6,
        source_clock_hz=None if source_clock is None else clock_of(source_clock),
        target_clock_hz=None if clock is None else clock_of(clock),
    )
    if paper:
        switches = replace(PAPER, maxima=switches.maxima)
    run_project(
        ProjectOptions(
            profiles=tuple(profiles or ()),
            source=source,
            target=target,
            settings=tuple(settings or ()),
            switches=switches,
            truth=truth,
            dataset=dataset,
            cubin_from=cubin_from,
            cubin_to=cubin_to,
            code_source=kernel_source,
            defines=tuple(define or ()),
            folders=tuple(include or ()),
            cubins=tuple(cubin or ()),
            draw=draw,
            simulate=simulate,
            launch=launch,
            working_sets=tuple(working_set or ()),
            example=example,
            plot=plot,
            as_json=as_json,
            details=details,
        )
    )


register = registers(project, "Predict a kernel's time on another GPU.")

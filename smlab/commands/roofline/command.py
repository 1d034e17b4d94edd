"""``smlab roofline`` and ``smlab project``: the command line of the roofline and of projection to another
GPU."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from smlab.cli.options import HowOption, JsonOption, ProfileGpuOption, ProfilesArgument

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


def roofline(
    profiles: ProfilesArgument = None,
    gpu: ProfileGpuOption = None,
    maxima: MaximaOption = "sustained",
    parallelism: ParallelismOption = True,
    issue: IssueOption = True,
    at_clock: Annotated[
        bool, typer.Option("--at-clock", help="Scale the SM's ceilings to the clock in the profile.")
    ] = False,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Draw the roofline (.png, .svg, .pdf; data beside it).")
    ] = None,
    show_how: HowOption = False,
    as_json: JsonOption = False,
) -> None:
    """Each kernel under the roofs of its GPU and under ceilings of its own; what limits it."""
    from smlab.commands.roofline.run import run_roofline
    from smlab.models.roofline.maxima import checked_maxima

    run_roofline(
        profiles or [],
        gpu,
        maxima=checked_maxima(maxima),
        parallelism=parallelism,
        issue=issue,
        at_clock=at_clock,
        plot=plot,
        show_how=show_how,
        as_json=as_json,
    )


def project(
    profiles: ProfilesArgument = None,
    source: Annotated[str | None, typer.Option("--from", help="The GPU that was profiled.")] = None,
    target: Annotated[str | None, typer.Option("--to", help="The GPU to project to.")] = None,
    truth: Annotated[
        Path | None,
        typer.Option("--truth", help="Times on the target: a profile, or CSV kernel,seconds[,launch]."),
    ] = None,
    dataset: Annotated[
        str | None, typer.Option("--dataset", help="A set of measurements instead, such as neusight:DIR.")
    ] = None,
    cubin_from: Annotated[
        Path | None, typer.Option("--cubin-from", help="Machine code of the kernels for the source.")
    ] = None,
    cubin_to: Annotated[
        Path | None, typer.Option("--cubin-to", help="Machine code of the kernels for the target.")
    ] = None,
    working_set: Annotated[
        list[str] | None,
        typer.Option("--working-set", metavar="KERNEL=BYTES", help="What a kernel uses again; repeatable."),
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
        typer.Option("--overhead-us", min=0, help="The launch overhead, where the descriptions have none."),
    ] = None,
    issue: IssueOption = True,
    latency: Annotated[
        bool,
        typer.Option(
            "--latency/--no-latency", help="Time that no ceiling explains scales with latency, not with it."
        ),
    ] = False,
    paper: Annotated[
        bool, typer.Option("--paper", help="As Van Lanker et al. 2024 published it: all of these off.")
    ] = False,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", help="Draw measured, interval and actual (.png, .svg, .pdf; data beside it)."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """A kernel's time on a GPU that you don't have, as an interval."""
    from smlab.commands.project.run import run_projection
    from smlab.models.roofline.maxima import checked_maxima
    from smlab.models.roofline.projection import PAPER, ProjectionSwitches

    chosen = ProjectionSwitches(
        maxima=checked_maxima(maxima),
        parallelism=parallelism,
        cache=cache,
        launch_overhead=launch_overhead,
        issue=issue,
        latency=latency,
        overhead_s=None if overhead_us is None else overhead_us * 1e-6,
    )
    if paper:
        chosen = replace(PAPER, maxima=chosen.maxima)
    run_projection(
        profiles or [],
        source,
        target,
        chosen,
        truth=truth,
        dataset=dataset,
        cubins=(cubin_from, cubin_to),
        working_sets=working_set or [],
        plot=plot,
        as_json=as_json,
    )


def register(app: typer.Typer) -> None:
    """Add the commands to the front door."""
    app.command()(roofline)
    app.command()(project)

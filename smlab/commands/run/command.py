"""``smlab run``: its command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from smlab.cli.fast_start import check_choice, check_gpus, check_includes, check_inputs, check_outputs
from smlab.cli.loading import loading
from smlab.cli.options import (
    AlternativeOption,
    ClockOption,
    DetailsOption,
    GpuOption,
    GpuSetOption,
    IncludeOption,
    JsonOption,
    ToleranceOption,
    tolerance_of,
)
from smlab.hw_bench.errors import SmlabError

ENGINES = ("compiled", "simpy")


TRACES = (".traceg", ".traceg.xz", "kernelslist.g")
"""How names of traces end; `smlab.sim.traces.reading` reads them, which is not loaded yet here."""


def is_trace_name(kernel: str) -> bool:
    """Whether a kernel's name is one of a trace."""
    return kernel.endswith(TRACES)


def run(
    kernel: Annotated[
        str | None,
        typer.Argument(
            help="CUDA C (.cu), PTX (.ptx), a .cubin, a program or a fat binary, or a listing of nvdisasm -c "
            "-hex (.sass). Or file.py:kernel of Triton, Numba, CuPy or Warp: the Python file is executed. Or "
            "a trace of Accel-Sim (.traceg, .traceg.xz, kernelslist.g)."
        ),
    ] = None,
    launch: Annotated[
        Path | None,
        typer.Option(help="The launch (TOML): grid, block, arguments; with [[step]], several kernels."),
    ] = None,
    gpu: GpuOption = "v100",
    name: Annotated[str | None, typer.Option(help="Which kernel of a file with several.")] = None,
    defines: Annotated[
        list[str] | None,
        typer.Option(
            "-D", metavar="NAME=VALUE", help="A macro of CUDA C, or an option of Triton's; repeatable."
        ),
    ] = None,
    include: IncludeOption = None,
    engine: Annotated[
        str, typer.Option(help="The simulator's engine: compiled, or simpy, the reference.")
    ] = "compiled",
    clock: ClockOption = None,
    settings: GpuSetOption = None,
    alternative: AlternativeOption = None,
    anchor: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="This kernel's measured time on the card: prints the factor for other times on it.",
        ),
    ] = None,
    sms: Annotated[
        str,
        typer.Option(
            help="SMs to simulate, each with some waves of blocks; all: the whole grid; auto: 1, 2, "
            "4 and so on until the time is stable."
        ),
    ] = "all",
    check: Annotated[
        Path | None,
        typer.Option(help="The expected results: arrays by name (.npz); status 1 if they differ."),
    ] = None,
    counters: Annotated[
        Path | None,
        typer.Option(
            help="Write the counter table (CSV), as a profiler has it; that of a sample is scaled to "
            "the grid."
        ),
    ] = None,
    samples: Annotated[
        Path | None,
        typer.Option(
            help="Write samples by instruction (CSV), taken as a profiler's PC sampling takes them."
        ),
    ] = None,
    trace: Annotated[Path | None, typer.Option(help="Write a Chrome trace (opens in Perfetto).")] = None,
    html: Annotated[
        Path | None,
        typer.Option(help="Write the kernel's page (HTML): units, memory, stalls, code, timeline."),
    ] = None,
    baseline: Annotated[
        Path | None,
        typer.Option(help="A kept run (from --json): status 1 if this run is slower, or its results differ."),
    ] = None,
    tolerance: ToleranceOption = "2%",
    junit: Annotated[
        Path | None, typer.Option(help="With --baseline: write the outcome as JUnit's XML.")
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option(help="With --baseline: write the comparison as Markdown.")
    ] = None,
    result: Annotated[Path | None, typer.Option(help="Write the result arrays (.npz).")] = None,
    accel_sim: Annotated[
        Path | None,
        typer.Option(help="Write what was executed as Accel-Sim's traces into this folder.", metavar="DIR"),
    ] = None,
    max_cycles: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Stop with an error if the kernel takes longer.")
    ] = None,
    threads: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Threads to simulate on (default: all processors).")
    ] = None,
    example: Annotated[bool, typer.Option("--example", help="Run the small kernel that ships.")] = False,
    details: DetailsOption = False,
    as_json: JsonOption = False,
) -> None:
    """Execute a kernel's machine code on a simulated GPU: results, cycles, and where its warps waited.

    A trace is timed as it was recorded: its own launch, no data.
    """
    if example and kernel is not None:
        raise SmlabError.at("--example", "takes no kernel", kernel, "one or the other")
    if not example and kernel is None and launch is None:
        raise SmlabError(
            "KERNEL: no kernel given (expected a .cubin, .sass, .ptx, .cu, a program or file.py:kernel, "
            "or --example)"
        )
    traced = kernel is not None and is_trace_name(kernel)
    if traced:
        given: dict[str, object] = {"--launch": launch, "--check": check, "--result": result, "-D": defines}
        given |= {"-I": include, "--accel-sim": accel_sim, "--samples": samples, "--html": html}
        given |= {"--baseline": baseline}
        for option, value in given.items():
            if value:
                text = str(value[0] if isinstance(value, list) else value)
                raise SmlabError.at(option, "a trace has its own launch, and no data", text, "nothing")
        if sms != "all":
            raise SmlabError.at("--sms", "a trace runs whole", sms, "all")
    if kernel is not None:
        head, colon, _ = kernel.rpartition(":")
        check_inputs(Path(head if colon and head.endswith(".py") else kernel))
    if baseline is None and (junit or markdown):
        option, path = ("--junit", junit) if junit else ("--markdown", markdown)
        raise SmlabError.at(option, "needs a run to compare with", str(path), "--baseline KEPT.json")
    part = tolerance_of(tolerance)
    check_inputs(launch, check, baseline)
    check_includes(include)
    check_choice("--engine", engine, ENGINES)
    check_gpus(gpu)
    if anchor is not None and not 0 < anchor < 1e6:
        raise SmlabError.at("--anchor", "no time of a kernel", anchor, "seconds above 0")
    if kernel is not None and not traced and launch is None:
        if not as_json:
            with loading():
                from smlab.commands.run.skeleton import print_skeleton

            print_skeleton(kernel, gpu, name, tuple(defines or ()), tuple(include or ()))
        raise SmlabError.at("--launch", "is missing", None, "a file with grid, block and arguments")
    check_outputs(trace, counters, samples, result, html, junit, markdown)
    if result is not None and result.suffix == ".npy":
        raise SmlabError.at("--result", "several arrays do not fit a .npy", str(result), "a name with .npz")
    with loading():
        from smlab.commands.gpu_choice import GpuChoice
        from smlab.commands.run.run import RunOptions, run_run

    status = run_run(
        RunOptions(
            kernel=kernel or "",
            launch=launch,
            gpu=GpuChoice(gpu, clock, tuple(settings or ()), alternative),
            anchor_s=anchor,
            name=name,
            defines=tuple(defines or ()),
            folders=tuple(include or ()),
            engine=engine,
            sms=sms,
            check=check,
            counters=counters,
            samples=samples,
            trace=trace,
            html=html,
            baseline=baseline,
            tolerance=part,
            junit=junit,
            markdown=markdown,
            result=result,
            accel_sim=accel_sim,
            max_cycles=max_cycles,
            threads=threads,
            example=example,
            as_json=as_json,
            details=details,
        )
    )
    if status:
        raise typer.Exit(status)


def register(app: typer.Typer, panel: str) -> None:
    """Add the command to the front door, under the heading ``panel`` of its help."""
    app.command(short_help="Execute a kernel's machine code on a simulated GPU.", rich_help_panel=panel)(run)

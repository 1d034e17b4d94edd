"""``smlab run``: its command line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from smlab.cli.fast_start import check_choice, check_gpus, check_includes, check_inputs, check_outputs
from smlab.cli.loading import loading
from smlab.cli.options import (
    AlternativeOption,
    ChromeTraceOption,
    ClockOption,
    DetailsOption,
    EngineOption,
    GpuOption,
    GpuSetOption,
    IncludeOption,
    JsonOption,
    MaxCyclesOption,
    NameOption,
    ToleranceOption,
    tolerance_of,
)
from smlab.cli.registering import call, registers
from smlab.hw_bench.errors import SmlabError

ENGINES = ("compiled", "simpy")


TRACES = (".traceg", ".traceg.xz", "kernelslist.g")
"""How names of traces end; `smlab.sim.traces.reading` reads them, which is not loaded yet here."""


def is_trace_name(kernel: str) -> bool:
    """Whether a kernel's name is one of a trace."""
    return kernel.endswith(TRACES)


@dataclass(frozen=True)
class RunOptions:
    """What ``smlab run`` was asked for."""

    kernel: Annotated[
        str | None,
        typer.Argument(
            help="CUDA C (.cu), PTX (.ptx), a .cubin, a program or a fat binary, or a listing of nvdisasm -c "
            "-hex (.sass). Or file.py:kernel of Triton, Numba, CuPy or Warp: the Python file is executed. Or "
            "a trace of Accel-Sim (.traceg, .traceg.xz, kernelslist.g)."
        ),
    ] = None
    launch: Annotated[
        Path | None,
        typer.Option(help="The launch (TOML): grid, block, arguments; with [[step]], several kernels."),
    ] = None
    gpu: GpuOption = "v100"
    name: NameOption = None
    defines: Annotated[
        list[str] | None,
        typer.Option(
            "-D", metavar="NAME=VALUE", help="A macro of CUDA C, or an option of Triton's; repeatable."
        ),
    ] = None
    include: IncludeOption = None
    engine: EngineOption = "compiled"
    clock: ClockOption = None
    settings: GpuSetOption = None
    alternative: AlternativeOption = None
    anchor: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="This kernel's measured time on the card: prints the factor for other times on it.",
        ),
    ] = None
    sms: Annotated[
        str,
        typer.Option(
            help="SMs to simulate, each with some waves of blocks; all: the whole grid; auto: 1, 2, "
            "4 and so on until the time is stable."
        ),
    ] = "all"
    check: Annotated[
        Path | None,
        typer.Option(help="The expected results: arrays by name (.npz); status 1 if they differ."),
    ] = None
    counters: Annotated[
        Path | None,
        typer.Option(
            help="Write the counter table (CSV), as a profiler has it; that of a sample is scaled to "
            "the grid."
        ),
    ] = None
    samples: Annotated[
        Path | None,
        typer.Option(
            help="Write samples by instruction (CSV), taken as a profiler's PC sampling takes them."
        ),
    ] = None
    trace: ChromeTraceOption = None
    html: Annotated[
        Path | None,
        typer.Option(help="Write the kernel's page (HTML): units, memory, stalls, code, timeline."),
    ] = None
    baseline: Annotated[
        Path | None,
        typer.Option(help="A kept run (from --json): status 1 if this run is slower, or its results differ."),
    ] = None
    tolerance: ToleranceOption = "2%"
    junit: Annotated[Path | None, typer.Option(help="With --baseline: write the outcome as JUnit's XML.")] = (
        None
    )
    markdown: Annotated[
        Path | None, typer.Option(help="With --baseline: write the comparison as Markdown.")
    ] = None
    result: Annotated[Path | None, typer.Option(help="Write the result arrays (.npz).")] = None
    accel_sim: Annotated[
        Path | None,
        typer.Option(help="Write what was executed as Accel-Sim's traces into this folder.", metavar="DIR"),
    ] = None
    max_cycles: MaxCyclesOption = None
    threads: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Threads to simulate on (default: all processors).")
    ] = None
    example: Annotated[bool, typer.Option("--example", help="Run the small kernel that ships.")] = False
    details: DetailsOption = False
    as_json: JsonOption = False


def run(asked: RunOptions) -> None:
    """Execute a kernel's machine code on a simulated GPU: results, cycles, and where its warps waited.

    A trace is timed as it was recorded: its own launch, no data.
    """
    if asked.example and asked.kernel is not None:
        raise SmlabError.at("--example", "takes no kernel", asked.kernel, "one or the other")
    if not asked.example and asked.kernel is None and asked.launch is None:
        raise SmlabError(
            "KERNEL: no kernel given (expected a .cubin, .sass, .ptx, .cu, a program or file.py:kernel, "
            "or --example)"
        )
    traced = asked.kernel is not None and is_trace_name(asked.kernel)
    if traced:
        given: dict[str, object] = {
            "--launch": asked.launch,
            "--check": asked.check,
            "--result": asked.result,
            "-D": asked.defines,
        }
        given |= {
            "-I": asked.include,
            "--accel-sim": asked.accel_sim,
            "--samples": asked.samples,
            "--html": asked.html,
        }
        given |= {"--baseline": asked.baseline}
        for option, value in given.items():
            if value:
                text = str(value[0] if isinstance(value, list) else value)
                raise SmlabError.at(option, "a trace has its own launch, and no data", text, "nothing")
        if asked.sms != "all":
            raise SmlabError.at("--sms", "a trace runs whole", asked.sms, "all")
    if asked.kernel is not None:
        head, colon, _ = asked.kernel.rpartition(":")
        check_inputs(Path(head if colon and head.endswith(".py") else asked.kernel))
    if asked.baseline is None and (asked.junit or asked.markdown):
        option, path = ("--junit", asked.junit) if asked.junit else ("--markdown", asked.markdown)
        raise SmlabError.at(option, "needs a run to compare with", str(path), "--baseline KEPT.json")
    tolerance_of(asked.tolerance)
    check_inputs(asked.launch, asked.check, asked.baseline)
    check_includes(asked.include)
    check_choice("--engine", asked.engine, ENGINES)
    check_gpus(asked.gpu)
    if asked.anchor is not None and not 0 < asked.anchor < 1e6:
        raise SmlabError.at("--anchor", "no time of a kernel", asked.anchor, "seconds above 0")
    if asked.kernel is not None and not traced and asked.launch is None:
        if not asked.as_json:
            with loading():
                from smlab.commands.run.skeleton import print_skeleton

            print_skeleton(
                asked.kernel, asked.gpu, asked.name, tuple(asked.defines or ()), tuple(asked.include or ())
            )
        raise SmlabError.at("--launch", "is missing", None, "a file with grid, block and arguments")
    check_outputs(
        asked.trace, asked.counters, asked.samples, asked.result, asked.html, asked.junit, asked.markdown
    )
    if asked.result is not None and asked.result.suffix == ".npy":
        raise SmlabError.at(
            "--result", "several arrays do not fit a .npy", str(asked.result), "a name with .npz"
        )
    if status := call("smlab.commands.run.run:run_run", asked):
        raise typer.Exit(status)


register = registers(run, "Execute a kernel's machine code on a simulated GPU.", RunOptions)

"""The command ``smlab``."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from smlab.cli.options import GpuOption, HowOption, JsonOption, ProfileGpuOption, ProfilesArgument, SetOption
from smlab.commands.bench import command as cli_bench
from smlab.commands.case import command as cli_case
from smlab.commands.claims import command as cli_claims
from smlab.commands.roofline import command as cli_roofline
from smlab.commands.whatif import command as cli_whatif
from smlab.hw_bench.errors import SmlabError

UsageError = cast(type[typer.BadParameter], typer.BadParameter.__mro__[1])
"""Every mistake in the options; typer exports this base class only through its subclasses."""

INTERRUPTED = 130

app = typer.Typer(
    name="smlab",
    help="How far can a GPU performance model be trusted, and where?",
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(wanted: bool) -> None:
    if wanted:
        from smlab import __version__

        print(f"smlab {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which.")
    ] = False,
) -> None:
    """How far can a GPU performance model be trusted, and where?"""
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command()
def gpus(
    name: Annotated[str | None, typer.Argument(help="Show every constant of this one.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List the GPUs, or one with value, unit, kind and source of each constant."""
    from smlab.commands.simulation import show_gpus

    show_gpus(name, as_json)


@app.command()
def simulate(
    workload: Annotated[
        str, typer.Argument(help="A built-in workload (atomics, histogram) or a workload file (TOML).")
    ],
    gpu: GpuOption = "v100",
    engine: Annotated[
        str, typer.Option(help="The simulator's engine: compiled, or simpy, the reference.")
    ] = "compiled",
    policy: Annotated[str | None, typer.Option(help="Warp scheduler policy: gto, lrr or oldest.")] = None,
    settings: SetOption = None,
    seed: Annotated[int, typer.Option(min=0, help="Root of all random numbers.")] = 0,
    trace: Annotated[Path | None, typer.Option(help="Write a Chrome trace (opens in Perfetto).")] = None,
    counters: Annotated[
        Path | None, typer.Option(help="Write the counter table (CSV), as a profiler would give it.")
    ] = None,
    max_cycles: Annotated[
        int | None, typer.Option(min=1, help="Give up when the kernel runs longer.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run one workload on a simulated GPU."""
    from smlab.commands.simulation import run_simulation

    run_simulation(workload, gpu, engine, policy, settings or [], seed, trace, counters, max_cycles, as_json)


@app.command()
def table(
    out: Annotated[Path, typer.Option("--out", help="Where to write the table (.csv or .nc).")],
    gpu: GpuOption = "v100",
    op: Annotated[str, typer.Option(help="add, cas or popc-inc.")] = "add",
    form: Annotated[
        str, typer.Option(help="batch (all jobs at once) or looped (n jobs circulating).")
    ] = "batch",
    source: Annotated[str, typer.Option(help="sim, or the file of a table to check and convert.")] = "sim",
    engine: Annotated[
        str, typer.Option(help="The simulator's engine: compiled, or simpy, the reference.")
    ] = "compiled",
    max_n: Annotated[
        int | None, typer.Option(min=1, help="Up to how many jobs (the GPU's warps an SM).")
    ] = None,
    with_cas: Annotated[bool, typer.Option(help="All c up to n; without, only c = 0.")] = True,
    as_json: JsonOption = False,
) -> None:
    """Write the service table T(n, e, c) of the shared-memory atomic unit."""
    from smlab.commands.simulation import write_table

    write_table(out, gpu, op, form, source, engine, max_n, with_cas, as_json)


@app.command()
def validate(
    gpu: GpuOption = "v100",
    quick: Annotated[bool, typer.Option("--quick", help="Fewer random cases; under a minute.")] = False,
    out: Annotated[Path, typer.Option("--out", help="Folder for the report.")] = Path("results/validate"),
    seed: Annotated[int, typer.Option(min=0, help="Root of all random numbers.")] = 0,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes to use (all cores).")] = None,
    as_json: JsonOption = False,
) -> None:
    """Run every cross-check and write the report."""
    from smlab.commands.simulation import run_validation

    if not run_validation(gpu, quick, out, seed, jobs, as_json):
        raise typer.Exit(1)


@app.command()
def utilization(
    profiles: ProfilesArgument = None,
    gpu: ProfileGpuOption = None,
    table: Annotated[
        Path | None, typer.Option("--table", help="A service table to use instead of simulating one.")
    ] = None,
    show_how: HowOption = False,
    compare: Annotated[
        bool, typer.Option("--compare", help="Two profiles: did the bottleneck move?")
    ] = False,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Draw utilization with intervals (.png, .svg, .pdf).")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """How busy the shared-memory atomic unit was in each kernel, how sure that is, and whether it is the
    bottleneck."""
    from smlab.commands.utilization.run import run_utilization

    run_utilization(profiles or [], gpu, table, as_json, show_how, compare, plot)


for _commands in (cli_bench, cli_case, cli_claims, cli_roofline, cli_whatif):
    _commands.register(app)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line: 0 done, 1 a check fell short, 2 unusable input in one line, 130 interrupted."""
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
    """The exit status of a command line."""
    began = time.perf_counter()
    try:
        status: Any = app(args=arguments, prog_name="smlab", standalone_mode=False)
    except SmlabError as error:
        return _refuse(str(error))
    except UsageError as error:
        return _refuse(error.format_message())
    except (KeyboardInterrupt, typer.Abort):
        return _interrupted(began)
    except BrokenPipeError:
        # The reader of our output has gone; keep Python from complaining when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    if status == INTERRUPTED:  # what typer makes of an interrupt
        return _interrupted(began)
    return status if isinstance(status, int) else 0


def _interrupted(began: float) -> int:
    print(f"smlab: interrupted after {time.perf_counter() - began:.0f} s", file=sys.stderr)
    return INTERRUPTED


def _refuse(message: str) -> int:
    print("smlab: " + " ".join(message.split()), file=sys.stderr)
    return 2


if __name__ == "__main__":
    main()

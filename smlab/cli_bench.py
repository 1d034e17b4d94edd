"""``smlab bench``: the command line of the CUDA benchmarks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from smlab.options import JsonOption

bench = typer.Typer(
    help="The CUDA benchmarks: list them, check their machine code with no GPU, run them on one."
)


@bench.command("list")
def bench_list(as_json: JsonOption = False) -> None:
    """List the benchmarks."""
    from smlab.bench import list_benchmarks

    list_benchmarks(as_json)


@bench.command("sass")
def bench_sass(
    architecture: Annotated[
        list[str] | None, typer.Option(help="Such as sm_80; repeatable. All six by default.")
    ] = None,
    benchmark: Annotated[list[str] | None, typer.Option(help="Only this benchmark; repeatable.")] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Compile anew instead of reading the cache.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Compile every benchmark, disassemble it, and check that it times what it says. Needs no GPU."""
    from smlab.bench import check_machine_code

    if not check_machine_code(architecture or [], benchmark or [], fresh, as_json):
        raise typer.Exit(1)


@bench.command("run")
def bench_run(
    benchmarks: Annotated[
        list[str] | None, typer.Argument(help="Which; all that can be run by default.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer points.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the data sets in the folder.")] = False,
    out: Annotated[Path, typer.Option("--out", help="Folder for the data sets.")] = Path("results/bench"),
) -> None:
    """Run benchmarks on the GPU at hand."""
    from smlab.bench import run_benchmarks

    raise typer.Exit(run_benchmarks(out, "quick" if quick else "full", benchmarks or [], resume))


def register(app: typer.Typer) -> None:
    """Add the commands to the front door."""
    app.add_typer(bench, name="bench")

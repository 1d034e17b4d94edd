"""``smlab bench``: the command line of the CUDA benchmarks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from smlab.cli.fast_start import check_gpus
from smlab.cli.options import JsonOption
from smlab.cli.registering import call, with_options
from smlab.hw_bench.errors import SmlabError

bench = typer.Typer(
    help="The CUDA benchmarks: list them, check their machine code with no GPU, run and profile them on "
    "one, calibrate to them."
)


@bench.command("list")
def bench_list(as_json: JsonOption = False) -> None:
    """List the benchmarks."""
    call("smlab.commands.bench.run:list_benchmarks", as_json)


@bench.command("sass", short_help="Check the benchmarks' machine code, with no GPU.")
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
    if not call(
        "smlab.commands.bench.run:check_machine_code", architecture or [], benchmark or [], fresh, as_json
    ):
        raise typer.Exit(1)


QuickOption = Annotated[
    bool, typer.Option("--quick", help="Fewer points: a minute and a half, mostly compiling.")
]


@bench.command("plan")
def bench_plan(quick: QuickOption = False, as_json: JsonOption = False) -> None:
    """Tell what a run would measure, and about how long that takes."""
    call("smlab.commands.bench.run:show_plan", quick, as_json)


@dataclass(frozen=True)
class BenchRunOptions:
    """What ``smlab bench run`` was asked for."""

    benchmarks: Annotated[list[str] | None, typer.Argument(help="Which; all by default.")] = None
    quick: QuickOption = False
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep what the folder has and measure the rest.")
    ] = False
    out: Annotated[Path, typer.Option("--out", help="Folder for the data sets.")] = Path("results/bench")
    on_simulator: Annotated[
        bool, typer.Option("--on-simulator", help="Run their machine code on the simulated GPU of --gpu.")
    ] = False
    gpu: Annotated[
        str | None, typer.Option("--gpu", help="The GPU that is simulated: a name or a description.")
    ] = None
    keep_held_back: Annotated[
        bool,
        typer.Option("--keep-held-back", help="Keep what was measured under a power cap or a slow clock."),
    ] = False
    as_json: JsonOption = False


def bench_run(asked: BenchRunOptions) -> None:
    """Run benchmarks on the GPU at hand, or on a simulated one."""
    if asked.on_simulator != (asked.gpu is not None):
        raise SmlabError.at("--on-simulator", "goes with --gpu", asked.gpu, "both or neither")
    if asked.gpu is not None:
        check_gpus(asked.gpu)
    raise typer.Exit(call("smlab.commands.bench.run:run_benchmarks", asked))


bench.command("run")(with_options(bench_run, BenchRunOptions))


@bench.command("profile", short_help="Run benchmarks under Nsight Compute (ncu).")
def bench_profile(
    benchmarks: Annotated[list[str] | None, typer.Argument(help="Which; histogram by default.")] = None,
    out: Annotated[Path, typer.Option("--out", help="Where the profiler's CSV goes.")] = Path(
        "results/bench-profile/profile.csv"
    ),
    as_json: JsonOption = False,
) -> None:
    """Run benchmarks under Nsight Compute (ncu), with the counters that `smlab utilization --how` names."""
    call("smlab.commands.bench.run:profile_benchmarks", out, benchmarks or [], as_json)


@dataclass(frozen=True)
class CalibrationOptions:
    """What ``smlab bench calibrate`` was asked for. At most one of ``measure`` and ``simulate`` makes the
    data set first."""

    data_set: Annotated[Path, typer.Argument(metavar="DATASET", help="Folder that `smlab bench run` wrote.")]
    out: Annotated[Path, typer.Option("--out", help="The calibrated description, a .toml file.")]
    gpu: Annotated[
        str, typer.Option("--gpu", help="The description of the GPU that was measured: a name or a path.")
    ]
    measure: Annotated[
        bool,
        typer.Option("--measure", help="Measure first what is missing of the data set, on the GPU at hand."),
    ] = False
    simulate: Annotated[
        bool,
        typer.Option(
            "--simulate", help="Dry run: first write a simulated data set of the GPU, with 3 % noise."
        ),
    ] = False
    quick: QuickOption = False
    share: Annotated[
        float,
        typer.Option(
            help="Share of the times to fit, 2,000 at most, and of the bursts up to half; the others judge."
        ),
    ] = 0.05
    seed: Annotated[int, typer.Option(help="Seed of the draw of the times that are fitted.")] = 0
    cases: Annotated[
        Path | None, typer.Option("--cases", help="Write every time, measured and predicted, as CSV.")
    ] = None
    as_json: JsonOption = False


def bench_calibrate(asked: CalibrationOptions) -> None:
    """Fit the simulator's atomic unit to a data set, and compare simulated and measured times that were not
    fitted.

    With --measure, the whole loop in one command: measure, calibrate, simulate, compare.
    """
    call("smlab.commands.bench.calibrate:run_loop", asked)


bench.command("calibrate", short_help="Fit a GPU description to a data set.")(
    with_options(bench_calibrate, CalibrationOptions)
)


def register(app: typer.Typer, panel: str) -> None:
    """Add the commands to the front door, under the heading ``panel`` of its help."""
    app.add_typer(
        bench,
        name="bench",
        short_help="Run, check and calibrate to the CUDA benchmarks.",
        rich_help_panel=panel,
    )

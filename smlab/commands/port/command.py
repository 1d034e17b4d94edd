"""``smlab port``: its command line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from smlab.cli.fast_start import check_gpus, check_includes, check_inputs
from smlab.cli.options import DetailsOption, IncludeOption, JsonOption
from smlab.cli.registering import call, with_options


@dataclass(frozen=True)
class PortOptions:
    """What ``smlab port`` was asked for."""

    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME=]FILE...",
            help="Times on each GPU: nsys's trace (CSV), a profile of ncu, Kernel Tuner's cache or T4, KTT's "
            "JSON, a folder of bench run, or CSV kernel,config,launch,seconds. The first is the source.",
        ),
    ] = None
    source: Annotated[
        str | None, typer.Option("--from", help="With --to and one FILE: the GPU that it was measured on.")
    ] = None
    target: Annotated[
        str | None, typer.Option("--to", help="The GPU whose times are modelled, because none were measured.")
    ] = None
    gpus: Annotated[
        list[str] | None,
        typer.Option(
            "--gpu",
            metavar="NAME=GPU",
            help="Which GPU a NAME stands for, if neither the name nor the file says.",
        ),
    ] = None
    clocks: Annotated[
        list[str] | None, typer.Option("--clock", metavar="NAME=GHZ", help="The SM clock, if no file has it.")
    ] = None
    expect: Annotated[
        str,
        typer.Option(
            "--expect", help="The ratio that verdicts compare with: same, peak, roofline or project."
        ),
    ] = "same"
    code: Annotated[
        Path | None,
        typer.Option(
            "--source", help="CUDA C of the kernels: compiled for both, for registers and instructions."
        ),
    ] = None
    defines: Annotated[
        list[str] | None, typer.Option("-D", metavar="NAME=VALUE", help="A macro for --source.")
    ] = None
    folders: IncludeOption = None
    cubins: Annotated[
        list[str] | None,
        typer.Option("--cubin", metavar="NAME=FILE", help="The machine code that runs on a GPU."),
    ] = None
    samples: Annotated[
        list[str] | None,
        typer.Option(
            "--samples",
            metavar="NAME=FILE",
            help="Samples by instruction on a GPU (ncu's source page, .ncu-rep, smlab run --samples): where "
            "it stalls is compared.",
        ),
    ] = None
    pairs: Annotated[
        Path | None,
        typer.Option(
            "--pair",
            metavar="FILE",
            help="CSV source,target: one kernel under two names; smlab pairs the other kernels of "
            "traces by name, launch and order.",
        ),
    ] = None
    advise: Annotated[
        bool,
        typer.Option("--advise", help="What would make each kernel faster on the target, with its evidence."),
    ] = False
    top: Annotated[
        int | None,
        typer.Option("--top", metavar="N", min=1, help="Configurations to list (5; 20 with --details)."),
    ] = None
    example: Annotated[
        bool, typer.Option("--example", help="Compare two small files that ship (Coyne's published ratios).")
    ] = False
    plot: Annotated[
        Path | None,
        typer.Option("--plot", help="Draw the cascade of efficiencies (.png, .svg, .pdf; data beside it)."),
    ] = None
    details: DetailsOption = False
    as_json: JsonOption = False


def port(asked: PortOptions) -> None:
    """Compare the same kernels on two or more GPUs: the ratios of their times, with intervals that allow for
    drift; why they differ; how portable the kernels are."""
    check_gpus(asked.source, asked.target)
    check_inputs(asked.code, asked.pairs)
    check_includes(asked.folders)
    call("smlab.commands.port.run:run_port", asked)


@dataclass(frozen=True)
class TuneOptions:
    """What ``smlab port`` was asked for."""

    file: Annotated[
        Path, typer.Argument(help="A whole space measured on the old GPU, such as a tuner's cache.")
    ]
    source: Annotated[str, typer.Option("--from", help="The GPU that it was measured on.")]
    target: Annotated[str, typer.Option("--to", help="The new GPU.")]
    measured: Annotated[
        Path | None, typer.Option("--measured", help="What was measured on the new GPU so far.")
    ] = None
    truth: Annotated[
        Path | None,
        typer.Option("--truth", help="The whole space on the new GPU: replay measurements and judge."),
    ] = None
    kernel: Annotated[
        Path | None,
        typer.Option("--source", help="CUDA C of the kernel: what does not fit once compiled is left out."),
    ] = None
    compile_all: Annotated[
        bool,
        typer.Option(
            "--compile-all",
            help="With --source: compile all that may not fit, not only what is proposed (minutes).",
        ),
    ] = False
    budget: Annotated[
        int, typer.Option("--budget", metavar="N", min=1, help="Configurations to measure in all.")
    ] = 10
    seeds: Annotated[int, typer.Option("--seeds", metavar="N", min=1, help="Replays, with --truth.")] = 20
    curves: Annotated[
        bool, typer.Option("--curves", help="With --truth: replay budgets of 5, 10, 20 and 50 too.")
    ] = False
    as_json: JsonOption = False


def tune(asked: TuneOptions) -> None:
    """Which few configurations to measure on a new GPU, when a whole space was measured on an old one."""
    check_gpus(asked.source, asked.target)
    check_inputs(asked.file, asked.measured, asked.truth, asked.kernel)
    call("smlab.commands.port.tune_run:run_tune", asked)


COMPARE = "compare"


class ComparesByDefault(TyperGroup):
    """``smlab port FILES`` compares; only ``tune`` has to be named."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or args[0] not in self.commands:
            args = [COMPARE, *args]
        return super().parse_args(ctx, args)


class NamelessCompare(TyperCommand):
    """Its usage is told as it is typed: without its name."""

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        above = ctx.command_path if ctx.parent is None else ctx.parent.command_path
        formatter.write_usage(above, " ".join(self.collect_usage_pieces(ctx)))


def register(app: typer.Typer, panel: str) -> None:
    """Add the command to the front door, under the heading ``panel`` of its help."""
    group = typer.Typer(cls=ComparesByDefault, help=port.__doc__)
    epilog = "smlab port tune --help: which configurations to measure on a new GPU."
    group.command(COMPARE, cls=NamelessCompare, epilog=epilog)(with_options(port, PortOptions))
    group.command("tune")(with_options(tune, TuneOptions))
    app.add_typer(
        group, name="port", short_help="Compare the same kernels on two or more GPUs.", rich_help_panel=panel
    )

"""``smlab simulate``: its command line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from smlab.cli.fast_start import check_choice, check_gpus, check_inputs, check_outputs
from smlab.cli.options import (
    AlternativeOption,
    ChromeTraceOption,
    ClockOption,
    DetailsOption,
    EngineOption,
    GpuOption,
    JsonOption,
    MaxCyclesOption,
    SeedOption,
    SetOption,
)
from smlab.cli.registering import call, registers
from smlab.hw_bench.errors import SmlabError

WORKLOADS = ("atomics", "histogram")
ENGINES = ("compiled", "simpy")


@dataclass(frozen=True)
class SimulateArguments:
    """What ``smlab simulate`` was asked for."""

    workload: Annotated[
        str, typer.Argument(help="A built-in workload (atomics, histogram) or a workload file (TOML).")
    ]
    gpu: GpuOption = "v100"
    engine: EngineOption = "compiled"
    policy: Annotated[
        str | None,
        typer.Option(help="Warp scheduler policy: glr, gto, gty, lrr or oldest (default: the GPU's)."),
    ] = None
    settings: SetOption = None
    clock_mhz: ClockOption = None
    alternative: AlternativeOption = None
    seed: SeedOption = 0
    trace: ChromeTraceOption = None
    counters: Annotated[
        Path | None, typer.Option(help="Write the counter table (CSV), as a profiler has it.")
    ] = None
    max_cycles: MaxCyclesOption = None
    details: DetailsOption = False
    as_json: JsonOption = False


def simulate(asked: SimulateArguments) -> None:
    """Run one workload on a simulated GPU."""
    if asked.workload not in WORKLOADS and not Path(asked.workload).exists():
        known = f"one of {', '.join(WORKLOADS)}, or a .toml file"
        raise SmlabError.at("WORKLOAD", "neither a built-in workload nor a file", asked.workload, known)
    check_inputs(None if asked.workload in WORKLOADS else Path(asked.workload))
    check_choice("--engine", asked.engine, ENGINES)
    check_gpus(asked.gpu)
    check_outputs(asked.trace, asked.counters)
    call("smlab.commands.simulate.run:run_simulate", asked)


register = registers(simulate, "Simulate a workload described in a file.", SimulateArguments)

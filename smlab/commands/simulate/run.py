"""``smlab simulate``: run one workload and print what it did."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from smlab.cli.tables import Listing
from smlab.cli.terminal import err, out, print_json, progress_bar, shown
from smlab.commands.simulate.api import simulate
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.sim import Record, counter_table
from smlab.sim.chrome_trace import write_chrome_trace


@dataclasses.dataclass(frozen=True)
class SimulateOptions:
    """What ``smlab simulate`` was asked for; ``settings`` are the texts of ``--set``."""

    workload: str
    gpu: str
    engine: str
    policy: str | None
    settings: tuple[str, ...]
    seed: int
    trace: Path | None
    counters: Path | None
    max_cycles: int | None
    as_json: bool


def run_simulate(options: SimulateOptions) -> None:
    """``smlab simulate WORKLOAD``."""
    trace, counters = options.trace, options.counters
    for path in (trace, counters):
        if path is not None and not path.parent.is_dir():
            raise SmlabError.at(str(path), "the folder to write into does not exist", str(path.parent))
    gpu = load_gpu(options.gpu)
    with progress_bar(f"simulating {options.workload} on {gpu.name}") as advance:
        result = simulate(
            options.workload,
            gpu,
            settings=options.settings,
            engine=options.engine,
            policy=options.policy,
            seed=options.seed,
            keep=Record.ALL if trace is not None else Record.TOTALS,
            max_cycles=options.max_cycles,
            progress=advance,
        )
    if trace is not None:
        write_chrome_trace(result, trace)
    if counters is not None:
        counter_table(result).write_csv(counters)
    # Said before the tables: a reader of those may close the pipe (`| head`), and that ends the command.
    for path in filter(None, (trace, counters)):
        err.print(f"wrote {path}", markup=False, soft_wrap=True)
    atomic = result.atomic
    if options.as_json:
        print_json(
            {
                "workload": result.kernel,
                "gpu": gpu.name,
                "engine": result.engine,
                "policy": result.policy,
                "seed": options.seed,
                "cycles": result.cycles,
                "warp_instructions": result.warp_instructions,
                "wall_s": result.wall_s,
                "atomic": dataclasses.asdict(atomic),
                "stalls": result.stalls,
            }
        )
        return
    summary = Listing("", "", header=False)
    summary.add_row("cycles", f"{result.cycles:,}")
    summary.add_row("warp-instructions", f"{result.warp_instructions:,}")
    summary.add_row("cycles a warp-instruction", f"{result.cycles / max(result.warp_instructions, 1):.3f}")
    if atomic.jobs:
        summary.add_row("atomic jobs", f"{atomic.jobs:,} ({atomic.cas_jobs:,} compare-and-swap)")
        summary.add_row("atomic unit: utilization", f"{100 * atomic.utilization:.2f} %")
        summary.add_row(
            "atomic unit: jobs in it, n", f"{atomic.n_mean:.2f} ({atomic.n_busy_mean:.2f} while busy)"
        )
        summary.add_row("atomic unit: service time S", f"{atomic.service_cycles:.2f} cycles")
        summary.add_row("passes a job, e", f"{atomic.e_mean:.2f} ({atomic.lanes_mean:.2f} active lanes)")
    out.print(
        f"[bold]{shown(result.kernel)}[/bold] on {shown(gpu.title)}, {result.policy}, engine {result.engine}"
    )
    out.print(summary)
    resident = max(sum(result.stalls.values()), 1)
    stalls = Listing("what the warps did")
    for heading in ("warp-cycles", "share"):
        stalls.add_column(heading, justify="right")
    stalls.add_column(drop=1)
    for reason, cycles in sorted(result.stalls.items(), key=lambda item: -item[1]):
        if cycles:
            share = cycles / resident
            stalls.add_row(reason, f"{cycles:,}", f"{100 * share:.1f} %", "█" * round(30 * share))
    out.print(stalls)

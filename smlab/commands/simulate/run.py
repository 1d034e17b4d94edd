"""``smlab simulate``: run one workload and print what it did."""

from __future__ import annotations

import dataclasses
from typing import Final

from smlab.cli.tables import Listing
from smlab.cli.terminal import err, out, print_json, progress_bar, shown
from smlab.commands.gpu_choice import ALL, CLOCK, at_clock, chosen_alternatives, clock_text
from smlab.commands.simulate.api import simulate
from smlab.commands.simulate.command import SimulateArguments
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.alternatives import Alternative
from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.hw_bench.sass.linking import readable_name
from smlab.sim import Record, SimResult, counter_table
from smlab.sim.traces.chrome_trace import write_chrome_trace


def run_simulate(options: SimulateArguments) -> None:
    """``smlab simulate WORKLOAD``."""
    trace, counters = options.trace, options.counters
    for path in (trace, counters):
        if path is not None and not path.parent.is_dir():
            raise SmlabError.at(str(path), "the folder to write into does not exist", str(path.parent))
    base = at_clock(load_gpu(options.gpu), options.clock_mhz)
    done: list[tuple[Alternative, SimResult]] = []
    for alternative, gpu in chosen_alternatives(base, options.alternative):
        with progress_bar(f"simulating {options.workload} on {gpu.name}") as advance:
            result = simulate(
                options.workload,
                gpu,
                settings=options.settings or (),
                engine=options.engine,
                policy=options.policy,
                seed=options.seed,
                keep=Record.ALL if trace is not None and not done else Record.TOTALS,
                max_cycles=options.max_cycles,
                progress=advance,
            )
        done.append((alternative, result))
    (alternative, result), gpu = done[0], base
    total = sum(alternative.weight for alternative, _ in done)
    cycles = sum(alternative.weight * each.cycles for alternative, each in done) / total
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
                "alternative": alternative.name if len(done) == 1 else ALL,
                "alternatives": [{"name": one.name, "cycles": each.cycles} for one, each in done],
                "clock_hz": gpu.number(CLOCK),
                "cycles": result.cycles if len(done) == 1 else cycles,
                "warp_instructions": result.warp_instructions,
                "wall_s": result.wall_s,
                "atomic": dataclasses.asdict(atomic),
                "stalls": result.stalls,
            }
        )
        return
    _print(result, gpu, options.details)
    if result.atomic.jobs:
        out.print(f"alternative for the atomic unit: {alternative.name}; {clock_text(gpu)}")
    if len(done) > 1:
        each = ", ".join(f"{one.name} {run.cycles:,}" for one, run in done)
        out.print(f"all alternatives, by weight: {cycles:,.0f} cycles ({each})")


def _print(result: SimResult, gpu: Gpu, details: bool) -> None:
    """The time and what took it, then ``details`` of the atomic unit and every state of the warps."""
    atomic = result.atomic
    out.print(
        f"[bold]{shown(readable_name(result.kernel))}[/bold] on {shown(gpu.title)}: {result.cycles:,} cycles "
        f"({1e6 * result.seconds:,.2f} us), {result.warp_instructions:,} warp-instructions"
    )
    if atomic.jobs:
        out.print(
            f"shared-memory atomic unit: {100 * atomic.utilization:.1f} % busy with {atomic.jobs:,} jobs, "
            f"{atomic.e_mean:.2f} passes each (e)"
        )
    resident = max(sum(result.stalls.values()), 1)
    ranked = sorted(((r, c) for r, c in result.stalls.items() if c), key=lambda item: -item[1])
    if not details:
        most = ", ".join(f"{r} {100 * c / resident:.0f} %" for r, c in ranked[:FEW])
        out.print(f"the warps' time: {most}" + ("; --details: all" if len(ranked) > FEW else ""))
        return
    summary = Listing("", "", header=False)
    summary.add_row("engine, scheduler policy", f"{result.engine}, {result.policy}")
    summary.add_row("cycles a warp-instruction", f"{result.cycles / max(result.warp_instructions, 1):.3f}")
    if atomic.jobs:
        summary.add_row("compare-and-swap jobs", f"{atomic.cas_jobs:,}")
        summary.add_row(
            "jobs in the atomic unit, n", f"{atomic.n_mean:.2f} ({atomic.n_busy_mean:.2f} while busy)"
        )
        summary.add_row("service time of a job, S", f"{atomic.service_cycles:.2f} cycles")
        summary.add_row("active lanes of a job", f"{atomic.lanes_mean:.2f}")
    out.print(summary)
    stalls = Listing("what the warps did")
    for heading in ("warp-cycles", "share"):
        stalls.add_column(heading, justify="right")
    stalls.add_column(drop=1)
    for reason, cycles in ranked:
        share = cycles / resident
        stalls.add_row(reason, f"{cycles:,}", f"{100 * share:.1f} %", "█" * round(30 * share))
    out.print(stalls)


FEW: Final = 5
"""States of the warps that are named without ``--details``."""

"""What the commands do, once their options are read. Kept thin: the work is done in the rooms behind."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from smlab.cli.terminal import err, out, print_json, progress_bar
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu, list_gpus, load_gpu


def show_gpus(name: str | None, as_json: bool) -> None:
    """``smlab gpus [NAME]``."""
    chosen = [load_gpu(n) for n in ([name] if name else list_gpus())]
    if as_json:
        print_json({"gpus": [_gpu_document(g) for g in chosen]})
        return
    if name is None:
        table = Table("name", "title", "compute capability", "SMs", "aliases", box=box.SIMPLE)
        for g in chosen:
            table.add_row(
                g.name, g.title, g.compute_capability, str(g.integer("gpu.sms")), ", ".join(g.aliases)
            )
        out.print(table)
        return
    gpu = chosen[0]
    out.print(
        f"[bold]{gpu.name}[/bold]: {gpu.title}, {gpu.architecture}, compute capability "
        f"{gpu.compute_capability}"
    )
    table = Table(box=box.SIMPLE, pad_edge=False)
    table.add_column("key", no_wrap=True)
    table.add_column("value", no_wrap=True, justify="right")
    for heading in ("low to high", "unit", "kind"):
        table.add_column(heading, no_wrap=True)
    table.add_column("source")
    for c in gpu.constants.values():
        interval = "" if c.low is None or c.high is None else f"{_number(c.low)} to {_number(c.high)}"
        table.add_row(c.key, _number(c.value), interval, c.unit, c.kind, c.source)
    out.print(table)


def _gpu_document(gpu: Gpu) -> dict[str, Any]:
    return {
        "name": gpu.name,
        "title": gpu.title,
        "architecture": gpu.architecture,
        "compute_capability": gpu.compute_capability,
        "aliases": list(gpu.aliases),
        "sms": gpu.integer("gpu.sms"),
        "constants": [dataclasses.asdict(c) for c in gpu.constants.values()],
    }


def _number(value: float | int | str) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) and value < 10**7 else f"{value:.6g}"


def run_simulation(
    workload: str,
    gpu_name: str,
    engine: str,
    policy: str | None,
    settings: Sequence[str],
    seed: int,
    trace: Path | None,
    counters: Path | None,
    max_cycles: int | None,
    as_json: bool,
) -> None:
    """``smlab simulate WORKLOAD``."""
    from smlab.cli.workload_option import workload_and_gpu
    from smlab.sim import Record, counter_table, simulate
    from smlab.sim.chrome_trace import write_chrome_trace

    for path in (trace, counters):
        if path is not None and not path.parent.is_dir():
            raise SmlabError.at(str(path), "the folder to write into does not exist", str(path.parent))
    kernel, gpu = workload_and_gpu(workload, settings, load_gpu(gpu_name))
    with progress_bar(f"simulating {kernel.name} on {gpu.name}") as advance:
        result = simulate(
            kernel,
            gpu,
            engine=engine,
            policy=policy,
            seed=seed,
            keep=Record.ALL if trace is not None else Record.TOTALS,
            max_cycles=max_cycles,
            progress=advance,
        )
    if trace is not None:
        write_chrome_trace(result, trace)
    if counters is not None:
        counter_table(result).write_csv(counters)
    atomic = result.atomic
    if as_json:
        print_json(
            {
                "workload": kernel.name,
                "gpu": gpu.name,
                "engine": result.engine,
                "policy": result.policy,
                "seed": seed,
                "cycles": result.cycles,
                "warp_instructions": result.warp_instructions,
                "wall_s": result.wall_s,
                "atomic": dataclasses.asdict(atomic),
                "stalls": result.stalls,
            }
        )
        return
    summary = Table(box=box.SIMPLE, show_header=False, pad_edge=False)
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
    out.print(f"[bold]{kernel.name}[/bold] on {gpu.title}, {result.policy}, engine {result.engine}")
    out.print(summary)
    resident = max(sum(result.stalls.values()), 1)
    stalls = Table("what the warps did", "warp-cycles", "share", "", box=box.SIMPLE, pad_edge=False)
    for reason, cycles in sorted(result.stalls.items(), key=lambda item: -item[1]):
        if cycles:
            share = cycles / resident
            stalls.add_row(reason, f"{cycles:,}", f"{100 * share:.1f} %", "█" * round(30 * share))
    out.print(stalls)
    for path in filter(None, (trace, counters)):
        err.print(f"wrote {path}")


def write_table(
    path: Path,
    gpu_name: str,
    op: str,
    form: str,
    source: str,
    engine: str,
    max_n: int | None,
    with_cas: bool,
    as_json: bool,
) -> None:
    """``smlab table``."""
    import numpy as np

    from smlab.models import ServiceTable
    from smlab.sim.table import service_table

    began = time.perf_counter()
    if source == "sim":
        gpu = load_gpu(gpu_name)
        most = gpu.integer("sm.max_warps")
        if max_n is not None and max_n > most:
            raise SmlabError.at("--max-n", f"{gpu.name} has fewer warps an SM", max_n, f"at most {most}")
        with progress_bar(f"T(n, e, c) of {op} on {gpu.name}") as advance:
            data = service_table(
                gpu,
                op=op,
                form=form,
                jobs=range(1, (max_n or most) + 1),
                cas_jobs=None if with_cas else [0],
                engine=engine,
                progress=advance,
            )
        table = ServiceTable(data)
    else:
        table = ServiceTable.read(Path(source))
    table.write(path)
    rows = int(np.isfinite(table.data.values).sum())
    wall_s = time.perf_counter() - began
    if as_json:
        print_json({"rows": rows, "wall_s": wall_s, "out": str(path)})
    else:
        err.print(f"wrote {path}: {rows:,} points in {wall_s:.1f} s")


def run_validation(
    gpu_name: str, quick: bool, folder: Path, seed: int, jobs: int | None, as_json: bool
) -> bool:
    """``smlab validate``; whether every check that was asked for held."""
    from smlab.validation.checks.run import validate

    with progress_bar("validating") as advance:
        outcome = validate(load_gpu(gpu_name), quick=quick, seed=seed, processes=jobs, progress=advance)
        page = outcome.report.write(folder)
    document = outcome.report.as_json()
    if as_json:
        print_json(document)
    else:
        marks = {
            True: "[green]pass[/green]",
            False: "[red]FELL SHORT[/red]",
            None: "[yellow]not done[/yellow]",
        }
        table = Table("", "check", "", box=box.SIMPLE, pad_edge=False)
        for check in document["checks"]:
            table.add_row(marks[check["ok"]], check["name"], check["summary"])
        out.print(table)
    err.print(f"report: {page}")
    if outcome.interrupted:
        raise KeyboardInterrupt
    return bool(document["ok"])

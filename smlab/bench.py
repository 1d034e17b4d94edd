"""``smlab bench``: the CUDA benchmarks. Listing needs nothing, checking the machine code a compiler, running a GPU."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.table import Table

from hw_bench.cuda.registry import BENCHMARKS
from hw_bench.errors import SmlabError
from smlab.terminal import err, out, print_json, progress_bar


def list_benchmarks(as_json: bool) -> None:
    """``smlab bench list``."""
    if as_json:
        print_json({"benchmarks": [{"name": b.name, "measures": b.doc} for b in BENCHMARKS]})
        return
    table = Table("name", "measures", box=box.SIMPLE, pad_edge=False)
    for b in BENCHMARKS:
        table.add_row(b.name, b.doc)
    out.print(table)


def check_machine_code(
    architectures: Sequence[str], benchmarks: Sequence[str], fresh: bool, as_json: bool
) -> bool:
    """``smlab bench sass``; whether every kernel's machine code is what its benchmark declares."""
    from hw_bench.cuda import contract

    with progress_bar("compiling and disassembling") as advance:
        results = contract.check_all(
            tuple(architectures) or contract.ARCHITECTURES,
            tuple(benchmarks) or None,
            cache=None if fresh else contract.default_cache(),
            progress=advance,
        )
    broken = [r for r in results if not r.ok]
    if as_json:
        print_json({"ok": not broken, "kernels": [dataclasses.asdict(r) for r in results]})
        return not broken
    table = Table("benchmark", "kernel", "architectures", "timed region", box=box.SIMPLE, pad_edge=False)
    alike: dict[tuple[str, str, str], list[str]] = {}
    for r in results:
        alike.setdefault((r.benchmark, r.kernel, r.found if r.ok else f"BROKEN: {r.message}"), []).append(
            r.architecture
        )
    for (benchmark, kernel, found), where in alike.items():
        table.add_row(benchmark, kernel, " ".join(where), found)
    out.print(table)
    err.print(f"{len(results) - len(broken)} of {len(results)} kernels hold their contract")
    return not broken


def run_benchmarks(folder: Path, profile: str, benchmarks: Sequence[str], resume: bool) -> int:
    """``smlab bench run``; the exit status of the run."""
    from hw_bench.cuda import run_on_device, suite

    if profile not in suite.PROFILES:
        raise SmlabError.at("--profile", "unknown", profile, "one of " + ", ".join(sorted(suite.PROFILES)))
    for name in benchmarks:
        if name not in suite.BENCHMARKS:
            raise SmlabError.at(
                "benchmark", "cannot be run yet", name, "one of " + ", ".join(suite.BENCHMARKS)
            )
    chosen = ["--benchmarks", *benchmarks] if benchmarks else []
    return run_on_device.main(
        ["--out", str(folder), "--profile", profile, *chosen, *(["--resume"] if resume else [])]
    )

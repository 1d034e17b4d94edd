"""``smlab bench``: the CUDA benchmarks. Listing needs nothing, checking the machine code a compiler,
running a GPU."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from smlab.cli.tables import Listing
from smlab.cli.terminal import err, out, print_json, progress_bar, shown
from smlab.commands.bench.command import BenchRunOptions
from smlab.hw_bench.cuda.registry import BENCHMARKS
from smlab.hw_bench.errors import SmlabError


def list_benchmarks(as_json: bool) -> None:
    """``smlab bench list``."""
    if as_json:
        print_json({"benchmarks": [{"name": b.name, "measures": b.doc} for b in BENCHMARKS]})
        return
    table = Listing("name", "measures")
    for b in BENCHMARKS:
        table.add_row(b.name, b.doc)
    out.print(table)


def _side_by_side(function: Any, parts: Sequence[Any], keep: Any) -> None:
    """The machine-code check's tasks on all processors."""
    from smlab.validation.work.runner import Task, run_tasks

    run_tasks([Task(place, function, (part,)) for place, part in enumerate(parts)], keep)


def check_machine_code(
    architectures: Sequence[str], benchmarks: Sequence[str], fresh: bool, as_json: bool
) -> bool:
    """``smlab bench sass``; whether every kernel's machine code is what its benchmark declares."""
    from smlab.hw_bench.cuda.contract import check as contract
    from smlab.hw_bench.cuda.kernels.spec import ARCHITECTURES

    with progress_bar("compiling and disassembling") as advance:
        results = contract.check_all(
            tuple(architectures) or ARCHITECTURES,
            tuple(benchmarks) or None,
            run=_side_by_side,
            cache=None if fresh else contract.default_cache(),
            progress=advance,
        )
    broken = [r for r in results if not r.ok]
    if as_json:
        print_json({"ok": not broken, "kernels": [dataclasses.asdict(r) for r in results]})
        return not broken
    table = Listing("benchmark", "kernel", "architectures", "timed region")
    alike: dict[tuple[str, str, str], list[str]] = {}
    for r in results:
        alike.setdefault((r.benchmark, r.kernel, r.found if r.ok else f"BROKEN: {r.message}"), []).append(
            r.architecture
        )
    for (benchmark, kernel, found), where in alike.items():
        table.add_row(benchmark, kernel, " ".join(where), shown(found))
    out.print(table)
    err.print(f"{len(results) - len(broken)} of {len(results)} kernels hold their contract")
    return not broken


def profile_name(quick: bool) -> str:
    """The profile of `--quick`, or without it, in ``profiles.toml``."""
    return "quick" if quick else "full"


def run_benchmarks(options: BenchRunOptions) -> int:
    """``smlab bench run``; the exit status of the run. ``gpu`` names the GPU that is simulated."""
    folder, profile, benchmarks = options.out, profile_name(options.quick), options.benchmarks or []
    from smlab.hw_bench.cuda.measuring import plan
    from smlab.hw_bench.cuda.toolkit import require_gpu

    for name in benchmarks:
        if name not in plan.BENCHMARKS:
            raise SmlabError.at("benchmark", "unknown", name, "one of " + ", ".join(plan.BENCHMARKS))
    plan.profile(profile)
    stand_in: Any = None
    if options.gpu is None:
        require_gpu()
    else:
        from smlab.hw_bench.cuda.toolkit import require_compiler
        from smlab.hw_bench.gpu.descriptions import load_gpu
        from smlab.validation.calibrate.on_simulator import BenchmarkGpu

        require_compiler()
        stand_in = BenchmarkGpu(load_gpu(options.gpu))
        err.print(shown(stand_in.remark))
    from smlab.hw_bench.cuda.measuring.harness import measure

    outcome = measure(
        folder,
        profile=profile,
        benchmarks=tuple(benchmarks) or plan.BENCHMARKS,
        resume=options.resume,
        keep_held_back=options.keep_held_back,
        progress=lambda line: err.print(shown(line)),
        stand_in=stand_in,
    )
    wrong = outcome.wrong + outcome.broken
    if options.as_json:
        document = {
            "ok": not wrong and not outcome.interrupted and not outcome.held_back,
            "out": str(folder),
            **dataclasses.asdict(outcome),
        }
        print_json(document)
    else:
        for name, count in outcome.rows.items():
            out.print(f"{name}: {count} rows in {folder / name}.csv")
        for line in wrong[:20]:
            out.print(shown(f"WRONG {line}"))
    for line in outcome.held_back[:20]:
        kept = "--resume measures it again, --keep-held-back keeps it"
        err.print(shown(f"not kept, the GPU was held back: {line}; {kept}"))
    if outcome.interrupted:
        err.print("interrupted; --resume continues")
        return 130
    return 1 if wrong or outcome.held_back else 0


def show_plan(quick: bool, as_json: bool) -> None:
    """``smlab bench plan``."""
    from smlab.hw_bench.cuda.measuring import plan
    from smlab.hw_bench.cuda.measuring.estimate import estimate

    profile = profile_name(quick)
    rows = estimate(plan.profile(profile))
    if as_json:
        print_json({"profile": profile, "benchmarks": [dataclasses.asdict(row) for row in rows]})
        return
    table = Listing("benchmark", "kernels", "launches", "rows", "about")
    for row in rows:
        table.add_row(
            row.benchmark, str(row.kernels), f"{row.launches:,}", f"{row.rows:,}", f"{row.seconds:.0f} s"
        )
    total = sum(row.seconds for row in rows)
    table.add_row("all", "", "", "", f"{total:.0f} s")
    out.print(table)


def profile_benchmarks(path: Path, benchmarks: Sequence[str], as_json: bool) -> None:
    """``smlab bench profile``."""
    from smlab.hw_bench.cuda.measuring.profiling import profile

    done = profile(path, tuple(benchmarks) or ("histogram",))
    if as_json:
        print_json(dataclasses.asdict(done))
        return
    out.print(
        shown(
            f"{done.launches} launches in {done.profile}; {done.data_set} says which is which, in the same "
            f"order"
        )
    )
    err.print(shown(f"next: smlab utilization {done.profile}"))

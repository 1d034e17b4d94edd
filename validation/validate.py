"""``smlab validate``: run every cross-check, side by side where they allow it, and make the report."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from multiprocessing import get_context
from types import ModuleType
from typing import Any

from hw_bench.descriptions import Gpu
from validation.campaign import check as campaign
from validation.checks import Plan, Task, constants, engines, hardware, laws, paper_facts, queue_model, theory
from validation.report import Report

CHECKS: tuple[ModuleType, ...] = (
    hardware,
    queue_model,
    campaign,
    paper_facts,
    theory,
    laws,
    engines,
    constants,
)
"""In the order of the report."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Outcome:
    """A finished validation: its report (not yet written) and how long the work took."""

    report: Report
    wall_s: float


def validate(
    gpu: Gpu,
    *,
    quick: bool = False,
    seed: int = 0,
    processes: int | None = None,
    progress: Progress | None = None,
) -> Outcome:
    """Run all cross-checks for ``gpu``; equal arguments give equal results, on any number of processes."""
    began = time.perf_counter()
    plan = Plan(gpu=gpu, quick=quick, seed=seed, processes=processes or os.cpu_count() or 1)
    results = _run([task for check in CHECKS for task in check.tasks(plan)], plan.processes, progress)
    page = Report(
        "smlab: how far the models can be trusted",
        f"Cross-checks on {gpu.title} ({gpu.name})" + (", quick profile" if quick else ""),
        {"smlab": _version(), "GPU": gpu.name, "seed": seed, "profile": "quick" if quick else "full"},
    )
    for check in CHECKS:
        check.report(page, plan, results)
    return Outcome(page, time.perf_counter() - began)


def _run(tasks: list[Task], processes: int, progress: Progress | None) -> dict[str, Any]:
    """Results by task name, in the order of the tasks. An error in a task ends the run with that error."""
    found: dict[str, Any] = {}
    pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn"))
    try:
        pending = {pool.submit(task.function, *task.arguments): task.name for task in tasks}
        for done, future in enumerate(as_completed(pending), start=1):
            found[pending[future]] = future.result()
            if progress is not None:
                progress(done, len(tasks))
    except BaseException:
        for process in list((pool._processes or {}).values()):
            process.terminate()  # a task may have minutes to go; nobody wants its result any more
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()
    return {task.name: found[task.name] for task in tasks}


def _version() -> str:
    try:
        return version("smlab")
    except PackageNotFoundError:
        return "not installed"

"""``smlab validate``: run every cross-check, side by side where they allow it, and make the report."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.sim.compiled.threads import processors
from smlab.validation.checks import (
    Plan,
    case,
    claims,
    constants,
    engines,
    evidence,
    hardware,
    laws,
    paper_facts,
    queue_model,
    roofline,
    theory,
    whatif,
)
from smlab.validation.checks import trust as campaign
from smlab.validation.report import Report
from smlab.validation.report.provenance import provenance
from smlab.validation.work.runner import run_tasks

CHECKS: tuple[ModuleType, ...] = (
    hardware,
    evidence,
    queue_model,
    campaign,
    case,
    roofline,
    whatif,
    paper_facts,
    theory,
    claims,
    laws,
    engines,
    constants,
)
"""In the order of the report."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class ValidationRun:
    """A validation: its report (not yet written) and how long the work took; ``interrupted`` if some
    checks were not done."""

    report: Report
    wall_s: float
    interrupted: bool = False


def validate(
    gpu: Gpu,
    *,
    quick: bool = False,
    seed: int = 0,
    processes: int | None = None,
    progress: Progress | None = None,
) -> ValidationRun:
    """Run all cross-checks for ``gpu``; equal arguments give equal results, on any number of processes.

    Ctrl-C ends the work, and so does SIGTERM under the command line; the checks whose work was done by then
    are in the report, and the others are listed as not done.
    """
    began = time.perf_counter()
    plan = Plan(gpu=gpu, quick=quick, seed=seed, processes=processes or processors())
    work = [(check, check.tasks(plan)) for check in CHECKS]
    results: dict[str, Any] = {}
    interrupted = False
    try:
        tasks = [task for _, own in work for task in own]
        run_tasks(tasks, results.__setitem__, jobs=plan.processes, progress=progress)
    except KeyboardInterrupt:
        interrupted = True
    page = Report(
        "smlab: how far the models can be trusted",
        f"Cross-checks on {gpu.title} ({gpu.name})" + (", quick profile" if quick else ""),
        {
            **provenance(f"smlab validate --gpu {gpu.name} --seed {seed}" + (" --quick" if quick else "")),
            "GPU": gpu.name,
            "seed": seed,
            "profile": "quick" if quick else "full",
            "processes": plan.processes,
        },
    )
    for check, tasks in work:
        needed = {*(task.key for task in tasks), *getattr(check, "BORROWED", ())}
        if needed <= results.keys():
            check.report(page, plan, results)
        else:
            name = check.__name__.rpartition(".")[2].replace("_", "-")
            page.check(name, None, "not done: interrupted before its work was complete", None)
    return ValidationRun(page, time.perf_counter() - began, interrupted)

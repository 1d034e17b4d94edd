"""``smlab validate``: run every cross-check, side by side where they allow it, and make the report.

With a folder, results of tasks are kept in it as they come, so that a run that was interrupted or killed can
be resumed. They depend on the GPU's description, the profile, the seed, the text of the code and its data,
and the libraries; a report from resumed results is that of an undisturbed run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.sources import cache_key, digest_of, package_folder
from smlab.sim.compiled.threads import processors
from smlab.sim.object_code.loading import ready
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
    theory,
)
from smlab.validation.checks.stored import (
    ADVISOR,
    MEASURED_PAIRS,
    SIMULATED_PAIRS,
    STUDIES,
    UTILIZATION_MAPS,
    StoredCheck,
)
from smlab.validation.report import Report
from smlab.validation.report.provenance import libraries, provenance
from smlab.validation.work.encoding import decode, encode
from smlab.validation.work.runner import Task, run_tasks
from smlab.validation.work.store import Entry, Store

CHECKS: tuple[ModuleType | StoredCheck, ...] = (
    hardware,
    evidence,
    queue_model,
    UTILIZATION_MAPS,
    case,
    SIMULATED_PAIRS,
    MEASURED_PAIRS,
    ADVISOR,
    STUDIES,
    paper_facts,
    theory,
    claims,
    laws,
    engines,
    constants,
)
"""In the order of the report."""

REASONS: Final = {
    "hardware-": "no chance: simulated runs within the published curve's error of reading",
    "calibration-reproduced": "no chance: the same fit made again",
    "evidence-bounds": "no chance: a published run was no faster, so a right description is no slower",
    "evidence-cycles": "no chance: whole cycles, measured and simulated",
    "engines-agree": "exact: both engines give the same trace, whatever is drawn",
    "laws": "exact: identities in whole numbers, whatever is drawn",
    "mva-closed-form": "exact: a closed form, within rounding",
    "mva-balanced": "exact: a closed form, within rounding",
    "simulation-against-mva": "intervals that a sound simulator leaves once in 1,000 runs, all together",
    "interval-coverage": "bounds that right intervals leave once in 500 runs (a test works it out)",
    "fact-": "no chance: what a queue with these service times must show",
    "claims-judged": "no chance: every claim has a verdict",
    "campaign-": "stored: as it was made",
    "roofline-ceilings": "stored: as it was made",
    "whatif-studies": "stored: as it was made",
}
"""Why each check, by how its name begins, does not fall short of a sound testbed. What has no such reason is
a finding, which sets no status."""

RESULTS: Final = "results.sqlite"
"""The file of finished results, in the folder."""
ROOMS: Final = ("smlab.hw_bench", "smlab.sim", "smlab.models", "smlab.validation")

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
    folder: Path | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> ValidationRun:
    """Run all cross-checks for ``gpu``; equal arguments give equal results, on any number of processes.

    Ctrl-C ends the work, and so does SIGTERM under the command line; the checks whose work was done by then
    are in the report, and the others are listed as not done. With a ``folder``, results are kept there as
    they come; with ``resume``, those that are there already are not computed again.

    Raises:
        SmlabError: to resume results that depend on something else, or a folder that cannot be used.
    """
    began = time.perf_counter()
    plan = Plan(gpu=gpu, quick=quick, seed=seed, processes=processes or processors())
    work = [(check, check.tasks(plan)) for check in CHECKS]
    tasks = [task for _, own in work for task in own]
    results: dict[str, Any] = {}
    interrupted = False
    with ExitStack() as opened:
        store = opened.enter_context(Store(folder / RESULTS)) if folder is not None else None
        if store is not None:
            store.begin(_made_with(plan), "GPU description, profile, seed or version of smlab", resume=resume)
            results = _stored(store, tasks)
        done = len(results)

        def keep(key: str, result: Any) -> None:
            results[key] = result
            if store is not None:
                # A kind without a place in the store would cost its task again; a test holds that none does.
                with suppress(TypeError):
                    store.add([Entry(_key(key), {"task": key}, {"value": encode(result)})])

        def advance(count: int, _: int) -> None:
            if progress is not None:
                progress(done + count, len(tasks))

        advance(0, 0)
        missing = [task for task in tasks if task.key not in results]
        try:
            if missing:  # once, on all cores, before the processes that need them
                ready("engine", "machine_code")
            run_tasks(missing, keep, jobs=plan.processes, progress=advance)
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
    for check, own in work:
        needed = {*(task.key for task in own), *getattr(check, "BORROWED", ())}
        if needed <= results.keys():
            check.report(page, plan, results)
        else:
            name = check.name if isinstance(check, StoredCheck) else _name(check)
            page.check(name, None, "not done: interrupted before its work was complete", None)
    return ValidationRun(page, time.perf_counter() - began, interrupted)


def _name(check: ModuleType) -> str:
    return check.__name__.rpartition(".")[2].replace("_", "-")


def _made_with(plan: Plan) -> str:
    """What all results depend on. Numbers of processes are not among it."""
    settings = (encode(plan.gpu), plan.quick, plan.seed, plan.engine)
    return cache_key(settings, digest_of(*map(package_folder, ROOMS), data=True), libraries())


def _key(task: str) -> bytes:
    return bytes.fromhex(cache_key(task))


def _stored(store: Store, tasks: Sequence[Task[str]]) -> dict[str, Any]:
    """The results in the store, by task."""
    keys = {_key(task.key): task.key for task in tasks}
    try:
        return {keys[key]: decode(entry.result["value"]) for key, entry in store.get(list(keys)).items()}
    except (ValueError, KeyError, TypeError, AttributeError, ImportError) as error:
        raise SmlabError.at(
            str(store.path), f"not results of a validation ({error})", expected="a run without --resume"
        ) from error

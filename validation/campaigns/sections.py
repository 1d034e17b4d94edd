"""Make the stored parts of the report of ``smlab validate`` anew: ``python -m
smlab.validation.campaigns.sections NAME... [--jobs N]`` (all of them without a name).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.sources import commit
from smlab.sim.compiled.threads import processors
from smlab.validation.campaigns.advisor import section as advisor
from smlab.validation.campaigns.projection import measured_section
from smlab.validation.checks import Plan, Results, Task
from smlab.validation.checks.stored import JUDGEMENTS
from smlab.validation.report import Report
from smlab.validation.report.stored import StoredProvenance, write_stored
from smlab.validation.work.runner import run_tasks

GPU, SEED = "v100", 0
"""What ``smlab validate`` takes by default."""
MODULE: Final = "python -m smlab.validation.campaigns.sections"


@dataclass(frozen=True)
class StoredSection:
    """The work behind a stored part, and what turns its results into one."""

    tasks: Callable[[Plan], list[Task[str]]]
    report: Callable[[Report, Plan, Results], None]


SECTIONS: Final = {
    "measured-pairs": StoredSection(measured_section.tasks, measured_section.report),
    "advisor": StoredSection(advisor.tasks, advisor.report),
}


def make(name: str, plan: Plan) -> Report:
    """One part, worked out now."""
    results: dict[str, Any] = {}
    tasks = SECTIONS[name].tasks(plan)

    def told(done: int, total: int) -> None:
        print(f"{name}: {done} of {total}", file=sys.stderr)

    run_tasks(tasks, results.__setitem__, jobs=plan.processes, progress=told)
    report = Report(name)
    SECTIONS[name].report(report, plan, results)
    return report


def main() -> None:
    parser = argparse.ArgumentParser(prog=MODULE, description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SECTIONS))
    parser.add_argument("--jobs", type=int, default=processors())
    asked = parser.parse_args()
    if unknown := set(asked.names) - set(SECTIONS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}; one of {', '.join(SECTIONS)}")
    plan = Plan(gpu=load_gpu(GPU), quick=False, seed=SEED, processes=asked.jobs)
    for name in asked.names or SECTIONS:
        report = make(name, plan)
        made = StoredProvenance(f"{MODULE} {name}", time.strftime("%Y-%m-%d"), commit(), GPU, SEED)
        write_stored(report, made, JUDGEMENTS / name)
        print(f"wrote {JUDGEMENTS / name}")


if __name__ == "__main__":
    main()

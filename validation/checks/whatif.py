"""Five what-if studies, reduced, and their answers with intervals."""

from __future__ import annotations

from smlab.validation.checks import Plan, Results, Task
from smlab.validation.experiments.studies.book import CHAPTERS, Chapter
from smlab.validation.experiments.studies.page import add_studies
from smlab.validation.experiments.studies.points import Reduction, points_of
from smlab.validation.report import Report


def tasks(plan: Plan) -> list[Task[str]]:
    return [
        Task(
            f"whatif-{chapter.folder}-{file}",
            points_of,
            (chapter.folder, file, _reduction(chapter, plan.quick)),
        )
        for chapter in CHAPTERS
        for file in chapter.files
    ]


def report(page: Report, plan: Plan, results: Results) -> None:
    section = page.section(
        "whatif",
        "What if: five studies",
        "Questions that only a simulator can be asked, answered by changing hardware and workload and "
        "running the same random "
        "numbers through all variants. Each study is a file in `validation/experiments/studies/` that "
        "`smlab whatif` runs whole; this report "
        "runs a reduced form of each, so its intervals are wider. The GPUs are the studies' own.",
    )
    frames = {(c.folder, file): results[f"whatif-{c.folder}-{file}"] for c in CHAPTERS for file in c.files}
    add_studies(page, section, frames, lambda chapter: _reduction(chapter, plan.quick))


def _reduction(chapter: Chapter, quick: bool) -> Reduction:
    return chapter.quick if quick else chapter.report

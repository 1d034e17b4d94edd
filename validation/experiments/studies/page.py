"""The five studies as a section of a report."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pandas as pd

from smlab.validation.experiments.studies import pairing
from smlab.validation.experiments.studies.answer import FINDING_COLUMNS, Answer, finding_rows
from smlab.validation.experiments.studies.book import CHAPTERS, Chapter
from smlab.validation.experiments.studies.points import Points, Reduction, analysed
from smlab.validation.report import Report, Section


def add_studies(
    page: Report,
    section: Section,
    frames: Mapping[tuple[str, str], pd.DataFrame],
    reduction: Callable[[Chapter], Reduction | None],
) -> dict[str, Answer]:
    """Answer every study from its table of points, by folder and file, and add answers, figures and findings
    to the section.

    A check says how many points have no answer. The answers, by folder.
    """
    failed = points = 0
    by_study: dict[str, dict[str, Points]] = {}
    answers: dict[str, Answer] = {}
    for chapter in CHAPTERS:
        by_file = by_study[chapter.folder] = {}
        for file in chapter.files:
            frame = frames[chapter.folder, file]
            failed += int((frame["error"] != "").sum())
            points += len(frame)
            by_file[file] = analysed(chapter.folder, file, frame, reduction(chapter))
        answers[chapter.folder] = _add(section, chapter, by_file)
    section.fold("What common random numbers bring")
    pairing.draw(section, by_study)
    page.check(
        "whatif-studies",
        failed == 0,
        f"{len(CHAPTERS)} studies, {points:,} points, {failed} of which have no answer (0 asked)",
        section.name,
    )
    return answers


def _add(section: Section, chapter: Chapter, by_file: Mapping[str, Points]) -> Answer:
    answer = chapter.answer(by_file)
    section.heading(chapter.question)
    first, _, rest = answer.text.partition(". ")
    section.text(first + "." if rest else first)
    section.fold(f"The whole answer, figures and findings of `{chapter.folder}`")
    if rest:
        section.text(rest)
    chapter.draw(section, by_file)
    section.table(
        f"whatif-{chapter.folder}",
        FINDING_COLUMNS,
        finding_rows(answer.findings),
        f"Findings of `validation/experiments/studies/{chapter.folder}`, with 95 % intervals (none where "
        f"nothing is random).",
    )
    for file, points in by_file.items():
        for note in points.effects.notes:
            section.text(f"`{file}`: {note}")
    section.unfold()
    return answer

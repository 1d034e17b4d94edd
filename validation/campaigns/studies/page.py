"""The five studies as a section of a report."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from smlab.validation.campaigns.studies import pairing
from smlab.validation.campaigns.studies.answer import FINDING_COLUMNS, Answer, finding_rows
from smlab.validation.campaigns.studies.book import CHAPTERS, Chapter
from smlab.validation.campaigns.studies.points import Points, Reduction, analysed
from smlab.validation.report import Column, Report, Section


@dataclass(frozen=True)
class UnderAlternative:
    """Studies asked once more with their GPUs under a further alternative, by ``name``: tables of points by
    folder and file, and why a file could not be asked (``refused``). Files in neither do not hang on it."""

    name: str
    frames: Mapping[tuple[str, str], pd.DataFrame]
    refused: Mapping[tuple[str, str], str] = field(default_factory=dict)


def add_studies(
    page: Report,
    section: Section,
    frames: Mapping[tuple[str, str], pd.DataFrame],
    reduction: Callable[[Chapter], Reduction | None],
    others: Sequence[UnderAlternative] = (),
) -> dict[str, Answer]:
    """Answer every study from its table of points, by folder and file, and add answers, figures and findings
    to the section; beside them what the ``others`` say.

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
        answers[chapter.folder] = _add(section, chapter, by_file, reduction(chapter), others)
    for other in others:
        failed += sum(int((frame["error"] != "").sum()) for frame in other.frames.values())
        points += sum(len(frame) for frame in other.frames.values())
    section.fold("What common random numbers bring")
    pairing.draw(section, by_study)
    page.check(
        "whatif-studies",
        failed == 0,
        f"{len(CHAPTERS)} studies, {points:,} points, {failed} of which have no answer (0 asked)",
        section.name,
    )
    return answers


def _add(
    section: Section,
    chapter: Chapter,
    by_file: Mapping[str, Points],
    reduction: Reduction | None,
    others: Sequence[UnderAlternative],
) -> Answer:
    answer = chapter.answer(by_file)
    section.heading(chapter.question)
    first, rest = _parted(answer.text)
    section.text(first)
    told: dict[str, Answer] = {}
    under: dict[str, list[str]] = {}
    for other in others:
        refused = [other.refused[chapter.folder, f] for f in by_file if (chapter.folder, f) in other.refused]
        if refused:
            under[f"it cannot be asked: {refused[0]}."] = [other.name]
        elif any((chapter.folder, f) in other.frames for f in by_file):
            told[other.name] = chapter.answer(_points_under(chapter.folder, by_file, reduction, other))
            said = _parted(told[other.name].text)[0]
            under.setdefault("the same." if said == first else said, []).append(other.name)
    if under:
        section.text(
            " ".join(
                f"Under {' and '.join(f'`{name}`' for name in names)}: {said}"
                for said, names in under.items()
            )
        )
    section.fold(f"The whole answer, figures and findings of `{chapter.folder}`")
    if rest:
        section.text(rest)
    chapter.draw(section, by_file)
    section.table(
        f"whatif-{chapter.folder}",
        FINDING_COLUMNS,
        finding_rows(answer.findings),
        f"Findings of `validation/campaigns/studies/{chapter.folder}`, with 95 % intervals (none where "
        f"nothing is random).",
    )
    for name, found in told.items():
        _compare(section, chapter.folder, answer, name, found)
    for file, points in by_file.items():
        for note in points.effects.notes:
            section.text(f"`{file}`: {note}")
    section.unfold()
    return answer


def _parted(text: str) -> tuple[str, str]:
    """The first sentence, and the others."""
    first, _, rest = text.partition(". ")
    return first + "." if rest else first, rest


def _points_under(
    folder: str, by_file: Mapping[str, Points], reduction: Reduction | None, other: UnderAlternative
) -> dict[str, Points]:
    """The points of a study's files under an alternative; of those that do not hang on it, as they were."""
    return {
        file: analysed(folder, file, other.frames[folder, file], reduction, other.name)
        if (folder, file) in other.frames
        else points
        for file, points in by_file.items()
    }


def _compare(section: Section, folder: str, answer: Answer, name: str, other: Answer) -> None:
    """The findings under an alternative beside those of the description as it stands; one that only one of
    them has is told with a gap."""
    here, there = ({f.name: f for f in a.findings} for a in (answer, other))
    rows: list[list[object]] = []
    for key in dict.fromkeys([*here, *there]):
        finding = here[key] if key in here else there[key]
        values = [
            v
            for side in (here, there)
            for v in (
                (side[key].value.estimate, side[key].value.low, side[key].value.high)
                if key in side
                else (math.nan,) * 3
            )
        ]
        rows.append([finding.what, *values, finding.unit])
    section.table(
        f"whatif-{folder}-{name}",
        [
            Column("Finding", key="finding"),
            Column("As described", key="described", kind="simulated"),
            Column("95 % low", key="described_low"),
            Column("high", key="described_high"),
            Column(f"Under {name}", key="under", kind="simulated"),
            Column("95 % low ", key="under_low"),
            Column("high ", key="under_high"),
            Column("Unit", key="unit"),
        ],
        rows,
        f"The same findings with the GPU under its alternative `{name}`, from as many points with the same "
        f"random numbers.",
    )

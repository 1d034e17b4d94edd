"""Five what-if studies, reduced, and their answers with intervals."""

from __future__ import annotations

from smlab.validation.campaigns.studies.book import CHAPTERS, Chapter
from smlab.validation.campaigns.studies.page import UnderAlternative, add_studies
from smlab.validation.campaigns.studies.points import Reduction, other_alternatives, points_of
from smlab.validation.checks import Plan, Results, Task
from smlab.validation.report import Report


def tasks(plan: Plan) -> list[Task[str]]:
    drawn = [
        Task(_key(chapter, file), points_of, (chapter.folder, file, _reduction(chapter, plan.quick)))
        for chapter in CHAPTERS
        for file in chapter.files
    ]
    return drawn + [
        Task(_key(chapter, file, name), points_of, (chapter.folder, file, chapter.report, 1, name))
        for chapter, file, name, refused in _alternatives(plan)
        if not refused
    ]


def _alternatives(plan: Plan) -> list[tuple[Chapter, str, str, str]]:
    """Studies' files and further alternatives, with the reason for which they cannot be asked under them, or
    none; a quick run takes the first alone."""
    return [
        (chapter, file, name, refused)
        for chapter in (() if plan.quick else CHAPTERS)
        for file in chapter.files
        for name, refused in other_alternatives(chapter.folder, file, chapter.report).items()
    ]


def _key(chapter: Chapter, file: str, alternative: str = "") -> str:
    under = f"-under-{alternative}" if alternative else ""
    return f"whatif-{chapter.folder}-{file}{under}"


def report(page: Report, plan: Plan, results: Results) -> None:
    asked = "" if plan.quick else " Each is asked under every alternative that its GPU's description carries."
    section = page.section(
        "whatif",
        "What if: five studies",
        "Questions that only a simulator can be asked, answered by changing hardware and workload "
        "and running the same random numbers through all variants. Each study is a file in "
        "`validation/campaigns/studies/` that `smlab whatif` runs whole; this report runs a reduced "
        "form of each, so its intervals are wider. The GPUs are the studies' own." + asked,
    )
    frames = {(c.folder, file): results[_key(c, file)] for c in CHAPTERS for file in c.files}
    alternatives, others = _alternatives(plan), []
    for under in dict.fromkeys(name for _, _, name, _ in alternatives):
        own = [(chapter, file, refused) for chapter, file, name, refused in alternatives if name == under]
        others.append(
            UnderAlternative(
                under,
                {(c.folder, f): results[_key(c, f, under)] for c, f, refused in own if not refused},
                {(c.folder, f): refused for c, f, refused in own if refused},
            )
        )
    add_studies(page, section, frames, lambda chapter: _reduction(chapter, plan.quick), others)


def _reduction(chapter: Chapter, quick: bool) -> Reduction:
    return chapter.quick if quick else chapter.report

"""The effects of a study as a page: a section with tables and figures for each response."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from smlab.validation.experiments.effects.answers import answers, leading, ranked
from smlab.validation.experiments.effects.page_figures import add_figures
from smlab.validation.experiments.effects.page_rows import anchor, level_columns, level_row
from smlab.validation.experiments.effects.page_tables import add_tables
from smlab.validation.experiments.effects.points import of_design
from smlab.validation.experiments.effects.results import Effects
from smlab.validation.report import Report, Section

MAX_HEADLINES = 4


def add_effects(section: Section, effects: Effects, frame: pd.DataFrame, response: str) -> None:
    """Add the effects on one response to a section: tables and figures."""
    found = effects[response]
    add_tables(section, effects.layout, found)
    add_figures(section, effects.layout, found, of_design(effects.layout, frame))


def effects_page(
    question: str, effects: Effects, frame: pd.DataFrame, provenance: Mapping[str, object]
) -> Report:
    """A page of its own for one study."""
    layout, times = effects.layout, effects.replications
    size = f"{effects.points} cases, {times} replication{'s' if times > 1 else ''}, design `{layout.design}`."
    page = Report(f"What if: {layout.title or layout.name}", f"{question} {size}".strip(), provenance)
    for label, value in answers(effects)[:MAX_HEADLINES]:
        page.headline(label, value, kind=layout.kind)
    _answer_section(page, effects)
    for found in effects.responses:
        section = page.section(anchor(found.response), found.response.replace("_", " "), _intro(effects))
        for note in effects.notes if found is effects.responses[0] else ():
            section.text(note)
        add_effects(section, effects, frame, found.response)
    return page


def _answer_section(page: Report, effects: Effects) -> None:
    """What the study asks for, before anything else: what each change does to the leading response."""
    found = leading(effects)
    rows = [level_row(e) for e in ranked(found)]
    if not rows:
        return
    section = page.section(
        "answer",
        "The answer",
        f"What each change does to {found.response.replace('_', ' ')}, the largest effect first. Ratios are "
        "geometric means of paired ratios: the same in every other respect, and the same random numbers.",
    )
    section.table("answer", level_columns(effects.layout.kind), rows, "Every level against its reference.")


def _intro(effects: Effects) -> str:
    level = f"{100 * effects.layout.level:g} %"
    times = f"{effects.replications} times"
    return {
        "grid": f"Every combination of levels, {times}. A level's effect is averaged over the other factors "
        f"and compared with "
        f"the reference level replication by replication, with the same random numbers; intervals are at "
        f"{level}.",
        "one-at-a-time": f"Each factor moved alone, the others at the base, {times}. Differences and ratios "
        f"are paired by "
        f"common random numbers; intervals are at {level}.",
        "sobol": f"Sobol indices (SALib) over the factors' distributions, with bootstrap intervals at "
        f"{level}. These hold the "
        "truth more often than they claim, since the design is a low-discrepancy sequence.",
        "random": "Points drawn from the factors' distributions; standardised rank regression with "
        "bootstrap intervals at "
        f"{level}.",
    }[effects.layout.design]

"""From what a report says to its one HTML file: the template and the style sheet beside this module, filled
in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

from jinja2 import DictLoader, Environment, StrictUndefined
from markupsafe import Markup

from smlab.validation.method.baseline import WORDS, Word
from smlab.validation.report.content import Check, CheckVerdict, Contents, Finding
from smlab.validation.report.kinds import KINDS
from smlab.validation.report.markup import inline, paragraphs
from smlab.validation.report.tables import show

TEMPLATE = "report.html.j2"
STYLE_SHEET = "report.css"

STAMP = ("date", "commit", "GPU", "seed", "profile", "smlab")
"""What of the provenance stands under the title; all of it is at the page's end."""

_SEVERITY: dict[CheckVerdict, int] = {"fell short": 0, "not done": 1, "held": 2}


@dataclass(frozen=True)
class ChecksSummary:
    """What the checks say together, in one line; ``verdict`` is the worst of them."""

    verdict: CheckVerdict
    headline: str
    counts: str


def summary_of_checks(checks: Sequence[Check]) -> ChecksSummary:
    """The one line above the checks. What was not done is named and never counts as held."""
    count = {verdict: sum(c.verdict == verdict for c in checks) for verdict in _SEVERITY}
    held, short, undone = count["held"], count["fell short"], count["not done"]
    counts = f"{held} of {len(checks)} held, {short} fell short, {undone} not done"
    if not checks:
        return ChecksSummary("not done", "No checks were made", "")
    if short:
        return ChecksSummary("fell short", f"{_number(short)} of the testbed fell short", counts)
    if not held:
        return ChecksSummary("not done", "No check was done", counts)
    if undone:
        return ChecksSummary("not done", f"Every check done held; {undone} not done", counts)
    return ChecksSummary("held", "Every check of the testbed held", counts)


def summary_of_findings(findings: Sequence[Finding]) -> str:
    """The lines above the findings: how many models are better than their baseline, and which are not, by
    name."""
    if not findings:
        return ""
    by_word = {word: [f for f in findings if f.word == word] for word in WORDS}
    told = ", ".join(f"{len(found)} {word}" for word, found in by_word.items()).replace(" ", " came out ", 1)
    text = f"Of {len(findings)} comparisons of a model with its baseline {told}."
    leads: dict[Word, str] = {"worse": "Worse", "no better": "No better"}
    for word, lead in leads.items():
        by_question = _by_question(by_word[word])
        if by_question:
            named = (f"{', '.join(f.model for f in found)} ({q})" for q, found in by_question.items())
            text += f" **{lead}:** " + "; ".join(named) + "."
    return text


def render(contents: Contents) -> str:
    """The whole page as one string that needs nothing from outside."""
    environment = Environment(
        loader=DictLoader({TEMPLATE: _resource(TEMPLATE)}),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(inline=inline, paragraphs=paragraphs, show=show, error=error_text)
    by_section: dict[str, list[Check]] = {}
    for check in contents.checks:
        by_section.setdefault(check.section or "", []).append(check)
    kinds = _kinds_used(contents)
    return environment.get_template(TEMPLATE).render(
        report=contents,
        style=Markup(_resource(STYLE_SHEET)),
        verdict=summary_of_checks(contents.checks),
        told=summary_of_findings(contents.findings),
        questions=_by_question(contents.findings),
        open_checks=sorted(
            (c for c in contents.checks if c.verdict != "held"), key=lambda c: _SEVERITY[c.verdict]
        ),
        held_checks=[c for c in contents.checks if c.verdict == "held"],
        by_section=by_section,
        worst={
            name: min((c.verdict for c in found), key=_SEVERITY.__getitem__)
            for name, found in by_section.items()
        },
        stamp={key: contents.provenance[key] for key in STAMP if key in contents.provenance}
        or dict(list(contents.provenance.items())[:6]),
        sections={section.name for section in contents.sections},
        kinds={kind: meaning for kind, meaning in KINDS.items() if kind in kinds},
    )


def error_text(value: float) -> str:
    """An error as people read it: three significant digits at the most, never fewer than its whole part."""
    if value != value:
        return show(None)
    digits = 0 if abs(value) >= 99.5 else 1 if abs(value) >= 0.995 else 2
    return show(float(value), digits)


def _by_question(findings: Sequence[Finding]) -> dict[str, list[Finding]]:
    """The findings by question, each in its order."""
    found: dict[str, list[Finding]] = {}
    for finding in findings:
        found.setdefault(finding.question, []).append(finding)
    return found


def _kinds_used(contents: Contents) -> set[str | None]:
    used = {h.kind for h in contents.headlines} | {f.evidence for f in contents.findings}
    for table in contents.tables().values():
        used |= {column.kind for column in table.columns}
        used |= {kind for row in table.kinds for kind in row}
    return used


def _number(count: int) -> str:
    return "One check" if count == 1 else f"{count} checks"


def _resource(name: str) -> str:
    return resources.files("smlab.validation.report").joinpath(name).read_text(encoding="utf-8")

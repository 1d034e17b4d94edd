"""From a report to its one HTML file: the template and the style sheet beside this module, filled in."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING

from jinja2 import DictLoader, Environment, StrictUndefined
from markupsafe import Markup
from smlab.validation.report.kinds import KINDS
from smlab.validation.report.markup import inline, paragraphs
from smlab.validation.report.tables import show

if TYPE_CHECKING:  # the report imports this module
    from smlab.validation.report.document import Check, Report

TEMPLATE = "report.html.j2"
STYLE_SHEET = "report.css"

_SEVERITY = {"fell short": 0, "not done": 1, "passed": 2}


@dataclass(frozen=True)
class Verdict:
    """What the checks say together, in one line; ``status`` is the worst of them."""

    status: str
    headline: str
    counts: str


def verdict(checks: list[Check]) -> Verdict:
    """The one line above the checks. What was not done is named and never counts as passed."""
    count = {status: sum(c.status == status for c in checks) for status in _SEVERITY}
    passed, short, undone = count["passed"], count["fell short"], count["not done"]
    counts = f"{passed} of {len(checks)} passed, {short} fell short, {undone} not done"
    if not checks:
        return Verdict("not done", "No checks were made", "")
    if short:
        return Verdict("fell short", f"{_number(short)} fell short", counts)
    if not passed:
        return Verdict("not done", "No check was done", counts)
    if undone:
        return Verdict("passed", f"Every check done has passed; {undone} not done", counts)
    return Verdict("passed", "Every check has passed", counts)


def render(report: Report) -> str:
    """The whole page as one string that needs nothing from outside."""
    environment = Environment(
        loader=DictLoader({TEMPLATE: _resource(TEMPLATE)}),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(inline=inline, paragraphs=paragraphs, show=show)
    by_section: dict[str, list[Check]] = {}
    for check in report.checks:
        by_section.setdefault(check.section or "", []).append(check)
    return environment.get_template(TEMPLATE).render(
        report=report,
        style=Markup(_resource(STYLE_SHEET)),
        verdict=verdict(report.checks),
        checks=sorted(report.checks, key=lambda c: _SEVERITY[c.status]),
        by_section=by_section,
        worst={
            name: min((c.status for c in found), key=_SEVERITY.__getitem__)
            for name, found in by_section.items()
        },
        sections={section.name for section in report.sections},
        kinds={kind: meaning for kind, meaning in KINDS.items() if kind in _kinds_used(report)},
    )


def _kinds_used(report: Report) -> set[str | None]:
    used = {h.kind for h in report.headlines}
    for table in report.tables().values():
        used |= {column.kind for column in table.columns}
        used |= {kind for row in table.kinds for kind in row}
    return used


def _number(count: int) -> str:
    return "One check" if count == 1 else f"{count} checks"


def _resource(name: str) -> str:
    return resources.files("smlab.validation.report").joinpath(name).read_text(encoding="utf-8")

"""From what a report says to its one HTML file: the template and the style sheet beside this module, filled
in.

Report texts may use a little markup: blank lines part paragraphs, **bold**, `code`; all else is escaped.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources

from jinja2 import DictLoader, Environment, StrictUndefined
from markupsafe import Markup, escape

from smlab.validation.method.baseline import WORDS, Word
from smlab.validation.report.content import Check, CheckVerdict, Contents, Finding
from smlab.validation.report.tables import KINDS, show

_INLINE = re.compile(r"`([^`\n]+)`|\*\*(.+?)\*\*", re.DOTALL)


def inline(text: str) -> Markup:
    """``text`` as HTML with **bold** and `code`; inside code nothing else is marked up."""
    out: list[Markup] = []
    at = 0
    for found in _INLINE.finditer(text):
        out.append(escape(text[at : found.start()]))
        code, bold = found.groups()
        if code is not None:
            out.append(Markup("<code>{}</code>").format(code))
        else:
            out.append(Markup("<strong>{}</strong>").format(inline(bold)))
        at = found.end()
    out.append(escape(text[at:]))
    return Markup("").join(out)


def paragraphs(text: str) -> Markup:
    """``text`` as HTML paragraphs."""
    parts = (part.strip() for part in re.split(r"\n\s*\n", text))
    return Markup("\n").join(Markup("<p>{}</p>").format(inline(part)) for part in parts if part)


TEMPLATE = "report.html.j2"
STYLE_SHEET = "report.css"

CONTENT_POLICY = Markup(
    '<meta http-equiv="Content-Security-Policy" '
    "content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">"
)
"""In the head of every page that smlab writes: no script runs, and nothing is loaded from elsewhere."""

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


@dataclass(frozen=True)
class ErrorAxis:
    """A logarithmic axis of errors over their baseline's error, from ``low`` to ``high`` doublings."""

    low: int
    high: int

    @classmethod
    def of(cls, findings: Sequence[Finding]) -> ErrorAxis:
        """One that shows every model's error, within 32 times better and 64 times worse."""
        doublings = [math.log2(r) for r in map(_error_ratio, findings) if 0 < r < math.inf]
        low, high = (min(doublings, default=0.0), max(doublings, default=0.0))
        return cls(max(-5, min(-2, math.floor(low))), min(6, max(2, math.ceil(high))))

    def place(self, ratio: float) -> float:
        """Where a ratio stands, in percent of the axis; what lies outside stands at its end."""
        doublings = math.log2(ratio) if 0 < ratio < math.inf else self.low if ratio <= 0 else self.high
        return round(100 * (min(max(doublings, self.low), self.high) - self.low) / (self.high - self.low), 2)


@dataclass(frozen=True)
class ErrorBar:
    """A finding in the picture of errors: its dot and the ends of its interval, in percent of the axis."""

    finding: Finding
    dot: float
    low: float
    high: float


@dataclass(frozen=True)
class ErrorGroup:
    """The findings with one word, under a title."""

    word: Word
    title: str
    rows: tuple[ErrorBar, ...]


@dataclass(frozen=True)
class Tick:
    """A mark of the axis."""

    at: float
    label: str


_TITLES: dict[Word, str] = {
    "worse": "Worse than the baseline",
    "no better": "No better than the baseline",
    "better": "Better than the baseline",
}
"""In the order of the page: what fell short comes first."""


def _error_ratio(finding: Finding) -> float:
    return _over(finding.comparison.error, finding)


def _over(error: float, finding: Finding) -> float:
    """An error over the baseline's error."""
    baseline = finding.comparison.baseline_error
    if baseline > 0:
        return error / baseline
    return math.inf if error > 0 else 1.0


def error_bars(findings: Sequence[Finding], scale: ErrorAxis) -> tuple[ErrorGroup, ...]:
    """The picture of each model's error beside its baseline's, what fell short first."""
    groups = []
    for word, title in _TITLES.items():
        rows = tuple(
            ErrorBar(f, *(scale.place(_over(error, f)) for error in (c.error, c.low, c.high)))
            for f in findings
            if f.word == word
            for c in (f.comparison,)
        )
        if rows:
            groups.append(ErrorGroup(word, title, rows))
    return tuple(groups)


def _ticks(scale: ErrorAxis) -> list[Tick]:
    """Marks at whole doublings, every second one where there are many."""
    step = 1 if scale.high - scale.low <= 6 else 2
    marks = (d for d in range(scale.low, scale.high + 1) if d % step == 0)
    return [Tick(scale.place(2.0**d), f"{2.0**d:g}×" if d >= 0 else f"1/{2**-d}×") for d in marks]


def page_environment(templates: Mapping[str, str]) -> Environment:
    """What fills in the templates of every page that smlab writes: all is escaped, and nothing may be
    missing."""
    environment = Environment(
        loader=DictLoader(templates),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(inline=inline, paragraphs=paragraphs, show=show, error=error_text)
    return environment


def style_sheet() -> Markup:
    """The style sheet that all pages begin with."""
    return Markup(_resource(STYLE_SHEET))


def render(contents: Contents) -> str:
    """The whole page as one string that needs nothing from outside."""
    environment = page_environment({TEMPLATE: _resource(TEMPLATE)})
    by_section: dict[str, list[Check]] = {}
    for check in contents.checks:
        by_section.setdefault(check.section or "", []).append(check)
    kinds = _kinds_used(contents)
    scale = ErrorAxis.of(contents.findings)
    bars = error_bars(contents.findings, scale)
    return environment.get_template(TEMPLATE).render(
        report=contents,
        policy=CONTENT_POLICY,
        style=style_sheet(),
        verdict=summary_of_checks(contents.checks),
        bars=bars,
        ticks=_ticks(scale),
        one=scale.place(1.0),
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

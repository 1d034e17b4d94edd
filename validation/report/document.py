"""What a report says: headline numbers, findings, checks and sections. How it looks is in
`smlab.validation.report.page`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from smlab.hw_bench.errors import SmlabError
from smlab.validation.report.content import Check, Contents, Finding, Headline, Names, Section
from smlab.validation.report.files import Drawing, write_report
from smlab.validation.report.page import render
from smlab.validation.report.tables import Table, check_kind, finite, plain

RESERVED = ("summary", "findings", "checks", "legend", "provenance", "contents")
"""Anchors of the page itself, which no section may take."""


class Report:
    """A report under construction: say things, then `write` it.

    *Checks* say whether the testbed is right; they alone decide `ok`. *Findings* say how good a model is,
    beside a baseline; they decide nothing.

    Names of checks, tables, figures and sections are unique within their sort, since they are anchors, JSON
    keys and file names. A name that is taken or unusable is an `SmlabError` at once, not after an hour's run.
    """

    def __init__(
        self, title: str, subtitle: str = "", provenance: Mapping[str, object] | None = None
    ) -> None:
        self.title = title
        self.subtitle = subtitle
        self.provenance = {key: plain(v, f"provenance {key!r}") for key, v in (provenance or {}).items()}
        self.headlines: list[Headline] = []
        self.findings: list[Finding] = []
        self.checks: list[Check] = []
        self.sections: list[Section] = []
        self._names = Names()

    @property
    def ok(self) -> bool:
        """Whether no check fell short. A check that was not done neither holds nor falls short."""
        return not any(check.ok is False for check in self.checks)

    def headline(self, label: str, value: object, *, kind: str | None = None, note: str = "") -> None:
        """Add a key figure to the first screen; ``value`` as it shall be printed, with its unit."""
        self.headlines.append(Headline(label, str(value), check_kind(kind, f"headline {label!r}"), note))

    def finding(self, finding: Finding) -> None:
        """Add how good a model is at a question. Two findings may not share question and model."""
        where = f"finding {finding.question!r}"
        same = [f for f in self.findings if f.question == finding.question]
        if any(f.model == finding.model for f in same):
            raise SmlabError.at(where, "a model stands twice", finding.model)
        about = (finding.unit, finding.evidence, finding.group)
        for other in (f for f in same if (f.unit, f.evidence, f.group) != about):
            expected = str((other.unit, other.evidence, other.group))
            raise SmlabError.at(where, "another unit, evidence or group", about, expected)
        if not finding.evidence:
            raise SmlabError.at(where, "no evidence", expected="the kind of truth that it was compared with")
        check_kind(finding.evidence, where)
        self.findings.append(finding)

    def check(self, name: str, ok: bool | None, summary: str, section: str | None = None) -> None:
        """Add a verdict on the testbed; ``ok`` is None for a check that was not done. ``section`` is where
        its details
        are."""
        self._names.claim("check", name)
        verdict = plain(ok, f"check {name!r}")
        if verdict is not None and not isinstance(verdict, bool):
            raise SmlabError.at(f"check {name!r}", "unusable verdict", ok, "True, False or None (not done)")
        self.checks.append(Check(name, verdict, summary, section))

    def section(self, name: str, title: str, intro: str = "") -> Section:
        """Add a section and return it, to be filled."""
        self._names.claim("section", name)
        if name in RESERVED:
            raise SmlabError.at("section", "reserved name", name, f"none of {', '.join(RESERVED)}")
        section = Section(self._names, name, title, intro)
        self.sections.append(section)
        return section

    def contents(self) -> Contents:
        """All that was said so far."""
        return Contents(
            self.title,
            self.subtitle,
            self.provenance,
            self.headlines,
            self.findings,
            self.checks,
            self.sections,
        )

    def tables(self) -> dict[str, Table]:
        """All tables in their order, by name."""
        return self.contents().tables()

    def drawings(self) -> dict[str, Drawing]:
        """All figures in their order, by name."""
        return self.contents().drawings()

    def as_json(self) -> dict[str, Any]:
        """What the command line prints: verdicts, findings and tables as plain numbers, None for what is not
        defined."""
        return {
            "ok": self.ok,
            "checks": [c.as_row() for c in self.checks],
            "findings": [f.as_row() for f in self.findings],
            "tables": {
                name: [{key: finite(value) for key, value in row.items()} for row in table.as_rows()]
                for name, table in self.tables().items()
            },
        }

    def metrics(self) -> dict[str, Any]:
        """What metrics.json holds: `as_json` with provenance, key figures and the columns' units and
        kinds."""
        return {
            **self.as_json(),
            "provenance": {key: finite(value) for key, value in self.provenance.items()},
            "headlines": [
                {"label": h.label, "value": h.value, "kind": h.kind, "note": h.note} for h in self.headlines
            ],
            "columns": {
                name: [
                    {"key": c.key, "label": c.label, "unit": c.unit, "kind": c.kind} for c in table.columns
                ]
                for name, table in self.tables().items()
            },
        }

    def write(self, out_dir: Path) -> Path:
        """Write report.html, metrics.json, figures/ and tables/ into ``out_dir``; the path of report.html.

        The same report gives the same bytes, and each file appears whole or not at all.
        """
        csvs = {name: table.as_csv() for name, table in self.tables().items()}
        return write_report(Path(out_dir), render(self.contents()), self.metrics(), self.drawings(), csvs)

"""What a report says: headline numbers, checks and sections. How it looks is in
`smlab.validation.report.page`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from matplotlib.figure import Figure
from smlab.hw_bench.errors import SmlabError
from smlab.validation.method.metrics import ErrorTable, PointErrors
from smlab.validation.report.files import Drawing, draw, write_report
from smlab.validation.report.kinds import check_kind, check_name
from smlab.validation.report.page import render
from smlab.validation.report.tables import Cell, Column, Plain, Table, data_csv, finite, plain

Status = Literal["passed", "fell short", "not done"]

RESERVED = ("summary", "checks", "legend", "provenance", "contents")
"""Anchors of the page itself, which no section may take."""

ERROR_COLUMNS = (
    Column("Predictor", key="predictor"),
    Column("n", key="n", digits=0),
    Column("MAPE", "%", digits=2, key="mape"),
    Column("95 % low", "%", digits=2, key="mape_low"),
    Column("high", "%", digits=2, key="mape_high"),
    Column("Median", "%", digits=2, key="median_ape"),
    Column("Worst", "%", digits=1, key="worst_ape"),
    Column("Bias", "×", digits=3, key="bias"),
    Column("Spread", "×", digits=3, key="spread"),
    Column("τ-b", digits=3, key="kendall_tau"),
    Column("≤ 5 %", "% of n", digits=0, key="within_5"),
    Column("≤ 10 %", "% of n", digits=0, key="within_10"),
    Column("≤ 25 %", "% of n", digits=0, key="within_25"),
    Column("Baseline", "MAPE, %", digits=1, key="baseline_mape"),
)

POINT_COLUMNS = (
    Column("Estimator", key="estimator"),
    Column("n", key="n", digits=0),
    Column("Mean", "points", digits=2, key="mean_points"),
    Column("95 % low", "points", digits=2, key="mean_low"),
    Column("high", "points", digits=2, key="mean_high"),
    Column("95th percentile", "points", digits=2, key="p95_points"),
    Column("Worst", "points", digits=2, key="worst_points"),
    Column("Bias", "points", digits=2, key="bias_points"),
    Column("Above 100 %", "cases", digits=0, key="above_100"),
)


@dataclass(frozen=True)
class Headline:
    """A key figure of the first screen."""

    label: str
    value: str
    kind: str | None
    note: str


@dataclass(frozen=True)
class Check:
    """A check's verdict: ``ok`` is True (passed), False (fell short) or None (not done)."""

    name: str
    ok: bool | None
    summary: str
    section: str | None

    @property
    def status(self) -> Status:
        return "not done" if self.ok is None else "passed" if self.ok else "fell short"


@dataclass(frozen=True)
class TextBlock:
    text: str
    type: str = "text"


@dataclass(frozen=True)
class HeadingBlock:
    text: str
    type: str = "heading"


@dataclass(frozen=True)
class TableBlock:
    table: Table
    number: int
    type: str = "table"


@dataclass(frozen=True)
class FigureBlock:
    drawing: Drawing
    number: int
    caption: str
    alt: str
    type: str = "figure"


Block = TextBlock | HeadingBlock | TableBlock | FigureBlock


@dataclass
class Section:
    """A section under construction; ``name`` is its anchor. Make it with `Report.section`."""

    report: Report
    name: str
    title: str
    intro: str
    blocks: list[Block] = field(default_factory=list)

    def text(self, text: str) -> None:
        """Add paragraphs: blank lines part them, **bold** and `code` are marked up, all else is escaped."""
        self.blocks.append(TextBlock(text))

    def heading(self, text: str) -> None:
        """Add a heading below the section's own."""
        self.blocks.append(HeadingBlock(text))

    def table(
        self, name: str, columns: Sequence[Column], rows: Sequence[Sequence[Any]], caption: str = ""
    ) -> None:
        """Add a table; a cell is a plain value or a `Cell` with a kind of its own. None and NaN print as a
        dash.
        """
        self.report._claim("table", name)
        table = Table.of(name, columns, rows, caption)
        self.blocks.append(TableBlock(table, self.report._count(TableBlock)))

    def error_tables(
        self,
        name: str,
        tables: Mapping[str, ErrorTable],
        caption: str = "",
        *,
        kinds: Mapping[str, str] | None = None,
    ) -> None:
        """Add a table with a row for each predictor. ``kinds`` may say where each predictor's numbers come
        from.
        """
        self.table(name, ERROR_COLUMNS, _error_rows(ERROR_COLUMNS, tables, kinds), caption)

    def point_errors(
        self,
        name: str,
        tables: Mapping[str, PointErrors],
        caption: str = "",
        *,
        kinds: Mapping[str, str] | None = None,
    ) -> None:
        """Add a table of errors in percentage points with a row for each estimator."""
        self.table(name, POINT_COLUMNS, _error_rows(POINT_COLUMNS, tables, kinds), caption)

    def figure(
        self,
        name: str,
        fig: Figure,
        data: Mapping[str, Sequence[Any] | np.ndarray],
        caption: str,
        alt: str,
    ) -> None:
        """Add a figure. ``data`` are the columns it shows, all of one length; ``alt`` says in words what is
        seen.
        """
        where = f"figure {name!r}"
        if not alt.strip():
            raise SmlabError.at(where, "no alternative text", expected="what is seen, in words")
        self.report._claim("figure", name)
        drawing = draw(name, fig, data_csv(where, data))
        self.blocks.append(FigureBlock(drawing, self.report._count(FigureBlock), caption, alt))


class Report:
    """A report under construction: say things, then `write` it.

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
        self.checks: list[Check] = []
        self.sections: list[Section] = []
        self._names: set[tuple[str, str]] = set()

    @property
    def ok(self) -> bool:
        """Whether no check fell short. A check that was not done neither passes nor fails."""
        return not any(check.ok is False for check in self.checks)

    def headline(self, label: str, value: object, *, kind: str | None = None, note: str = "") -> None:
        """Add a key figure to the first screen; ``value`` as it shall be printed, with its unit."""
        self.headlines.append(Headline(label, str(value), check_kind(kind, f"headline {label!r}"), note))

    def check(self, name: str, ok: bool | None, summary: str, section: str | None = None) -> None:
        """Add a verdict; ``ok`` is None for a check that was not done. ``section`` is where its details
        are."""
        self._claim("check", name)
        verdict = plain(ok, f"check {name!r}")
        if verdict is not None and not isinstance(verdict, bool):
            raise SmlabError.at(f"check {name!r}", "unusable verdict", ok, "True, False or None (not done)")
        self.checks.append(Check(name, verdict, summary, section))

    def section(self, name: str, title: str, intro: str = "") -> Section:
        """Add a section and return it, to be filled."""
        self._claim("section", name)
        if name in RESERVED:
            raise SmlabError.at("section", "reserved name", name, f"none of {', '.join(RESERVED)}")
        section = Section(self, name, title, intro)
        self.sections.append(section)
        return section

    def tables(self) -> dict[str, Table]:
        """All tables in their order."""
        return {b.table.name: b.table for s in self.sections for b in s.blocks if isinstance(b, TableBlock)}

    def drawings(self) -> dict[str, Drawing]:
        """All figures in their order."""
        return {
            b.drawing.name: b.drawing for s in self.sections for b in s.blocks if isinstance(b, FigureBlock)
        }

    def as_json(self) -> dict[str, Any]:
        """What the command line prints: verdicts and tables as plain numbers, None for what is not
        defined."""
        return {
            "ok": self.ok,
            "checks": [{"name": c.name, "ok": c.ok, "summary": c.summary} for c in self.checks],
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
        return write_report(Path(out_dir), render(self), self.metrics(), self.drawings(), csvs)

    def _claim(self, sort: str, name: str) -> None:
        check_name(name, sort)
        if (sort, name) in self._names:
            raise SmlabError.at(f"{sort} {name!r}", f"this report has a {sort} of that name already")
        self._names.add((sort, name))

    def _count(self, sort: type) -> int:
        """The number that the next block of this sort gets."""
        return 1 + sum(isinstance(b, sort) for s in self.sections for b in s.blocks)


def _error_rows(
    columns: Sequence[Column],
    tables: Mapping[str, ErrorTable] | Mapping[str, PointErrors],
    kinds: Mapping[str, str] | None,
) -> list[list[Any]]:
    """Rows of (predictor, *errors); the error's keys are the columns' keys."""
    rows: list[list[Any]] = []
    for predictor, errors in tables.items():
        row: dict[str, Plain] = dict(errors.as_row())
        first = Cell(predictor, (kinds or {}).get(predictor))
        rows.append([first, *(row[column.key] for column in columns[1:])])
    return rows

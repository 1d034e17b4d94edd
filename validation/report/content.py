"""What a report is made of: headline numbers, findings, checks, and sections of blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from matplotlib.figure import Figure

from smlab.hw_bench.errors import SmlabError
from smlab.validation.method.baseline import Comparison, Word
from smlab.validation.method.metrics import ErrorTable, PointErrors
from smlab.validation.report.files import Drawing, draw
from smlab.validation.report.tables import Cell, Column, Plain, Table, check_name, data_csv, finite

CheckVerdict = Literal["held", "fell short", "not done"]

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
    """Whether the testbed is right in one respect: ``ok`` is True (held), False (fell short) or None (not
    done)."""

    name: str
    ok: bool | None
    summary: str
    section: str | None

    @property
    def verdict(self) -> CheckVerdict:
        return "not done" if self.ok is None else "held" if self.ok else "fell short"

    def as_row(self) -> dict[str, Any]:
        """The agreed keys of the JSON document."""
        return {"name": self.name, "verdict": self.verdict, "ok": self.ok, "summary": self.summary}


@dataclass(frozen=True)
class Finding:
    """How good a model is at answering one question: its error beside its baseline's, in ``unit``.

    ``evidence`` is the kind of truth that it was held against (one of `KINDS`); ``group`` says what the
    comparison's groups are ("families"), and is empty where each case stands for itself.
    """

    question: str
    model: str
    comparison: Comparison
    unit: str
    evidence: str
    group: str = ""
    section: str | None = None

    @property
    def word(self) -> Word:
        """The verdict, from the paired interval (`smlab.validation.method.baseline`)."""
        return self.comparison.word

    @property
    def baseline(self) -> str:
        """The baseline's name, marked where it was fitted to the cases that judge."""
        return self.comparison.baseline + (
            " (fitted to these cases)" if self.comparison.baseline_fitted else ""
        )

    def as_row(self) -> dict[str, Plain]:
        """The agreed keys of the JSON document, and what the word follows from."""
        c = self.comparison
        return {
            "question": self.question,
            "model": self.model,
            "n": c.n,
            "error": finite(c.error),
            "low": finite(c.low),
            "high": finite(c.high),
            "unit": self.unit,
            "baseline": c.baseline,
            "baseline_error": finite(c.baseline_error),
            "baseline_fitted": c.baseline_fitted,
            "difference": finite(c.difference),
            "difference_low": finite(c.difference_low),
            "difference_high": finite(c.difference_high),
            "groups": c.groups,
            "group": self.group,
            "word": self.word,
            "evidence": self.evidence,
        }


@dataclass(frozen=True)
class TextBlock:
    text: str
    type: str = "text"


@dataclass(frozen=True)
class HeadingBlock:
    text: str
    type: str = "heading"


@dataclass(frozen=True)
class FoldBlock:
    """What follows, to the next fold or the section's end, is folded away under ``title``; in the open if
    None."""

    title: str | None
    type: str = "fold"


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


Block = TextBlock | HeadingBlock | FoldBlock | TableBlock | FigureBlock


@dataclass(frozen=True)
class SectionPart:
    """Successive blocks of a section: open, or folded away under ``title``."""

    title: str | None
    blocks: list[Block]


class Names:
    """The names and numbers that a report has given out: unique within their sort, since they are anchors,
    JSON keys and
    file names."""

    def __init__(self) -> None:
        self._taken: dict[str, set[str]] = {}

    def claim(self, sort: str, name: str) -> int:
        """Take ``name``; the number of names of this sort, with it. `SmlabError` if it is unusable or
        taken."""
        check_name(name, sort)
        taken = self._taken.setdefault(sort, set())
        if name in taken:
            raise SmlabError.at(f"{sort} {name!r}", f"this report has a {sort} of that name already")
        taken.add(name)
        return len(taken)


@dataclass
class Section:
    """A section under construction; ``name`` is its anchor. Make it with `Report.section`."""

    names: Names
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

    def fold(self, title: str) -> None:
        """Fold away what is added from here to the next fold or the section's end; ``title`` says what it
        is."""
        self.blocks.append(FoldBlock(title))

    def unfold(self) -> None:
        """What is added from here on is in the open again."""
        self.blocks.append(FoldBlock(None))

    def table(
        self, name: str, columns: Sequence[Column], rows: Sequence[Sequence[Any]], caption: str = ""
    ) -> None:
        """Add a table; a cell is a plain value or a `Cell` with a kind of its own. None and NaN print as a
        dash.
        """
        table = Table.of(name, columns, rows, caption)
        self.blocks.append(TableBlock(table, self.names.claim("table", name)))

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
        self, name: str, fig: Figure, data: Mapping[str, Sequence[Any] | np.ndarray], caption: str, alt: str
    ) -> None:
        """Add a figure. ``data`` are the columns it shows, all of one length; ``alt`` says in words what is
        seen.
        """
        where = f"figure {name!r}"
        if not alt.strip():
            raise SmlabError.at(where, "no alternative text", expected="what is seen, in words")
        self.drawing(draw(name, fig, data_csv(where, data)), caption, alt)

    def drawing(self, drawing: Drawing, caption: str, alt: str) -> None:
        """Add a figure that has been drawn."""
        self.blocks.append(FigureBlock(drawing, self.names.claim("figure", drawing.name), caption, alt))

    def parts(self) -> list[SectionPart]:
        """The blocks as the page shows them: what is open first, then each fold."""
        found = [SectionPart(None, [])]
        for block in self.blocks:
            if isinstance(block, FoldBlock):
                found.append(SectionPart(block.title, []))
            else:
                found[-1].blocks.append(block)
        return found


@dataclass(frozen=True)
class Contents:
    """All that a report says, for the page to show."""

    title: str
    subtitle: str
    provenance: Mapping[str, Plain]
    headlines: Sequence[Headline]
    findings: Sequence[Finding]
    checks: Sequence[Check]
    sections: Sequence[Section]

    def tables(self) -> dict[str, Table]:
        """All tables in their order, by name."""
        return {b.table.name: b.table for s in self.sections for b in s.blocks if isinstance(b, TableBlock)}

    def drawings(self) -> dict[str, Drawing]:
        """All figures in their order, by name."""
        return {
            b.drawing.name: b.drawing for s in self.sections for b in s.blocks if isinstance(b, FigureBlock)
        }


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

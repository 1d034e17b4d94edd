"""A part of a report that was made before: kept as files, and shown again as it was.

A folder holds ``section.json`` (checks, findings, key figures and sections, and how they were made) and,
for each figure, its SVG and the data behind it as CSV.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.files import write_atomic
from smlab.validation.method.baseline import Comparison
from smlab.validation.report.content import FigureBlock, Finding, FoldBlock, Section, TableBlock
from smlab.validation.report.document import Report
from smlab.validation.report.files import Drawing
from smlab.validation.report.tables import Cell, Column

SECTION = "section.json"

_PLACES = re.compile(r'(?<= [xy]=")-?\d+\.\d{3,}(?=")')
"""Where an SVG puts a marker, in points: a hundredth is far below a pixel."""
_NUMBERS = re.compile(r"(?<![^,\n])-?\d+\.\d+(?:e[-+]\d+)?(?![^,\r\n])")
"""Cells of a CSV that are numbers with a point: six digits are more than a figure shows."""


def _hundredths(place: re.Match[str]) -> str:
    return f"{float(place[0]):.2f}"


def _six_digits(number: re.Match[str]) -> str:
    return f"{float(number[0]):.6g}"


@dataclass(frozen=True)
class StoredProvenance:
    """How a stored part was made: the command, when, with which code, for which GPU and seed."""

    command: str
    date: str
    commit: str
    gpu: str
    seed: int

    def __str__(self) -> str:
        return (
            f"by `{self.command}` on {self.date} at commit {self.commit} (GPU {self.gpu}, seed {self.seed})"
        )


def write_stored(report: Report, made: StoredProvenance, folder: Path) -> None:
    """Keep all that ``report`` says in ``folder``, whose other files are removed."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        path.unlink()
    for name, drawing in report.drawings().items():
        write_atomic(folder / f"{name}.svg", _PLACES.sub(_hundredths, drawing.svg.decode()).encode())
        write_atomic(folder / f"{name}.csv", _NUMBERS.sub(_six_digits, drawing.csv).encode())
    document = {
        "made": asdict(made),
        "headlines": [asdict(h) for h in report.headlines],
        "findings": [asdict(f) for f in report.findings],
        "checks": [asdict(c) for c in report.checks],
        "sections": [
            {"name": s.name, "title": s.title, "intro": s.intro, "blocks": [_block(b) for b in s.blocks]}
            for s in report.sections
        ],
    }
    write_atomic(folder / SECTION, json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def read_provenance(folder: Path) -> StoredProvenance:
    """How the stored part was made."""
    try:
        return StoredProvenance(**_read(folder)["made"])
    except (KeyError, TypeError) as error:
        raise SmlabError(f"{folder}: not a stored part of a report: {error!r}") from error


def add_stored(report: Report, folder: Path, note: str = "") -> None:
    """Say in ``report`` what was kept in ``folder``; ``note`` follows the first section's introduction.

    Raises:
        SmlabError: the files are missing or are not what `write_stored` wrote.
    """
    document = _read(folder)
    try:
        for h in document["headlines"]:
            report.headline(h["label"], h["value"], kind=h["kind"], note=h["note"])
        for f in document["findings"]:
            given = {key: f[key] for key in ("unit", "evidence", "group", "section")}
            report.finding(Finding(f["question"], f["model"], _comparison(f["comparison"]), **given))
        for c in document["checks"]:
            report.check(c["name"], c["ok"], c["summary"], c["section"])
        for s in document["sections"]:
            section = report.section(s["name"], s["title"], f"{s['intro']} {note}".strip())
            note = ""
            for block in s["blocks"]:
                _add(section, block, folder)
    except (KeyError, TypeError, OSError) as error:
        raise SmlabError(f"{folder}: not a stored part of a report: {error!r}") from error


def _read(folder: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((folder / SECTION).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SmlabError(f"{folder / SECTION}: no stored part of a report: {error}") from error
    return found


def _comparison(stored: Mapping[str, Any]) -> Comparison:
    return Comparison(**{f.name: stored[f.name] for f in fields(Comparison)})


def _block(block: Any) -> dict[str, Any]:
    """A block as plain JSON; NaN becomes null, as it is shown alike."""
    if isinstance(block, TableBlock):
        t = block.table
        rows = [[_plain(value) for value in row] for row in t.rows]
        kinds = t.kinds if any(k is not None for row in t.kinds for k in row) else None
        columns = [asdict(c) for c in t.columns]
        return {
            "type": "table",
            "name": t.name,
            "caption": t.caption,
            "columns": columns,
            "rows": rows,
            "kinds": kinds,
        }
    if isinstance(block, FigureBlock):
        d = block.drawing
        size = [d.width_px, d.height_px]
        return {"type": "figure", "name": d.name, "caption": block.caption, "alt": block.alt, "size_px": size}
    return {"type": block.type, "text": block.title if isinstance(block, FoldBlock) else block.text}


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def _add(section: Section, stored: Mapping[str, Any], folder: Path) -> None:
    kind = stored["type"]
    if kind == "table":
        columns = [Column(**c) for c in stored["columns"]]
        kinds = stored["kinds"] or [[None] * len(columns)] * len(stored["rows"])
        rows = [
            [Cell(value, of) for value, of in zip(row, own, strict=True)]
            for row, own in zip(stored["rows"], kinds, strict=True)
        ]
        section.table(stored["name"], columns, rows, stored["caption"])
    elif kind == "figure":
        name = stored["name"]
        svg, csv = (folder / f"{name}.{end}" for end in ("svg", "csv"))
        drawing = Drawing(name, svg.read_bytes(), None, csv.read_text(encoding="utf-8"), *stored["size_px"])
        section.drawing(drawing, stored["caption"], stored["alt"])
    else:
        text = stored["text"]
        say = {"text": section.text, "heading": section.heading, "fold": section.fold}[kind]
        section.unfold() if text is None else say(text)

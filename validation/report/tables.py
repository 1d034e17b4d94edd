"""Tables of a report: what is printed, what goes to JSON and what goes to CSV; and the kinds of numbers.
Nothing assumed is ever shown as measured.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from smlab.hw_bench.csv_cells import guarded
from smlab.hw_bench.errors import SmlabError

Align = Literal["left", "right"]
Plain = str | int | float | bool | None

ABSENT = "–"


@dataclass(frozen=True)
class Cell:
    """A value with a kind of its own, for columns that mix kinds (the constants of a GPU)."""

    value: Any
    kind: str | None = None

    def __post_init__(self) -> None:
        check_kind(self.kind, "table cell")


@dataclass(frozen=True)
class Column:
    """One column: ``label`` and ``unit`` in the header, ``kind`` as its badge, ``digits`` after the decimal
    point.

    Without ``digits`` integers are printed as they are and other numbers with four significant digits.
    Without ``align`` a column of text goes to the left and any other to the right. ``key`` is the name in
    JSON and CSV; by default it is the label in lower case with underscores.
    """

    label: str
    unit: str | None = None
    kind: str | None = None
    digits: int | None = None
    align: Align | None = None
    key: str = ""

    def __post_init__(self) -> None:
        check_kind(self.kind, f"column {self.label!r}")
        if not self.key:
            key = re.sub(r"\W+", "_", self.label.lower()).strip("_")
            object.__setattr__(self, "key", key or "column")


@dataclass(frozen=True)
class Printed:
    """A cell as the page shows it."""

    text: str
    kind: str | None


@dataclass(frozen=True)
class Table:
    """A checked table; ``rows`` holds plain values, ``kinds`` each cell's own kind, both of shape (rows,
    columns).
    """

    name: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Plain, ...], ...]
    kinds: tuple[tuple[str | None, ...], ...]
    caption: str

    @classmethod
    def of(cls, name: str, columns: Sequence[Column], rows: Iterable[Sequence[Any]], caption: str) -> Table:
        where = f"table {name!r}"
        keys = [c.key for c in columns]
        if not keys:
            raise SmlabError.at(where, "no columns")
        twice = sorted({k for k in keys if keys.count(k) > 1})
        if twice:
            raise SmlabError.at(
                where, "two columns with one key", twice[0], "a key of its own for each column"
            )
        values, kinds = [], []
        for number, row in enumerate(rows):
            if len(row) != len(columns):
                raise SmlabError.at(
                    f"{where}, row {number}", "wrong number of cells", len(row), f"{len(columns)}"
                )
            cells = [c if isinstance(c, Cell) else Cell(c) for c in row]
            values.append(tuple(plain(c.value, f"{where}, row {number}") for c in cells))
            kinds.append(tuple(c.kind for c in cells))
        return cls(name, tuple(columns), tuple(values), tuple(kinds), caption)

    def aligned(self) -> list[Align]:
        """The alignment of each column."""
        return [c.align or ("left" if self._is_text(i) else "right") for i, c in enumerate(self.columns)]

    def printed(self) -> list[list[Printed]]:
        """The cells as the page shows them."""
        return [
            [
                Printed(show(value, column.digits), kind)
                for value, kind, column in zip(row, kinds, self.columns, strict=True)
            ]
            for row, kinds in zip(self.rows, self.kinds, strict=True)
        ]

    def mixed(self) -> list[bool]:
        """Which columns have cells with kinds of their own."""
        return [any(kinds[i] is not None for kinds in self.kinds) for i in range(len(self.columns))]

    def as_rows(self) -> list[dict[str, Plain]]:
        """One dict a row; a column that mixes kinds is followed by ``<key>_kind``."""
        mixed = self.mixed()
        out: list[dict[str, Plain]] = []
        for row, kinds in zip(self.rows, self.kinds, strict=True):
            line: dict[str, Plain] = {}
            for i, column in enumerate(self.columns):
                line[column.key] = row[i]
                if mixed[i]:
                    line[f"{column.key}_kind"] = kinds[i] or column.kind
            out.append(line)
        return out

    def as_csv(self) -> str:
        """The table with its keys as header, at full precision."""
        rows = self.as_rows()
        header = list(rows[0]) if rows else [c.key for c in self.columns]
        return csv_text(header, ([row[key] for key in header] for row in rows))

    def _is_text(self, i: int) -> bool:
        values = [row[i] for row in self.rows if row[i] is not None]
        return any(isinstance(v, str) for v in values) or not values


def plain(value: Any, where: str) -> Plain:
    """``value`` as a Python string, number, bool or None; NumPy scalars are unpacked."""
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        value = value.item()
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise SmlabError.at(where, "not a plain value", value, "a string, a number, a bool or None")


def finite(value: Plain) -> Plain:
    """``value`` for JSON, which knows neither NaN nor infinity: None in their place."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def show(value: Plain, digits: int | None = None) -> str:
    """``value`` as it is printed; None and NaN are a dash, minus signs are real ones."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ABSENT
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and math.isinf(value):
        text = "inf" if value > 0 else "-inf"
        return text.replace("inf", "∞").replace("-", "−")
    if digits is not None:
        text = f"{value:,.{digits}f}"
    elif isinstance(value, int):
        text = f"{value:,d}"
    else:
        text = _significant(value)
    return text.replace(",", "\u2009").replace("-", "−")


def csv_text(header: Sequence[str], rows: Iterable[Sequence[Plain]]) -> str:
    """Rows as CSV; floats with all their digits, None as an empty field."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    for row in rows:
        writer.writerow(["" if v is None else repr(v) if isinstance(v, float) else guarded(v) for v in row])
    return out.getvalue()


def data_csv(where: str, data: Mapping[str, Sequence[Any] | np.ndarray]) -> str:
    """The columns behind a figure as CSV; all of one length (write one row an observation)."""
    if not data:
        raise SmlabError.at(where, "no data", expected="the columns that the figure shows")
    columns = {key: list(np.asarray(values, dtype=object).ravel()) for key, values in data.items()}
    lengths = {key: len(values) for key, values in columns.items()}
    if len(set(lengths.values())) > 1:
        raise SmlabError.at(where, "columns of unequal length", lengths, "one row an observation")
    rows = [[plain(v, where) for v in row] for row in zip(*columns.values(), strict=True)]
    return csv_text(list(columns), rows)


def _significant(value: float) -> str:
    """Four significant digits, without an exponent where the number is of ordinary size."""
    if value == 0:
        return "0"
    power = math.floor(math.log10(abs(value)))
    if not -4 <= power < 9:
        return f"{value:.3e}"
    return f"{value:,.{max(0, 3 - power)}f}"


KINDS: dict[str, str] = {
    "simulated": "counted in a run of the simulator, where the truth is known exactly",
    "modelled": "computed by a closed-form model",
    "published": "printed in a paper, a manual or slides by others; the source is named",
    "measured": "measured on hardware, with this project's benchmarks",
    "spec": "from the vendor's specification",
    "calibrated": "fitted to measurements or to published numbers",
    "assumed": "neither known nor fitted; a choice, with its effect shown where it matters",
}
"""Every kind of number that a report may show, with its meaning for the legend."""

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,79}")


def check_kind(kind: str | None, where: str) -> str | None:
    """``kind`` itself where it is one of `KINDS` or None; `SmlabError` otherwise."""
    if kind is not None and kind not in KINDS:
        raise SmlabError.at(where, "unknown kind of number", kind, ", ".join(KINDS))
    return kind


def check_name(name: str, what: str) -> str:
    """``name`` itself where it can serve as anchor, JSON key and file name; `SmlabError` otherwise."""
    if not _NAME.fullmatch(name):
        expected = (
            "lower-case letters, digits, dots, dashes and underscores, a letter or digit first, at most 80"
        )
        raise SmlabError.at(what, "unusable name", name, expected)
    return name

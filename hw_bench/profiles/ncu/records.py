"""A table's text split into columns, and its numbers read."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.csv_cells import check_size
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.profiles.profile import at_row
from smlab.hw_bench.profiles.source import Segment


@dataclass(frozen=True)
class TextColumn:
    """One column; record i holds ``texts[codes[i]]``."""

    texts: list[str]
    codes: NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, record: int) -> str:
        return self.texts[int(self.codes[record])]

    def empty(self) -> NDArray[np.bool_]:
        """Which records hold nothing."""
        return np.array([not t.strip() for t in self.texts], dtype=bool)[self.codes]


def split(path: str, segment: Segment, plain: Collection[int] = ()) -> list[TextColumn]:
    """The columns below the header; those in ``plain`` hold mostly different texts.

    A record with too few cells is filled with empty ones; `SmlabError` with the row for one with too many,
    for a quote that is not closed, and for text that is not UTF-8.
    """
    import pandas as pd

    rows = segment.data.count(b"\n", segment.start)
    check_size(at_row(path, segment.header_row), len(segment.cells), rows)
    stream = io.BytesIO(segment.data)
    stream.seek(segment.start)
    names = list(range(len(segment.cells)))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = pd.read_csv(
                stream,
                header=0,
                names=names,
                index_col=False,
                dtype={i: (object if i in plain else "category") for i in names},
                na_filter=False,
                skip_blank_lines=False,
            )
    except UnicodeDecodeError as error:
        raise SmlabError.at(path, f"not UTF-8 text: {error.reason}") from error
    except pd.errors.ParserWarning as error:
        place = at_row(path, segment.header_row)
        raise SmlabError.at(
            place, "the rows have more cells than the header", expected=f"{len(names)}"
        ) from error
    except (pd.errors.ParserError, pd.errors.EmptyDataError, ValueError, OverflowError) as error:
        raise _told(path, segment, str(error)) from error
    columns = []
    for i in names:
        series = frame[i]
        if i in plain:
            texts = series.tolist()
            columns.append(TextColumn(texts, np.arange(len(texts), dtype=np.intp)))
        else:
            codes = series.cat.codes.to_numpy().astype(np.intp)
            columns.append(TextColumn([str(t) for t in series.cat.categories], codes))
    return columns


def _told(path: str, segment: Segment, message: str) -> SmlabError:
    """The parser's error as ours, with the file's row."""
    width = len(segment.cells)
    many = re.search(r"Expected \d+ fields in line (\d+), saw (\d+)", message)
    if many:  # the header is its line 1
        row = segment.row(int(many[1]) - 2)
        return SmlabError.at(at_row(path, row), "too many cells", int(many[2]), f"{width}, as in the header")
    cut = re.search(r"EOF inside string starting at row (\d+)", message)
    if cut:  # the header is its row 0
        row = segment.row(int(cut[1]) - 1)
        return SmlabError.at(at_row(path, row), "truncated: a quote is not closed", expected="the whole file")
    return SmlabError(
        f"{at_row(path, segment.header_row)}: cannot be read as CSV: {' '.join(message.split())}"
    )


_GROUPED = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d*)?(?:[eE][+-]?\d+)?")
_COMMA_DECIMAL = re.compile(r"[+-]?\d+(?:\.\d{3})*,\d+")


class CommaDecimalError(ValueError):
    """A number with a decimal comma, whose thousands and decimals cannot be told apart in general."""


def number(text: str) -> float:
    """The number in ``text``, with or without ``,`` between thousands; NaN where it is none."""
    text = text.strip()
    if "," in text:
        if not _GROUPED.fullmatch(text):
            if _COMMA_DECIMAL.fullmatch(text):
                raise CommaDecimalError(text)
            return np.nan
        text = text.replace(",", "")
    if "_" in text:
        return np.nan
    try:
        value = float(text)
    except ValueError:
        return np.nan
    return value if np.isfinite(value) else np.nan


def numbers(texts: Iterable[str]) -> NDArray[np.float64]:
    """`number` of each text. (pandas reads thousands or refuses them, for a whole file; a decimal comma it
    takes for thousands.)"""
    return np.array([_fast(t) for t in texts], dtype=np.float64)


def _fast(text: str) -> float:
    if text.isdecimal() and text.isascii():
        return float(text)
    return number(text)


def column_numbers(path: str, segment: Segment, column: TextColumn) -> NDArray[np.float64]:
    """The column's numbers by record, NaN where there is none; `SmlabError` for a decimal comma."""
    try:
        values = numbers(column.texts)
    except CommaDecimalError as error:
        code = column.texts.index(next(t for t in column.texts if t.strip() == str(error)))
        record = int(np.flatnonzero(column.codes == code)[0])
        expected = "',' between thousands and '.' before decimals: run the profiler with LC_ALL=C"
        place = at_row(path, segment.row(record))
        raise SmlabError.at(place, "a number with a decimal comma", str(error), expected) from error
    return values[column.codes] if len(values) else np.empty(0)

"""A profile's bytes: opened, unpacked, and refused where they cannot be text."""

from __future__ import annotations

import codecs
import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.inputs import check_lines, read_bytes

_BINARIES: Final = (
    (
        b"SQLite format 3\0",
        "a profiler's database (SQLite)",
        "its counters as CSV: nvprof --csv --print-gpu-trace --import-profile FILE",
    ),
    (b"PK\x03\x04", "a zip archive", "the CSV inside it"),
    (b"\x7fELF", "an executable", "the CSV that a profiler wrote about it"),
)
_READABLE: Final = "CSV of ncu or nvprof (or .gz of it), a .ncu-rep report, or a counter table of smlab"

NCU_REPORT: Final = b"NVR\0"
"""The first bytes of a .ncu-rep file."""


@dataclass(frozen=True)
class Segment:
    """A table inside a file: the header's cells, and its text from the header's line on.

    ``start`` is where the header lies in ``data``; ``header_row`` is its line in the file (1 = first).
    ``dropped`` (sorted) counts, for each line taken out of the body, the body's lines that are left before
    it.
    """

    cells: tuple[str, ...]
    data: bytes
    start: int
    header_row: int
    dropped: NDArray[np.int64]

    def rows(self, records: NDArray[np.int64]) -> NDArray[np.int64]:
        """The file's lines of ``records`` (0 = the first below the header)."""
        return self.header_row + 1 + records + np.searchsorted(self.dropped, records, side="right")

    def row(self, record: int) -> int:
        return int(self.rows(np.array([record], dtype=np.int64))[0])


def load(path: Path) -> bytes:
    """The file's bytes, unpacked if gzip and UTF-8 if text; `SmlabError` for what cannot be a profile."""
    where = str(path)
    data = read_bytes(path, f"a file: {_READABLE}")
    if not data[:4096].strip() and not data.strip():
        raise SmlabError.at(where, "is empty", expected=_READABLE)
    if data.startswith(NCU_REPORT):
        return data
    data = _utf8(where, data)
    for magic, what, right in _BINARIES:
        if data.startswith(magic):
            raise SmlabError.at(where, f"is {what}", expected=right)
    zero = data.find(b"\0")
    if zero >= 0:
        row = data.count(b"\n", 0, zero) + 1
        raise SmlabError.at(f"{where}: row {row}", "is a binary file (a zero byte)", expected=_READABLE)
    check_lines(where, data)
    return data


def _utf8(where: str, data: bytes) -> bytes:
    """Without a byte order mark; UTF-16, which PowerShell's ``>`` writes, as UTF-8."""
    if data.startswith(codecs.BOM_UTF8):
        return data[len(codecs.BOM_UTF8) :]
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        try:
            return data.decode("utf-16").encode()
        except UnicodeError as error:
            raise SmlabError.at(where, "truncated or damaged UTF-16 text", expected=_READABLE) from error
    return data


def split_cells(line: bytes) -> tuple[str, ...]:
    """The cells of one CSV line."""
    text = line.decode("utf-8", "replace")
    try:
        return tuple(next(csv.reader([text]), []))
    except csv.Error:
        return (text,)


def _line(data: bytes, start: int) -> tuple[bytes, int]:
    """The line at ``start`` with no line end, and where the next one starts."""
    end = data.find(b"\n", start)
    end = len(data) if end < 0 else end
    return data[start:end].rstrip(b"\r"), end + 1


def segments(data: bytes, start: int, header_row: int) -> tuple[list[Segment], list[tuple[int, str]]]:
    """The tables from the header at ``start`` on, and the profiler's messages (``==...``) between their rows,
    as (row, text).

    A new table starts at each line whose first cell is that of the first header.
    """
    header, _ = _line(data, start)
    first = header.split(b",")[0] + b","
    marks: list[tuple[int, bool]] = []
    for marker, is_header in ((b"\n==", False), (b"\n" + first, True)):
        at = data.find(marker, start)
        while at >= 0:
            marks.append((at + 1, is_header))
            at = data.find(marker, at + 1)
    marks.sort()
    if not marks:
        return [Segment(split_cells(header), data, start, header_row, np.empty(0, dtype=np.int64))], []

    tables: list[Segment] = []
    messages: list[tuple[int, str]] = []
    pieces: list[bytes] = []
    dropped: list[int] = []
    lines = -1  # of the present body so far; the header is not counted
    row, segment_row, begin = header_row, header_row, start

    def close() -> None:
        text = b"".join(pieces)
        head, _ = _line(text, 0)
        tables.append(Segment(split_cells(head), text, 0, segment_row, np.array(dropped, dtype=np.int64)))

    for at, is_header in [*marks, (len(data), True)]:
        pieces.append(data[begin:at])
        count = data.count(b"\n", begin, at)
        lines += count
        row += count
        if is_header:
            close()
            pieces, dropped, lines, segment_row, begin = [], [], -1, row, at
        else:
            text, begin = _line(data, at)
            begin = min(begin, len(data))
            messages.append((row, text.decode("utf-8", "replace")))
            dropped.append(lines)
            row += 1
    return tables, messages

"""CSV files: how large they may be, and text in them that a spreadsheet would take for a formula, such as
`=cmd()`. For all rooms."""

from __future__ import annotations

import re
from typing import Final, TypeVar

from smlab.hw_bench.errors import SmlabError

Cell = TypeVar("Cell")

FORMULA = re.compile(r"'*[=+\-@\t\r]")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


MAX_COLUMNS: Final = 2**12
"""Of a table; the full set of Nsight Compute has some 1,000, and a column takes a millisecond."""
MAX_CELLS: Final = 2**24
"""Of a table that is read cell by cell; one takes about 60 bytes of memory."""
MAX_COLUMN_CELLS: Final = 2**27
"""Of a table that is read by columns; a cell takes 8 bytes."""


def check_size(where: str, columns: int, rows: int) -> None:
    """`SmlabError` for a table of more than `MAX_COLUMNS` or `MAX_COLUMN_CELLS`."""
    if columns > MAX_COLUMNS:
        raise SmlabError.at(where, "too many columns", columns, f"at most {MAX_COLUMNS}")
    if columns * rows > MAX_COLUMN_CELLS:
        what = f"{rows} rows of {columns} columns"
        raise SmlabError.at(where, "is too large", what, f"at most {MAX_COLUMN_CELLS} cells")


def check_cells(where: str, content: bytes) -> None:
    """`SmlabError` for a text of more than `MAX_CELLS` cells, or of more than `MAX_COLUMNS` in its first
    line."""
    check_size(where, content.split(b"\n", 1)[0].count(b",") + 1, 0)
    cells = content.count(b",") + content.count(b"\n")
    if cells > MAX_CELLS:
        raise SmlabError.at(where, "is too large", f"{cells} cells", f"at most {MAX_CELLS}")


def guarded(cell: Cell) -> Cell | str:
    """A cell to write: text that begins like a formula, and is no number, gets an apostrophe before it, as
    spreadsheets have it; numbers stay what they are."""
    if isinstance(cell, str) and FORMULA.match(cell) and not NUMBER.fullmatch(cell):
        return f"'{cell}"
    return cell


def unguarded(text: str) -> str:
    """What `guarded` was given."""
    return text[1:] if text[:1] == "'" and FORMULA.match(text) else text

"""Text in CSV files that a spreadsheet would take for a formula, such as `=cmd()`. For all rooms."""

from __future__ import annotations

import re
from typing import TypeVar

Cell = TypeVar("Cell")

FORMULA = re.compile(r"'*[=+\-@\t\r]")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def guarded(cell: Cell) -> Cell | str:
    """A cell to write: text that begins like a formula, and is no number, gets an apostrophe before it, as
    spreadsheets have it; numbers stay what they are."""
    if isinstance(cell, str) and FORMULA.match(cell) and not NUMBER.fullmatch(cell):
        return f"'{cell}"
    return cell


def unguarded(text: str) -> str:
    """What `guarded` was given."""
    return text[1:] if text[:1] == "'" and FORMULA.match(text) else text

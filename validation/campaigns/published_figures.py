"""Published figures in a table of a campaign."""

from __future__ import annotations

import csv
from pathlib import Path


def table_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file, in which lines that begin with ``#`` say where the figures are from."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))

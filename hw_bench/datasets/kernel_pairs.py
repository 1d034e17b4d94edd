"""Reader of a file that says which kernels of two GPUs are one: CSV with the columns ``source`` and
``target``."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from smlab.hw_bench.csv_cells import check_cells
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.inputs import check_lines, read_bytes

_HEADER = ("source", "target")


def read_kernel_pairs(path: Path) -> tuple[tuple[str, str], ...]:
    """The names of each pair, or what they begin with, in the file's order.

    Raises:
        SmlabError: a file that is not such a table; a name that stands twice.
    """
    content = read_bytes(path)
    check_lines(str(path), content)
    check_cells(str(path), content)
    try:
        rows = list(csv.reader(io.StringIO(content.decode("utf-8"), newline="")))
    except (UnicodeDecodeError, csv.Error) as error:
        raise SmlabError.at(str(path), f"cannot be read as CSV: {error}") from error
    if not rows or tuple(cell.strip() for cell in rows[0]) != _HEADER:
        raise SmlabError.at(f"{path}: line 1", "not the header", rows[0] if rows else "", "source,target")
    pairs: list[tuple[str, str]] = []
    for line, row in enumerate(rows[1:], start=2):
        if not row:
            continue
        names = tuple(cell.strip() for cell in row)
        if len(names) != 2 or not all(names):
            raise SmlabError.at(f"{path}: line {line}", "not a pair of names", ",".join(row), "two cells")
        for side, name in enumerate(names):
            if name in (pair[side] for pair in pairs):
                raise SmlabError.at(f"{path}: line {line}: {_HEADER[side]}", "stands twice", name)
        pairs.append((names[0], names[1]))
    if not pairs:
        raise SmlabError.at(str(path), "no pair in it", expected="a line for each kernel with another name")
    return tuple(pairs)

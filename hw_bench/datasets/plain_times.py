"""Reader of the plainest table of times: CSV with the columns ``kernel``, ``seconds`` and, where there are
any, ``config`` and ``launch``; ``blocks``, ``threads_per_block``, ``registers_per_thread`` and
``shared_bytes_per_block`` where they are known.

For whoever times kernels with tools of their own. The unit is in the column's name: ``milliseconds``,
``microseconds`` and ``nanoseconds`` do as well.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Final

import numpy as np

from smlab.hw_bench.csv_cells import check_cells
from smlab.hw_bench.datasets.tuning import SECONDS, TuningTimes, time_of
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.profiles.source import load

LAUNCH: Final = ("blocks", "threads_per_block", "registers_per_thread", "shared_bytes_per_block")
"""Optional columns that tell a launch; one value for all rows of a kernel and configuration."""

COLUMNS: Final = ("kernel", "config", "launch", "device", *LAUNCH, "seconds")


def is_plain(data: bytes) -> bool:
    """Whether a file's bytes begin with such a header."""
    cells = _cells(data.split(b"\n", 1)[0].decode("utf-8", "replace"))
    return "kernel" in cells and any(unit in cells for unit in SECONDS)


def read_plain(path: Path) -> TuningTimes:
    """A row for each kernel and configuration, its launches in the order of ``launch`` (or of the file).

    Raises:
        SmlabError: file, row and column of whatever is missing, unknown, or no time.
    """
    return parse_plain(path, load(path))


def parse_plain(path: Path, data: bytes) -> TuningTimes:
    """As `read_plain`, of bytes that have been read."""
    check_cells(str(path), data)
    lines = csv.reader(io.StringIO(data.decode("utf-8", "replace"), newline=""))
    try:
        header = [cell.strip().lower() for cell in next(lines, [])]
        unit = [name for name in header if name in SECONDS]
        expected = "kernel,config,launch,seconds"
        if "kernel" not in header or len(unit) != 1:
            raise SmlabError.at(f"{path}: row 1", "not a table of times", ",".join(header), expected)
        unknown = [name for name in header if name not in COLUMNS and name not in SECONDS]
        if unknown or len(set(header)) < len(header):
            raise SmlabError.at(f"{path}: row 1", "columns that are not known", ",".join(header), expected)
        groups: dict[tuple[str, str], list[tuple[float, float]]] = {}
        devices: dict[str, None] = {}
        shapes: dict[tuple[str, str], tuple[float, ...]] = {}
        for number, row in enumerate(lines, start=2):
            if not row:
                continue
            where = f"{path}: row {number}"
            if len(row) != len(header):
                raise SmlabError.at(where, "not a whole row", f"{len(row)} cells", f"{len(header)}")
            cells = dict(zip(header, row, strict=True))
            seconds = time_of(f"{where}: {unit[0]}", _number(cells[unit[0]]), SECONDS[unit[0]])
            launch = _launch(where, cells["launch"]) if "launch" in cells else float(number)
            key = (cells["kernel"], cells.get("config", ""))
            launches = groups.setdefault(key, [])
            if any(launch == other for other, _ in launches[-1:]):
                raise SmlabError.at(f"{where}: launch", "stands twice", cells["launch"])
            launches.append((launch, seconds))
            shape = tuple(_size(where, name, cells.get(name, "")) for name in LAUNCH)
            if str(shapes.setdefault(key, shape)) != str(shape):
                raise SmlabError.at(where, "another launch than before", str(shape), str(shapes[key]))
            if "device" in cells:
                devices.setdefault(cells["device"])
    except csv.Error as error:
        raise SmlabError.at(f"{path}: line {lines.line_num}", f"is not CSV: {error}") from error
    if not groups:
        raise SmlabError.at(str(path), "no time in it", expected=expected)
    if len(devices) > 1:
        raise SmlabError.at(str(path), "times of several GPUs", " and ".join(devices), "one GPU a file")
    runs = tuple(tuple(seconds for _, seconds in sorted(launches)) for launches in groups.values())
    kernel = np.empty(len(groups), dtype=object)
    kernel[:] = [name for name, _ in groups]
    columns = dict(zip(LAUNCH, np.array([shapes[key] for key in groups]).T, strict=True))
    return TuningTimes(
        path=path,
        device=next(iter(devices), ""),
        parameters=("config",),
        kernel=kernel,
        config=tuple((config,) for _, config in groups),
        seconds=np.array([np.median(launches) for launches in runs]),
        runs=runs,
        **columns,
        local_bytes_per_thread=np.full(len(groups), np.nan),
        counters=None,
        failed=(),
    )


def _cells(line: str) -> list[str]:
    return [cell.strip().strip('"').lower() for cell in line.lstrip("\ufeff").split(",")]


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _size(where: str, name: str, text: str) -> float:
    """A number of a launch; NaN for an empty cell."""
    if not text.strip():
        return float("nan")
    value = _number(text)
    least = 1 if name in ("blocks", "threads_per_block") else 0
    if isinstance(value, str) or not least <= value < 2**40 or value != int(value):
        raise SmlabError.at(f"{where}: {name}", "not a size", text, f"a whole number of at least {least}")
    return value


def _launch(where: str, text: str) -> float:
    value = _number(text)
    if isinstance(value, str) or not np.isfinite(value):
        raise SmlabError.at(
            f"{where}: launch", "not a number", text, "0, 1, 2, ... in the order of the launches"
        )
    return value

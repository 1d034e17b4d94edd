"""Reader of Nsight Systems' trace of GPU work: ``nsys stats --report cuda_gpu_trace --format csv``.

A row is one kernel, copy or memset, in the order in which they ran; only kernels have a grid. Copies and
memsets count in the whole application alone (`smlab.hw_bench.datasets.tuning.Application`). The header's
units stand in parentheses, and its columns differ between releases (`GreenCtx` is newer; `Throughput` was
in ``MBps``). nsys prints remarks before the table, and other reports may follow it.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from smlab.hw_bench.csv_cells import check_cells
from smlab.hw_bench.datasets.tuning import Application, TuningTimes, time_of
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.profiles.source import load

_HEADER: Final = re.compile(rb"^(?:\"?Start \(|\"?Start\b).*Duration.*Name\"?\s*$", re.MULTILINE)
_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0}
_MEMORY_BYTES: Final = {"b": 1, "bytes": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9}
_INDEX: Final = re.compile(r"\s*\(\d+\)$")


def is_nsys(data: bytes) -> bool:
    """Whether a file's bytes hold such a trace."""
    return _HEADER.search(data) is not None


def read_nsys(path: Path) -> TuningTimes:
    """The kernels of a trace: a row for each kernel, grid, block and shared memory, its launches in order.

    Raises: SmlabError: file, row and column of whatever is missing or cannot be; a trace of several
    devices.
    """
    return parse_nsys(path, load(path))


def parse_nsys(path: Path, data: bytes) -> TuningTimes:
    """As `read_nsys`, of bytes that have been read."""
    header_match = _HEADER.search(data)
    if header_match is None:
        expected = "the CSV of nsys stats --report cuda_gpu_trace"
        raise SmlabError.at(str(path), "no trace of GPU work in it", expected=expected)
    check_cells(str(path), data[header_match.start() :])
    first = data[: header_match.start()].count(b"\n") + 1
    lines = csv.reader(io.StringIO(data[header_match.start() :].decode("utf-8", "replace"), newline=""))
    try:
        header = next(lines)
        columns, units = _columns(path, first, header)
        groups: dict[tuple[str, ...], list[tuple[float, float]]] = {}
        facts: dict[tuple[str, ...], tuple[float, float, float, float]] = {}
        devices: dict[str, int] = {}
        others: list[tuple[str, float, float]] = []
        for where, row in _rows(path, first, lines, len(header)):
            cells = {name: row[at] for name, at in columns.items()}
            start = _number(where, "Start", cells["Start"]) * units["Start"]
            if not cells["GrdX"].strip():  # a copy or a memset
                duration = _number(where, "Duration", cells["Duration"]) * units["Duration"]
                others.append((cells["Name"], start, duration))
                continue
            devices.setdefault(_INDEX.sub("", cells["Device"]), len(devices))
            grid, block = _shape(where, cells, "Grd"), _shape(where, cells, "Blk")
            shared = sum(_number(where, name, cells[name]) * units[name] for name in ("StcSMem", "DymSMem"))
            key = (cells["Name"], _text(grid), _text(block), f"{shared:.0f}")
            seconds = time_of(f"{where}: Duration", _number(where, "Duration", cells["Duration"]), 1.0)
            groups.setdefault(key, []).append((start, seconds * units["Duration"]))
            registers = _number(where, "Reg/Trd", cells["Reg/Trd"])
            facts[key] = (float(np.prod(grid)), float(np.prod(block)), registers, shared)
    except csv.Error as error:
        raise SmlabError.at(f"{path}: line {first + lines.line_num - 1}", f"is not CSV: {error}") from error
    if not groups:
        raise SmlabError.at(str(path), "no kernel in the trace", "copies and memsets only")
    if len(devices) > 1:
        raise SmlabError.at(str(path), "a trace of several GPUs", " and ".join(devices), "one GPU a file")
    return _times(path, next(iter(devices)), groups, facts, _application(groups, others))


def _application(
    groups: dict[tuple[str, ...], list[tuple[float, float]]], others: list[tuple[str, float, float]]
) -> Application:
    """The whole of a trace: sums by kind of work, and the time that no work covers."""
    kernels = [launch for launches in groups.values() for launch in launches]
    work = np.array(sorted([*kernels, *((start, seconds) for _, start, seconds in others)]))
    ends = np.maximum.accumulate(work.sum(axis=1))
    idle = float(np.maximum(work[1:, 0] - ends[:-1], 0).sum())
    memsets = [seconds for name, _, seconds in others if "memset" in name.lower()]
    copies = sum(seconds for _, _, seconds in others) - sum(memsets)
    return Application(
        span_s=float(ends[-1] - work[0, 0]),
        kernels_s=float(sum(seconds for _, seconds in kernels)),
        copies_s=float(copies),
        memsets_s=float(sum(memsets)),
        gaps_s=idle,
        launches=len(kernels),
        copies=len(others),
    )


def _columns(path: Path, row: int, header: list[str]) -> tuple[dict[str, int], dict[str, float]]:
    """Where each column stands that is read, by its name without unit, and its unit in base units."""
    at: dict[str, int] = {}
    units: dict[str, float] = {}
    for index, cell in enumerate(header):
        name, _, unit = cell.strip().partition(" (")
        at[name] = index
        known = {**_UNITS, **_MEMORY_BYTES}
        word = unit.rstrip(")").lower()
        if unit and name in {"Start", "Duration", "StcSMem", "DymSMem"}:
            if word not in known:
                where = f"{path}: line {row}: {name}"
                raise SmlabError.at(where, "unknown unit", unit.rstrip(")"), "one of " + ", ".join(known))
            units[name] = known[word]
    needed = ("Start", "Duration", "GrdX", "GrdY", "GrdZ", "BlkX", "BlkY", "BlkZ", "Reg/Trd", "StcSMem")
    for name in (*needed, "DymSMem", "Device", "Name"):
        if name not in at:
            raise SmlabError.at(f"{path}: line {row}", "a column is missing", name, "nsys's own header")
    for name in ("Start", "Duration"):
        if name not in units:
            raise SmlabError.at(
                f"{path}: line {row}: {name}", "has no unit", header[at[name]], f"{name} (ns)"
            )
    for name in ("StcSMem", "DymSMem"):
        units.setdefault(name, 1.0)
    return {name: at[name] for name in (*needed, "DymSMem", "Device", "Name")}, units


def _rows(path: Path, first: int, lines: Iterator[list[str]], width: int) -> Iterator[tuple[str, list[str]]]:
    """The table's rows with their place; it ends at an empty line."""
    for number, row in enumerate(lines, start=first + 1):
        if not row:
            return
        where = f"{path}: line {number}"
        if len(row) != width:
            raise SmlabError.at(where, "not a whole row", f"{len(row)} cells", f"{width}, as in the header")
        yield where, row


def _number(where: str, name: str, text: str) -> float:
    try:
        value = float(text.replace(",", "") or 0)
    except ValueError:
        value = float("nan")
    if not (np.isfinite(value) and value >= 0):
        raise SmlabError.at(f"{where}: {name}", "not a number", text, "0 or more")
    return value


def _shape(where: str, cells: dict[str, str], which: str) -> tuple[int, int, int]:
    values = [_number(where, which + axis, cells[which + axis]) for axis in "XYZ"]
    for axis, value in zip("XYZ", values, strict=True):
        if value < 1 or value != int(value) or value > 2**31:
            raise SmlabError.at(
                f"{where}: {which}{axis}", "not a size of a launch", value, "1 or more, whole"
            )
    return int(values[0]), int(values[1]), int(values[2])


def _text(shape: tuple[int, int, int]) -> str:
    return "x".join(str(size) for size in shape)


def _times(
    path: Path,
    device: str,
    groups: dict[tuple[str, ...], list[tuple[float, float]]],
    facts: dict[tuple[str, ...], tuple[float, float, float, float]],
    application: Application,
) -> TuningTimes:
    starts = tuple(tuple(start for start, _ in sorted(launches)) for launches in groups.values())
    runs = tuple(tuple(seconds for _, seconds in sorted(launches)) for launches in groups.values())
    kernel = np.empty(len(groups), dtype=object)
    kernel[:] = [key[0] for key in groups]
    shapes = np.array([facts[key] for key in groups], dtype=np.float64)
    return TuningTimes(
        path=path,
        device=device,
        parameters=("grid", "block", "shared_bytes"),
        kernel=kernel,
        config=tuple(key[1:] for key in groups),
        seconds=np.array([np.median(launches) for launches in runs]),
        runs=runs,
        blocks=shapes[:, 0],
        threads_per_block=shapes[:, 1],
        registers_per_thread=shapes[:, 2],
        shared_bytes_per_block=shapes[:, 3],
        local_bytes_per_thread=np.full(len(groups), np.nan),
        counters=None,
        failed=(),
        starts_s=starts,
        application=application,
    )

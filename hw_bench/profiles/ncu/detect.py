"""Which profiler's table a file holds: found by its header line, whatever is printed before it."""

from __future__ import annotations

import re
from typing import Final, Literal

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.profiles.counter_table import COLUMNS, GPU_COLUMNS
from smlab.hw_bench.profiles.source import split_cells

Kind = Literal["ncu-long", "ncu-wide", "nvprof-summary", "nvprof-trace", "counter-table"]

_COUNTER = re.compile(
    r"(?:device|dram|fbpa|fe|gpc|gpu|gr|group|idc|inst|l1tex|launch|lts|ltc|mcc|memory|numa|nvl\w*|pcie|pmsampling|profiler"
    r"|sass|sm|smsp|source|sys|thread|tpc|derived|breakdown)__\w[\w.:]*"
)

_EXPORT: Final = "the kernel's counters, exported by: ncu --import REPORT.ncu-rep --page raw --csv"
_REFUSED: Final = {
    "source": ("a per-source-line export of ncu's source page, with no counter of a whole kernel", _EXPORT),
    "pcsamp": (
        "a per-instruction export (program counter samples), with no counter of a whole kernel",
        _EXPORT,
    ),
    "api": (
        "nvprof's trace of CUDA calls, which holds no counters",
        "nvprof --csv --print-gpu-trace, or --events and --metrics with --csv",
    ),
    "times": (
        "nvprof's summary of times, which holds no counters",
        "nvprof --csv --print-gpu-trace, or --events and --metrics with --csv",
    ),
    "long-text": ("ncu's text output", "the same with ncu --csv"),
    "nvprof-text": ("nvprof's text output", "the same with nvprof --csv"),
}


MAX_LINES_BEFORE: Final = 1_000_000
"""The table's header comes within so many lines; the program's own output may stand before it."""


def is_counter(name: str) -> bool:
    """Whether ``name`` is written as Nsight Compute writes its metrics."""
    return _COUNTER.fullmatch(name) is not None


def _classify(cells: tuple[str, ...]) -> str | None:
    """The kind of table that starts with this line, a key of `_REFUSED`, or None where it is no header."""
    names = {c.strip() for c in cells}
    if cells in (COLUMNS, COLUMNS + GPU_COLUMNS):
        return "counter-table"
    first = cells[0].strip().lower()
    if "Source" in names and names & {"#", "Address", "Live Registers", "Instructions Executed"}:
        return "source"
    counters = sum(map(is_counter, names))
    if len(cells) > 2 and (first in ("pc", "address") or "sass" in names) and (counters or "sass" in names):
        return "pcsamp"
    if {"Device", "Context", "Stream"} <= names and names & {"Kernel", "Name"} and "ID" not in names:
        return "nvprof-trace"
    if {"Start", "Duration", "Name"} <= names:
        return "api"
    if {"Time(%)", "Calls"} <= names:
        return "times"
    if names & {"Metric Name", "Event Name"} and names & {"Avg", "Invocations"}:
        return "nvprof-summary"
    if "Metric Value" in names or {"ID", "Metric Name"} <= names:
        return "ncu-long"
    if {"ID", "Kernel Name"} <= names or (counters and len(cells) > 1):
        return "ncu-wide"
    return None


def find_header(path: str, data: bytes) -> tuple[Kind, int, int]:
    """(kind, offset, line) of the first table's header; `SmlabError` where there is none, or one of no
    use."""
    hint = None
    start, row = 0, 1
    while start < len(data) and row <= MAX_LINES_BEFORE:
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        line = data[start:end].rstrip(b"\r")
        if b"," in line and not line.startswith(b"=="):
            kind = _classify(split_cells(line))
            if kind is not None:
                _refuse(path, row, kind)
                return kind, start, row  # type: ignore[return-value]
        elif b"Metric Name" in line or b"Event Name" in line:
            hint = hint or (row, "nvprof-text" if b"Invocations" in line else "long-text")
        start, row = end + 1, row + 1
    if hint:
        _refuse(path, *hint)
    if b"No kernels were profiled" in data:
        what = "the profiler says that no kernels were profiled"
        raise SmlabError.at(path, what, expected="the output of a run with at least one kernel")
    expected = (
        "CSV of ncu (--csv, or --page raw --csv) or nvprof (--csv), or a counter table of smlab: "
        + ",".join(COLUMNS)
    )
    raise SmlabError.at(path, "no table of counters in it", expected=expected)


def _refuse(path: str, row: int, kind: str) -> None:
    if kind in _REFUSED:
        what, right = _REFUSED[kind]
        raise SmlabError.at(f"{path}: row {row}", f"this is {what}", expected=right)

"""A counter table written as the profilers write theirs, so that it can be read back, by us or by another
tool.

Values are written in full (ncu prints two decimals) and in base units. What a format cannot hold is refused,
never left out.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.files import replacing
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.profiles.counter_table import WHOLE_GPU, CounterTable
from smlab.hw_bench.profiles.profile import UNNAMED, short
from smlab.hw_bench.profiles.units import scale, unit_of_name

_LAUNCH = ("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream")
_GPU = ("Device", "CC")
_NAME = "device__attribute_display_name"
REMARK = "==SMLAB== "
"""Begins a line above the table, as ``==PROF==`` does in ncu's output; `read_profile` notes what it says."""


def write_ncu_long(table: CounterTable, path: Path, *, gpu: Gpu | None = None) -> None:
    """Write ``table`` as ``ncu --csv --print-units base`` would; with ``gpu``, with the columns ``Device``
    and ``CC``.

    `SmlabError` for rows of one SM, launches of several kernels, counters given twice, and units that are no
    base units.
    """
    _check(table, path, "ncu's CSV", whole_gpu=True)
    _check_units(table, path, "ncu's CSV", lambda counter, unit: scale(unit) == (1, 1, unit))
    device = ("0", gpu.compute_capability) if gpu else ()

    def write(out: Any) -> None:
        out.writerow(
            [*_LAUNCH, *(_GPU if gpu else ()), "Section Name", "Metric Name", "Metric Unit", "Metric Value"]
        )
        for r in table.rows():
            launch = (r.launch, 1, "app", "127.0.0.1", r.kernel, 1, 7)
            out.writerow(
                [*launch, *device, "Command line profiler metrics", r.counter, r.unit, _grouped(r.value)]
            )

    _write(path, write, csv.QUOTE_ALL)


def write_ncu_wide(
    table: CounterTable, path: Path, *, gpu: Gpu | None = None, remark: str | None = None
) -> None:
    """Write ``table`` as ``ncu --page raw --csv --print-units base`` would: a column for each counter, a row
    for each launch.

    With ``gpu``, the columns ``Device`` and ``CC`` and the attribute with the device's name tell which it is.
    ``remark`` is one line above the table, on what the file is. `SmlabError` as for `write_ncu_long`, and
    for a counter in several units. The rows of a table read back are ordered by launch, and within one by
    the counters' first appearance.
    """
    _check(table, path, "ncu's raw page", whole_gpu=True)
    _check_units(table, path, "ncu's raw page", lambda counter, unit: scale(unit) == (1, 1, unit))
    units: dict[str, str] = {}
    launches: dict[int, dict[str, float]] = {}
    kernels: dict[int, str] = {}
    for r in table.rows():
        if units.setdefault(r.counter, r.unit) != r.unit:
            raise SmlabError.at(
                str(path), f"counter {r.counter!r} is in several units", r.unit, units[r.counter]
            )
        launches.setdefault(r.launch, {})[r.counter] = r.value
        kernels[r.launch] = r.kernel
    named = (*_GPU, _NAME) if gpu else ()
    device = ("0", gpu.compute_capability, gpu.title) if gpu else ()

    def write(out: Any) -> None:
        out.writerow([*_LAUNCH, *named, *units])
        out.writerow([*("" for _ in (*_LAUNCH, *named)), *units.values()])
        for launch, values in launches.items():
            cells = ("" if c not in values else _grouped(values[c]) for c in units)
            out.writerow([launch, 1, "app", "127.0.0.1", kernels[launch], 1, 7, *device, *cells])

    _write(path, write, csv.QUOTE_ALL, remark)


def write_nvprof(table: CounterTable, path: Path, *, gpu: Gpu | None = None) -> None:
    """Write ``table`` as ``nvprof --csv --print-gpu-trace --aggregate-mode off`` would: a row for each
    launch, a column for each counter, ``counter (i)`` for SM i.

    nvprof numbers no launches: they must be 0, 1, 2, ... in order. It writes no units: each must be the one
    that the counter's name implies. `SmlabError` where that is not so.
    """
    _check(table, path, "nvprof's CSV", whole_gpu=False)
    _check_units(table, path, "nvprof's CSV", lambda counter, unit: unit_of_name(counter) == unit)
    columns: dict[tuple[str, int], None] = {}
    launches: dict[int, dict[tuple[str, int], float]] = {}
    kernels: dict[int, str] = {}
    for r in table.rows():
        if r.kernel.startswith("[CUDA "):
            raise SmlabError.at(
                str(path), "nvprof's CSV cannot hold this kernel's name", r.kernel, "no '[CUDA '"
            )
        columns.setdefault((r.counter, r.sm))
        launches.setdefault(r.launch, {})[r.counter, r.sm] = r.value
        kernels[r.launch] = r.kernel
    if list(launches) != list(range(len(launches))):
        numbers = short(", ".join(map(str, launches)))
        raise SmlabError.at(
            str(path), "nvprof's CSV does not number the launches", numbers, "0, 1, 2, ... in this order"
        )
    name = f"{gpu.title} (0)" if gpu else ""
    for counter, sm in columns:
        if sm == WHOLE_GPU and counter.endswith((")", "]")):
            raise SmlabError.at(
                str(path), "nvprof's CSV cannot hold this counter's name", counter, "no '(...)' at its end"
            )

    def write(out: Any) -> None:
        out.writerow(
            [
                "Device",
                "Context",
                "Stream",
                "Kernel",
                *(c if s == WHOLE_GPU else f"{c} ({s})" for c, s in columns),
            ]
        )
        for launch, values in launches.items():
            cells = (values.get(c, "") for c in columns)
            out.writerow([name, "1", "7", kernels[launch], *(_plain(v) if v != "" else "" for v in cells)])

    _write(path, write, csv.QUOTE_MINIMAL)


def _grouped(value: float) -> str:
    return f"{int(value):,}" if value == int(value) and abs(value) < 1e15 else f"{value:,}"


def _plain(value: float | str) -> str:
    return _grouped(float(value)).replace(",", "")


def _write(path: Path, write: Callable[[Any], None], quoting: int, remark: str | None = None) -> None:
    with replacing(path) as partial, partial.open("w", newline="", encoding="utf-8") as f:
        if remark is not None:
            f.write(f"{REMARK}{remark}\n")
        write(csv.writer(f, quoting=quoting, lineterminator="\n"))  # type: ignore[arg-type]


def _check(table: CounterTable, path: Path, what: str, *, whole_gpu: bool) -> None:
    """`SmlabError` for what none of the formats holds, and with ``whole_gpu`` for rows of one SM."""
    if not len(table):
        raise SmlabError.at(str(path), f"{what} cannot hold a table with no rows")
    seen: set[tuple[int, int, str]] = set()
    kernels: dict[int, str] = {}
    for r in table.rows():
        if whole_gpu and r.sm != WHOLE_GPU:
            problem = f"{what} has no rows of one SM"
            raise SmlabError.at(
                str(path),
                problem,
                f"{r.counter}, SM {r.sm}",
                "rows of the whole GPU; write_nvprof holds both",
            )
        if not np.isfinite(r.value):
            raise SmlabError.at(
                str(path), f"{what} cannot hold the value of {r.counter!r}", r.value, "a finite number"
            )
        if r.launch < 0 or r.sm < WHOLE_GPU:
            raise SmlabError.at(str(path), f"{what} numbers launches and SMs from 0", (r.launch, r.sm))
        for text in (r.kernel, r.counter):
            if (
                text != text.strip()
                or not text
                or "\r" in text
                or "\n" in text
                or "\0" in text
                or text == UNNAMED
            ):
                raise SmlabError.at(str(path), f"{what} cannot hold this name", text, "a name on one line")
        if (r.launch, r.sm, r.counter) in seen and kernels[r.launch] == r.kernel:
            raise SmlabError.at(
                str(path), f"counter {r.counter!r} of launch {r.launch} is there twice", r.value
            )
        seen.add((r.launch, r.sm, r.counter))
        if kernels.setdefault(r.launch, r.kernel) != r.kernel:
            problem = f"{what} has one kernel for each launch; launch {r.launch} has several"
            raise SmlabError.at(str(path), problem, short(r.kernel), short(kernels[r.launch]))


def _check_units(table: CounterTable, path: Path, what: str, holds: Callable[[str, str], bool]) -> None:
    pairs = set(zip(table.counter.tolist(), table.unit.tolist(), strict=True))
    for counter, unit in sorted(pairs):
        if not holds(counter, unit):
            name = unit_of_name(counter) if what.startswith("nvprof") else scale(unit)[2]
            raise SmlabError.at(
                str(path), f"{what} would give {counter!r} back in {name!r}", unit, f"{name!r}"
            )
        if what == "ncu's raw page" and counter in _LABELS:
            raise SmlabError.at(str(path), f"{what} has a column of this name for something else", counter)


_LABELS = frozenset((*_LAUNCH, *_GPU, _NAME, "Block Size", "Grid Size", "Section Name"))

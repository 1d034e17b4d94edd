"""A counter table written as Nsight Compute writes its own, so that it can be read back, by us or by another
tool.

Values are written in full (ncu prints two decimals) and in base units. What the format cannot hold is
refused, never left out.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.files import replacing
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.profiles.counter_table import WHOLE_GPU, CounterTable
from smlab.hw_bench.profiles.profile import UNNAMED, short
from smlab.hw_bench.profiles.units import scale

LAUNCH_COLUMNS = ("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream")
GPU_COLUMNS = ("Device", "CC")
_NAME = "device__attribute_display_name"
REMARK = "==SMLAB== "
"""Begins a line above the table, as ``==PROF==`` does in ncu's output; `read_profile` notes what it says."""
_WHAT = "ncu's raw page"


def write_ncu_wide(
    table: CounterTable, path: Path, *, gpu: Gpu | None = None, remark: str | None = None
) -> None:
    """Write ``table`` as ``ncu --page raw --csv --print-units base`` would: a column for each counter, a row
    for each launch.

    With ``gpu``, the columns ``Device`` and ``CC`` and the attribute with the device's name tell which it is.
    ``remark`` is one line above the table, on what the file is. The rows of a table read back are ordered by
    launch, and within one by the counters' first appearance.

    Raises:
        SmlabError: rows of one SM, launches of several kernels, counters given twice or in several units, and
            units that are no base units.
    """
    _check(table, path)
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
    named = (*GPU_COLUMNS, _NAME) if gpu else ()
    device = ("0", gpu.compute_capability, gpu.title) if gpu else ()
    with replacing(path) as partial, partial.open("w", newline="", encoding="utf-8") as f:
        if remark is not None:
            f.write(f"{REMARK}{remark}\n")
        out = csv.writer(f, quoting=csv.QUOTE_ALL, lineterminator="\n")
        out.writerow([*LAUNCH_COLUMNS, *named, *units])
        out.writerow([*("" for _ in (*LAUNCH_COLUMNS, *named)), *units.values()])
        for launch, values in launches.items():
            cells = ("" if c not in values else grouped(values[c]) for c in units)
            out.writerow([launch, 1, "app", "127.0.0.1", kernels[launch], 1, 7, *device, *cells])


def grouped(value: float) -> str:
    """A number as ncu writes it, with a comma between thousands."""
    return f"{int(value):,}" if value == int(value) and abs(value) < 1e15 else f"{value:,}"


def _check(table: CounterTable, path: Path) -> None:
    """`SmlabError` for what the format does not hold."""
    if not len(table):
        raise SmlabError.at(str(path), f"{_WHAT} cannot hold a table with no rows")
    seen: set[tuple[int, str]] = set()
    kernels: dict[int, str] = {}
    for r in table.rows():
        if r.sm != WHOLE_GPU:
            problem = f"{_WHAT} has no rows of one SM"
            raise SmlabError.at(str(path), problem, f"{r.counter}, SM {r.sm}", "rows of the whole GPU")
        if not np.isfinite(r.value):
            raise SmlabError.at(
                str(path), f"{_WHAT} cannot hold the value of {r.counter!r}", r.value, "a finite number"
            )
        if r.launch < 0:
            raise SmlabError.at(str(path), f"{_WHAT} numbers launches from 0", r.launch)
        for text in (r.kernel, r.counter):
            if text != text.strip() or not text or text == UNNAMED or any(c in text for c in "\r\n\0"):
                raise SmlabError.at(str(path), f"{_WHAT} cannot hold this name", text, "a name on one line")
        if (r.launch, r.counter) in seen and kernels[r.launch] == r.kernel:
            raise SmlabError.at(
                str(path), f"counter {r.counter!r} of launch {r.launch} is there twice", r.value
            )
        seen.add((r.launch, r.counter))
        if kernels.setdefault(r.launch, r.kernel) != r.kernel:
            problem = f"{_WHAT} has one kernel for each launch; launch {r.launch} has several"
            raise SmlabError.at(str(path), problem, short(r.kernel), short(kernels[r.launch]))
        if scale(r.unit) != (1, 1, r.unit):
            unit = scale(r.unit)[2]
            problem = f"{_WHAT} would give {r.counter!r} back in {unit!r}"
            raise SmlabError.at(str(path), problem, r.unit, f"{unit!r}")
        if r.counter in _LABELS:
            raise SmlabError.at(str(path), f"{_WHAT} has a column of this name for something else", r.counter)


_LABELS = frozenset((*LAUNCH_COLUMNS, *GPU_COLUMNS, _NAME, "Block Size", "Grid Size", "Section Name"))

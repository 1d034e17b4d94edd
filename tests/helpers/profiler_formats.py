"""A counter table as Nsight Compute's long CSV and as nvprof write theirs, for the readers' tests. Values are
written in full and in base units; the table must be one that the format can hold."""

from __future__ import annotations

import csv
from pathlib import Path

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.profiles.counter_table import WHOLE_GPU, CounterTable
from smlab.hw_bench.profiles.writers import GPU_COLUMNS, LAUNCH_COLUMNS, grouped


def write_ncu_long(table: CounterTable, path: Path, *, gpu: Gpu | None = None) -> None:
    """``ncu --csv --print-units base``; with ``gpu``, with the columns ``Device`` and ``CC``."""
    device = ("0", gpu.compute_capability) if gpu else ()
    with path.open("w", newline="", encoding="utf-8") as f:
        out = csv.writer(f, quoting=csv.QUOTE_ALL, lineterminator="\n")
        out.writerow(
            [
                *LAUNCH_COLUMNS,
                *(GPU_COLUMNS if gpu else ()),
                *("Section Name", "Metric Name", "Metric Unit", "Metric Value"),
            ]
        )
        for r in table.rows():
            launch = (r.launch, 1, "app", "127.0.0.1", r.kernel, 1, 7)
            out.writerow(
                [*launch, *device, "Command line profiler metrics", r.counter, r.unit, grouped(r.value)]
            )


def write_nvprof(table: CounterTable, path: Path, *, gpu: Gpu | None = None) -> None:
    """``nvprof --csv --print-gpu-trace --aggregate-mode off``: a row for each launch (0, 1, 2, ... in order),
    a column for each counter, ``counter (i)`` for SM i, no units."""
    columns: dict[tuple[str, int], None] = {}
    launches: dict[int, dict[tuple[str, int], float]] = {}
    kernels: dict[int, str] = {}
    for r in table.rows():
        columns.setdefault((r.counter, r.sm))
        launches.setdefault(r.launch, {})[r.counter, r.sm] = r.value
        kernels[r.launch] = r.kernel
    assert list(launches) == list(range(len(launches)))
    name = f"{gpu.title} (0)" if gpu else ""
    with path.open("w", newline="", encoding="utf-8") as f:
        out = csv.writer(f, lineterminator="\n")
        counters = (c if s == WHOLE_GPU else f"{c} ({s})" for c, s in columns)
        out.writerow(["Device", "Context", "Stream", "Kernel", *counters])
        for launch, values in launches.items():
            cells = (grouped(values[c]).replace(",", "") if c in values else "" for c in columns)
            out.writerow([name, "1", "7", kernels[launch], *cells])

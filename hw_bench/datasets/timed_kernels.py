"""Times of kernels on one GPU from any file that holds some: `read_timed_kernels` finds out which kind it
is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from smlab.hw_bench.datasets.bench_folder import read_bench_folder
from smlab.hw_bench.datasets.kernel_tuner import read_search
from smlab.hw_bench.datasets.ktt import read_ktt
from smlab.hw_bench.datasets.nsys import is_nsys, parse_nsys
from smlab.hw_bench.datasets.plain_times import is_plain, parse_plain
from smlab.hw_bench.datasets.tuning import TuningTimes, read_json
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.profiles.counter_table import WHOLE_GPU, CounterTable
from smlab.hw_bench.profiles.ncu.pivot import Pivot, launch_groups
from smlab.hw_bench.profiles.reading import read_profile
from smlab.hw_bench.profiles.source import load
from smlab.hw_bench.profiles.work.roofline_counters import CounterReader


def read_timed_kernels(path: Path) -> TuningTimes:
    """Kernel Tuner's cache or T4, KTT's JSON, nsys's trace, a plain table, a profile of Nsight Compute, or
    the folder of a ``bench run``.

    Raises:
        SmlabError: a file that is none of these, or is not whole.
    """
    if path.is_dir():
        return read_bench_folder(path)
    if any(path.name.endswith(suffix) for suffix in (".json", ".json.gz")):
        content = read_json(path)
        return read_ktt(path) if isinstance(content, dict) and "Results" in content else read_search(path)
    data = load(path)
    if is_nsys(data):
        return parse_nsys(path, data)
    if is_plain(data):
        return parse_plain(path, data)
    return _of_profile(path)


def _of_profile(path: Path) -> TuningTimes:
    """The launches of a profile: a row for each kernel, grid and block, in the order of the launches."""
    profile = read_profile(path)
    pivot = Pivot(profile, launch_groups(profile), profile.table.sm == WHOLE_GPU)
    read = CounterReader(pivot, None)
    seconds, _, _ = read.time()
    launch = read.launch()
    groups: dict[tuple[str, str, str], list[int]] = {}
    timeless = []
    for row in range(len(pivot)):
        if not seconds[row] > 0:
            timeless.append(
                (pivot.called(row), "no time: neither gpu__time_duration.sum nor cycles with a clock")
            )
            continue
        blocks, threads = launch["blocks"][row], launch["threads_per_block"][row]
        groups.setdefault((str(pivot.kernel[row]), _count(blocks), _count(threads)), []).append(row)
    if not groups:
        raise SmlabError.at(
            str(path), "no kernel with a time in it", expected="ncu --metrics gpu__time_duration.sum"
        )
    rows = [members[0] for members in groups.values()]
    runs = tuple(tuple(float(seconds[row]) for row in members) for members in groups.values())
    kernel = np.empty(len(groups), dtype=object)
    kernel[:] = [key[0] for key in groups]
    of_launch: dict[str, Any] = {name: values[rows] for name, values in launch.items()}
    return TuningTimes(
        path=path,
        device=profile.device.name or "",
        parameters=("blocks", "threads"),
        kernel=kernel,
        config=tuple(key[1:] for key in groups),
        seconds=np.array([np.median(launches) for launches in runs]),
        runs=runs,
        **of_launch,
        local_bytes_per_thread=np.full(len(groups), np.nan),
        counters=_of_first_launches(profile.table, pivot, rows),
        failed=tuple(timeless),
    )


def _of_first_launches(table: CounterTable, pivot: Pivot, rows: list[int]) -> CounterTable:
    """The counters of each group's first launch, numbered by the group."""
    number = {(str(pivot.kernel[row]), int(pivot.launch[row])): i for i, row in enumerate(rows)}
    of = [number.get((str(k), int(n)), -1) for k, n in zip(table.kernel, table.launch, strict=True)]
    group = np.array(of, dtype=np.int64)
    kept = (group >= 0) & (table.sm == WHOLE_GPU)
    return replace(table.take(kept), launch=group[kept])


def _count(value: float) -> str:
    return "unknown" if np.isnan(value) else f"{value:.0f}"

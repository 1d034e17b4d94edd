"""Nsight Compute's own reports (``.ncu-rep``), through NVIDIA's ``ncu-report``, an optional extra."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.profiles.counter_table import WHOLE_GPU
from smlab.hw_bench.profiles.ncu.ncu_report_process import read_in_process
from smlab.hw_bench.profiles.ncu.table_part import Part, drop_repeats
from smlab.hw_bench.profiles.ncu.wide_tables import attributes
from smlab.hw_bench.profiles.profile import UNNAMED, Skipped, short
from smlab.hw_bench.profiles.units import scale


def read_ncu_rep(path: Path) -> Part:
    """The report's counters, one launch for each of its results, numbered in their order."""
    part = read_in_process(path, _read, "raw")
    drop_repeats(str(path), part)
    return part


def _read(path: str, ncu: Any) -> Part:
    report = ncu.load_report(path)
    kernels: list[str] = []
    launches: list[int] = []
    counters: list[str] = []
    values: list[float] = []
    units: list[str] = []
    texts: dict[str, tuple[str, int]] = {}
    devices = set()
    launch = 0
    for i in range(report.num_ranges()):
        results = report.range_by_idx(i)
        for j in range(results.num_actions()):
            result = results.action_by_idx(j)
            kernel = str(result.name(result.NameBase_DEMANGLED) or result.name() or UNNAMED)
            device = dict.fromkeys(
                ("display_name", "compute_capability_major", "compute_capability_minor"), ""
            )
            for name in result.metric_names():
                metric = result.metric_by_name(name)
                value = metric.value() if metric is not None else None
                stem = name.removeprefix("device__attribute_")
                if stem in device and value is not None:
                    device[stem] = str(value)
                if isinstance(value, (int, float)) and np.isfinite(value):
                    up, down, unit = scale(metric.unit() or "")
                    kernels.append(kernel)
                    launches.append(launch)
                    counters.append(name)
                    values.append(float(value) * up / down)
                    units.append(unit)
                elif stem != "display_name":
                    text, count = texts.get(
                        name,
                        ("no value" if value is None else f"its value is text: {short(str(value))!r}", 0),
                    )
                    texts[name] = (text, count + 1)
            devices.add(attributes(*device.values()))
            launch += 1
    if not values:
        raise SmlabError.at(
            path, "the report holds no counter", expected="a report with at least one kernel, whole"
        )
    size = len(values)
    return Part(
        np.array(kernels, dtype=object),
        np.array(launches, dtype=np.int64),
        np.full(size, WHOLE_GPU, dtype=np.int64),
        np.array(counters, dtype=object),
        np.array(values, dtype=np.float64),
        np.array(units, dtype=object),
        np.zeros(size, dtype=np.int64),
        devices,
        [],
        [Skipped(f"counter {name!r}", text, count) for name, (text, count) in texts.items()],
    )

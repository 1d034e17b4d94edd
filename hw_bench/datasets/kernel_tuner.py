"""Readers of Kernel Tuner's cache files and of the T4 format of auto-tuning results, JSON.

Kernel Tuner (van Werkhoven 2019; github.com/KernelTuner/kernel_tuner) keeps each configuration that it tried
in a cache file, times in milliseconds in the order of the runs; a configuration that failed has a word in
place of the time. T4 (AutoTuningAssociation, autotuning_methodology, schema 1.0.0) is meant for any tuner.
Neither names the grid: it follows from the problem's size and from the tuner's user, so it is not known here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from smlab.hw_bench.datasets.tuning import (
    Parameter,
    TuningTimes,
    field_of,
    label_of,
    read_folder,
    read_json,
    table_of,
    time_of,
    unit_seconds,
)
from smlab.hw_bench.errors import SmlabError

_BLOCK: Final = ("block_size_x", "block_size_y", "block_size_z")
"""Kernel Tuner's default names of the parameters that are the block's shape."""

_KINDS: Final = (int, float, str, bool)


def read_kernel_tuner_folder(path: Path) -> list[TuningTimes]:
    """The sets of all files of a folder, or of one file; each a cache file or T4, told by its content."""
    return read_folder(path, read_search, "Kernel Tuner's cache files, or T4")


def read_search(path: Path) -> TuningTimes:
    """A cache file or a T4 file, whichever it is."""
    content = read_json(path)
    if isinstance(content, Mapping) and "schema_version" in content:
        return _t4(path, content)
    return _cache(path, content)


def _cache(path: Path, content: Any) -> TuningTimes:
    where = str(path)
    cache = field_of(where, content, "cache", dict, "a table of configurations, as Kernel Tuner writes it")
    names = tuple(field_of(where, content, "tune_params_keys", list, "the parameters' names"))
    device = field_of(where, content, "device_name", str, "the device's name")
    kernel = field_of(where, content, "kernel_name", str, "the kernel's name")
    unit = unit_seconds(f"{where}: time_unit", str(content.get("time_unit", "milliseconds")))
    rows = _Found(path, names)
    for key, entry in cache.items():
        place = f"{path}: configuration {key}"
        config = tuple(field_of(place, entry, name, _KINDS, "the parameter's value") for name in names)
        time = entry.get("time")
        if isinstance(time, str) or "__error__" in entry:
            rows.failed.append((label_of(names, config), str(entry.get("__error__", time))))
            continue
        runs = entry.get("times") or [time]
        rows.add(f"{place}: times", kernel, config, runs, unit)
    return rows.times(device)


def _t4(path: Path, content: Any) -> TuningTimes:
    where = str(path)
    results = field_of(where, content, "results", list, "a list of results")
    metadata = table_of(where, content, "metadata")
    unit = unit_seconds(f"{where}: metadata: timeunit", str(metadata.get("timeunit", "milliseconds")))
    device = str(metadata.get("device_name", metadata.get("device", "")))
    kernel = str(metadata.get("kernel_name", metadata.get("benchmark", "kernel")))
    rows: _Found | None = None
    for number, result in enumerate(results):
        place = f"{path}: result {number}"
        table = field_of(place, result, "configuration", dict, "the configuration's parameters")
        rows = rows or _Found(path, tuple(table))
        if set(table) != set(rows.names):
            raise SmlabError.at(
                place, "other parameters than the first result", ", ".join(table), ", ".join(rows.names)
            )
        says = "the parameter's value"
        config = tuple(field_of(f"{place}: configuration", table, n, _KINDS, says) for n in rows.names)
        word = str(result.get("invalidity", "correct"))
        if word != "correct":
            rows.failed.append((label_of(rows.names, config), word))
            continue
        times = field_of(place, result, "times", dict, "the times of compilation and of the runs")
        runs = field_of(f"{place}: times", times, "runtimes", list, "the times of the runs")
        rows.add(f"{place}: runtimes", kernel, config, runs, unit)
    if rows is None:
        raise SmlabError.at(where, "no result in it", expected="results with configuration and times")
    return rows.times(device)


class _Found:
    """Rows as they are read."""

    def __init__(self, path: Path, names: tuple[str, ...]) -> None:
        wrong = [name for name in names if not isinstance(name, str)]
        if wrong or not names:
            raise SmlabError.at(f"{path}: tune_params_keys", "unusable names", wrong, "texts, at least one")
        self.path, self.names = path, names
        self.kernel: list[str] = []
        self.config: list[tuple[Parameter, ...]] = []
        self.runs: list[tuple[float, ...]] = []
        self.failed: list[tuple[str, str]] = []

    def add(self, where: str, kernel: str, config: tuple[Parameter, ...], runs: Any, unit_s: float) -> None:
        if not isinstance(runs, list) or not runs:
            raise SmlabError.at(where, "no time in it", expected="a list of times")
        self.kernel.append(kernel)
        self.config.append(config)
        self.runs.append(tuple(time_of(where, run, unit_s) for run in runs))

    def times(self, device: str) -> TuningTimes:
        if not self.runs:
            raise SmlabError.at(str(self.path), "no configuration ran", f"{len(self.failed)} failed")
        unknown = np.full(len(self.runs), np.nan)
        kernel = np.empty(len(self.runs), dtype=object)
        kernel[:] = self.kernel
        return TuningTimes(
            path=self.path,
            device=device,
            parameters=self.names,
            kernel=kernel,
            config=tuple(self.config),
            seconds=np.array([np.median(runs) for runs in self.runs]),
            runs=tuple(self.runs),
            blocks=unknown,
            threads_per_block=self._threads(),
            registers_per_thread=unknown,
            shared_bytes_per_block=unknown,
            local_bytes_per_thread=unknown,
            counters=None,
            failed=tuple(self.failed),
        )

    def _threads(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        at = [self.names.index(name) for name in _BLOCK if name in self.names]
        if not at:
            return np.full(len(self.config), np.nan)
        sizes = [[row[i] for i in at] for row in self.config]
        if not all(isinstance(x, int) and x > 0 for row in sizes for x in row):
            return np.full(len(sizes), np.nan)
        return np.array([float(math.prod(int(x) for x in row)) for row in sizes])

"""Reader of the output of KTT, the Kernel Tuning Toolkit (Petrovic et al. 2020; github.com/HiPerCoRe/KTT).

A JSON file is one search on one device: metadata, then a result a configuration with its parameters, time,
registers, launch and, where profiling was on, the counters of CUPTI (Nsight Compute's names). They become the
counter table that a profile of Nsight Compute becomes: sectors of DRAM and L2 as bytes, all else by its name.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from smlab.hw_bench.datasets.tuning import (
    Floats,
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
from smlab.hw_bench.profiles.counter_table import WHOLE_GPU, CounterRow, CounterTable
from smlab.hw_bench.profiles.units import unit_of_name

_SECTOR_BYTES: Final = 32
_RENAMED: Final = {
    "dram__sectors_read.sum": "dram__bytes_read.sum",
    "dram__sectors_write.sum": "dram__bytes_write.sum",
    "lts__t_sectors_op_read.sum": "lts__t_bytes_op_read.sum",
    "lts__t_sectors_op_write.sum": "lts__t_bytes_op_write.sum",
    "lts__t_sectors.sum": "lts__t_bytes.sum",
}
"""Counts of 32-byte sectors, kept as bytes under the name of the counter of bytes."""


def read_ktt_folder(path: Path) -> list[TuningTimes]:
    """The sets of all files of a folder, or of one file."""
    return read_folder(path, read_ktt, "KTT's output as JSON")


def read_ktt(path: Path) -> TuningTimes:
    """One search. Configurations that did not compile, launch or validate are listed in ``failed``.

    Raises:
        SmlabError: file and result of whatever is missing or cannot be.
    """
    content = read_json(path)
    results = field_of(str(path), content, "Results", list, "a list of results, as KTT writes it")
    metadata = field_of(str(path), content, "Metadata", dict, "KTT's metadata")
    at = f"{path}: Metadata"
    device = field_of(at, metadata, "Device", str, "the device's name")
    unit = unit_seconds(f"{at}: TimeUnit", field_of(at, metadata, "TimeUnit", str, "such as Microseconds"))
    in_threads = metadata.get("GlobalSizeType", "CUDA") != "CUDA"
    parameters: tuple[str, ...] | None = None
    rows: list[dict[str, Any]] = []
    failed: list[tuple[str, str]] = []
    counters: list[CounterRow] = []
    for number, result in enumerate(results):
        where = f"{path}: result {number}"
        names, config = _configuration(where, result)
        parameters = names if parameters is None else parameters
        if names != parameters:
            raise SmlabError.at(
                where, "other parameters than the first result", ", ".join(names), ", ".join(parameters)
            )
        status = field_of(where, result, "Status", str, "such as Ok")
        computed = field_of(where, result, "ComputationResults", list, "a list, empty where none ran")
        if status != "Ok" or not computed:
            failed.append((label_of(names, config), status if status != "Ok" else "no computation in it"))
            continue
        for one in computed:
            row = _row(f"{where}: computation", one, unit, in_threads)
            counters += _counters(where, one, row, len(rows))
            rows.append({**row, "config": config})
    if not rows:
        raise SmlabError.at(
            str(path), "no configuration ran", f"{len(failed)} failed", "results with Status Ok"
        )
    array: dict[str, Any] = {
        name: np.array([row[name] for row in rows], dtype=np.float64) for name in _NUMBERS
    }
    kernel = np.empty(len(rows), dtype=object)
    kernel[:] = [row["kernel"] for row in rows]
    return TuningTimes(
        path=path,
        device=device,
        parameters=parameters or (),
        kernel=kernel,
        config=tuple(row["config"] for row in rows),
        runs=tuple((row["seconds"],) for row in rows),
        counters=_table(counters, rows) if counters else None,
        failed=tuple(failed),
        **array,
    )


_NUMBERS: Final = (
    *("seconds", "grid", "block", "blocks", "threads_per_block", "registers_per_thread"),
    *("shared_bytes_per_block", "local_bytes_per_thread"),
)
_LAUNCH: Final = {
    "launch__grid_size": ("blocks", ""),
    "launch__block_size": ("threads_per_block", ""),
    "launch__registers_per_thread": ("registers_per_thread", "register/thread"),
    "launch__shared_mem_per_block": ("shared_bytes_per_block", "byte/block"),
    "gpu__time_duration.sum": ("seconds", "second"),
}


def _configuration(where: str, result: Any) -> tuple[tuple[str, ...], tuple[Parameter, ...]]:
    pairs = field_of(where, result, "Configuration", list, "the configuration's parameters")
    names = tuple(field_of(f"{where}: Configuration", p, "Name", str, "a parameter's name") for p in pairs)
    kinds = (int, float, str, bool)
    says = "a number or a text"
    return names, tuple(field_of(f"{where}: Configuration", p, "Value", kinds, says) for p in pairs)


def _row(where: str, one: Any, unit_s: float, in_threads: bool) -> dict[str, Any]:
    block = _shape(where, one, "LocalSize")
    grid = _shape(where, one, "GlobalSize") / (block if in_threads else 1.0)
    compiled = table_of(where, one, "CompilationData")
    says = "a number of at least 0"

    def number(name: str) -> float:
        value = compiled.get(name)
        if value is None:
            return np.nan
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**53:
            raise SmlabError.at(f"{where}: {name}", "unusable value", value, says)
        return float(value)

    return {
        "kernel": field_of(where, one, "KernelFunction", str, "the kernel's name"),
        "seconds": time_of(f"{where}: Duration", one.get("Duration"), unit_s),
        "grid": grid,
        "block": block,
        "blocks": float(np.prod(grid)),
        "threads_per_block": float(np.prod(block)),
        "registers_per_thread": number("RegistersCount"),
        "shared_bytes_per_block": number("LocalMemorySize"),
        "local_bytes_per_thread": number("PrivateMemorySize"),
    }


def _shape(where: str, one: Any, name: str) -> Floats:
    size = field_of(where, one, name, dict, "a table of X, Y and Z")
    whole = [field_of(f"{where}: {name}", size, axis, int, "a whole number of at least 1") for axis in "XYZ"]
    if min(whole) < 1:
        raise SmlabError.at(f"{where}: {name}", "unusable size", min(whole), "whole numbers of at least 1")
    return np.array(whole, dtype=np.float64)


def _counters(where: str, one: Any, row: dict[str, Any], launch: int) -> Iterator[CounterRow]:
    profiled = table_of(where, one, "ProfilingData")
    listed = profiled.get("Counters", [])
    if not isinstance(listed, list):
        place = f"{where}: ProfilingData: Counters"
        raise SmlabError.at(place, "is not a list", listed, "a list of counters")
    for counter in listed:
        name = field_of(f"{where}: Counters", counter, "Name", str, "a counter's name")
        value = field_of(f"{where}: {name}", counter, "Value", (int, float), "a number")
        if name in _RENAMED:
            yield CounterRow(
                row["kernel"], launch, WHOLE_GPU, _RENAMED[name], float(value) * _SECTOR_BYTES, "byte"
            )
        else:
            yield CounterRow(row["kernel"], launch, WHOLE_GPU, name, float(value), unit_of_name(name))


def _table(counters: list[CounterRow], rows: list[dict[str, Any]]) -> CounterTable:
    """All counters, with the launch and the time of each kernel that has some."""
    profiled = sorted({row.launch for row in counters})
    launches = [
        CounterRow(rows[i]["kernel"], i, WHOLE_GPU, name, rows[i][key], unit)
        for i in profiled
        for name, (key, unit) in _LAUNCH.items()
        if not np.isnan(rows[i][key])
    ]
    return CounterTable.from_rows([*counters, *launches])

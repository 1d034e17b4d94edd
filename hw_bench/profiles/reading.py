"""`read_profile`: any profiler's output, as one table; `as_profile`: a table that is one already."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.csv_cells import check_cells
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.profiles.counter_table import CounterTable
from smlab.hw_bench.profiles.ncu.detect import Kind, find_header
from smlab.hw_bench.profiles.ncu.long_form import read_ncu_long
from smlab.hw_bench.profiles.ncu.nvprof import read_nvprof_summary
from smlab.hw_bench.profiles.ncu.report import read_ncu_rep
from smlab.hw_bench.profiles.ncu.table_part import Part, drop_repeats, joined
from smlab.hw_bench.profiles.ncu.wide_tables import read_wide
from smlab.hw_bench.profiles.profile import Device, Profile, Skipped, check_gpu, one_kind, short
from smlab.hw_bench.profiles.source import NCU_REPORT, Segment, load, segments
from smlab.hw_bench.profiles.writers import REMARK

Integers = NDArray[np.int64]


def read_profile(path: str | Path, *, gpu: Gpu | None = None) -> Profile:
    """The profile in the file at ``path``: CSV of ncu or nvprof, plain or gzip, a ``.ncu-rep``, or a counter
    table of smlab.

    With ``gpu``, a profile of another GPU is refused. `SmlabError` for whatever cannot be read, with file and
    row.
    """
    path = Path(path)
    data = load(path)
    if data.startswith(NCU_REPORT):
        return _finish(str(path), "ncu-rep", read_ncu_rep(path), gpu)
    kind, start, row = find_header(str(path), data)
    remarks = _remarks(data[:start])
    if kind == "counter-table":
        own_profile = _own_table(path, data, start, row)
        if gpu is not None and own_profile.devices:
            check_gpu(str(path), own_profile.device, gpu)
        return own_profile
    tables, messages = segments(data, start, row)
    cut = not data.endswith((b"\n", b"\r"))
    del data
    parts = []
    while tables:
        last = len(tables) == 1
        parts.append(_read_table(str(path), kind, tables.pop(0), cut and last))
    if kind == "ncu-long":
        _number_on(parts)
    part = joined(parts)
    part.notes[:0] = remarks
    if kind == "ncu-wide" and len(parts) > 1:
        raise SmlabError.at(str(path), "several wide tables in one file", len(parts), "one file for each run")
    if len(parts) > 1:
        if kind == "nvprof-trace":
            raise SmlabError.at(str(path), "several traces in one file", len(parts), "one file for each run")
        drop_repeats(str(path), part)
    if messages:
        part.skipped.append(
            Skipped(
                f"messages of the profiler, first {short(messages[0][1])!r}",
                "not rows of the table",
                len(messages),
                messages[0][0],
            )
        )
    if cut:
        part.notes.append(
            "the file does not end with a line end: should it be cut off, its last value may be wrong"
        )
    return _finish(str(path), kind, part, gpu)


def _remarks(preamble: bytes) -> list[str]:
    """What smlab's own writers say above the table: that its counters are simulated, above all."""
    lines = preamble.decode(errors="replace").splitlines()
    return [short(line.removeprefix(REMARK), 200) for line in lines if line.startswith(REMARK)]


def as_profile(table: CounterTable, path: str = "counter table", rows: Integers | None = None) -> Profile:
    """A counter table, such as the simulator's, as the profile that its file would be; ``path`` and ``rows``
    (0 where there are no lines) say in messages where a row comes from. `SmlabError` for a counter that is
    given twice with two values."""
    lines = np.zeros(len(table), dtype=np.int64) if rows is None else rows
    part = Part(table.kernel, table.launch, table.sm, table.counter, table.value, table.unit, lines)
    drop_repeats(path, part)
    if table.gpu is not None:
        name, capability = table.gpu
        part.devices.add(Device(name or None, capability or None))
    return _finish(path, "counter-table", part, None)


def _number_on(parts: list[Part]) -> None:
    """Several tables are of several runs, each of which numbers its launches from 0: number them on."""
    for before, part in itertools.pairwise(parts):
        if len(before.launch):
            part.launch = part.launch + (int(before.launch.max()) + 1)
            part.notes.append("several tables in one file: the launches of the later ones are numbered on")


def _read_table(path: str, kind: Kind, table: Segment, cut: bool) -> Part:
    match kind:
        case "ncu-long":
            return read_ncu_long(path, table, cut)
        case "nvprof-summary":
            return read_nvprof_summary(path, table, cut)
        case _:
            return read_wide(path, table, cut, nvprof=kind == "nvprof-trace")


def _own_table(path: Path, data: bytes, start: int, row: int) -> Profile:
    if row != 1:
        raise SmlabError.at(
            f"{path}: row {row}", "lines before the header of a counter table", expected="the header first"
        )
    check_cells(str(path), data)
    try:
        table = CounterTable.from_text(str(path), data[start:].decode())
    except UnicodeDecodeError as error:
        raise SmlabError.at(str(path), f"not UTF-8 text: {error.reason}") from error
    return as_profile(table, str(path), np.arange(len(table), dtype=np.int64) + 2)


def _finish(path: str, kind: str, part: Part, gpu: Gpu | None) -> Profile:
    if not len(part.value) and kind != "counter-table":
        raise SmlabError.at(
            path, "no counter with a number in it", expected="at least one counter of one kernel"
        )
    devices = one_kind(path, part.devices)
    tool = "smlab" if kind == "counter-table" else kind.partition("-")[0]
    profile = Profile(path, kind, tool, part.table(), part.row, devices, (), tuple(part.skipped))
    if gpu is not None and tool != "smlab":
        part.notes += check_gpu(path, profile.device, gpu)
    return Profile(path, kind, tool, part.table(), part.row, devices, tuple(part.notes), tuple(part.skipped))

"""Nsight Compute's ``--csv`` long form: a row for each metric of each launch."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.profiles.counter_table import WHOLE_GPU
from smlab.hw_bench.profiles.ncu.records import TextColumn, column_numbers, split
from smlab.hw_bench.profiles.ncu.table_part import Part, drop_repeats, group_codes, objects, skipped_texts
from smlab.hw_bench.profiles.profile import UNNAMED, Device, Skipped, at_row, short, text_array
from smlab.hw_bench.profiles.source import Segment
from smlab.hw_bench.profiles.units import scale, scale_of_name

ID, KERNEL, METRIC, UNIT, VALUE = "ID", "Kernel Name", "Metric Name", "Metric Unit", "Metric Value"
_READ: Final = frozenset((ID, KERNEL, METRIC, UNIT, VALUE, "Device", "CC", "Rule Name", "Rule Type"))
LAUNCH_COLUMNS: Final = ("Process ID", "Host Name", KERNEL, "Device")
"""What may differ between two launches of one ID, in a file with the output of several runs."""


def read_ncu_long(path: str, segment: Segment, cut: bool) -> Part:
    """The table of one segment. ``cut`` tells that the file does not end with a line end."""
    for needed in (ID, METRIC, VALUE):
        if needed not in segment.cells:
            header = ", ".join(segment.cells)
            raise SmlabError.at(
                at_row(path, segment.header_row), f"no column {needed!r}", short(header, 200), "ncu --csv"
            )
    place = {name: i for i, name in reversed(list(enumerate(segment.cells)))}
    columns = split(path, segment, plain={place[VALUE]})
    ids, metric, value = (columns[place[name]] for name in (ID, METRIC, VALUE))
    if not len(ids):
        raise SmlabError.at(
            at_row(path, segment.header_row), "truncated: no row below the header", expected="ncu's rows"
        )
    if cut:
        _refuse_cut(path, segment, columns, place)
    skipped: list[Skipped] = []
    launch_id, whole = _launch_ids(path, segment, columns, place, skipped)
    named = whole & ~metric.empty()
    _list_others(segment, columns, place, whole & ~named, skipped)

    numbers = column_numbers(path, segment, value)
    with_instances = np.isnan(numbers) & named
    for record in np.flatnonzero(with_instances).tolist():
        aggregate = re.fullmatch(r"\s*([-+\d.,eE]+)\s+\([^()]*;[^()]*\)\s*", value[record])
        if aggregate:
            numbers[record] = column_numbers(
                path, segment, TextColumn([aggregate[1]], np.zeros(1, dtype=np.intp))
            )[0]
            reason = "the values of the metric's instances; its own value is kept"
            skipped.append(Skipped(f"instances of {metric[record]!r}", reason, row=segment.row(record)))
    good = np.flatnonzero(named & ~np.isnan(numbers))
    bad = np.flatnonzero(named & np.isnan(numbers))
    skipped += skipped_texts(objects(metric, bad), objects(value, bad), segment.rows(bad))

    unread = [c for c in segment.cells if c and c not in _READ]
    if unread:
        skipped.append(Skipped(f"columns {', '.join(unread)}", "not counters", row=segment.header_row))
    notes: list[str] = []
    launch = _launches(columns, place, launch_id, good, notes)
    if KERNEL in place:
        kernel = objects(columns[place[KERNEL]], good, UNNAMED)
    else:
        kernel = text_array([UNNAMED], np.zeros(len(good), dtype=np.intp))
        notes.append("no column names the kernel")
    values, units = _in_base_units(
        metric, columns[place[UNIT]] if UNIT in place else None, numbers, good, notes
    )
    part = Part(
        kernel,
        launch,
        np.full(len(good), WHOLE_GPU, dtype=np.int64),
        objects(metric, good),
        values,
        units,
        segment.rows(good),
        _devices(columns, place, named),
        notes,
        skipped,
    )
    drop_repeats(path, part)
    return part


def _refuse_cut(path: str, segment: Segment, columns: list[TextColumn], place: dict[str, int]) -> None:
    """`SmlabError` if the last row, which no line end follows, has no value and is no message of a rule."""
    last = len(columns[0]) - 1
    beyond = columns[place[METRIC] + 1 :]
    named = bool(columns[place[METRIC]][last])
    if not columns[place[VALUE]][last] and (named or not any(c[last] for c in beyond)):
        where = at_row(path, segment.row(last))
        raise SmlabError.at(
            where, "truncated: the last row has no value", expected="a whole row and a line end"
        )


def _launch_ids(
    path: str, segment: Segment, columns: list[TextColumn], place: dict[str, int], skipped: list[Skipped]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The ID of each record, and which records are rows of the table; the others are listed."""
    ids = columns[place[ID]]
    parsed = np.array([_id(t) for t in ids.texts], dtype=np.int64)[ids.codes]
    whole = parsed >= 0
    if not whole.all():
        kernel = columns[place[KERNEL if KERNEL in place else METRIC]]
        other = np.flatnonzero(~whole)
        named = other[~kernel.empty()[other]]
        if len(named):
            row = segment.row(int(named[0]))
            expected = "a launch's number, 0 or more"
            raise SmlabError.at(
                f"{path}: row {row}: {ID}", "not a launch", short(ids[int(named[0])]), expected
            )
        for record in other.tolist():
            cells = [c[record] for c in columns]
            if any(cells):
                what = f"line {short(','.join(c for c in cells if c))!r}"
                skipped.append(
                    Skipped(what, "no row of the table: output of the program?", row=segment.row(record))
                )
    return parsed, whole


def _id(text: str) -> int:
    text = text.strip().replace(",", "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else -1


def _list_others(
    segment: Segment,
    columns: list[TextColumn],
    place: dict[str, int],
    others: NDArray[np.bool_],
    skipped: list[Skipped],
) -> None:
    """List the rows that hold no metric: the messages of ncu's rules."""
    rules: dict[str, list[int]] = {}
    for record in np.flatnonzero(others).tolist():
        parts = [columns[place[n]][record] for n in ("Rule Name", "Rule Type") if n in place]
        name = " ".join(p for p in parts if p)
        rules.setdefault(f"ncu's rule {name}" if name else "row with no metric", []).append(record)
    for what, records in rules.items():
        skipped.append(Skipped(what, "a message, not a counter", len(records), segment.row(records[0])))


def _launches(
    columns: list[TextColumn],
    place: dict[str, int],
    ids: NDArray[np.int64],
    good: NDArray[np.intp],
    notes: list[str],
) -> NDArray[np.int64]:
    """The launch of each good record: its ID, unless an ID stands for several launches; then they are
    numbered anew."""
    launch = ids[good]
    codes = [columns[place[n]].codes[good] for n in LAUNCH_COLUMNS if n in place]
    varying = [c for c in codes if len(c) and (c != c[0]).any()]
    if not varying:
        return launch
    renumbered, first = group_codes(launch, *varying)
    if len(first) == len(np.unique(launch)):
        return launch
    notes.append(
        "an ID stands for several launches (of several runs or GPUs): launches are numbered anew, in their "
        "order"
    )
    return renumbered


def _in_base_units(
    metric: TextColumn,
    unit: TextColumn | None,
    numbers: NDArray[np.float64],
    good: NDArray[np.intp],
    notes: list[str],
) -> tuple[NDArray[np.float64], NDArray[np.object_]]:
    if unit is None:
        scales = [scale_of_name(t) for t in metric.texts]
        codes = metric.codes[good]
        notes.append(
            "no column tells the units: they are taken from the counters' names, times in nanoseconds"
        )
    else:
        scales = [scale(t) for t in unit.texts]
        codes = unit.codes[good]
    times, over = (np.array([s[i] for s in scales], dtype=np.float64)[codes] for i in (0, 1))
    return numbers[good] * times / over, text_array([s[2] for s in scales], codes)


def _devices(columns: list[TextColumn], place: dict[str, int], named: NDArray[np.bool_]) -> set[Device]:
    """The devices in the columns ``Device`` (an index, or a name) and ``CC``."""
    there = [columns[place[n]] if n in place else None for n in ("Device", "CC")]
    device, capability = there
    codes = [c.codes[named] for c in there if c is not None]
    if not codes or not len(codes[0]):
        return set()
    _, first = group_codes(*codes)
    devices = set()
    for record in np.flatnonzero(named)[first].tolist():
        devices.add(device_of(device[record] if device else "", capability[record] if capability else ""))
    return devices


def device_of(name: str, capability: str) -> Device:
    """The device as two cells give it: an index, a name or ``name (index)``, and a compute capability."""
    name, capability = name.strip(), capability.strip()
    if not re.fullmatch(r"\d{1,2}\.\d", capability):
        capability = ""
    index = re.fullmatch(r"(?:(.*\S)\s*\((\d{1,4})\)|(\d{1,4}))", name)
    if index is None:
        return Device(name or None, capability or None)
    return Device(index[1] or None, capability or None, int(index[2] or index[3]))

"""Tables with a row for each launch: Nsight Compute's ``--page raw --csv``, tables made of it, and
nvprof's GPU trace."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.profiles.counter_table import WHOLE_GPU
from smlab.hw_bench.profiles.ncu.long_form import device_of
from smlab.hw_bench.profiles.ncu.records import CommaDecimalError, TextColumn, column_numbers, number, split
from smlab.hw_bench.profiles.ncu.table_part import Part, drop_repeats, skipped_texts
from smlab.hw_bench.profiles.profile import UNKNOWN_UNIT, UNNAMED, Device, Skipped, at_row, short, text_array
from smlab.hw_bench.profiles.source import Segment
from smlab.hw_bench.profiles.units import Scale, nvprof_scale, scale, scale_of_name, unit_of_name

_NCU_LABELS: Final = frozenset(
    ("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time", "Context", "Stream",
    "Block Size",
     "Grid Size", "Device", "CC", "Section Name", "Invocations", "Rule Name", "Rule Type", "Rule Description")
)  # fmt: skip
_NVPROF_LABELS: Final = frozenset(
    ("Device", "Context", "Stream", "Kernel", "Name", "Correlation_ID", "SrcMemType", "DstMemType",
    "Src Dev", "Src Ctx",
     "Dst Dev", "Dst Ctx")
)  # fmt: skip
_USED: Final = frozenset(("ID", "Kernel Name", "Device", "CC", "Kernel", "Name"))
_UNITS: Final = re.compile(
    r"%|([KMGT]?B|[KMGT]?bytes?|[num]?s(econd)?|cycles?|inst|sectors?|requests?|warps?|threads?|blocks?|register|[KMGT]?hz)(/\w+)?"
)
INSTANCE: Final = re.compile(r"(.*\S)\s*[(\[](\d{1,6})[)\]]")
_WITH_UNIT: Final = re.compile(r"([-+\d.,eE]+)\s*(%|[KMGT]?B/s|[KMGT]?B|[num]?s)")
_LEVEL: Final = re.compile(r"(?:Idle|Low|Mid|High|Max)\s*\((\d+)\)")


def read_wide(path: str, segment: Segment, cut: bool, *, nvprof: bool) -> Part:
    """The table of one segment. ``cut`` tells that the file does not end with a line end."""
    columns = split(path, segment)
    records = len(columns[0])
    header = at_row(path, segment.header_row)
    place = {name: i for i, name in reversed(list(enumerate(segment.cells)))}
    labels = {
        i for i, name in enumerate(segment.cells) if name in (_NVPROF_LABELS if nvprof else _NCU_LABELS)
    }
    index = _index_column(segment.cells, labels)
    counters = [i for i in range(len(columns)) if i not in labels and i != index]
    if not counters:
        raise SmlabError.at(
            header, "no column is a counter", short(", ".join(segment.cells), 200), "ncu --page raw --csv"
        )
    has_units = records > 0 and _is_unit_row(columns, place, counters, nvprof)
    first = 1 if has_units else 0
    kept = np.array(
        [r for r in range(first, records) if any(c.texts[c.codes[r]] for c in columns)], dtype=np.intp
    )
    if not len(kept):
        raise SmlabError.at(header, "truncated: no launch below the header", expected="a row for each launch")
    _refuse_cut(path, segment, columns, counters, kept, cut)

    notes: list[str] = []
    skipped: list[Skipped] = []
    kernel_name = next(
        (n for n in ("Kernel Name", "Kernel", "Name") if n in place and place[n] in labels), None
    )
    if nvprof and kernel_name:
        titles = columns[place[kernel_name]]
        copies = np.array([titles[r].startswith("[CUDA ") for r in kept.tolist()], dtype=bool)
        for what in sorted({titles[r] for r in kept[copies].tolist()}):
            rows = [r for r in kept[copies].tolist() if titles[r] == what]
            skipped.append(Skipped(what, "a copy or a fill, not a kernel", len(rows), segment.row(rows[0])))
        kept = kept[~copies]
    launch = _launches(path, segment, columns, place, index, kept, notes)
    if kernel_name is None:
        notes.append("no column names the kernel")
        kernel = text_array([UNNAMED], np.zeros(len(kept), dtype=np.intp))
    else:
        column = columns[place[kernel_name]]
        kernel = text_array([t or UNNAMED for t in column.texts], column.codes[kept])
    if not has_units and not nvprof:
        notes.append("no row of units: they are taken from the counters' names, times in nanoseconds")

    values = np.full((len(kept), len(counters)), np.nan)
    units = np.empty((len(kept), len(counters)), dtype=object)
    unnamed_units = []
    for j, i in enumerate(counters):
        unit = columns[i][0] if has_units else None
        values[:, j], units[:, j] = _column(path, segment, segment.cells[i], columns[i], kept, unit, nvprof)
        if kept.size and (units[:, j] == UNKNOWN_UNIT).all():
            unnamed_units.append(segment.cells[i])
    if unnamed_units:
        notes.append(f"no unit is known for: {short(', '.join(unnamed_units), 300)}")
    unread = [segment.cells[i] for i in sorted(labels) if segment.cells[i] not in _USED]
    if unread:
        skipped.append(Skipped(f"columns {', '.join(unread)}", "not counters", row=segment.header_row))

    names = [segment.cells[i] for i in counters]
    good = ~np.isnan(values)
    at_record, at_column = np.nonzero(~good)
    texts = np.array(
        [columns[counters[j]][kept[r]] for r, j in zip(at_record, at_column, strict=True)], dtype=object
    )
    skipped += skipped_texts(
        text_array(names, at_column), texts, segment.rows(kept[at_record].astype(np.int64))
    )
    record, column_of = np.nonzero(good)
    instances = [INSTANCE.fullmatch(n) if nvprof else None for n in names]
    part = Part(
        kernel[record],
        launch[record],
        np.array([int(m[2]) if m else WHOLE_GPU for m in instances], dtype=np.int64)[column_of],
        text_array([m[1] if m else n for n, m in zip(names, instances, strict=True)], column_of),
        values[good],
        units[good],
        segment.rows(kept[record].astype(np.int64)),
        _devices(columns, place, kept),
        notes,
        skipped,
    )
    drop_repeats(path, part)
    return part


def _index_column(cells: tuple[str, ...], labels: set[int]) -> int | None:
    """The first column where it is a table's index: made by pandas, which calls it by nothing or by its
    own names."""
    first = cells[0].strip()
    unnamed = first in ("", "Metric Name", "index") or first.startswith("Unnamed:")
    return 0 if unnamed and 0 not in labels else None


def _is_unit_row(columns: list[TextColumn], place: dict[str, int], counters: list[int], nvprof: bool) -> bool:
    cells = [columns[i][0].strip() for i in counters]
    if any(c for c in cells if _has_number(c)):
        return False
    if "ID" in place and not nvprof:
        return not columns[place["ID"]][0].strip()
    return any(_UNITS.fullmatch(c) for c in cells)


def _has_number(text: str) -> bool:
    try:
        return not np.isnan(number(text))
    except CommaDecimalError:
        return True


def _refuse_cut(
    path: str,
    segment: Segment,
    columns: list[TextColumn],
    counters: list[int],
    kept: NDArray[np.intp],
    cut: bool,
) -> None:
    """`SmlabError` where the last row ends before the others do, or before the header does and with no
    line end."""
    last = int(kept[-1])
    if columns[-1][last]:
        return
    others = kept[:-1].tolist()
    if cut or (others and all(columns[-1][r] for r in others)):
        filled = max((i for i in range(len(columns)) if columns[i][last]), default=-1) + 1
        place = at_row(path, segment.row(last))
        raise SmlabError.at(place, "truncated: the last row is cut off", f"{filled} cells", f"{len(columns)}")


def _launches(
    path: str,
    segment: Segment,
    columns: list[TextColumn],
    place: dict[str, int],
    index: int | None,
    kept: NDArray[np.intp],
    notes: list[str],
) -> NDArray[np.int64]:
    """The launches' numbers: the column ID or the table's index; in the file's order where there is none
    or one repeats."""
    where = place.get("ID", index)
    if where is not None:
        texts = [columns[where][r].strip().replace(",", "") for r in kept.tolist()]
        numbers = [int(t) if t.isascii() and t.isdecimal() and len(t) < 16 else -1 for t in texts]
        bad = next((i for i, n in enumerate(numbers) if n < 0), None)
        if bad is not None and "ID" in place:
            row = segment.row(int(kept[bad]))
            raise SmlabError.at(
                f"{path}: row {row}: ID", "not a launch", short(texts[bad]), "a launch's number, 0 or more"
            )
        if bad is None and len(set(numbers)) == len(numbers):
            return np.array(numbers, dtype=np.int64)
        notes.append("the rows' numbers repeat or are none: launches are numbered anew, in their order")
    return np.arange(len(kept), dtype=np.int64)


def _column(
    path: str,
    segment: Segment,
    name: str,
    column: TextColumn,
    kept: NDArray[np.intp],
    unit_row: str | None,
    nvprof: bool,
) -> tuple[NDArray[np.float64], NDArray[np.object_]]:
    """Values (launches,) in base units, and their units (launches,); ``unit_row`` is the unit that the unit
    row tells."""
    values = column_numbers(path, segment, column)[kept]
    if nvprof:
        stem = INSTANCE.fullmatch(name)
        scales, row_values = _nvprof_scales(column, stem[1] if stem else name, unit_row)
        codes = column.codes[kept]
        own_values = np.array(row_values, dtype=np.float64)[codes]
        values = np.where(np.isnan(values), own_values, values)
        times, over = (np.array([s[i] for s in scales], dtype=np.float64)[codes] for i in (0, 1))
        return values * times / over, text_array([s[2] for s in scales], codes)
    up, down, unit = scale_of_name(name) if unit_row is None else scale(unit_row)
    return values * up / down, np.full(len(kept), unit, dtype=object)


def _nvprof_scales(column: TextColumn, name: str, unit: str | None) -> tuple[list[Scale], list[float]]:
    """For each text of the column: its scale, and its number where a unit or a level is written with it,
    else NaN."""
    scales, values = [], []
    for text in column.texts:
        scale_, value = nvprof_value(name, text, unit)
        scales.append(scale_)
        values.append(value)
    return scales, values


def nvprof_value(name: str, text: str, unit_text: str | None = None) -> tuple[Scale, float]:
    """The scale of a value of nvprof, and the value where it has a unit (``1.5GB/s``) or is a level (``Low
    (2)``)."""
    unit = _WITH_UNIT.fullmatch(text.strip())
    if unit and _has_number(unit[1]):
        return nvprof_scale(unit[2]), number(unit[1])
    level = _LEVEL.fullmatch(text.strip())
    if level:
        return (1, 1, "level"), float(level[1])
    if unit_text:
        return nvprof_scale(unit_text), np.nan
    return (1, 1, unit_of_name(name)), np.nan


def _devices(columns: list[TextColumn], place: dict[str, int], kept: NDArray[np.intp]) -> set[Device]:
    """The devices of the columns ``Device`` and ``CC``, or of the device attributes that ncu's raw page
    can hold."""

    def texts(*names: str) -> list[tuple[str, ...]]:
        there = [columns[place[n]] if n in place else None for n in names]
        return sorted({tuple(c[r] if c else "" for c in there) for r in kept.tolist()})

    stem = "device__attribute_"
    attribute = (
        f"{stem}{n}" for n in ("display_name", "compute_capability_major", "compute_capability_minor")
    )
    devices = set()
    for name, capability, *attributes_of in texts("Device", "CC", *attribute):
        by_column, by_attribute = device_of(name, capability), attributes(*attributes_of)
        if any(attributes_of):
            capability_known = by_attribute.compute_capability or by_column.compute_capability
            devices.add(Device(by_attribute.name, capability_known))
        else:
            devices.add(by_column)
    return {d for d in devices if d != Device()}


def attributes(name: str, major: str, minor: str) -> Device:
    """The device as its attributes tell it; parts that are empty or no numbers are left out."""
    parts = [number(t) if "," not in t else np.nan for t in (major, minor)]
    known = not any(np.isnan(parts)) and all(0 <= p < 100 and p == int(p) for p in parts)
    return Device(name.strip() or None, f"{int(parts[0])}.{int(parts[1])}" if known else None)

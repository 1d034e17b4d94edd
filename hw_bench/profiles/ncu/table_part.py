"""What a format's reader makes of one table of a file, before the file's tables are put together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.profiles.counter_table import CounterTable
from smlab.hw_bench.profiles.ncu.records import TextColumn
from smlab.hw_bench.profiles.profile import Device, Skipped, at_row, short, text_array

_ARRAYS: Final = ("kernel", "launch", "sm", "counter", "value", "unit", "row")


@dataclass
class Part:
    """The rows of one table, all arrays (rows,); ``row`` is the file's line of each."""

    kernel: NDArray[np.object_]
    launch: NDArray[np.int64]
    sm: NDArray[np.int64]
    counter: NDArray[np.object_]
    value: NDArray[np.float64]
    unit: NDArray[np.object_]
    row: NDArray[np.int64]
    devices: set[Device] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)

    def table(self) -> CounterTable:
        return CounterTable(self.kernel, self.launch, self.sm, self.counter, self.value, self.unit)

    def take(self, chosen: NDArray[np.bool_]) -> None:
        """Keep the chosen rows only."""
        for name in _ARRAYS:
            setattr(self, name, getattr(self, name)[chosen])


def joined(parts: list[Part]) -> Part:
    """The parts one after the other."""
    if len(parts) == 1:
        return parts[0]

    def all_of(name: str) -> NDArray[Any]:
        return np.concatenate([getattr(p, name) for p in parts])

    whole = Part(
        all_of("kernel"),
        all_of("launch"),
        all_of("sm"),
        all_of("counter"),
        all_of("value"),
        all_of("unit"),
        all_of("row"),
    )
    for part in parts:
        whole.devices |= part.devices
        whole.notes += [n for n in part.notes if n not in whole.notes]
        whole.skipped += part.skipped
    return whole


def group_codes(*columns: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """A number for each different combination of values, in the order of appearance, and the first row of
    each; columns (rows,), at least one."""
    import pandas as pd  # slow to import, and much of smlab does without

    codes, uniques = pd.factorize(columns[0], use_na_sentinel=False)
    for column in columns[1:]:
        more, values = pd.factorize(column, use_na_sentinel=False)
        codes, uniques = pd.factorize(codes.astype(np.int64) * len(values) + more)
    first = np.empty(len(uniques), dtype=np.intp)
    rows = np.arange(len(codes))[::-1]
    first[codes[::-1]] = rows  # the last assignment is the first row's
    return codes.astype(np.int64), first


def drop_repeats(path: str, part: Part) -> None:
    """Take out rows that repeat a counter of the same launch and SM.

    An equal value is listed as skipped. For a different one, `SmlabError`; but the labels of ncu's sections
    (with no ``__``) may mean different things in different sections, so there the first is kept and the
    others are listed.
    """
    if not len(part.value):
        return
    codes, first = group_codes(part.launch, part.sm, part.counter, part.kernel)
    if len(first) == len(codes):
        return
    repeats = np.setdiff1d(np.arange(len(codes)), first, assume_unique=True)
    firsts = first[codes[repeats]]
    differ = part.value[repeats] != part.value[firsts]
    for this, that in zip(repeats[differ].tolist(), firsts[differ].tolist(), strict=True):
        name = str(part.counter[this])
        if "__" in name or part.sm[this] >= 0 or part.unit[this] != part.unit[that]:
            what = (
                f"counter {name!r} of launch {part.launch[this]} is given twice, with another value in "
                f"row {part.row[that]}"
            )
            place = at_row(path, int(part.row[this]) or None)
            raise SmlabError.at(place, what, float(part.value[this]), f"{float(part.value[that])!r} again")
        value = f"{float(part.value[this])!r}; {float(part.value[that])!r} is kept"
        reason = f"the label stands in row {part.row[that]} already, with another value: {value}"
        part.skipped.append(Skipped(f"counter {name!r}", reason, row=int(part.row[this])))
    same = int((~differ).sum())
    if same:
        row = int(part.row[repeats[~differ]].min())
        part.skipped.append(Skipped("repeated counters", "the same counter and value stand above", same, row))
    keep = np.ones(len(part.value), dtype=bool)
    keep[repeats] = False
    part.take(keep)


def skipped_texts(
    names: NDArray[np.object_], texts: NDArray[np.object_], rows: NDArray[np.int64]
) -> list[Skipped]:
    """One entry for each counter whose value is no number; all arrays (rows,)."""
    by_name: dict[str, tuple[str, int, int]] = {}
    for name, text, row in zip(names.tolist(), texts.tolist(), rows.tolist(), strict=True):
        text_of, count, first = by_name.get(name, (text, 0, row))
        by_name[name] = (text_of, count + 1, first)
    return [
        Skipped(
            f"counter {short(name)!r}",
            f"its value is text: {short(text)!r}" if text.strip() else "no value",
            count,
            row,
        )
        for name, (text, count, row) in by_name.items()
    ]


def objects(
    column: TextColumn, records: NDArray[np.intp], instead_of_nothing: str = ""
) -> NDArray[np.object_]:
    """The column's texts at ``records``."""
    return text_array([t or instead_of_nothing for t in column.texts], column.codes[records])

"""Counters by launch: from a long table to one array a counter, with units checked."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.profiles.counter_table import WHOLE_GPU
from smlab.hw_bench.profiles.ncu.table_part import group_codes
from smlab.hw_bench.profiles.profile import UNKNOWN_UNIT, Profile

Floats = NDArray[np.float64]


def launch_groups(profile: Profile) -> NDArray[np.int64]:
    """The number of each row's (kernel, launch); shape (rows of the table,)."""
    return group_codes(profile.table.launch, profile.table.kernel)[0]


class Pivot:
    """Some of a profile's rows, by (kernel, launch, SM), in order of appearance; arrays (entities,).

    ``first`` is the first row of the table of each entity; ``group`` numbers its (kernel, launch).
    """

    def __init__(self, profile: Profile, groups: NDArray[np.int64], chosen: NDArray[np.bool_]) -> None:
        table = profile.table
        self.profile = profile
        self._chosen = np.flatnonzero(chosen)
        self._entity, first = group_codes(groups[self._chosen], table.sm[self._chosen])
        self.first = self._chosen[first]
        self.kernel = table.kernel[self.first]
        self.launch = table.launch[self.first]
        self.sm = table.sm[self.first]
        self.group = groups[self.first]
        names = table.counter[self._chosen]
        codes, first = group_codes(names)
        by_counter = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
        self._rows = dict(zip(names[first].tolist(), by_counter, strict=False))  # of no rows, split makes one

    def __len__(self) -> int:
        return len(self.first)

    def nothing(self) -> Floats:
        return np.full(len(self), np.nan)

    def get(self, counter: str, units: Iterable[str]) -> Floats:
        """The counter's values (entities,), NaN where it was not collected.

        `SmlabError` naming the row if it is in none of ``units``, or is negative.
        """
        values = self.nothing()
        local = self._rows.get(counter)
        if local is None:
            return values
        rows = self._chosen[local]
        table = self.profile.table
        allowed = (*units, UNKNOWN_UNIT)
        unit = table.unit[rows]
        good = np.zeros(len(rows), dtype=bool)
        for name in allowed:
            good |= unit == name
        if not good.all():
            bad = int(rows[~good][0])
            expected = " or ".join(repr(u) for u in allowed[:-1])
            what = f"counter {counter!r} is in another unit than expected"
            raise SmlabError.at(self.profile.where(bad), what, str(table.unit[bad]), expected)
        chosen = table.value[rows]
        wrong = ~(np.isfinite(chosen) & (chosen >= 0))
        if wrong.any():
            bad = int(rows[wrong][0])
            what = f"counter {counter!r} has an impossible value"
            raise SmlabError.at(
                self.profile.where(bad), what, float(table.value[bad]), "a finite number, 0 or more"
            )
        values[self._entity[local]] = chosen
        return values

    def unit_is(self, counter: str, unit: str) -> NDArray[np.bool_]:
        """Which entities have the counter in ``unit``."""
        matches = np.zeros(len(self), dtype=bool)
        local = self._rows.get(counter)
        if local is not None:
            matches[self._entity[local]] = self.profile.table.unit[self._chosen[local]] == unit
        return matches

    def where(self, entity: int, *counters: str) -> str:
        """The place of the first of ``counters`` that the entity has, else of its first row."""
        for counter in counters:
            for local in self._rows.get(counter, np.empty(0, dtype=np.int64)).tolist():
                if self._entity[local] == entity:
                    return self.profile.where(int(self._chosen[local]))
        return self.profile.where(int(self.first[entity]))

    def called(self, entity: int) -> str:
        """The entity, in words."""
        name = f"kernel {self.kernel[entity]!r}, launch {self.launch[entity]}"
        return name if self.sm[entity] == WHOLE_GPU else f"{name}, SM {self.sm[entity]}"


class Choice:
    """A quantity (entities,), each from the first of several sources that has it; ``source`` indexes
    ``labels``."""

    def __init__(self, pivot: Pivot, *sources: tuple[str, Floats]) -> None:
        self.labels = [label for label, _ in sources]
        self.value = pivot.nothing()
        self.source = np.full(len(pivot), -1, dtype=np.int64)
        for i, (_, values) in enumerate(sources):
            fill = np.isnan(self.value) & ~np.isnan(values)
            self.value[fill] = values[fill]
            self.source[fill] = i

    @property
    def missing(self) -> NDArray[np.bool_]:
        return np.isnan(self.value)

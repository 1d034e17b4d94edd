"""The counter table: what a profiler reports about a kernel, and what the simulator reports about its own.

One shape serves both, so that one reader and one model serve both. A row holds one counter of one kernel
launch, either on one SM or for the whole GPU (``sm = WHOLE_GPU``).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.csv_cells import check_cells, guarded, unguarded
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.files import replacing
from smlab.hw_bench.inputs import check_lines, read_bytes

WHOLE_GPU = -1
"""The value of ``sm`` in a row that speaks of the whole GPU."""

COLUMNS = ("kernel", "launch", "sm", "counter", "value", "unit")
GPU_COLUMNS = ("gpu", "compute_capability")
"""Further columns of the file, where it tells which GPU it is of; files without them are read as well."""


@dataclass(frozen=True)
class CounterRow:
    """One counter of one kernel launch; ``sm`` is the SM's index or `WHOLE_GPU`."""

    kernel: str
    launch: int
    sm: int
    counter: str
    value: float
    unit: str


@dataclass(frozen=True, repr=False)
class CounterTable:
    """Counters by column; all arrays are of shape ``(rows,)``.

    ``kernel``, ``counter`` and ``unit`` hold strings; ``launch`` and ``sm`` integers; ``value`` float64.
    ``gpu`` is the name and the compute capability of the GPU that the counters are of, where that is known.
    """

    kernel: NDArray[np.object_]
    launch: NDArray[np.int64]
    sm: NDArray[np.int64]
    counter: NDArray[np.object_]
    value: NDArray[np.float64]
    unit: NDArray[np.object_]
    gpu: tuple[str, str] | None = None

    @classmethod
    def from_rows(cls, rows: Iterable[CounterRow], gpu: tuple[str, str] | None = None) -> CounterTable:
        rows = list(rows)
        return cls(
            kernel=np.array([r.kernel for r in rows], dtype=object),
            launch=np.array([r.launch for r in rows], dtype=np.int64),
            sm=np.array([r.sm for r in rows], dtype=np.int64),
            counter=np.array([r.counter for r in rows], dtype=object),
            value=np.array([r.value for r in rows], dtype=np.float64),
            unit=np.array([r.unit for r in rows], dtype=object),
            gpu=gpu,
        )

    def __repr__(self) -> str:
        kernels, counters = (len(set(column.tolist())) for column in (self.kernel, self.counter))
        return f"<counter table: {len(self):,} values of {counters:,} counters, {kernels:,} kernels>"

    def __len__(self) -> int:
        return len(self.value)

    def rows(self) -> Iterator[CounterRow]:
        for k, launch, sm, c, v, u in zip(
            self.kernel, self.launch, self.sm, self.counter, self.value, self.unit, strict=True
        ):
            yield CounterRow(str(k), int(launch), int(sm), str(c), float(v), str(u))

    def take(self, chosen: NDArray[np.bool_] | NDArray[np.integer]) -> CounterTable:
        """The chosen rows, by mask or by index."""
        return CounterTable(gpu=self.gpu, **{name: getattr(self, name)[chosen] for name in COLUMNS})

    def values(self, counter: str, *, kernel: str | None = None, launch: int = 0) -> dict[int, float]:
        """The counter's value for each SM that reports it, ``{sm: value}`` (`WHOLE_GPU` for the GPU's own
        row)."""
        chosen = (self.counter == counter) & (self.launch == launch)
        if kernel is not None:
            chosen &= self.kernel == kernel
        return {int(s): float(v) for s, v in zip(self.sm[chosen], self.value[chosen], strict=True)}

    def value_of(
        self, counter: str, *, sm: int = WHOLE_GPU, kernel: str | None = None, launch: int = 0
    ) -> float:
        """One value; `SmlabError` naming the counter where the table does not have it."""
        values = self.values(counter, kernel=kernel, launch=launch)
        if sm not in values:
            place = "the whole GPU" if sm == WHOLE_GPU else f"SM {sm}"
            raise SmlabError(f"counter {counter!r} is missing for {place} (launch {launch})")
        return values[sm]

    def write_csv(self, path: Path) -> None:
        """Write one row a counter; the SM column is empty for the whole GPU. Rows name the GPU, if known."""
        of = self.gpu or ()
        with (
            replacing(path) as partial,
            partial.open("w", newline="", encoding="utf-8", errors="backslashreplace") as f,
        ):
            out = csv.writer(f)
            out.writerow(COLUMNS + GPU_COLUMNS[: len(of)])
            for r in self.rows():
                sm = "" if r.sm == WHOLE_GPU else r.sm
                cells = (r.kernel, r.launch, sm, r.counter, repr(r.value), r.unit, *of)
                out.writerow([guarded(cell) for cell in cells])

    @classmethod
    def read_csv(cls, path: Path) -> CounterTable:
        """Read what `write_csv` wrote; `SmlabError` with file and row on anything else."""
        content = read_bytes(path, "a counter table")
        check_lines(str(path), content)
        check_cells(str(path), content)
        try:
            text = content.decode("utf-8")
        except ValueError as error:
            raise SmlabError(f"{path}: cannot be read as a counter table: {error}") from error
        return cls.from_text(str(path), text)

    @classmethod
    def from_text(cls, where: str, text: str) -> CounterTable:
        """As `read_csv`, of text that has been read; ``where`` is what messages name as the file."""
        try:
            lines = list(csv.reader(io.StringIO(text, newline="")))
        except csv.Error as error:
            raise SmlabError(f"{where}: cannot be read as a counter table: {error}") from error
        if not lines or tuple(lines[0]) not in (COLUMNS, COLUMNS + GPU_COLUMNS):
            raise SmlabError.at(where, "not a counter table", lines[0] if lines else "", ",".join(COLUMNS))
        rows: list[CounterRow] = []
        gpus: set[tuple[str, ...]] = set()
        for number, line in enumerate(lines[1:], start=2):
            try:
                if len(line) != len(lines[0]):
                    raise ValueError(f"{len(line)} cells, not {len(lines[0])}")  # noqa: TRY301
                kernel, launch, sm, counter, value, unit = map(unguarded, line[: len(COLUMNS)])
                gpus.add(tuple(map(unguarded, line[len(COLUMNS) :])))
                integers = int(launch), int(sm) if sm else WHOLE_GPU
                if not all(-1 <= i < 2**63 for i in integers):
                    raise ValueError("a launch or an SM out of range")  # noqa: TRY301
                rows.append(CounterRow(kernel, *integers, counter, float(value), unit))
            except ValueError as error:
                expected = ",".join(lines[0])
                raise SmlabError.at(f"{where}: row {number}", str(error), line, expected) from error
        if len(gpus) > 1:
            named = ", ".join(sorted({" ".join(g) for g in gpus}))
            raise SmlabError.at(where, "mixed GPUs", named, "one GPU a file")
        name, capability = next(iter(gpus), None) or ("", "")
        return cls.from_rows(rows, (name, capability) if name or capability else None)

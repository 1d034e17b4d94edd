"""Data sets on disk: a CSV for each benchmark with units in its header, the samples in order, and a JSON
about both.

Rows are written batch by batch, samples and JSON every few seconds and at the end, so that a crash loses
little. A batch is done when its name is in the JSON; a run that is resumed in the same folder skips it.
"""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.arrays import load_arrays
from smlab.hw_bench.csv_cells import check_cells
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.files import replacing, write_atomic
from smlab.hw_bench.inputs import load_json, read_bytes

VERSION = 1
_FLUSH_S = 10.0


class DataSet:
    """One benchmark's results in a folder: ``NAME.csv``, ``NAME.json`` and ``NAME.samples.npz``."""

    def __init__(
        self, folder: Path, name: str, columns: Sequence[str], about: Mapping[str, Any], resume: bool
    ) -> None:
        self.table = folder / f"{name}.csv"
        self.note = folder / f"{name}.json"
        self.archive = folder / f"{name}.samples.npz"
        self._columns = list(columns)
        self._samples: dict[str, Any] = {}
        self._flushed = time.monotonic()
        self.wrong_before: list[str] = []
        self._about: dict[str, Any] = {
            "version": VERSION,
            "benchmark": name,
            **about,
            "complete": False,
            "batches": {},
        }
        folder.mkdir(parents=True, exist_ok=True)
        if resume and self.note.exists():
            self._resume()
        else:
            with self.table.open("w", newline="") as file:
                csv.writer(file).writerow(self._columns)
            self._flush()

    @property
    def rows(self) -> int:
        """How many rows are kept."""
        return sum(batch.get("rows", 0) for batch in self._about["batches"].values())

    @property
    def done(self) -> frozenset[str]:
        """Names of the batches that are complete."""
        return frozenset(self._about["batches"])

    def add(
        self,
        batch: str,
        rows: Iterable[Mapping[str, Any]],
        samples: Mapping[str, NDArray[np.generic]],
        about: Mapping[str, Any],
    ) -> None:
        """Append one batch. ``samples`` are arrays whose rows follow the table's."""
        with self.table.open("a", newline="") as file:
            writer = csv.DictWriter(file, self._columns)
            count = 0
            for row in rows:
                writer.writerow(row)
                count += 1
        for key, array in samples.items():
            self._samples[f"{batch}/{key}"] = array
        self._about["batches"][batch] = {"rows": count, **about}
        if time.monotonic() - self._flushed > _FLUSH_S:
            self._flush()

    def close(self, **about: Any) -> None:
        """Write what is left, and last words about the run."""
        self._about.update(about)
        self._flush()

    def _flush(self) -> None:
        """Samples first: what the JSON names as done is there."""
        with replacing(self.archive) as partial:
            np.savez_compressed(partial, **self._samples)
        write_atomic(self.note, json.dumps(self._about, indent=1) + "\n")
        self._flushed = time.monotonic()

    def _resume(self) -> None:
        """Resume the run that this folder holds; rows that the JSON does not know are dropped."""
        before = read_note(self.note)
        for key in ("version", "benchmark", "profile", "gpu", "compute_capability", "packages"):
            if before.get(key) != self._about.get(key):
                raise SmlabError.at(
                    f"{self.note}: {key}", "is of another run", before.get(key), repr(self._about.get(key))
                )
        # Two GPUs of one kind are not one GPU.
        uuids = [about.get("settings", {}).get("uuid") for about in (before, self._about)]
        if None not in uuids and uuids[0] != uuids[1]:
            raise SmlabError.at(f"{self.note}: uuid", "is of another GPU", uuids[0], repr(uuids[1]))
        self._about["batches"] = before.get("batches", {})
        self._about["earlier_runs"] = [
            *before.get("earlier_runs", []),
            {key: before.get(key) for key in ("began", "ended", "failure", "commit", "driver", "host")},
        ]
        self.wrong_before = list(before.get("wrong_results", []))
        rows = self.rows
        lines = table_bytes(self.table).decode("utf-8", "replace").splitlines(keepends=True)
        if not lines or lines[0].strip().split(",") != self._columns or len(lines) < rows + 1:
            what, expected = "does not fit its JSON and cannot be resumed", "a run without --resume"
            raise SmlabError.at(str(self.table), what, expected=expected)
        write_atomic(self.table, "".join(lines[: rows + 1]))
        if self.archive.exists():
            self._samples = dict(load_arrays(self.archive))


_PARTS = {
    "batches": dict,
    "machine_code": dict,
    "settings": dict,
    "wrong_results": list,
    "earlier_runs": list,
}
"""Parts of a note that are tables or lists where they are there."""


def read_note(path: Path) -> dict[str, Any]:
    """The JSON of a data set.

    Raises:
        SmlabError: no such file, or what `DataSet` does not write.
    """
    about = load_json(path, "the note of a data set")
    if not isinstance(about, dict):
        raise SmlabError.at(str(path), "is not the note of a data set", about, "a table")
    for key, kind in _PARTS.items():
        if not isinstance(about.get(key, kind()), kind):
            expected = "a table" if kind is dict else "a list"
            raise SmlabError.at(f"{path}: {key}", "is unusable", about[key], expected)
    for part in ("batches", "machine_code"):
        for name, entry in about.get(part, {}).items():
            if not isinstance(entry, dict):
                raise SmlabError.at(f"{path}: {part}.{name}", "is unusable", entry, "a table")
            rows = entry.get("rows", 0)
            if type(rows) is not int or rows < 0:
                raise SmlabError.at(f"{path}: {part}.{name}.rows", "is no count", rows, "0 or more")
    return about


def find_table(folder: Path, name: str) -> Path | None:
    """A benchmark's table in a folder: ``NAME.csv``, or ``NAME.csv.gz`` as it may be kept; None where
    there is neither."""
    for path in (folder / f"{name}.csv", folder / f"{name}.csv.gz"):
        if path.is_file():
            return path
    return None


def table_bytes(path: Path) -> bytes:
    """The text of a table as it was written, unpacked where it is kept packed.

    Raises:
        SmlabError: for a file that cannot be read.
    """
    return read_bytes(path, "a table of a benchmark")


def read_table(path: Path) -> dict[str, NDArray[Any]]:
    """A data set's columns by header, numbers where all values are numbers.

    Raises:
        SmlabError: naming the row that has too few or too many values.
    """
    content = table_bytes(path)
    check_cells(str(path), content)
    try:
        lines = list(csv.reader(io.StringIO(content.decode())))
    except (UnicodeDecodeError, csv.Error) as error:
        raise SmlabError(f"{path}: is not a table: {error}") from error
    if not lines:
        raise SmlabError.at(str(path), "is empty", expected="a header and rows")
    for number, line in enumerate(lines[1:], start=2):
        if len(line) != len(lines[0]):
            raise SmlabError.at(
                f"{path}, row {number}", "wrong number of values", len(line), str(len(lines[0]))
            )
    columns = {}
    for at, header in enumerate(lines[0]):
        texts = [line[at] for line in lines[1:]]
        column: NDArray[Any]
        try:
            column = np.array([int(text) for text in texts], dtype=np.int64)
        except (ValueError, OverflowError):
            try:
                column = np.array([float(text) for text in texts])
            except ValueError:
                column = np.array(texts, dtype=object)
        columns[header] = column
    return columns

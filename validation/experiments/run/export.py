"""The table of points, in the order of the design, as rows, as CSV, as Parquet, and read again.

Columns: ``case`` (0 is the base; otherwise the number in the design), ``replication``, ``seed``, a column
for each factor under its name, a column for each response, and ``error``, why a point failed (its
responses are then missing) or empty.
"""

from __future__ import annotations

import csv
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from smlab.hw_bench.csv_cells import guarded, unguarded
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.files import replacing
from smlab.validation.experiments.design.study import Study
from smlab.validation.experiments.design.values import Value
from smlab.validation.experiments.run.points import Numbering, Point, PointResult, PointStore
from smlab.validation.experiments.systems.base import SPEEDUP

if TYPE_CHECKING:
    import pandas

Row = tuple[Value | None, ...]

AT_ONCE: Final = 2000
LEADING: Final = ("case", "replication", "seed")


def columns(study: Study) -> tuple[str, ...]:
    """The columns of the table of points."""
    return (*LEADING, *(factor.name for factor in study.factors), *study.responses, "error")


def finished_points(
    numbering: Numbering, store: PointStore, counts: Iterable[tuple[int, int, int]]
) -> Iterator[tuple[Point, PointResult]]:
    """Finished points by case and replication, ``(case, first, end)``; memory does not grow with their
    number."""
    points = numbering.points(counts)
    while chunk := list(itertools.islice(points, AT_ONCE)):
        found = store.get([point.hash for point in chunk])
        for point in chunk:
            yield point, found[point.hash]


def table_rows(
    study: Study, numbering: Numbering, store: PointStore, replications: Iterable[int]
) -> Iterator[Row]:
    """The rows of the table; ``replications`` says how many each case has."""
    stored = {name: i for i, name in enumerate(study.system.responses)}
    base: list[float] = []  # the base's seconds, by replication
    counts = ((case, 0, int(end)) for case, end in enumerate(replications))
    for point, found in finished_points(numbering, store, counts):
        responses: list[float | None] = [None] * len(study.responses)
        if not found.error:
            if SPEEDUP in study.responses and point.case == 0:
                base.append(found.responses[stored["seconds"]])
            responses = [
                base[point.replication] / found.responses[stored["seconds"]]
                if name == SPEEDUP
                else found.responses[stored[name]]
                for name in study.responses
            ]
        yield (point.case, point.replication, point.seed, *point.values, *responses, found.error)


@contextmanager
def _in_place(path: Path) -> Iterator[Path]:
    """A file to write that takes the place of ``path`` once it is whole."""
    try:
        with replacing(path) as partial:
            yield partial
    except OSError as error:
        raise SmlabError(f"{path}: cannot be written: {error.strerror or error}") from error


def write_csv(path: Path, names: Sequence[str], table: Iterable[Row]) -> None:
    """Write the rows as they come, numbers so that they read back exactly."""
    with _in_place(path) as partial, partial.open("w", newline="", encoding="utf-8") as f:
        out = csv.writer(f, lineterminator="\n")
        out.writerow(names)
        out.writerows([_text(value) for value in row] for row in table)


def _text(value: Value | None) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(guarded(value))


def write_parquet(study: Study, path: Path, table: Iterable[Row]) -> None:
    """As `write_csv`, in row groups of `AT_ONCE`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = columns(study)
    schema = pa.schema([(name, kind) for name, kind in zip(names, _arrow_types(study), strict=True)])
    iterator = iter(table)
    # A file of Python's own: pyarrow takes no name that is not UTF-8.
    with _in_place(path) as partial, partial.open("wb") as file, pq.ParquetWriter(file, schema) as out:
        while chunk := list(itertools.islice(iterator, AT_ONCE)):
            arrays = [
                pa.array([_for_arrow(v, field.type) for v in column], field.type)
                for column, field in zip(zip(*chunk, strict=True), schema, strict=True)
            ]
            out.write_table(pa.Table.from_arrays(arrays, schema=schema))


def _arrow_types(study: Study) -> Iterator[Any]:
    import pyarrow as pa

    yield from [pa.int64()] * len(LEADING)
    for factor in study.factors:
        values = (*factor.levels, factor.base)
        if all(isinstance(v, bool) for v in values):
            yield pa.bool_()
        elif factor.is_number:
            yield pa.int64() if factor.whole else pa.float64()
        else:
            yield pa.string()
    yield from [pa.float64()] * len(study.responses)
    yield pa.string()


def _for_arrow(value: Value | None, kind: Any) -> Any:
    return str(value) if str(kind) == "string" and value is not None else value


def read_points(path: Path) -> pandas.DataFrame:
    """The table of points of a finished study: its folder, ``points.csv`` or ``points.parquet``. Missing
    responses are NaN."""
    import pandas as pd

    if path.is_dir():
        path = path / "points.csv"
    try:
        if path.suffix == ".parquet":
            with path.open("rb") as file:
                return pd.read_parquet(file)
        frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    except (OSError, ValueError) as error:
        raise SmlabError(f"{path}: cannot be read as a table of points: {error}") from error
    if tuple(frame.columns[: len(LEADING)]) != LEADING or frame.columns[-1] != "error":
        expected = ", ".join((*LEADING, "...", "error"))
        raise SmlabError.at(str(path), "not a table of points", list(frame.columns), expected)
    for name in frame.columns[:-1]:
        frame[name] = _numbers(frame[name].tolist())
    return frame


def _numbers(texts: list[str]) -> list[Any]:
    """A column as what it was written from; a number reads back exactly."""
    if set(texts) <= {"true", "false"}:
        return [text == "true" for text in texts]
    for kind in (int, float):
        try:
            return [kind(text) if text or kind is int else math.nan for text in texts]
        except ValueError:
            continue
    return [unguarded(text) for text in texts]

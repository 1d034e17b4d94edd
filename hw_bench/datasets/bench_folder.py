"""Reader of what ``smlab bench run`` leaves in a folder, as times of kernels: its portability benchmark.

A row is one kernel at one size and grid; its launches are in the samples' archive, in the order in which they
ran. Other benchmarks of the suite measure points of their own, not kernels to be compared.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.arrays import load_arrays
from smlab.hw_bench.cuda.measuring.dataset import find_table, read_table
from smlab.hw_bench.datasets.tuning import TuningTimes
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.inputs import load_json

BENCHMARK: Final = "portability"
_NEEDED: Final = ("kernel", "size", "blocks", "threads", "seconds_median")


def read_bench_folder(path: Path) -> TuningTimes:
    """The kernels of the portability benchmark of a run.

    Raises:
        SmlabError: a folder without it, a table that is not whole, samples that do not fit it.
    """
    table = find_table(path, BENCHMARK)
    if table is None:
        expected = f"{BENCHMARK}.csv, as smlab bench run --benchmark {BENCHMARK} writes it"
        raise SmlabError.at(str(path), "no times of kernels in this folder", expected=expected)
    columns = read_table(table)
    for name in _NEEDED:
        if name not in columns:
            raise SmlabError.at(str(table), "a column is missing", name, ", ".join(_NEEDED))
    count = len(columns["kernel"])
    if not count:
        raise SmlabError.at(str(table), "no kernel in it", expected="a row for each kernel and grid")
    numbers = {name: _numbers(table, name, columns[name]) for name in _NEEDED[1:]}
    kernel = columns["kernel"].astype(object)
    note = _note(path)
    # A simulated series is the way of the caches to its last launch, which alone is compared.
    exact = "SIMULATED" in note
    steady = numbers["seconds_median"]
    runs = tuple((float(s),) for s in steady) if exact else _runs(path, kernel, steady)
    unknown = np.full(count, np.nan)
    return TuningTimes(
        path=path,
        device=str(note.get("gpu", "")),
        parameters=("size", "blocks", "threads"),
        kernel=kernel,
        config=tuple(
            (int(size), int(blocks), int(threads))
            for size, blocks, threads in zip(
                numbers["size"], numbers["blocks"], numbers["threads"], strict=True
            )
        ),
        seconds=numbers["seconds_median"],
        runs=runs,
        blocks=numbers["blocks"],
        threads_per_block=numbers["threads"],
        registers_per_thread=_of_code(note, kernel, "registers"),
        shared_bytes_per_block=_of_code(note, kernel, "static_shared_bytes"),
        local_bytes_per_thread=unknown,
        counters=None,
        failed=(),
        exact=exact,
    )


def _numbers(table: Path, name: str, column: NDArray[Any]) -> NDArray[np.float64]:
    try:
        values = np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.full(len(column), np.nan)
    least = 0.0 if name == "size" else np.nextafter(0, 1)
    wrong = np.flatnonzero(~(np.isfinite(values) & (values >= least)))
    if len(wrong):
        row = int(wrong[0])
        raise SmlabError.at(f"{table}: row {row + 2}: {name}", "unusable value", column[row], "above 0")
    return values


def _runs(
    path: Path, kernel: NDArray[np.object_], seconds: NDArray[np.float64]
) -> tuple[tuple[float, ...], ...]:
    """Launches of each row: rows of a kernel in the table's order are rows of its array of samples."""
    archive = path / f"{BENCHMARK}.samples.npz"
    if not archive.is_file():
        return tuple((float(s),) for s in seconds)
    arrays = load_arrays(archive)
    samples = {name: array.astype(np.float64) for name, array in arrays.items() if array.dtype.kind in "iufb"}
    runs: list[tuple[float, ...]] = []
    seen: dict[str, int] = {}
    for name, median in zip(kernel.tolist(), seconds.tolist(), strict=True):
        at = seen.get(name, 0)
        seen[name] = at + 1
        of = samples.get(f"{name}/seconds")
        if of is None or of.ndim != 2 or at >= len(of):
            runs.append((median,))
            continue
        launches = of[at][np.isfinite(of[at]) & (of[at] > 0)]
        runs.append(tuple(launches.tolist()) or (median,))
    return tuple(runs)


def _note(path: Path) -> dict[str, Any]:
    """The run's note; empty where there is none."""
    file = path / f"{BENCHMARK}.json"
    note = load_json(file, "the note of a run") if file.is_file() else {}
    return note if isinstance(note, dict) else {}


def _of_code(note: dict[str, Any], kernel: NDArray[np.object_], what: str) -> NDArray[np.float64]:
    """A number of each row's machine code, (rows,), NaN where the note does not tell it."""
    codes = note.get("machine_code")
    values = []
    for name in kernel.tolist():
        code = codes.get(name) if isinstance(codes, dict) else None
        value = code.get(what) if isinstance(code, dict) else None
        known = isinstance(value, int) and not isinstance(value, bool)
        values.append(float(value) if known and value is not None and value >= 0 else np.nan)
    return np.array(values)

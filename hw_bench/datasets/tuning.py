"""What a search by an auto-tuner measured on one device: what every reader of such files gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.inputs import load_json
from smlab.hw_bench.profiles.counter_table import CounterTable
from smlab.hw_bench.profiles.profile import Device, Profile

Floats = NDArray[np.float64]
Parameter = int | float | str | bool

SECONDS: Final = {
    "seconds": 1.0,
    "milliseconds": 1e-3,
    "miliseconds": 1e-3,
    "microseconds": 1e-6,
    "nanoseconds": 1e-9,
}
"""Units of time as tuners write them; "miliseconds" is how the T4 files that Kernel Tuner writes spell it."""


@dataclass(frozen=True)
class Application:
    """What a GPU did over a whole trace, in seconds: from its first piece of work to its last (``span_s``),
    the sums of kernels, of copies and of memsets, and the time in which it had nothing to do (``gaps_s``);
    pieces that overlap count once there. ``launches`` and ``copies`` are numbers of kernels and of copies
    with memsets."""

    span_s: float
    kernels_s: float
    copies_s: float
    memsets_s: float
    gaps_s: float
    launches: int
    copies: int


@dataclass(frozen=True, eq=False)
class TuningTimes:
    """One row a kernel of a configuration that ran; arrays ``(rows,)``, NaN where a file does not tell.

    ``device`` is the GPU's name as the file has it ("" where it has none). ``config`` holds each row's
    parameters, in the order of ``parameters``. ``seconds`` is the median of ``runs``, the raw times in the
    order in which they were taken. ``blocks``, ``threads_per_block``, ``registers_per_thread``,
    ``shared_bytes_per_block`` and ``local_bytes_per_thread`` are of the launch, ``grid`` and ``block`` its
    shapes, (rows, 3), None where the format has none. ``counters`` is the counter table of a profile, its
    ``launch`` the row's number here. ``failed`` lists configurations that did not run, each with the
    reason. ``exact`` times were simulated: another launch would take as long. ``starts_s`` are the
    beginnings of ``runs`` and ``application`` is the whole of a trace, None where the format tells of
    neither.
    """

    path: Path
    device: str
    parameters: tuple[str, ...]
    kernel: NDArray[np.object_]
    config: tuple[tuple[Parameter, ...], ...]
    seconds: Floats
    runs: tuple[tuple[float, ...], ...]
    blocks: Floats
    threads_per_block: Floats
    registers_per_thread: Floats
    shared_bytes_per_block: Floats
    local_bytes_per_thread: Floats
    counters: CounterTable | None
    failed: tuple[tuple[str, str], ...]
    grid: Floats | None = None
    block: Floats | None = None
    exact: bool = False
    starts_s: tuple[tuple[float, ...], ...] | None = None
    application: Application | None = None

    def __len__(self) -> int:
        return len(self.seconds)

    def labels(self) -> list[str]:
        """A name for each row by which rows of two GPUs are matched: the kernel and its parameters."""
        return [
            f"{kernel} {label_of(self.parameters, config)}"
            for kernel, config in zip(self.kernel, self.config, strict=True)
        ]

    def column(self, parameter: str) -> NDArray[np.object_]:
        """One parameter's values, (rows,); `SmlabError` for one that the space does not have."""
        if parameter not in self.parameters:
            known = ", ".join(self.parameters)
            raise SmlabError.at(str(self.path), "no such tuning parameter", parameter, f"one of {known}")
        at = self.parameters.index(parameter)
        values = np.empty(len(self), dtype=object)
        values[:] = [row[at] for row in self.config]
        return values

    def profile(self) -> Profile:
        """The counters as a profile, for the readers of `smlab.hw_bench.profiles`; `SmlabError` without."""
        if self.counters is None:
            expected = "a search with profiling switched on"
            raise SmlabError.at(str(self.path), "holds times but no profiler's counters", expected=expected)
        rows = np.zeros(len(self.counters), dtype=np.int64)
        devices = (Device(self.device),) if self.device else ()
        return Profile(str(self.path), "tuning", "ncu", self.counters, rows, devices)

    def take(self, rows: Sequence[int]) -> TuningTimes:
        """Some rows, without their counters (whose launches are numbered by row)."""
        index = np.asarray(rows, dtype=np.int64)
        picked: dict[str, Any] = {
            f.name: getattr(self, f.name)[index]
            for f in fields(self)
            if f.name in _ARRAYS and getattr(self, f.name) is not None
        }
        lists = ("config", "runs", *(() if self.starts_s is None else ("starts_s",)))
        picked |= {name: tuple(getattr(self, name)[i] for i in index.tolist()) for name in lists}
        return replace(self, **picked, counters=None)


_ARRAYS: Final = (
    *("kernel", "seconds", "grid", "block", "blocks", "threads_per_block"),
    *("registers_per_thread", "shared_bytes_per_block", "local_bytes_per_thread"),
)


def label_of(parameters: Sequence[str], config: Sequence[Parameter]) -> str:
    """``a=1, b=2`` for the parameters and values of one configuration; a configuration that is one text (of
    a plain table) as it is."""
    if tuple(parameters) == ("config",):
        return str(config[0])
    return ", ".join(f"{name}={value}" for name, value in zip(parameters, config, strict=True))


def read_json(path: Path) -> Any:
    """The file's content; `SmlabError` naming the file (and line) for one that cannot be read or parsed."""
    return load_json(path, repaired=_closed)


def _closed(text: str) -> str:
    """A Kernel Tuner cache of a search that was cut off lacks its last brackets: the file is open-ended by
    design, a line a configuration, each ended by a comma."""
    if not text.lstrip().startswith('{"') and '"cache": {' not in text[:100_000]:
        return text
    tail = text.rstrip()
    return tail[:-1] + "}}" if tail.endswith("},") and '"cache":' in tail else text


def field_of(where: str, holder: Any, name: str, kind: type | tuple[type, ...], says: str) -> Any:
    """``holder[name]`` if it is there and of ``kind``; else `SmlabError` with what it should be."""
    if not isinstance(holder, Mapping) or name not in holder:
        raise SmlabError.at(f"{where}: {name}", "is missing", expected=says)
    value = holder[name]
    if not isinstance(value, kind) or (isinstance(value, bool) and bool not in _several(kind)):
        raise SmlabError.at(f"{where}: {name}", "unusable value", _short(value), says)
    return value


def table_of(where: str, holder: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """``holder[name]``, empty where it is missing or null; `SmlabError` for what is no table."""
    value = holder.get(name)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise SmlabError.at(f"{where}: {name}", "is not a table", _short(value))
    return value


def _several(kind: type | tuple[type, ...]) -> tuple[type, ...]:
    return kind if isinstance(kind, tuple) else (kind,)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def time_of(where: str, value: Any, unit_s: float) -> float:
    """A time in seconds; `SmlabError` unless it is a number above 0."""
    good = isinstance(value, int | float) and not isinstance(value, bool)
    seconds = float(value) * unit_s if good else np.nan
    if not 0 < seconds < np.inf:
        raise SmlabError.at(where, "unusable time", _short(value), "a number above 0")
    return seconds


def unit_seconds(where: str, name: str) -> float:
    """What one of the file's units of time is in seconds."""
    seconds = SECONDS.get(name.strip().lower())
    if seconds is None:
        raise SmlabError.at(where, "unknown unit of time", name, "one of " + ", ".join(SECONDS))
    return seconds


def read_folder(path: Path, read: Callable[[Path], TuningTimes], what: str) -> list[TuningTimes]:
    """One set a file of a folder (``.json``, ``.json.gz``), or of ``path`` itself; `SmlabError` if none.

    Files of the folder that ``read`` refuses are an error as well: nothing is left out silently.
    """
    if path.is_file():
        return [read(path)]
    if not path.is_dir():
        raise SmlabError.at(str(path), "no such file or folder", expected=f"a folder with {what}")
    files = sorted([*path.glob("*.json"), *path.glob("*.json.gz")])
    if not files:
        raise SmlabError.at(str(path), "no JSON file in it", expected=what)
    return [read(file) for file in files]

"""The record of measured kernels: whole kernels whose source and time on a card are public.

A set is a TOML file in ``record/``: the card, who measured, with which compiler, at which clock if that is
known, where the source is, the arguments, and the rows. Few published figures stand in the file
(``[[row]]``, each with macros of its own in ``defines`` if it needs them). The rows of an exhaustive search
are read from the search's own file (``[tuning]``), which is not in the repository: it is looked for in a
folder of measurements by others, and of its rows some are drawn by a seed (``[tuning.rested]``: only of those
that a rested card ran). Where the authors described their kernels and published no source, or their source
may not be copied, the kernels are ours and lie in ``record/`` too (``ships``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.datasets.kernel_tuner import read_search
from smlab.hw_bench.datasets.ktt import read_ktt
from smlab.hw_bench.datasets.tuning import TuningTimes, field_of
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.inputs import load_toml, read_bytes

RECORD: Final = Path(__file__).with_name("record")
TIMERS: Final = {
    "events": "launch.events_overhead_s",
    "launches in a row": "launch.gap_s",
    "profiler": "launch.profiled_overhead_s",
}
"""How times were taken, with the constant of the card that they have beyond the time of the SMs."""
READERS: Final = {"ktt": read_ktt, "kernel-tuner": read_search}
Shape = tuple[int, int, int] | None


@dataclass(frozen=True, eq=False)
class MeasuredKernel:
    """A kernel as it was measured: ``source`` is its CUDA C, ``macros`` what it is compiled with. ``grid``
    and ``block`` are None where the set's ``launch`` says them by a formula of ``macros`` and
    ``parameters``. ``shared_bytes`` is dynamic."""

    name: str
    kernel: str
    where: Path
    source: str
    macros: Mapping[str, str]
    parameters: Mapping[str, object]
    grid: Shape
    block: Shape
    seconds: float
    shared_bytes: int = 0


@dataclass(frozen=True, eq=False)
class MeasuredKernelSet:
    """Kernels that one author measured on one card. ``kind`` says what limits such kernels. ``clock_hz`` is
    None where nobody told it. ``timer`` is a key of `TIMERS`; it is empty where the source says nothing, or
    the times are differences. ``launch`` holds the tables of a launch file. ``developed``: rules or constants
    were changed after a look at it, so it tells nothing of kernels that nobody has seen."""

    name: str
    title: str
    gpu: str
    kind: str
    source: str
    compiler: str
    clock_hz: float | None
    launch: dict[str, Any]
    kernels: tuple[MeasuredKernel, ...] = field(repr=False)
    developed: bool = False
    timer: str = ""


def list_sets() -> tuple[str, ...]:
    """The names of all sets of the record."""
    return tuple(sorted(path.stem for path in RECORD.glob("*.toml")))


def read_measured(name: str, data: Path, rows: int, seed: int = 0) -> MeasuredKernelSet:
    """A set of the record, with up to ``rows`` of its kernels, drawn by ``seed``; ``data`` is the folder of
    measurements by others.

    Raises:
        SmlabError: an unknown set, or a file of it that is not there or not what it should be.
    """
    if name not in list_sets():
        raise SmlabError.at("--set", "no such set of the record", name, "one of " + ", ".join(list_sets()))
    path = RECORD / f"{name}.toml"
    raw = load_toml(path)
    code = raw.get("code", {})
    ships = code.get("ships", False)
    folder = (RECORD if ships else data) / field_of(str(path), raw, "folder", str, "a folder of the data")
    if not folder.is_dir():
        expected = "measurements by others, as the set's source names them (--data)"
        raise SmlabError.at(name, "its files are not there", str(folder), expected)
    kernels = _published(raw, folder, code) if "row" in raw else _tuned(raw, folder, code)
    order = np.random.default_rng(seed).permutation(len(kernels))[:rows]
    return MeasuredKernelSet(
        name=name,
        title=raw["title"],
        gpu=raw["gpu"],
        kind=raw["kind"],
        source=raw["source"],
        compiler=raw["compiler"],
        clock_hz=raw.get("clock_hz"),
        developed="developed" in raw and field_of(str(path), raw, "developed", bool, "true or false"),
        timer=_timer(path, raw),
        launch={key: raw[key] for key in ("launch", "argument", "constant") if key in raw},
        kernels=tuple(kernels[n] for n in sorted(order.tolist())),
    )


def _timer(path: Path, raw: Mapping[str, Any]) -> str:
    """How the times of a set were taken; empty where it does not say."""
    if "timer" not in raw:
        return ""
    expected = "one of " + ", ".join(TIMERS)
    timer: str = field_of(str(path), raw, "timer", str, expected)
    if timer not in TIMERS:
        raise SmlabError.at(f"{path}: timer", "is none that we know", timer, expected)
    return timer


def _published(raw: Mapping[str, Any], folder: Path, code: Mapping[str, Any]) -> list[MeasuredKernel]:
    return [
        MeasuredKernel(
            name=row["name"],
            kernel=row["kernel"],
            where=folder / row["file"],
            source=_text(folder / row["file"], code, row),
            macros={**code.get("defines", {}), **row.get("defines", {})},
            parameters={},
            grid=_shape(row["grid"]),
            block=_shape(row["block"]),
            seconds=float(row["seconds"]),
            shared_bytes=row.get("shared_bytes", 0),
        )
        for row in raw["row"]
    ]


def _tuned(raw: Mapping[str, Any], folder: Path, code: Mapping[str, Any]) -> list[MeasuredKernel]:
    tuning = raw["tuning"]
    times: TuningTimes = READERS[tuning["format"]](folder / tuning["file"])
    where, names = tuning.get("where", {}), tuning.get("macros", {})
    source = _text(folder / code["file"], code, {})
    rested = _rested(times, tuning.get("rested"))
    kernels = []
    for row, (label, config) in enumerate(zip(times.labels(), times.config, strict=True)):
        parameters = dict(zip(times.parameters, config, strict=True))
        if not rested[row] or any(parameters.get(key) != value for key, value in where.items()):
            continue
        shapes = [
            None if s is None else _shape(np.rint(s[row]).astype(int)) for s in (times.grid, times.block)
        ]
        kernels.append(
            MeasuredKernel(
                name=label,
                kernel=tuning["kernel"],
                where=folder / code["file"],
                source=source,
                macros={
                    **code.get("defines", {}),
                    **{names.get(k, k): str(v) for k, v in parameters.items()},
                },
                parameters=parameters,
                grid=shapes[0],
                block=shapes[1],
                seconds=float(times.seconds[row]),
            )
        )
    return kernels


def _rested(times: TuningTimes, rested: Mapping[str, Any] | None) -> NDArray[np.bool_]:
    """The rows that a rested card ran, (rows,): all launches of such a row took less than ``work_s``
    together, and so did those of each of the ``rows`` before it in the file. A card whose clock is not
    locked raises it after some work and keeps it for a while, so these rows have one clock. All rows where a
    set says nothing."""
    work = np.array([sum(runs) for runs in times.runs])
    if rested is None:
        return np.ones(len(work), dtype=bool)
    before = np.lib.stride_tricks.sliding_window_view(
        np.concatenate([np.zeros(rested["rows"]), work]), rested["rows"] + 1
    )
    return np.asarray(before.max(axis=1) < rested["work_s"])


def _text(path: Path, code: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """A kernel's source, without its includes if the set says so, with what is put before and after it."""
    text = read_bytes(path, "CUDA C").decode(errors="replace")
    if not code.get("includes", True):
        text = "\n".join("" if line.lstrip().startswith("#include") else line for line in text.splitlines())
    parts = (code.get("before", ""), row.get("before", ""), text, row.get("after", ""))
    return "\n".join(part for part in parts if part)


def _shape(numbers: Sequence[int]) -> tuple[int, int, int]:
    x, y, z = [*(int(n) for n in numbers), 1, 1][:3]
    return x, y, z

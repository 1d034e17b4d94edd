"""A program as a file: kernels one after the other on the same arrays.

The file is a launch file (`smlab.sim.isa.launch.launch_file`) with a table ``[[step]]`` for each kernel, in
their order. A step has ``kernel`` (a file, from the program's folder; without it the one that is given beside
the program), ``name`` (which kernel of the file), ``arguments`` (names of ``[[argument]]``, or numbers of the
parameter's own type), ``repeat`` (how many times it is launched in a row) and what ``[launch]`` has. What a
step does not say, ``[launch]`` and ``[options]`` say for all.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.inputs import check_keys, load_toml
from smlab.sim.isa.launch.launch_file import (
    LAUNCH_KEYS,
    FileArguments,
    LaunchFile,
    arguments_of,
    options_of,
    shape_of,
    whole_number,
)
from smlab.sim.isa.launch.tensor_map import TensorMap

_STEP_KEYS: Final = ("kernel", "name", "arguments", "repeat", "options", *LAUNCH_KEYS)
MOST_LAUNCHES: Final = 1_000_000


@dataclass(frozen=True)
class ProgramStep:
    """A kernel of a program, launched ``repeat`` times. ``kernel`` is None for the file that is given beside
    the program, and ``name`` for the file's only kernel. ``launch`` has the step's own arguments."""

    kernel: str | None
    name: str | None
    launch: LaunchFile
    repeat: int


@dataclass(frozen=True)
class ProgramFile:
    """A program as written down; ``arguments`` are those that steps share, whose arrays are made anew for
    each run."""

    arguments: FileArguments
    steps: tuple[ProgramStep, ...]


def read_program(path: Path, macros: Mapping[str, object] | None = None) -> ProgramFile | None:
    """Read a program; None for a launch of one kernel. ``macros`` are what its texts may name.

    Raises:
        SmlabError: naming the step and the key that is missing, unknown or wrong.
    """
    raw, where, given = load_toml(path), str(path), dict(macros or {})
    if "step" not in raw:
        return None
    check_keys(where, raw, ("launch", "argument", "constant", "options", "step"))
    common, rows = raw.get("launch", {}), raw["step"]
    if not isinstance(common, dict):
        raise SmlabError.at(f"{where}: launch", "is not a table", common, "[launch]")
    check_keys(f"{where}: [launch]", common, LAUNCH_KEYS)
    if not isinstance(rows, list) or not rows:
        raise SmlabError.at(f"{where}: step", "is not a list of tables", rows, "[[step]]")
    data = arguments_of(where, raw, path.parent)
    options = options_of(where, raw.get("options", {}), given)
    steps = []
    for n, row in enumerate(rows, start=1):
        at = f"{where}: step {n}"
        check_keys(at, row, _STEP_KEYS)
        own = {**options, **options_of(at, row.get("options", {}), given)}
        shape = shape_of(at, {**common, **row}, {**own, **given}, not own)
        names, values = _step_arguments(at, row.get("arguments", []), data)
        file = LaunchFile(**shape, names=names, arguments=values, returned=(), options=own)
        file = dataclasses.replace(file, constants=data.constants)
        kernel, name = (_text(f"{at}: {key}", row.get(key)) for key in ("kernel", "name"))
        steps.append(ProgramStep(_found(kernel, path.parent), name, file, _repeat(at, row, given)))
    return ProgramFile(data, tuple(steps))


def _found(kernel: str | None, folder: Path) -> str | None:
    return None if kernel is None else str(folder / kernel)


def _text(where: str, value: Any) -> str | None:
    if value is not None and (not isinstance(value, str) or not value):
        raise SmlabError.at(where, "not a name", value, "a text")
    return value


def _repeat(where: str, row: Mapping[str, Any], macros: Mapping[str, object]) -> int:
    repeat = row.get("repeat", 1)
    if isinstance(repeat, str):
        repeat = whole_number(f"{where}: repeat", repeat, macros)
    if type(repeat) is not int or not 1 <= repeat <= MOST_LAUNCHES:
        raise SmlabError.at(f"{where}: repeat", "not a number of launches", repeat, f"1 to {MOST_LAUNCHES:,}")
    return repeat


def _step_arguments(where: str, given: Any, data: FileArguments) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    """Names and values of a step's arguments. A tensor map has its array itself, which need be no argument of
    the step."""
    if not isinstance(given, list):
        raise SmlabError.at(f"{where}: arguments", "is not a list", given, "names of [[argument]], numbers")
    known = dict(zip(data.names, data.values, strict=True))
    names, values = [], []
    for n, one in enumerate(given, start=1):
        if isinstance(one, str):
            if one not in known:
                expected = "one of " + ", ".join(known) if known else "an [[argument]] of that name"
                raise SmlabError.at(f"{where}: arguments", "no such argument", one, expected)
            value = known[one]
            if isinstance(value, TensorMap) and isinstance(value.array, str):
                if not isinstance(known.get(value.array), np.ndarray):
                    raise SmlabError.at(f"{where}: {one}", "a tensor map of no array", value.array)
                value = dataclasses.replace(value, array=known[value.array])
            names.append(one)
            values.append(value)
        elif isinstance(one, bool | int | float):
            names.append(f"argument {n}")
            values.append(one)
        else:
            raise SmlabError.at(f"{where}: arguments", "no argument", one, "a name or a number")
    return tuple(names), tuple(values)

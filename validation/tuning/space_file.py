"""Reading a tuning space: a TOML file, a tuner's problem or results (JSON), Triton's ``autotune`` list.

A space file has ``[kernel]`` (``file``, ``name``, ``flags``, ``folders``, ``defines``, ``macros``),
``[parameters]`` with lists of values or expressions that give one, ``restrictions`` (expressions, all true
of a configuration), and the tables of a launch file, whose expressions may name parameters. ``[first]`` is
the configuration that others are compared with; without it, it is the first one. ``[configurations]`` in
place of ``[parameters]`` names the results of Kernel Tuner or KTT, whose configurations are taken: ``file``,
and ``where``, values that a configuration must have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from smlab.hw_bench.datasets.kernel_tuner import read_search
from smlab.hw_bench.datasets.ktt import read_ktt
from smlab.hw_bench.datasets.tuning import Parameter, TuningTimes, read_json
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.inputs import check_file, check_folder, check_keys, load_toml
from smlab.sim.frontends.python_file import split_name
from smlab.sim.frontends.registry import resolved_kernel
from smlab.sim.frontends.triton_kernel import configurations_of
from smlab.validation.tuning.problem_file import is_problem, read_problem
from smlab.validation.tuning.space import Shape, TunedKernel, TuningSpace, allowed, check_values

_TOP: Final = (
    *("title", "restrictions", "kernel", "parameters", "first", "configurations"),
    *("launch", "argument", "constant", "options"),
)
_LAUNCH: Final = ("launch", "argument", "constant", "options")
_KERNEL: Final = ("file", "name", "flags", "folders", "defines", "macros")
EXPECTED: Final = "a space (.toml), a problem or results of Kernel Tuner or KTT (.json), or file.py:kernel"


@dataclass(frozen=True)
class SpaceAsked:
    """What a user names of a space besides its file: ``kernel`` (CUDA C) and ``launch`` where the file tells
    neither, the kernel's ``name``, the ``architecture`` (``sm_80``) that Python kernels are read for."""

    kernel: Path | None = None
    launch: Path | None = None
    name: str | None = None
    architecture: str = "sm_70"


def read_space(file: str | Path, asked: SpaceAsked = SpaceAsked()) -> TuningSpace:
    """The space of a file, told by its name and content.

    Raises:
        SmlabError: what cannot be read, or the table and key that is wrong.
    """
    if split_name(str(file)) is not None:
        if asked.launch is None:
            raise SmlabError.at(str(file), "needs a launch", None, "--launch FILE.toml")
        tables = _launch_tables(asked.launch)
        return read_autotuned(str(file), tables, asked.launch.parent, asked.architecture)
    path = Path(file)
    check_file(path, EXPECTED)
    if path.suffix == ".toml":
        for option, given in (("--source", asked.kernel), ("--launch", asked.launch)):
            if given is not None:
                raise SmlabError.at(option, "a space file says it itself", str(given), "nothing")
        return _own_file(path, load_toml(path))
    if path.name.endswith((".json", ".json.gz")):
        content = read_json(path)
        if is_problem(content):
            return _with_asked(read_problem(path, content), asked)
        return _results(path, asked)
    raise SmlabError.at(str(path), "no tuning space", path.suffix or path.name, EXPECTED)


def _own_file(path: Path, raw: dict[str, Any]) -> TuningSpace:
    where = str(path)
    check_keys(where, raw, _TOP)
    table = raw.get("kernel")
    if not isinstance(table, dict):
        raise SmlabError.at(where, "has no table [kernel]", None, "file, and name where it holds several")
    check_keys(f"{where}: [kernel]", table, _KERNEL)
    kernel = TunedKernel(
        kernel=_kernel_file(where, path.parent, table),
        name=_text(f"{where}: [kernel]: name", table.get("name")),
        tables={key: raw[key] for key in _LAUNCH if key in raw},
        folder=path.parent,
        defines=_texts(f"{where}: [kernel]: defines", table.get("defines", {})),
        macros=_texts(f"{where}: [kernel]: macros", table.get("macros", {})),
        flags=_text(f"{where}: [kernel]: flags", table.get("flags")) or "",
        folders=_folders(f"{where}: [kernel]: folders", path.parent, table.get("folders", [])),
    )
    if not isinstance(kernel.tables.get("launch"), dict) and "configurations" not in raw:
        raise SmlabError.at(where, "has no table [launch]", None, "grid and block")
    restrictions = raw.get("restrictions", [])
    if not isinstance(restrictions, list) or not all(isinstance(r, str) for r in restrictions):
        raise SmlabError.at(f"{where}: restrictions", "not a list of texts", restrictions)
    title = _text(f"{where}: title", raw.get("title")) or path.stem
    if ("parameters" in raw) == ("configurations" in raw):
        raise SmlabError.at(where, "needs one of [parameters] and [configurations]")
    if "configurations" in raw:
        if restrictions:
            raise SmlabError.at(f"{where}: restrictions", "mean nothing with [configurations]", restrictions)
        space = _listed(path, raw["configurations"], kernel, title)
    else:
        parameters = raw["parameters"]
        if not isinstance(parameters, dict) or not parameters:
            raise SmlabError.at(f"{where}: [parameters]", "not a table of lists", parameters)
        values = {name: check_values(f"{where}: [parameters]", name, v) for name, v in parameters.items()}
        found, restricted = allowed(where, values, restrictions)
        space = TuningSpace(where, title, kernel, tuple(values), tuple(found), restricted)
    for name in kernel.macros:
        if name not in space.parameters:
            raise SmlabError.at(f"{where}: [kernel]: macros", "names no parameter", name)
    return replace(space, first=_first(where, raw.get("first"), space))


def _kernel_file(where: str, folder: Path, table: Mapping[str, Any]) -> str:
    file = _text(f"{where}: [kernel]: file", table.get("file"))
    if not file:
        raise SmlabError.at(
            f"{where}: [kernel]: file", "is missing", None, "a kernel's file, or file.py:kernel"
        )
    parts = split_name(file)
    path = (folder / (file if parts is None else parts[0])).absolute()
    check_file(path, "a kernel")
    return str(path) if parts is None else f"{path}:{parts[1]}"


def _first(where: str, raw: Any, space: TuningSpace) -> int:
    if raw is None:
        return space.first
    if not isinstance(raw, dict) or set(raw) != set(space.parameters):
        expected = "a value for each of " + ", ".join(space.parameters)
        raise SmlabError.at(f"{where}: [first]", "not a configuration", raw, expected)
    wanted = tuple(raw[name] for name in space.parameters)
    if wanted not in space.configurations:
        raise SmlabError.at(f"{where}: [first]", "is not in the space", raw)
    return space.configurations.index(wanted)


def _listed(path: Path, table: Any, kernel: TunedKernel, title: str) -> TuningSpace:
    """The configurations of a tuner's results."""
    where = f"{path}: [configurations]"
    check_keys(where, table, ("file", "where"))
    file = _text(f"{where}: file", table.get("file"))
    if not file:
        raise SmlabError.at(f"{where}: file", "is missing", None, "results of Kernel Tuner or KTT")
    times = read_times(path.parent / file)
    wanted = table.get("where", {})
    if not isinstance(wanted, dict):
        raise SmlabError.at(f"{where}: where", "is not a table", wanted)
    for name in wanted:
        times.column(name)  # which refuses what is no parameter
    rows = [
        row
        for row, config in enumerate(times.config)
        if all(dict(zip(times.parameters, config, strict=True))[k] == v for k, v in wanted.items())
    ]
    if not rows:
        raise SmlabError.at(f"{where}: where", "leaves no configuration", wanted)
    return _of_times(str(path), title, kernel, times, rows)


def _of_times(
    where: str, title: str, kernel: TunedKernel, times: TuningTimes, rows: list[int]
) -> TuningSpace:
    shapes: tuple[tuple[Shape, Shape], ...] | None = None
    if times.grid is not None and times.block is not None:
        whole = [np.rint(shape[rows]).astype(int).tolist() for shape in (times.grid, times.block)]
        shapes = tuple((_shape(grid), _shape(block)) for grid, block in zip(*whole, strict=True))
    elif "launch" not in kernel.tables:
        expected = "[launch] with grid and block as expressions of parameters"
        raise SmlabError.at(where, "the results do not tell the launch", None, expected)
    configurations = tuple(times.config[row] for row in rows)
    if len(set(configurations)) < len(configurations):
        raise SmlabError.at(str(times.path), "has a configuration twice", None, "one kernel a configuration")
    excluded = len(times) - len(rows)
    notes = () if not excluded else (f"{excluded:,} of {len(times):,} configurations are not asked for",)
    if times.failed:
        notes = (*notes, f"{len(times.failed):,} more failed in the results, and are left out")
    return TuningSpace(
        where,
        title,
        kernel,
        times.parameters,
        configurations,
        restricted=excluded,
        shapes=shapes,
        times=times,
        notes=notes,
    )


def _shape(numbers: list[int]) -> Shape:
    return numbers[0], numbers[1], numbers[2]


def read_times(path: Path) -> TuningTimes:
    """The results of KTT, a cache of Kernel Tuner, or T4, told by the content."""
    content = read_json(path)
    if isinstance(content, Mapping) and "Results" in content:
        return read_ktt(path)
    return read_search(path)


def _results(path: Path, asked: SpaceAsked) -> TuningSpace:
    """A tuner's results as they are: kernel and launch are given beside them."""
    if asked.kernel is None or asked.launch is None:
        missing = "--source K.cu" if asked.kernel is None else "--launch FILE.toml"
        raise SmlabError.at(str(path), "results have no kernel and no arguments", None, missing)
    times = read_times(path)
    kernel = TunedKernel(
        str(asked.kernel.absolute()),
        asked.name or str(times.kernel[0]),
        _launch_tables(asked.launch),
        asked.launch.parent,
    )
    check_file(kernel.path, "a kernel")
    return _of_times(str(path), path.name.partition(".")[0], kernel, times, list(range(len(times))))


def _with_asked(space: TuningSpace, asked: SpaceAsked) -> TuningSpace:
    """A problem with another source, kernel's name or launch, where they are given."""
    kernel = space.kernel
    if asked.kernel is not None:
        kernel = replace(kernel, kernel=str(asked.kernel.absolute()))
    if asked.name is not None:
        kernel = replace(kernel, name=asked.name)
    if asked.launch is not None:
        kernel = replace(kernel, tables=_launch_tables(asked.launch), folder=asked.launch.parent)
    check_file(kernel.path, "the problem's kernel (--source names another)")
    if kernel.path.suffix == ".cl" or ".opencl" in kernel.path.suffixes:
        raise SmlabError.at(space.where, "its kernel is OpenCL", kernel.path.name, "CUDA C")
    return replace(space, kernel=kernel)


def _launch_tables(path: Path) -> dict[str, Any]:
    raw = load_toml(path)
    check_keys(str(path), raw, _LAUNCH)
    if not isinstance(raw.get("launch"), dict):
        raise SmlabError.at(str(path), "has no table [launch]", None, "grid and block")
    return raw


def _folders(where: str, folder: Path, raw: Any) -> tuple[Path, ...]:
    if not isinstance(raw, list) or not all(isinstance(name, str) for name in raw):
        raise SmlabError.at(where, "not a list of folders", raw)
    found = tuple((folder / name).absolute() for name in raw)
    for path in found:
        check_folder(where, path, "a folder with headers")
    return found


def _text(where: str, value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise SmlabError.at(where, "not a text", value)
    return value


def _texts(where: str, table: Any) -> dict[str, str]:
    """A table of texts; numbers are written as such."""
    if not isinstance(table, dict) or not all(isinstance(v, str | int | float) for v in table.values()):
        raise SmlabError.at(where, "not a table of texts or numbers", table)
    return {key: str(int(v)) if isinstance(v, bool) else str(v) for key, v in table.items()}


__all__ = ["EXPECTED", "Parameter", "SpaceAsked", "read_space", "read_times"]


def read_autotuned(kernel: str, tables: dict[str, Any], folder: Path, architecture: str) -> TuningSpace:
    """The space of ``file.py:kernel``; the Python file is executed.

    Raises:
        SmlabError: a kernel without configurations, or with the same one twice.
    """
    rows = configurations_of(resolved_kernel(kernel, architecture))
    if not rows:
        raise SmlabError.at(kernel, "has no list of configurations", None, "a kernel under triton.autotune")
    names = tuple(dict.fromkeys(name for row in rows for name in row))
    missing = [name for name in names if any(name not in row for row in rows)]
    if missing:
        raise SmlabError.at(kernel, "a configuration does not set", missing[0], "the same names in each")
    found: list[tuple[Parameter, ...]] = [tuple(_plain(row[name]) for name in names) for row in rows]
    if len(set(found)) < len(found):
        raise SmlabError.at(kernel, "has a configuration twice", None, "each once")
    path, name = split_name(kernel) or (Path(kernel), "")
    tuned = TunedKernel(f"{path.absolute()}:{name}", None, tables, folder)
    return TuningSpace(kernel, name, tuned, names, tuple(found))


def _plain(value: Any) -> Parameter:
    return value if isinstance(value, int | float | str | bool) else str(value)

"""A launch as a file: grid, block, shared bytes, arguments and constant memory.

``[launch]`` has ``grid`` and ``block`` (a number or up to three; no ``block`` for a kernel that tells its
threads itself, as Triton's do) and ``shared_bytes`` (dynamic; of a listing, all). A number may be written as
a text with names of macros in it, ``"ceil(4096 / TILE)"`` (`smlab.hw_bench.expressions`).
``check_shared = false`` lets the kernel read shared memory that nobody has written.

Each ``[[argument]]`` has a ``name`` and a ``dtype``, and is a scalar (``value``) or an array: ``file``
(.npy), or ``shape`` and ``make``: ``zeros``, ``arange`` or ``uniform`` (``low``, ``high``, ``seed``).
A table ``tensor_map`` in place of these makes a tensor map of another argument (`TensorMap`), and a table
``structure`` a structure of so many ``bytes`` with ``fields``: ``at`` which byte lies an ``array`` (the
address of another argument), a ``value`` with a ``dtype``, or a ``tensor_map``. An array that a structure
points to is no argument of the kernel's own (`Structure`).
``returned = true`` says that it comes back. ``[constant.NAME]`` fills a ``__constant__`` variable in the same
way. ``[options]`` are what the kernel's front end takes: numbers, texts and truth values by name, such as
Triton's meta-parameters. Numbers of the launch may name them as they name macros, which count more.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.arrays import load_array
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.expressions import evaluate
from smlab.hw_bench.inputs import check_keys, load_toml
from smlab.sim.execution.device import as_dim
from smlab.sim.isa.launch.structure import Structure
from smlab.sim.isa.launch.tensor_map import TensorMap

MAX_BYTES: Final = 1 << 30
"""Of all arrays that a file asks for."""
MAX_DIMENSIONS: Final = 32
CHUNK: Final = 1 << 20
"""Random numbers that are drawn at a time."""
KEPT_BYTES: Final = 1 << 27
_KEYS: Final = (
    *("name", "dtype", "value", "file", "shape", "make", "low", "high", "seed", "returned"),
    *("tensor_map", "structure"),
)
_FIELD_KEYS: Final = ("at", "array", "dtype", "value", "tensor_map")
MAX_STRUCTURE_BYTES: Final = 32764
"""Of a kernel's parameters."""
_MAP_KEYS: Final = ("array", "shape", "box", "strides_bytes", "swizzle", "element_type")
_MAKES: Final = ("zeros", "arange", "uniform")
_ONLY_WITH: Final = {"shape": ("make",), "low": ("make",), "high": ("make",), "seed": ("make",)}
_DTYPE: Final = re.compile(r"[<>=|]?[a-z]{1,12}\d{0,3}")


@dataclass(frozen=True)
class LaunchFile:
    """A launch as written down; arrays are made anew for each run."""

    grid: tuple[int, int, int]
    threads: tuple[int, int, int] | None
    shared_bytes: int
    check_shared: bool
    names: tuple[str, ...]
    arguments: tuple[Any, ...]
    returned: tuple[str, ...]
    constants: dict[str, NDArray[Any]] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    cluster: tuple[int, int, int] | None = None

    @property
    def block(self) -> tuple[int, int, int]:
        """`threads`, which most kernels need; `SmlabError` where the file has none."""
        if self.threads is None:
            raise SmlabError.at("[launch]: block", "is missing", None, "one to three numbers from 1 on")
        return self.threads


def read_launch(path: Path, macros: Mapping[str, object] | None = None) -> LaunchFile:
    """Read a launch file; ``macros`` are what its texts may name.

    Raises:
        SmlabError: naming the key that is missing, unknown or wrong.
    """
    return launch_of(str(path), load_toml(path), path.parent, macros)


def launch_of(
    where: str, raw: dict[str, Any], folder: Path, macros: Mapping[str, object] | None = None
) -> LaunchFile:
    """The launch in the tables of a file, whose arrays lie in ``folder``; see `read_launch`."""
    if "step" in raw:
        what = "has [[step]], which make a program of several kernels"
        raise SmlabError.at(where, what, None, "a launch of one kernel; smlab run takes programs")
    check_keys(where, raw, ("launch", "argument", "constant", "options"))
    launch = raw.get("launch")
    if not isinstance(launch, dict):
        raise SmlabError.at(where, "has no table [launch]", None, "grid and block")
    check_keys(f"{where}: [launch]", launch, LAUNCH_KEYS)
    options = options_of(where, raw.get("options", {}), macros or {})
    data = arguments_of(where, raw, folder)
    shape = shape_of(where, launch, {**options, **(macros or {})}, not options)
    return LaunchFile(
        **shape,
        names=data.names,
        arguments=data.values,
        returned=data.returned,
        constants=data.constants,
        options=options,
    )


LAUNCH_KEYS: Final = ("grid", "block", "cluster", "shared_bytes", "check_shared")


def shape_of(
    where: str, launch: Mapping[str, Any], given: Mapping[str, object], needs_block: bool
) -> dict[str, Any]:
    """What a table of `LAUNCH_KEYS` says, as fields of a `LaunchFile`; ``given`` is what its texts may
    name."""
    shared, check = launch.get("shared_bytes", 0), launch.get("check_shared", True)
    if isinstance(shared, str):
        shared = whole_number(f"{where}: shared_bytes", shared, given)
    if not isinstance(check, bool):
        raise SmlabError.at(f"{where}: check_shared", "not a truth value", check, "true or false")
    if isinstance(shared, bool) or not isinstance(shared, int) or not 0 <= shared <= 1 << 20:
        raise SmlabError.at(f"{where}: shared_bytes", "not a size", shared, "a whole number of bytes")
    has_block, has_cluster = "block" in launch or needs_block, "cluster" in launch
    return {
        "grid": dim_of(f"{where}: grid", launch.get("grid"), given),
        "threads": dim_of(f"{where}: block", launch.get("block"), given) if has_block else None,
        "shared_bytes": shared,
        "check_shared": check,
        "cluster": dim_of(f"{where}: cluster", launch.get("cluster"), given) if has_cluster else None,
    }


@dataclass(frozen=True)
class FileArguments:
    """The tables ``[[argument]]`` and ``[constant.NAME]`` of a file: names, values and which come back."""

    names: tuple[str, ...]
    values: tuple[Any, ...]
    returned: tuple[str, ...]
    constants: dict[str, NDArray[Any]]


def arguments_of(where: str, raw: Mapping[str, Any], folder: Path) -> FileArguments:
    """
    Raises:
        SmlabError: naming the argument and the key that is missing, unknown or wrong.
    """
    names, arguments, returned = [], [], []
    rows = raw.get("argument", [])
    if not isinstance(rows, list):
        raise SmlabError.at(f"{where}: argument", "is not a list of tables", rows, "[[argument]]")
    left_bytes = MAX_BYTES
    for n, row in enumerate(rows, start=1):
        check_keys(f"{where}: argument {n}", row, _KEYS)
        name = row.get("name", f"argument{n}")
        if not isinstance(name, str) or not name:
            raise SmlabError.at(f"{where}: argument {n}: name", "not a name", name, "a text")
        at = f"{where}: argument {n} ({name})"
        if name in names:
            raise SmlabError.at(at, "a name that stands twice", name)
        is_returned = row.get("returned", False)
        if not isinstance(is_returned, bool):
            raise SmlabError.at(f"{at}: returned", "not a truth value", is_returned, "true or false")
        value = _value(at, row, folder, left_bytes)
        if isinstance(value, np.ndarray):
            left_bytes -= value.nbytes
        elif is_returned:
            raise SmlabError.at(at, "a scalar cannot come back", True, "returned on arrays only")
        arguments.append(value)
        names.append(name)
        if is_returned:
            returned.append(name)
    named = dict(zip(names, arguments, strict=True))
    arguments = [_linked(f"{where}: {name}", value, named) for name, value in named.items()]
    constants = {}
    tables = raw.get("constant", {})
    if not isinstance(tables, dict):
        raise SmlabError.at(f"{where}: constant", "is not a table", tables, "[constant.NAME]")
    for name, row in tables.items():
        at = f"{where}: constant {name}"
        check_keys(at, row, tuple(key for key in _KEYS if key not in ("name", "returned")))
        constants[name] = np.asarray(_value(at, row, folder, left_bytes))
        left_bytes -= constants[name].nbytes
    return FileArguments(tuple(names), tuple(arguments), tuple(returned), constants)


def options_of(where: str, table: Any, macros: Mapping[str, object]) -> dict[str, Any]:
    """What a front end is told; a macro of the same name takes the place of a number."""
    if not isinstance(table, dict):
        raise SmlabError.at(f"{where}: options", "is not a table", table, "[options]")
    for name, value in table.items():
        if not isinstance(value, bool | int | float | str):
            raise SmlabError.at(
                f"{where}: options: {name}", "no option", value, "a number, a text or a truth value"
            )
        if name in macros and type(value) is int:
            table = {**table, name: whole_number(f"{where}: options: {name}", name, macros)}
    return dict(table)


def dim_of(where: str, value: Any, macros: Mapping[str, object]) -> tuple[int, int, int]:
    """A shape as a launch file writes it: a number or up to three, each of which may be an expression.

    Raises:
        SmlabError: no shape, or an expression that gives no whole number.
    """
    numbers = [value] if isinstance(value, int | str) else value
    if isinstance(numbers, list):
        numbers = [whole_number(where, n, macros) if isinstance(n, str) else n for n in numbers]
    fine = isinstance(numbers, list) and 1 <= len(numbers) <= 3
    if not fine or any(isinstance(n, bool) or not isinstance(n, int) or n < 1 for n in numbers or ()):
        raise SmlabError.at(where, "not a shape", value, "one to three numbers from 1 on")
    return as_dim(tuple(numbers or ()))


def whole_number(where: str, text: str, macros: Mapping[str, object]) -> int:
    """A whole number written as a text: an expression (`smlab.hw_bench.expressions`) of macros by name.

    Raises:
        SmlabError: a macro that is not there, or anything else.
    """

    def named(name: str) -> int:
        if name not in macros:
            known = "one of " + ", ".join(macros) if macros else "-D NAME=VALUE"
            raise SmlabError.at(where, "names a macro that is not given", name, known)
        try:
            return int(str(macros[name]))
        except ValueError:
            raise SmlabError.at(where, f"{name} is no whole number", macros[name]) from None

    expected = "numbers, macros, + - * // %, ceil(a / b)"
    value = evaluate(where, text, named, f"a whole number: {expected}")
    if isinstance(value, bool) or not isinstance(value, int):
        raise SmlabError.at(where, "not a whole number", text, expected)
    return value


def _value(where: str, row: Any, folder: Path, left_bytes: int) -> Any:
    """A scalar, an array or a tensor map; an array of ``left_bytes`` at most."""
    if "tensor_map" in row:
        return _tensor_map(where, row, ("name", "tensor_map"))
    if "structure" in row:
        return _structure(where, row)
    sources = [key for key in ("value", "file", "make") if key in row]
    if len(sources) != 1:
        raise SmlabError.at(where, "needs one of value, file and make", ", ".join(sources) or None)
    for key in row:
        if key in _ONLY_WITH and sources[0] not in _ONLY_WITH[key]:
            raise SmlabError.at(f"{where}: {key}", f"means nothing with {sources[0]}", row[key])
    if "file" in row:
        return _loaded(where, row, folder, left_bytes)
    kind = _dtype(where, row.get("dtype"))
    return _given(where, row["value"], kind) if "value" in row else _made(where, row, kind, left_bytes)


def _linked(where: str, value: Any, arguments: Mapping[str, Any]) -> Any:
    """What names another argument, with the array itself in place of the name."""
    if isinstance(value, Structure):
        fields = {at: _linked(f"{where}, byte {at}", inner, arguments) for at, inner in value.fields.items()}
        return replace(value, fields=fields)
    name = value.array if isinstance(value, TensorMap) else value
    if not isinstance(name, str):
        return value
    array = arguments.get(name)
    if not isinstance(array, np.ndarray):
        known = ", ".join(n for n, a in arguments.items() if isinstance(a, np.ndarray)) or "there are none"
        raise SmlabError.at(where, "names no array", name, known)
    return replace(value, array=array) if isinstance(value, TensorMap) else array


def _structure(where: str, row: dict[str, Any]) -> Structure:
    """A structure; its arrays are still names."""
    for key in row:
        if key not in ("name", "structure"):
            raise SmlabError.at(f"{where}: {key}", "means nothing with structure", row[key])
    table = row["structure"]
    check_keys(f"{where}: structure", table, ("bytes", "fields"))
    size, listed = table.get("bytes"), table.get("fields", [])
    if type(size) is not int or not 1 <= size <= MAX_STRUCTURE_BYTES:
        raise SmlabError.at(f"{where}: structure: bytes", "not a size", size, f"1 to {MAX_STRUCTURE_BYTES}")
    if not isinstance(listed, list):
        raise SmlabError.at(
            f"{where}: structure: fields", "is not a list of tables", listed, "{ at = 0, ... }"
        )
    fields: dict[int, Any] = {}
    for number, one in enumerate(listed, start=1):
        place = f"{where}: structure: field {number}"
        check_keys(place, one, _FIELD_KEYS)
        at = one.get("at")
        if type(at) is not int or not 0 <= at < size or at in fields:
            raise SmlabError.at(f"{place}: at", "no place of its own", at, f"a byte from 0 to {size - 1}")
        kinds = [key for key in ("array", "value", "tensor_map") if key in one]
        if len(kinds) != 1:
            raise SmlabError.at(place, "needs one of array, value and tensor_map", ", ".join(kinds) or None)
        if "array" in one:
            if not isinstance(one["array"], str):
                raise SmlabError.at(f"{place}: array", "not a text", one["array"], "a text")
            fields[at] = one["array"]
        elif "value" in one:
            fields[at] = _given(place, one["value"], _dtype(place, one.get("dtype")))
            if isinstance(fields[at], np.ndarray):
                raise SmlabError.at(f"{place}: value", "not one number", one["value"], "a field for each")
        else:
            fields[at] = _tensor_map(place, one, ("at", "tensor_map"))
    return Structure(bytes(size), fields)


def _tensor_map(where: str, row: dict[str, Any], keys: tuple[str, ...]) -> TensorMap:
    """A tensor map of another argument, by its name."""
    for key in row:
        if key not in keys:
            raise SmlabError.at(f"{where}: {key}", "means nothing with tensor_map", row[key])
    table = row["tensor_map"]
    check_keys(f"{where}: tensor_map", table, _MAP_KEYS)
    for key in ("array", "shape", "box"):
        if key not in table:
            raise SmlabError.at(f"{where}: tensor_map: {key}", "is missing")
    for key in ("shape", "box", "strides_bytes"):
        numbers = table.get(key, [])
        if not isinstance(numbers, list) or not all(type(n) is int and n >= 0 for n in numbers):
            raise SmlabError.at(f"{where}: tensor_map: {key}", "not numbers", numbers, "whole numbers")
    for key in ("array", "swizzle", "element_type"):
        if not isinstance(table.get(key, ""), str):
            raise SmlabError.at(f"{where}: tensor_map: {key}", "not a text", table[key], "a text")
    return TensorMap(**table)


def _dtype(where: str, name: Any) -> np.dtype[Any]:
    expected = "bool, int8 to int64, uint8 to uint64, float16, float32 or float64"
    try:
        kind = np.dtype(name) if isinstance(name, str) and _DTYPE.fullmatch(name) else None
    except TypeError:
        kind = None
    if kind is None:
        raise SmlabError.at(where, "unknown dtype", name, expected)
    if kind.byteorder == ">":
        raise SmlabError.at(where, "a dtype of big-endian numbers", name, "little-endian ones, as GPUs have")
    if kind.kind not in "iufb" or kind.itemsize > 8:
        raise SmlabError.at(where, "a dtype that no kernel takes", name, expected)
    return kind


def _given(where: str, value: Any, kind: np.dtype[Any]) -> Any:
    """A scalar, or an array where the value is a list; what ``kind`` cannot hold is refused."""
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, list):
            left.extend(one)
        elif not _fits(one, kind):
            raise SmlabError.at(where, f"not a {kind}", one, _held(kind))
    try:
        found = np.array(value, dtype=kind)
    except (TypeError, ValueError, OverflowError) as error:
        raise SmlabError.at(where, f"not an array of {kind}", value, "rows of equal length") from error
    return found[()] if found.ndim == 0 else found


def _fits(value: Any, kind: np.dtype[Any]) -> bool:
    if kind.kind == "b":
        return isinstance(value, bool) or (type(value) is int and value in (0, 1))
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if kind.kind == "f":
        return not math.isfinite(value) or abs(value) <= float(np.finfo(kind).max)
    return isinstance(value, int) and np.iinfo(kind).min <= value <= np.iinfo(kind).max


def _held(kind: np.dtype[Any]) -> str:
    if kind.kind == "b":
        return "true or false"
    if kind.kind == "f":
        return f"a number, at most {float(np.finfo(kind).max):.5g}"
    return f"a whole number from {np.iinfo(kind).min} to {np.iinfo(kind).max}"


def _loaded(where: str, row: dict[str, Any], folder: Path, left_bytes: int) -> NDArray[Any]:
    name = row["file"]
    if not isinstance(name, str):
        raise SmlabError.at(f"{where}: file", "not a name of a file", name, "a text")
    path = folder / name
    try:
        array = load_array(path)
    except SmlabError as error:
        raise SmlabError(f"{where}: {error}") from error
    kind = _dtype(f"{where}: {path}", array.dtype.str)
    if "dtype" in row and _dtype(where, row["dtype"]) != kind:
        raise SmlabError.at(f"{where}: {path}", "has another dtype", str(kind), row["dtype"])
    _check_bytes(where, array.nbytes, left_bytes)
    return np.ascontiguousarray(array)


def _check_bytes(where: str, size: int, left: int) -> None:
    if size > left:
        raise SmlabError.at(
            where,
            "too large",
            f"{size} bytes",
            f"at most {MAX_BYTES} for all arrays of a launch; smlab.run takes larger ones",
        )


def _made(where: str, row: dict[str, Any], kind: np.dtype[Any], left_bytes: int) -> NDArray[Any]:
    shape, make = row.get("shape"), row["make"]
    shape = [shape] if isinstance(shape, int) else shape
    if (
        not isinstance(shape, list)
        or not 1 <= len(shape) <= MAX_DIMENSIONS
        or any(isinstance(n, bool) or not isinstance(n, int) or n < 1 for n in shape)
    ):
        expected = f"a list of 1 to {MAX_DIMENSIONS} sizes from 1 on"
        raise SmlabError.at(where, "not a shape", shape, expected)
    count = math.prod(shape)
    _check_bytes(where, count * kind.itemsize, left_bytes)
    if make == "zeros":
        return np.zeros(shape, dtype=kind)
    if make == "arange":
        if not _fits(count - 1, kind):
            raise SmlabError.at(where, f"numbers beyond a {kind}", f"0 to {count - 1}", _held(kind))
        return np.arange(count, dtype=np.uint8 if kind.kind == "b" else kind).astype(kind).reshape(shape)
    if make != "uniform":
        raise SmlabError.at(f"{where}: make", "unknown", make, "one of " + ", ".join(_MAKES))
    low, high, seed = row.get("low", 0), row.get("high", 1), row.get("seed", 0)
    if type(seed) is not int or seed < 0:
        raise SmlabError.at(f"{where}: seed", "not a seed", seed, "a whole number from 0 on")
    # Whole numbers end below ``high``.
    last = high - 1 if type(high) is int and kind.kind != "f" else high
    for key, end in (("low", low), ("high", last)):
        if not _fits(end, kind) or not math.isfinite(end):
            raise SmlabError.at(f"{where}: {key}", f"beyond a {kind}", row.get(key), _held(kind))
    if low > last:
        raise SmlabError.at(f"{where}: high", "is not above low", high, f"more than {low}")
    make_it = _kept_uniform if count * kind.itemsize <= KEPT_BYTES else _uniform
    made = make_it(count, kind.str, low, high, seed)
    return (made.copy() if make_it is _kept_uniform else made).reshape(shape)


def _uniform(count: int, dtype: str, low: Any, high: Any, seed: int) -> NDArray[Any]:
    """Random numbers, chunk by chunk: they are drawn with 8 bytes each, whatever the dtype has."""
    generator, kind = np.random.default_rng(seed), np.dtype(dtype)
    if kind.kind != "f":
        generator.bit_generator.advance(count)  # type: ignore[attr-defined]  # where whole numbers began ever
    made = np.empty(count, dtype=kind)
    drawn: NDArray[Any]
    for at in range(0, count, CHUNK):
        size = min(CHUNK, count - at)
        if kind.kind == "f":
            drawn = generator.random(size) * (high - low) + low
        else:
            drawn = generator.integers(
                low, high, size=size, dtype=np.uint64 if kind.str == "<u8" else np.int64
            )
        made[at : at + size] = drawn
    return made


_kept_uniform = lru_cache(maxsize=2)(_uniform)
"""Every point of a study asks for the same numbers."""

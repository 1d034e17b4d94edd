"""A launch as a file: grid, block, shared bytes, arguments and constant memory.

``[launch]`` has ``grid`` and ``block`` (a number or up to three) and ``shared_bytes`` (dynamic; of a
listing, all). A number may be written as a text with names of macros in it, ``"ceil(4096 / TILE)"``: whole
numbers, ``+ - *``, ``//``, ``%``, and ``ceil(a / b)``. ``check_shared = false`` lets the kernel read shared
memory that nobody has written.

Each ``[[argument]]`` has a ``name`` and a ``dtype``, and is a scalar (``value``) or an array: ``file``
(.npy), or ``shape`` and ``make``: ``zeros``, ``arange`` or ``uniform`` (``low``, ``high``, ``seed``).
``returned = true`` says that it comes back. ``[constant.NAME]`` fills a ``__constant__`` variable in the same
way.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError, nearest
from smlab.hw_bench.inputs import check_file, load_toml
from smlab.sim.machine_code.device import as_dim

MAX_BYTES: Final = 1 << 33
KEPT_BYTES: Final = 1 << 28
_KEYS: Final = ("name", "dtype", "value", "file", "shape", "make", "low", "high", "seed", "returned")
_MAKES: Final = ("zeros", "arange", "uniform")


@dataclass(frozen=True)
class LaunchFile:
    """A launch as written down; arrays are made anew for each run."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    check_shared: bool
    names: tuple[str, ...]
    arguments: tuple[Any, ...]
    returned: tuple[str, ...]
    constants: dict[str, NDArray[Any]] = field(default_factory=dict)


def read_launch(path: Path, macros: Mapping[str, object] | None = None) -> LaunchFile:
    """Read a launch file; ``macros`` are what its texts may name.

    Raises:
        SmlabError: naming the key that is missing, unknown or wrong.
    """
    raw = load_toml(path)
    where = str(path)
    _known(where, raw, ("launch", "argument", "constant"))
    launch = raw.get("launch")
    if not isinstance(launch, dict):
        raise SmlabError.at(where, "has no table [launch]", None, "grid and block")
    _known(f"{where}: [launch]", launch, ("grid", "block", "shared_bytes", "check_shared"))
    given = macros or {}
    names, arguments, returned = [], [], []
    rows = raw.get("argument", [])
    if not isinstance(rows, list):
        raise SmlabError.at(f"{where}: argument", "is not a list of tables", None, "[[argument]]")
    for n, row in enumerate(rows, start=1):
        name = row.get("name", f"argument{n}")
        at = f"{where}: argument {n} ({name})"
        if name in names:
            raise SmlabError.at(at, "a name that stands twice", name)
        arguments.append(_value(at, row, path.parent))
        names.append(str(name))
        if row.get("returned", False):
            if not isinstance(arguments[-1], np.ndarray):
                raise SmlabError.at(at, "a scalar cannot come back", True, "returned on arrays only")
            returned.append(str(name))
    constants = {}
    for name, row in raw.get("constant", {}).items():
        constants[name] = np.asarray(_value(f"{where}: constant {name}", row, path.parent))
    shared, check = launch.get("shared_bytes", 0), launch.get("check_shared", True)
    if isinstance(shared, str):
        shared = whole_number(f"{where}: shared_bytes", shared, given)
    if not isinstance(check, bool):
        raise SmlabError.at(f"{where}: check_shared", "not a truth value", check, "true or false")
    if isinstance(shared, bool) or not isinstance(shared, int) or not 0 <= shared <= 1 << 20:
        raise SmlabError.at(f"{where}: shared_bytes", "not a size", shared, "a whole number of bytes")
    return LaunchFile(
        _dim(where, launch, "grid", given),
        _dim(where, launch, "block", given),
        shared,
        check,
        tuple(names),
        tuple(arguments),
        tuple(returned),
        constants,
    )


def _known(where: str, table: Any, keys: tuple[str, ...]) -> None:
    if not isinstance(table, dict):
        raise SmlabError.at(where, "is not a table", table)
    for key in table:
        if key not in keys:
            guess = nearest(key, keys)
            perhaps = f"perhaps {guess}; one of " if guess else "one of "
            raise SmlabError.at(where, "unknown key", key, perhaps + ", ".join(keys))


def _dim(where: str, launch: dict[str, Any], key: str, macros: Mapping[str, object]) -> tuple[int, int, int]:
    value = launch.get(key)
    numbers = [value] if isinstance(value, int | str) else value
    if isinstance(numbers, list):
        numbers = [whole_number(f"{where}: {key}", n, macros) if isinstance(n, str) else n for n in numbers]
    fine = isinstance(numbers, list) and 1 <= len(numbers) <= 3
    if not fine or any(isinstance(n, bool) or not isinstance(n, int) or n < 1 for n in numbers or ()):
        raise SmlabError.at(f"{where}: {key}", "not a shape", value, "one to three numbers from 1 on")
    return as_dim(tuple(numbers or ()))


def whole_number(where: str, text: str, macros: Mapping[str, object]) -> int:
    """A whole number written as a text: macros by name, ``+ - * // %`` and ``ceil(a / b)``.

    Raises:
        SmlabError: a macro that is not there, or anything else.
    """

    def value(node: ast.expr) -> int:
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return node.value
        if isinstance(node, ast.Name):
            if node.id not in macros:
                known = "one of " + ", ".join(macros) if macros else "-D NAME=VALUE"
                raise SmlabError.at(where, "names a macro that is not given", node.id, known)
            try:
                return int(str(macros[node.id]))
            except ValueError:
                raise SmlabError.at(where, f"{node.id} is no whole number", macros[node.id]) from None
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](value(node.left), value(node.right))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "ceil":
            (inner,) = node.args if len(node.args) == 1 else (None,)
            if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Div):
                return -(-value(inner.left) // value(inner.right))
        raise SmlabError.at(where, "not a whole number", text, "numbers, macros, + - * // %, ceil(a / b)")

    try:
        return value(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise SmlabError.at(where, "cannot be read", text, "such as ceil(4096 / TILE)") from error
    except ZeroDivisionError:
        raise SmlabError.at(where, "divides by zero", text) from None


_OPERATORS: Final[dict[type[ast.operator], Callable[[int, int], int]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def _value(where: str, row: Any, folder: Path) -> Any:
    _known(where, row, _KEYS)
    sources = [key for key in ("value", "file", "make") if key in row]
    if len(sources) != 1:
        raise SmlabError.at(where, "needs one of value, file and make", ", ".join(sources) or None)
    if "file" in row:
        return _loaded(where, folder / str(row["file"]))
    try:
        kind = np.dtype(row.get("dtype", ""))
    except TypeError as error:
        raise SmlabError.at(where, "unknown dtype", row.get("dtype"), "such as int32 or float32") from error
    if kind.kind not in "iufb":
        raise SmlabError.at(
            where, "a dtype that no kernel takes", row.get("dtype"), "int32, float32 and their like"
        )
    if "value" in row:
        try:
            value = np.array(row["value"], dtype=kind)
        except (TypeError, ValueError, OverflowError) as error:
            raise SmlabError.at(where, f"not a {kind}", row["value"]) from error
        return value[()] if value.ndim == 0 else value
    return _made(where, row, kind)


def _loaded(where: str, path: Path) -> NDArray[Any]:
    check_file(path, "an array (.npy)")
    try:
        array = np.load(path, allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise SmlabError(f"{where}: {path}: no array of numpy: {error}") from error
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "iufb":
        raise SmlabError.at(where, "not one array of numbers", str(path), "what numpy.save writes")
    return np.ascontiguousarray(array)


def _made(where: str, row: dict[str, Any], kind: np.dtype[Any]) -> NDArray[Any]:
    shape, make = row.get("shape"), row["make"]
    shape = [shape] if isinstance(shape, int) else shape
    if not isinstance(shape, list) or any(
        isinstance(n, bool) or not isinstance(n, int) or n < 1 for n in shape
    ):
        raise SmlabError.at(where, "not a shape", shape, "a list of sizes from 1 on")
    count = 1
    for size in shape:
        count *= size
    if count * kind.itemsize > MAX_BYTES:
        raise SmlabError.at(where, "too large", f"{count * kind.itemsize} bytes", f"at most {MAX_BYTES}")
    if make == "zeros":
        return np.zeros(shape, dtype=kind)
    if make == "arange":
        return np.arange(count).astype(kind).reshape(shape)
    if make != "uniform":
        raise SmlabError.at(f"{where}: make", "unknown", make, "one of " + ", ".join(_MAKES))
    low, high, seed = row.get("low", 0), row.get("high", 1), row.get("seed", 0)
    try:
        if count * kind.itemsize <= KEPT_BYTES:
            return _kept_uniform(tuple(shape), kind.str, low, high, seed).copy()
        return _uniform(tuple(shape), kind.str, low, high, seed)
    except (TypeError, ValueError) as error:
        raise SmlabError(f"{where}: cannot be made: {error}") from error


def _uniform(shape: tuple[int, ...], dtype: str, low: Any, high: Any, seed: Any) -> NDArray[Any]:
    generator, kind = np.random.default_rng(seed), np.dtype(dtype)
    made: NDArray[Any] = generator.random(shape) * (high - low) + low
    if kind.kind != "f":
        made = generator.integers(low, high, size=shape)
    return made.astype(kind)


_kept_uniform = lru_cache(maxsize=2)(_uniform)
"""Every point of a study asks for the same numbers."""

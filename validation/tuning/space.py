"""A tuning space: a kernel, its launch, and the configurations that restrictions allow."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from smlab.hw_bench.datasets.tuning import Parameter, TuningTimes, label_of
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.expressions import evaluate, names_of
from smlab.hw_bench.inputs import read_bytes, source_text
from smlab.hw_bench.sass.includes import includes_files
from smlab.hw_bench.sass.nvrtc import names_in
from smlab.sim.frontends.python_file import split_name
from smlab.sim.isa.launch.launch_file import dim_of

MAX_CONFIGURATIONS: Final = 200_000
MAX_VISITED: Final = 5_000_000
"""Combinations, whole or begun, that restrictions are asked about."""

Shape = tuple[int, int, int]


@dataclass(frozen=True)
class TunedKernel:
    """What all configurations of a space share, as it travels to workers.

    ``kernel`` is a file or ``file.py:kernel``. ``tables`` are those of a launch file whose arrays lie in
    ``folder``; parameters are names in its expressions. CUDA C has each parameter as a macro, under its own
    name or the one in ``macros``; a kernel that sets its threads itself (Triton's) has them as options.
    ``flags`` are the compiler's, ``folders`` where headers are.
    """

    kernel: str
    name: str | None
    tables: dict[str, Any]
    folder: Path
    defines: Mapping[str, str] = field(default_factory=dict)
    macros: Mapping[str, str] = field(default_factory=dict)
    flags: str = ""
    folders: tuple[Path, ...] = ()

    @property
    def is_python(self) -> bool:
        """Whether a Python file has to be executed for the kernel."""
        return split_name(self.kernel) is not None

    @property
    def path(self) -> Path:
        """The file that the kernel is in."""
        parts = split_name(self.kernel)
        return Path(self.kernel) if parts is None else parts[0]

    def macros_of(self, settings: Mapping[str, Parameter]) -> dict[str, str]:
        """The macros of one configuration."""
        own = {self.macros.get(name, name): _literal(value) for name, value in settings.items()}
        return {**self.defines, **own}

    def identity(self) -> str:
        """A digest of all that a simulated time depends on besides configuration, GPU and simulator."""
        files = [self.path, *(self.folder / row["file"] for row in self._arrays() if "file" in row)]
        contents = [hashlib.sha256(read_bytes(path)).hexdigest() for path in files]
        told = (self.kernel.rpartition(":")[2] if self.is_python else "", self.name, self.tables, contents)
        rest = (sorted(self.defines.items()), sorted(self.macros.items()), self.flags, self.folders)
        return hashlib.sha256(repr((told, rest)).encode()).hexdigest()

    def _arrays(self) -> list[dict[str, Any]]:
        return [*self.tables.get("argument", []), *self.tables.get("constant", {}).values()]


@dataclass(frozen=True, eq=False)
class TuningSpace:
    """``configurations`` hold a value for each of ``parameters``; ``restricted`` more are excluded by
    restrictions. ``shapes`` are the launches' grids and blocks where a file tells them one by one, ``times``
    what was measured, if the configurations come with times, ``first`` the configuration that others are
    compared with."""

    where: str
    title: str
    kernel: TunedKernel
    parameters: tuple[str, ...]
    configurations: tuple[tuple[Parameter, ...], ...]
    restricted: int = 0
    first: int = 0
    shapes: tuple[tuple[Shape, Shape], ...] | None = None
    times: TuningTimes | None = None
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.configurations)

    def settings(self, number: int) -> dict[str, Parameter]:
        """A configuration's values by name."""
        return dict(zip(self.parameters, self.configurations[number], strict=True))

    def label(self, number: int) -> str:
        """``a=1, b=2``."""
        return label_of(self.parameters, self.configurations[number])

    def tables_of(self, number: int) -> dict[str, Any]:
        """``[launch]`` of a configuration: expressions, or the shapes that the file tells."""
        launch = self.kernel.tables.get("launch", {})
        if self.shapes is None:
            return dict(launch)
        grid, block = self.shapes[number]
        return {**launch, "grid": list(grid), "block": list(block)}

    def distinct(self) -> dict[str, list[int]]:
        """Configurations that give the same code and launch, under a key each, in their order: a parameter
        that neither the source nor the launch names makes no difference."""
        read = self._names_read()
        groups: dict[str, list[int]] = {}
        for number in range(len(self)):
            settings = self.settings(number)
            seen = {name: value for name, value in settings.items() if read is None or name in read}
            launch = self.tables_of(number)
            numbers: Any = {
                key: _numbers(f"{self.where}: {key}", value, settings) for key, value in launch.items()
            }
            key = hashlib.sha256(repr((sorted(seen.items()), sorted(numbers.items()))).encode()).hexdigest()
            groups.setdefault(key, []).append(number)
        return groups

    def _names_read(self) -> frozenset[str] | None:
        """The parameters that the kernel may read; None for all."""
        kernel = self.kernel
        if kernel.is_python:
            return None
        if kernel.path.suffix != ".cu":
            return frozenset()
        text = source_text(kernel.path)
        if includes_files(text):
            return None
        named = names_in(text + " " + " ".join(map(str, kernel.defines.values())) + " " + kernel.flags)
        return frozenset(name for name in self.parameters if kernel.macros.get(name, name) in named)


def _numbers(where: str, value: Any, settings: Mapping[str, Parameter]) -> Any:
    """A launch's numbers; what cannot be one is told when the configuration's turn comes."""
    try:
        if isinstance(value, bool):
            return value
        if isinstance(value, list | str):
            return dim_of(where, value, settings)
    except SmlabError as error:
        return str(error)
    return value


def _literal(value: Parameter) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def allowed(
    where: str,
    values: Mapping[str, Sequence[Parameter]],
    restrictions: Sequence[str],
    constants: Mapping[str, Any] | None = None,
) -> tuple[list[tuple[Parameter, ...]], int]:
    """All combinations of ``values`` that every restriction is true of, in the order of the values, the last
    parameter first to change; and how many others there are. ``constants`` are further names.

    Raises:
        SmlabError: a restriction that cannot be evaluated, by its number; no combination left, or too many.
    """
    names = tuple(values)
    others = dict(constants or {})
    due: list[list[tuple[str, str]]] = [[] for _ in range(len(names) + 1)]
    for number, text in enumerate(restrictions, start=1):
        at = f"{where}: restriction {number}"
        used = names_of(at, text)
        for name in sorted(used - set(names) - set(others)):
            raise SmlabError.at(at, "names no parameter", name, "one of " + ", ".join([*names, *others]))
        due[max((names.index(n) + 1 for n in used if n in names), default=0)].append((at, text))
    total = math.prod(len(v) for v in values.values())
    found: list[tuple[Parameter, ...]] = []
    visited = 0
    chosen: dict[str, Any] = dict(others)

    def combinations(depth: int) -> Iterator[tuple[Parameter, ...]]:
        nonlocal visited
        visited += 1
        if visited > MAX_VISITED:
            raise SmlabError.at(where, "has too many combinations", total, f"at most {MAX_VISITED:,} to try")
        if not all(evaluate(at, text, chosen, "a truth value") for at, text in due[depth]):
            return
        if depth == len(names):
            yield tuple(chosen[name] for name in names)
            return
        for value in values[names[depth]]:
            chosen[names[depth]] = value
            yield from combinations(depth + 1)
        del chosen[names[depth]]

    for configuration in combinations(0):
        found.append(configuration)
        if len(found) > MAX_CONFIGURATIONS:
            expected = f"at most {MAX_CONFIGURATIONS:,}; restrictions leave out some"
            raise SmlabError.at(where, "has too many configurations", f"more than {len(found) - 1}", expected)
    if not found:
        raise SmlabError.at(where, "restrictions leave no configuration", f"{total:,} combinations")
    return found, total - len(found)


def check_values(where: str, name: str, raw: Any) -> tuple[Parameter, ...]:
    """A parameter's values: a list, or an expression that gives one, ``[32 * i for i in range(1, 9)]``.

    Raises:
        SmlabError: no value, one that is there twice, or what is no number, text or truth value.
    """
    at = f"{where}: {name}"
    if not name.isidentifier():
        raise SmlabError.at(at, "not a name", name, "letters, digits and _")
    values = evaluate(at, raw, {}, "a list of values") if isinstance(raw, str) else raw
    if not isinstance(values, list) or not values:
        raise SmlabError.at(at, "not a list of values", raw, "a list such as [16, 32, 64]")
    for value in values:
        if not isinstance(value, int | float | str | bool):
            raise SmlabError.at(at, "not a value of a parameter", value, "a number, a text or a truth value")
    if len({(type(v), v) for v in values}) < len(values):
        raise SmlabError.at(at, "has a value twice", raw)
    return tuple(values)

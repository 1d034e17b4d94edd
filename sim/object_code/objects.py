"""Which objects there are, and the files of `sim` that are compiled into each.

An object's key is a digest of those files, whatever folder they lie in. So all checkouts of one version have
one object, and an edit elsewhere voids none. The files are found from the imports: the modules whose
functions Python calls, all modules of `sim` that they import at their head, and so on. What is compiled in
comes from one of them: a function, a constant, a writer of LLVM code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from smlab.hw_bench.sources import digest_of

OBJECTS: Final = {
    "engine": ("smlab.sim.compiled.gpu", "smlab.sim.compiled.sweep"),
    "machine_code": ("smlab.sim.execution.compiled_step", "smlab.sim.execution.compiled_blocks"),
    "trace": ("smlab.sim.traces.compiled_step",),
}
"""The modules of each object's entries."""

_SIM: Final = Path(__file__).parents[1]
_ROOM: Final = __package__.rpartition(".")[0]
_BUILDER: Final = f"{__package__}.building"
"""It is compiled into nothing, but says how all is optimised."""
_IMPORTS: Final = re.compile(r"^from ([\w.]+) import (\([^)]*\)|.*)|^import ([\w.]+)", re.MULTILINE)


def object_of(module: str) -> str | None:
    """The object of a module's entries; None for a module that no object names."""
    return next((name for name, modules in OBJECTS.items() if module in modules), None)


@cache
def sources_of(name: str) -> tuple[Path, ...]:
    """The files of `sim` that an object depends on, sorted."""
    found: set[Path] = set()
    open_ends = [_file_of(module) for module in (*OBJECTS[name], _BUILDER)]
    while open_ends:
        path = open_ends.pop()
        if path is not None and path not in found:
            found.add(path)
            open_ends += _imported(path)
    return tuple(sorted(found))


@cache
def version_of(name: str) -> str:
    """A digest of all that an object depends on."""
    return digest_of(*sources_of(name))


def _file_of(module: str) -> Path | None:
    """The file of a module of `sim`; None for anything else."""
    if not module.startswith(f"{_ROOM}."):
        return None
    place = _SIM.joinpath(*module.split(".")[_ROOM.count(".") + 1 :])
    return next((f for f in (place.with_suffix(".py"), place / "__init__.py") if f.is_file()), None)


def _imported(path: Path) -> Iterator[Path]:
    """The files of `sim` that the imports at a file's head name, whether a module is named or something in
    it."""
    text = re.sub(r"#.*", "", path.read_text(encoding="utf-8"))
    for match in _IMPORTS.finditer(text):
        module = match[1] or match[3]
        files = [_file_of(f"{module}.{name}") for name in re.findall(r"\w+", match[2] or "")]
        if None in files or not files:
            files.append(_file_of(module))
        yield from (file for file in files if file is not None)

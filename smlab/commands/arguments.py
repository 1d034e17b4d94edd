"""Arguments of the Python functions, checked: what has the wrong type is told in one line, as on the command
line."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu


def check_keywords(function: str, keywords: Mapping[str, object], known: type) -> None:
    """`TypeError`, as Python has it, for a keyword that the function's `TypedDict` does not have."""
    for name in keywords:
        if name not in known.__annotations__:
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")


def macros_of(defines: Sequence[str], option: str = "-D", expected: str = "NAME=VALUE") -> dict[str, str]:
    """``NAME=VALUE`` of each -D; a name alone is 1. `SmlabError` for what is no name."""
    macros = {}
    for text in defines:
        name, _, value = text.partition("=")
        if not name.isidentifier():
            raise SmlabError.at(option, "not a macro", text, expected)
        macros[name] = value or "1"
    return macros


def a_path(name: str, value: object) -> Path:
    """``value`` as a path; `SmlabError` naming the argument if it is none."""
    if isinstance(value, str | os.PathLike):
        return Path(os.fsdecode(value))
    raise SmlabError.at(name, f"a {type(value).__name__} is not a path", value, "a path")


def a_whole(name: str, value: object, least: int = 0) -> int:
    """A whole number of at least ``least``; `SmlabError` naming the argument if it is none."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= least:
        return value
    raise SmlabError.at(name, "not a whole number", value, f"a whole number from {least} on")


def a_gpu(name: str, value: object) -> Gpu:
    """A description, or the one of this name or path; `SmlabError` naming the argument if it is neither."""
    if isinstance(value, Gpu):
        return value
    if isinstance(value, str | os.PathLike):
        return load_gpu(os.fsdecode(value))
    kind = type(value).__name__
    raise SmlabError.at(name, f"a {kind} is not a GPU", value, "a name, a description's path or a Gpu")

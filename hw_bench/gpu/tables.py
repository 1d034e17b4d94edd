"""The tables of a description's TOML file: sources, and constants by dotted name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from smlab.hw_bench.errors import SmlabError, alike_names
from smlab.hw_bench.gpu.constants import Constant, parse_constant
from smlab.hw_bench.gpu.schema import KEYS_BY_NAME, is_group

TOP_FIELDS: Final = (
    "title",
    "architecture",
    "compute_capability",
    "aliases",
    "extends",
    "same_card",
    "without",
    "sources",
    "alternatives",
    "measured_on",
)
"""What stands at the top of a file beside the groups of constants."""


def guess_at(name: str, known: Iterable[str], prefix: str = "") -> str:
    """What was perhaps meant, for a message: up to three keys, each behind ``prefix``; else where the keys
    are listed."""
    alike = [prefix + key for key in alike_names(name, known)]
    if alike:
        return "perhaps " + ", ".join(alike[:-1]) + (" or " if alike[1:] else "") + alike[-1]
    return f"a key that `smlab gpus NAME` lists, such as {prefix}sm.schedulers"


def read_sources(path: Path, table: object) -> dict[str, str]:
    if not isinstance(table, dict):
        raise SmlabError.at(
            f"{path}: sources", "is not a table", table, 'lines such as cuda-guide = "NVIDIA, ..."'
        )
    for name, text in table.items():
        if not isinstance(text, str) or not text.strip():
            raise SmlabError.at(
                f"{path}: sources.{name}", "is not a citation", text, "a string that says where from"
            )
    return table


def read_constants(
    path: Path, prefix: str, table: Mapping[str, Any], sources: Mapping[str, str], into: dict[str, Constant]
) -> None:
    """Put the constants below ``table`` into ``into``, by dotted name."""
    for part, entry in table.items():
        name = f"{prefix}{part}"
        if name in KEYS_BY_NAME:
            into[name] = parse_constant(str(path), KEYS_BY_NAME[name], entry, sources)
        elif not is_group(name):
            known = [*KEYS_BY_NAME, *(TOP_FIELDS if not prefix else ())]
            raise SmlabError.at(f"{path}: {name}", "unknown key", expected=guess_at(name, known))
        elif isinstance(entry, dict):
            read_constants(path, f"{name}.", entry, sources, into)
        else:
            raise SmlabError.at(f"{path}: {name}", "is not a table", entry, f"a table [{name}]")

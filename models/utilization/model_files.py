"""How fitted maps are read, written and checked: JSON that people can read, with numbers as good as they are
known, and the names of the features that a map was fitted on."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.files import write_atomic
from smlab.hw_bench.inputs import load_json


def write_map(path: Path, document: Mapping[str, Any], *, compact: bool = False) -> None:
    """Write a map as JSON, numbers rounded to four digits, a list of numbers on one line; ``compact`` leaves
    out what only eyes need."""
    between = "" if compact else " "
    text = json.dumps(_rounded(document), indent=0 if compact else 1)
    write_atomic(path, re.sub(r"\[[^\[\]{}]*\]", lambda m: re.sub(r"\s*\n\s*", between, m[0]), text) + "\n")


@contextmanager
def read_map(path: Path, what: str, version: int, make: str) -> Iterator[dict[str, Any]]:
    """What `write_map` wrote, to be taken apart within: what is not there or of another type is an error.

    Raises:
        SmlabError: naming the file and the command ``make``, for anything else than ``what`` of this version.
    """
    expected = f"what `{make}` writes"
    try:
        document = load_json(path, expected)
        if document["version"] != version:
            raise SmlabError.at(
                str(path), f"another version of the {what}", document["version"], str(version)
            )
        yield document
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError) as error:
        said = f"{type(error).__name__}: {error}".replace("\n", " ")
        raise SmlabError.at(str(path), f"not the {what} ({said})", expected=expected) from error


def check_features(where: str, fitted: Sequence[str], computed: Sequence[str]) -> None:
    """Refuse a map that was ``fitted`` on other features than those ``computed`` here, or in another order;
    `SmlabError` names the first difference."""
    if list(fitted) == list(computed):
        return
    unknown = [f'has "{name}", which smlab does not compute' for name in fitted if name not in computed]
    missing = [f'lacks "{name}"' for name in computed if name not in fitted]
    order = [
        f'has "{a}" as number {n}, where smlab computes "{b}"'
        for n, (a, b) in enumerate(zip_longest(fitted, computed), start=1)
        if a != b
    ]
    differences = [*unknown[:1], *missing[:1]] or order[:1]
    raise SmlabError.at(
        where,
        f"a map of other features: it {' and '.join(differences)}",
        expected=f"the {len(computed)} features that smlab computes",
    )


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, Mapping):
        return {k: _rounded(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(v) for v in value]
    return value

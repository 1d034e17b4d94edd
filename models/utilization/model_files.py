"""How fitted maps are read and checked: JSON, and the names of the features that a map was fitted on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.inputs import load_json


@contextmanager
def read_map(path: Path, what: str, version: int) -> Iterator[dict[str, Any]]:
    """A shipped map, to be taken apart within: what is not there or of another type is an error.

    Raises:
        SmlabError: naming the file, for anything else than ``what`` of this version.
    """
    expected = f"the {what} that comes with smlab"
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

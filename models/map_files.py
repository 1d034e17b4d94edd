"""How fitted maps are written: JSON that people can read, with numbers as good as they are known."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from smlab.hw_bench.files import write_atomic


def write_map(path: Path, document: Mapping[str, Any], *, compact: bool = False) -> None:
    """Write a map as JSON, numbers rounded to four digits, a list of numbers on one line; ``compact`` leaves
    out what only eyes need."""
    between = "" if compact else " "
    text = json.dumps(_rounded(document), indent=0 if compact else 1)
    write_atomic(path, re.sub(r"\[[^\[\]{}]*\]", lambda m: between.join(m[0].split()), text) + "\n")


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, Mapping):
        return {k: _rounded(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(v) for v in value]
    return value

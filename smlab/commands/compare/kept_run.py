"""A run as ``smlab run --json`` writes it down, for comparing: read from a file, or as it was just made."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.inputs import load_json

WHAT: Final = "what `smlab run --json` printed"


@dataclass(frozen=True)
class KeptRun:
    """What of a run can be compared. ``seconds`` are those of the whole grid, from ``low`` to ``high`` by
    sampling alone. ``stalls`` are parts of the warps' time by reason, ``lines`` by source line (0: without
    one), and ``source`` is the text of those lines. ``digests`` identify the arrays that came back.
    ``arrays`` are those arrays, if the run was made just now."""

    name: str
    kernel: str
    gpu: str
    seconds: float
    cycles: float
    low: float
    high: float
    stalls: dict[str, float]
    lines: dict[int, float]
    source: dict[int, str]
    counters: dict[str, float]
    digests: dict[str, str]
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)


def read_kept_run(path: Path) -> KeptRun:
    """
    Raises:
        SmlabError: a file that ``smlab run --json`` has not written, by the key that is missing or wrong.
    """
    document = load_json(path, WHAT)
    if not isinstance(document, dict):
        raise SmlabError.at(str(path), "holds no run", type(document).__name__, WHAT)
    return kept_run(document, path.name, str(path))


def kept_run(
    document: Mapping[str, Any], name: str, where: str, arrays: Mapping[str, np.ndarray] | None = None
) -> KeptRun:
    """The run in a document; ``where`` stands in messages.

    Raises:
        SmlabError: a key that is missing or has an impossible value.
    """
    if "kernels" in document:
        raise SmlabError.at(where, "is a program of several kernels", None, "a run of one kernel")
    seconds, cycles = (_number(document, key, where) for key in ("seconds", "cycles"))
    if not seconds > 0 or not cycles > 0:
        raise SmlabError.at(f"{where}: seconds", "no time of a kernel", seconds, "seconds above 0")
    low, high = (_number(document, key, where) for key in ("cycles_low", "cycles_high"))
    rows = _table(document, "instructions", list, where)
    lines: dict[int, float] = {}
    for n, row in enumerate(rows):
        at = f"{where}: instructions[{n}]"
        if not isinstance(row, dict):
            raise SmlabError.at(at, "no instruction", type(row).__name__, WHAT)
        line = row.get("line")
        if line is not None and not isinstance(line, int):
            raise SmlabError.at(f"{at}: line", "no line", line, "a whole number")
        weight = sum(_numbers(_table(row, "stalls", dict, at), at).values())
        lines[line or 0] = lines.get(line or 0, 0.0) + weight
    source = _table(document, "source_lines", dict, where, {})
    digests = _table(document, "returned", dict, where, {})
    return KeptRun(
        name=name,
        kernel=str(document.get("kernel", "")),
        gpu=str(document.get("gpu", "")),
        seconds=seconds,
        cycles=cycles,
        low=low * seconds / cycles,
        high=high * seconds / cycles,
        stalls=_shares(_numbers(_table(document, "stalls", dict, where), where)),
        lines=_shares(lines),
        source={int(k): str(v) for k, v in source.items() if str(k).isdecimal()},
        counters=_numbers(_table(document, "counters", dict, where, {}), where),
        digests={str(k): str(v) for k, v in digests.items()},
        arrays=arrays or {},
    )


def _number(document: Mapping[str, Any], key: str, where: str) -> float:
    value = document.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise SmlabError.at(f"{where}: {key}", "is missing or no number", value, WHAT)
    return float(value)


def _table(document: Mapping[str, Any], key: str, kind: type, where: str, default: Any = None) -> Any:
    value = document.get(key, default)
    if not isinstance(value, kind):
        raise SmlabError.at(f"{where}: {key}", "is missing or of another kind", None, WHAT)
    return value


def _numbers(table: Mapping[Any, Any], where: str) -> dict[str, float]:
    return {str(key): _number(table, key, where) for key in table}


def _shares(weights: Mapping[Any, float]) -> dict[Any, float]:
    total = sum(weights.values()) or 1.0
    return {key: weight / total for key, weight in weights.items() if weight}

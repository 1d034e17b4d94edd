"""Where two simulations of the same kernel differ first."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from smlab.sim.instructions import CLASS_NAMES, Reason
from smlab.sim.result import SimResult

NEIGHBOURS = 3
"""Rows shown on each side of the first difference."""

_TRACES = {
    "jobs": ("issue", ("sm", "sequence")),
    "issues": ("cycle", ("sm", "scheduler")),
    "spans": ("begin", ("warp",)),
    "warps": ("finish", ("warp",)),
    "blocks": ("retire", ("block",)),
}
"""Each trace's column with its time, and what else puts its events in order."""

_VALUES = ("cycles", "warp_instructions", "kernel", "gpu", "policy", "seed", "max_warps", "sms", "memory")


def first_difference(a: SimResult, b: SimResult) -> str | None:
    """The first event that differs, with its neighbourhood in both results; None where everything but the
    time spent and the engine's name is equal.

    Traces come before totals, and of the traces the one whose first difference is earliest in simulated time.
    """
    found = [f for name in _TRACES if (f := _trace_difference(name, a, b)) is not None]
    if found:
        return min(found, key=lambda f: f[0])[1]
    for name in _VALUES:
        of_a, of_b = getattr(a, name), getattr(b, name)
        if of_a != of_b:
            return _value_difference(name, of_a, of_b, a.engine, b.engine)
    return None


def _value_difference(name: str, of_a: Any, of_b: Any, engine_a: str, engine_b: str) -> str:
    if isinstance(of_a, tuple) and len(of_a) == len(of_b):
        for index, (x, y) in enumerate(zip(of_a, of_b, strict=True)):
            if x != y:
                return _value_difference(f"{name}[{index}]", x, y, engine_a, engine_b)
    if dataclasses.is_dataclass(of_a) and dataclasses.is_dataclass(of_b):
        lines = [
            f"  {f.name}: {engine_a} {getattr(of_a, f.name)}, {engine_b} {getattr(of_b, f.name)}"
            for f in dataclasses.fields(of_a)
            if getattr(of_a, f.name) != getattr(of_b, f.name)
        ]
        return "\n".join([f"{name} differs:", *lines])
    return f"{name} differs: {engine_a} {of_a}, {engine_b} {of_b}"


def _trace_difference(name: str, a: SimResult, b: SimResult) -> tuple[int, str] | None:
    """The simulated time of the first difference of one trace, and the message."""
    of_a, of_b = getattr(a, name), getattr(b, name)
    if of_a is None and of_b is None:
        return None
    if of_a is None or of_b is None:
        missing = a.engine if of_a is None else b.engine
        return -1, f"{name}: {missing} recorded none"
    time, keys = _TRACES[name]
    columns = [f.name for f in dataclasses.fields(of_a)]
    table_a, table_b = (_in_order(t, columns, (time, *keys)) for t in (of_a, of_b))
    common = min(len(table_a), len(table_b))
    unequal = (table_a[:common] != table_b[:common]).any(axis=1)
    if not unequal.any() and len(table_a) == len(table_b):
        return None
    row = int(np.argmax(unequal)) if unequal.any() else common
    when = min(int(t[row, columns.index(time)]) for t in (table_a, table_b) if row < len(t))
    lines = [f"{name}: first difference in row {row} by time, cycle {when}"]
    if row < common:
        differing = [_heading(columns, c) for c in np.nonzero(table_a[row] != table_b[row])[0].tolist()]
        lines[0] += ", in " + ", ".join(differing)
    for engine, table in ((a.engine, table_a), (b.engine, table_b)):
        lines.append(f"{engine} ({len(table)} rows):")
        for n in range(max(0, row - NEIGHBOURS), min(len(table), row + NEIGHBOURS + 1)):
            lines.append(("> " if n == row else "  ") + _shown(columns, table[n]))
        if row >= len(table):
            lines.append("> (ends here)")
    return when, "\n".join(lines)


def _in_order(trace: Any, columns: list[str], by: tuple[str, ...]) -> Any:
    """All columns of a trace side by side, in the order of time; columns of vectors are spread out."""
    parts = [getattr(trace, name) for name in columns]
    table = np.column_stack([p if p.ndim == 2 else p[:, None] for p in parts])
    return table[np.lexsort([getattr(trace, key) for key in reversed(by)])]


def _heading(columns: list[str], column: int) -> str:
    if column < len(columns) - 1 or columns[-1] != "stall_cycles":
        return columns[column]
    return f"stall_cycles[{Reason(column - len(columns) + 1).label}]"


def _shown(columns: list[str], row: Any) -> str:
    parts = []
    for column, value in enumerate(row.tolist()):
        heading = _heading(columns, column)
        if heading == "op":
            parts.append(CLASS_NAMES[value])
        elif heading == "reason":
            parts.append(Reason(value).label)
        else:
            parts.append(f"{heading} {value}")
    return ", ".join(parts)

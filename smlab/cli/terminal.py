"""What the command line prints: JSON documents on standard output, people's tables, progress on standard
error."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

PIPED_COLUMNS = 160
"""How wide tables are when they go into a file or a pipe, where no terminal says."""

out = Console(highlight=False, width=None if sys.stdout.isatty() else PIPED_COLUMNS)
err = Console(stderr=True, highlight=False)

Advance = Callable[[int, int], None]


def print_json(document: Any) -> None:
    """One JSON document on standard output; what is not a number becomes null."""
    json.dump(_plain(document), sys.stdout, indent=2, allow_nan=False)
    sys.stdout.write("\n")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


@contextmanager
def progress_bar(what: str) -> Iterator[Advance]:
    """Yields a function to be told ``(done, total)``; shows a bar with an estimate where standard error is
    a terminal."""
    if not err.is_terminal:
        yield lambda done, total: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=err, transient=True) as bars:
        tasks: dict[str, Any] = {}

        def advance(done: int, total: int) -> None:
            if "bar" not in tasks:
                tasks["bar"] = bars.add_task(what, total=total)
            bars.update(tasks["bar"], completed=done, total=total)

        yield advance

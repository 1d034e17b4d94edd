"""What the command line prints: JSON documents on standard output, people's tables, progress on standard
error."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console, ConsoleDimensions
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from smlab.cli.text import SCHEMA, one_line, visible

PIPED_COLUMNS = 160
"""How wide tables are when they go into a file or a pipe and COLUMNS does not say."""
MIN_COLUMNS = 40


class Terminal(Console):
    """A console that shows no control character, takes no word for an emoji, and obeys COLUMNS everywhere."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, highlight=False, emoji=False)

    @property  # type: ignore[misc]  # rich has a setter, which nothing uses
    def size(self) -> ConsoleDimensions:
        """COLUMNS, or the terminal's width, or `PIPED_COLUMNS`; `MIN_COLUMNS` at least."""
        width, height = super().size
        columns = os.environ.get("COLUMNS", "")
        if columns.isdecimal() and len(columns) < 6 and int(columns) > 0:
            width = int(columns)
        elif not self.file.isatty():
            width = PIPED_COLUMNS
        return ConsoleDimensions(max(MIN_COLUMNS, width), height)

    def on_broken_pipe(self) -> None:
        """Leave it to `smlab.cli.main`; rich would end the process."""
        raise

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(visible(text), **options)


out = Terminal()
err = Terminal(stderr=True)


def shown(text: object) -> str:
    """Text from a file or the user, to stand within markup: on one line, without control characters."""
    return escape(one_line(str(text)))


Advance = Callable[[int, int], None]


def print_json(document: Mapping[str, Any]) -> None:
    """One JSON document on standard output, with its ``schema``; what is not a number becomes null."""
    json.dump(_plain({"schema": SCHEMA, **document}), sys.stdout, indent=2, allow_nan=False)
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
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=err, transient=True) as bars:
        tasks: dict[str, Any] = {}

        def advance(done: int, total: int) -> None:
            if "bar" not in tasks:
                tasks["bar"] = bars.add_task(one_line(what), total=total)
            bars.update(tasks["bar"], completed=done, total=total)

        yield advance

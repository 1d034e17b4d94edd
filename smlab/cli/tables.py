"""Tables for people, at any width: a number is never cut."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

MIN_TEXT_WIDTH: Final = 12
"""The fewest characters a column of text is folded to; below that, columns are dropped."""
NUMBER: Final = re.compile(r"[^\w\s]?[0-9][0-9.,]*(?:e[+-]?[0-9]+)?[^\w\s]?\w?")
"""A word of a text that is not broken."""
BETWEEN, EDGES = 3, 2
"""Blanks between two columns, and left and right of the table."""


@dataclass(frozen=True)
class Heading:
    """A column. Without ``fold`` it is shown whole or not at all, else on ``min_width`` characters at least.
    ``drop`` says what goes first where the terminal is too narrow (0: never)."""

    text: str
    justify: Literal["left", "right"]
    fold: bool
    drop: int
    max_width: int | None
    min_width: int = MIN_TEXT_WIDTH


class Listing:
    """A table that fits the terminal. Cells are as rich prints them (markup; `shown` for text from files).

    Where all columns fit, with text folded to `Heading.min_width` characters at least, they are shown. Else
    columns are left out in the order of ``drop``, and named below the table. Where even that is not enough,
    each row becomes a record of lines ``heading  value``.
    """

    def __init__(self, *headings: str, header: bool = True) -> None:
        self.header = header
        self.headings: list[Heading] = []
        self.rows: list[tuple[tuple[str | Text, ...], str | None]] = []
        for heading in headings:
            self.add_column(heading, fold=True)

    def add_column(
        self,
        heading: str = "",
        *,
        justify: Literal["left", "right"] = "left",
        fold: bool = False,
        drop: int = 0,
        max_width: int | None = None,
        min_width: int = MIN_TEXT_WIDTH,
    ) -> None:
        """A column; ``fold`` for text that may go on in the next line, ``min_width`` characters at least."""
        self.headings.append(Heading(heading, justify, fold, drop, max_width, min_width))

    def add_row(self, *cells: str | Text, style: str | None = None) -> None:
        """A row, a cell for each column (missing ones at the end are empty)."""
        missing = len(self.headings) - len(cells)
        if missing < 0:
            raise ValueError(f"{len(cells)} cells for {len(self.headings)} columns")
        self.rows.append(((*cells, *[""] * missing), style))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        texts = [
            [c if isinstance(c, Text) else console.render_str(c, highlight=False) for c in cells]
            for cells, _ in self.rows
        ]
        wanted = [self._widths([row[i] for row in texts], h) for i, h in enumerate(self.headings)]
        chosen = self._chosen([least for least, _ in wanted], options.max_width)
        if chosen is None:
            yield from self._records(texts, options.max_width)
            return
        room = options.max_width - EDGES - BETWEEN * (len(chosen) - 1)
        widths = spread([wanted[i] for i in chosen], room)
        table = Table(box=box.SIMPLE, pad_edge=False, show_edge=False, show_header=self.header)
        for i, width in zip(chosen, widths, strict=True):
            h = self.headings[i]
            table.add_column(Text(h.text), justify=h.justify, width=width, overflow="fold")
        for row, (_, style) in zip(texts, self.rows, strict=True):
            table.add_row(*(row[i] for i in chosen), style=style)
        yield table
        left_out = [h.text for i, h in enumerate(self.headings) if i not in chosen and h.text]
        if left_out:
            yield Text(f"left out at this width: {', '.join(left_out)} (--json has all)", style="dim")

    def _widths(self, cells: Sequence[Text], heading: Heading) -> tuple[int, int]:
        """The least width of a column and the one it would like, in characters."""
        whole = max((max((line.cell_len for line in c.split()), default=0) for c in cells), default=0)
        title = heading.text if self.header else ""
        word = max((Text(w).cell_len for w in title.split()), default=0)
        wanted = max(whole, Text(title).cell_len)
        if heading.max_width is not None:
            wanted = min(wanted, max(heading.max_width, word))
        if heading.fold:
            numbers = [Text(w).cell_len for c in cells for w in c.plain.split() if NUMBER.fullmatch(w)]
            whole = max(min(whole, heading.min_width), *numbers, 0)
        least = max(whole, word, 1)
        return least, max(wanted, least)

    def _chosen(self, least: Sequence[int], width: int) -> list[int] | None:
        """The columns that fit; None where records must be stacked."""
        chosen = list(range(len(self.headings)))
        going = sorted((i for i in chosen if self.headings[i].drop), key=lambda i: self.headings[i].drop)
        while sum(least[i] for i in chosen) + EDGES + BETWEEN * (len(chosen) - 1) > width:
            if not going:
                return None
            chosen.remove(going.pop())
        return chosen

    def _records(self, rows: Sequence[Sequence[Text]], width: int) -> Iterator[RenderableType]:
        """Each row as lines of heading and value; a value that is longer than the line is folded."""
        titles = [h.text for h in self.headings]
        numbers = [len(w) for row in rows for cell in row for w in cell.plain.split() if NUMBER.fullmatch(w)]
        room = max(width // 2, max(numbers, default=0))
        indent = max(8, min(max((Text(t).cell_len for t in titles), default=0), width - 2 - room))
        for row, (_, style) in zip(rows, self.rows, strict=True):
            yield Text("")
            record = Table.grid(padding=(0, 2, 0, 0))
            record.add_column(width=indent, overflow="fold")
            record.add_column(width=width - indent - 2, overflow="fold")
            for title, cell in zip(titles, row, strict=True):
                if cell.plain:
                    record.add_row(Text(title, style="dim"), cell, style=style)
            yield record
        yield Text("")


def spread(wanted: Sequence[tuple[int, int]], room: int) -> list[int]:
    """Widths from (least, wanted) that add up to ``room`` at most: all get the least, and shares of the rest
    in proportion to what they lack."""
    least = [low for low, _ in wanted]
    lacking = [high - low for low, high in wanted]
    spare = min(room - sum(least), sum(lacking))
    if spare <= 0:
        return least
    ends = [0]
    for part in lacking:
        ends.append(ends[-1] + part)
    shares = [round(spare * end / ends[-1]) for end in ends]
    return [low + b - a for low, (a, b) in zip(least, pairwise(shares), strict=True)]

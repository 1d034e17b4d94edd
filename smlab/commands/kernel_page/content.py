"""What a kernel's page says, before it is HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby

from markupsafe import Markup


@dataclass(frozen=True)
class ShareBar:
    """A bar from 0 to 100 %: ``share`` is a part of 1, ``text`` the number as it is read, ``name`` of its
    colour."""

    label: str
    share: float
    text: str
    colour: str = "load"


@dataclass(frozen=True)
class Bars:
    """Bars below each other."""

    rows: Sequence[ShareBar]


@dataclass(frozen=True)
class ColourKey:
    """What the colours of a drawing stand for."""

    rows: Sequence[ShareBar]


@dataclass(frozen=True)
class PageTable:
    """A table of texts. ``left`` are the columns that hold words; the others hold numbers. ``links`` lead the
    cells of the first column to places of the page."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: frozenset[int] = frozenset({0})
    links: Sequence[str] = ()
    folded: str = ""
    """What a click opens it by; empty for a table that is open."""


@dataclass(frozen=True)
class Picture:
    """An SVG drawing of fixed size; ``alt`` says in words what is seen."""

    svg: Markup
    alt: str
    caption: str = ""


@dataclass(frozen=True)
class AdviceCard:
    """A piece of advice: its heading, what to do, and places as (anchor, label)."""

    heading: str
    text: str
    places: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class AdviceCards:
    """Advice, the most promising first."""

    cards: Sequence[AdviceCard]


@dataclass(frozen=True)
class Prose:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class CodeRow:
    """A row of source or machine code. ``heat`` is its part of the time that warps waited, and ``rank`` its
    place from the hottest on. ``group`` is the anchor of its source line, ``target`` what a click on it leads
    to."""

    anchor: str
    label: str
    text: str
    heat: float
    rank: int
    note: str = ""
    target: str = ""
    group: str = ""
    target_label: str = ""


@dataclass(frozen=True)
class CodePanes:
    """Source beside machine code, which a click on a line marks in the other."""

    source: Sequence[CodeRow]
    machine: Sequence[CodeRow]
    notes: str

    @property
    def width(self) -> int:
        """Letters of the widest instruction, within reason."""
        return min(max((len(row.text) for row in self.machine), default=20), 60)

    @property
    def groups(self) -> list[str]:
        """The anchors of source lines that have machine code."""
        found = {row.group for row in self.machine}
        return [row.anchor for row in self.source if row.anchor in found]


Block = AdviceCards | Bars | ColourKey | PageTable | Picture | Prose | CodePanes


@dataclass(frozen=True)
class PageSection:
    """A part of the page with its heading; ``half`` lets two stand beside each other where there is room."""

    name: str
    title: str
    blocks: Sequence[Block]
    half: bool = False

    @property
    def parts(self) -> list[tuple[str, Block]]:
        """The blocks with the kind that the template draws them by."""
        return [(type(block).__name__, block) for block in self.blocks]


@dataclass(frozen=True)
class KernelPage:
    """A page: the verdict, then the sections. ``word`` colours the verdict: held, fell short, not done or
    plain."""

    title: str
    subtitle: str
    headline: str
    details: Sequence[str]
    sections: Sequence[PageSection]
    word: str = "plain"
    notes: Sequence[str] = field(default=())

    @property
    def groups(self) -> list[tuple[bool, list[PageSection]]]:
        """The sections in their order, those that stand beside each other together."""
        return [(half, list(found)) for half, found in groupby(self.sections, key=lambda s: s.half)]

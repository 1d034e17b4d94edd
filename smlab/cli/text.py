"""Text from files, made safe to show: a kernel's name may hold what a terminal obeys."""

from __future__ import annotations

import codecs
import re
from typing import Final

CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 without tab and newline, DEL, C1
    "\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff"  # what reorders or hides text
    "\ud800-\udfff]"  # halves of characters, as undecodable names of files have them
)
PLAIN = {"█": "#", "…": "~", "×": "x", "µ": "u", "–": "-", "—": "-", "≤": "<", "≥": ">", "°": "d", "─": "-"}
"""What a terminal that only knows ASCII gets instead; one character for one, so that tables stay in line."""

SCHEMA: Final = 1
"""The version of all JSON documents. Within a version keys keep their name, meaning and unit; keys may be
added."""

MAX_WORD = 250

ERRORS = "smlab.plain"
"""The name of the error handler for streams that cannot show every character."""


def visible(text: str) -> str:
    """``text`` with its control characters written out (``\\x1b``), tabs and newlines kept."""
    return CONTROL.sub(_written_out, text)


def one_line(text: str) -> str:
    """``text`` on one line, with nothing in it that a terminal obeys; words longer than `MAX_WORD` lose their
    middle."""
    return visible(" ".join(map(_short, text.split())))


def _short(word: str) -> str:
    if len(word) <= MAX_WORD:
        return word
    return f"{word[:60]}...{word[-30:]} ({len(word)} characters)"


def _written_out(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")


def _replaced(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    bad = error.object[error.start : error.end]
    return "".join(PLAIN.get(c) or c.encode("unicode_escape").decode("ascii") for c in bad), error.end


codecs.register_error(ERRORS, _replaced)

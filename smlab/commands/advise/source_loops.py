"""Loops of CUDA C as they stand in the text: where each begins, and which lines it goes over."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from smlab.hw_bench.sass import SourceLine

_NO_CODE: Final = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])'|^[ \t]*\#(?:\\\r?\n|[^\n])*""",
    re.DOTALL | re.MULTILINE | re.VERBOSE,
)
"""Comments, texts, characters, directives."""
_KEYWORD: Final = re.compile(r"\b(for|while|do)\b")
_WORD: Final = re.compile(r"\s*(\w*)")
_PRAGMA: Final = re.compile(r"[ \t]*#[ \t]*pragma[ \t]+(?:no)?unroll\b(?:\\\r?\n|[^\n])*\n\s*\Z")
_OPEN: Final = {"(": ")", "{": "}", "[": "]"}


@dataclass(frozen=True)
class SourceLoop:
    """A loop: the place of its keyword in the text, and its lines, of which ``line`` is the keyword's."""

    at: int
    line: int
    last_line: int


def code_of_text(text: str) -> str:
    """The text with blanks in place of what is no code, each character where it was."""
    return _NO_CODE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def loops_of(text: str) -> tuple[SourceLoop, ...]:
    """All loops of a text; those are left out whose end is not found, as where directives part a body."""
    code = code_of_text(text)
    loops = []
    ends_of_do = set()
    for found in _KEYWORD.finditer(code):
        if found.start() in ends_of_do:
            continue
        end = statement_end(code, found.start())
        if end is None:
            continue
        if found[1] == "do":
            body = statement_end(code, found.end())
            if body is not None:
                ends_of_do.add(body + len(_WORD.match(code, body)[0]) - len("while"))  # type: ignore[index]
        first, last = (code.count("\n", 0, at) + 1 for at in (found.start(), end))
        loops.append(SourceLoop(found.start(), first, last))
    return tuple(loops)


def innermost_of(loops: tuple[SourceLoop, ...], line: int) -> SourceLoop | None:
    """The loop with the fewest lines that goes over a line."""
    around = [loop for loop in loops if loop.line <= line <= loop.last_line]
    return min(around, key=lambda loop: (loop.last_line - loop.line, -loop.at), default=None)


def loop_around(loops: tuple[SourceLoop, ...], place: SourceLine | None, file: str) -> SourceLoop | None:
    """The innermost loop of a file of that name that an instruction's line stands in; of an inlined function
    that has none around it there, the loop around its call."""
    while place is not None:
        loop = innermost_of(loops, place.line) if Path(place.file).name == file else None
        if loop is not None:
            return loop
        place = place.inlined_at
    return None


def unrolled(text: str, offset: int, factor: int) -> str:
    """The text with the loop that begins at ``offset`` unrolled by a pragma, each line where it was. A
    pragma that stands there goes."""
    before = text[:offset]
    if found := _PRAGMA.search(before):
        before = before[: found.start()] + re.sub(r"[^\n]", "", found[0])
    return f'{before}_Pragma("unroll {factor}") {text[offset:]}'


def statement_end(code: str, offset: int) -> int | None:
    """Where the statement that begins here ends; None where the text ends before."""
    found = _WORD.match(code, offset)
    assert found is not None
    offset, word = found.end(), found[1]
    if word in ("for", "while", "switch", "if"):
        opened = code.find("(", offset)
        behind = None if opened < 0 else closed(code, opened)
        end = None if behind is None else statement_end(code, behind)
        if word == "if" and end is not None:
            other = _WORD.match(code, end)
            if other is not None and other[1] == "else":
                return statement_end(code, other.end())
        return end
    if word == "do":
        body = statement_end(code, offset)
        return None if body is None else _semicolon(code, body)
    if not word and offset < len(code) and code[offset] == "{":
        return closed(code, offset)
    return _semicolon(code, offset)


def _semicolon(code: str, at: int) -> int | None:
    while at < len(code):
        if code[at] == ";":
            return at + 1
        if code[at] in _OPEN:
            behind = closed(code, at)
            if behind is None:
                return None
            at = behind
        elif code[at] in _OPEN.values():
            return None
        else:
            at += 1
    return None


def closed(code: str, offset: int) -> int | None:
    """Behind the bracket that closes the one here."""
    opened, closing = code[offset], _OPEN[code[offset]]
    depth = 0
    for place in range(offset, len(code)):
        if code[place] == opened:
            depth += 1
        elif code[place] == closing:
            depth -= 1
            if not depth:
                return place + 1
    return None

"""Reading what ``nvdisasm -c`` prints, with or without ``-hex`` (encodings) and ``-g`` or ``-gi`` (source
lines)."""

from __future__ import annotations

import re
from typing import Final

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.inputs import MAX_LINE_BYTES
from smlab.hw_bench.sass.instruction import Function, Operand, Predicate, SassInstruction, SourceLine

_SECTION: Final = re.compile(r"\s*\.section\s+\.text\.([^\s,]+)")
_ENTRY: Final = re.compile(r"\s*\.other\s+[^\s,]+,\s*@\"[^\"]*STO_CUDA_ENTRY")
_OTHER_SECTION: Final = re.compile(r"\s*\.section\s")
_ARCHITECTURE: Final = re.compile(r"EF_CUDA_SM(\d+)|\.target\s+sm_(\d+)")
_LABEL: Final = re.compile(r"([.$\w][^\s:]*):\s*$")
_INSTRUCTION: Final = re.compile(
    r"\s*+/\*(?P<address>[0-9a-f]{4,}+)\*/\s++"
    r"(?:@(?P<negated>!)?(?P<guard>U?P\w++)\s++)?"
    r"(?P<mnemonic>[A-Z][\w.]*+)\s*+(?P<operands>[^;]*+);"
    r"(?:\s*+/\*\s*+(?P<word>0x[0-9a-f]{16})\s*+\*/)?\s*+$"
)
"""Nothing in it goes back: a line takes time in proportion to its length, whatever stands in it."""
_SECOND_WORD: Final = re.compile(r"\s*/\*\s*(0x[0-9a-f]{16})\s*\*/\s*$")
_SOURCE: Final = re.compile(
    r'\s*//## File "(?P<file>[^"]*)", line (?P<line>\d+)'
    r'(?: inlined at "(?P<outer>[^"]*)", line (?P<outer_line>\d+))?'
)
_ANNOTATION: Final = re.compile(r"(?<!\s)\s++[&?](?:\{[^{}]*+\}|[^\s,{])++")
"""Newer disassemblers append scheduling notes (``&wr=0x0 &req={2,1} ?trans1``) to the operands."""
_ADDRESS: Final = re.compile(r"\s*+/\*[0-9a-f]{4,}+\*/\s++")
MAX_CODE_BYTES: Final = 1 << 40
"""No kernel's code is so long."""
_MAX_DIGITS: Final = 9


def parse_listing(text: str, where: str = "listing") -> tuple[Function, ...]:
    """Read a listing into its functions, one for each code section.

    Raises:
        SmlabError: naming the line, for an instruction whose encoding is cut off or addresses that do not
        ascend.
    """
    reader = _Reader(where)
    for number, line in enumerate(text.splitlines(), start=1):
        if len(line) > MAX_LINE_BYTES:
            raise SmlabError.at(
                f"{where}, line {number}", "is too long", len(line), f"at most {MAX_LINE_BYTES} characters"
            )
        reader.read(_alone(line), number)
    return reader.finish()


def _alone(line: str) -> str:
    """Before Volta two instructions may issue together: ``{`` precedes the first, ``}`` stands for the
    second's semicolon. The line as that of one alone."""
    if (match := _ADDRESS.match(line)) is None:
        return line
    rest = line[match.end() :]
    if rest.startswith("{"):
        return match[0] + rest[1:]
    rest = rest.rstrip()
    return f"{match[0]}{rest[:-1]} ;" if rest.endswith("}") and ";" not in rest else line


def split_operands(text: str) -> tuple[Operand, ...]:
    """Split at the commas outside of brackets."""
    parts: list[str] = []
    depth = 0
    current = ""
    for character in _ANNOTATION.sub("", " " + text).strip():
        if character in "[({":
            depth += 1
        elif character in "])}":
            depth -= 1
        if character == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += character
    parts.append(current)
    return tuple(Operand(part.strip()) for part in parts if part.strip())


class _Reader:
    """Reads line by line: a section begins a function, a source line holds for all instructions until the
    next."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._functions: list[Function] = []
        self._architecture = "unknown"
        self._name: str | None = None
        self._instructions: list[SassInstruction] = []
        self._labels: list[str] = []
        self._placed: dict[str, int] = {}
        self._entry = False
        self._source: SourceLine | None = None
        self._notes: list[re.Match[str]] = []
        self._half: tuple[re.Match[str], int] | None = None

    def read(self, line: str, number: int) -> None:
        if self._half is not None:
            self._complete(line, number)
        elif match := _SECTION.match(line):
            self._end_function()
            self._name = match[1]
        elif _OTHER_SECTION.match(line):
            self._end_function()
        elif match := _ARCHITECTURE.search(line):
            digits = self._digits(match[1] or match[2], "the architecture", number)
            self._architecture = f"sm_{digits}"
        elif self._name is None:
            return
        elif _ENTRY.match(line):
            self._entry = True
        elif match := _SOURCE.match(line):
            for key in ("line", "outer_line"):
                self._digits(match[key] or "", "the source line", number)
            self._notes.append(match)
        elif match := _INSTRUCTION.match(line):
            if match["word"]:
                self._half = (match, int(match["word"], 16))
            else:
                self._add(match, None, number)
        elif match := _LABEL.match(line):
            self._labels.append(match[1])

    def _digits(self, text: str, what: str, number: int) -> str:
        if len(text) > _MAX_DIGITS:
            raise SmlabError.at(
                f"{self._where}, line {number}",
                f"{what} has too many digits",
                len(text),
                f"at most {_MAX_DIGITS}",
            )
        return text

    def finish(self) -> tuple[Function, ...]:
        if self._half is not None:
            raise SmlabError.at(
                self._where,
                "ends in the middle of an instruction",
                self._half[0]["mnemonic"],
                "its second word",
            )
        self._end_function()
        return tuple(self._functions)

    def _complete(self, line: str, number: int) -> None:
        second = _SECOND_WORD.match(line)
        if second is None or self._half is None:
            raise SmlabError.at(
                f"{self._where}, line {number}",
                "an instruction's second word is missing",
                line.strip(),
                "/* 0x... */",
            )
        match, first = self._half
        self._half = None
        self._add(match, (first, int(second[1], 16)), number)

    def _add(self, match: re.Match[str], words: tuple[int, int] | None, number: int) -> None:
        address = int(match["address"], 16)
        if address >= MAX_CODE_BYTES:
            raise SmlabError.at(
                f"{self._where}, line {number}", "the address is beyond any kernel", match["address"]
            )
        if self._instructions and address <= self._instructions[-1].address:
            raise SmlabError.at(
                f"{self._where}, line {number}",
                "addresses must ascend",
                f"{address:#x}",
                f"more than {self._instructions[-1].address:#x}",
            )
        if self._notes:
            self._source = _chain(self._notes)
            self._notes = []
        for label in self._labels:
            self._placed[label] = address
        self._labels = []
        self._instructions.append(
            SassInstruction(
                address=address,
                mnemonic=match["mnemonic"],
                operands=split_operands(match["operands"]),
                predicate=Predicate(match["guard"], match["negated"] is not None) if match["guard"] else None,
                words=words,
                source=self._source,
            )
        )

    def _end_function(self) -> None:
        if self._name is not None and self._instructions:
            self._functions.append(
                Function(self._name, self._architecture, tuple(self._instructions), self._placed, self._entry)
            )
        self._name, self._entry = None, False
        self._instructions, self._labels, self._placed, self._notes = [], [], {}, []
        self._source = None


def _chain(notes: list[re.Match[str]]) -> SourceLine:
    """Notes come innermost first; each but the last says where its code was inlined."""
    last = notes[-1]
    outer = SourceLine(last["outer"], int(last["outer_line"])) if last["outer"] else None
    for note in reversed(notes):
        outer = SourceLine(note["file"], int(note["line"]), outer)
    assert outer is not None
    return outer

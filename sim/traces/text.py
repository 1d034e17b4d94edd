"""The lines of Accel-Sim's traces, format version 5: what each holds, and its three ways to write addresses.

A file begins with lines ``-key = value``, then a line ``#traces format = ...``; then come the blocks, each
between ``#BEGIN_TB`` and ``#END_TB``, with ``thread block = x,y,z`` and for each warp ``warp = i``,
``insts = n`` and n lines::

    PC mask results [R...] opcode sources [R...] width [mode addresses...] [immediate]

PC, mask and addresses are hexadecimal, all other numbers decimal. ``width`` is 0 where nothing asks for
memory; else it is the bytes a lane, as far as the opcode names them. Mode 0 lists the address of every active
lane. Mode 1 gives the first one's and a stride, for active lanes that follow each other. Mode 2 gives the
first one's, and for each further active lane the distance from the one before it.

Facts of the format are from Accel-Sim's tracer and its reader (Khairy et al., ISCA 2020; version 5 of the
tracer).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

VERSIONS: Final = (3, 4, 5)
"""Versions of the tracer whose lines are of this form; 5 writes an immediate at their end."""
VERSION: Final = 5
FORMAT: Final = (
    "#traces format = [line_num] PC mask dest_num [reg_dests] opcode src_num [reg_srcs] mem_width "
    "[adrrescompress?] [mem_addresses] immediate"
)
LIST, STRIDE, DELTA = 0, 1, 2
"""How a line gives its addresses."""
NO_REGISTER: Final = 255
"""How RZ is written."""
MAX_SOURCES: Final = 4
"""Accel-Sim's reader takes no more, and one result."""
_INT: Final = 1 << 31


class BadLine(Exception):
    """A line that cannot be read: what is wrong, with which value, and what would be right."""

    def __init__(self, what: str, value: object = None, expected: str | None = None) -> None:
        super().__init__(what, value, expected)
        self.what, self.value, self.expected = what, value, expected


@dataclass(frozen=True)
class TraceHeader:
    """What the lines before the blocks say. ``shared_base`` and ``local_base`` begin the windows of generic
    addresses."""

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    registers: int
    binary_version: int
    shared_base: int
    local_base: int
    kernel_id: int = 1
    stream: int = 0
    line_numbers: bool = False

    @property
    def blocks(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def warps_per_block(self) -> int:
        return -(-self.threads // 32)

    def lines(self) -> Iterator[str]:
        """As the tracer writes them."""
        yield f"-kernel name = {self.name}"
        yield f"-kernel id = {self.kernel_id}"
        yield "-grid dim = ({},{},{})".format(*self.grid)
        yield "-block dim = ({},{},{})".format(*self.block)
        yield f"-shmem = {self.shared_bytes}"
        yield f"-nregs = {self.registers}"
        yield f"-binary version = {self.binary_version}"
        yield f"-cuda stream id = {self.stream}"
        yield f"-shmem base_addr = 0x{self.shared_base:016x}"
        yield f"-local mem base_addr = 0x{self.local_base:016x}"
        yield "-nvbit version = none (executed by smlab)"
        yield f"-accelsim tracer version = {VERSION}"
        yield f"-enable lineinfo = {int(self.line_numbers)}"
        yield ""
        yield FORMAT


@dataclass(frozen=True)
class TraceInstruction:
    """What all executions of one instruction share. Registers by number, 255 for RZ."""

    pc: int
    opcode: str
    results: tuple[int, ...]
    sources: tuple[int, ...]
    width: int
    line: int | None = None

    def __str__(self) -> str:
        def named(registers: tuple[int, ...]) -> str:
            return ", ".join("RZ" if r == NO_REGISTER else f"R{r}" for r in registers)

        parts = [part for part in (named(self.results), named(self.sources)) if part]
        return f"{self.opcode} {' <- '.join(parts) if len(parts) == 2 else ''.join(parts)}".rstrip()


@dataclass(frozen=True)
class TraceLine:
    """One execution: the instruction, its lanes, and the byte addresses of these in ascending order of
    lane."""

    instruction: TraceInstruction
    mask: int
    addresses: tuple[int, ...] = ()
    stride: int | None = None
    immediate: int = 0


def width_named(opcode: str) -> int:
    """Bytes a lane as the opcode names them, by the reader's own rule: the first part that is a number of
    bits, bare or behind a U; else 4."""
    for part in opcode.split("."):
        digits = part[1:] if part.startswith("U") else part
        if digits.isascii() and digits.isdigit():
            return int(digits) // 8
    return 4


def lanes_of(mask: int) -> list[int]:
    return [lane for lane in range(32) if mask >> lane & 1]


def in_one_run(mask: int) -> bool:
    """Whether the lanes of a mask follow each other without a gap."""
    low = mask & -mask
    return mask != 0 and (mask + low) & mask == 0


def addresses_text(mask: int, addresses: Sequence[int]) -> str:
    """Mode and addresses, in the shorter of the ways that the tracer takes. No lane has no address, and
    then nobody reads these two."""
    if not addresses:
        return f"{STRIDE} 0x0 0"
    if len(addresses) > 1 and in_one_run(mask):
        stride = addresses[1] - addresses[0]
        even = all(b - a == stride for a, b in pairwise(addresses))
        if even and -_INT <= stride < _INT:
            return f"{STRIDE} 0x{addresses[0]:x} {stride}"
    deltas = "".join(f" {b - a}" for a, b in pairwise(addresses))
    return f"{DELTA} 0x{addresses[0]:x}{deltas}"


def head_text(instruction: TraceInstruction, mask: int) -> str:
    """A line up to its width."""
    results = "".join(f" R{r}" for r in instruction.results)
    sources = "".join(f" R{r}" for r in instruction.sources)
    return (
        f"{instruction.pc:04x} {mask:08x} {len(instruction.results)}{results} {instruction.opcode} "
        f"{len(instruction.sources)}{sources} {instruction.width}"
    )


class LineReader:
    """Reads the lines of instructions; equal instructions are one object, and a line without addresses that
    came before is not read again."""

    def __init__(self, line_numbers: bool) -> None:
        self.line_numbers = line_numbers
        self.instructions: dict[TraceInstruction, TraceInstruction] = {}
        self.seen: dict[str, TraceLine] = {}

    def read(self, text: str) -> TraceLine:
        """One line.

        Raises:
            BadLine: what is wrong with it.
        """
        if (known := self.seen.get(text)) is not None:
            return known
        words = text.split()
        line = self._read(words)
        if not line.instruction.width:
            self.seen[text] = line
        return line

    def _read(self, words: list[str]) -> TraceLine:
        at = 0

        def take(what: str) -> str:
            nonlocal at
            if at >= len(words):
                raise BadLine(f"the line ends before its {what}")
            at += 1
            return words[at - 1]

        number = None
        if self.line_numbers:
            number = _decimal(take("line number"), "line number", 1 << 31)
        pc = _hexadecimal(take("PC"), "PC", 1 << 32)
        mask = _hexadecimal(take("mask"), "mask", 1 << 32)
        counts = []
        for what, most in (("number of results", 1), ("number of sources", 5)):
            if what.endswith("sources"):
                opcode = take("opcode")
                if not (opcode[0].isalpha() and opcode.isascii()):
                    raise BadLine("no opcode", opcode, "such as LDG.E.64")
            count = _decimal(take(what), what, 1 << 31)
            if count > most:
                raise BadLine(f"the {what}", count, f"at most {most}")
            counts.append(tuple(_register(take("registers")) for _ in range(count)))
        width = _decimal(take("memory width"), "memory width", 1 << 31)
        if width not in (0, 1, 2, 4, 8, 16, 32):
            raise BadLine("the memory width", width, "0, 1, 2, 4, 8, 16 or 32")
        instruction = TraceInstruction(pc, opcode, counts[0], counts[1], width, number)
        instruction = self.instructions.setdefault(instruction, instruction)
        if not width:
            return TraceLine(instruction, mask, immediate=_immediate(words[at:]))
        mode = _decimal(take("address mode"), "address mode", 1 << 31)
        if mode not in (LIST, STRIDE, DELTA):
            raise BadLine("an address mode that is not known", mode, "0, 1 or 2")
        count = mask.bit_count()
        if mode == LIST:
            listed = tuple(_hexadecimal(take("addresses"), "address", 1 << 64) for _ in range(count))
            return TraceLine(instruction, mask, listed, immediate=_immediate(words[at:]))
        base = _hexadecimal(take("first address"), "address", 1 << 64)
        if mode == STRIDE:
            stride = _decimal(take("stride"), "stride", _INT, -_INT)
            if mask and not in_one_run(mask):
                raise BadLine("a stride for lanes with a gap between them", f"{mask:08x}", "mode 0 or 2")
            strided = tuple(base + stride * n for n in range(count))
            return TraceLine(instruction, mask, strided, stride, _immediate(words[at:]))
        addresses = [base][:count]
        for _ in range(count - 1):
            addresses.append(addresses[-1] + _decimal(take("addresses"), "distance", 1 << 63, -(1 << 63)))
        return TraceLine(instruction, mask, tuple(addresses), immediate=_immediate(words[at:]))


def _decimal(text: str, what: str, end: int, first: int = 0) -> int:
    digits = text[1:] if text[:1] == "-" and first < 0 else text
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 20 or not first <= int(text) < end:
        raise BadLine(f"the {what} is no decimal number in range", text[:40])
    return int(text)


def _hexadecimal(text: str, what: str, end: int) -> int:
    try:
        value = int(text, 16) if len(text) <= 18 and "_" not in text and text[0] not in "+-" else -1
    except ValueError:
        value = -1
    if not 0 <= value < end:
        raise BadLine(f"the {what} is no hexadecimal number in range", text[:40])
    return value


def _register(text: str) -> int:
    digits = text[1:]
    if text[:1] != "R" or not (digits.isascii() and digits.isdigit()) or len(digits) > 3 or int(digits) > 255:
        raise BadLine("no register", text[:40], "R0 to R255")
    return int(digits)


def _immediate(rest: list[str]) -> int:
    """What may follow; one number, if anything."""
    if not rest:
        return 0
    if len(rest) > 1:
        raise BadLine("more at the end of the line than an immediate", " ".join(rest)[:40])
    return _decimal(rest[0], "immediate", 1 << 63, -(1 << 63))

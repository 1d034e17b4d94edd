"""Operands as printed, as the fields of a micro-operation: rows of lanes, predicates, addresses."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Final

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.sass import SassInstruction
from smlab.hw_bench.sass.linking import named_half
from smlab.sim.isa import memory_layout
from smlab.sim.isa.operation_codes import BANK_BITS, BANK_MASK, BANKS

M32: Final = (1 << 32) - 1
_REGISTER: Final = re.compile(
    r"(?P<sign>[-~]?)(?P<bar>\|?)(?P<uniform>U?)R(?P<number>\d{1,3}|Z)(?P<rest>[.\w]*)\|?$"
)
_PLACE: Final = re.compile(r"(?P<register>-?U?R\d{1,3})\.(?P<size>[BH])(?P<number>[0-3])$")
_CONSTANT: Final = re.compile(
    r"(?P<sign>[-~]?)(?P<bar>\|?)c\[(?P<bank>0x[0-9a-f]{1,2})\]\[(?P<at>-?0x[0-9a-f]{1,8})\]"
    r"(?P<rest>[.\w]*)\|?$"
)
_INDEXED: Final = re.compile(
    r"c\[(?P<bank>0x[0-9a-f]{1,2})\]\[(?P<u>U?)R(?P<number>\d{1,3}|Z)"
    r"(?:\+(?P<at>-?0x[0-9a-f]{1,8}))?\]$"
)
_WHOLE: Final = re.compile(r"[-~]?(0x[0-9a-f]+|[0-9]+)$")
_DECIMAL: Final = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(e[-+]?[0-9]+)?")
_MAX_DIGITS: Final = 24
_PREDICATE: Final = re.compile(r"(?P<not>!?)(?P<uniform>U?)P(?P<number>[0-6T])$")
_ADDRESS: Final = re.compile(r"(?:desc\[UR\d+\])?\[(?P<inside>[^\]]*)\]$")
_SCALES: Final = {".X4": 2, ".X8": 3, ".X16": 4}
_HARMLESS: Final = frozenset(("", ".reuse"))

MAX_REGISTER: Final = 254
MAX_UNIFORM: Final = memory_layout.UNIFORM_ROWS - 1

Constants = Callable[[int, int], int]
"""The 32-bit word of a constant bank at an offset."""


class Unknown(Exception):
    """A form that the table does not have."""


@dataclass
class OperandRows:
    """The rows of constants of a launch: one for each distinct word, or pair of words, all lanes alike."""

    constants: Constants
    variables: Mapping[str, int] = field(default_factory=dict)
    """Addresses of the module's variables, by name."""
    words: list[int] = field(default_factory=list)
    places: dict[tuple[int, ...], int] = field(default_factory=dict)

    def place(self, *words: int) -> int:
        """The number of the first row that holds these words, one a row."""
        if words not in self.places:
            self.places[words] = len(self.words)
            self.words.extend(words)
        return self.places[words]


@dataclass(frozen=True)
class Source:
    """A source: a register's byte offset in the warp, or a row of constants, and what is done to its
    words."""

    at: int
    register: bool
    keep: int = M32
    flip: int = 0
    add: int = 0

    def fields(self, name: str) -> dict[str, int]:
        parts = (self.at, -1 if self.register else 0, self.keep, self.flip, self.add)
        return dict(zip(_part_names(name), parts, strict=True))


@cache
def _part_names(name: str) -> tuple[str, ...]:
    return tuple(name + part for part in memory_layout.OPERAND_PARTS)


def register_offset(uniform: bool, number: str, writes: bool = False) -> int:
    if number == "Z":
        return memory_layout.dump_at() if writes else memory_layout.zero_at()
    if int(number) > (MAX_UNIFORM if uniform else MAX_REGISTER):
        raise Unknown(f"the register {'U' if uniform else ''}R{number}")
    return memory_layout.uniform_at(int(number)) if uniform else memory_layout.register_at(int(number))


def zero() -> Source:
    return Source(memory_layout.zero_at(), True)


class Operands:
    """The operands of one instruction, read one after the other in the forms that its opcode asks for."""

    def __init__(
        self, instruction: SassInstruction, rows: OperandRows, compute_capability: tuple[int, int] = (0, 0)
    ) -> None:
        self.instruction = instruction
        self.rows = rows
        self.compute_capability = compute_capability
        self.texts = [o.text.strip() for o in instruction.operands]
        self.next = 0

    def text(self) -> str:
        if self.next >= len(self.texts):
            raise Unknown("an operand is missing")
        self.next += 1
        return self.texts[self.next - 1]

    def first_bit(self, bits: int) -> int:
        """Where the next operand's integer of so many bits begins, as its text says (``R4.B1``, ``R4.H1``);
        the place is taken off the text."""
        match = _PLACE.match(self.texts[self.next].replace(".reuse", "")) if self.more() else None
        if match is None:
            return 0
        first = int(match["number"]) * (8 if match["size"] == "B" else 16)
        if first + bits > 32 or (match["size"] == "H") != (bits == 16):
            raise Unknown(f"the source {self.texts[self.next]}")
        self.texts[self.next] = match["register"]
        return first

    def more(self) -> bool:
        return self.next < len(self.texts)

    def peek_predicate(self) -> bool:
        return self.more() and _PREDICATE.match(self.texts[self.next]) is not None

    def destination(self) -> int:
        match = _REGISTER.match(self.text())
        if match is None or match["sign"] or match["rest"] not in _HARMLESS:
            raise Unknown(f"the result {self.texts[self.next - 1]}")
        return register_offset(bool(match["uniform"]), match["number"], writes=True)

    def predicate_out(self) -> int:
        match = _PREDICATE.match(self.text())
        if match is None or match["not"]:
            raise Unknown(f"the predicate {self.texts[self.next - 1]}")
        if match["number"] == "T":
            return memory_layout.NO_PREDICATE
        return int(match["number"]) + 8 * bool(match["uniform"])

    def predicate_in(self, name: str = "predicate_a") -> dict[str, int]:
        return predicate_fields(self.text(), name)

    def integer(self, name: str, sign: str = "two") -> dict[str, int]:
        """A 32-bit source; a minus is ``two``'s complement or, for an addition with carry, ``one``'s."""
        return self._source(name, "one" if sign == "one" else "two", False, integer_bits)

    def single(self, name: str) -> dict[str, int]:
        return self._source(name, "sign", False, single_bits)

    def high_word(self, name: str) -> dict[str, int]:
        """The high word of a double: an immediate is printed as the double."""
        return self._source(name, "sign", False, lambda text: double_bits(text) >> 32)

    def double(self, name: str) -> dict[str, int]:
        return self._source(name, "sign", True, double_bits)

    def long(self, name: str) -> dict[str, int]:
        """A 64-bit integer source, in a pair of registers."""
        return self._source(name, "none", True, long_bits)

    def minus(self) -> bool:
        """Whether the next source has a minus, which is taken away; that of a number belongs to it."""
        found = self.more() and self.texts[self.next].startswith("-") and self.texts[self.next][1] in "RUc"
        if found:
            self.texts[self.next] = self.texts[self.next][1:]
        return found

    def takes_signs(self, count: int) -> bool:
        """Whether so many next sources are the signs of registers (``R4.SIGN``); that is taken away."""
        texts = self.texts[self.next : self.next + count]
        found = all(text.startswith("R") and text.endswith(".SIGN") for text in texts)
        if found:
            self.texts[self.next : self.next + count] = [text.removesuffix(".SIGN") for text in texts]
        return found

    def complement(self) -> bool:
        """Whether the next source's bits are all turned; the sign is taken away."""
        found = self.more() and self.texts[self.next].startswith("~")
        if found:
            self.texts[self.next] = self.texts[self.next][1:]
        return found

    def upper_half(self) -> int:
        """Whether the next source is the upper half of a register, which is taken away."""
        text = self.texts[self.next].replace(".reuse", "") if self.more() else ""
        self.texts[self.next : self.next + 1] = [text.removesuffix(".H1")] if text else []
        return int(text.endswith(".H1"))

    def _source(self, name: str, minus: str, pair: bool, immediate: Callable[[str], int]) -> dict[str, int]:
        return source(self.text(), minus, pair, immediate, self.rows).fields(name)

    def byte(self) -> int:
        """A number of 8 bits at most, such as a table of truth values or a shift."""
        return whole_bits(self.text(), "the immediate", 8)

    def short_constant(self, width: int, signed: bool) -> int:
        """The row of a constant of 1 or 2 bytes, extended to a word."""
        match = _CONSTANT.match(self.text())
        if match is None or match["sign"] or match["bar"] or match["rest"]:
            raise Unknown(f"the source {self.texts[self.next - 1]}")
        offset = _offset_in_bank(match)
        if offset % width:
            raise Unknown("a misaligned constant")
        word = self.rows.constants(int(match["bank"], 16), offset & ~3)
        bits = 8 * width
        value = word >> 8 * (offset & 3) & ((1 << bits) - 1)
        return self.rows.place(value - (1 << bits) & M32 if signed and value >> (bits - 1) else value)

    def address(self) -> dict[str, int]:
        """``[R2.64+UR4+0x10]`` and its like: a general register, a uniform one and an offset, each of which
        may lack."""
        return address_fields(self.text())

    def done(self) -> None:
        if self.more():
            raise Unknown(f"the operand {self.texts[self.next]}")


def predicate_fields(text: str, name: str) -> dict[str, int]:
    match = _PREDICATE.match(text)
    if match is None:
        raise Unknown(f"the predicate {text}")
    number = memory_layout.PT if match["number"] == "T" else int(match["number"])
    return {name: number + 8 * bool(match["uniform"]), f"{name}_xor": M32 if match["not"] else 0}


def is_predicate(text: str) -> bool:
    return _PREDICATE.match(text) is not None


def source(text: str, minus: str, pair: bool, immediate: Callable[[str], int], rows: OperandRows) -> Source:
    """A register, a constant or an immediate as a source. ``minus``: what a sign before it means."""
    text = text.removesuffix(".reuse")
    if (found := _register_source(text, minus, pair)) is not None:
        return found
    if match := _CONSTANT.match(text):
        if match["rest"] not in _HARMLESS:
            raise Unknown(f"the source {text}")
        bank, offset = int(match["bank"], 16), _offset_in_bank(match)
        words = [rows.constants(bank, offset + 4 * k) for k in range(2 if pair else 1)]
        at, register = rows.place(*words), False
    else:
        bits = _half_of_address(text, rows) if "@" in text else immediate(text)
        words = [bits & M32, bits >> 32] if pair else [bits]
        return Source(rows.place(*words), False)
    return _changed(match, minus, at, register)


@lru_cache(maxsize=4096)
def _register_source(text: str, minus: str, pair: bool) -> Source | None:
    """A register as a source; None where the text is something else. Kernels name few registers often."""
    match = _REGISTER.match(text)
    if match is None:
        return None
    rest = match["rest"].replace(".reuse", "")
    if rest not in ("", ".64", ".H0_H0") or (rest == ".64" and not pair):
        raise Unknown(f"the source {text}")
    return _changed(match, minus, register_offset(bool(match["uniform"]), match["number"]), True)


def _changed(match: re.Match[str], minus: str, at: int, register: bool) -> Source:
    """A source with the sign, the bars or the complement that its text has."""
    text, keep, flip, add = match.string, M32, 0, 0
    if match["bar"]:
        keep = 0x7FFFFFFF
    if match["sign"]:
        if match["sign"] == "~" or minus == "one":
            flip = M32
        elif minus == "two":
            flip, add = M32, 1
        elif minus == "sign":
            flip = 0x80000000
        else:
            raise Unknown(f"the source {text}")
    return Source(at, register, keep, flip, add)


def _half_of_address(text: str, rows: OperandRows) -> int:
    """A word of a variable's address, which a linker leaves to the loader."""
    named = named_half(text)
    if named is None or named[0] not in rows.variables:
        raise Unknown(f"the immediate {text}")
    address = rows.variables[named[0]]
    return address >> 32 if named[1] else address & M32


def whole_bits(text: str, what: str, bits: int) -> int:
    """A whole number as it is printed, which fits ``bits`` bits with a sign or without."""
    digits = text.lstrip("-~")
    value = int(digits, 0) if _WHOLE.match(text) and len(digits) <= _MAX_DIGITS else None
    if value is None or value >> (bits - 1 if text.startswith("-") and value != 1 << (bits - 1) else bits):
        raise Unknown(f"{what} {text[:40]}")
    return ~value if text.startswith("~") else -value if text.startswith("-") else value


def integer_bits(text: str) -> int:
    return whole_bits(text, "the immediate", 32) & M32


def _number(text: str) -> float:
    plain = text.strip().strip("|").strip().lower()
    sign = -1.0 if plain.startswith("-") else 1.0
    plain = plain.lstrip("+-").strip().strip("|").strip()
    if plain == "inf":
        return sign * float("inf")
    if plain in ("qnan", "snan", "nan"):
        return sign * float("nan")
    if not _DECIMAL.fullmatch(plain) or math.isinf(float(plain)):
        raise Unknown(f"the immediate {text[:40]}")
    return sign * float(plain)


def _float_bits(text: str, kind: str) -> int:
    try:
        return int.from_bytes(struct.pack(f"<{kind}", _number(text)), "little")
    except OverflowError:
        raise Unknown(f"the immediate {text[:40]}, which is too large for its type") from None


def single_bits(text: str) -> int:
    if text.startswith("0x"):
        return whole_bits(text, "the immediate", 32)
    number = _number(text)
    if number != number:
        return 0xFFFFFFFF if text.startswith("-") else 0x7FFFFFFF
    return _float_bits(text, "f")


def half_bits(text: str) -> int:
    return _float_bits(text, "e")


def bfloat16_bits(text: str) -> int:
    return single_bits(text) >> 16


def double_bits(text: str) -> int:
    """The high word of a double is in the instruction, the low one is 0."""
    number = _number(text)
    if number != number:
        return 0xFFF8000000000000
    return _float_bits(text, "d") & ~M32


def long_bits(text: str) -> int:
    return whole_bits(text, "the immediate", 64) & ((1 << 64) - 1)


def address_fields(text: str) -> dict[str, int]:
    match = _ADDRESS.match(text)
    if match is None:
        raise Unknown(f"the address {text}")
    general, uniform, offset, wide, shift = zero(), zero(), 0, False, 0
    for part in match["inside"].replace("+-", "+\0").split("+"):
        part = part.replace("\0", "-")
        register = _REGISTER.match(part)
        if register is None:
            offset += _offset(part, text)
        elif register["sign"] or register["rest"] not in ("", ".64", ".U32", ".reuse", *_SCALES):
            raise Unknown(f"the address {text}")
        elif register["uniform"]:
            uniform = Source(register_offset(True, register["number"]), True)
        else:
            general = Source(register_offset(False, register["number"]), True)
            wide, shift = register["rest"] == ".64", _SCALES.get(register["rest"], 0)
    return {
        **general.fields("a"),
        **uniform.fields("b"),
        "offset_bytes": offset,
        "address_form": int(wide),
        "index_shift": shift,
    }


def _offset(part: str, text: str) -> int:
    return whole_bits(part, f"of the address {text[:40]} the offset", 32)


def _offset_in_bank(match: re.Match[str]) -> int:
    """Listings print offsets from 32 KiB on as negative ones of 16 bits."""
    offset = int(match["at"], 16)
    return offset & BANK_MASK if offset < 0 else offset


def constant_place(text: str) -> int | None:
    """Where an operand such as ``c[0x3][0x10]`` lies for the caches of constants; None for another one."""
    match = _CONSTANT.match(text.replace(" ", ""))
    if match is None or int(match["bank"], 16) >= BANKS:
        return None
    return int(match["bank"], 16) << BANK_BITS | _offset_in_bank(match) & BANK_MASK


def indexed_constant(text: str) -> dict[str, int] | None:
    """``c[0x3][R0+0x10]`` as an address in a bank; None for anything else."""
    match = _INDEXED.match(text)
    if match is None:
        return None
    if int(match["bank"], 16) >= BANKS:
        raise Unknown(f"the constant bank {match['bank']}")
    register = Source(register_offset(bool(match["u"]), match["number"]), True)
    return {
        **register.fields("a"),
        "offset_bytes": int(match["at"] or "0", 16),
        "bank": int(match["bank"], 16),
    }


def refuse(instruction: SassInstruction, where: str, what: str = "") -> SmlabError:
    """The error for an instruction that cannot be executed."""
    note = f" ({what})" if what else ""
    place = instruction.source and instruction.source.outermost  # not that of a header's function
    line = f", {place.file} line {place.line}" if place else ""
    return SmlabError(
        f"{where}: the instruction {instruction.mnemonic} at {instruction.address:#x}{line} is not one that "
        f"is executed here{note}: {instruction}"
    )

"""What a vector operation is, and what the meanings of several have in common, in plain Python."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from smlab.sim.isa.meanings.rounding import CHOP, DOWN, NEAREST, UP, bits32, f32
from smlab.sim.isa.memory_layout import KINDS

M32: Final = (1 << 32) - 1
M64: Final = (1 << 64) - 1

Meaning = Callable[..., tuple[int, bool, bool]]
"""Gives the result and the two predicates written. Its parameters are named as the fields that it reads:
sources ``a``, ``b``, ``c`` as unsigned integers, predicates as truths of the lane, numbers as they are."""


@dataclass(frozen=True)
class VectorOperation:
    """One vector micro-operation: the words of its sources and of its result (see `meanings`), what it
    computes, and its kind, by the names of `smlab.sim.isa.memory_layout.KINDS`.

    Raises:
        ValueError: the meaning reads what the kind does not have; this is an error of the table.
    """

    name: str
    sources: str
    result: str
    meaning: Meaning
    kind: str = "arithmetic"

    def __post_init__(self) -> None:
        known = {*KINDS[self.kind]} - {*"abc"[len(self.sources) :]}
        if not known.issuperset(self.reads):
            wrong = ", ".join(sorted(set(self.reads) - known))
            raise ValueError(f"{self.name} reads {wrong}: not a field of {self.kind}, or not a source")

    @cached_property
    def reads(self) -> tuple[str, ...]:
        """The fields that the meaning reads, in the order of its parameters."""
        return tuple(inspect.signature(self.meaning).parameters)


def signed(value: int, bits: int = 32) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


def flushed(bits: int, flush: int = 1) -> int:
    """A single with subnormals as zeros, where that is asked."""
    if not flush:
        return bits
    return bits & 0x80000000 if bits & 0x7F800000 == 0 else bits


def saturated(bits: int) -> int:
    value = f32(bits)
    return 0 if math.isnan(value) or value <= 0 else bits32(min(value, 1.0))


def plain(function: Callable[..., int], bits: int = 32) -> Meaning:
    """An operation that writes no predicates; arithmetic is modulo 2**bits."""
    mask = (1 << bits) - 1

    @functools.wraps(function)
    def meaning(*fields: Any) -> tuple[int, bool, bool]:
        return function(*fields) & mask, False, False

    return meaning


LESS, EQUAL, GREATER, UNORDERED = 1, 2, 4, 8
AND, OR, XOR = 0, 1, 2


def combined(found: bool, predicate: bool, combine: int) -> tuple[int, bool, bool]:
    """A comparison and its opposite, each with the predicate read."""
    p = predicate
    how = {AND: lambda x: x and p, OR: lambda x: x or p, XOR: lambda x: x != p}[combine]
    return 0, how(found), how(not found)


def relation(a: float, b: float) -> int:
    if a != a or b != b:
        return UNORDERED
    return LESS if a < b else GREATER if a > b else EQUAL


def narrowed(a: int, is_signed: int, cut_bits: int, first_bit: int = 0) -> int:
    """A word without so many of its bits, from the first one that counts on, as a number."""
    found = a >> first_bit & ((1 << (32 - cut_bits)) - 1)
    return signed(found, 32 - cut_bits) if is_signed else found


WHOLE: Final[dict[int, Callable[[float], int]]] = {
    NEAREST: round,
    DOWN: math.floor,
    UP: math.ceil,
    CHOP: math.trunc,
}


def made_whole(value: float, mode: int) -> float:
    if not math.isfinite(value) or value == 0:
        return value
    return math.copysign(float(WHOLE[mode](value)), value)


def to_integer(value: float, rounding: int, is_signed: int, bits: int, cut_bits: int = 0) -> int:
    """Out of range saturates, NaN is 0. The range has ``cut_bits`` less than the result."""
    if math.isnan(value):
        return 0
    kept = bits - cut_bits
    low, high = (-(1 << (kept - 1)), (1 << (kept - 1)) - 1) if is_signed else (0, (1 << kept) - 1)
    if math.isinf(value):
        return (high if value > 0 else low) & ((1 << bits) - 1)
    return min(max(WHOLE[rounding](value), low), high) & ((1 << bits) - 1)


def power_of_two(x: float) -> float:
    return math.inf if x >= 1024 else math.exp2(x)

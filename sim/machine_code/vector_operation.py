"""What a vector operation is, and what the meanings of several have in common, in plain Python."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from smlab.sim.machine_code.rounding import CHOP, DOWN, NEAREST, UP, bits32, f32

M32: Final = (1 << 32) - 1
M64: Final = (1 << 64) - 1

Meaning = Callable[..., tuple[int, bool, bool]]


@dataclass(frozen=True)
class VectorOperation:
    """One vector micro-operation."""

    name: str
    sources: str
    result: str
    meaning: Meaning


SHORTS_SIGNED: Final = 1
SHORTS_ABOVE_ZERO: Final = 2
ABOVE_ZERO: Final = 1
"""Of operations on the two halves of a word as whole numbers, in ``i``: they have signs; no result is below
0. And of the extreme of three words: it is not below 0."""


NAN_OF_ANY: Final = 16
"""In ``i`` of the lesser or greater of two singles: none where one of them is none."""
SET_ONE: Final = 16
"""In ``j`` of a comparison that sets a register: 1.0 for true in place of all ones."""


def signed(value: int, bits: int = 32) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


def flushed(bits: int) -> int:
    return bits & 0x80000000 if bits & 0x7F800000 == 0 else bits


def saturated(bits: int) -> int:
    value = f32(bits)
    return 0 if math.isnan(value) or value <= 0 else bits32(min(value, 1.0))


MODE: Final = 3
FLUSH: Final = 4
SATURATE: Final = 8
"""The parts of ``i`` in single-precision operations: rounding mode, flush subnormals, saturate to [0, 1]."""


def plain(function: Callable[[int, int, int, int, int], int], bits: int = 32) -> Meaning:
    """An operation without predicates; arithmetic is modulo 2**bits."""
    mask = (1 << bits) - 1
    return lambda a, b, c, p, q, i, j: (function(a, b, c, i, j) & mask, False, False)


LESS, EQUAL, GREATER, UNORDERED = 1, 2, 4, 8
AND, OR, XOR = 0, 1, 2


def combined(found: bool, p: bool, j: int) -> tuple[int, bool, bool]:
    """A comparison and its opposite, each with the predicate read."""
    how = {AND: lambda x: x and p, OR: lambda x: x or p, XOR: lambda x: x != p}[j & 3]
    return 0, how(found), how(not found)


def relation(a: float, b: float) -> int:
    if a != a or b != b:
        return UNORDERED
    return LESS if a < b else GREATER if a > b else EQUAL


def narrowed(a: int, i: int, j: int) -> int:
    """A word without its ``j`` highest bits, as a number; ``i`` 4: with a sign."""
    found = a & ((1 << (32 - j)) - 1)
    return signed(found, 32 - j) if i & 4 else found


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


def to_integer(value: float, i: int, bits: int, cut: int = 0) -> int:
    """``i``: rounding mode, and 4 for signed; out of range saturates, NaN is 0. The range has ``cut`` bits
    less than the result."""
    if math.isnan(value):
        return 0
    kept = bits - cut
    low, high = (-(1 << (kept - 1)), (1 << (kept - 1)) - 1) if i & 4 else (0, (1 << kept) - 1)
    if math.isinf(value):
        return (high if value > 0 else low) & ((1 << bits) - 1)
    return min(max(WHOLE[i & 3](value), low), high) & ((1 << bits) - 1)

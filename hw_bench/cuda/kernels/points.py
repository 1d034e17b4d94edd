"""The points that `shared-atomics` and `shared-banks` measure: warps, compare-and-swap, and which lane
touches which word."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError

LANES: Final = 32
BANKS: Final = 32
MAX_WARPS: Final = 32
"""Warps of a block."""
_INACTIVE: Final = -1


@dataclass(frozen=True)
class Pattern:
    """``lanes`` active lanes, ``same_word`` of them on each word, ``same_bank`` distinct words on each
    bank used."""

    lanes: int
    same_word: int = 1
    same_bank: int = 1

    def words(self) -> NDArray[np.int32]:
        """The word of each lane, shape ``(32,)``; -1 for a lane that is not active.

        Raises:
            SmlabError: for what cannot be laid out.
        """
        if not 1 <= self.lanes <= LANES:
            raise SmlabError.at("pattern: lanes", "out of range", self.lanes, f"1 to {LANES}")
        if self.same_word < 1 or self.lanes % self.same_word:
            raise SmlabError.at(
                "pattern: same_word",
                "does not divide the active lanes",
                self.same_word,
                f"a divisor of {self.lanes}",
            )
        count = self.lanes // self.same_word
        if self.same_bank < 1 or count % self.same_bank:
            raise SmlabError.at(
                "pattern: same_bank",
                f"does not divide the {count} words",
                self.same_bank,
                f"a divisor of {count}",
            )
        word = np.arange(self.lanes, dtype=np.int32) // self.same_word
        lanes = np.full(LANES, _INACTIVE, dtype=np.int32)
        lanes[: self.lanes] = word % self.same_bank * BANKS + word // self.same_bank
        return lanes


def every_pattern() -> list[Pattern]:
    """All patterns that can be laid out."""
    return [
        Pattern(lanes, same_word, same_bank)
        for lanes in range(1, LANES + 1)
        for same_word in range(1, lanes + 1)
        if lanes % same_word == 0
        for same_bank in range(1, lanes // same_word + 1)
        if lanes // same_word % same_bank == 0
    ]


@dataclass(frozen=True)
class AtomicPoint:
    """``warps`` warps on one SM, ``cas_warps`` of which do compare-and-swap, on the words of ``pattern``.

    ``warp_stride_words`` lies between the words of one warp and those of the next; 0 puts all warps on the
    same words.
    """

    warps: int
    pattern: Pattern
    cas_warps: int = 0
    warp_stride_words: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.warps <= 2 * MAX_WARPS:
            raise SmlabError.at("point: warps", "out of range", self.warps, f"1 to {2 * MAX_WARPS}")
        if not 0 <= self.cas_warps <= self.warps:
            raise SmlabError.at("point: cas_warps", "out of range", self.cas_warps, f"0 to {self.warps}")


def paper_points(
    warps: Iterable[int], lanes: Iterable[int], cas_steps: int | None = None
) -> list[AtomicPoint]:
    """T(n, e, c) as the paper has it: e lanes on one word, c from 0 to n in all or in ``cas_steps`` equal
    steps."""
    points: list[AtomicPoint] = []
    for n in warps:
        shares = (
            range(n + 1) if cas_steps is None else sorted({n * i // cas_steps for i in range(cas_steps + 1)})
        )
        points.extend(AtomicPoint(n, Pattern(e, e), c) for e in lanes for c in shares)
    return points

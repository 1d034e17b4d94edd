"""Which addresses the lanes of a warp-instruction touch, and what that costs: passes over the banks, sectors
of lines.

Shared-memory patterns give word indices (one word = one bank width), global ones byte addresses.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError

Words = NDArray[np.int64]


@dataclass(frozen=True)
class Strided:
    """Lane i touches word ``base + i * stride``; stride 0 is a broadcast."""

    stride: int = 1
    base: int = 0

    random = False

    def words(self, lanes: int, banks: int) -> Words:
        return self.base + self.stride * np.arange(lanes, dtype=np.int64)


@dataclass(frozen=True)
class Grouped:
    """The layout of the atomics microbenchmark: ``same_word`` lanes on each word, ``same_bank`` words on
    each bank."""

    same_word: int
    same_bank: int = 1

    random = False

    def words(self, lanes: int, banks: int) -> Words:
        count = self._words(lanes)
        if self.same_bank < 1 or count % self.same_bank:
            raise SmlabError.at(
                "same_bank",
                f"{count} distinct words cannot be spread with this many on each bank",
                self.same_bank,
                f"a divisor of {count}",
            )
        if count // self.same_bank > banks:
            raise SmlabError.at("same_bank", f"{count} words need more than {banks} banks", self.same_bank)
        word = np.arange(lanes, dtype=np.int64) // self.same_word
        return (word % self.same_bank) * banks + word // self.same_bank

    def _words(self, lanes: int) -> int:
        if self.same_word < 1 or lanes % self.same_word:
            raise SmlabError.at(
                "same_word", "does not divide the active lanes", self.same_word, f"a divisor of {lanes}"
            )
        return lanes // self.same_word


@dataclass(frozen=True)
class Listed:
    """Each lane's word, written out."""

    listed: tuple[int, ...]

    random = False

    def words(self, lanes: int, banks: int) -> Words:
        if len(self.listed) != lanes:
            raise SmlabError.at("words", "one word for each active lane", len(self.listed), f"{lanes} words")
        return np.array(self.listed, dtype=np.int64)


@dataclass(frozen=True)
class RandomWords:
    """Each lane of each execution touches one of ``count`` words, uniformly and independently."""

    count: int

    random = True

    def draw(self, rng: np.random.Generator, executions: int, lanes: int) -> Words:
        """Words of shape ``(executions, lanes)``."""
        return rng.integers(0, self.count, size=(executions, lanes), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class RecordedWords:
    """Real addresses: the word of each lane in each execution by each warp, written out.

    ``table`` has shape ``(warps of the grid, executions, lanes)``, of any integer type. Rows and lanes beyond
    what a warp executes are not looked at.
    """

    table: NDArray[np.integer]

    random = False

    def __post_init__(self) -> None:
        if self.table.ndim != 3 or self.table.dtype.kind not in "iu":
            found = f"{self.table.dtype} of shape {self.table.shape}"
            raise SmlabError.at(
                "recorded words", "not a table of words", found, "whole numbers (warps, executions, lanes)"
            )

    def words_of(self, warps: NDArray[np.int64], executions: int, lanes: int, where: str) -> Words:
        """Words of shape ``(len(warps), executions, lanes)``; `SmlabError` where the table is too small."""
        needed = (int(warps.max(initial=-1)) + 1, executions, lanes)
        if any(have < need for have, need in zip(self.table.shape, needed, strict=True)):
            raise SmlabError.at(where, "the table of words is too small", self.table.shape, f"{needed}")
        return self.table[warps, :executions, :lanes].astype(np.int64)


FixedPattern = Strided | Grouped | Listed
SharedPattern = FixedPattern | RandomWords | RecordedWords


@dataclass(frozen=True)
class Affine:
    """Byte address ``base + warp * warp_stride + iteration * iteration_stride + lane * lane_stride``.

    ``warp`` counts all warps of the grid, ``iteration`` the executions of this instruction by its warp.
    """

    lane_stride_bytes: int = 4
    warp_stride_bytes: int = 128
    iteration_stride_bytes: int = 0
    base_bytes: int = 0


@dataclass(frozen=True)
class RandomBytes:
    """Each lane of each execution touches one of the 4-byte elements of a buffer, uniformly and
    independently."""

    buffer_bytes: int
    base_bytes: int = 0

    def draw(self, rng: np.random.Generator, executions: int, lanes: int) -> NDArray[np.int64]:
        """Byte addresses of shape ``(executions, lanes)``."""
        return self.base_bytes + 4 * rng.integers(
            0, self.buffer_bytes // 4, size=(executions, lanes), dtype=np.int64
        )


@dataclass(frozen=True, eq=False)
class RecordedBytes:
    """Real addresses in global memory: byte addresses of shape ``(warps of the grid, executions, lanes)``,
    written out."""

    table: NDArray[np.int64]

    def __post_init__(self) -> None:
        if self.table.ndim != 3 or self.table.dtype.kind not in "iu" or (self.table < 0).any():
            found = f"{self.table.dtype} of shape {self.table.shape}"
            raise SmlabError.at(
                "recorded bytes",
                "not a table of byte addresses",
                found,
                "0 or more, (warps, executions, lanes)",
            )

    def addresses(self, warps: int, executions: int, lanes: int, where: str) -> NDArray[np.int64]:
        """Byte addresses of shape ``(warps, executions, lanes)``; `SmlabError` where the table is too
        small."""
        needed = (warps, executions, lanes)
        if any(have < need for have, need in zip(self.table.shape, needed, strict=True)):
            raise SmlabError.at(
                where, "the table of byte addresses is too small", self.table.shape, f"{needed}"
            )
        return np.ascontiguousarray(self.table[:warps, :executions, :lanes], dtype=np.int64)


GlobalPattern = Affine | RandomBytes | RecordedBytes


def lanes_on_fullest_bank(words: Words, banks: int) -> NDArray[np.int64]:
    """The largest number of lanes that ask one bank; ``words`` has shape ``(..., lanes)``.

    It is the number of passes of an atomic: lanes on one word are serialised like lanes on one bank.
    """
    return _fullest(words % banks, np.ones(words.shape, dtype=bool), banks)


def words_on_fullest_bank(words: Words, banks: int) -> NDArray[np.int64]:
    """The largest number of distinct words asked of one bank; ``words`` has shape ``(..., lanes)``.

    It is the number of passes of a load or store (equal words are broadcast) and of ``ATOMS.POPC.INC`` (lanes
    on one word are merged into one).
    """
    ordered = np.sort(words, axis=-1)
    first = np.ones(ordered.shape, dtype=bool)
    first[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    return _fullest(ordered % banks, first, banks)


def wide_wavefronts(words: Words, count: int, banks: int, merges: bool = True) -> NDArray[np.int64]:
    """Passes of a load in which each lane touches ``count`` words from the given one on, ``(..., lanes)``.

    The lanes take turns in groups of 32 / ``count``, so that one group's words fill the banks once. Where all
    lanes ask for the words of lane xor 1, or all for those of lane xor 2, groups are twice as large. Without
    ``merges`` (stores) they never are.
    """
    singly = _in_groups(words, max(1, 32 // count), count, banks)
    if count == 1 or not merges:
        return singly
    lane = np.arange(words.shape[-1])
    agree = np.zeros(words.shape[:-1], dtype=bool)
    for by in (1, 2):
        paired = lane[(lane ^ by) < len(lane)]
        agree |= (words[..., paired] == words[..., paired ^ by]).all(axis=-1)
    chosen: NDArray[np.int64] = np.where(agree, _in_groups(words, 64 // count, count, banks), singly)
    return chosen


def _in_groups(words: Words, size: int, count: int, banks: int) -> NDArray[np.int64]:
    """The passes of ``size`` lanes at a time, in sum."""
    total = np.zeros(words.shape[:-1], dtype=np.int64)
    for first in range(0, words.shape[-1], size):
        group = words[..., first : first + size]
        every = (group[..., None] + np.arange(count)).reshape(*group.shape[:-1], -1)
        total += words_on_fullest_bank(every, banks)
    return total


def _fullest(bank: Words, counted: NDArray[np.bool_], banks: int) -> NDArray[np.int64]:
    rows = bank.reshape(-1, bank.shape[-1])
    flat = (np.arange(len(rows), dtype=np.int64)[:, None] * banks + rows)[counted.reshape(rows.shape)]
    counts = np.bincount(flat, minlength=len(rows) * banks).reshape(len(rows), banks)
    fullest: NDArray[np.int64] = counts.max(axis=1).astype(np.int64)
    return fullest.reshape(bank.shape[:-1])


def passes(unit_operation: str, words: Words, banks: int, count: int = 1) -> NDArray[np.int64]:
    """Passes over the banks for ``load``, ``store``, ``add``, ``cas`` or ``popc_inc``; ``count`` words a
    lane."""
    if unit_operation in ("add", "cas"):
        return lanes_on_fullest_bank(words, banks)
    if count > 1:
        return wide_wavefronts(words, count, banks, merges=unit_operation == "load")
    return words_on_fullest_bank(words, banks)


@lru_cache(maxsize=4096)
def fixed_wavefronts(
    pattern: FixedPattern, unit_operation: str, lanes: int, banks: int, count: int = 1
) -> tuple[Words, int]:
    """The words, not to be written, that every execution of a pattern touches, and its `passes`; remembered,
    since sweeps of the atomic unit lower the same few patterns for thousands of machines."""
    words = pattern.words(lanes, banks)
    words.setflags(write=False)
    return words, int(passes(unit_operation, words[None, :], banks, count)[0])

"""Writing down what each warp executes while it does: instruction, lanes, addresses.

The compiled engine fills a buffer of fixed size, and calls Python when it is full; what the buffer held is
then made small: addresses with an even stride are kept as the first one and the stride.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from smlab.sim.execution.compiled_step import (
    ADDRESSES_AT,
    FLUSH,
    NOTED,
    NOTED_LANES,
    NOTED_MEMORY,
    NOTED_PC,
    NOTED_ROOM,
    NOTED_WARP,
    NOTED_WORDS,
    ROWS_AT,
)

_LANE_NUMBERS: Final = np.arange(32)


@dataclass(frozen=True, eq=False)
class Executions:
    """What warps executed, warp after warp of the grid, each in its order; arrays of one length.

    ``even`` elements ask memory from ``base`` on with ``stride`` from lane to lane of the active ones; others
    that ask memory have a row in ``each``, by ``row``; the rest has neither (``row`` is -1).
    """

    warp: NDArray[np.int64]
    pc: NDArray[np.int64]
    mask: NDArray[np.int64]
    even: NDArray[np.bool_]
    base: NDArray[np.int64]
    stride: NDArray[np.int64]
    row: NDArray[np.int64]
    each: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.warp)

    def addresses(self, n: int) -> tuple[int, ...]:
        """Byte addresses of the active lanes of element ``n``, in ascending order of lane."""
        mask = int(self.mask[n])
        if self.even[n]:
            base, stride = int(self.base[n]), int(self.stride[n])
            return tuple(base + stride * k for k in range(mask.bit_count()))
        if self.row[n] < 0:
            return ()
        each = self.each[self.row[n]].tolist()
        return tuple(each[lane] for lane in range(32) if mask >> lane & 1)


class Recording:
    """A recording of a launch, to be handed to `smlab.sim.execution.run.run_machine_code`."""

    def __init__(self) -> None:
        self._rows = np.zeros((NOTED_ROOM, NOTED_WORDS), dtype=np.int64)
        self._addresses = np.zeros((NOTED_ROOM, 32), dtype=np.int64)
        self._error: BaseException | None = None
        self._parts: list[tuple[NDArray[Any], ...]] = []
        self._flush = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 6)(self._flushed)
        self.words = np.zeros(4, dtype=np.int64)
        self.words[FLUSH] = ctypes.cast(self._flush, ctypes.c_void_p).value or 0
        self.words[ROWS_AT], self.words[ADDRESSES_AT] = (
            self._rows.ctypes.data,
            self._addresses.ctypes.data,
        )

    def add(self, warp: int, pc: int, lanes: int, addresses: list[int] | None) -> None:
        """What the reference has executed."""
        n = int(self.words[NOTED])
        if n == NOTED_ROOM:
            self._keep()
            n = 0
        self._rows[n] = warp, pc, lanes, addresses is not None
        if addresses is not None:
            self._addresses[n] = addresses
        self.words[NOTED] = n + 1

    def _flushed(self, *_: int) -> int:
        try:
            self._keep()
        except BaseException as error:  # it cannot pass through machine code
            self._error = self._error or error
            self.words[NOTED] = 0
        return 0

    def _keep(self) -> None:
        count = int(self.words[NOTED])
        rows, self.words[NOTED] = self._rows[:count].copy(), 0
        asks = np.flatnonzero(rows[:, NOTED_MEMORY])
        addresses = self._addresses[asks]
        active = rows[asks, NOTED_LANES][:, None] >> _LANE_NUMBERS & 1 != 0
        first = active.argmax(axis=1)
        last = 31 - active[:, ::-1].argmax(axis=1)
        several = (last > first) & (active.sum(axis=1) == last - first + 1)
        base = np.take_along_axis(addresses, first[:, None], axis=1)[:, 0]
        second = np.take_along_axis(addresses, np.minimum(first + 1, 31)[:, None], axis=1)[:, 0]
        stride = second - base
        wanted = base[:, None] + stride[:, None] * (_LANE_NUMBERS - first[:, None])
        even = several & ((addresses == wanted) | ~active).all(axis=1) & (np.abs(stride) < 1 << 31)
        self._parts.append((rows, asks[even], base[even], stride[even], asks[~even], addresses[~even]))

    def executions(self) -> Executions:
        """All that was written down."""
        self._keep()
        if self._error is not None:
            raise self._error
        parts, self._parts = self._parts, []
        rows = np.concatenate([p[0] for p in parts])
        begins = np.cumsum([0, *(len(p[0]) for p in parts)])[:-1]
        even = np.zeros(len(rows), dtype=bool)
        base, stride, row = (np.full(len(rows), fill, dtype=np.int64) for fill in (0, 0, -1))
        each, found = [], 0
        for at_row, (_, evenly, bases, strides, unevenly, addresses) in zip(begins, parts, strict=True):
            even[at_row + evenly], base[at_row + evenly], stride[at_row + evenly] = True, bases, strides
            row[at_row + unevenly] = found + np.arange(len(unevenly))
            found += len(unevenly)
            each.append(addresses)
        order = np.argsort(rows[:, NOTED_WARP], kind="stable")
        warp, pc, mask = (rows[order, column] for column in (NOTED_WARP, NOTED_PC, NOTED_LANES))
        return Executions(
            warp, pc, mask, even[order], base[order], stride[order], row[order], np.concatenate(each)
        )

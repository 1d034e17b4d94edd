"""What L2 holds between launches: a launch begins with the lines that the one before it left."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from smlab.sim.instruction_source import OF_OTHERS

if TYPE_CHECKING:
    from smlab.sim.machine import Machine


def no_lines() -> NDArray[np.int64]:
    """An empty L2, (0, 3)."""
    return np.zeros((0, 3), dtype=np.int64)


class LevelTwoLines:
    """The lines of one L2, (lines, 3): a line's address over the bytes of a line, the mask of its valid
    sectors and that of its dirty ones (moved by `OF_OTHERS` where no kernel of ours wrote them); those of a
    set from the least to the most recently used one.

    Whoever runs launches one after the other hands the same object to all of them. The lines are those of
    one shape of cache: a GPU with another L2 finds it empty. Most launches have none after them, so lines are
    gathered when somebody asks.
    """

    _left: Callable[[], NDArray[np.int64]]
    shape: Any
    overwritten: bool
    """Somebody has written more than L2 holds: all lines are foreign ones that are yet to be written back."""

    def __init__(self) -> None:
        self.forget()

    @cached_property
    def lines(self) -> NDArray[np.int64]:
        return self._left()

    def of(self, machine: Machine) -> NDArray[np.int64]:
        """What the L2 of ``machine`` begins with."""
        if self.overwritten:
            return _foreign_lines(machine)
        return self.lines if self.shape == _shape(machine) else no_lines()

    def leave(self, machine: Machine, left: Callable[[], NDArray[np.int64]]) -> None:
        """The L2 of ``machine`` ends with what ``left`` tells."""
        self.__dict__.pop("lines", None)
        self._left, self.shape, self.overwritten = left, _shape(machine), False

    def forget(self) -> None:
        """Nothing is in L2 any more, or nobody knows what."""
        self.__dict__.pop("lines", None)
        self._left, self.shape, self.overwritten = no_lines, None, False

    def overwrite(self) -> None:
        """Somebody writes more than L2 holds, as benchmarks do to empty it: what was there is gone, and what
        was written goes when its place is needed."""
        self.forget()
        self.overwritten = True

    def for_a_sample(self) -> LevelTwoLines:
        """What a part of a grid begins with: nothing of launches before, but what somebody else wrote."""
        found = LevelTwoLines()
        found.overwritten = self.overwritten
        return found


_FOREIGN: Final = 1 << 50
"""An address behind all that kernels are given."""


def _foreign_lines(machine: Machine) -> NDArray[np.int64]:
    """Lines side by side that fill L2, each written whole."""
    first = _FOREIGN // machine.line_bytes
    addresses = np.arange(first, first + machine.l2.sets * machine.l2.ways, dtype=np.int64)
    whole = np.full_like(addresses, (1 << machine.sectors_per_line) - 1)
    return np.column_stack([addresses, whole, whole << OF_OTHERS])


def _shape(machine: Machine) -> Any:
    return machine.line_bytes, machine.sector_bytes, machine.l2

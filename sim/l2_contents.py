"""What L2 holds between launches: a launch begins with the lines that the one before it left."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from smlab.sim.machine import Machine


def no_lines() -> NDArray[np.int64]:
    """An empty L2, (0, 3)."""
    return np.zeros((0, 3), dtype=np.int64)


class LevelTwoLines:
    """The lines of one L2, (lines, 3): a line's address over the bytes of a line, the mask of its valid
    sectors and that of its dirty ones; those of a set from the least to the most recently used one.

    Whoever runs launches one after the other hands the same object to all of them. The lines are those of
    one shape of cache: a GPU with another L2 finds it empty. Most launches have none after them, so lines are
    gathered when somebody asks.
    """

    _left: Callable[[], NDArray[np.int64]]
    shape: Any

    def __init__(self) -> None:
        self.forget()

    @cached_property
    def lines(self) -> NDArray[np.int64]:
        return self._left()

    def of(self, machine: Machine) -> NDArray[np.int64]:
        """What the L2 of ``machine`` begins with."""
        return self.lines if self.shape == _shape(machine) else no_lines()

    def leave(self, machine: Machine, left: Callable[[], NDArray[np.int64]]) -> None:
        """The L2 of ``machine`` ends with what ``left`` tells."""
        self.__dict__.pop("lines", None)
        self._left, self.shape = left, _shape(machine)

    def forget(self) -> None:
        """Nothing is in L2 any more, or nobody knows what."""
        self.__dict__.pop("lines", None)
        self._left, self.shape = no_lines, None


def _shape(machine: Machine) -> Any:
    return machine.line_bytes, machine.sector_bytes, machine.l2

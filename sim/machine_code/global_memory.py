"""Global memory as launches find it: allocations, and what L2 holds of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from smlab.sim.level_two import LevelTwoLines

FIRST_ADDRESS: Final = 0x7F00_0000_0000
"""Where global memory begins; nothing lies below."""
ALIGNMENT: Final = 512
GAP: Final = 4096
"""Bytes that belong to nobody behind each allocation, so that running over an end is found."""


@dataclass(frozen=True)
class Allocation:
    """A piece of global memory: ``[address, address + bytes)``, and the array whose bytes it is."""

    name: str
    address: int
    content: NDArray[np.uint8]

    @property
    def end(self) -> int:
        return self.address + len(self.content)


class GlobalMemory:
    """Allocations of global memory, which may outlive a launch, and what L2 holds of them between two."""

    def __init__(self) -> None:
        self.allocations: list[Allocation] = []
        self.l2 = LevelTwoLines()
        self._next = FIRST_ADDRESS

    def allocate(self, name: str, content: NDArray[np.uint8]) -> int:
        """Put an array's bytes into global memory; its address."""
        address = self._next
        self.allocations.append(Allocation(name, address, content))
        self._next = -(-(address + max(1, len(content)) + GAP) // ALIGNMENT) * ALIGNMENT
        return address

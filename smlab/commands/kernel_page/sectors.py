"""Sectors that each instruction asks of global memory, counted while the kernel runs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from smlab.sim.execution.recording import Recording

SECTOR_BYTES = 32


class SectorCount(Recording):
    """A recording that keeps no execution: for each instruction the distinct sectors that its warps' lanes
    touch, in sum, as Nsight Compute's theoretical sectors."""

    def __init__(self) -> None:
        super().__init__()
        self._sectors: NDArray[np.int64] = np.zeros(0, dtype=np.int64)

    def _keep(self) -> None:
        count = int(self.words[0])
        self.words[0] = 0
        rows = self._rows[:count]
        asks = np.flatnonzero(rows[:, 3])
        if not len(asks):
            return
        active = rows[asks, 2][:, None] >> np.arange(32) & 1 != 0
        places = np.where(active, self._addresses[asks] // SECTOR_BYTES, -1)
        places.sort(axis=1)
        distinct = (np.diff(places, axis=1) != 0).sum(axis=1) + (places[:, 0] >= 0)
        found = np.bincount(rows[asks, 1], weights=distinct).astype(np.int64)
        room = max(len(found), len(self._sectors))
        self._sectors = np.pad(self._sectors, (0, room - len(self._sectors)))
        self._sectors += np.pad(found, (0, room - len(found)))

    def of_instructions(self, count: int) -> NDArray[np.int64]:
        """The sectors of each of ``count`` instructions, what the buffer still holds included."""
        self._keep()
        if self._error is not None:
            raise self._error
        return np.pad(self._sectors, (0, count - len(self._sectors)))

"""The kernels of Coyne's thesis on two simulated GPUs: their machine code, executed by ``smlab bench run
portability --on-simulator`` on each, beside the differences of run time that the thesis prints.

The times are a study's record (`executed_grids.json`), since running the grids takes minutes; claims read
them there.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError

Floats = NDArray[np.float64]

RECORD: Final = Path(__file__).with_name("executed_grids.json")


@dataclass(frozen=True, eq=False)
class ExecutedGrids:
    """One kernel over its ``blocks`` (grids,) on the old and the new GPU: simulated seconds at the clocks of
    their descriptions, in Hz."""

    blocks: tuple[int, ...]
    old_s: Floats
    new_s: Floats
    clocks_hz: tuple[float, float]

    def ratio(self, blocks: tuple[int, ...]) -> Floats:
        """New over old at *equal clocks*, as the thesis's steady launches have them, (grids,).

        Raises:
            SmlabError: a grid that was not run.
        """
        missing = [b for b in blocks if b not in self.blocks]
        if missing:
            raise SmlabError.at(str(RECORD), "no such grid was run", missing[0], str(self.blocks))
        at = [self.blocks.index(b) for b in blocks]
        cycles = (self.new_s * self.clocks_hz[1])[at] / (self.old_s * self.clocks_hz[0])[at]
        return np.asarray(cycles)


@functools.cache
def _record() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8"))
    return found


def executed_grids(table: str) -> ExecutedGrids:
    """What was simulated of one of the thesis's tables; `SmlabError` for one that was not."""
    record = _record()
    if table not in record["tables"]:
        raise SmlabError.at("table", "not executed", table, "one of " + ", ".join(record["tables"]))
    found = record["tables"][table]
    old, new = (1e-6 * np.array(us) for us in found["microseconds"])
    return ExecutedGrids(tuple(found["blocks"]), old, new, tuple(record["clocks_hz"]))

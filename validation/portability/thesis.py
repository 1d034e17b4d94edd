"""The kernels of Coyne's thesis on two simulated GPUs: their machine code, executed by ``smlab bench run
portability --on-simulator`` on each, beside the differences of run time that the thesis prints.

The times are a study's record (`thesis.json`), since running the grids takes minutes; claims read them there.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.datasets.bench_folder import read_bench_folder
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.devices import gpu_called
from smlab.hw_bench.sources import commit

Floats = NDArray[np.float64]

KERNELS: Final[Mapping[str, str]] = {
    "butterfly": "butterfly",
    "neighbour": "neighbour-shuffle",
    **{f"bank-{ways}": f"bank-conflicts/{ways}" for ways in (4, 8, 16, 32)},
    "scan-conflicts": "prefix-sum",
    "scan-padded": "prefix-sum-padded",
}
"""The benchmark's kernel of each of the thesis's tables."""

RECORD: Final = Path(__file__).with_name("thesis.json")


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


def recorded(old: Path, new: Path) -> dict[str, Any]:
    """The record of two folders of ``smlab bench run portability --on-simulator``.

    Raises:
        SmlabError: a folder without that benchmark, or one that was measured and not simulated.
    """
    sides = [read_bench_folder(folder) for folder in (old, new)]
    gpus = []
    for side in sides:
        gpu = gpu_called(side.device.removeprefix("simulated "))
        if not side.exact or gpu is None:
            raise SmlabError.at(str(side.path), "not a run on a described, simulated GPU", side.device)
        gpus.append(gpu)
    seconds = [
        {(str(k), int(c[1])): s for k, c, s in zip(side.kernel, side.config, side.seconds, strict=True)}
        for side in sides
    ]
    tables = {}
    for table, kernel in KERNELS.items():
        blocks = sorted(b for k, b in seconds[0] if k == kernel and (k, b) in seconds[1])
        tables[table] = {
            "kernel": kernel,
            "blocks": blocks,
            "microseconds": [[round(1e6 * s[kernel, b], 4) for b in blocks] for s in seconds],
        }
    return {
        "made_by": "smlab bench run portability --on-simulator on each GPU, then "
        "python -m smlab.validation.portability thesis --runs OLD NEW",
        "commit": commit(),
        "gpus": [gpu.name for gpu in gpus],
        "clocks_hz": [float(gpu.number("clock.sm_hz")) for gpu in gpus],
        "tables": tables,
    }


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

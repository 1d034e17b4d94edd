"""What a library runs for a product of matrices. Each block makes a tile of the result, and the SMs take the
blocks in waves. How fast the tile's inner loop goes depends on the architecture.

Each tile that a library has was written as a kernel (`smlab.validation.campaigns.projection.tiles`). The
simulator executed its machine code on a description of each architecture, with memory out of the way. Stored
are its share of the FP32 peak and the cycles that a block takes beside its loop. Nothing there was fitted to
a measured product. The library is taken to choose the tile, and the number of parts of the sum, with the
least time. Where the row names its kernel (``volta_sgemm_128x64_tn``) the name tells the tile of the source.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.profiles.kernel_names import tile_of
from smlab.hw_bench.rows import Rows

Floats = NDArray[np.float64]
T = TypeVar("T")

TABLE: Final = Path(__file__).with_name("tiles.json")
MADE_BY: Final = "python -m smlab.validation.campaigns.projection tiles"

EXECUTED_AS: Final = {
    "6.0": "8.6",
    "6.1": "8.6",
    "6.2": "8.6",
    "7.2": "7.0",
    "8.7": "8.6",
    "10.0": "9.0",
    "10.3": "9.0",
    "11.0": "9.0",
    "12.0": "8.9",
    "12.1": "8.9",
}
"""Architectures whose tiles were not executed, and the one whose are taken. A scheduler of Pascal, as of
GA10x, issues a multiply-add each cycle to keep its pipe busy, and has no slot left; Volta's has every other
one."""

SEEN: Final = ("7.0", "7.5", "8.0")
"""Architectures whose library's choices were in view (NeuSight's V100, T4 and A100)."""

SPLITS: Final = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16)
"""Into how many parts of the sum a grid may be split."""
LEAST_PART: Final = 256
"""Terms of the sum that a part has at least."""
WHOLE_FROM: Final = (8, 0)
"""The compute capability from which the library's grids leave the sum whole. 1,038 of 1,040 of NeuSight's
A100 rows do so. V100 and T4 split it in three of ten."""
STEP: Final = 8
"""Terms of the sum that a tile's loop takes at once."""


@dataclass(frozen=True)
class Tile:
    """One tile: rows and columns of the result, and blocks on an SM. By architecture it has the ``share`` of
    the FP32 peak, and the cycles of an SM beside the loop for a block."""

    name: str
    rows: int
    columns: int
    resident: int
    share: Mapping[str, float]
    block_cycles: Mapping[str, float]


def executed_part(name: str, made_by: str, read: Callable[[Any], T]) -> T:
    """What ``read`` makes of a part of the stored table of executed kernels.

    Raises:
        SmlabError: a table without it, with the command that makes it.
    """
    try:
        return read(json.loads(TABLE.read_text(encoding="utf-8"))[name])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        said = f"{name} cannot be read ({error})"
        raise SmlabError.at(str(TABLE), said, expected=f"what `{made_by}` writes") from None


@cache
def library_tiles() -> tuple[Tile, ...]:
    """The tiles that were executed; `SmlabError` with the command that makes them if they cannot be read."""
    return executed_part("tiles", MADE_BY, lambda tiles: tuple(Tile(**tile) for tile in tiles))


def executed_as(gpu: Gpu) -> str:
    """The architecture whose executed tiles stand for those of ``gpu``."""
    own = gpu.compute_capability
    known = sorted(library_tiles()[0].share, key=_number)
    if own in known:
        return own
    return EXECUTED_AS.get(own, known[-1])


def tile_named(kernel: str) -> str:
    """The tile that a kernel's name tells, ``128x64`` or ``128x32_sliced1x4``; empty where it tells none."""
    found = tile_of(kernel) if "sgemm" in kernel else None
    return found.name if found is not None and found.name in {t.name for t in library_tiles()} else ""


@dataclass(frozen=True, eq=False)
class Shapes(Rows):
    """``batch`` products of an m x k by a k x n matrix, (rows,) each."""

    batch: Floats
    m: Floats
    n: Floats
    k: Floats


def pipe_seconds(shapes: Shapes, gpu: Gpu, named: NDArray[np.object_] | None = None) -> Floats:
    """The time that the tiles of the products take at the boost clock where memory keeps up, (rows,).

    ``named`` has the tile of rows whose kernel is known, else empty: its launch is then the fastest of that
    tile.
    """
    rated = float(gpu.number("dram.bandwidth_bytes_per_s"))
    whole = tuple(int(x) for x in gpu.compute_capability.split(".")) >= WHOLE_FROM
    best = np.full(len(shapes.m), np.inf)
    for tile in library_tiles():
        allowed = np.ones(len(best), dtype=bool) if named is None else (named == "") | (named == tile.name)
        for parts in SPLITS[:1] if whole else SPLITS:
            # Each part writes its sums, and they are read again to be added up.
            added = (parts + 1 if parts > 1 else 0) * 4.0 * shapes.batch * shapes.m * shapes.n / rated
            usable = allowed & ((parts == 1) | (shapes.k >= parts * LEAST_PART))
            best = np.where(usable, np.minimum(best, _seconds(shapes, gpu, tile, parts) + added), best)
    return best


def _seconds(shapes: Shapes, gpu: Gpu, tile: Tile, parts: int) -> Floats:
    """Of one tile: as many blocks as the busiest SM gets, one after the other at the SM's rate."""
    architecture = executed_as(gpu)
    sms, hz = gpu.integer("gpu.sms"), gpu.number("clock.boost_hz")
    blocks = np.ceil(shapes.n / tile.rows) * np.ceil(shapes.m / tile.columns) * shapes.batch * parts
    steps = STEP * np.ceil(shapes.k / parts / STEP)
    a_cycle = gpu.number("peak.fp32_flops_per_s") / 2 / sms / hz * tile.share[architecture]
    cycles = tile.rows * tile.columns * steps / a_cycle + tile.block_cycles[architecture]
    return np.asarray(np.ceil(blocks / sms) * cycles / hz)


def _number(capability: str) -> float:
    return float(capability)

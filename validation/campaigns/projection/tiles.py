"""Executes the tiles of a library's products as machine code, on a description of each architecture:
`smlab.models.operators.tiles` reads what comes out.

A grid of one wave runs with sums of two lengths, on one SM with memory out of the way (`BEHIND`). What the
longer sum adds is the loop; what is left are a block's other cycles.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from smlab.hw_bench.files import write_atomic
from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.hw_bench.sass.nvrtc import compile_cuda
from smlab.hw_bench.sources import commit
from smlab.models.operators.tiles import MADE_BY, TABLE
from smlab.validation.projection.machine_code import CodeRun, LaunchData, run_codes

SOURCE: Final = Path(__file__).with_name("product_tile.cu")

GPUS: Final = ("v100", "t4", "a100-40", "rtx-3090", "l4", "h100-sxm")
"""One of each architecture that tiles are executed on."""

BEHIND: Final = {
    "dram.bandwidth_bytes_per_s": 9e12,
    "dram.sustained_bandwidth_bytes_per_s": 8.9e12,
    "l2.bandwidth_bytes_per_s": 1e13,
    "sm.register_banks": 256,
}
"""Memory that keeps up with every tile: what a product waits for there depends on its shape, not on the
tile. And operands in banks of their own: a library lays its registers out by hand for that, the compiler of
our tile does not (Lai and Seznec, 2013, "Performance upper bound analysis and optimization of SGEMM")."""

SUMS: Final = (256, 1024)


@dataclass(frozen=True)
class TileCode:
    """A tile of ``rows`` x ``columns``, ``thread_rows`` x ``thread_columns`` of it a thread; ``slices``
    groups of threads share the sum. ``resident`` blocks fit on an SM."""

    rows: int
    columns: int
    thread_rows: int
    thread_columns: int
    threads: int
    slices: int
    resident: int

    @property
    def name(self) -> str:
        return f"{self.rows}x{self.columns}" + (f"_sliced1x{self.slices}" if self.slices > 2 else "")


TILES: Final = (
    TileCode(128, 128, 8, 8, 256, 1, 2),
    TileCode(128, 64, 8, 8, 128, 1, 4),
    TileCode(64, 64, 8, 8, 64, 1, 8),
    TileCode(128, 32, 8, 4, 256, 2, 3),
    TileCode(32, 128, 4, 8, 256, 2, 3),
    TileCode(128, 32, 8, 8, 256, 4, 2),
    TileCode(64, 32, 8, 4, 256, 4, 4),
    TileCode(32, 32, 8, 4, 128, 4, 4),
)
"""The tiles that NeuSight's linear rows name, by what their names and threads tell. 256 threads for 128 x
32 results that no name calls sliced are two groups of 128: a thread with fewer than 32 results would wait
for shared memory."""


def execute_tiles(told: Any = print) -> dict[str, Any]:
    """The document of `TABLE`."""
    tiles = []
    for tile in TILES:
        share, block_cycles = {}, {}
        for name in GPUS:
            gpu = load_gpu(name)
            share[gpu.compute_capability], block_cycles[gpu.compute_capability] = _executed(tile, gpu)
            told(f"{tile.name} on {name}: {share[gpu.compute_capability]:.3f}")
        tiles.append(
            {
                "name": tile.name,
                "rows": tile.rows,
                "columns": tile.columns,
                "resident": tile.resident,
                "share": share,
                "block_cycles": block_cycles,
            }
        )
    return {
        "about": "tiles of single-precision products executed as machine code, memory out of the way",
        "made_by": MADE_BY,
        "commit": commit(),
        "gpus": list(GPUS),
        "tiles": tiles,
    }


def write_tiles() -> None:
    """Execute all tiles and store what `smlab.models.operators.tiles` reads; what is stored of rows stays."""
    rows = json.loads(TABLE.read_text(encoding="utf-8")).get("rows", {}) if TABLE.exists() else {}
    write_atomic(TABLE, json.dumps({**execute_tiles(), "rows": rows}, indent=1) + "\n")


def _executed(tile: TileCode, gpu: Gpu) -> tuple[float, float]:
    """The loop's share of the FP32 peak, and a block's cycles beside the loop."""
    fast = gpu.with_values(BEHIND, source="memory and register banks out of the way")
    cubin = compile_cuda(SOURCE.read_text(encoding="utf-8"), gpu.sm_architecture, _defines(tile), SOURCE.name)
    sms = gpu.integer("gpu.sms")
    across, down = 4 * tile.resident, sms // 4
    cycles = []
    for terms in SUMS:
        m, n = down * tile.rows, across * tile.columns
        arrays = [np.zeros(shape, dtype=np.float32) for shape in ((m, terms), (n, terms), (m, n))]
        data = LaunchData((*arrays, np.int32(n), np.int32(terms)), f"product of {terms} terms")
        one = CodeRun(cubin, "product", (across, down, 1), (tile.threads, 1, 1), fast)
        cycles.append(run_codes([one], data, None)[0].cycles)
    a_term = (cycles[1] - cycles[0]) / (SUMS[1] - SUMS[0])
    lanes = gpu.number("peak.fp32_flops_per_s") / 2 / sms / gpu.number("clock.boost_hz")
    waves = across * down / sms
    share = tile.rows * tile.columns * waves / lanes / a_term
    return round(share, 4), round(max(cycles[0] - SUMS[0] * a_term, 0.0) / waves, 1)


def _defines(tile: TileCode) -> list[str]:
    values = {
        "BM": tile.rows,
        "BN": tile.columns,
        "TM": tile.thread_rows,
        "TN": tile.thread_columns,
        "THREADS": tile.threads,
        "SLICES": tile.slices,
        "RESIDENT": tile.resident,
    }
    return [f"-D{name}={value}" for name, value in values.items()]

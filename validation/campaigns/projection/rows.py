"""Executes softmax of long rows as machine code: `smlab.models.operators.rows` reads what comes out.

PyTorch's kernel takes a block for each row and goes over it three times, in steps that wait for one another
(`row_softmax.cu`: the same algorithm, written anew). Two SMs with their share of L2 and DRAM run several
waves of blocks; the time that further waves add, over what DRAM's sustained bandwidth allows, is how much
longer such rows take.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.files import write_atomic
from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.hw_bench.sass.nvrtc import compile_cuda
from smlab.hw_bench.sources import commit
from smlab.models.operators.rows import ROWS_MADE_BY, softmax_threads
from smlab.models.operators.tiles import TABLE
from smlab.models.projection.parallelism import resident_blocks
from smlab.validation.campaigns.projection.tiles import GPUS
from smlab.validation.projection.gpu_parts import part_of
from smlab.validation.projection.machine_code import CodeRun, LaunchData, run_codes

SOURCE: Final = Path(__file__).with_name("row_softmax.cu")

SMS: Final = 2
"""SMs that run: each of `GPUS` is a whole number of pairs."""

WAVES: Final = 6
"""Waves of blocks of the first run at least, and how many more the second one has: the difference is a steady
state."""

L2_FILLED: Final = 1.5
"""How often the rows of the first run fill L2, so that as much is written back to DRAM as is written."""

BANDWIDTHS: Final = (0.96, 1.0, 1.04)
"""Shares of the published bandwidth: benchmarks of one card lie that far apart, and who waits for whom hangs
on it."""

LENGTHS: Final = (*range(1088, 2048, 64), *range(2048, 4096, 128), *range(4096, 8193, 256))
"""Values of the rows: quarters of a block's steps of one value a thread, halves in the longest."""


def execute_rows(told: Any = print) -> dict[str, Any]:
    """What `TABLE` has of rows: their lengths, and by architecture how much longer than DRAM's sustained
    bandwidth allows they take, a text with one number for each of `BANDWIDTHS`."""
    longer: dict[str, list[str]] = {}
    for name in GPUS:
        gpu = load_gpu(name)
        longer[gpu.compute_capability] = [
            " ".join(f"{max(_longer(n, gpu, share), 1.0):.3f}" for share in BANDWIDTHS) for n in LENGTHS
        ]
        told(f"{name}: {longer[gpu.compute_capability]}")
    made = {"made_by": ROWS_MADE_BY, "commit": commit(), "sms": SMS}
    return {**made, "lengths": list(LENGTHS), "longer": longer}


def write_rows() -> None:
    """Execute all rows and store them beside the tiles."""
    document = json.loads(TABLE.read_text(encoding="utf-8"))
    write_atomic(TABLE, json.dumps({**document, "rows": execute_rows()}, indent=1) + "\n")


def _longer(length: int, gpu: Gpu, share: float) -> float:
    """The time of a row over what the ``share`` of DRAM's sustained bandwidth allows."""
    keys = ("dram.bandwidth_bytes_per_s", "dram.sustained_bandwidth_bytes_per_s")
    other = gpu.with_values({key: share * gpu.number(key) for key in keys}, source="another benchmark")
    part = part_of(other, gpu.integer("gpu.sms") // SMS)
    blocks = resident_blocks(gpu, np.array([softmax_threads(length)]))
    a_wave, row_bytes = SMS * int(blocks[0]), 2 * 4 * length
    waves = max(WAVES, int(np.ceil(L2_FILLED * part.number("l2.bytes") / (a_wave * row_bytes))))
    first, second = (
        run_softmax(np.ones((n * a_wave, length), dtype=np.float32), part)[1] for n in (waves, waves + WAVES)
    )
    a_row_s = (second - first) / (WAVES * a_wave) / part.number("clock.sm_hz")
    return float(a_row_s * part.number("dram.sustained_bandwidth_bytes_per_s") / row_bytes)


def run_softmax(values: NDArray[np.float32], gpu: Gpu) -> tuple[NDArray[np.float32], float]:
    """The result for ``values``, (rows, length), and the cycles, on all SMs of ``gpu``."""
    rows, length = values.shape
    threads, result = softmax_threads(length), np.zeros_like(values)
    cubin = compile_cuda(SOURCE.read_text(encoding="utf-8"), gpu.sm_architecture, [], SOURCE.name)
    data = LaunchData(
        (result, values, np.int32(length)), f"{rows} rows of {length}", shared_bytes=4 * threads
    )
    one = CodeRun(cubin, "row_softmax", (rows, 1, 1), (threads, 1, 1), gpu, gpu.integer("gpu.sms"))
    return result, run_codes([one], data, None)[0].cycles

"""Kernels in Triton that make their tensor descriptors on the device, beside cycles that the authors of
FlashGPU-Sim measured on an RTX 5090 (Nsight Compute, clock locked at 2.00 GHz). The kernels are ours, with
the same tiles and the same algorithm.

``python -m smlab.validation.campaigns.tensor_cores.triton_rows`` runs the rows and prints them: minutes.
Triton's release decides: a product of 512 x 16 x 512 executes 47,792 warp-instructions with 3.4.0, 49,136
with 3.6.0 and 41,224 with 3.8.0, where the authors counted 48,904.
"""

# mypy: disable-error-code="no-untyped-def"
# Triton's kernels have no types that Python knows.

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import triton
import triton.language as tl
from numpy.typing import NDArray

from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.sim.execution.run import MachineRun, run_machine_code
from smlab.sim.frontends.launching import machine_launch
from smlab.sim.frontends.protocol import LoadedKernel
from smlab.sim.frontends.triton_driver import SimulatedDriver, TritonTarget, driving

described = getattr(tl, "make_tensor_descriptor", None) or tl._experimental_make_tensor_descriptor
"""The name since Triton 3.4, and the one before."""
CLOCK_HZ: Final = 2.002e9
"""24,600.54 cycles in 12,288 ns."""
OVERHEAD: Final = "launch.profiled_overhead_s"
"""What the profiler counts beyond the code. The same authors' chains of dependent IMADs, 7,912 and 20,425
cycles for 1,024 and 4,096 steps whose code takes 4,172 and 16,688 (docs/rtx5090-instruction-cache.md), say
3,740 cycles, which are 1.9 us; no constant rests on them."""


@triton.jit
def product(
    a, b, c, m, n, k, TILE_M: tl.constexpr, TILE_N: tl.constexpr, TILE_K: tl.constexpr, GROUP: tl.constexpr
):
    block = tl.program_id(0)
    down = tl.cdiv(m, TILE_M)
    across = tl.cdiv(n, TILE_N)
    of_group = GROUP * across
    first = block // of_group * GROUP
    rows = min(down - first, GROUP)
    row = (first + block % rows) * TILE_M
    column = block % of_group // rows * TILE_N
    of_a = described(a, [m, k], [k, 1], [TILE_M, TILE_K])
    of_b = described(b, [n, k], [k, 1], [TILE_N, TILE_K])
    of_c = described(c, [m, n], [n, 1], [TILE_M, TILE_N])
    total = tl.zeros((TILE_M, TILE_N), dtype=tl.float32)
    for step in range(tl.cdiv(k, TILE_K)):
        left = of_a.load([row, step * TILE_K])
        right = of_b.load([column, step * TILE_K])
        total = tl.dot(left, right.T, total)
    of_c.store([row, column], total.to(tl.float16))


@triton.jit
def attention(
    q, k, v, out, scale, LENGTH: tl.constexpr, WIDTH: tl.constexpr, TILE_M: tl.constexpr, TILE_N: tl.constexpr
):
    place = tl.program_id(0) * TILE_M
    head = tl.program_id(1).to(tl.int64) * LENGTH * WIDTH
    of_q = described(q + head, [LENGTH, WIDTH], [WIDTH, 1], [TILE_M, WIDTH])
    of_k = described(k + head, [LENGTH, WIDTH], [WIDTH, 1], [TILE_N, WIDTH])
    of_v = described(v + head, [LENGTH, WIDTH], [WIDTH, 1], [TILE_N, WIDTH])
    most = tl.zeros([TILE_M], dtype=tl.float32) - float("inf")
    weight = tl.zeros([TILE_M], dtype=tl.float32)
    total = tl.zeros([TILE_M, WIDTH], dtype=tl.float32)
    queries = of_q.load([place, 0])
    rows = place + tl.arange(0, TILE_M)
    columns = tl.arange(0, TILE_N)
    for first in range(0, tl.minimum(place + TILE_M, LENGTH), TILE_N):
        scores = tl.dot(queries, tl.trans(of_k.load([first, 0]))) * scale
        scores = tl.where(rows[:, None] >= (first + columns[None, :]), scores, float("-inf"))
        now = tl.maximum(most, tl.max(scores, 1))
        scores = tl.where(now[:, None] == float("-inf"), float("-inf"), scores - now[:, None])
        p = tl.math.exp(scores)
        of_tile = tl.sum(p, 1)
        faded = tl.math.exp(most - now)
        total = total * faded[:, None]
        values = of_v.load([first, 0])
        total = tl.dot(p.to(values.dtype), values, total)
        weight = weight * faded + of_tile
        most = now
    total = total / weight[:, None]
    of_out = described(out + head, [LENGTH, WIDTH], [WIDTH, 1], [TILE_M, WIDTH])
    of_out.store([place, 0], total.to(out.type.element_ty))


@triton.jit
def small_attention(q, k, v, out, heads, length, width, scale, TILE: tl.constexpr, WIDTH: tl.constexpr):
    step = tl.program_id(0)
    head = tl.program_id(1)
    place = step * TILE
    of_q = described(q, [heads, length, width], [length * width, width, 1], [1, TILE, WIDTH])
    of_k = described(k, [heads, length, width], [length * width, width, 1], [1, TILE, WIDTH])
    of_v = described(v, [heads, length, width], [length * width, width, 1], [1, TILE, WIDTH])
    of_out = described(out, [heads, length, width], [length * width, width, 1], [1, TILE, WIDTH])
    queries = tl.reshape(of_q.load([head, place, 0]), [TILE, WIDTH]).to(tl.float32) * scale
    most = tl.full((TILE,), float("-inf"), dtype=tl.float32)
    weight = tl.zeros((TILE,), dtype=tl.float32)
    total = tl.zeros((TILE, WIDTH), dtype=tl.float32)
    for n in range(0, step):
        keys = tl.reshape(of_k.load([head, n * TILE, 0]), [TILE, WIDTH]).to(tl.float32)
        values = tl.reshape(of_v.load([head, n * TILE, 0]), [TILE, WIDTH])
        scores = tl.dot(queries, tl.trans(keys))
        now = tl.maximum(most, tl.max(scores, axis=1))
        faded = tl.exp(most - now)
        p = tl.exp(scores - now[:, None])
        weight = faded * weight + tl.sum(p, axis=1)
        total = total * faded[:, None] + tl.dot(p.to(values.dtype), values).to(tl.float32)
        most = now
    rows = place + tl.arange(0, TILE)
    columns = step * TILE + tl.arange(0, TILE)
    keys = tl.reshape(of_k.load([head, step * TILE, 0]), [TILE, WIDTH]).to(tl.float32)
    values = tl.reshape(of_v.load([head, step * TILE, 0]), [TILE, WIDTH])
    scores = tl.where(columns[None, :] <= rows[:, None], tl.dot(queries, tl.trans(keys)), float("-inf"))
    now = tl.maximum(most, tl.max(scores, axis=1))
    faded = tl.exp(most - now)
    p = tl.exp(scores - now[:, None])
    weight = faded * weight + tl.sum(p, axis=1)
    total = total * faded[:, None] + tl.dot(p.to(values.dtype), values).to(tl.float32)
    found = (total / tl.maximum(weight[:, None], 1e-6)).to(tl.float16)
    of_out.store([head, place, 0], tl.reshape(found, [1, TILE, WIDTH]))


def drawn(*shape: int, seed: int = 0) -> NDArray[Any]:
    """Halves of a normal distribution."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float16)


def run_product(m: int, n: int, k: int) -> float:
    """Launch C = A B^T, tiles of 64 x 64 x 64; the largest error."""
    a, b, c = drawn(m, k), drawn(n, k, seed=1), np.zeros((m, n), np.float16)
    grid = (-(-m // 64) * -(-n // 64),)
    tiles = {"TILE_M": 64, "TILE_N": 64, "TILE_K": 64, "GROUP": 8}
    product[grid](a, b, c, m, n, k, **tiles, num_stages=4, num_warps=4)
    return float(np.abs(c - a.astype(np.float32) @ b.astype(np.float32).T).max())


def run_attention(heads: int, length: int, width: int, tile: int = 64) -> float:
    """Launch causal attention by tiles of 64 rows, or, of 32, that of the small model; the largest error of
    the first head."""
    q, k, v = (drawn(heads, length, width, seed=seed) for seed in range(3))
    out, scale = np.zeros_like(q), 1 / width**0.5
    grid = (length // tile, heads)
    if tile == 64:
        attention[grid](q, k, v, out, scale, LENGTH=length, WIDTH=width, TILE_M=tile, TILE_N=tile)
    else:
        small_attention[grid](q, k, v, out, heads, length, width, scale, TILE=tile, WIDTH=width)
    scores = q[0].astype(np.float32) @ k[0].astype(np.float32).T * scale
    scores = np.where(np.tril(np.ones((length, length), bool)), scores, -np.inf)
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    return float(np.abs(p / p.sum(axis=1, keepdims=True) @ v[0].astype(np.float32) - out[0]).max())


@dataclass(frozen=True)
class TritonRow:
    """A published number of elapsed cycles, and how its like is launched here."""

    name: str
    cycles: float
    launch: Callable[[], float]


ROWS: Final = (
    TritonRow("product 512 x 16 x 512", 24600.54, lambda: run_product(512, 16, 512)),
    TritonRow("product 2560 x 64 x 2560", 77190.74, lambda: run_product(2560, 64, 2560)),
    TritonRow("attention 12 x 128 x 64, tiles of 32", 25243.15, lambda: run_attention(12, 128, 64, 32)),
    TritonRow("attention 1024 x 512 x 64", 797247.12, lambda: run_attention(1024, 512, 64)),
)


def card() -> Gpu:
    """An RTX 5090 at the clock of the measurements, whose instruction caches the profiler has emptied."""
    values = {"clock.sm_hz": CLOCK_HZ, "icache.earlier_launches": 0}
    return load_gpu("rtx-5090").with_values(values, source="cycles over duration; --cache-control all")


def simulated(row: TritonRow, gpu: Gpu) -> MachineRun:
    """The last launch of a row."""
    runs: list[MachineRun] = []

    def launched(kernel: LoadedKernel) -> float:
        launch = machine_launch(kernel, None, None, (), {})
        runs.append(run_machine_code(launch, gpu, threads=1))
        return runs[-1].seconds

    room = {"max_shared_mem": gpu.integer("sm.shared_bytes_per_block"), "max_num_regs": 1 << 16}
    properties = {**room, "multiprocessor_count": gpu.integer("gpu.sms"), "warpSize": 32}
    with driving(SimulatedDriver(TritonTarget(gpu.name, gpu.sm_architecture, properties), launched)):
        row.launch()
    return runs[-1]


def main() -> None:
    """Run all rows and print them."""
    print(f"Triton {triton.__version__}")
    print("| kernel | published | simulated | with begin and end | error | warp-instructions |")
    for row in ROWS:
        run = simulated(row, card())
        whole = run.cycles + CLOCK_HZ * card().number(OVERHEAD)
        executed = sum(sm.warp_instructions for sm in run.result.sms)
        print(
            f"| {row.name} | {row.cycles:,.0f} | {run.cycles:,.0f} | {whole:,.0f} | "
            f"{100 * (whole / row.cycles - 1):+.1f} % | {executed:,} |"
        )


if __name__ == "__main__":
    main()

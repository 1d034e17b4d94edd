"""The kernels of a published series that multiply matrices on an H100, compiled from their source, beside the
rates that their author reports.

``python -m smlab.validation.campaigns.tensor_cores.published_products ../shared/data/worklogs/matmul-h100``
prints the table: some half an hour. nvcc must be there, with the headers of CUDA's C++ library. ``--size
8192 --sms 2 --kernels 11 12`` runs a sample of a larger product.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.sass.image import KernelImage
from smlab.sim.execution.run import run_machine_code
from smlab.sim.frontends.cuda_c import load_cuda
from smlab.sim.frontends.protocol import KernelSource
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.sim.isa.launch.tensor_map import TensorMap

PUBLISHED: Final = {
    2: ("products by groups of warps", 317),
    3: ("larger tiles", 423),
    4: ("a warp group that copies", 498),
    5: ("tiles of 128 x 256", 632),
    6: ("blocks that stay", 660),
    7: ("faster barriers", 705),
    8: ("clusters of two blocks", 734),
    9: ("details", 747),
    10: ("copies that store", 759),
    11: ("Hilbert's order", 764),
    12: ("matrices stored", 763),
}
"""What is new in a kernel, and its TFLOP/s at 4,096 (P. Shankhdhar, "Outperforming cuBLAS on H100: a
Worklog", 2024; 2 to 11 second hand, by a table that quotes it; 12 by the README of pranjalssh/fast.cu)."""
LARGE_PUBLISHED: Final = 808
"""TFLOP/s at `LARGE` (README of pranjalssh/fast.cu, of its fastest kernel)."""
SIZE: Final = 4096
LARGE: Final = 8192
SPACE: Final = 128
"""Tiles of a cluster of the published kernels 11 and 12, at most."""
_WITHOUT_CLOCKS: Final = (
    "void M3::matmulKernel3<128, 128, 64, 128, false>"
    "(int, int, int, __nv_bfloat16*, CUtensorMap_st const*, CUtensorMap_st const*, int*)"
)
_PRELUDE: Final = """
#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda/barrier>
#include <cuda_bf16.h>
#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>
typedef __nv_bfloat16 bf16;
#define CEIL_DIV(M, N) (((M) + (N)-1) / (N))
#define cudaCheck(err) (void)(err)
"""


def bfloat16(values: NDArray[Any]) -> NDArray[np.uint16]:
    """The nearest numbers of the format, as their bits."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def single(bits: NDArray[np.uint16]) -> NDArray[np.float32]:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def hilbert_order(rows: int, columns: int, clusters: int) -> NDArray[np.int32]:
    """Which tiles each cluster takes, -1 behind them: the points of Hilbert's curve in turn."""
    edge, space, turn = 1, np.full((clusters, SPACE), -1, np.int32), 0
    while edge < max(rows, columns):
        edge *= 2
    for distance in range(edge * edge):
        x, y, rest, side = 0, 0, distance, 1
        while side < edge:
            right, up = rest // 2 & 1, (rest ^ rest // 2) & 1
            if not up:
                if right:
                    x, y = side - 1 - x, side - 1 - y
                x, y = y, x
            x, y, rest, side = x + side * right, y + side * up, rest // 4, 2 * side
        if x < rows and y < columns:
            space[turn % clusters, turn // clusters] = x << 16 | y
            turn += 1
    return space.reshape(-1)


def _image(kernel: int, folder: Path) -> KernelImage:
    with tempfile.TemporaryDirectory() as work:
        path = Path(work) / "kernel.cu"
        path.write_text(f'{_PRELUDE}\n#include "{folder.absolute()}/matmul_{kernel}.cuh"\n', encoding="utf-8")
        options = {"compiler": "nvcc", "flags": "-DNDEBUG -O3 -std=c++17 -w"}
        name = {1: "sgemmWarptiling", 3: _WITHOUT_CLOCKS}.get(kernel, f"matmulKernel{kernel}")
        return load_cuda(KernelSource(path, "sm_90a", name, options=options)).image


def product_launch(
    kernel: int, folder: Path, a: NDArray[np.uint16], b: NDArray[np.uint16], c: NDArray[np.uint16]
) -> MachineLaunch:
    """A launch of a published kernel as its author makes it: ``c`` (n, m) becomes the product of ``b`` (n, k)
    and ``a`` (m, k) turned, in BF16."""
    (m, depth), n = a.shape, len(b)
    if kernel == 1:  # without tensor cores or copies: its second matrix is not turned
        arguments: list[Any] = [*(np.int32(x) for x in (n, m, depth)), b, np.ascontiguousarray(a.T), c]
        return MachineLaunch(_image(kernel, folder), (m // 128, n // 128, 1), (128, 1, 1), arguments)
    rows, columns, threads = {2: (64, 64, 128), 3: (128, 128, 128), 4: (128, 128, 256)}.get(
        kernel, (128, 256, 384)
    )

    def described(of: NDArray[np.uint16], box: int, wide: int = 64, each: int = 64, way: str = "128") -> Any:
        count, width = of.shape
        if kernel <= 6:
            return TensorMap(of, (width, count), (64, box), swizzle=way)
        more = (1, 1) if kernel == 7 else ()
        shape, part = (64, count, width // 64, *more), (each, box, wide // 64, *more)
        return TensorMap(of, shape, part, (2 * width, 128, *(0 for _ in more)), swizzle=way)

    maps = (described(a, rows), described(b, columns))
    arguments = [np.int32(x) for x in (m, n, depth)]
    stages = {2: 0, 3: 0, 4: 5}.get(kernel, 3)
    shared = 2 * 64 * (rows + columns) * stages
    if kernel >= 10:
        padded = kernel == 12
        wide, each = (64, 72) if padded else (rows, 64)
        arguments += [described(c, columns, wide, each, "none"), *maps]
        shared += 2 * columns * (rows + 16 * padded)
    else:
        arguments += [c, *maps]
    if kernel >= 11:
        arguments.append(hilbert_order(-(-m // (2 * rows)), -(-n // columns), 64))
    blocks = 128 if kernel >= 6 else m // rows * (n // columns)
    image = _image(kernel, folder)
    if len(image.parameters or ()) > len(arguments):
        arguments.append(np.zeros(2 * SIZE, np.int32))  # where the kernel writes what it measures
    return MachineLaunch(
        image,
        (blocks, 1, 1),
        (threads, 1, 1),
        arguments,
        dynamic_shared_bytes=shared + 1024,
        check_shared=False,
    )


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="the sources, matmul_2.cuh and on")
    parser.add_argument("--kernels", type=int, nargs="*", default=[*PUBLISHED])
    parser.add_argument("--size", type=int, choices=(SIZE, LARGE), default=SIZE)
    parser.add_argument("--sms", type=int, help="how many SMs run; without it, all")
    asked = parser.parse_args(given)
    gpu = load_gpu("h100-sxm")  # at its clock within tensor kernels; that of the published runs is not known
    draw = np.random.default_rng(1)
    size = asked.size
    a, b = (bfloat16(draw.standard_normal((size, size))) for _ in range(2))
    print("| kernel | what is new | published, TFLOP/s | simulated | error |\n|---|---|---|---|---|")
    for kernel in asked.kernels:
        what, published = PUBLISHED[kernel]
        published = published if size == SIZE else LARGE_PUBLISHED
        launch = product_launch(kernel, asked.folder, a, b, np.zeros((size, size), np.uint16))
        rate = 2 * size**3 / run_machine_code(launch, gpu, sms=asked.sms or "all").seconds / 1e12
        error = f"{100 * (rate / published - 1):+.1f} %"
        print(f"| {kernel} | {what} | {published} | {rate:.0f} | {error} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Kernels by others for `machine_code`: steps of an SGEMM worklog and a tuned convolution.

Their sources lie in the folder of measurements by others and are no part of this repository. They are
compiled, and take a smaller problem than their authors' so that a whole grid runs in a second.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from smlab.hw_bench.datasets.measured_kernels import read_measured
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.sass.image import KernelImage
from smlab.sim.frontends.registry import load_kernel
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.validation.record.run import compiled

DATA: Final = Path(__file__).resolve().parents[2] / "shared" / "data"
"""Measurements by others, beside the checkout; `../shared/data` in the documents."""
EDGE: Final = 1024
"""Rows and columns of the product."""
DEPTH: Final = {2: 64, 6: 512, 10: 512}
"""Its inner dimension, by step: a run takes a second or two, so that what comes before it counts little."""
PUBLISHED_EDGE: Final = 4096
IMAGE: Final = 1024
TILE: Final = {"BLOCK_SIZE_X": 64, "BLOCK_SIZE_Y": 2, "TILE_SIZE_X": 1, "TILE_SIZE_Y": 8}
SGEMM_GPU: Final = "a6000"
CONVOLUTION_GPU: Final = "rtx-2080-ti"


@cache
def _sgemm_image(step: int) -> tuple[KernelImage, tuple[int, int, int], tuple[int, int, int]]:
    one = read_measured("sgemm-a6000", DATA, 100)
    kernel = next(k for k in one.kernels if k.name == f"step {step}")
    assert kernel.grid is not None
    assert kernel.block is not None
    architecture = load_gpu(SGEMM_GPU).sm_architecture
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(compiled(one, kernel, architecture))
        image = load_kernel(path, architecture)
    x, y, _ = kernel.grid
    return image, (x * EDGE // PUBLISHED_EDGE, y * EDGE // PUBLISHED_EDGE, 1), kernel.block


def sgemm(step: int) -> Callable[[], MachineLaunch]:
    """Step ``step`` of the SGEMM worklog, C = 0.5 A B + 3 C."""

    def make() -> MachineLaunch:
        image, grid, block = _sgemm_image(step)
        a, b = (np.ones(EDGE * DEPTH[step], dtype=np.float32) for _ in range(2))
        sizes = [np.int32(EDGE), np.int32(EDGE), np.int32(DEPTH[step])]
        c = np.zeros(EDGE * EDGE, dtype=np.float32)
        arguments: list[Any] = [*sizes, np.float32(0.5), a, b, np.float32(3.0), c]
        return MachineLaunch(image, grid, block, arguments)

    return make


@cache
def _convolution_image() -> KernelImage:
    macros = {"IMAGE_WIDTH": IMAGE, "IMAGE_HEIGHT": IMAGE, "HFS": 7, "READ_ONLY": 1, **TILE}
    return load_kernel(
        DATA / "tuning" / "ktt-convolution" / "KernelTunerConvolution.cu",
        load_gpu(CONVOLUTION_GPU).sm_architecture,
        name="Convolution",
        defines={key: str(value) for key, value in macros.items()},
    )


def convolution() -> MachineLaunch:
    """KTT's convolution with a filter of 15 by 15, in one of its fastest configurations."""
    width, height = TILE["BLOCK_SIZE_X"] * TILE["TILE_SIZE_X"], TILE["BLOCK_SIZE_Y"] * TILE["TILE_SIZE_Y"]
    image = np.ones((IMAGE + 14) ** 2, dtype=np.float32)
    output, weights = np.zeros(IMAGE**2, dtype=np.float32), np.ones(15 * 15, dtype=np.float32)
    return MachineLaunch(
        _convolution_image(),
        (IMAGE // width, IMAGE // height, 1),
        (TILE["BLOCK_SIZE_X"], TILE["BLOCK_SIZE_Y"], 1),
        [output, image, weights],
    )

"""Published kernels of an H100 compute right products, with bulk copies, barriers in memory, and clusters,
and right sums."""

from pathlib import Path

import numpy as np
import pytest

from smlab.hw_bench.cuda.toolkit import has_compiler
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.sim.execution.run import run_machine_code
from smlab.sim.frontends.cuda_c import find_nvcc
from smlab.validation.campaigns.tensor_cores.published_products import (
    PUBLISHED,
    bfloat16,
    hilbert_order,
    product_launch,
    single,
)
from smlab.validation.campaigns.tensor_cores.published_sums import FORMS, run_sum

if not has_compiler():
    pytest.skip("the CUDA compiler of the extra cuda12 is not installed", allow_module_level=True)

SHAPES = dict.fromkeys((1, 2, 3, 4, 5), (256, 256, 128)) | {11: (1024, 1024, 256), 12: (1024, 1024, 256)}
"""Rows, columns and depth; the others have at least a tile for each block."""


@pytest.mark.parametrize("kernel", [1, *PUBLISHED])
def test_products_are_right(kernel: int, shared_data: Path) -> None:
    if find_nvcc() is None:
        pytest.skip("nvcc is not installed")
    m, n, depth = SHAPES.get(kernel, (2048, 2048, 64))
    draw = np.random.default_rng(kernel)
    a, b = bfloat16(draw.standard_normal((m, depth))), bfloat16(draw.standard_normal((n, depth)))
    expected = single(b).astype(np.float64) @ single(a).astype(np.float64).T
    folder = shared_data / "worklogs" / "matmul-h100"
    c = np.zeros((n, m), np.uint16)
    run_machine_code(product_launch(kernel, folder, a, b, c), load_gpu("h100-sxm"), sms="all")
    assert np.allclose(single(c), expected, rtol=2**-8, atol=2**-8)


@pytest.mark.parametrize("form", FORMS)
def test_sums_are_right(form: int, shared_data: Path) -> None:
    if find_nvcc() is None:
        pytest.skip("nvcc is not installed")
    numbers = np.random.default_rng(form).integers(0, 100, 1 << 17, dtype=np.int32)
    _, found = run_sum(form, shared_data / "worklogs" / "matmul-h100", numbers, "all")
    assert found == int(numbers.sum())


def test_hilberts_curve_takes_each_tile_once() -> None:
    taken = hilbert_order(16, 16, 64).reshape(64, -1)
    assert sorted(t for t in taken.reshape(-1).tolist() if t >= 0) == sorted(
        x << 16 | y for x in range(16) for y in range(16)
    )
    curve = taken[:, :4].T.reshape(-1)
    steps = abs(np.diff(curve >> 16)) + abs(np.diff(curve & 0xFFFF))
    assert (steps == 1).all()

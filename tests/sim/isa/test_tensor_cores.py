"""Products of matrices on tensor cores, compiled from PTX's ``mma.sync``, held against NumPy: numbers whose
sums are exact, so that the order of summing makes no difference."""

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import smlab
from smlab.hw_bench.cuda.toolkit import has_compiler

if not has_compiler() or importlib.util.find_spec("nvidia.cuda_runtime") is None:
    pytest.skip("the CUDA compiler of the extra cuda12 is not installed", allow_module_level=True)

SOURCE = Path(__file__).parent / "cuda" / "tensor.cu"
GPUS = {"sm_75": "t4", "sm_80": "a100-40", "sm_86": "rtx-3090", "sm_89": "l4", "sm_90": "h100-pcie"}
Array = NDArray[Any]
LANES = np.arange(32)
G, T = LANES >> 2, LANES & 3
SHAPES = {"k8": 8, "h8": 8, "k16": 16, "h16": 16, "bf16": 16, "i32": 32}


def words(parts: list[Array]) -> Array:
    """Elements side by side, as the words of a register."""
    found: Array = np.ascontiguousarray(np.stack(parts, axis=1)).view(np.uint32)[:, 0]
    return found


def first(a: Array, pack: int) -> Array:
    columns = range(0, a.shape[1], 4 * pack)
    registers = [
        words([a[G + row, k + pack * T + e] for e in range(pack)]) for k in columns for row in (0, 8)
    ]
    return np.ascontiguousarray(np.stack(registers, axis=1))


def second(b: Array, pack: int) -> Array:
    registers = [words([b[k + pack * T + e, G] for e in range(pack)]) for k in range(0, len(b), 4 * pack)]
    return np.ascontiguousarray(np.stack(registers, axis=1))


PLACES = [(G, 2 * T), (G, 2 * T + 1), (G + 8, 2 * T), (G + 8, 2 * T + 1)]


@pytest.mark.parametrize(
    "architecture", [a if a == "sm_80" else pytest.param(a, marks=pytest.mark.thorough) for a in GPUS]
)
@pytest.mark.parametrize("name", SHAPES)
def test_a_product_of_fragments(name: str, architecture: str) -> None:
    if architecture == "sm_75" and name not in ("k8", "h8"):
        return
    depth, random = SHAPES[name], np.random.default_rng(0)
    kind: Any = np.int8 if name == "i32" else np.float16
    total: Any = np.int32 if name == "i32" else np.float32
    edge = 128 if name == "i32" else 16
    a, b = (random.integers(-edge, edge, s).astype(kind) for s in ((16, depth), (depth, 8)))
    c = random.integers(-99, 99, (16, 8)).astype(total)
    want = a.astype(total) @ b.astype(total) + c
    pack = 4 // a.itemsize
    if name == "bf16":
        a, b = ((x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16) for x in (a, b))
    sums = np.stack([c[place] for place in PLACES], axis=1)
    if name.startswith("h"):
        sums = sums.astype(np.float16)
    sums = np.ascontiguousarray(sums)
    out = np.zeros_like(sums)
    smlab.run(SOURCE, 1, 32, first(a, pack), second(b, pack), sums, out, name=name, gpu=GPUS[architecture])
    for number, place in enumerate(PLACES):
        assert np.array_equal(out[:, number].astype(np.float64), want[place].astype(np.float64))


@pytest.mark.parametrize(
    "architecture",
    [a if a == "sm_90" else pytest.param(a, marks=pytest.mark.thorough) for a in GPUS if a >= "sm_80"],
)
def test_kernels_with_copies_ahead(architecture: str) -> None:
    """A product of matrices through ``ldmatrix``, and a stencil, both fetched ahead of their use."""
    random, n = np.random.default_rng(1), 64
    a, b = (random.integers(-4, 4, (n, n)).astype(np.float16) for _ in range(2))
    c = np.zeros((n, n), np.float32)
    smlab.run(SOURCE, (2, 2), 128, a, b, c, n, name="product", gpu=GPUS[architecture])
    assert np.array_equal(c, a.astype(np.float32) @ b.astype(np.float32))
    grid, out = random.integers(-9, 9, (11, 98)).astype(np.float32), np.zeros((9, 96), np.float32)
    smlab.run(
        SOURCE, 1, 64, grid, out, 96, 9, name="stencil", gpu=GPUS[architecture], shared_bytes=4 * 4 * 98
    )
    around = grid[:-2, 1:-1] + grid[2:, 1:-1] + grid[1:-1, :-2] + grid[1:-1, 2:]
    assert np.array_equal(out, around - 4 * grid[1:-1, 1:-1])

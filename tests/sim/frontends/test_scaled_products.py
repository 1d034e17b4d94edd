"""Triton's products with scales of blocks on cards that have them: the results are NumPy's."""

import numpy as np
import pytest

import smlab

triton = pytest.importorskip("triton", reason="needs Triton")
tl = pytest.importorskip("triton.language", reason="needs Triton")
FOURS = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
ROWS, COLUMNS, DEPTH = 128, 64, 128


@triton.jit
def product(
    a, of_a, b, of_b, c, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, SIZE: tl.constexpr
):
    m, n = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    k, s = tl.arange(0, DEPTH // 2), tl.arange(0, DEPTH // SIZE)
    x = tl.load(a + m[:, None] * (DEPTH // 2) + k[None, :])
    y = tl.load(b + n[:, None] * (DEPTH // 2) + k[None, :])
    x_scale = tl.load(of_a + m[:, None] * (DEPTH // SIZE) + s[None, :])
    y_scale = tl.load(of_b + n[:, None] * (DEPTH // SIZE) + s[None, :])
    total = tl.dot_scaled(x, x_scale, "e2m1", y.T, y_scale, "e2m1")
    tl.store(c + m[:, None] * COLUMNS + n[None, :], total)


def numbers(packed: np.ndarray) -> np.ndarray:
    """Floats of four bits, the first of two in the lower half of a byte."""
    bits = np.stack((packed & 15, packed >> 4), axis=-1).reshape(len(packed), -1)
    return np.where(bits & 8, -1.0, 1.0) * FOURS[bits & 7]


@pytest.mark.parametrize("gpu", ["rtx-5090", "b200"])
def test_fours_with_scales_of_powers_of_two(gpu: str) -> None:
    release = tuple(map(int, triton.__version__.split(".")[:2]))
    if gpu == "rtx-5090" and release < (3, 5):
        pytest.skip(f"Triton {triton.__version__} writes code of another card for it")
    random = np.random.default_rng(5)
    a, b = (random.integers(0, 256, (lines, DEPTH // 2), dtype=np.uint8) for lines in (ROWS, COLUMNS))
    x, y = (random.integers(122, 132, (lines, DEPTH // 32), dtype=np.uint8) for lines in (ROWS, COLUMNS))
    c = np.zeros((ROWS, COLUMNS), np.float32)
    with smlab.simulated(gpu) as card:
        product[(1,)](a, x, b, y, c, ROWS=ROWS, COLUMNS=COLUMNS, DEPTH=DEPTH, SIZE=32, num_warps=4)
    scaled = [
        numbers(values) * np.repeat(2.0 ** (scales.astype(float) - 127), 32, axis=1)
        for values, scales in ((a, x), (b, y))
    ]
    assert np.allclose(c, scaled[0] @ scaled[1].T, rtol=1e-6, atol=1e-6)
    code = " ".join(row.text for row in card.runs[-1].instructions)
    assert "OMMA" in code

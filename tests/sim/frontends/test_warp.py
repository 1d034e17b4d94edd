"""Kernels in Warp, in its calling convention."""

import numpy as np
import pytest

import smlab
from smlab import SmlabError

pytest.importorskip("warp")

import warp


@warp.kernel
def saxpy(x: warp.array(dtype=float), y: warp.array(dtype=float), a: float):
    i = warp.tid()
    y[i] = a * x[i] + y[i]


@warp.kernel
def turned(p: warp.array(dtype=warp.vec3), m: warp.mat33, out: warp.array2d(dtype=warp.vec3)):
    i, j = warp.tid()
    out[i, j] = m * p[j] * float(i)


@pytest.mark.parametrize("gpu", ["a100-40", "rtx-4090", "h100-pcie"])
def test_a_kernel_of_one_dimension(gpu: str) -> None:
    x, y = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
    done = smlab.run(saxpy, 1000, x, y, 2.5, gpu=gpu)
    assert np.array_equal(y, 2.5 * x + 1)
    assert (done.launch.blocks, done.launch.threads) == (4, 256)


def test_vectors_matrices_and_two_dimensions() -> None:
    random = np.random.default_rng(0)
    p, m = random.random((40, 3), dtype=np.float32), random.random((3, 3), dtype=np.float32)
    out = np.zeros((5, 40, 3), np.float32)
    done = smlab.run(turned, (5, 40), p, warp.mat33(*m.ravel()), out, gpu="a100-40", block_dim=64)
    np.testing.assert_allclose(out, (p @ m.T)[None] * np.arange(5)[:, None, None], rtol=1e-5)
    assert (done.launch.blocks, done.launch.threads) == (4, 64)


def test_what_cannot_be_done_is_told_in_one_line() -> None:
    x = np.ones(10, np.float32)
    cases = {
        r"saxpy: a: no argument: .*type <class 'str'>": (10, (x, x, "two")),
        r"saxpy: x: no argument: .*<i8": (10, (x.astype(np.int64), x, 2.0)),
        r"saxpy: wrong number of arguments \(got 2; expected 3\)": (10, (x, x)),
        r"grid: not a shape \(got \(1, 2, 3, 4, 5\)": ((1, 2, 3, 4, 5), (x, x, 2.0)),
    }
    for message, (grid, arguments) in cases.items():
        with pytest.raises(SmlabError, match=message) as told:
            smlab.run(saxpy, grid, *arguments, gpu="a100-40")
        assert "\n" not in str(told.value)
    with pytest.raises(SmlabError, match=r"unknown option \(got 'block'; expected one of block_dim\)"):
        smlab.run(saxpy, 10, x, x, 2.0, gpu="a100-40", options={"block": 3})

"""A script's launches of Numba's kernels, on the simulated GPU."""

import numpy as np
import pytest

import smlab
from smlab import SmlabError
from smlab.hw_bench.cuda.toolkit import has_compiler

if not has_compiler():
    pytest.skip("the CUDA compiler of the extra cuda12 is not installed", allow_module_level=True)

from numba import cuda


@cuda.jit
def scaled(x, by):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= by


def test_a_launch_by_brackets_runs() -> None:
    x = np.ones(100, np.float32)
    with smlab.simulated("t4") as gpu:
        scaled[2, 64](x, np.float32(3))
        with pytest.raises(SmlabError, match=r"kernel\[...\]: has dynamic shared memory \(got 512"):
            scaled[2, 64, 0, 512](x, np.float32(3))
    assert (x == 3).all()
    assert [run.blocks for run in gpu.runs] == [2]

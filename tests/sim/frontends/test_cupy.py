"""CuPy's raw kernels: their source and options, compiled for the simulated card."""

import warnings

import numpy as np
import pytest

import smlab
from smlab import SmlabError
from smlab.hw_bench.cuda.toolkit import has_compiler

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it finds no CUDA, which it does not need for this
    cupy = pytest.importorskip("cupy")

if not has_compiler():
    pytest.skip("the CUDA compiler of the extra cuda12 is not installed", allow_module_level=True)

SOURCE = """
extern "C" __global__ void plus(float *x, int n, float by)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i] += by * SCALE;
}
extern "C" __global__ void minus(float *x, int n) { if (threadIdx.x < n) x[threadIdx.x] -= 1; }
"""


def test_a_raw_kernel() -> None:
    kernel = cupy.RawKernel(SOURCE, "plus", options=("-DSCALE=3",))
    x = np.ones(100, np.float32)
    done = smlab.run(kernel, 2, 64, x, 100, 1.5, gpu="a100-40")
    assert (x == 5.5).all()
    assert done.instructions[-3].line is not None


def test_a_kernel_of_a_raw_module() -> None:
    module = cupy.RawModule(code=SOURCE, options=("-DSCALE=2",))
    x = np.ones(100, np.float32)
    smlab.run(module, 2, 64, x, 100, np.float32(1.5), gpu="rtx-3090", name="plus")
    smlab.run(module, 2, 64, x, 64, gpu="rtx-3090", name="minus")
    assert x.tolist() == [3.0] * 64 + [4.0] * 36
    with pytest.raises(SmlabError, match=r"does not hold one kernel.*expected name = one of"):
        smlab.run(module, 2, 64, x, 64, gpu="rtx-3090")
    with pytest.raises(SmlabError, match=r"does not compile for sm_86: .*SCALE"):
        smlab.run(cupy.RawModule(code=SOURCE), 2, 64, x, 64, gpu="rtx-3090", name="minus")
    with pytest.raises(SmlabError, match="a module that was loaded from a file"):
        smlab.run(cupy.RawModule(path="k.cubin"), 2, 64, x, 64, gpu="rtx-3090", name="minus")

"""Kernels as a compiler makes them: the CUDA benchmarks on every architecture, CUDA C, Numba; where
compilers are there."""

from collections.abc import Callable

import numpy as np
import pytest

import smlab
from smlab.hw_bench.cuda import registry
from smlab.hw_bench.cuda.kernels.spec import ARCHITECTURES, LATER, KernelSpec
from smlab.hw_bench.cuda.toolkit import has_compiler

if not has_compiler():
    pytest.skip("the CUDA compiler of the extra cuda12 is not installed", allow_module_level=True)

from smlab.hw_bench.cuda.contract.compiler import compile_kernel
from smlab.hw_bench.cuda.measuring import driver, functional
from smlab.hw_bench.sass.image import KernelImage, read_image
from smlab.sim.execution import functional as untimed
from smlab.sim.execution.device import SimulatedDevice
from smlab.sim.isa.launch.launch import MachineLaunch

CUDA_C = """
__constant__ float weights[8];
__device__ int tickets;
__device__ __noinline__ float polynomial(float x, int n)
{
    float sum = 0;
    for (int k = n; k >= 0; k--)
        sum = sum * x + weights[k];
    return sum;
}
extern "C" __global__ void kernel(float *out, const float *in, int n, int *order, double *roots)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    out[i] = polynomial(in[i], i & 7);
    roots[i] = sqrt((double)in[i]) / 3.0;
    if (threadIdx.x == 0)
        order[atomicAdd(&tickets, 1)] = blockIdx.x;
}
"""


def image_of(architecture: str) -> Callable[[KernelSpec], KernelImage]:
    def image(spec: KernelSpec) -> KernelImage:
        compiled = compile_kernel(spec, architecture)
        return read_image(compiled.cubin, compiled.function)

    return image


def execute(launch: MachineLaunch) -> float:
    return untimed.run(launch, max_instructions=30_000_000).wall_s


def chosen() -> list[KernelSpec]:
    """One kernel of each benchmark, and those that exchange between lanes."""
    specs = []
    for benchmark in registry.BENCHMARKS:
        kernels = benchmark.kernels()
        specs += [kernels[0], *(k for k in kernels if k.warp_wide)]
    return specs


@pytest.mark.parametrize("architecture", [*ARCHITECTURES, *LATER])
def test_benchmarks_compute_what_they_should(architecture: str) -> None:
    for spec in chosen():
        if spec.supports(architecture):
            with driver.using(SimulatedDevice(image_of(architecture), execute)):
                assert functional._wrong(spec) == "", spec.name


@pytest.mark.thorough
@pytest.mark.parametrize("architecture", [*ARCHITECTURES, *LATER])
def test_all_benchmarks_compute_what_they_should(architecture: str) -> None:
    for spec in registry.all_kernels():
        if spec.supports(architecture):
            with driver.using(SimulatedDevice(image_of(architecture), execute)):
                assert functional._wrong(spec) == "", spec.name


@pytest.mark.parametrize("gpu", ["v100", "t4", "a100-40", "h100-pcie"])
def test_cuda_c_with_calls_constants_and_variables(tmp_path: object, gpu: str) -> None:
    from pathlib import Path

    path = Path(str(tmp_path)) / "k.cu"
    path.write_text(CUDA_C)
    n, weights = 200, np.arange(1, 9, dtype=np.float32)
    out, order, roots = np.zeros(n, np.float32), np.full(4, -1, np.int32), np.zeros(n)
    values = np.linspace(0, 1, n, dtype=np.float32)
    smlab.run(path, 4, 64, out, values, n, order, roots, gpu=gpu, constants={"weights": weights})
    expected = [np.polyval(weights[: (i & 7) + 1][::-1], x) for i, x in enumerate(values)]
    assert np.allclose(out, expected, rtol=1e-5)
    assert sorted(order) == [0, 1, 2, 3]
    assert np.array_equal(roots, np.sqrt(values.astype(np.float64)) / 3.0)  # both correctly rounded


def test_a_numba_kernel_is_taken_as_it_is() -> None:
    from numba import cuda

    @cuda.jit
    def scaled(out, values, factor):  # type: ignore[no-untyped-def]
        i = cuda.grid(1)
        if i < values.size:
            out[i] = values[i] * factor

    values, out = np.arange(100, dtype=np.float32), np.zeros(100, dtype=np.float32)
    done = smlab.run(scaled, 4, 32, out, values, np.float32(2.5), gpu="a100-40")
    assert np.array_equal(out, values * np.float32(2.5))
    assert done.result.gpu == "a100-40"


def test_source_that_does_not_compile_is_one_line(tmp_path: object) -> None:
    from pathlib import Path

    path = Path(str(tmp_path)) / "k.cu"
    path.write_text('extern "C" __global__ void k(int *a) { a[0] = b; }')
    with pytest.raises(smlab.SmlabError, match=r"k.cu: does not compile for sm_70: .*\"b\" is undefined"):
        smlab.run(path, 1, 1, np.zeros(1, np.int32))

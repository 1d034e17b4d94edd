"""Kernels of Triton with tensor descriptors, made on the device or by the script: results are NumPy's."""

from types import SimpleNamespace

import numpy as np
import pytest

import smlab
from smlab.hw_bench.errors import SmlabError
from smlab.sim.frontends.host_arrays import ArgumentMemory, NamedArray
from smlab.sim.frontends.triton_driver import descriptor_parameters
from smlab.sim.isa.memory.global_memory import GlobalMemory

pytest.importorskip("triton")

import triton
import triton.language as tl

from smlab.validation.campaigns.tensor_cores import triton_rows


@pytest.mark.parametrize("gpu", ["h100-pcie", "rtx-5090"])
def test_products(gpu: str) -> None:
    with smlab.simulated(gpu, threads=1) as simulated:
        assert triton_rows.run_product(128, 16, 192) < 0.05
        assert triton_rows.run_attention(2, 128, 64) < 2e-3
        assert triton_rows.run_attention(2, 64, 64, 32) < 2e-3
    assert len(simulated.runs) == 3


def test_a_sampled_run() -> None:
    """The blocks near the sample are executed with the descriptors that they make. By empty ones they would
    wait for their copies forever, and nobody would know what they fetch."""
    runs = []
    for sms in ("all", 4):
        with smlab.simulated(triton_rows.card(), threads=1, sms=sms) as simulated:
            triton_rows.run_attention(200, 128, 64)
        runs += simulated.runs
    whole, part = runs
    assert not any("depend on each other" in note for note in part.notes)
    assert part.dram_sectors_read == pytest.approx(whole.dram_sectors_read, rel=0.05)
    assert part.cycles == pytest.approx(whole.cycles, rel=0.15)  # 10 % by Triton 3.3, 12 % by 3.6
    assert part.cycles_low <= whole.cycles <= part.cycles_high


def test_engines_agree() -> None:
    cycles = []
    for engine in ("simpy", "compiled"):
        with smlab.simulated("rtx-5090", threads=1, engine=engine) as simulated:
            assert triton_rows.run_product(64, 16, 64) < 0.02
        cycles.append(simulated.runs[0].cycles)
    assert cycles[0] == cycles[1]


@triton.jit
def moved(x, y, BM: tl.constexpr, BN: tl.constexpr):  # type: ignore[no-untyped-def]
    at = [tl.program_id(0) * BM, tl.program_id(1) * BN]
    y.store(at, x.load(at) + 1)


@pytest.mark.parametrize("gpu", ["h100-pcie", "rtx-5090", "a100-40"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "int32"])
def test_descriptors_of_the_script(gpu: str, dtype: str) -> None:
    """Two of them, so that the second one's place in the parameters counts; boxes reach over the edges. An
    A100 has no copy engine and takes them apart."""
    descriptors = pytest.importorskip("triton.tools.tensor_descriptor")
    x = np.arange(50 * 72).reshape(50, 72).astype(dtype)
    y = np.zeros_like(x)
    of_x, of_y = (
        descriptors.TensorDescriptor(NamedArray(array), [50, 72], [72, 1], [32, 32]) for array in (x, y)
    )
    with smlab.simulated(gpu) as simulated:
        moved[(2, 3)](of_x, of_y, BM=32, BN=32)
    assert np.array_equal(y, x + np.ones((), x.dtype))
    assert len(simulated.runs) == 1


def test_a_descriptor_that_asks_for_nan_is_refused() -> None:
    memory = ArgumentMemory(GlobalMemory())
    asks = SimpleNamespace(
        padding="nan", base=np.zeros((32, 32), np.float32), shape=[32, 32], strides=[32, 1]
    )
    compiled = {"swizzle": 3, "elem_size": 4, "elem_type": 7, "block_size": [32, 32], "fp4_padded": False}
    with pytest.raises(SmlabError, match="moved: x: .*NaN for what lies outside"):
        list(descriptor_parameters("moved", "x", asks, compiled, memory))
    asks.padding = "zero"
    assert len(list(descriptor_parameters("moved", "x", asks, compiled, memory))) == 5

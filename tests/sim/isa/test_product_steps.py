"""A product of matrices in five steps, each a way to make it faster: results are NumPy's, times are in
order."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import smlab
from smlab import Record
from smlab.commands.kernel_page.of_run import busy_bars
from smlab.hw_bench.cuda.toolkit import has_compiler
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.validation.sampled_run import executed

if not has_compiler() or importlib.util.find_spec("nvidia.cuda_runtime") is None:
    pytest.skip("the CUDA compiler of the extra cuda12 is not installed", allow_module_level=True)

SOURCE = Path(__file__).parent / "cuda" / "product_steps.cu"
STEPS = {1: "registers only", 2: "shared memory", 3: "ldmatrix", 4: "two stages", 5: "swizzled"}


def cycles(gpu: str, step: int, n: int, k: int) -> float:
    random = np.random.default_rng(0)
    a, b = (random.standard_normal((n, k), dtype=np.float32).astype(np.float16) for _ in range(2))
    c = np.zeros((n, n), np.float32)
    grid, words = (n // 128, n // 128), (a.view(np.uint32), b.view(np.uint32))
    run = smlab.run(
        SOURCE, grid, 128, *words, c, n, k, gpu=gpu, defines={"STEP": step}, sms="all", keep=Record.TOTALS
    )
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.astype(np.float64).T, rtol=1e-4, atol=2e-3)
    spilled = [i for i in run.instructions if i.opcode in ("STL", "LDL")]
    assert not spilled
    return run.cycles


@pytest.mark.parametrize("gpu", ["a100-40", "rtx-4090"])
def test_each_step_is_right_and_the_last_ones_are_the_fastest(gpu: str) -> None:
    """A few blocks with an SM of their own each: waiting for memory decides, and bank conflicts."""
    taken = {step: cycles(gpu, step, 256, 256) for step in STEPS}
    assert taken[5] < taken[4] < min(taken[2], taken[3])
    # With the same banks in conflict ldmatrix makes as many passes as the loads that it replaces.
    assert taken[3] == pytest.approx(taken[2], rel=0.08)
    assert taken[5] < 0.85 * taken[2]


def test_a_kernels_page_tells_how_busy_the_tensor_cores_are() -> None:
    """An A100's do 256 multiply-adds of halves a cycle and scheduler."""
    n, c = 256, np.zeros((256, 256), np.float32)
    words = np.zeros((2, n, n // 2), np.uint32)
    run = smlab.run(SOURCE, (2, 2), 128, *words, c, n, n, gpu="a100-40", sms="all", keep=Record.ALL)
    busy = executed(run, load_gpu("a100-40")).busy
    assert busy["tensor"] == pytest.approx(n**3 / (256 * 4 * 4 * run.cycles), rel=1e-6)
    assert "Tensor cores" in [bar.label for bar in busy_bars(busy).rows]

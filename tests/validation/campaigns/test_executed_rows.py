"""The kernel whose execution tells how much longer rows of softmax take: it computes what it should, and rows
of unlike steps take longer."""

from __future__ import annotations

import numpy as np
import pytest

from smlab.hw_bench.cuda.toolkit import has_compiler
from smlab.hw_bench.gpu.descriptions import load_gpu

if not has_compiler():
    pytest.skip("the CUDA compiler of the extra cuda12 is not installed", allow_module_level=True)

from smlab.validation.campaigns.projection.rows import SMS, run_softmax
from smlab.validation.projection.gpu_parts import part_of

A100 = load_gpu("a100-40")
PART = part_of(A100, A100.integer("gpu.sms") // SMS)


@pytest.mark.parametrize("length", [1028, 1280, 3060, 4096])
def test_the_kernel_computes_softmax(length: int) -> None:
    values = np.random.default_rng(length).normal(0, 2, (3, length)).astype(np.float32)
    got, _ = run_softmax(values.copy(), PART)
    wanted = np.exp(values - values.max(axis=1, keepdims=True))
    assert got == pytest.approx(wanted / wanted.sum(axis=1, keepdims=True), rel=1e-5)


def test_rows_of_unlike_steps_take_longer_than_their_bytes() -> None:
    """8 waves of 3,072 values (a step of four a thread, two of one) and of 4,096 (two of four)."""

    def a_byte(length: int) -> float:
        return run_softmax(np.ones((8 * SMS * 4, length), dtype=np.float32), PART)[1] / length

    assert a_byte(3072) > 1.15 * a_byte(4096)

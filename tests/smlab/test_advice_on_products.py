"""Advice on kernels for tensor cores, each made slow in one way."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import smlab
from smlab import Record
from smlab.hw_bench.cuda.toolkit import has_compiler

if not has_compiler() or importlib.util.find_spec("nvidia.cuda_runtime") is None:
    pytest.skip("the CUDA compiler of the extra cuda12 is not installed", allow_module_level=True)

SOURCE = Path(__file__).parents[1] / "sim" / "isa" / "cuda" / "product_steps.cu"


def advice(**defines: int) -> tuple[float, dict[str, str], dict[str, float]]:
    """Cycles; why each optimizer matches, and what it promises."""
    n = 512
    a, c = np.zeros((n, n // 2), np.uint32), np.zeros((n, n), np.float32)
    run = smlab.run(
        SOURCE, (4, 4), 128, a, a.copy(), c, n, n, gpu="a100-40", defines=defines, sms="all", keep=Record.ALL
    )
    (kernel,) = smlab.advise(run, top=30).kernels
    assert kernel.blamed is not None
    assert kernel.blamed.unattributed_samples < 0.02 * kernel.samples.samples
    whys = {name: a.match.why for a in kernel.advice for name in a.names}
    return run.cycles, whys, {name: a.speedup for a in kernel.advice for name in a.names}


def test_copies_that_nothing_overlaps_and_too_few_stages() -> None:
    exposed, whys, promised = advice(STEP=5, STAGES=1)
    assert "as soon as they are asked for" in whys["copy-overlap"]
    assert "more-stages" not in whys
    overlapped, whys, _ = advice(STEP=5, STAGES=2)
    assert "copy-overlap" not in whys
    assert "longer than the work on 1 stage before" in whys["more-stages"]
    assert exposed / overlapped > 1.1
    assert promised["copy-overlap"] >= exposed / overlapped  # a bound: no replay knows this change


def test_conflicts_are_what_goes_beyond_the_passes_of_a_load_of_matrices() -> None:
    conflicted, whys, promised = advice(STEP=4)
    assert "16.0 passes over the banks for 4.0" in whys["bank-conflicts"]
    assert "swizzle" in whys["bank-conflicts"]
    swizzled, whys, _ = advice(STEP=5)
    assert "bank-conflicts" not in whys
    assert promised["bank-conflicts"] == pytest.approx(conflicted / swizzled, rel=0.15)


def test_sums_that_spill() -> None:
    _, whys, _ = advice(STEP=5, BLOCKS=4)
    assert "sums of products of matrices are spilled" in whys["register-reuse"]
    _, whys, _ = advice(STEP=5)
    assert "register-reuse" not in whys

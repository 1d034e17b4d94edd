"""Calls to other functions: by name between sections that a linker left apart, by address, into CUDA's
runtime; and Numba's kernels, which nvJitLink links, with the kinds of arguments that Numba takes."""

import importlib.util
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import smlab
from smlab.hw_bench.cuda.toolkit import has_compiler
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.sass import parse_listing
from smlab.hw_bench.sass.linking import linked

SOURCE = Path(__file__).parent / "cuda" / "calls.cu"
compiled = pytest.mark.skipif(
    not has_compiler() or importlib.util.find_spec("nvidia.cuda_runtime") is None,
    reason="the CUDA compiler of the extra cuda12 is not installed",
)
WHICH = np.random.default_rng(1).integers(0, 3, 64).astype(np.int32)
X = np.random.default_rng(2).random(64, dtype=np.float32) + np.float32(0.5)

LISTING = """
	.target	sm_80
	.section	.text.halve,"ax",@progbits
        .type           halve,@function
.L_x_1:
        /*0000*/                   IMAD.SHL.U32 R4, R4, 0x2, RZ ;
        /*0010*/                   RET.ABS.NODEC R20 0x0 ;
	.section	.text.main,"ax",@progbits
        .other          main,@"STO_CUDA_ENTRY STV_DEFAULT"
        /*0000*/                   MOV R20, 32@lo((main + .L_x_1@srel)) ;
        /*0010*/                   MOV R21, 32@hi((main + .L_x_1@srel)) ;
        /*0020*/                   CALL.ABS.NOINC `(halve) ;
.L_x_1:
        /*0030*/                   EXIT ;
	.section	.text.unused,"ax",@progbits
        /*0000*/                   EXIT ;
"""


def test_a_kernel_and_what_it_calls_become_one_piece_of_code() -> None:
    functions = parse_listing(LISTING)
    assert [f.entry for f in functions] == [False, True, False]
    whole = linked(functions, functions[1])
    assert whole.parts == {"main": 0, "halve": 64}
    assert [i.address for i in whole.instructions] == [0, 16, 32, 48, 64, 80]
    # Both sections have a label of that name; each keeps its own.
    assert [str(i) for i in whole.instructions[:2]] == ["MOV R20, 0x30", "MOV R21, 0x0"]
    assert whole.labels["halve"] == 64


def results(
    gpu: str, name: str, out: NDArray[Any], *arguments: Any, engine: str = "compiled"
) -> NDArray[Any]:
    smlab.run(SOURCE, 2, 32, *arguments, gpu=gpu, name=name, engine=engine)
    return out


@compiled
@pytest.mark.parametrize("gpu", ["v100", "rtx-3090", "h100-pcie"])
def test_calls_by_address_and_into_itself(gpu: str) -> None:
    for engine in ("compiled", "simpy"):
        out = np.zeros(64, np.float32)
        by_table = np.choose(WHICH, (X + 1.5, X * 1.5, X**1.5)) + 3
        assert results(gpu, "by_table", out, WHICH, X, out, engine=engine) == pytest.approx(
            by_table, rel=1e-5
        )
        by_class = np.where(WHICH != 0, X * X, 3 * X * X)
        assert results(gpu, "by_class", out, WHICH, X, out, engine=engine) == pytest.approx(
            by_class, rel=1e-6
        )
        whole = np.zeros(64, np.int32)
        assert np.array_equal(
            results(gpu, "into_itself", whole, WHICH, whole, engine=engine), np.choose(WHICH, (0, 2, 8))
        )


@compiled
def test_the_runtime_on_the_device() -> None:
    out = np.zeros(64, np.int32)
    results("t4", "telling", out, WHICH, out, np.int32(3))
    assert np.array_equal(out, WHICH + 1)
    with pytest.raises(SmlabError, match=r"a trap in __assertfail.* thread \(\d+, 0, 0\)"):
        results("t4", "telling", out, WHICH, out, np.int32(2))


def _kernels() -> dict[str, Any]:
    from numba import cuda

    @cuda.jit(device=True)
    def length(a, b):  # type: ignore[no-untyped-def]
        return math.sqrt(a * a + b * b)

    @cuda.jit(fastmath=True, max_registers=32)
    def functions(x, out):  # type: ignore[no-untyped-def]
        i = cuda.grid(1)
        if i < x.size:
            out[i, 0] = length(x[i], 2.0)
            out[i, 1] = math.gamma(x[i]) / (i + 1)
            out[i, 2] = (7 * i - 100) // (i + 1)

    @cuda.jit
    def arguments(z, pair, flag, square, record, out):  # type: ignore[no-untyped-def]
        i = cuda.grid(1)
        if i < out.shape[0] and flag:
            out[i] = z * square[i, 1] + pair[0] - pair[1] * record.weight

    return {"functions": functions, "arguments": arguments}


@compiled
@pytest.mark.parametrize("gpu", ["v100", "l4"])
def test_kernels_of_numba_call_functions(gpu: str) -> None:
    x = np.linspace(0.5, 4, 40)
    out = np.zeros((40, 3))
    smlab.run(_kernels()["functions"], 2, 32, x, out, gpu=gpu)
    n = np.arange(40)
    gamma = np.array([math.gamma(v) for v in x]) / (n + 1)
    assert out == pytest.approx(np.stack([np.hypot(x, 2), gamma, (7 * n - 100) // (n + 1)], 1), rel=1e-9)


@compiled
def test_kernels_of_numba_take_what_numba_takes() -> None:
    square = np.asfortranarray(np.random.default_rng(5).random((12, 3)))
    record = np.zeros(1, np.dtype([("count", np.int32), ("weight", np.float64)], align=True))
    record["weight"] = 2.5
    out = np.zeros(12, np.complex128)
    kernel = _kernels()["arguments"]
    smlab.run(kernel, 1, 32, 1 - 2j, (3, 4.5), True, square, record[0], out, gpu="a100-40")
    assert out == pytest.approx((1 - 2j) * square[:, 1] + 3 - 4.5 * 2.5)
    with pytest.raises(SmlabError, match=r"argument 2, part 1: no argument of a kernel \(got"):
        smlab.run(kernel, 1, 32, 1j, ("three", 4), True, square, record[0], out, gpu="a100-40")

"""Ten kernels in Triton, compiled for each architecture and executed: results are NumPy's."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import smlab
from smlab import Gpu
from smlab.commands.run import api
from smlab.commands.run.rates import rates, tensor_lines
from smlab.sim.execution import functional_warming
from smlab.sim.execution.address_slice import EXECUTED, LEFT_OUT, slice_for_addresses
from smlab.sim.execution.run import run_machine_code
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.validation.grid_counters import grid_counters

pytest.importorskip("triton")

import triton_kernels as kernels

ARCHITECTURES = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
Array = NDArray[Any]
Launch = Callable[..., None]


def drawn(*shape: int, kind: str = "float32", seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(kind)


def addition(launch: Launch) -> None:
    n = 1000
    x, y, out = drawn(n), drawn(n, seed=1), np.zeros(n, np.float32)
    launch(kernels.add, 4, x, y, out, n, BLOCK=256)
    assert np.array_equal(out, x + y)


def softmax(launch: Launch) -> None:
    x = drawn(6, 200)
    out = np.zeros_like(x)
    launch(kernels.softmax, 6, x, out, 200, 200, BLOCK=256)
    powers = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(out, powers / powers.sum(axis=1, keepdims=True), rtol=1e-5)


def layer_norm(launch: Launch) -> None:
    x, weight, bias = drawn(5, 300, kind="float16"), drawn(300, seed=1), drawn(300, seed=2)
    out = np.zeros_like(x)
    launch(kernels.layer_norm, 5, x, weight, bias, out, 300, 1e-5, BLOCK=128)
    wide = x.astype(np.float64)
    deviation = np.sqrt(wide.var(axis=1, keepdims=True) + 1e-5)
    wanted = (wide - wide.mean(axis=1, keepdims=True)) / deviation * weight + bias
    np.testing.assert_allclose(out, wanted, rtol=2e-3, atol=2e-3)


def product(launch: Launch, kind: str = "float16", tolerance: float = 2e-3) -> None:
    m, n, k = 96, 128, 80
    a, b, c = drawn(m, k, kind=kind), drawn(k, n, kind=kind, seed=1), np.zeros((m, n), np.float32)
    launch(kernels.matmul, 4, a, b, c, m, n, k, BM=64, BN=64, BK=32, GROUP=2)
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(c, wanted, rtol=tolerance, atol=tolerance * 8)


def product_of_singles(launch: Launch) -> None:
    """Singles are rounded to TF32, of 10 bits."""
    product(launch, "float32", 5e-3)


def attention(launch: Launch) -> None:
    heads, length, d = 2, 128, 64
    q, k, v = (drawn(heads, length, d, kind="float16", seed=seed) for seed in range(3))
    out = np.zeros_like(q)
    scale = d**-0.5
    launch(kernels.attention, (2, heads), q, k, v, out, scale * np.log2(np.e), length, D=d, BM=64, BN=64)
    scores = q.astype(np.float64) @ k.astype(np.float64).transpose(0, 2, 1) * scale
    powers = np.exp(scores - scores.max(axis=2, keepdims=True))
    wanted = powers / powers.sum(axis=2, keepdims=True) @ v.astype(np.float64)
    np.testing.assert_allclose(out, wanted, rtol=5e-3, atol=5e-3)


def philox(seed: int, counters: Array) -> Array:
    """Philox-4x32 of ten rounds, its first word as Triton makes a number of it."""
    words = [counters.astype(np.uint64), *(np.zeros_like(counters, np.uint64) for _ in range(3))]
    keys, low = [seed & 0xFFFFFFFF, seed >> 32], np.uint64(0xFFFFFFFF)
    for _ in range(10):
        left, right = words[0] * np.uint64(0xD2511F53), words[2] * np.uint64(0xCD9E8D57)
        first = (right >> np.uint64(32)) ^ words[1] ^ np.uint64(keys[0])
        third = (left >> np.uint64(32)) ^ words[3] ^ np.uint64(keys[1])
        words = [first, right & low, third, left & low]
        keys = [(keys[0] + 0x9E3779B9) & 0xFFFFFFFF, (keys[1] + 0xBB67AE85) & 0xFFFFFFFF]
    signed = words[0].astype(np.uint32).view(np.int32)
    positive: Array = np.where(signed < 0, -signed - 1, signed).astype(np.float32)
    return positive * np.float32(4.6566127342e-10)


def dropout(launch: Launch) -> None:
    n, p = 1000, 0.3
    x, out, numbers = drawn(n), np.zeros(n, np.float32), np.zeros(n, np.float32)
    launch(kernels.dropout, 4, x, out, numbers, n, p, 1234, BLOCK=256)
    assert np.array_equal(numbers, philox(1234, np.arange(n)))
    np.testing.assert_allclose(out, np.where(numbers > np.float32(p), x / (1 - p), 0), rtol=1e-6)


def reduction(launch: Launch) -> None:
    x, out = drawn(1000), np.zeros(1, np.float32)
    launch(kernels.reduction, 4, x, out, 1000, BLOCK=256)
    np.testing.assert_allclose(out[0], x.sum(dtype=np.float64), rtol=1e-5, atol=1e-4)


def transposition(launch: Launch) -> None:
    x, out = drawn(70, 50), np.zeros((50, 70), np.float32)
    launch(kernels.transpose, (3, 2), x, out, 70, 50, BM=32, BN=32)
    assert np.array_equal(out, x.T)


def histogram(launch: Launch) -> None:
    x = np.random.default_rng(0).integers(0, 40, 1000).astype(np.int32)
    out = np.zeros(40, np.int32)
    launch(kernels.histogram, 4, x, out, 1000, BLOCK=256)
    assert np.array_equal(out, np.bincount(x, minlength=40))


def quantised(launch: Launch) -> None:
    m, n, k = 64, 128, 128
    random = np.random.default_rng(0)
    a, b = (random.integers(-128, 128, shape).astype(np.int8) for shape in ((m, k), (n, k)))
    c = np.zeros((m, n), np.float32)
    launch(kernels.quantised, (1, 2), a, b, c, n, k, 0.5, BM=64, BN=64, BK=64)
    assert np.array_equal(c, 0.5 * (a.astype(np.int64) @ b.astype(np.int64).T))


CASES = (
    addition,
    softmax,
    layer_norm,
    product,
    product_of_singles,
    attention,
    dropout,
    reduction,
    transposition,
    histogram,
    quantised,
)


def parameters() -> list[Any]:
    """All on one architecture of each shape of instructions; the rest with ``--thorough``."""
    short = ("sm_80", "sm_90", "sm_100", "sm_120")
    return [
        pytest.param(case, a, marks=() if a in short else pytest.mark.thorough, id=f"{case.__name__}-{a}")
        for case in CASES
        for a in ARCHITECTURES
    ]


@pytest.mark.parametrize(("case", "architecture"), parameters())
def test_results_are_those_of_numpy(
    case: Callable[[Launch], None], architecture: str, gpu_of: Callable[[str], Gpu]
) -> None:
    runs = []

    def launch(kernel: Any, grid: Any, *arguments: Any, **options: Any) -> None:
        runs.append(smlab.run(kernel, grid, *arguments, gpu=gpu_of(architecture), **options))

    case(launch)
    assert [run.whole for run in runs] == [True]
    assert runs[0].cycles > 0
    assert runs[0].instructions[0].line is not None


@pytest.mark.parametrize("sms", ["all", 1])
def test_the_operations_of_tensor_cores_are_counted(gpu_of: Callable[[str], Gpu], sms: str | int) -> None:
    """Of a sample, those of the whole grid."""
    n = 256
    a, b, c = drawn(n, n, kind="float16"), drawn(n, n, kind="float16", seed=1), np.zeros((n, n), np.float32)
    options = {"BM": 64, "BN": 64, "BK": 32, "GROUP": 4}
    run = smlab.run(kernels.matmul, 16, a, b, c, n, n, n, gpu=gpu_of("sm_86"), sms=sms, **options)
    counted = {row.counter: row.value for row in grid_counters(run).rows()}
    assert counted["sm__ops_path_tensor_src_fp16_dst_fp32.sum"] == pytest.approx(2 * n**3, rel=1e-6)
    assert counted["sm__inst_executed_pipe_tensor.sum"] == pytest.approx(n**3 / 2048, rel=1e-6)
    found = rates(run, 1.0)
    assert found["flops_per_s"] >= 2 * n**3
    assert found["tensor_fp16_fp32_ops_per_s"] == pytest.approx(2 * n**3, rel=1e-6)
    peak = 2 * 64 * 4 * gpu_of("sm_86").integer("gpu.sms") * gpu_of("sm_86").number("clock.sm_hz")
    (line,) = tensor_lines(run, run.seconds)
    share = 100 * 2 * n**3 / run.seconds / peak
    assert line.startswith("tensor cores, fp16 with sums in fp32: ")
    assert line.endswith(f"{share:.1f} % of the peak")


@pytest.mark.parametrize("case", [product, attention, layer_norm, histogram, dropout, quantised])
def test_warming_by_addresses_alone_asks_for_the_same(
    case: Callable[[Launch], None], gpu_of: Callable[[str], Gpu], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What blocks touch, as by whole execution; of products no tensor core is needed for it."""
    told = []

    def launch(kernel: Any, grid: Any, *arguments: Any, **options: Any) -> None:
        made: list[MachineLaunch] = []

        def keep(launch: MachineLaunch, *_: Any) -> Any:
            made.append(launch)
            return run_machine_code(launch, gpu_of("sm_80"))

        monkeypatch.setattr(api, "timed", keep)
        smlab.run(kernel, grid, *arguments, gpu=gpu_of("sm_80"), **options)
        actions = slice_for_addresses(made[0].code)
        for plan in (actions, np.full(len(actions), EXECUTED, np.int8)):
            monkeypatch.setattr(functional_warming, "slice_for_addresses", lambda code, plan=plan: plan)
            neighbours = functional_warming.Neighbours(made[0], 32)
            touched = [neighbours._touched(block) for block in range(made[0].blocks)]
            told.append([(sorted(t.sectors.tolist()), t.ended) for t in touched])
            neighbours._go_back()
        products = [a for a, m in zip(actions, made[0].code, strict=True) if "MMA" in m.instruction.opcode]
        assert all(action == LEFT_OUT for action in products)
        assert bool(products) == (case in (product, attention, quantised))

    case(launch)
    assert told[0] == told[1]
    assert all(sectors and ended for sectors, ended in told[0])

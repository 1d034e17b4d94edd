"""Scripts with the calls of Triton's tutorials run with one line added."""

import importlib
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import smlab

pytest.importorskip("triton")

import triton

Array = NDArray[Any]


@pytest.fixture(scope="module")
def kernels() -> Any:
    """An autotuner asks for the GPU when it is made."""
    with smlab.simulated("a100-40"):
        return importlib.import_module("tutorial_kernels")


def drawn(*shape: int, kind: str = "float16", seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(kind)


@pytest.mark.parametrize("activation", ["", "leaky_relu"])
def test_a_grouped_product(activation: str, kernels: Any) -> None:
    m, n, k = 200, 136, 96
    a, b, c = drawn(m, k), drawn(k, n, seed=1), np.zeros((m, n), np.float16)
    with smlab.simulated("a100-40", sms="all", tune=True) as gpu:

        def grid(meta: dict[str, int]) -> tuple[int]:
            return (triton.cdiv(m, meta["BM"]) * triton.cdiv(n, meta["BN"]),)

        strides = (k, 1, n, 1, n, 1)
        kernels.grouped_product[grid](a, b, c, m, n, k, *strides, ACTIVATION=activation)
        best = kernels.grouped_product.best_config
        slowest = max(run.seconds for run in gpu.runs)
        benchmark = triton.testing.do_bench(
            lambda: kernels.grouped_product[grid](a, b, c, m, n, k, *strides, ACTIVATION=activation),
            quantiles=[0.5, 0.2, 0.8],
        )
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    wanted = np.where((wanted >= 0) | (activation == ""), wanted, 0.01 * wanted)
    np.testing.assert_allclose(c, wanted, rtol=2e-3, atol=2e-2)
    assert best in kernels.grouped_product.configs
    assert gpu.runs[-1].seconds < slowest
    assert benchmark[0] == pytest.approx(gpu.runs[-1].seconds * 1e3)


def test_layer_norm_and_its_gradients_with_locks(kernels: Any) -> None:
    rows, n, groups, eps = 12, 100, 4, 1e-5
    x, dy = drawn(rows, n), drawn(rows, n, seed=1)
    w, b = drawn(n, kind="float32", seed=2), drawn(n, kind="float32", seed=3)
    y, dx = np.zeros_like(x), np.zeros_like(x)
    mean, rstd = np.zeros(rows, np.float32), np.zeros(rows, np.float32)
    dw, db = np.zeros((groups, n), np.float32), np.zeros((groups, n), np.float32)
    locks = np.zeros(2 * groups, np.int32)
    with smlab.simulated("a100-40", sms="all") as gpu:
        kernels.layer_norm[(rows,)](x, y, w, b, mean, rstd, n, n, eps, BLOCK=64, num_warps=2)
        kernels.layer_norm_gradients[(rows,)](
            dx, dy, dw, db, x, w, mean, rstd, locks, n, n, GROUPS=groups, BLOCK=128, num_warps=2
        )
    assert [run.blocks for run in gpu.runs] == [rows, rows]
    wide, slope = x.astype(np.float64), dy.astype(np.float64)
    scale = 1 / np.sqrt(wide.var(axis=1, keepdims=True) + eps)
    normal = (wide - wide.mean(axis=1, keepdims=True)) * scale
    np.testing.assert_allclose(y, normal * w + b, rtol=2e-3, atol=3e-3)
    weighted = w * slope
    inner = weighted - normal * (normal * weighted).mean(axis=1, keepdims=True)
    np.testing.assert_allclose(
        dx, (inner - weighted.mean(axis=1, keepdims=True)) * scale, rtol=5e-3, atol=5e-3
    )
    np.testing.assert_allclose(dw.sum(axis=0), (slope * normal).sum(axis=0), rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(db.sum(axis=0), slope.sum(axis=0), rtol=1e-4, atol=1e-3)
    assert locks.tolist() == [0] * groups + [1] * groups


@pytest.mark.parametrize("causal", [False, True])
def test_fused_attention(causal: bool, kernels: Any) -> None:
    batch, heads, n, d = 1, 2, 128, 64
    q, k, v = (drawn(batch, heads, n, d, seed=seed) for seed in range(3))
    out, logs = np.zeros_like(q), np.zeros((batch * heads, n), np.float32)
    scale = 0.5 * d**-0.5
    with smlab.simulated("a100-40", sms="all") as gpu:
        kernels.fused_attention[lambda meta: (triton.cdiv(n, meta["BM"]), batch * heads)](
            q, k, v, scale, logs, out, heads, n, HEAD=d, STAGE=3 if causal else 1
        )
    scores = q.astype(np.float64) @ k.astype(np.float64).swapaxes(-1, -2) * scale
    if causal:
        scores = np.where(np.tri(n, dtype=bool), scores, -np.inf)
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    wanted = powers / powers.sum(axis=-1, keepdims=True) @ v.astype(np.float64)
    np.testing.assert_allclose(out, wanted, rtol=5e-3, atol=5e-3)
    whole = np.log2(np.exp(scores).sum(axis=-1)).reshape(batch * heads, n)
    np.testing.assert_allclose(logs, whole, rtol=1e-3, atol=1e-3)
    chosen = kernels.fused_attention.best_config.kwargs
    assert chosen["BM"] % chosen["BN"] == 0
    assert len(gpu.runs) >= 1

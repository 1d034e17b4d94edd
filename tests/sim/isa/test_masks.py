"""Parts of warps that wait for each other by mask, sums of doubles and of pairs of halves in memory, and
whole numbers two to a word: compiled on architectures that do each in another way, held against NumPy."""

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import smlab
from smlab.hw_bench.cuda.toolkit import has_compiler
from smlab.hw_bench.profiles.counter_table import WHOLE_GPU
from smlab.sim import counter_table

if not has_compiler() or importlib.util.find_spec("nvidia.cuda_runtime") is None:
    pytest.skip("the CUDA compiler of the extra cuda12 is not installed", allow_module_level=True)

SOURCE = Path(__file__).parent / "cuda" / "masks.cu"
GPUS = {"sm_75": "t4", "sm_86": "rtx-3090", "sm_90": "h100-pcie"}
MASKS = np.array([0xF0, 0xFF00, 0x0FF00000, 0x0FF00000], np.uint32)
Array = NDArray[Any]


def launched(gpu: str, engine: str, name: str, block: int, *arguments: Any) -> None:
    smlab.run(SOURCE, 1, block, *arguments, name=name, gpu=gpu, engine=engine)


def partial(gpu: str, engine: str) -> None:
    given = np.random.default_rng(3).integers(-50, 50, 64).astype(np.int32)
    out = np.zeros_like(given)
    launched(gpu, engine, "partial", 64, given, MASKS, out)
    expected = given.copy()
    for first in (0, 32):
        for mask in {int(m) for m in MASKS}:
            lanes = [first + lane for lane in range(32) if mask >> lane & 1]
            v = {lane: int(given[lane]) for lane in lanes}
            for lane in lanes:
                for k in range(lane & 3):
                    v[lane] = v[lane] * 5 + k
            v = {lane: v[lane ^ 1] + v[lane ^ 2] for lane in lanes}
            odd = [lane for lane in lanes if v[lane] & 1]
            v = {lane: v[lane] + (v[odd[0]] if lane in odd else 0) for lane in lanes}
            high = 32 * any(value > 5000 for value in v.values())
            for lane in lanes:
                expected[lane] = v[lane] * 64 + len(odd) + high
    assert np.array_equal(out, expected)


def octets(gpu: str, engine: str) -> None:
    given = np.random.default_rng(4).integers(-9, 90, 64).astype(np.int32)
    given[8:16] = range(1, 9)
    out = np.zeros_like(given)
    launched(gpu, engine, "octets", 64, given, out)
    parts = given.reshape(2, 4, 8)
    found = parts.sum(2) * 64 + (parts & 1).sum(2) + 1000 * (parts > 0).all(2)
    expected = np.where(np.arange(4)[:, None] < 3, found[:, :, None], parts)
    assert np.array_equal(out, expected.ravel())


def pairs(gpu: str, engine: str) -> None:
    random = np.random.default_rng(5)
    singles = random.normal(0, 30, (64, 2)).astype(np.float16)
    added = (random.normal(0, 1, (64, 2)) * 10.0 ** random.integers(-7, 4, (64, 2))).astype(np.float16)
    singles[:4], added[:4] = [[np.inf, 65504], [-0.0, 6e-8], [np.nan, 1e-5], [0.0, 2.0]], 65504
    added[1], added[3] = [-0.0, 6e-8], [-0.0, 0.0009]
    whole = random.integers(-8, 9, (64, 2)).astype(np.float16)
    total, old, before = np.zeros((8, 2), np.float16), np.zeros_like(singles), singles.copy()
    launched(gpu, engine, "pairs", 64, total, singles, added, whole, old)
    with np.errstate(all="ignore"):
        expected = before + added
    same = singles.view(np.uint16) == expected.view(np.uint16)
    assert np.all(same | np.isnan(singles) & np.isnan(expected))
    assert np.array_equal(old, before, equal_nan=True)
    sums = whole.reshape(16, 4, 2).sum(0)
    assert np.array_equal(total, np.concatenate([sums, sums]))


def shorts(gpu: str, engine: str) -> None:
    given = np.random.default_rng(6).integers(-(1 << 15), 1 << 15, (3, 64, 2)).astype(np.int16)
    given[:, :2] = [[-32768, 32767], [-1, 1]]
    out = np.zeros((64, 6, 2), np.int16)
    launched(gpu, engine, "shorts", 64, *(x.view(np.int32).ravel() for x in given), out.view(np.int32))
    a, b, c = given
    u, v, w = given.view(np.uint16)
    least = np.minimum((u + v).astype(np.uint16), w).view(np.int16)
    columns = [np.maximum(a, b), np.minimum(u, v).view(np.int16), np.minimum(a, b)]
    columns += [np.maximum(np.maximum(a, b), 0), np.maximum((u + v).view(np.int16), c), least]
    assert np.array_equal(out, np.stack(columns, axis=1))


def sums(gpu: str, engine: str) -> None:
    given = np.random.default_rng(8).integers(-1000, 1000, (3, 64)).astype(np.int32)
    out = np.zeros((64, 2), np.int32)
    launched(gpu, engine, "sums", 64, *given, out)
    a, b, c = given
    found = [np.maximum(a + b, c), np.minimum(a + b, c)]
    assert all((x < 0).any() and (x > 0).any() for x in found)
    assert np.array_equal(out, np.stack([np.maximum(x, 0) for x in found], axis=1))


def doubles(gpu: str, engine: str) -> None:
    given = np.random.default_rng(7).integers(1, 1000, 64) / 8
    out, least = np.zeros(67), np.zeros(1, np.uint64)
    launched(gpu, engine, "doubles", 64, out, given, least)
    sums = [given[n::3].sum() - 0.5 for n in range(3)]
    x, y = given.astype(np.float32), np.arange(64, dtype=np.float32)
    assert np.array_equal(out, [*sums, *(x * y * np.float32(0.5) + x * x * np.float32(8))])
    assert least[0] == given.view(np.uint64).min()


@pytest.mark.parametrize("engine", ["compiled", "simpy"])
@pytest.mark.parametrize("gpu", GPUS.values(), ids=GPUS)
@pytest.mark.parametrize("kernel", [partial, octets, pairs, shorts, sums, doubles])
def test_results(kernel: Any, gpu: str, engine: str) -> None:
    kernel(gpu, engine)


def test_a_warp_without_a_lane_takes_nothing_off_the_conflicts(tmp_path: Path) -> None:
    """It executes a store to shared memory, which makes no pass."""
    (tmp_path / "k.cu").write_text(
        """extern "C" __global__ void k(const float *x, float *out, int n)
{
    __shared__ float s[64];
    const float mine = x[threadIdx.x];
    if (threadIdx.x < n)
        s[threadIdx.x] = mine;
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x % n];
}
"""
    )
    given = np.ones(64, np.float32)
    done = smlab.run(tmp_path / "k.cu", 1, 64, given, np.zeros_like(given), np.int32(32), gpu="v100")
    found = {row.counter: row.value for row in counter_table(done.result).rows() if row.sm == WHOLE_GPU}
    stores = "mem_shared_op_st.sum"
    assert found[f"l1tex__data_pipe_lsu_wavefronts_{stores}"] == 1
    assert found[f"l1tex__data_bank_conflicts_pipe_lsu_{stores}"] == 0

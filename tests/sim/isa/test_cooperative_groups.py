"""Cooperative groups, compiled and executed, held against NumPy."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import smlab
from smlab.hw_bench.cuda.toolkit import has_compiler
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.sass.nvrtc import compile_cuda

if not has_compiler() or importlib.util.find_spec("nvidia.cuda_runtime") is None:
    pytest.skip("the CUDA compiler of the extra cuda12 is not installed", allow_module_level=True)

SOURCE = Path(__file__).parent / "cuda" / "cooperative.cu"
GPUS = ("v100", "t4", "rtx-3090", "h100-pcie")
THREADS = 128
Array = NDArray[Any]
RANDOM = np.random.default_rng(17)


def whole(*shape: int) -> Array:
    found: Array = RANDOM.integers(0, 100, shape).astype(np.int32)
    return found


def bits(which: Array) -> Array:
    """One word of lanes along the last axis, whatever the axes before it."""
    found: Array = (which.astype(np.int64) << np.arange(which.shape[-1])).sum(-1)
    return found


def tiles(gpu: str, size: int) -> None:
    x = whole(2 * THREADS)
    out = np.zeros((13, 2 * THREADS), np.int32)
    smlab.run(SOURCE, 2, THREADS, x, out, x.size, name=f"tiles_{size}", gpu=gpu)
    v, lane, count = x.reshape(-1, size), np.arange(size), THREADS // size
    same = v[:, :, None] & 3 == v[:, None, :] & 3
    from_left = np.bitwise_xor.accumulate(v, 1)
    want = [
        v[:, 3:4],
        v[:, np.where(lane < 2, lane, lane - 2)],
        v[:, np.minimum(lane + 1, size - 1)],
        v[:, lane ^ 5],
        ((v > 90).any(1) + 2 * (v > 5).all(1))[:, None],
        bits(v & 1)[:, None],
        v.sum(1, keepdims=True),
        v.max(1, keepdims=True),
        (np.arange(len(v)) % count * 100 + count)[:, None],
        bits(same),
        v.cumsum(1),
        from_left ^ v,
        v[:, ::-1],
    ]
    for n, (got, expected) in enumerate(zip(out, want, strict=True)):
        expected = np.broadcast_to(expected, v.shape).astype(np.uint32).view(np.int32)
        assert np.array_equal(got.reshape(v.shape), expected), n


def tiles_of_32(gpu: str) -> None:
    tiles(gpu, 32)


def tiles_of_8(gpu: str) -> None:
    tiles(gpu, 8)


def compacted(gpu: str) -> None:
    x = whole(2 * THREADS)
    chosen = [warp[warp % 3 == 0] for warp in x.reshape(-1, 32)]
    size = sum(map(len, chosen))
    out, sums, least = np.zeros(size, np.int32), np.zeros(size, np.int32), np.zeros(size, np.float32)
    count = np.zeros(1, np.int32)
    smlab.run(SOURCE, 2, THREADS, x, out, count, sums, least, name="compacted", gpu=gpu)
    assert count[0] == size
    got, at = [], 0
    left = list(chosen)
    while at < size:  # the warps' atomics may come in any order; within a warp the order is kept
        n = next(i for i, w in enumerate(left) if np.array_equal(out[at : at + len(w)], w))
        warp = left.pop(n)
        got += [(warp.sum(), warp.min())] * len(warp)
        at += len(warp)
    assert np.array_equal(np.stack([sums, least], 1), got)


def parted(gpu: str) -> None:
    x = whole(2 * THREADS)
    out = np.zeros((5, x.size), np.int32)
    smlab.run(SOURCE, 2, THREADS, x, out, x.size, name="parted", gpu=gpu)
    v = x.reshape(-1, 32)
    same = v[:, :, None] % 5 == v[:, None, :] % 5
    high = (v[:, :, None] > 50) == (v[:, None, :] > 50)
    want = [
        np.where(same, v[:, None, :], 0).sum(2),
        high.sum(2) * 100 + np.tril(high, -1).sum(2),
        np.repeat(x[::4], 4),
        np.arange(x.size) % 16,
        np.arange(x.size) * 1000 + x.size,
    ]
    for n, (got, expected) in enumerate(zip(out, want, strict=True)):
        assert np.array_equal(got, expected.ravel()), n


def block_sums(gpu: str) -> None:
    x, out = whole(3, THREADS).astype(np.float32), np.zeros(3, np.float32)
    smlab.run(SOURCE, 3, THREADS, x, out, name="block_sums", gpu=gpu)
    assert np.array_equal(out, x.sum(1))


def wide_tiles(gpu: str) -> None:
    """Before sm_80 they take the kernel's own shared memory."""
    x = whole(4, 64)
    out = np.zeros_like(x)
    smlab.run(SOURCE, 2, THREADS, x, out, name="wide_tiles", gpu=gpu)
    assert np.array_equal(out, np.broadcast_to(x.sum(1, keepdims=True), x.shape))


QUICK = {"t4": (tiles_of_32, compacted, wide_tiles), "h100-pcie": (tiles_of_8, parted, block_sums)}
CHECKS = (tiles_of_32, tiles_of_8, compacted, parted, block_sums)


@pytest.mark.parametrize(
    ("gpu", "check"),
    [
        pytest.param(
            gpu,
            check,
            id=f"{gpu}-{check.__name__}",
            marks=[] if check in QUICK.get(gpu, ()) else pytest.mark.thorough,
        )
        for gpu in GPUS
        for check in (*CHECKS, *((wide_tiles,) if gpu in ("v100", "t4") else ()))
    ],
)
def test_groups_compute_what_numpy_computes(check: Callable[[str], None], gpu: str) -> None:
    check(gpu)


@pytest.mark.parametrize("gpu", ["rtx-3090", "h100-pcie"])
def test_what_only_a_driver_gives_is_refused(gpu: str) -> None:
    said = "shared memory that CUDA reserves for tiles of more than a warp"
    x = np.zeros(256, np.int32)
    with pytest.raises(SmlabError, match=said):
        smlab.run(SOURCE, 2, THREADS, x, x.copy(), name="wide_tiles", gpu=gpu)


@pytest.mark.parametrize(
    ("gpu", "engine"),
    [
        ("h100-pcie", "simpy"),
        ("h100-pcie", "compiled"),
        ("v100", "compiled"),
        pytest.param("t4", "compiled", marks=pytest.mark.thorough),
        pytest.param("rtx-3090", "compiled", marks=pytest.mark.thorough),
        pytest.param("rtx-5090", "compiled", marks=pytest.mark.thorough),
    ],
)
def test_a_grid_waits_for_itself(gpu: str, engine: str) -> None:
    """Each thread takes what a thread of another block wrote before all blocks met; a sample runs all."""
    x, y = (np.zeros(5 * THREADS, np.int32) for _ in range(2))
    smlab.run(SOURCE, 5, THREADS, x, y, name="whole_grid", gpu=gpu, engine=engine, sms=2)
    assert np.array_equal(x, (np.arange(x.size) + 3 * 64) % x.size + 3)


def test_a_grid_that_waits_for_itself_has_room() -> None:
    x, y = (np.zeros(2000 * THREADS, np.int32) for _ in range(2))
    with pytest.raises(SmlabError, match="no room for all at once.*at most 1280 blocks"):
        smlab.run(SOURCE, 2000, THREADS, x, y, name="whole_grid", gpu="v100")


@pytest.mark.parametrize("engine", ["simpy", "compiled"])
def test_parts_keep_their_predicates_where_another_looks_at_its_mask(engine: str) -> None:
    """R2UR with a predicate writes it in the lanes that are there, not in those of other parts."""
    x = whole(32)
    out = np.zeros((3, 32), np.int32)
    smlab.run(SOURCE, 1, 32, x, out, 32, name="votes", gpu="rtx-3090", engine=engine)
    v = x.reshape(4, 8)
    want = [(v > 90).any(1), (v > 5).all(1), bits(v > 90)]
    assert np.array_equal(out, [np.repeat(w, 8) for w in want])


def test_libcudacxx_is_not_there() -> None:
    with pytest.raises(SmlabError, match="nvidia-cuda-cccl-cu12"):
        compile_cuda('#include <cuda/std/atomic>\nextern "C" __global__ void k() {}', "sm_75")

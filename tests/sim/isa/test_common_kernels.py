"""Ordinary CUDA C on every architecture, held against NumPy: halves, switches, recursion, pointers to
functions, scans, asynchronous copies; where the compiler and its headers are there."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import smlab
from smlab.hw_bench.cuda.toolkit import has_compiler

if not has_compiler() or importlib.util.find_spec("nvidia.cuda_runtime") is None:
    pytest.skip("the CUDA compiler of the extra cuda12 is not installed", allow_module_level=True)

HERE = Path(__file__).parent / "cuda"
COMMON, ASYNC = HERE / "common.cu", HERE / "async.cu"
GPUS = {
    "sm_70": "v100",
    "sm_75": "t4",
    "sm_80": "a100-40",
    "sm_86": "rtx-3090",
    "sm_89": "l4",
    "sm_90": "h100-pcie",
}
N = 100
Array = NDArray[Any]
RANDOM = np.random.default_rng(7)


def launched(
    gpu: str, name: str, grid: Any, block: Any, *arguments: Any, source: Path = COMMON, **more: Any
) -> None:
    smlab.run(source, grid, block, *arguments, name=name, gpu=gpu, **more)


def normal_halves(*shape: int) -> Array:
    found: Array = RANDOM.normal(0, 3, shape).astype(np.float16)
    return found


def halves(gpu: str) -> None:
    a, b = normal_halves(N), normal_halves(N)
    a[:6] = [np.inf, 65504, 6e-8, -0.0, 1, np.nan]
    out, single = np.zeros((N, 8), np.float16), np.zeros(N, np.float32)
    launched(gpu, "halves", 2, 64, a, b, out, single, N)
    with np.errstate(all="ignore"):
        fused = (a.astype(np.float64) * b + a).astype(np.float16)
        least = np.where(a < b, a, b)
        scaled = (a.astype(np.float32) * np.float32(1.7)).astype(np.float16)
        expected = np.stack([a + b, a * b, fused, a - b, least, scaled, -a, np.abs(b)], axis=1)
        ones = (a > b).astype(np.float32)
    assert np.array_equal(out, expected, equal_nan=True)
    assert np.array_equal(single, a.astype(np.float32) + ones, equal_nan=True)


def scaled(gpu: str) -> None:
    """Parameters that are halves, two to a word of the constant bank."""
    a, out = normal_halves(N), np.zeros(N, np.float16)
    factor, least = np.float16(1.7), np.float16(-2.5)
    launched(gpu, "scaled", 2, 64, a, out, N, factor, least)
    x = a * factor
    fused = (x.astype(np.float64) * float(factor) + float(least)).astype(np.float16)
    fused[x < least] = least
    assert np.array_equal(out, fused)


def packed(gpu: str) -> None:
    a, b, out = normal_halves(N, 2), normal_halves(N, 2), np.zeros((N, 2, 2), np.float16)
    launched(gpu, "packed", 2, 64, a, b, out, N)
    wide = np.float64

    def fused(x: Array, y: Array, z: Array) -> Array:
        found: Array = (x.astype(wide) * y.astype(wide) + z.astype(wide)).astype(np.float16)
        return found

    total = np.zeros_like(a)
    for _ in range(3):
        total = fused(a, b, total)
    # The compiler may contract the product into the sum, or not.
    candidates = []
    for product in (total + a * b, fused(a, b, total)):
        found = (product + b[:, :1]) * a[:, 1:]
        candidates.append(np.where((a > b).all(axis=1)[:, None], found + a, found))
    second = [
        np.stack([c[:, 0].astype(np.float32) * 0.5, c[:, 1].astype(np.float32) + 1], axis=1).astype(
            np.float16
        )
        for c in candidates
    ]
    right = [
        np.array_equal(out[:, 0], c) and np.array_equal(out[:, 1], s)
        for c, s in zip(candidates, second, strict=True)
    ]
    assert any(right)


def conversions(gpu: str) -> None:
    a = np.clip(RANDOM.normal(0, 27000, N), -65504, 65504).astype(np.float16)
    whole, cut = np.zeros(N, np.int32), np.zeros(N, np.int16)
    wide, back = np.zeros(N), np.zeros(N, np.float16)
    launched(gpu, "conversions", 2, 64, a, whole, cut, wide, back, N)
    assert np.array_equal(whole, np.rint(a.astype(np.float64)))
    assert np.array_equal(cut, np.clip(np.trunc(a.astype(np.float64)), -32768, 32767))
    assert np.array_equal(wide, a.astype(np.float64))
    assert np.array_equal(back, (np.arange(N) * 7 - 100).astype(np.float16))


def choices(gpu: str) -> None:
    v, out = RANDOM.integers(-1000, 1000, N).astype(np.int32), np.zeros(N, np.int32)
    launched(gpu, "choices", 2, 64, v, out, N)

    def chosen(x: int) -> int:
        words = x & 0xFFFFFFFF
        rest = x - 11 * int(x / 11)
        ways = [x * 3, x ^ 77, x - 9, x << 3, int(x / 7), rest, ~x, x * x]
        ways += [words.bit_count(), 32 - words.bit_length(), x | 5, x & 0x3C]
        return ways[x & 15] if x & 15 < 12 else 0

    assert out.tolist() == [chosen(int(x)) for x in v]


def recursion(gpu: str) -> None:
    out = np.zeros(40, np.int32)
    launched(gpu, "recursion", 1, 64, out, 40)
    assert out.tolist() == [[0, 1, 1, 2, 3, 5, 8, 13, 21][i % 9] for i in range(40)]


def pointers(gpu: str) -> None:
    index, out = RANDOM.integers(0, 100, N).astype(np.int32), np.zeros(N, np.int32)
    launched(gpu, "pointers", 2, 64, index, out, N)
    expected = []
    for i, first in enumerate(index.tolist()):
        places = [(first + 5 * k) & 31 for k in range(8)]
        expected.append(sum((p if first & 1 else 31 - p) * i + 1 for p in places))
    assert out.tolist() == expected


def scan(gpu: str) -> None:
    values, out = RANDOM.integers(-9, 9, 512).astype(np.int32), np.zeros(512, np.int32)
    launched(gpu, "scan", 2, 256, values, out)
    assert np.array_equal(out.reshape(2, 256), values.reshape(2, 256).cumsum(axis=1))


def reduction(gpu: str) -> None:
    values, out = RANDOM.integers(-9, 9, 3000).astype(np.float32), np.zeros(1, np.float32)
    launched(gpu, "reduction", 4, 128, values, out, 3000)
    assert out[0] == values.sum()


def transpose(gpu: str) -> None:
    values, out = RANDOM.normal(size=(48, 48)), np.zeros((48, 48))
    launched(gpu, "transpose", (3, 3), (16, 16), values, out, 48)
    assert np.array_equal(out, values.T)


def bytes_(gpu: str) -> None:
    a = RANDOM.integers(-128, 128, 4 * N).astype(np.int8)
    b = RANDOM.integers(0, 256, 4 * N).astype(np.uint8)
    dots, quotients = np.zeros(N, np.int32), np.zeros(N, np.int64)
    launched(gpu, "bytes", 2, 64, a, b, dots, quotients, N)
    rows = a.reshape(N, 4).astype(int) * (b.reshape(N, 4) & 0x7F)
    assert np.array_equal(dots, rows.sum(axis=1) + np.arange(N))
    assert quotients.tolist() == [
        int(int(x) * int(y) / (i % 5 + 1)) for i, (x, y) in enumerate(zip(a[:N], b, strict=False))
    ]


def shorts(gpu: str) -> None:
    a, b = RANDOM.integers(-30000, 30000, N).astype(np.int16), RANDOM.integers(0, 60000, N).astype(np.uint16)
    out, cut, low = np.zeros(N, np.float32), np.zeros(N, np.int16), np.zeros(N, np.uint8)
    launched(gpu, "shorts", 2, 64, a, b, out, cut, low, N)
    assert np.array_equal(out, a.astype(np.float32) * 0.5 + b)
    assert np.array_equal(cut, np.trunc(a / 4))
    assert np.array_equal(low, np.trunc(b.astype(np.float32) * np.float32(0.001)))


def quantised(gpu: str) -> None:
    """Numbers of 8 and 16 bits out of the middle of a word become floats."""
    a, b = (
        RANDOM.integers(-128, 128, (N, 4)).astype(np.int8),
        RANDOM.integers(0, 256, (N, 4)).astype(np.uint8),
    )
    c, d = RANDOM.integers(-9000, 9000, (N, 2)).astype(np.int16), RANDOM.integers(0, 60000, (N, 2))
    out, wide = np.zeros(4 * N, np.float32), np.zeros(N)
    launched(
        gpu, "quantised", 2, 64, a.ravel(), b.ravel(), c.ravel(), d.astype(np.uint16).ravel(), out, wide, N
    )
    x, y, z = (kind.astype(float).T for kind in (a, b, c))
    expected = x[0] + y[3], x[1] * y[2] + z[1], x[2] * y[1] + d[:, 1], x[3] * y[0] + z[0]
    assert np.array_equal(out.reshape(N, 4).T, np.array(expected, np.float32))
    assert np.array_equal(wide, x[3] - y[2] + d[:, 1])


def atomics(gpu: str) -> None:
    words, longs = np.zeros(9, np.int32), np.zeros(2, np.uint64)
    words[2], words[6] = -1, 3
    single, wide = np.zeros(1, np.float32), np.zeros(1)
    launched(gpu, "atomics", 1, 64, words, longs, single, wide)
    one_to_ten, down = 3, 0
    for _ in range(64):
        one_to_ten = 0 if one_to_ten >= 10 else one_to_ten + 1
        down = 10 if down == 0 or down > 10 else down - 1
    assert words.tolist() == [-7, 189, 0, -1, 0, 5, one_to_ten, down, 64]
    assert longs.tolist() == [(63 * 64 // 2) << 20, 63 * 63]
    assert (single[0], wide[0]) == (0.5 * 2016, 0.25 * 2016)


def functions(gpu: str) -> None:
    x, out = RANDOM.uniform(-1, 3, N).astype(np.float32), np.zeros((N, 8), np.float32)
    launched(gpu, "functions", 2, 64, x, out, N)
    wide = x.astype(np.float64)
    expected = [
        np.sin(wide),
        np.exp(wide),
        np.log(wide + 2),
        (wide + 1.5) ** 1.3,
        wide / 3.3,
        (wide + 2) ** -0.5,
    ]
    expected += [np.tanh(wide), np.fmod((x * np.float32(10)).astype(np.float64), np.float32(0.7))]
    assert np.allclose(out, np.stack(expected, axis=1), rtol=3e-6, atol=3e-6)


def votes(gpu: str) -> None:
    a, out = RANDOM.integers(0, 12, 64).astype(np.int32), np.zeros(64, np.uint32)
    launched(gpu, "votes", 1, 64, a, out)
    for warp in a.reshape(2, 32):
        mask = sum(1 << lane for lane in range(32) if warp[lane] > 5)
        match = [sum(1 << k for k in range(32) if warp[k] & 3 == x & 3) for x in warp]
        want = [(mask + 1 + 2 * int(3 in warp) + m) & 0xFFFFFFFF for m in match]
        assert want in out.reshape(2, 32).tolist()


def matrices(gpu: str) -> None:
    a, b = (RANDOM.integers(-5, 5, (48, 48)).astype(np.float32) for _ in range(2))
    c = np.zeros_like(a)
    launched(gpu, "matrices", (3, 3), (16, 16), a, b, c, 48, source=ASYNC)
    assert np.array_equal(c, a @ b)


def reversed_(gpu: str) -> None:
    a = RANDOM.normal(size=(2, 128, 4)).astype(np.float32)
    out = np.zeros_like(a)
    launched(gpu, "reversed", 2, 128, a, out, source=ASYNC)
    assert np.array_equal(out, a[:, ::-1])


def warps(gpu: str) -> None:
    a, out = RANDOM.integers(-50, 50, 32).astype(np.int32), np.zeros(32, np.int32)
    launched(gpu, "warps", 1, 32, a, out, source=ASYNC)
    assert (out == a.sum() + a.max()).all()


def handover(gpu: str) -> None:
    out = np.zeros(128, np.int32)
    launched(gpu, "handover", 1, 128, out)
    assert np.array_equal(out, 3 * np.concatenate([np.arange(64), np.arange(63, -1, -1)]))


EVERYWHERE = (halves, packed, conversions, choices, recursion, pointers, scan, reduction, transpose)
EVERYWHERE += (bytes_, shorts, quantised, atomics, functions, votes, handover, scaled)
SINCE_AMPERE = (matrices, reversed_, warps)
QUICK = ("sm_70", "sm_90")


@pytest.mark.parametrize(
    "architecture", [a if a in QUICK else pytest.param(a, marks=pytest.mark.thorough) for a in GPUS]
)
@pytest.mark.parametrize("check", [*EVERYWHERE, *SINCE_AMPERE], ids=lambda c: c.__name__)
def test_common_kernels(check: Callable[[str], None], architecture: str) -> None:
    if check in EVERYWHERE or architecture >= "sm_80":
        check(GPUS[architecture])


SPARSE = """extern "C" __global__ void sparse(float *o) {
    unsigned a = threadIdx.x;
    float d = 0, e = 0, f = 0, g = 0;
    asm volatile("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 "
        "{%0,%1,%2,%3}, {%4,%4,%4,%4}, {%4,%4,%4,%4}, {%0,%1,%2,%3}, %4, 0x0;"
        : "+f"(d), "+f"(e), "+f"(f), "+f"(g) : "r"(a));
    o[a] = d + e + f + g;
}"""


REFUSED = {
    "sparse": (SPARSE, r"line [456] .*\(a sparse product\): HMMA\.SP\.16832\.F32"),
    "texture": (
        """extern "C" __global__ void texture(float *o) {
    unsigned long long t = threadIdx.x;
    o[t] = tex1Dfetch<float>(t, 3);
}""",
        r"TLD\S* at 0x\w+, \S*texture\.cu line 3 is not one that is executed here: TLD",
    ),
    "surface": (
        """extern "C" __global__ void surface(float *o) {
    unsigned long long t = threadIdx.x;
    surf1Dwrite(o[t], t, 4);
}""",
        r"SUST\S* at 0x\w+, \S*surface\.cu line 3 is not one that is executed here: SUST",
    ),
}
"""Kernels with what no row knows, and what is said: the instruction by name, and the line of the kernel."""


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_executed_is_refused_by_name(name: str, tmp_path: Path) -> None:
    text, told = REFUSED[name]
    source = tmp_path / f"{name}.cu"
    source.write_text(text)
    with pytest.raises(smlab.SmlabError, match=told):
        launched("a100-40", name, 1, 32, np.zeros(32, np.float32), source=source)

"""Kernels of further kinds on every architecture, held against NumPy: sorts, tables, scans by segment, named
barriers, FP64, bytes, bits, 64-bit division, pointers into the stack, parts of warps."""

import importlib.util
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import smlab
from smlab.hw_bench.cuda.toolkit import has_compiler
from smlab.hw_bench.sass import listing_of
from smlab.hw_bench.sass.nvrtc import compile_cuda

if not has_compiler() or importlib.util.find_spec("nvidia.cuda_runtime") is None:
    pytest.skip("the CUDA compiler of the extra cuda12 is not installed", allow_module_level=True)

ORDINARY = Path(__file__).parent / "cuda" / "ordinary.cu"
GPUS = {
    "sm_70": "v100",
    "sm_75": "t4",
    "sm_80": "a100-40",
    "sm_86": "rtx-3090",
    "sm_89": "l4",
    "sm_90": "h100-pcie",
}
Array = NDArray[Any]
RANDOM = np.random.default_rng(11)


def launched(gpu: str, name: str, grid: Any, block: Any, *arguments: Any, source: Path = ORDINARY) -> None:
    smlab.run(source, grid, block, *arguments, name=name, gpu=gpu)


def words(*shape: int) -> Array:
    found: Array = RANDOM.integers(0, 1 << 32, shape, dtype=np.uint32)
    return found


def radix(gpu: str) -> None:
    keys, place = words(256), np.zeros(256, np.uint32)
    launched(gpu, "radix", 1, 256, keys, place, 8)
    assert np.array_equal(np.argsort(keys >> 8 & 15, kind="stable")[place], np.arange(256))


def segments(gpu: str) -> None:
    values, heads = RANDOM.integers(-9, 9, 128).astype(np.int32), (RANDOM.random(128) < 0.2).astype(np.uint8)
    out, want, total = np.zeros_like(values), np.zeros_like(values), 0
    launched(gpu, "segments", 2, 64, values, heads, out)
    for n in range(128):
        total = values[n] + (0 if n % 32 == 0 or heads[n] else total)
        want[n] = total
    assert np.array_equal(out, want)


def insert(gpu: str) -> None:
    keys = RANDOM.integers(1, 60, 300).astype(np.uint32)
    table = np.zeros(97, np.uint64)
    launched(gpu, "insert", 3, 128, keys, table, np.uint32(97), 300)
    found = {int(slot >> np.uint64(32)): int(slot & np.uint64(0xFFFFFFFF)) for slot in table if slot}
    assert found == dict(zip(*(x.tolist() for x in np.unique(keys, return_counts=True)), strict=True))


def specialised(gpu: str) -> None:
    fetched, out = RANDOM.integers(-99, 99, (5, 96)).astype(np.int32), np.zeros(96, np.int32)
    launched(gpu, "specialised", 1, 128, fetched, out, 5)
    assert np.array_equal(out, (fetched[:, ::-1] * np.arange(1, 6)[:, None]).sum(axis=0))


def by_half(gpu: str) -> None:
    values, out = RANDOM.integers(-20, 20, 128).astype(np.int32), np.zeros(128, np.int32)
    launched(gpu, "by_half", 1, 128, values, out)
    seen = np.where(np.arange(128) < 64, values, values + 1)[np.arange(128) ^ 63]
    found = (seen > 10).sum() + 1000 + 2000 * (7 in seen)
    assert np.array_equal(out, found + seen * 10000)


def gravity(gpu: str) -> None:
    body, pull = RANDOM.normal(size=(128, 4)), np.zeros((128, 4))
    launched(gpu, "gravity", 2, 64, body, pull, 128)
    distance = body[None, :, :3] - body[:, None, :3]
    r = (distance**2).sum(axis=2) + 1e-3
    want = ((body[:, 3] / (r * np.sqrt(r)))[:, :, None] * distance).sum(axis=1)
    assert np.allclose(pull[:, :3], want, rtol=1e-12)


def _signed(x: Array) -> Array:
    found: Array = x.astype(np.uint32).view(np.int32).astype(np.int64)
    return found


def _lanes(x: Array, kind: Any) -> Array:
    return np.ascontiguousarray(x).view(kind).reshape(len(x), -1).astype(np.int64)


def _packed(lanes: Array, kind: Any) -> Array:
    found: Array = lanes.astype(kind).reshape(-1).view(np.uint32)
    return found


def text(gpu: str) -> None:
    a, b = words(100), words(100)
    a[:8].view(np.uint8)[:] = np.frombuffer(b"Some text, in lower case {z`a}!~", np.uint8)
    out = np.zeros((100, 8), np.uint32)
    launched(gpu, "text", 2, 64, a, b, out, 100)
    x, y, sx, sy = _lanes(a, np.uint8), _lanes(b, np.uint8), _lanes(a, np.int8), _lanes(b, np.int8)
    upper = x - 32 * ((x >= 97) & (x <= 122))
    shorts = _lanes(a, np.int16), _lanes(b, np.int16)
    dots = (x * y).sum(axis=1) + 7 + (sx * sy).sum(axis=1) - 3 + (shorts[0] * sy[:, :2]).sum(axis=1) + 5
    eight = np.concatenate([x, y], axis=1)
    chosen = np.stack([(a >> (4 * n)) & 7 for n in range(4)], axis=1).astype(np.int64)
    first = _packed(eight[:, [5, 1, 7, 3]], np.uint8)
    second = _packed(np.take_along_axis(eight, chosen, axis=1), np.uint8)
    want = [
        _packed(upper, np.uint8),
        np.abs(x - y).sum(axis=1),
        _packed(x + y, np.uint8),
        _packed(np.maximum(*shorts), np.int16),
        dots,
        first + second,
        _packed((x + y + 1) >> 1, np.uint8),
        _packed(np.abs(sx - sy), np.uint8),
    ]
    for column, expected in enumerate(want):
        assert np.array_equal(out[:, column], (expected & 0xFFFFFFFF).astype(np.uint32)), column


def bits(gpu: str) -> None:
    a, b = words(64), RANDOM.integers(0, 1 << 64, 64, dtype=np.uint64)
    a[:3], b[:4] = [0, 1, 0xFFFFFFFF], [0, 1, 1 << 63, (1 << 64) - 1]
    out, wide = np.zeros((64, 8), np.uint32), np.zeros((64, 6), np.uint64)
    launched(gpu, "bits", 1, 64, a, b, out, wide)
    m32, m64 = (1 << 32) - 1, (1 << 64) - 1

    def signed(value: int, width: int = 32) -> int:
        value &= (1 << width) - 1
        return value - (1 << width) if value >> (width - 1) else value

    def reverse(value: int, width: int) -> int:
        return int(f"{value:0{width}b}"[::-1], 2)

    def count(value: int, width: int) -> int:
        first = (value & -value).bit_length()
        return width - value.bit_length() + 100 * first + 10000 * value.bit_count()

    def divided(n: int, d: int) -> tuple[int, int]:
        quotient = abs(n) // abs(d) * (1 if (n < 0) == (d < 0) else -1)
        return quotient, n - quotient * d

    for t in range(64):
        x, y, z = int(a[t]), int(b[t]), int(b[t ^ 1])
        sy, sz = signed(y, 64), signed(z, 64)
        pair, by = x << 32 | (x ^ m32), x & 63
        left = (((x ^ m32) << 32 | x) << (by & 31) >> 32) & m32
        right = ((x ^ m32) << 32 | x) >> min(by, 32) & m32
        low = y & m32
        want = [
            count(x, 32),
            reverse(x, 32),
            x & 0xF0F0F0F0 | ~x & 0x0F0F0F0F & reverse(x, 32),
            left ^ right,
            count(y, 64),
            (x * low >> 32) + (signed(x) * signed(z) >> 32) + (signed(x << 8) >> 8) * (signed(y << 8) >> 8),
            (signed(x) + signed(y) + 1 >> 1) + (x + low >> 1) + abs(signed(x) - signed(z)) + 5,
            (x << (y & 31)) ^ (signed(x) >> (z & 31)),
        ]
        assert out[t].tolist() == [value & m32 for value in want], (t, hex(pair))
        wants = [
            y // (z | 1),
            y % (z >> 40 | 3),
            divided(sy, signed(z >> 33 | 1, 64))[0],
            divided(sy, signed(sz >> 20 | 1, 64))[1],
            (y * z >> 64) + (sy * sz >> 64),
            reverse(y, 64) + (y << by) + (sz >> by),
        ]
        assert wide[t].tolist() == [value & m64 for value in wants], t


def generic(gpu: str) -> None:
    values, out = RANDOM.integers(0, 99, 64).astype(np.int32), np.zeros((32, 4), np.int32)
    launched(gpu, "generic", 1, 32, values, out)

    def walk(found: Array) -> int:
        total = 0
        for x in found:
            total = total * 3 + int(x)
        return total

    for t in range(32):
        stack, shared, memory = values[t : t + 8] + np.arange(8), values[t & 15 :][:8], values[t : t + 8]
        any_ = (stack, shared, memory)[t % 3]
        assert out[t].tolist() == [walk(x) for x in (stack, shared, memory, any_)]


def groups(gpu: str) -> None:
    values, out = RANDOM.integers(0, 9, 64).astype(np.int32), np.zeros(64, np.int32)
    launched(gpu, "groups", 1, 64, values, out)
    for t in range(64):
        tile, warp = values[t & ~7 :][:8], values[t & ~31 :][:32]
        odd, best = np.flatnonzero(warp & 1), 0
        if values[t] & 1:
            best = len(odd) * 100 + int((odd < (t & 31)).sum()) + 10000 * int(warp[odd[0]])
        assert out[t] == tile.sum() + (best << 8) + int(5 in tile) + ((t & 31) >> 3)


def extremes(gpu: str) -> None:
    odd = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1.5, -1.5, 5e-324])
    a, b = (np.concatenate([x.ravel(), RANDOM.normal(0, 9, 36)]) for x in np.meshgrid(odd, odd))
    most, least = np.zeros_like(a), np.zeros_like(a)
    launched(gpu, "extremes", 1, 128, a, b, most, least, len(a))
    assert np.array_equal(most, np.fmax(a, b), equal_nan=True)
    assert np.array_equal(least, np.fmin(a, b), equal_nan=True)
    zeros = (a == 0) & (b == 0)
    assert np.array_equal(np.signbit(most[zeros]), np.signbit(a[zeros]) & np.signbit(b[zeros]))
    assert np.array_equal(np.signbit(least[zeros]), np.signbit(a[zeros]) | np.signbit(b[zeros]))


def sums(gpu: str) -> None:
    """Small whole numbers, so that each sum is exact in each type; pairs of bfloat16 numbers from sm_90
    on."""
    x = RANDOM.integers(-3, 4, 64).astype(np.float32)
    single, wide = np.ones(1, np.float32), np.ones(1)
    pair, bfloat16 = np.zeros(8, np.float16), np.zeros(8, np.uint16)
    launched(gpu, "sums", 1, 64, x, single, wide, pair.view(np.uint32), bfloat16.view(np.uint32))
    assert single[0] == wide[0] == 1 + x.sum()
    by_place = x.reshape(16, 4).sum(0)
    want = np.stack([by_place, -by_place], 1).ravel()
    assert np.array_equal(pair, want)
    from_bfloat16 = (bfloat16.astype(np.uint32) << 16).view(np.float32)
    assert np.array_equal(from_bfloat16, want if GPUS["sm_90"] == gpu else np.zeros(8))


def short_numbers(gpu: str) -> None:
    n, big = 64, 2**31
    a = np.where(RANDOM.random(n) < 0.5, RANDOM.integers(-300, 300, n), RANDOM.integers(-big, big, n))
    a = a.astype(np.int32)
    x = np.concatenate([RANDOM.normal(0, 40, n - 12), np.arange(-3, 3) / 2, [-7, 0, 0.25, 255.5, 256, 1e9]])
    x = x.astype(np.float32)
    out = np.zeros((n, 12), np.uint32)
    launched(gpu, "short_numbers", 1, n, a, x, out, n)
    b, y, signed = np.roll(a, -1), np.roll(x, -1), out.view(np.int32)
    with np.errstate(over="ignore"):
        upper, lower = x.astype(np.float16), y.astype(np.float16)
    fits = np.isfinite(upper)
    assert np.array_equal(signed[:, 0], a.clip(-128, 127))
    assert np.array_equal(out[:, 1], a.clip(0, 65535).astype(np.uint32))
    assert np.array_equal(out[:, 2], np.rint(x).clip(0, 255).astype(np.uint32))
    assert np.array_equal(signed[fits, 3], np.trunc(upper[fits]).astype(np.int32))
    halves = out[:, 4:6].copy().view(np.float16).reshape(n, 2, 2)
    for column, of in ((1, upper), (0, lower)) if gpu != "v100" else ():
        with np.errstate(over="ignore"):
            power = np.exp2(of.astype(np.float64)).astype(np.float16)
        assert np.array_equal(halves[:, 0, column], power)
        assert np.array_equal(halves[:, 1, column], np.tanh(of.astype(np.float64)).astype(np.float16))
    first, second = (v.view(np.uint8).reshape(n, 4) for v in (a, b))
    assert np.array_equal(out[:, 7:8].copy().view(np.uint8), np.maximum(first, second))
    assert np.array_equal(out[:, 8:9].copy().view(np.uint8), first - second)
    assert np.array_equal(out[:, 9].copy().view(np.float32), upper.astype(np.float32))
    packed = [(v.clip(-128, 127) & 255).astype(np.int64) for v in (a, b)]
    if gpu != "v100":
        assert np.array_equal(out[:, 10], (0xABCD << 16 | packed[0] << 8 | packed[1]).astype(np.uint32))
    if gpu not in ("v100", "t4"):
        with np.errstate(over="ignore"):
            wanted = np.stack([y, x], 1).clip(0, None).astype(np.float16)
        assert np.array_equal(out[:, 11:].copy().view(np.float16), wanted)


def row_sums(gpu: str, source: Path = ORDINARY) -> None:
    values = RANDOM.integers(0, 99, (2, 100)).astype(np.float32)
    out = np.zeros_like(values)
    smlab.run(source, 2, 64, values, out, 100, name="row_sums", gpu=gpu, shared_bytes=8)
    assert np.array_equal(out, values.sum(1, keepdims=True) - values)


def test_lanes_that_are_apart_meet_for_a_shuffle(tmp_path: Path) -> None:
    """From sm_90 on, code beside the kernel's own, where its lanes gather: taken here whether they are apart
    or not."""
    listing = listing_of(compile_cuda(ORDINARY.read_text(), "sm_90"))
    forced, count = re.subn(r"BRA\.DIV UR\d+, ", "BRA ", listing)
    assert count
    assert "WARPSYNC.COLLECTIVE" in forced
    (tmp_path / "forced.sass").write_text(forced)
    row_sums("h100-pcie", tmp_path / "forced.sass")


EVERYWHERE = (
    radix,
    segments,
    insert,
    specialised,
    by_half,
    gravity,
    bits,
    generic,
    extremes,
    text,
    groups,
    sums,
    short_numbers,
    row_sums,
)
QUICK = ("sm_75", "sm_90")


@pytest.mark.parametrize(
    "architecture", [a if a in QUICK else pytest.param(a, marks=pytest.mark.thorough) for a in GPUS]
)
@pytest.mark.parametrize("check", EVERYWHERE, ids=lambda c: c.__name__)
def test_ordinary_kernels(check: Callable[[str], None], architecture: str) -> None:
    check(GPUS[architecture])

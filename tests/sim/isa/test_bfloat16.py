"""Arithmetic on bfloat16 numbers, compiled, in both engines, held against exact numbers rounded once."""

import importlib.util
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import smlab
from smlab.hw_bench.cuda.toolkit import has_compiler

if not has_compiler() or importlib.util.find_spec("nvidia.cuda_runtime") is None:
    pytest.skip("the CUDA compiler of the extra cuda12 is not installed", allow_module_level=True)

SOURCE = Path(__file__).parent / "cuda" / "brain.cu"
RANDOM = np.random.default_rng(5)
Words = NDArray[np.uint16]


def singles(words: Words) -> NDArray[np.float32]:
    return (words.astype(np.uint32) << 16).view(np.float32)


def nearest(exact: Fraction, negative_zero: bool = False) -> int:
    """The bfloat16 number nearest to a number; of two, the even one: by search among all of them."""
    size, sign = abs(exact), 0x8000 * (exact < 0 or (exact == 0 and negative_zero))
    low, high = 0, 0x7F7F
    while low < high:  # the last that is not above
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _number(middle) <= size else (low, middle - 1)
    after = _number(low + 1) if low < 0x7F7F else Fraction(2) ** 128
    above, below = after - size, size - _number(low)
    return sign | (low + (above < below or (above == below and low % 2 == 1)))


def _number(word: int) -> Fraction:
    return Fraction(float(singles(np.array([word], np.uint16))[0]))


def fused(a: Words, b: Words, c: Words) -> Words:
    """``a * b + c`` rounded once, of finite ones."""
    x, y, z = (singles(w) for w in (a, b, c))
    found = []
    for i in range(len(a)):
        exact = Fraction(float(x[i])) * Fraction(float(y[i])) + Fraction(float(z[i]))
        negative = (bool(a[i] >> 15) != bool(b[i] >> 15)) and bool(c[i] >> 15)
        found.append(nearest(exact, negative))
    return np.array(found, np.uint16)


def words(count: int) -> Words:
    """Of ordinary size, and of all sizes."""
    found = (RANDOM.normal(0, 3, count).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    wild = RANDOM.integers(0, 0x7F00, count) | (RANDOM.integers(0, 2, count) << 15)
    return np.where(RANDOM.random(count) < 0.3, wild, found).astype(np.uint16)


def arithmetic(launched: Callable[..., None]) -> None:
    a, b, c = (words(128) for _ in range(3))
    a[:16], b[:16], c[:16] = 0x3F81 + 2 * np.arange(16), 0x3FC0, np.where(np.arange(16) % 2, 0x8D80, 0x0D80)
    b[np.abs(singles(a).astype(float) * singles(b)) > 1e37] = 0x3F80
    out = np.zeros((9, 128), np.uint16)
    launched(
        "arithmetic", 2, 32, a.view(np.uint32), b.view(np.uint32), c.view(np.uint32), out.view(np.uint32)
    )
    one, nothing = np.full_like(a, 0x3F80), np.full_like(a, 0x8000)
    want = fused(a, b, c)
    assert np.array_equal(out[0], fused(a, one, b))
    assert np.array_equal(out[1], fused(b ^ 0x8000, one, a))
    assert np.array_equal(out[2], fused(a, b, nothing))
    assert np.array_equal(out[3], want)
    assert np.array_equal(out[4], np.where(want >= 0x8000, 0, want))
    x, y = singles(a), singles(b)
    assert np.array_equal(singles(out[5]), np.maximum(x, y))
    assert np.array_equal(singles(out[6]), np.minimum(x, y))
    assert np.array_equal(out[7], a | 0x8000)
    assert np.array_equal(out[8], fused(np.repeat(a[::2], 2), np.repeat(b[1::2], 2), c ^ 0x8000))


def compared(launched: Callable[..., None]) -> None:
    a, b = words(64), words(64)
    b[::5], a[3], b[8] = a[::5], 0x7FC0, 0xFFC0
    out, found = np.zeros((2, 64), np.uint16), np.zeros(32, np.int32)
    launched("compared", 1, 32, a.view(np.uint32), b.view(np.uint32), out.view(np.uint32), found)
    x, y = singles(a), singles(b)
    assert np.array_equal(singles(out[0]), x < y)
    assert np.array_equal(singles(out[1]), ~(x < y))
    both = [np.all(test.reshape(32, 2), axis=1) for test in (x == y, x <= y)]
    assert np.array_equal(found, both[0] + 2 * np.isnan(x[::2]) + 4 * both[1])


def converted(launched: Callable[..., None]) -> None:
    single = (RANDOM.normal(0, 50, 32)).astype(np.float32)
    single[0], single[1] = 1.00390625, -1.01171875  # half way
    twice = 1 + RANDOM.random(32) * 2.0**-40 + 2.0**-8  # just above half way, as near as doubles come
    whole = RANDOM.integers(-(2**31), 2**31, 32).astype(np.int32)
    out, back = np.zeros((7, 32), np.uint16), np.zeros(32, np.int32)
    launched("converted", 1, 32, single, twice, whole, out, back)
    near = np.array([nearest(Fraction(float(x))) for x in single], np.uint16)
    cut = (single.view(np.uint32) >> 16).astype(np.uint16)
    assert np.array_equal(out[0], near)
    assert np.array_equal(out[1], [nearest(Fraction(float(x))) for x in single * np.float32(3)])
    assert np.array_equal(out[2], cut)
    assert np.array_equal(out[3], cut + ((single > 0) & (single.view(np.uint32) & 0xFFFF != 0)))
    assert np.array_equal(out[4], [nearest(Fraction(float(x))) for x in twice])
    assert np.array_equal(out[5], [nearest(Fraction(int(x))) for x in whole])
    assert np.array_equal(singles(out[6]), np.floor(singles(near)))
    assert np.array_equal(back, np.trunc(singles(near)).astype(np.int32))


def added(launched: Callable[..., None]) -> None:
    values = (RANDOM.integers(-8, 9, 64).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    sums = np.zeros(8, np.uint16)
    launched("added", 1, 32, sums.view(np.uint32), values.view(np.uint32))
    assert np.array_equal(singles(sums), singles(values).reshape(8, 8).sum(axis=0))


@pytest.mark.parametrize(
    ("gpu", "engine"),
    [
        ("a100-40", "compiled"),
        ("h100-pcie", "compiled"),
        ("h100-pcie", "simpy"),
        pytest.param("a100-40", "simpy", marks=pytest.mark.thorough),
        pytest.param("rtx-3090", "compiled", marks=pytest.mark.thorough),
        pytest.param("l4", "compiled", marks=pytest.mark.thorough),
    ],
)
@pytest.mark.parametrize("check", [arithmetic, compared, converted, added], ids=lambda c: c.__name__)
def test_bfloat16(check: Callable[..., None], gpu: str, engine: str) -> None:
    def launched(name: str, grid: int, block: int, *arguments: Any) -> None:
        smlab.run(SOURCE, grid, block, *arguments, name=name, gpu=gpu, engine=engine)

    check(launched)


def test_floats_of_eight_bits_in_pairs(tmp_path: Path) -> None:
    source = tmp_path / "packed.cu"
    source.write_text(
        'extern "C" __global__ void of_bytes(unsigned short *out) { unsigned short word;'
        ' asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(word) : "f"(1.5f), "f"(2.0f * threadIdx.x));'
        " out[threadIdx.x] = word; }"
    )
    words = np.zeros(4, np.uint16)
    smlab.run(source, 1, 4, words, gpu="h100-pcie")
    assert words.tolist() == [0x3C00, 0x3C40, 0x3C48, 0x3C4C]

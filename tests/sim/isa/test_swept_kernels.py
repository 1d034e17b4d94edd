"""Kernels of kinds that once were refused or came out wrong, against NumPy, on each architecture."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smlab
from smlab.hw_bench.cuda.toolkit import has_compiler
from smlab.hw_bench.sass.tools import assemble, find_ptxas
from smlab.sim.frontends.machine_code import from_cubin

if not has_compiler():
    pytest.skip("the CUDA compiler of the extra cuda12 is not installed", allow_module_level=True)

SOURCE = Path(__file__).parent / "cuda" / "swept.cu"
RANDOM = np.random.default_rng(23)
GPUS = ["a100-40", *(pytest.param(gpu, marks=pytest.mark.thorough) for gpu in ("t4", "h100-pcie"))]
every = pytest.mark.parametrize("gpu", GPUS)
engines = pytest.mark.parametrize("engine", ["simpy", "compiled"])


def words(*shape: int) -> Any:
    return RANDOM.integers(0, 1 << 32, shape, dtype=np.uint32)


@every
@engines
def test_where_a_warp_is(gpu: str, engine: str) -> None:
    out = np.zeros((192, 2), np.uint32)
    smlab.run(SOURCE, 2, 96, out, name="places", gpu=gpu, engine=engine, shared_bytes=768)
    assert np.array_equal(out, np.stack([np.arange(192) % 96 // 32, np.full(192, 768)], 1))


@every
@engines
def test_sums_that_stop_at_the_ends(gpu: str, engine: str) -> None:
    a, b = (words(64).view(np.int32) for _ in range(2))
    out = np.zeros((64, 2), np.int32)
    smlab.run(SOURCE, 1, 64, a, b, out, name="saturated", gpu=gpu, engine=engine)
    wide = a.astype(np.int64), b.astype(np.int64)
    assert np.array_equal(
        out, np.stack([wide[0] + wide[1], wide[0] - wide[1]], 1).clip(-(1 << 31), (1 << 31) - 1)
    )


@every
@engines
def test_a_field_by_a_count_modulo_32(gpu: str, engine: str) -> None:
    a, out = words(64), np.zeros(64, np.uint32)
    smlab.run(SOURCE, 1, 64, a, out, name="extended", gpu=gpu, engine=engine)
    assert np.array_equal(out, a & ((1 << (a & 31).astype(np.uint64)) - 1))


def half(value: Fraction, mode: str) -> float:
    """The half that a number is rounded to; ``mode`` is nearest, zero, up or down."""
    near = np.float16(float(value))
    below, above = (np.nextafter(near, np.float16(end)) for end in (-np.inf, np.inf))
    exact = Fraction(float(near))
    if mode == "down" or (mode == "zero" and value > 0):
        return float(below if exact > value else near)
    if mode == "up" or mode == "zero":
        return float(above if exact < value else near)
    return float(near)


@every
@engines
def test_halves_in_all_rounding_modes(gpu: str, engine: str) -> None:
    x = RANDOM.standard_normal(64).astype(np.float32) * np.float32(2) ** RANDOM.integers(-28, 18, 64)
    x = x.astype(np.float32).clip(-65000, 65000)
    n = (words(64) >> 14).view(np.int32) - (1 << 17)
    n = n.clip(-65000, 65000)
    out = np.zeros((64, 8), np.float16)
    smlab.run(SOURCE, 1, 64, x, n, out, name="rounded", gpu=gpu, engine=engine)
    modes = ("nearest", "zero", "up", "down")
    for found, single, integer in zip(out.tolist(), x.tolist(), n.tolist(), strict=True):
        assert found[:4] == [half(Fraction(single), mode) for mode in modes]
        assert found[4:] == [half(Fraction(integer), mode) for mode in modes]


@every
@engines
def test_both_halves_are_rounded_to_whole_numbers(gpu: str, engine: str) -> None:
    x = (RANDOM.standard_normal((64, 2)) * 9).astype(np.float16)
    out = np.zeros_like(x)
    smlab.run(SOURCE, 1, 64, x.view(np.uint32), out.view(np.uint32), name="floors", gpu=gpu, engine=engine)
    assert np.array_equal(out, np.floor(x))


@pytest.mark.parametrize(
    "gpu", ["a100-40", "rtx-3090", pytest.param("h100-pcie", marks=pytest.mark.thorough)]
)
@engines
def test_products_of_complex_halves(gpu: str, engine: str) -> None:
    """sm_86 and later exchange both halves of a source, and change a sign, in one instruction."""
    a, b = (RANDOM.integers(-9, 10, (64, 2)).astype(np.float16) for _ in range(2))
    out = np.zeros_like(a)
    words_of = [x.view(np.uint32) for x in (a, b, out)]
    smlab.run(SOURCE, 1, 64, *words_of, name="complex_products", gpu=gpu, engine=engine)
    x, y = (h.astype(np.float64) @ [1, 1j] for h in (a, b))
    assert np.array_equal(out.astype(np.float64) @ [1, 1j], x * y + x)


@every
@engines
def test_subnormal_halves_are_flushed(gpu: str, engine: str) -> None:
    """Sources and results whose exponent is 0 become zeros with their sign."""
    a, b = (words(64, 1).view(np.uint16) & 0x9FFF | 0x400 for _ in range(2))
    a[:16] &= 0x83FF  # subnormal
    b[:32] = b[:32] & 0x83FF | 0x3C00  # around 1
    out = np.zeros_like(a)
    smlab.run(
        SOURCE,
        1,
        64,
        a.view(np.uint32),
        b.view(np.uint32),
        out.view(np.uint32),
        name="flushed",
        gpu=gpu,
        engine=engine,
    )

    def flush(h: Any) -> Any:
        return np.where(h & 0x7C00, h, h & 0x8000).astype(np.uint16)

    x, y = (flush(h).view(np.float16).astype(np.float64) for h in (a, b))
    assert np.array_equal(out, flush((x * y + x).astype(np.float16).view(np.uint16)))


@every
@engines
def test_pieces_of_a_heap(gpu: str, engine: str) -> None:
    out = np.zeros(128, np.int32)
    smlab.run(SOURCE, 2, 64, out, name="heap", gpu=gpu, engine=engine)
    assert np.array_equal(out, np.tile(45 * np.arange(64) + 1, 2))


LONG = """.version 8.8
.target sm_120
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 out) {
.reg .b64 %d<9>; .reg .b32 %r<9>; .reg .f32 %f<9>;
ld.param.u64 %d0, [x]; ld.param.u64 %d1, [out]; mov.u32 %r1, %tid.x;
mul.wide.u32 %d2, %r1, 32; add.u64 %d0, %d0, %d2; mul.wide.u32 %d3, %r1, 64; add.u64 %d1, %d1, %d3;
ld.global.v8.f32 {%f0,%f1,%f2,%f3,%f4,%f5,%f6,%f7}, [%d0];
st.global.v8.f32 [%d1], {%f7,%f6,%f5,%f4,%f3,%f2,%f1,%f0};
ld.global.v8.b32 {%r0,%r1,%r2,%r3,%r4,%r5,%r6,%r7}, [%d0];
st.global.v2.b32 [%d1+32], {%r5,%r7}; st.global.b32 [%d1+40], %r2;
mov.b64 %d4, {%r1,%r3}; mov.b64 %d5, {%r4,%r6};
add.cc.u64 %d6, %d4, %d5; addc.u64 %d7, %d4, 0; st.global.u64 [%d1+48], %d7;
sub.cc.u64 %d6, %d4, %d5; subc.u64 %d7, %d5, %d4; st.global.u64 [%d1+56], %d7;
ret; }
"""


@engines
def test_32_bytes_a_lane_and_carries_of_64_bits(engine: str) -> None:
    """Of the second load some words alone are kept."""
    if tuple(map(int, find_ptxas(architecture="sm_120").release.split("."))) < (12, 9):
        pytest.skip("the assembler knows no loads of 32 bytes")
    x, out = words(64, 8), np.zeros((64, 16), np.uint32)
    smlab.run(from_cubin(assemble(LONG, "sm_120")[0], "k", "k"), 1, 64, x, out, gpu="rtx-5090", engine=engine)
    assert np.array_equal(out[:, :8], x[:, ::-1])
    assert np.array_equal(out[:, 8:11], x[:, [5, 7, 2]])
    for row, mine in zip(x.tolist(), out.view(np.uint64).tolist(), strict=True):
        first, second = row[1] | row[3] << 32, row[4] | row[6] << 32
        assert mine[6] == (first + (first + second >> 64)) % (1 << 64)
        assert mine[7] == (second - first - (first < second)) % (1 << 64)


SIDE_BY_SIDE = """.version 8.4
.target sm_90
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 sums, .param .u64 halves, .param .u64 old) {
.reg .b64 %d<9>; .reg .b32 %r<9>; .reg .f32 %f<9>; .reg .b16 %h<9>;
ld.param.u64 %d0, [x]; ld.param.u64 %d1, [sums]; ld.param.u64 %d2, [halves]; ld.param.u64 %d3, [old];
mov.u32 %r1, %tid.x; mul.wide.u32 %d4, %r1, 16; add.u64 %d0, %d0, %d4; add.u64 %d3, %d3, %d4;
and.b32 %r2, %r1, 1; mul.wide.u32 %d5, %r2, 16; add.u64 %d1, %d1, %d5;
ld.global.v4.f32 {%f0,%f1,%f2,%f3}, [%d0];
red.global.add.v4.f32 [%d1], {%f0,%f1,%f2,%f3};
atom.global.v2.f32.add {%f4,%f5}, [%d1+32], {%f0,%f1}; st.global.v2.f32 [%d3], {%f4,%f5};
cvt.rn.f16x2.f32 %r3, %f1, %f0; cvt.rn.f16x2.f32 %r4, %f3, %f2;
red.global.v2.f16x2.add.noftz [%d2], {%r3,%r4};
mov.b32 {%h0,%h1}, %r3; cvt.rn.bf16.f16 %h2, %h0; cvt.rn.bf16.f16 %h3, %h1;
st.global.v2.b16 [%d3+8], {%h2,%h3};
ret; }
"""


@engines
def test_sums_of_numbers_side_by_side(engine: str) -> None:
    """Small whole numbers, which any order sums alike."""
    x = RANDOM.integers(-8, 9, (64, 4)).astype(np.float32)
    sums, halves = np.zeros((4, 4), np.float32), np.zeros(4, np.float16)
    old = np.zeros((64, 4), np.float32)
    image = from_cubin(assemble(SIDE_BY_SIDE, "sm_90")[0], "k", "k")
    smlab.run(image, 1, 64, x, sums, halves.view(np.uint64), old, gpu="h100-pcie", engine=engine)
    by_parity = x.reshape(32, 2, 4)
    assert np.array_equal(sums[:2], by_parity.sum(0))
    assert np.array_equal(sums[2:, :2], by_parity[:, :, :2].sum(0))
    assert np.array_equal(halves, x.sum(0))
    assert np.array_equal(old[:2, :2], np.zeros((2, 2)))  # in the order of the lanes
    assert np.array_equal(old[2:4, :2], x[:2, :2])
    assert np.array_equal(
        old[:, 2].copy().view(np.uint32), x[:, 0].view(np.uint32) >> 16 | x[:, 1].view(np.uint32)
    )

"""Kernels of ours in Triton with what today's models call: products with tiles of several sizes and types,
attention, decoding, quantised weights, and products of groups. A card was given their launches."""

# mypy: disable-error-code="no-untyped-def"
# Triton's kernels have no types that Python knows.

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

Call = Callable[[], object]


@triton.jit
def product(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """C = A B, all by rows; programs in groups of eight rows of tiles."""
    program = tl.program_id(0)
    across = tl.cdiv(N, BN)
    first = program // (8 * across) * 8
    height = min(tl.cdiv(M, BM) - first, 8)
    row = (first + program % (8 * across) % height) * BM
    column = program % (8 * across) // height * BN
    at_m, at_n, at_k = row + tl.arange(0, BM), column + tl.arange(0, BN), tl.arange(0, BK)
    left = a + at_m[:, None] * K + at_k[None, :]
    right = b + at_k[:, None] * N + at_n[None, :]
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(0, K, BK):
        total = tl.dot(tl.load(left), tl.load(right), total)
        left += BK
        right += BK * N
    tl.store(c + at_m[:, None] * N + at_n[None, :], total.to(c.dtype.element_ty))


@triton.jit
def persistent_product(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """C = A B^T by descriptors, one program an SM."""
    tiles = tl.cdiv(M, BM) * tl.cdiv(N, BN)
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        row, column = tile // tl.cdiv(N, BN) * BM, tile % tl.cdiv(N, BN) * BN
        total = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, K, BK):
            total = tl.dot(a.load([row, k]), b.load([column, k]).T, total)
        c.store([row, column], total.to(tl.bfloat16))


@triton.jit
def flash(
    q, k, v, out, scale, LENGTH, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr
):
    """Attention of one head and BM queries, by descriptors; scale with log2(e) in it."""
    block = tl.program_id(0) * BM
    base = tl.program_id(1) * LENGTH
    queries = q.load([base + block, 0])
    most = tl.full((BM,), float("-inf"), tl.float32)
    weight = tl.zeros((BM,), tl.float32)
    total = tl.zeros((BM, D), tl.float32)
    rows = block + tl.arange(0, BM)
    end = block + BM if CAUSAL else LENGTH
    for first in range(0, end, BN):
        scores = tl.dot(queries, k.load([base + first, 0]).T) * scale
        if CAUSAL:
            scores = tl.where(rows[:, None] >= first + tl.arange(0, BN)[None, :], scores, float("-inf"))
        now = tl.maximum(most, tl.max(scores, 1))
        p = tl.math.exp2(scores - now[:, None])
        faded = tl.math.exp2(most - now)
        weight = weight * faded + tl.sum(p, 1)
        total = tl.dot(p.to(tl.bfloat16), v.load([base + first, 0]), total * faded[:, None])
        most = now
    out.store([base + block, 0], (total / weight[:, None]).to(tl.bfloat16))


@triton.jit
def decode(q, keys, values, table, out, LENGTH, PAGE: tl.constexpr, D: tl.constexpr, H: tl.constexpr):
    """One query of each of H heads that share keys, over paged keys and values."""
    sequence, group = tl.program_id(0), tl.program_id(1)
    heads, at_d, at_p = tl.arange(0, H), tl.arange(0, D), tl.arange(0, PAGE)
    own = (sequence * tl.num_programs(1) + group) * H * D
    query = tl.load(q + own + heads[:, None] * D + at_d[None, :])
    most = tl.full((H,), float("-inf"), tl.float32)
    weight = tl.zeros((H,), tl.float32)
    total = tl.zeros((H, D), tl.float32)
    for page in range(0, LENGTH // PAGE):
        place = tl.load(table + sequence * (LENGTH // PAGE) + page).to(tl.int64)
        base = (place * tl.num_programs(1) + group) * PAGE * D
        key = tl.load(keys + base + at_p[:, None] * D + at_d[None, :])
        scores = tl.dot(query, key.T) * 0.1275
        now = tl.maximum(most, tl.max(scores, 1))
        p = tl.math.exp2(scores - now[:, None])
        faded = tl.math.exp2(most - now)
        weight = weight * faded + tl.sum(p, 1)
        value = tl.load(values + base + at_p[:, None] * D + at_d[None, :])
        total = total * faded[:, None] + tl.dot(p.to(tl.bfloat16), value)
        most = now
    tl.store(out + own + heads[:, None] * D + at_d[None, :], (total / weight[:, None]).to(tl.bfloat16))


@triton.jit
def quantised(a, b, scales, c, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """BF16 rows by bytes with a scale for each 128 rows of a column."""
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    at_m, at_n, at_k = row + tl.arange(0, BM), column + tl.arange(0, BN), tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        x = tl.load(a + at_m[:, None] * K + k + at_k[None, :])
        y = tl.load(b + (k + at_k)[:, None] * N + at_n[None, :])
        scale = tl.load(scales + k // 128 * N + at_n)
        total += tl.dot(x, y.to(tl.bfloat16)) * scale[None, :]
    tl.store(c + at_m[:, None] * N + at_n[None, :], total.to(tl.bfloat16))


@triton.jit
def of_experts(x, w, y, chosen, expert, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Rows that were sorted by expert, each block of rows by the weights of its own."""
    block, column = tl.program_id(0), tl.program_id(1) * BN
    rows = tl.load(chosen + block * BM + tl.arange(0, BM))
    weights = w + tl.load(expert + block).to(tl.int64) * N * K
    at_n, at_k = column + tl.arange(0, BN), tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        a = tl.load(x + rows[:, None] * K + k + at_k[None, :])
        b = tl.load(weights + at_n[None, :] * K + (k + at_k)[:, None])
        total = tl.dot(a, b, total)
    tl.store(y + rows[:, None] * N + at_n[None, :], total.to(tl.bfloat16))


def calls() -> Iterator[tuple[str, Callable[[], Call]]]:
    """All launches, by name."""
    for m, n, k, tile, warps, stages in (
        (4096, 4096, 4096, (128, 256, 64), 8, 3),
        (4096, 4096, 4096, (128, 128, 64), 4, 4),
        (4096, 4096, 4096, (64, 128, 32), 4, 4),
        (2048, 2048, 2048, (64, 64, 64), 4, 3),
        (1024, 1024, 1024, (128, 128, 64), 8, 3),
        (512, 4096, 14336, (128, 128, 64), 8, 4),
        (64, 4096, 4096, (64, 64, 128), 4, 4),
    ):
        name = "x".join(map(str, (m, n, k, *tile)))
        yield f"product/bf16/{name}", partial(_product, m, n, k, tile, warps, stages, torch.bfloat16)
    for kind, what in ((torch.float32, "tf32"), (torch.float8_e4m3fn, "fp8")):
        shape = (2048, 2048, 2048, (128, 128, 32 if what == "tf32" else 128), 8, 3)
        yield f"product/{what}/2048", partial(_product, *shape, kind)
    for size, tile, warps in ((4096, (128, 256, 64), 8), (4096, (128, 128, 64), 4), (1024, (64, 128, 64), 4)):
        yield f"persistent/{size}/{tile[1]}", partial(_persistent, size, tile, warps)
    for length, width, causal in ((2048, 128, 0), (2048, 64, 0), (4096, 128, 1), (512, 64, 1)):
        yield f"flash/{length}/{width}/{causal}", partial(_flash, length, width, causal)
    for sequences, length in ((64, 2048), (8, 4096)):
        yield f"decode/{sequences}/{length}", partial(_decode, sequences, length)
    for rows in (16, 512):
        yield f"quantised/{rows}", partial(_quantised, rows)
    yield "experts", _experts


def _of(kind: torch.dtype, *shape: int) -> torch.Tensor:
    return torch.randn(shape).to(kind)


def _product(
    m: int, n: int, k: int, tile: tuple[int, int, int], warps: int, stages: int, kind: torch.dtype
) -> Call:
    a, b = _of(kind, m, k), _of(kind, k, n)
    c = torch.zeros(m, n, dtype=torch.float32 if kind == torch.float32 else torch.bfloat16)
    grid = (triton.cdiv(m, tile[0]) * triton.cdiv(n, tile[1]),)
    named: dict[str, Any] = dict(zip(("BM", "BN", "BK"), tile, strict=True))
    return lambda: product[grid](a, b, c, m, n, k, **named, num_warps=warps, num_stages=stages)


def _persistent(size: int, tile: tuple[int, int, int], warps: int) -> Call:
    a, b, c = (_of(torch.bfloat16, size, size) for _ in range(3))
    boxes = ((tile[0], tile[2]), (tile[1], tile[2]), (tile[0], tile[1]))
    maps = [TensorDescriptor.from_tensor(x, list(box)) for x, box in zip((a, b, c), boxes, strict=True)]
    named: dict[str, Any] = dict(zip(("BM", "BN", "BK"), tile, strict=True))
    grid = (min(132, size // tile[0] * (size // tile[1])),)
    return lambda: persistent_product[grid](*maps, size, size, size, **named, num_warps=warps, num_stages=3)


def _flash(length: int, width: int, causal: int) -> Call:
    heads = 16 * 2
    tile = (128, 64 if width == 128 else 128)
    arrays = [_of(torch.bfloat16, heads * length, width) for _ in range(4)]
    boxes = ((tile[0], width), (tile[1], width), (tile[1], width), (tile[0], width))
    maps = [TensorDescriptor.from_tensor(x, list(box)) for x, box in zip(arrays, boxes, strict=True)]
    named: dict[str, Any] = {"D": width, "BM": tile[0], "BN": tile[1], "CAUSAL": causal}
    grid = (length // tile[0], heads)
    scale = 1.4427 * width**-0.5
    return lambda: flash[grid](*maps, scale, length, **named, num_warps=8, num_stages=2)


def _decode(sequences: int, length: int) -> Call:
    groups, heads, page = 8, 16, 64
    pages = sequences * length // page
    q, out = (_of(torch.bfloat16, sequences, groups, heads, 128) for _ in range(2))
    keys, values = (_of(torch.bfloat16, pages, groups, page, 128) for _ in range(2))
    table = torch.randperm(pages, dtype=torch.int32)
    named: dict[str, Any] = {"PAGE": page, "D": 128, "H": heads}
    grid = (sequences, groups)
    return lambda: decode[grid](q, keys, values, table, out, length, **named, num_warps=4, num_stages=3)


def _quantised(rows: int) -> Call:
    n, k = 4096, 4096
    a, c = _of(torch.bfloat16, rows, k), _of(torch.bfloat16, rows, n)
    b, scales = torch.randint(-128, 128, (k, n), dtype=torch.int8), torch.rand(k // 128, n)
    tile = (16 if rows == 16 else 128, 128, 64)
    named: dict[str, Any] = dict(zip(("BM", "BN", "BK"), tile, strict=True))
    grid = (rows // tile[0], n // tile[1])
    return lambda: quantised[grid](a, b, scales, c, n, k, **named, num_warps=4, num_stages=4)


def _experts() -> Call:
    tokens, n, k, experts, tile = 4096, 2048, 2048, 8, (128, 128, 64)
    x, w, y = (
        _of(torch.bfloat16, tokens, k),
        _of(torch.bfloat16, experts, n, k),
        _of(torch.bfloat16, tokens, n),
    )
    chosen = torch.randperm(tokens, dtype=torch.int32)
    expert = torch.arange(tokens // tile[0], dtype=torch.int32) * experts // (tokens // tile[0])
    named: dict[str, Any] = dict(zip(("BM", "BN", "BK"), tile, strict=True))
    grid = (tokens // tile[0], n // tile[1])
    return lambda: of_experts[grid](x, w, y, chosen, expert, n, k, **named, num_warps=8, num_stages=3)

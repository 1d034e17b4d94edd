"""Ten Triton kernels of our own, as material for tests."""

import triton
import triton.language as tl


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


@triton.jit
def softmax(x, out, stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * stride + at, mask=at < columns, other=-float("inf"))
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * stride + at, powers / tl.sum(powers, axis=0), mask=at < columns)


@triton.jit
def layer_norm(x, weight, bias, out, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        value = tl.load(x + row * columns + at, mask=at < columns, other=0.0).to(tl.float32)
        total += value
        squares += value * value
    mean = tl.sum(total, axis=0) / columns
    scale = 1 / tl.sqrt(tl.sum(squares, axis=0) / columns - mean * mean + eps)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        inside = at < columns
        value = tl.load(x + row * columns + at, mask=inside, other=0.0).to(tl.float32)
        factor = tl.load(weight + at, mask=inside)
        shift = tl.load(bias + at, mask=inside)
        tl.store(out + row * columns + at, (value - mean) * scale * factor + shift, mask=inside)


@triton.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    """c = a b, blocks in groups of GROUP rows, so that the operands of a group stay in L2."""
    program = tl.program_id(0)
    rows, columns = tl.cdiv(M, BM), tl.cdiv(N, BN)
    first = program // (GROUP * columns) * GROUP
    height = min(rows - first, GROUP)
    row = first + program % (GROUP * columns) % height
    column = program % (GROUP * columns) // height
    at_m = (row * BM + tl.arange(0, BM)) % M
    at_n = (column * BN + tl.arange(0, BN)) % N
    at_k = tl.arange(0, BK)
    at_a = a + at_m[:, None] * K + at_k[None, :]
    at_b = b + at_k[:, None] * N + at_n[None, :]
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        left = tl.load(at_a, mask=at_k[None, :] < K - k * BK, other=0.0)
        right = tl.load(at_b, mask=at_k[:, None] < K - k * BK, other=0.0)
        total = tl.dot(left, right, total)
        at_a += BK
        at_b += BK * N
    to_m = row * BM + tl.arange(0, BM)
    to_n = column * BN + tl.arange(0, BN)
    inside = (to_m[:, None] < M) & (to_n[None, :] < N)
    tl.store(c + to_m[:, None] * N + to_n[None, :], total.to(c.dtype.element_ty), mask=inside)


@triton.jit
def attention(q, k, v, out, scale, length, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    """Fused attention, forward: a running maximum and a running sum for each row; scale holds log2(e)."""
    at_m = tl.program_id(0) * BM + tl.arange(0, BM)
    at_d = tl.arange(0, D)
    head = tl.program_id(1) * length * D
    query = tl.load(q + head + at_m[:, None] * D + at_d[None, :])
    highest = tl.full((BM,), -float("inf"), tl.float32)
    weights = tl.zeros((BM,), tl.float32)
    total = tl.zeros((BM, D), tl.float32)
    for start in range(0, length, BN):
        at_n = start + tl.arange(0, BN)
        key = tl.load(k + head + at_n[None, :] * D + at_d[:, None])
        value = tl.load(v + head + at_n[:, None] * D + at_d[None, :])
        scores = tl.dot(query, key) * scale
        higher = tl.maximum(highest, tl.max(scores, 1))
        powers = tl.exp2(scores - higher[:, None])
        shrink = tl.exp2(highest - higher)
        weights = weights * shrink + tl.sum(powers, 1)
        total = tl.dot(powers.to(tl.float16), value, total * shrink[:, None])
        highest = higher
    result = total / weights[:, None]
    tl.store(out + head + at_m[:, None] * D + at_d[None, :], result.to(out.dtype.element_ty))


@triton.jit
def dropout(x, out, kept, n, p, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    value = tl.load(x + at, mask=inside)
    drawn = tl.rand(seed, at)
    tl.store(kept + at, drawn, mask=inside)
    tl.store(out + at, tl.where(drawn > p, value / (1 - p), 0.0), mask=inside)


@triton.jit
def reduction(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n, other=0.0)
    tl.atomic_add(out, tl.sum(value, axis=0))


@triton.jit
def transpose(x, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    at_m = tl.program_id(0) * BM + tl.arange(0, BM)
    at_n = tl.program_id(1) * BN + tl.arange(0, BN)
    tile = tl.load(x + at_m[:, None] * N + at_n[None, :], mask=(at_m[:, None] < M) & (at_n[None, :] < N))
    inside = (at_n[:, None] < N) & (at_m[None, :] < M)
    tl.store(out + at_n[:, None] * M + at_m[None, :], tl.trans(tile), mask=inside)


@triton.jit
def histogram(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.atomic_add(out + tl.load(x + at, mask=inside, other=0), 1, mask=inside)


@triton.jit
def quantised(a, b, c, N, K, scale, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """c = scale * (a b), of int8; b is given as its columns."""
    at_m = tl.program_id(0) * BM + tl.arange(0, BM)
    at_n = tl.program_id(1) * BN + tl.arange(0, BN)
    at_k = tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.int32)
    for k in range(0, K, BK):
        left = tl.load(a + at_m[:, None] * K + (k + at_k)[None, :])
        right = tl.load(b + (k + at_k)[:, None] + at_n[None, :] * K)
        total = tl.dot(left, right, total)
    tl.store(c + at_m[:, None] * N + at_n[None, :], total.to(tl.float32) * scale)


@triton.jit
def gather_rows(table, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    row = tl.load(table + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    tl.store(out + tl.program_id(0) * n + i, tl.load(row + i, mask=i < n), mask=i < n)

"""Kernels of our own with what Triton's tutorials 03 (grouped product), 05 (layer norm) and 06 (attention)
call: autotuners, a function by name, locks, block pointers, passes over a causal mask."""

import triton
import triton.language as tl


def configurations():
    shapes = [(64, 64, 32, 4, 3), (32, 64, 32, 2, 4), (64, 32, 64, 4, 2)]
    return [
        triton.Config({"BM": m, "BN": n, "BK": k, "GROUP": 8}, num_warps=w, num_stages=s)
        for m, n, k, w, s in shapes
    ]


@triton.jit
def leaky_relu(x):
    return tl.where(x >= 0, x, 0.01 * x)


@triton.autotune(configs=configurations(), key=["M", "N", "K"])
@triton.jit
def grouped_product(
    a, b, c, M, N, K, am, ak, bk, bn, cm, cn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, ACTIVATION: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(axis=0)
    columns = tl.cdiv(N, BN)
    group = program // (GROUP * columns)
    height = min(tl.cdiv(M, BM) - group * GROUP, GROUP)
    row = group * GROUP + (program % (GROUP * columns)) % height
    column = (program % (GROUP * columns)) // height
    tl.assume(row >= 0)
    tl.assume(am > 0)
    at_m = (row * BM + tl.arange(0, BM)) % M
    at_n = (column * BN + tl.arange(0, BN)) % N
    at_k = tl.arange(0, BK)
    left = a + (at_m[:, None] * am + at_k[None, :] * ak)
    right = b + (at_k[:, None] * bk + at_n[None, :] * bn)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        x = tl.load(left, mask=at_k[None, :] < K - k * BK, other=0.0)
        y = tl.load(right, mask=at_k[:, None] < K - k * BK, other=0.0)
        total = tl.dot(x, y, total)
        left += BK * ak
        right += BK * bk
    if ACTIVATION == "leaky_relu":
        total = leaky_relu(total)
    to_m = row * BM + tl.arange(0, BM)
    to_n = column * BN + tl.arange(0, BN)
    to = c + cm * to_m[:, None] + cn * to_n[None, :]
    tl.store(to, total.to(tl.float16), mask=(to_m[:, None] < M) & (to_n[None, :] < N))


@triton.jit
def layer_norm(x, y, w, b, mean, rstd, stride, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x += row * stride
    y += row * stride
    sums = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, N, BLOCK):
        at = start + tl.arange(0, BLOCK)
        sums += tl.load(x + at, mask=at < N, other=0.0).to(tl.float32)
    middle = tl.sum(sums, axis=0) / N
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, N, BLOCK):
        at = start + tl.arange(0, BLOCK)
        value = tl.load(x + at, mask=at < N, other=0.0).to(tl.float32)
        value = tl.where(at < N, value - middle, 0.0)
        squares += value * value
    scale = 1 / tl.sqrt(tl.sum(squares, axis=0) / N + eps)
    tl.store(mean + row, middle)
    tl.store(rstd + row, scale)
    for start in range(0, N, BLOCK):
        at = start + tl.arange(0, BLOCK)
        inside = at < N
        value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
        factor, shift = tl.load(w + at, mask=inside), tl.load(b + at, mask=inside)
        tl.store(y + at, (value - middle) * scale * factor + shift, mask=inside)


@triton.jit
def layer_norm_gradients(
    dx, dy, dw, db, x, w, mean, rstd, locks, stride, N, GROUPS: tl.constexpr, BLOCK: tl.constexpr
):
    """Gradients; those of the weights are summed in a few rows, each under a lock."""
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < N
    own = row % GROUPS
    lock, first = locks + own, locks + GROUPS + own
    value = tl.load(x + row * stride + at, mask=inside, other=0).to(tl.float32)
    slope = tl.load(dy + row * stride + at, mask=inside, other=0).to(tl.float32)
    factor = tl.load(w + at, mask=inside).to(tl.float32)
    scale = tl.load(rstd + row)
    normal = tl.where(inside, (value - tl.load(mean + row)) * scale, 0.0)
    weighted = tl.where(inside, factor * slope, 0.0)
    c1 = tl.sum(normal * weighted, axis=0) / N
    c2 = tl.sum(weighted, axis=0) / N
    tl.store(dx + row * stride + at, (weighted - (normal * c1 + c2)) * scale, mask=inside)
    part_w, part_b = slope * normal, slope
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    count = tl.load(first)
    if count == 0:
        tl.atomic_xchg(first, 1)
    else:
        part_w += tl.load(dw + own * N + at, mask=inside)
        part_b += tl.load(db + own * N + at, mask=inside)
    tl.store(dw + own * N + at, part_w, mask=inside)
    tl.store(db + own * N + at, part_b, mask=inside)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def _inner(
    total, weights, highest, q, keys, values, start_m, scale,
    at_m, at_n, N, BM: tl.constexpr, BN: tl.constexpr, STAGE: tl.constexpr,
):  # fmt: skip
    """Columns before the diagonal (1), on it (2), or all (3)."""
    if STAGE == 1:
        low, high = 0, start_m * BM
    elif STAGE == 2:
        low, high = start_m * BM, (start_m + 1) * BM
        low = tl.multiple_of(low, BM)
    else:
        low, high = 0, N
    keys = tl.advance(keys, (0, low))
    values = tl.advance(values, (low, 0))
    for start in range(low, high, BN):
        start = tl.multiple_of(start, BN)
        scores = tl.dot(q, tl.load(keys))
        if STAGE == 2:
            seen = at_m[:, None] >= (start + at_n[None, :])
            scores = scores * scale + tl.where(seen, 0, -1.0e6)
            higher = tl.maximum(highest, tl.max(scores, 1))
            scores -= higher[:, None]
        else:
            higher = tl.maximum(highest, tl.max(scores, 1) * scale)
            scores = scores * scale - higher[:, None]
        powers = tl.math.exp2(scores)
        shrink = tl.math.exp2(highest - higher)
        weights = weights * shrink + tl.sum(powers, 1)
        total = total * shrink[:, None]
        total = tl.dot(powers.to(tl.float16), tl.load(values), total)
        highest = higher
        values = tl.advance(values, (BN, 0))
        keys = tl.advance(keys, (0, BN))
    return total, weights, highest


def fits(configurations, arguments, **more):
    """Those whose rows are a multiple of their columns."""
    return [c for c in configurations if c.kwargs["BM"] % c.kwargs["BN"] == 0]


_TILES = [(32, 64), (64, 32), (64, 64)]


@triton.autotune(
    configs=[triton.Config({"BM": m, "BN": n}, num_stages=3, num_warps=4) for m, n in _TILES],
    key=["N", "HEAD"],
    prune_configs_by={"early_config_prune": fits},
)
@triton.jit
def fused_attention(
    q, k, v, scale, logs, out, heads, N,
    HEAD: tl.constexpr, STAGE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    tl.static_assert(BN <= HEAD)
    start_m, place = tl.program_id(0), tl.program_id(1)
    base = (place // heads).to(tl.int64) * heads * N * HEAD + (place % heads).to(tl.int64) * N * HEAD
    query = tl.make_block_ptr(q + base, (N, HEAD), (HEAD, 1), (start_m * BM, 0), (BM, HEAD), (1, 0))
    values = tl.make_block_ptr(v + base, (N, HEAD), (HEAD, 1), (0, 0), (BN, HEAD), (1, 0))
    keys = tl.make_block_ptr(k + base, (HEAD, N), (1, HEAD), (0, 0), (HEAD, BN), (0, 1))
    result = tl.make_block_ptr(out + base, (N, HEAD), (HEAD, 1), (start_m * BM, 0), (BM, HEAD), (1, 0))
    at_m, at_n = start_m * BM + tl.arange(0, BM), tl.arange(0, BN)
    highest = tl.zeros([BM], dtype=tl.float32) - float("inf")
    weights = tl.zeros([BM], dtype=tl.float32) + 1.0
    total = tl.zeros([BM, HEAD], dtype=tl.float32)
    scale *= 1.44269504
    rows = tl.load(query)
    if STAGE & 1:
        total, weights, highest = _inner(
            total, weights, highest, rows, keys, values, start_m, scale, at_m, at_n, N, BM, BN, 4 - STAGE
        )
    if STAGE & 2:
        total, weights, highest = _inner(
            total, weights, highest, rows, keys, values, start_m, scale, at_m, at_n, N, BM, BN, 2
        )
    highest += tl.math.log2(weights)
    total = total / weights[:, None]
    tl.store(logs + place * N + at_m, highest)
    tl.store(result, total.to(out.type.element_ty))

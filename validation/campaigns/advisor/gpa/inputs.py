"""The arrays of the kernels of GPA's benchmark that no launch file makes by itself: as the benchmark's
programs make or read them, or drawn by us where the authors' files are not at hand (``about.toml`` says
which)."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

SEED: Final = 18
Arrays = dict[str, NDArray[Any]]


def _gpa_bfs() -> Arrays:
    """A random graph as Rodinia's generator draws it (1,000,000 nodes, 2 to 4 edges drawn by each, both ends
    list them), and the state of a search from node 0 before the level with the largest frontier."""
    random = np.random.default_rng(SEED)
    nodes = 1_000_000
    drawn = random.integers(2, 5, nodes)
    source = np.repeat(np.arange(nodes), drawn)
    target = random.integers(0, nodes, source.size)
    owner = np.stack([source, target], 1).ravel()
    other = np.stack([target, source], 1).ravel()
    neighbours = other[np.argsort(owner, kind="stable")].astype(np.int32)
    degree = np.bincount(owner, minlength=nodes)
    first = np.cumsum(degree) - degree
    cost = np.full(nodes, -1, np.int32)
    cost[0] = 0
    front, level, largest = np.array([0]), 0, (0, 0)
    while front.size:
        largest = max(largest, (front.size, level))
        many = degree[front]
        ends = np.cumsum(many)
        edges = np.arange(ends[-1]) + np.repeat(first[front] - (ends - many), many)
        seen = np.unique(neighbours[edges])
        front = seen[cost[seen] < 0]
        level += 1
        cost[front] = level
    at = largest[1]
    return {
        "vertices": np.stack([first, degree], 1).astype(np.int32),
        "neighbours": neighbours,
        "frontier": cost == at,
        "reached": (cost >= 0) & (cost <= at),
        "cost": np.where(cost <= at, cost, -1).astype(np.int32),
    }


def _gpa_btree() -> Arrays:
    """The B+ tree of order 256 that holds 0 to 999,999, inserted in that order (as the benchmark's file has
    them), level by level; and the ranges of 6000 queries of 3000 keys, by the C library's rand() unseeded."""
    keys, order = 1_000_000, 256
    sizes = [0]
    for _ in range(keys):
        sizes[-1] += 1
        if sizes[-1] == order:
            sizes[-1:] = [order // 2, order // 2]
    leaf_from = np.cumsum([0, *sizes[:-1]])
    children = [0]
    for _ in sizes:
        children[-1] += 1
        if children[-1] > order:
            children[-1:] = [order // 2, children[-1] - order // 2]
    inner = len(children)
    child_from = np.cumsum([0, *children[:-1]])
    tree = np.zeros((1 + inner + len(sizes), 2 * order + 5), np.int32)
    tree[:, 0] = np.arange(len(tree))
    below, key = tree[:, 1 : order + 2], tree[:, order + 2 : 2 * order + 3]
    key[:, 0], key[:, 1:order] = np.iinfo(np.int32).min, np.iinfo(np.int32).max
    # Of k children or records, the slots 1.. have the first keys of all (a leaf) or of all but the first.
    parts = [(0, leaf_from[child_from[1:]], np.arange(1, 1 + inner), 0)]
    for n, (at, many) in enumerate(zip(child_from, children, strict=True)):
        parts.append((1 + n, leaf_from[at + 1 : at + many], 1 + inner + np.arange(at, at + many), 0))
    for n, (at, many) in enumerate(zip(leaf_from, sizes, strict=True)):
        records = np.arange(at, at + many)
        parts.append((1 + inner + n, records, np.concatenate([[0], records]), 1))
    for node, inside, points, leaf in parts:
        filled = inside.size + 2
        key[node, 1 : filled - 1] = inside
        key[node, filled - 1] = np.iinfo(np.int32).max
        below[node, : filled - 1] = points
        below[node, filled - 1] = node + 1
        tree[node, -2:] = leaf, filled
    queries, span = 6000, 3000
    drawn = np.array(_c_rand(queries), np.float32) / np.float32(2147483647)
    low = (drawn * np.float32(keys)).astype(np.int32)
    over = low + span >= keys
    high = np.where(over, keys - 1, low + span).astype(np.int32)
    low = np.where(over, low - (low + span - keys), low).astype(np.int32)
    return {"tree": tree, "low": low, "high": high}


def _c_rand(many: int) -> list[int]:
    """The first numbers of glibc's rand() with seed 1."""
    state = [1]
    for _ in range(30):
        state.append(16807 * state[-1] % 2147483647)
    for i in range(31, 344 + many):
        state.append((state[i - 31] if i < 34 else state[i - 3] + state[i - 31]) & 0xFFFFFFFF)
    return [value >> 1 for value in state[344:]]


def _gpa_gaussian() -> Arrays:
    """The benchmark's own matrix (10 exp(-0.01 |i - j|), right-hand side of ones) of size 1024 after 433
    steps of the elimination, with the factors of the step that follows."""
    size, steps = 1024, 433
    line = (10 * np.exp(np.float64(np.float32(-0.01)) * np.arange(size))).astype(np.float32)
    distance = np.arange(size)
    matrix = line[np.abs(distance[:, None] - distance)]
    rhs = np.ones(size, np.float32)
    factors = np.zeros((size, size), np.float32)
    for t in range(steps + 1):
        factors[t + 1 :, t] = matrix[t + 1 :, t] / matrix[t, t]
        if t < steps:
            matrix[t + 1 :, t:] -= factors[t + 1 :, t, None] * matrix[t, t:]
            rhs[t + 1 :] -= factors[t + 1 :, t] * rhs[t]
    return {"factors": factors, "matrix": matrix, "rhs": rhs}


def _gpa_huffman() -> Arrays:
    """1 MiB of bytes whose entropy is 2.2066 bits (the authors' file is not at hand, its name tells the
    entropy): sixteen symbols with geometrically falling shares, four in a word, and the Huffman code of
    them."""
    random = np.random.default_rng(SEED)
    low, high = 0.1, 0.99
    for _ in range(60):  # the ratio of neighbouring shares that gives the entropy
        ratio = (low + high) / 2
        share = ratio ** np.arange(16)
        share /= share.sum()
        entropy = -(share * np.log2(share)).sum()
        low, high = (ratio, high) if entropy < 2.206587175259 else (low, ratio)
    symbols = random.permutation(np.arange(97, 113))
    text = symbols[random.choice(16, size=1 << 20, p=share)].astype(np.uint8)
    bits, lengths = _huffman_code(np.bincount(text, minlength=256))
    return {"source": text.view(">u4").astype(np.uint32), "table_bits": bits, "table_lengths": lengths}


def _huffman_code(counts: NDArray[np.int64]) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Codewords and their lengths for 256 symbols by how often each comes; 0 bits for one that never does."""
    heap: list[tuple[int, int, tuple[int, ...]]] = [
        (int(count), symbol, (symbol,)) for symbol, count in enumerate(counts) if count
    ]
    heapq.heapify(heap)
    bits, lengths = np.zeros(256, np.uint32), np.zeros(256, np.uint32)
    while len(heap) > 1:
        (few, _, zeros), (more, name, ones) = heapq.heappop(heap), heapq.heappop(heap)
        for symbol in zeros + ones:
            bits[symbol] |= np.uint32((symbol in ones) << int(lengths[symbol]))
            lengths[symbol] += 1
        heapq.heappush(heap, (few + more, name, zeros + ones))
    return bits, lengths


def _gpa_lavamd() -> Arrays:
    """The boxes of a cube of 10 x 10 x 10 (656 bytes each: place, number, offset of the first particle, and
    up to 26 neighbours of 24 bytes, in the authors' order), with 100 particles in each. Places and charges
    are tenths from 0.1 to 1.0, as the authors draw them."""
    side, each = 10, 100
    random = np.random.default_rng(SEED)
    box = np.zeros((side**3, 164), np.int32)
    steps = [(z, y, x) for z in (-1, 0, 1) for y in (-1, 0, 1) for x in (-1, 0, 1) if (z, y, x) != (0, 0, 0)]
    for number, (z, y, x) in enumerate(np.ndindex(side, side, side)):
        box[number, :5] = x, y, z, number, number * each
        found = 0
        for dz, dy, dx in steps:
            there = z + dz, y + dy, x + dx
            if min(there) >= 0 and max(there) < side:
                other = (there[0] * side + there[1]) * side + there[2]
                at = 8 + 6 * found
                box[number, at : at + 5] = there[2], there[1], there[0], other, other * each
                found += 1
        box[number, 6] = found
    place = (random.integers(1, 11, (side**3 * each, 4)) / 10).astype(np.float64)
    charge = (random.integers(1, 11, side**3 * each) / 10).astype(np.float64)
    return {"box": box, "place": place, "charge": charge}


ELEMENTS, PADDED = 97046, 506 * 192
"""Elements of the authors' mesh, and rounded up to whole blocks of 192."""


def _gpa_cfd() -> Arrays:
    """A mesh of 97,046 tetrahedra in a box around a bluff body, drawn by us in place of fvcorr.domn.097K:
    moved cubes of six tetrahedra each, numbered bin by bin and at random within a bin; a flow near the free
    stream of Mach 1.2; and what the far field adds, in constant memory."""
    random = np.random.default_rng(SEED)
    neighbours, normals = _tetrahedra(random)
    pad = np.minimum(np.arange(PADDED), ELEMENTS - 1)  # the last element again and again
    free = np.array([1.4, 1.4 * 1.2, 0.0, 0.0, 1.4 * 0.5 * 1.2**2 + 1.0 / 0.4])
    noise = random.normal(0.0, 1.0, (5, ELEMENTS)) * np.array([[0.05], [0.08], [0.08], [0.08], [0.1]])
    speed, pressure = np.array([1.2, 0.0, 0.0]), 1.0
    flux = np.outer(speed, free[1:4]) + pressure * np.eye(3)
    return {
        "neighbour_of": neighbours[pad].T.astype(np.int32),
        "normals": normals[pad].transpose(2, 1, 0).reshape(12, PADDED).astype(np.float32),
        "variables": (free[:, None] + noise)[:, pad].astype(np.float32),
        "far_variable": free.astype(np.float32),
        "far_momentum_x": flux[0].astype(np.float32),
        "far_momentum_y": flux[1].astype(np.float32),
        "far_momentum_z": flux[2].astype(np.float32),
        "far_energy": (speed * (free[4] + pressure)).astype(np.float32),
    }


def _tetrahedra(random: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Neighbours by face (-1 on the body, -2 on the outside) and outward area vectors by face, of the mesh's
    elements in the order of their numbers."""
    shape = np.array([26, 25, 25])
    cubes = np.array(list(np.ndindex(*shape)))
    inside = ((cubes >= [9, 10, 11]) & (cubes < [14, 15, 14])).all(1)
    cubes = cubes[~inside]
    paths = np.array([(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)])
    steps = np.concatenate([np.zeros((6, 1, 3), int), np.cumsum(np.eye(3, dtype=int)[paths], axis=1)], axis=1)
    corners = (cubes[:, None, None, :] + steps[None]).reshape(-1, 4, 3)
    of_cube = np.repeat(np.arange(len(cubes)), 6)
    bins = cubes[of_cube] // 3
    order = np.lexsort((random.random(len(corners)), bins[:, 2], bins[:, 1], bins[:, 0]))[:ELEMENTS]
    corners = corners[order]
    node = (corners[..., 0] * 26 + corners[..., 1]) * 26 + corners[..., 2]
    places = np.array(list(np.ndindex(27, 26, 26))) + random.uniform(-0.2, 0.2, (27 * 26 * 26, 3))
    faces = np.array([(1, 2, 3), (0, 2, 3), (0, 1, 3), (0, 1, 2)])
    of_face = np.sort(node[:, faces], axis=-1).reshape(-1, 3)
    key = (of_face[:, 0] * 20000 + of_face[:, 1]) * 20000 + of_face[:, 2]
    by_key = np.argsort(key, kind="stable")
    twice = np.flatnonzero(key[by_key][1:] == key[by_key][:-1])
    neighbours = np.full(4 * ELEMENTS, -2)
    one, two = by_key[twice], by_key[twice + 1]
    neighbours[one], neighbours[two] = two // 4, one // 4
    centre = corners[:, faces].mean(2).reshape(-1, 3)
    near_body = ((centre > [8.9, 9.9, 10.9]) & (centre < [14.1, 15.1, 14.1])).all(1)
    neighbours[(neighbours == -2) & near_body] = -1
    a, b, c = (places[node[:, faces[:, k]]] for k in range(3))
    areas = 0.5 * np.cross(b - a, c - a)
    inward = ((a - places[node].mean(1)[:, None]) * areas).sum(-1) < 0
    areas[inward] *= -1.0
    mixed = np.argsort(random.random((ELEMENTS, 4)), axis=1)  # faces in no order
    neighbours = np.take_along_axis(neighbours.reshape(-1, 4), mixed, 1)
    return neighbours, np.take_along_axis(areas, mixed[..., None], 1)


ENDO_ROWS = (
    369,
    400,
    429,
    452,
    476,
    486,
    479,
    458,
    433,
    404,
    374,
    346,
    318,
    294,
    277,
    269,
    275,
    287,
    311,
    339,
)
ENDO_COLS = (
    408,
    406,
    397,
    383,
    354,
    322,
    294,
    270,
    250,
    237,
    235,
    241,
    254,
    273,
    300,
    328,
    356,
    383,
    401,
    411,
)
EPI_ROWS = (
    *(
        390,
        419,
        448,
        474,
        501,
        519,
        535,
        542,
        543,
        538,
        528,
        511,
        491,
        466,
        438,
        406,
        376,
        347,
        318,
        291,
        275,
    ),
    *(259, 256, 252, 252, 257, 266, 283, 305, 331, 360),
)
EPI_COLS = (
    *(
        457,
        454,
        446,
        431,
        411,
        388,
        361,
        331,
        301,
        273,
        243,
        218,
        196,
        178,
        166,
        157,
        155,
        165,
        177,
        197,
        218,
    ),
    *(248, 276, 304, 333, 361, 391, 415, 434, 448, 455),
)
HEART_FRAMES, HEART_FRAME = 104, 5
"""Frames of the authors' video, and the one that is launched."""


def _gpa_heartwall() -> Arrays:
    """Sixth frame of a video of 104 (590 rows, 609 columns, by columns) with the authors' 20 + 31 points and
    their sizes. The frame is drawn by us: blurred noise of 0 to 255 that has moved by one row down and two
    columns left since the first frame, of which the templates are."""
    random = np.random.default_rng(SEED)
    rows, cols, half = 590, 609, 25
    image = random.random((cols, rows))
    for axis in (0, 1):
        image = np.sum([np.roll(image, step, axis) for step in range(-4, 5)], axis=0)
    image = (image - image.min()) / (image.max() - image.min()) * 245
    first = np.floor(image)
    frame = np.floor(np.roll(image, (-2, 1), (0, 1)) + random.uniform(0.0, 10.0, image.shape))
    at_row, at_col = np.array(ENDO_ROWS + EPI_ROWS, np.int32), np.array(ENDO_COLS + EPI_COLS, np.int32)
    templates = np.stack(
        [first[c - half - 1 : c + half, r - half - 1 : r + half] for r, c in zip(at_row, at_col, strict=True)]
    )
    found_rows = np.repeat(at_row[:, None], HEART_FRAMES, 1)  # as the frames before found them
    found_cols = np.repeat(at_col[:, None], HEART_FRAMES, 1)
    found_rows[:, HEART_FRAME - 1] += 1
    found_cols[:, HEART_FRAME - 1] -= 1
    found_rows[:, HEART_FRAME:] = found_cols[:, HEART_FRAME:] = 0
    size, point = _heart_sizes()
    return {
        "frame": frame.astype(np.float32),
        "rows": at_row,
        "cols": at_col,
        "found_rows": found_rows.astype(np.int32),
        "found_cols": found_cols.astype(np.int32),
        "templates": templates.reshape(51, -1).astype(np.float32),
        "size": size,
        "point": point,
    }


def _heart_sizes() -> tuple[NDArray[np.int32], NDArray[np.uint64]]:
    """The sizes as the authors' program works them out, and the 51 points' own offsets in bytes."""
    reach, half, most = 40, 25, 10
    inner, area = 2 * half + 1, 2 * reach + 1
    conv, pad = inner + area - 1, area + 2 * inner
    low = pad - 1 - (1 + inner) + 1  # rows of a strip, and both sides of a sum
    keep = int(np.float32(0.87).view(np.int32))
    offset = (most - 1) // 2 + (most - 1) % 2
    size = [reach, half, keep, HEART_FRAME, HEART_FRAMES, 590]
    size += [inner, inner, inner**2, area, area, area**2, conv, conv**2, 0, 0, inner, inner]
    size += [pad, pad, pad**2, low, low * pad, 1 + inner, 1, 1, 1, low, low * pad]
    size += [low, low**2, 1, 1 + inner, 1, 1, low, low**2]
    size += [area, area, area**2, inner, inner, inner**2, conv, conv, conv**2, most, most]
    size += [conv, conv, conv**2, offset, offset]
    elements = {
        **{"area": area**2, "conv": conv**2, "pad": pad**2, "low": low * pad, "strip": low * pad},
        **{"right": low**2, "sum": low**2, "square": area**2, "square_sum": low**2},
        **{"in_square": inner**2, "dot": conv**2, "fit": conv**2},
    }
    point, at = np.zeros((51, 18), np.uint64), 0
    for number in range(51):
        epi = number >= 20
        own, before = (number - 20, 20) if epi else (number, 0)
        of_frames, of_templates = 4 * HEART_FRAMES * before, 4 * inner**2 * before
        point[number, :5] = 4 * before, 4 * before, of_frames, of_frames, of_templates
        point[number, 5:6].view(np.int32)[:] = own, own * inner**2
    for k, many in enumerate(elements.values()):  # array by array, each at 512 bytes as from cudaMalloc
        for number in range(51):
            point[number, 6 + k] = at
            at += -(-4 * many // 512) * 512
    return np.array(size, np.int32), point


def _gpa_lud() -> Arrays:
    """The symmetric matrix that lud's program makes itself: 10 exp(-0.001 |row - column|)."""
    n = np.arange(256)
    fall = (10 * np.exp(-0.001 * n)).astype(np.float32)
    return {"matrix": fall[np.abs(n[:, None] - n[None, :])]}


def _needleman_wunsch(
    similarity: NDArray[np.int32], gap: int, last_tile_diagonal: int, tile: int = 16
) -> NDArray[np.int32]:
    """Scores of all tiles up to an anti-diagonal of tiles (counted from 1); the others are 0, the border is
    filled."""
    size = similarity.shape[0]
    scores = np.zeros((size, size), np.int32)
    scores[:, 0] = scores[0, :] = -gap * np.arange(size)
    flat, like = scores.ravel(), similarity.ravel()
    for total in range(2, 2 * size - 1):
        row = np.arange(max(1, total - size + 1), min(size - 1, total - 1) + 1)
        column = total - row
        row = row[(row - 1) // tile + (column - 1) // tile < last_tile_diagonal]
        if not row.size:
            continue
        at = row * size + (total - row)
        flat[at] = np.maximum(
            np.maximum(flat[at - size - 1] + like[at], flat[at - 1] - gap), flat[at - size] - gap
        )
    return scores


def _gpa_nw() -> Arrays:
    """Two random sequences of ten letters with a table of similarities as proteins have it, and the scores of
    all tiles north-west of the 128th anti-diagonal of tiles."""
    random = np.random.default_rng(SEED)
    table = np.triu(random.integers(-4, 3, (10, 10)), 1)
    table = table + table.T + np.diag(random.integers(4, 10, 10))
    first, second = random.integers(0, 10, (2, 2048))
    similarity = np.zeros((2049, 2049), np.int32)
    similarity[1:, 1:] = table[first[:, None], second[None, :]]
    return {"similarity": similarity, "scores": _needleman_wunsch(similarity, 10, 127)}


def _gpa_particlefilter() -> Arrays:
    """The video that the program makes (a disk that moves on a background, with noise cut to whole numbers),
    the pixels of the object (a disk of radius 5), particles in the middle and their seeds, multiples of a
    time."""
    random = np.random.default_rng(SEED)
    size, frames = 128, 10
    video = np.full((size, size, frames), 100, np.int64)
    u, v = np.mgrid[:size, :size]
    for frame in range(frames):
        moved = max(0, frame - 1)
        row, column = (64 - 2 * moved, 64 + moved) if frame else (64, 64)
        video[(u - row) ** 2 + (v - column) ** 2 < 25, frame] = 228
    video += np.trunc(random.normal(0.0, 5.0, video.shape)).astype(np.int64)
    across, down = np.mgrid[:9, :9]
    inside = (across - 4) ** 2 + (down - 4) ** 2 < 25
    objects = np.stack([down[inside] - 4, across[inside] - 4], 1).astype(np.int32).ravel()
    seeds = (1_600_000_000 * np.arange(1000, dtype=np.int64)).astype(np.int32)
    seeds[0] = random.integers(1, 2**31 - 1)
    return {
        "video": (video & 255).astype(np.uint8).ravel(),
        "object": objects,
        "old_x": np.full(1000, 64.0),
        "old_y": np.full(1000, 64.0),
        "seeds": seeds,
    }


def _gpa_streamcluster() -> Arrays:
    """1024 points in 256 dimensions, from 0 to 1 as the program draws them; 10 of them, drawn at random, are
    centres, and each point has the nearest one. A point is 32 bytes: weight, address (not used), centre,
    cost."""
    random = np.random.default_rng(SEED)
    points, dimensions, many = 1024, 256, 10
    coordinates = random.random((dimensions, points), dtype=np.float32)
    centres = np.sort(random.choice(points, many, replace=False))
    numbers = np.zeros(points, np.int32)
    numbers[centres] = np.arange(many)
    far = ((coordinates[:, :, None] - coordinates[:, None, centres]) ** 2).sum(0)
    point = np.zeros(
        points,
        np.dtype(
            [
                ("weight", "<f4"),
                ("_", "<u4"),
                ("coordinates", "<u8"),
                ("centre", "<i8"),
                ("cost", "<f4"),
                ("__", "<u4"),
            ]
        ),
    )
    point["weight"] = 1.0
    point["centre"] = centres[far.argmin(1)]
    point["cost"] = far.min(1)
    return {
        "coordinates": coordinates,
        "centre_number": numbers,
        "point": point.view(np.uint32).reshape(points, 8),
    }


TENSOR = (35, 12, 11, 9, 16, 12)
"""The six dimensions. The authors' are 35, 12, 11, 9, 76, 50: same tiles, but 34,200 of them (2.5 GB)."""


def _gpa_exatensor() -> Arrays:
    """Sizes, their reciprocals and strides of a transposition 1,2,3,4,5,6 -> 2,3,4,6,1,5."""
    d1, d2, d3, d4, d5, d6 = TENSOR
    outer, inner = np.array([d4, d5, d6], np.int32), np.array([d2, d3, d1], np.int32)
    return {
        "outer_size": outer,
        "inner_size": inner,
        "outer_reciprocal": (1.0 / outer).astype(np.float32),
        "inner_reciprocal": (1.0 / inner).astype(np.float32),
        "outer_stride": np.array([d2 * d3, d2 * d3 * d4 * d6 * d1, d2 * d3 * d4], np.int32),
        "tile_stride": np.array([d1, d1 * d2, 1], np.int32),
        "inner_stride": np.array([1, d2, d2 * d3 * d4 * d6], np.int32),
    }


CELL: Final = """
1.3705539e-3 9.8714218e-1 9.9182408e-1 6.9968275e-6 1.0006761 2.5800244e-2 1.5606144e-2 4.0110808e-3
3.1904893e-1 4.0110456e-3 9.9463216e-1 8.4705483e-3 6.0394891e-3 8.8875021e-1 8.2057663e-7 1.0271527e-7
3.5547650 7.7561711e-1 9.0782945e-3 1.1836625e-1 1.0156121e-2 2.5328101e-4 2.0087204e-3 1.3747360e-1
2.2097020e-3 7.7737983e-3 1.0124416e-2 7.5692786e-2 1.1608535e-1 1.2509040 5.6109998e-1 8.8597621 8.8611627
8.8615763 1.35e2 1.8394727e-4 1.0924132e-4 8.8935135e-5 -8.5719165e1 4.1071583e-1 0 0 1.7483040e4
-1.4677756e4 -1.6869784e5 1.6590486e5 3.8674011e2 6.0137654 2.1665981e-3 0 0 0 5.2910875e-1 3.1783490e-2
7.1017447e-6 2.8316127e-9 2.3444660e-9 1.3282361e-4 4.3772286e-3 1.2450156e-2 3.6005070 4.3833441e-2
5.4727484e-5 8.6054033e-9 2.3715335 1.3105350e1 2.7224584e-4 1.1056849e-5 9.5203944e-6 1.3418139e-7
1.4654302e-12 8.8079626e-9 5.6863655e-4 2.1354933e-6 5.6653572e-6 1.3743596e-3 4.3580316e-2 3.8789477e-5
5.5612103e-10 4.1446 1.1342721 1.5613769e-5 7.7666417e-6 4.5935002e-8 3.0629005e-13 3.2828882e-18
2.0356103e-14 1.2025051e-4 4.4862898e-7 1.7078402e-7 8.1327361e-7
"""
"""The state in which the benchmark's cells begin: gates, concentrations, potential, three compartments'
calmodulin."""

CELLS, STEPS = 100, 2


def _gpa_myocyte() -> Arrays:
    """The first state of 100 equal cells, and their parameters (18 each: totals of calmodulin, buffer,
    CaMKII, calcineurin and PP1 in dyad, membrane and cytosol, milliseconds of a cycle, potassium,
    magnesium)."""
    state = np.array(CELL.split(), np.float64).astype(np.float32)
    y = np.zeros((CELLS, STEPS + 1, state.size), np.float32)
    y[:, 0] = state
    small = 8.293e-4
    one = [
        418,
        1.54 / small,
        120,
        3e-3 / small,
        96.5,
        *[5.65, 24.2, 120 * small, 3e-3, 0.57] * 2,
        1000,
        135,
        1,
    ]
    return {"y": y, "parameters": np.tile(np.array(one, np.float32), (CELLS, 1))}


DRAWN: Final[Mapping[str, Callable[[], Arrays]]] = {
    "gpa_bfs": _gpa_bfs,
    "gpa_btree": _gpa_btree,
    "gpa_cfd": _gpa_cfd,
    "gpa_exatensor_memory": _gpa_exatensor,
    "gpa_exatensor_strength": _gpa_exatensor,
    "gpa_gaussian": _gpa_gaussian,
    "gpa_heartwall": _gpa_heartwall,
    "gpa_huffman": _gpa_huffman,
    "gpa_lavamd": _gpa_lavamd,
    "gpa_lud": _gpa_lud,
    "gpa_myocyte_fastmath": _gpa_myocyte,
    "gpa_nw": _gpa_nw,
    "gpa_particlefilter": _gpa_particlefilter,
    "gpa_streamcluster": _gpa_streamcluster,
}
"""By kernel, what makes its arrays by name."""

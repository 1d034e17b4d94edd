"""The arrays of the kernels in `pairs` that no launch file makes by itself: drawn with their author's seed,
in their author's order."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from smlab.validation.campaigns.advisor.gpa.inputs import DRAWN

SEED: Final = 7
HASH: Final = 2654435761
"""Knuth's multiplier, as `hash_join_probe` has it."""
Arrays = dict[str, NDArray[Any]]


def write_inputs(pair: str, folder: Path) -> None:
    """Write a kernel's arrays (.npy) beside its launch files; most have none."""
    made = DRAWN[pair]() if pair in DRAWN else drawn_inputs().get(pair, {})
    for name, values in made.items():
        np.save(folder / f"{name}.npy", np.ascontiguousarray(values))


@functools.cache
def drawn_inputs() -> dict[str, Arrays]:
    """By kernel, all arrays by name."""
    random = np.random.default_rng(SEED)
    found: dict[str, Arrays] = {}
    points = random.random((216 * 256, 16), dtype=np.float32)
    found["kmeans_assign"] = {"points": points, "points_by_dimension": points.T}
    found["hash_join_probe"] = _hash_table(random, slots=65536, built=36000, asked=216 * 128 * 16)
    found["graph_aggregate"] = _neighbours(random, nodes=216 * 16)
    stiff = (random.random(864 * 128) < 0.2).astype(np.int32)
    order = np.argsort(stiff, kind="stable").astype(np.int32)
    found["reaction_cells"] = {"stiff": stiff, "order": order}
    place, depth, radius = (
        random.uniform(low, high, (64, many)) for low, high, many in ((-8, 8, 2), (6, 20, 1), (0.3, 1.2, 1))
    )
    found["ray_spheres"] = {"spheres": np.concatenate([place, depth, radius], 1).astype(np.float32)}
    u, k = np.mgrid[:32, :32]
    size = np.where(k == 0, np.sqrt(1 / 32), np.sqrt(2 / 32))
    found["dct32"] = {"basis": (np.cos(np.pi * (2 * u + 1) * k / 64) * size).astype(np.float32).ravel()}
    return found | _of_round_12() | _of_round_13() | _of_round_14() | _of_round_15() | _of_rounds_16_and_17()


def _of_round_12() -> dict[str, Arrays]:
    kinds, shares = np.array([0, 1, 2], np.int32), [0.4, 0.4, 0.2]
    kind = np.random.default_rng(12).choice(kinds, size=216 * 128, p=shares).astype(np.int32)
    return {"neurons": {"kind": kind, "order": np.argsort(kind, kind="stable").astype(np.int32)}}


def _of_round_13() -> dict[str, Arrays]:
    random = np.random.default_rng(13)
    matrix = _sparse_matrix(random, rows=1 << 15)
    energies = np.unique(np.sort(20.0 * random.random(1 << 16) ** 3).astype(np.float32))
    tail = 20.0 + np.arange(1, (1 << 16) - energies.size + 1)
    grid = np.concatenate((energies, tail)).astype(np.float32)
    return {
        "spmv_csr": matrix,
        "grid_search": {"grid": grid},
        "hash_probe": _murmur_table(random, slots=1 << 16),
    }


def _sparse_matrix(random: np.random.Generator, rows: int) -> Arrays:
    """Rows of 2 to 60 entries, most of them few, and most near the diagonal."""
    lengths = np.clip(random.geometric(1 / 22, rows) + 1, 2, 60)
    row_start = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    entries, row_of = int(row_start[-1]), np.repeat(np.arange(rows), lengths)
    near = row_of + random.integers(-600, 600, entries)
    far = random.integers(0, rows, entries)
    columns = np.where(random.random(entries) < 0.85, near % rows, far)
    columns = columns[np.lexsort((columns, row_of))].astype(np.int32)
    values = random.uniform(-1, 1, entries).astype(np.float32)
    return {"row_start": row_start, "columns": columns, "values": values}


def _murmur_table(random: np.random.Generator, slots: int) -> Arrays:
    """A table with linear probing, 60 % full, of keys below the number of its slots."""
    held, values = np.full(slots, 0xFFFFFFFF, np.uint32), np.zeros(slots, np.int32)
    for key in random.permutation(slots)[: slots * 6 // 10].tolist():
        at = _murmur(key) % slots
        while held[at] != 0xFFFFFFFF:
            at = (at + 1) % slots
        held[at], values[at] = key, key * 7 + 1
    return {"slots": held, "values": values}


def _murmur(key: int) -> int:
    """The finaliser of MurmurHash3."""
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        key = (key ^ (key >> shift)) * factor & 0xFFFFFFFF
    return key


def _hash_table(random: np.random.Generator, slots: int, built: int, asked: int) -> Arrays:
    """A table with linear probing, and keys of which four in five are in it."""
    keys = random.choice(1 << 24, built, replace=False).astype(np.int32)
    slot_key, slot_value = np.full(slots, -1, np.int32), np.zeros(slots, np.int32)
    for row, key in enumerate(keys):
        hashed = (int(key) * HASH) & 0xFFFFFFFF
        slot = (hashed ^ (hashed >> 15)) & (slots - 1)
        while slot_key[slot] != -1:
            slot = (slot + 1) & (slots - 1)
        slot_key[slot], slot_value[slot] = key, row
    known = random.random(asked) < 0.8
    wanted = np.where(known, keys[random.integers(0, built, asked)], random.integers(0, 1 << 24, asked))
    return {"keys": wanted.astype(np.int32), "slot_key": slot_key, "slot_value": slot_value}


def _neighbours(random: np.random.Generator, nodes: int) -> Arrays:
    """A graph in compressed rows, whose edges are short."""
    degree = random.integers(8, 57, nodes)
    owner = np.repeat(np.arange(nodes), degree)
    neighbour = np.clip(owner + random.integers(-40, 41, len(owner)), 0, nodes - 1)
    row_start = np.concatenate([[0], np.cumsum(degree)])
    return {"row_start": row_start.astype(np.int32), "neighbour": neighbour.astype(np.int32)}


def _of_round_14() -> dict[str, Arrays]:
    random = np.random.default_rng(14)
    calls = 864 * 256 * 24
    bases = random.choice(np.arange(4), calls, p=[0.4, 0.1, 0.1, 0.4]).astype(np.uint8)
    qualities = random.choice(np.array([2, 12, 23, 37]), calls, p=[0.03, 0.07, 0.15, 0.75]).astype(np.uint8)
    stores, rows = 200, 432 * 256 * 16
    share = 1.0 / np.arange(1, stores + 1)
    store = random.permutation(stores)[random.choice(stores, rows, p=share / share.sum())].astype(np.int32)
    return {
        "quality_by_base": {"bases": bases, "qualities": qualities},
        "units_by_store": {"store": store},
    }


def _of_round_15() -> dict[str, Arrays]:
    random = np.random.default_rng(15)
    return {
        "lbm_d2q9": {"wall": _obstacles(random, width=768, height=1024)},
        "md_cell_list": _cell_list(random, cells=16, a_side=32),
        "volume_raymarch": {"volume": _clouds(random, size=96)},
        "hex8_stiffness": {"stiffness": _hexahedron()},
        "bfs_level": _skewed_graph(random, vertices=1 << 16, current=3),
        "embedding_bag": _bags(random, bags=432, rows=30_000),
    }


def _obstacles(random: np.random.Generator, width: int, height: int) -> NDArray[Any]:
    """Walls below and above, and discs between them."""
    y, x = np.mgrid[:height, :width]
    wall = (y == 0) | (y == height - 1)
    for at_x, at_y, radius in zip(
        random.uniform(0, width, 40), random.uniform(0, height, 40), random.uniform(6, 24, 40), strict=True
    ):
        wall |= (x - at_x) ** 2 + (y - at_y) ** 2 < radius**2
    walls: NDArray[Any] = wall.astype(np.uint8)
    return walls


def _cell_list(random: np.random.Generator, cells: int, a_side: int) -> Arrays:
    """Particles near the points of a lattice, in a box of cells of width 1, sorted by cell."""
    points = np.stack(np.meshgrid(*3 * [np.arange(a_side)], indexing="ij"), -1).reshape(-1, 3)
    at = ((points + 0.5) * cells / a_side + random.uniform(-0.12, 0.12, points.shape)).astype(np.float32)
    cell = at.astype(np.int32) @ np.array([1, cells, cells * cells])
    order = np.argsort(cell, kind="stable")
    starts = np.concatenate(([0], np.cumsum(np.bincount(cell, minlength=cells**3))))
    positions = np.concatenate((at[order], np.zeros((len(at), 1), np.float32)), 1)
    return {"positions": positions, "cell_start": starts.astype(np.int32)}


def _clouds(random: np.random.Generator, size: int) -> NDArray[Any]:
    """Densities of thirty soft balls and a little noise."""
    grid = np.indices((size, size, size), dtype=np.float32)
    volume = 0.05 * random.random((size, size, size), dtype=np.float32)
    for z, y, x, radius in zip(
        *random.uniform(0.1 * size, 0.9 * size, (3, 30)), random.uniform(4, 11, 30), strict=True
    ):
        volume += np.exp(-((grid[0] - z) ** 2 + (grid[1] - y) ** 2 + (grid[2] - x) ** 2) / (2 * radius**2))
    density: NDArray[Any] = np.clip(volume, 0, 1).astype(np.float32)
    return density


def _hexahedron() -> NDArray[Any]:
    """The stiffness of a unit cube of Young's modulus 1, Poisson's ratio 0.3; two Gauss points an axis."""
    young, poisson = 1.0, 0.3
    shear, first = young / (2 * (1 + poisson)), young * poisson / ((1 + poisson) * (1 - 2 * poisson))
    elastic = np.diag([2 * shear] * 3 + [shear] * 3)
    elastic[:3, :3] += first
    corners = np.array([[n & 1, n >> 1 & 1, n >> 2] for n in range(8)])
    total = np.zeros((24, 24))
    for point in np.stack(np.meshgrid(*3 * [0.5 + np.array([-1, 1]) / np.sqrt(12)]), -1).reshape(-1, 3):
        shape = np.where(corners, point, 1 - point)
        slope = np.stack([np.where(corners[:, a], 1, -1) * np.delete(shape, a, 1).prod(1) for a in range(3)])
        strain = np.zeros((6, 24))
        for row, axes in enumerate(((0,), (1,), (2,), (0, 1), (1, 2), (0, 2))):
            for axis, by in zip(axes, axes[::-1], strict=True):
                strain[row, axis::3] += slope[by]
        total += strain.T @ elastic @ strain / 8
    stiffness: NDArray[Any] = total.astype(np.float32)
    return stiffness


def _skewed_graph(random: np.random.Generator, vertices: int, current: int) -> Arrays:
    """Compressed rows with degrees by a power law, and levels of which three in ten are the current one."""
    degree = np.minimum(3 + 5 * random.pareto(1.5, vertices), 500).astype(np.int64)
    row_start = np.concatenate(([0], np.cumsum(degree))).astype(np.int32)
    neighbours = random.integers(0, vertices, int(row_start[-1])).astype(np.int32)
    levels = random.choice([current, current - 1, -1], vertices, p=[0.3, 0.2, 0.5]).astype(np.int32)
    return {"row_start": row_start, "neighbours": neighbours, "levels": levels}


def _bags(random: np.random.Generator, bags: int, rows: int) -> Arrays:
    """Bags of 64 to 192 entries, one in ten of them padding (row 0)."""
    offsets = np.concatenate(([0], np.cumsum(random.integers(64, 193, bags)))).astype(np.int32)
    indices = random.integers(1, rows, int(offsets[-1]))
    indices = np.where(random.random(len(indices)) < 0.1, 0, indices).astype(np.int32)
    return {"indices": indices, "offsets": offsets, "weights": random.random(len(indices), dtype=np.float32)}


def _of_rounds_16_and_17() -> dict[str, Arrays]:
    return {
        "eos_invert": _equation_of_state(np.random.default_rng(521), cells=405504),
        "hertz_contacts": _packed_spheres(np.random.default_rng(621), side=32),
        "document_scores": _documents(np.random.default_rng(1707), tokens=540672),
        "ring_ntt": _ring(np.random.default_rng(1712), size=1024, limbs=6, transforms=198),
    }


def _equation_of_state(random: np.random.Generator, cells: int) -> Arrays:
    """A table of energies, and cells whose temperature is sought near where it is."""
    rows, columns = np.meshgrid(np.arange(32), np.arange(64), indexing="ij")
    energy = 2.0 + 0.11 * columns + 0.02 * rows + 0.4 * np.tanh((columns - 30 - 0.4 * rows) / 5)
    density, true = random.uniform(0, 31, cells), random.uniform(1, 62, cells)
    arrays = {
        "density": density,
        "energy": 2.0 + 0.11 * true + 0.02 * density + 0.4 * np.tanh((true - 30 - 0.4 * density) / 5),
        "energy_table": energy,
        "pressure_table": 1.0 + 0.09 * columns + 0.12 * rows,
        "temperature": np.clip(true + random.normal(0, 1.5, cells), 0, 62.9),
    }
    return {name: values.astype(np.float32) for name, values in arrays.items()}


def _packed_spheres(random: np.random.Generator, side: int) -> Arrays:
    """Spheres near the places of a cubic grid, and the pairs of neighbours, each once."""
    index = np.arange(side**3)
    x, y, z = index % side, index // side % side, index // side**2
    centres = np.stack([x, y, z], axis=1) + random.uniform(-0.12, 0.12, (side**3, 3))
    radii = random.uniform(0.45, 0.53, side**3)
    velocities = np.zeros((side**3, 4))
    velocities[:, :3] = random.normal(0, 0.2, (side**3, 3))
    pairs = []
    for dz, dy, dx in np.ndindex(2, 3, 3):
        step = (int(dz), int(dy) - 1, int(dx) - 1)
        if step <= (0, 0, 0):
            continue
        in_row = (x + step[2] >= 0) & (x + step[2] < side)
        inside = in_row & (y + step[1] >= 0) & (y + step[1] < side) & (z + step[0] < side)
        first = index[inside]
        pairs.append(np.stack([first, first + step[2] + side * (step[1] + side * step[0])], axis=1))
    every = np.concatenate(pairs)
    return {
        "spheres": np.concatenate([centres, radii[:, None]], axis=1).astype(np.float32),
        "velocities": velocities.astype(np.float32),
        "pairs": every[np.lexsort((every[:, 1], every[:, 0]))].astype(np.int32),
    }


def _documents(random: np.random.Generator, tokens: int) -> Arrays:
    lengths = random.lognormal(4.8, 0.8, 8000).astype(np.int64) + 3
    token = np.minimum(random.zipf(1.3, tokens), 30000) - 1
    return {
        "document": np.repeat(np.arange(8000, dtype=np.int32), lengths)[:tokens],
        "token": token.astype(np.int32),
    }


def _ring(random: np.random.Generator, size: int, limbs: int, transforms: int) -> Arrays:
    """Primes below 2^30 with roots of unity for a transform of ``size``, in the order of reversed bits."""
    primes: list[int] = []
    candidate = (1 << 30) + 1
    while len(primes) < limbs:
        candidate -= 2 * size
        if all(candidate % d for d in range(2, int(candidate**0.5) + 1)):
            primes.append(candidate)
    places = size.bit_length() - 1
    order = [int(f"{i:0{places}b}"[::-1], 2) for i in range(size)]
    roots = np.zeros((limbs, size), np.uint32)
    for limb, prime in enumerate(primes):
        powers = (pow(g, (prime - 1) // (2 * size), prime) for g in range(2, 100))
        root = next(one for one in powers if pow(one, size, prime) == prime - 1)
        roots[limb] = [pow(root, exponent, prime) for exponent in order]
    every = np.array(primes, np.uint32)
    modulus = every[np.arange(transforms) % limbs].astype(np.int64)
    return {
        "primes": every,
        "roots": roots,
        "root_quotients": ((roots.astype(np.uint64) << np.uint64(32)) // every[:, None]).astype(np.uint32),
        "coefficients": random.integers(0, modulus[:, None], (transforms, size)).astype(np.uint32),
    }

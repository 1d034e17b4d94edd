"""The arrays of the kernels in `pairs` that no launch file makes by itself: drawn with their author's seed,
in their author's order."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

SEED: Final = 7
HASH: Final = 2654435761
"""Knuth's multiplier, as `hash_join_probe` has it."""
Arrays = dict[str, NDArray[Any]]


def write_inputs(pair: str, folder: Path) -> None:
    """Write a kernel's arrays (.npy) beside its launch files; most have none."""
    for name, values in drawn_inputs().get(pair, {}).items():
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
    return found


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

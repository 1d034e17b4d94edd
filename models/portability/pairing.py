"""Kernels that have another name on another GPU: libraries name theirs by generation, and choose other
tiles.

Two traces of one application run the same kernels in the same order. Kernels without a partner by name and
launch are paired if they look alike and keep this order. The pairs are the alignment of both sequences with
the most evidence (Needleman and Wunsch). Evidence is the name without its generation, the name without its
numbers, and being a product of matrices. It is also an equal grid and block, an equal number of launches, and
equal work: as many results of a product (its tile's times its blocks). Two that have none of the first three
in common are never paired.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from smlab.hw_bench.profiles.kernel_names import family_of, tile_of, without_generation

COVERED_APART: Final = 1.25
"""How far apart results covered by two tiles of one product may be: the outermost tiles stick out. Two
products that share their place in the order are seldom as near."""

_PRODUCT: Final = re.compile(r"gemm|cutlass|matmul", re.IGNORECASE)


@dataclass(frozen=True)
class LaunchedKernel:
    """A kernel with one launch shape of ``blocks`` on one GPU: ``row`` is its row there, ``order`` when it
    came first, ``launches`` how often it ran."""

    row: int
    name: str
    shape: str
    blocks: int
    order: float
    launches: int


@dataclass(frozen=True)
class Renamed:
    """Rows of two GPUs that are one kernel, and ``by`` what."""

    source: int
    target: int
    by: str


def pair_renamed(source: Sequence[LaunchedKernel], target: Sequence[LaunchedKernel]) -> tuple[Renamed, ...]:
    """Pair kernels without a partner, in the order in which they ran."""
    here = sorted(source, key=lambda k: (k.order, k.row))
    there = sorted(target, key=lambda k: (k.order, k.row))
    evidence = [[_evidence(a, b) for b in there] for a in here]
    best = np.zeros((len(here) + 1, len(there) + 1))
    for i in range(len(here) - 1, -1, -1):
        for j in range(len(there) - 1, -1, -1):
            score = evidence[i][j][0]
            paired = score + best[i + 1, j + 1] if score else -np.inf
            best[i, j] = max(paired, best[i + 1, j], best[i, j + 1])
    pairs = []
    i = j = 0
    while i < len(here) and j < len(there):
        score, by = evidence[i][j]
        if score and best[i, j] == score + best[i + 1, j + 1]:
            pairs.append(Renamed(here[i].row, there[j].row, by))
            i, j = i + 1, j + 1
        elif best[i, j] == best[i + 1, j]:
            i += 1
        else:
            j += 1
    return tuple(pairs)


def pair_named(
    pairs: Sequence[tuple[str, str]], source: Sequence[LaunchedKernel], target: Sequence[LaunchedKernel]
) -> tuple[Renamed, ...]:
    """Pair what a file says is one kernel: its launch shapes in the order in which they ran."""
    found = []
    for here, there in pairs:
        sides = [
            sorted((k for k in kernels if k.name.startswith(name)), key=lambda k: (k.order, k.row))
            for kernels, name in ((source, here), (target, there))
        ]
        found += [Renamed(a.row, b.row, "the file of pairs") for a, b in zip(*sides, strict=False)]
    return tuple(found)


def _evidence(a: LaunchedKernel, b: LaunchedKernel) -> tuple[float, str]:
    """How much says that two are one kernel, 0 for nothing, and in words."""
    product = bool(_PRODUCT.search(a.name)) and bool(_PRODUCT.search(b.name))
    if without_generation(a.name) == without_generation(b.name):
        score, words = 8.0, ["name without generation"]
    elif family_of(a.name) == family_of(b.name):
        score, words = 5.0, ["name without generation and numbers"]
    elif product:
        score, words = 3.0, ["both products of matrices"]
    else:
        return 0.0, ""
    if a.shape == b.shape:
        score, words = score + 2, [*words, "grid and block"]
    if _as_many_results(a, b):
        score, words = score + 2, [*words, "work"]
    if a.launches == b.launches:
        score, words = score + 2, [*words, f"{a.launches} launches"]
    return score, ", ".join([*words, "order"])


def _as_many_results(a: LaunchedKernel, b: LaunchedKernel) -> bool:
    """Whether the tiles of two products cover as many results, a tile more or less in each row of them."""
    tiles = tile_of(a.name), tile_of(b.name)
    if tiles[0] is None or tiles[1] is None:
        return False
    covered = [t.rows * t.columns * k.blocks for t, k in zip(tiles, (a, b), strict=True) if t is not None]
    return max(covered) <= COVERED_APART * min(covered)

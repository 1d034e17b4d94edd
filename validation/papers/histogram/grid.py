"""Which points the case study has: the paper's grid, and images between its two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.sim.histogram import OPERATIONS, VARIANTS
from smlab.sim.machine import machine_from
from smlab.validation.papers.histogram.images import NAMES, PAPERS

SIZES = tuple(2**k for k in range(5, 23))
"""Pixels: the powers of two from 32 to 4,194,304 (the paper gives these two ends, and no list)."""
THREADS = (32, 64, 256, 512, 1024)
LARGEST = SIZES[-1]

BETWEEN_SIZES = (2**16, 2**18, 2**20, 2**22)
"""Sizes at which the images that the paper does not have are run."""

REDUCED_SIZES = (2**8, 2**14, 2**18, 2**20)
QUICK_SIZES = (2**12, 2**17)
QUICK_THREADS = (64, 256, 1024)


@dataclass(frozen=True, order=True)
class Spec:
    """One point: what is run. ``image`` is a drawn image's name or a file's path."""

    op: str
    image: str
    pixels: int
    threads: int
    variant: str
    cache: str = "warm"
    blocks_per_sm: int = 1
    channels: str = "constant"


def operations(gpu: Gpu) -> tuple[str, ...]:
    """``add``, and ``popc-inc`` on a GPU that has it."""
    has = machine_from(gpu).atomics
    return tuple(op for op in OPERATIONS if op.replace("-", "_") in has)


def grid(
    gpu: Gpu,
    *,
    sizes: Sequence[int] = SIZES,
    threads: Sequence[int] = THREADS,
    images: Sequence[str] | None = None,
    cache: str = "warm",
    blocks_per_sm: int = 1,
    channels: str = "constant",
) -> list[Spec]:
    """The points in the order of the results: the paper's images at all sizes, then the others at
    `BETWEEN_SIZES`.

    With ``images``, those alone, at all sizes.
    """
    if images is None:
        plan = [(name, list(sizes)) for name in PAPERS]
        between = [size for size in sizes if size in BETWEEN_SIZES]
        plan += [(name, between) for name in NAMES if name not in PAPERS]
    else:
        plan = [(name, list(sizes)) for name in images]
    return [
        Spec(op, name, size, count, variant, cache, blocks_per_sm, channels)
        for op in operations(gpu)
        for name, own in plan
        for size in own
        for count in threads
        for variant in VARIANTS
    ]

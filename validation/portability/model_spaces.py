"""Spaces of tiled kernels on two described GPUs, timed in closed form: cheap enough for hundreds of pairs.

A kernel gives each thread a tile of outputs, in blocks of any shape, with switches (the first: shared memory
or caches) and factors of unrolling and vector width. Larger tiles reuse more and take registers and shared
memory; what fits an SM, the tail of the grid and the roofs of each GPU then make the times' order. Beside the
model stand what no model has: effects of switches that differ by GPU, and a factor of each configuration (its
compiled code), part of which all GPUs share.

This is a stand-in for searches that are not at hand, not a model of any kernel. What makes it one is that the
spread of its ratios (a standard deviation of the logarithm of 0.12 to 0.30) and what the old GPU's ten best
reach on the new one (0.93 of the optimum in the median) are like those of the public searches.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.random import Generator, SeedSequence, default_rng
from numpy.typing import NDArray

from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.validation.portability.search_pairs import SearchPair

Floats = NDArray[np.float64]

NVIDIA: Final = (
    *("p100", "gtx-1080-ti", "v100", "t4", "rtx-2070", "rtx-2080-ti", "a100-40", "a10", "a6000"),
    *("rtx-a4000", "rtx-3070", "rtx-3090", "rtx-4090", "l40s", "h100-pcie"),
)
LARGEST: Final = 5000


@dataclass(frozen=True)
class Card:
    """What the closed form takes of a GPU; rates are of the whole GPU, ``registers``, ``warps`` and
    ``shared_bytes`` of an SM."""

    name: str
    maker: str
    sms: float
    clock_hz: float
    fp32_per_s: float
    dram_bytes_per_s: float
    l2_bytes_per_s: float
    registers: float
    warps: float
    blocks: float
    shared_bytes: float
    schedulers: float
    shared_cycles: float
    lanes: float = 32


def card_of(gpu: Gpu) -> Card:
    """The figures of a described GPU."""
    keys = (
        *("gpu.sms", "clock.sm_hz", "peak.fp32_flops_per_s", "dram.bandwidth_bytes_per_s"),
        *("l2.bandwidth_bytes_per_s", "sm.registers", "sm.max_warps", "sm.max_blocks", "sm.shared_bytes"),
        *("sm.schedulers", "shared.interval_cycles_per_pass"),
    )
    return Card(gpu.name, "nvidia", *(float(gpu.number(key)) for key in keys))


OTHER_MAKERS: Final = (
    Card("like MI250X", "amd", 110, 1.7e9, 23.9e12, 1.6e12, 3.5e12, 131072, 32, 32, 65536, 4, 2.0, 64),
    Card("like W6600", "amd", 28, 2.3e9, 8.9e12, 0.224e12, 1.3e12, 131072, 40, 32, 65536, 4, 1.0),
    Card("like W7800", "amd", 70, 2.3e9, 45e12, 0.576e12, 3e12, 196608, 32, 32, 65536, 4, 1.0),
)
"""GPUs of another architecture, roughly: compute units, clock, rates and memory after AMD's product pages;
rates of caches are guesses."""


@dataclass(frozen=True)
class TiledKernel:
    """One kernel of the closed form; drawn by `_kernel`."""

    registers: float
    registers_per_output: float
    registers_per_unrolled: float
    flops: float
    loads: float
    halo: float
    overhead: float
    bytes_per_output: float
    outputs: float
    sharpness: float
    latency: float
    switch_effect: Floats
    switch_on: NDArray[np.int64]
    parallel: float
    own: float


def model_pair(number: int, seed: int) -> SearchPair:
    """Pair ``number``: a space, a kernel and two cards, always the same for one seed."""
    rng = default_rng(SeedSequence([seed, number]))
    config = _space(rng)
    kernel = _kernel(rng)
    cards = [*(card_of(load_gpu(name)) for name in NVIDIA), *OTHER_MAKERS]
    old, new = (cards[i] for i in rng.choice(len(cards), 2, replace=False))
    alike = rng.uniform(0.2, 0.8) if old.maker == new.maker else rng.uniform(0, 0.5)
    shared = rng.standard_normal(len(config))
    seconds = []
    for card in (old, new):
        own = np.sqrt(alike) * shared + np.sqrt(1 - alike) * rng.standard_normal(len(config))
        modelled = _seconds(kernel, config, card, rng.normal(0, 0.12, 3), rng.uniform(1, 2.5))
        seconds.append(modelled * np.exp(kernel.own * own))
    rows = np.flatnonzero(np.isfinite(seconds[0]))
    chosen = tuple(tuple(int(v) for v in config[row]) for row in rows)
    name = f"{old.name} to {new.name}, modelled kernel {number}"
    return SearchPair(name, "modelled kernels", seconds[0][rows], seconds[1][rows], chosen)


def _space(rng: Generator) -> NDArray[np.int64]:
    """Block of x and y, tile of x and y, unrolling, vector width, switches; (configurations, parameters)."""

    def some(values: tuple[int, ...], least: int) -> list[int]:
        count = int(rng.integers(least, len(values) + 1))
        return sorted(rng.choice(values, size=count, replace=False).tolist())

    tiles = [(1, 2, 3, 4, 5, 6), (1, 2, 4, 8)]
    lists = [
        some((8, 16, 24, 32, 48, 64, 96, 128, 256), 4),
        some((1, 2, 4, 8, 16, 32), 3),
        *(list(tiles[int(rng.integers(2))][: int(rng.integers(2, 5))]) for _ in range(2)),
        [1, 2, 4, 8, 16][: int(rng.integers(1, 6))],
        [1, 2, 4, 8][: int(rng.integers(1, 4))],
        *([0, 1] for _ in range(int(rng.integers(1, 4)))),
    ]
    found = np.array([c for c in itertools.product(*lists) if 32 <= c[0] * c[1] <= 1024])
    if len(found) > LARGEST:
        found = found[np.sort(rng.choice(len(found), LARGEST, replace=False))]
    return found


def _kernel(rng: Generator) -> TiledKernel:
    return TiledKernel(
        registers=rng.uniform(16, 40),
        registers_per_output=rng.uniform(1, 6),
        registers_per_unrolled=rng.uniform(0, 2),
        flops=10 ** rng.uniform(1, 3.3),
        loads=10 ** rng.uniform(0, 1.5),
        halo=rng.uniform(0, 16),
        overhead=rng.uniform(5, 60),
        bytes_per_output=10 ** rng.uniform(0, 2),
        outputs=10 ** rng.uniform(6, 7.3),
        sharpness=rng.uniform(2, 6),
        latency=rng.uniform(200, 600),
        switch_effect=rng.uniform(-0.25, 0.25, 3),
        switch_on=rng.integers(0, 4, 3),
        parallel=rng.uniform(0.3, 1),
        own=rng.uniform(0.02, 0.10),
    )


def _seconds(
    kernel: TiledKernel, config: NDArray[np.int64], card: Card, switch_effect: Floats, cache_cycles: float
) -> Floats:
    """Times of all configurations, infinite where a block does not fit an SM."""
    block_x, block_y, tile_x, tile_y, unrolled, width = config[:, :6].T.astype(np.float64)
    switches = config[:, 6:]
    outputs, block = tile_x * tile_y, block_x * block_y
    warps = np.ceil(block / card.lanes)
    in_shared = switches[:, 0] == 1
    asked = kernel.registers + kernel.registers_per_output * outputs
    asked += kernel.registers_per_unrolled * unrolled * np.sqrt(outputs) + 1.5 * width
    spilled, registers = np.maximum(0, asked - 255), np.minimum(asked, 255)
    area = (block_x * tile_x + kernel.halo) * (block_y * tile_y + kernel.halo)
    resident = np.minimum.reduce(
        [
            np.floor(card.registers / (np.ceil(registers / 8) * 8 * warps * card.lanes)),
            np.floor(card.warps / warps),
            np.full(len(config), card.blocks),
            np.where(in_shared, np.floor(card.shared_bytes / (4 * area)), card.blocks),
        ]
    )
    runs, resident = resident > 0, np.maximum(resident, 1)
    warps_in_all = kernel.outputs / outputs / card.lanes
    issued = kernel.flops * outputs / 2 + kernel.overhead * (1 + 2 / unrolled)
    issued += 2 * kernel.loads * (tile_x + tile_y) / np.sqrt(width) + 4 * spilled
    instructions = warps_in_all * issued
    requests = warps_in_all * kernel.loads * (outputs + tile_x + tile_y)
    requests /= np.where(in_shared, np.sqrt(width), 0.6 * width**0.3)
    again = area / (block * outputs) - 1
    bytes_l2 = kernel.outputs * kernel.bytes_per_output * (1 + again * np.where(in_shared, 1, 1.5))
    bytes_l2 += 8 * spilled * kernel.outputs / outputs
    bytes_dram = np.minimum(bytes_l2, kernel.outputs * kernel.bytes_per_output * (1 + 0.5 * again))
    cycles_per_s = card.sms * card.clock_hz
    in_flight = resident * warps * (1 + 0.3 * kernel.parallel * (np.minimum(outputs, 8) - 1))
    roofs = [
        instructions * card.lanes * 2 / card.fp32_per_s,
        instructions / (cycles_per_s * card.schedulers),
        requests * card.shared_cycles / cycles_per_s * np.where(in_shared, 1, cache_cycles),
        bytes_l2 / np.sqrt(np.minimum(1, block_x * width / 32)) / card.l2_bytes_per_s,
        bytes_dram / card.dram_bytes_per_s,
        instructions * kernel.latency / 8 / (cycles_per_s * in_flight),
    ]
    seconds = sum(roof**kernel.sharpness for roof in roofs) ** (1 / kernel.sharpness)
    waves = kernel.outputs / (block * outputs * resident * card.sms)
    seconds = seconds * np.minimum(np.ceil(waves) / waves, 6)
    where = (np.ones(len(config), dtype=bool), outputs > 2, warps > 4, unrolled > 2)
    for number in range(switches.shape[1]):
        acts = (switches[:, number] == 1) & where[int(kernel.switch_on[number])]
        seconds = seconds * np.exp(acts * (kernel.switch_effect[number] + switch_effect[number]))
    return np.where(runs, seconds, np.inf)
